/*
 * What bindgen reads: MPICH's own header, and what bindgen cannot take from it.
 *
 * MPICH's handles are integer casts in macros, whose type bindgen loses, and
 * its sentinels are pointer casts, which it drops. A handle becomes a typed
 * constant here, a sentinel an enumerator that holds its address (src/sys.rs
 * turns it into a pointer). Plain integer macros need no line: bindgen
 * evaluates them itself.
 *
 * Everything here must compile on MPICH 4.0 to 5.0.
 */
#include <mpi.h>
#include <stdint.h>

static const MPI_Comm MALLEUS_COMM_NULL = MPI_COMM_NULL;
static const MPI_Comm MALLEUS_COMM_WORLD = MPI_COMM_WORLD;
static const MPI_Comm MALLEUS_COMM_SELF = MPI_COMM_SELF;

static const MPI_Group MALLEUS_GROUP_NULL = MPI_GROUP_NULL;
static const MPI_Group MALLEUS_GROUP_EMPTY = MPI_GROUP_EMPTY;

static const MPI_Info MALLEUS_INFO_NULL = MPI_INFO_NULL;
static const MPI_Info MALLEUS_INFO_ENV = MPI_INFO_ENV;

static const MPI_Request MALLEUS_REQUEST_NULL = MPI_REQUEST_NULL;

static const MPI_Message MALLEUS_MESSAGE_NULL = MPI_MESSAGE_NULL;
static const MPI_Message MALLEUS_MESSAGE_NO_PROC = MPI_MESSAGE_NO_PROC;

static const MPI_Win MALLEUS_WIN_NULL = MPI_WIN_NULL;

static const MPI_Session MALLEUS_SESSION_NULL = MPI_SESSION_NULL;

static const MPI_Errhandler MALLEUS_ERRHANDLER_NULL = MPI_ERRHANDLER_NULL;
static const MPI_Errhandler MALLEUS_ERRORS_ARE_FATAL = MPI_ERRORS_ARE_FATAL;
static const MPI_Errhandler MALLEUS_ERRORS_ABORT = MPI_ERRORS_ABORT;
static const MPI_Errhandler MALLEUS_ERRORS_RETURN = MPI_ERRORS_RETURN;

static const MPI_Op MALLEUS_OP_NULL = MPI_OP_NULL;
static const MPI_Op MALLEUS_MAX = MPI_MAX;
static const MPI_Op MALLEUS_MIN = MPI_MIN;
static const MPI_Op MALLEUS_SUM = MPI_SUM;
static const MPI_Op MALLEUS_PROD = MPI_PROD;
static const MPI_Op MALLEUS_LAND = MPI_LAND;
static const MPI_Op MALLEUS_BAND = MPI_BAND;
static const MPI_Op MALLEUS_LOR = MPI_LOR;
static const MPI_Op MALLEUS_BOR = MPI_BOR;
static const MPI_Op MALLEUS_LXOR = MPI_LXOR;
static const MPI_Op MALLEUS_BXOR = MPI_BXOR;
static const MPI_Op MALLEUS_MINLOC = MPI_MINLOC;
static const MPI_Op MALLEUS_MAXLOC = MPI_MAXLOC;
static const MPI_Op MALLEUS_REPLACE = MPI_REPLACE;
static const MPI_Op MALLEUS_NO_OP = MPI_NO_OP;

static const MPI_Datatype MALLEUS_DATATYPE_NULL = MPI_DATATYPE_NULL;
static const MPI_Datatype MALLEUS_BYTE = MPI_BYTE;
static const MPI_Datatype MALLEUS_PACKED = MPI_PACKED;
static const MPI_Datatype MALLEUS_CHAR = MPI_CHAR;
static const MPI_Datatype MALLEUS_SIGNED_CHAR = MPI_SIGNED_CHAR;
static const MPI_Datatype MALLEUS_UNSIGNED_CHAR = MPI_UNSIGNED_CHAR;
static const MPI_Datatype MALLEUS_WCHAR = MPI_WCHAR;
static const MPI_Datatype MALLEUS_SHORT = MPI_SHORT;
static const MPI_Datatype MALLEUS_UNSIGNED_SHORT = MPI_UNSIGNED_SHORT;
static const MPI_Datatype MALLEUS_INT = MPI_INT;
static const MPI_Datatype MALLEUS_UNSIGNED = MPI_UNSIGNED;
static const MPI_Datatype MALLEUS_LONG = MPI_LONG;
static const MPI_Datatype MALLEUS_UNSIGNED_LONG = MPI_UNSIGNED_LONG;
static const MPI_Datatype MALLEUS_LONG_LONG = MPI_LONG_LONG;
static const MPI_Datatype MALLEUS_UNSIGNED_LONG_LONG = MPI_UNSIGNED_LONG_LONG;
static const MPI_Datatype MALLEUS_FLOAT = MPI_FLOAT;
static const MPI_Datatype MALLEUS_DOUBLE = MPI_DOUBLE;
static const MPI_Datatype MALLEUS_LONG_DOUBLE = MPI_LONG_DOUBLE;
static const MPI_Datatype MALLEUS_INT8_T = MPI_INT8_T;
static const MPI_Datatype MALLEUS_INT16_T = MPI_INT16_T;
static const MPI_Datatype MALLEUS_INT32_T = MPI_INT32_T;
static const MPI_Datatype MALLEUS_INT64_T = MPI_INT64_T;
static const MPI_Datatype MALLEUS_UINT8_T = MPI_UINT8_T;
static const MPI_Datatype MALLEUS_UINT16_T = MPI_UINT16_T;
static const MPI_Datatype MALLEUS_UINT32_T = MPI_UINT32_T;
static const MPI_Datatype MALLEUS_UINT64_T = MPI_UINT64_T;
static const MPI_Datatype MALLEUS_C_BOOL = MPI_C_BOOL;
static const MPI_Datatype MALLEUS_C_FLOAT_COMPLEX = MPI_C_FLOAT_COMPLEX;
static const MPI_Datatype MALLEUS_C_DOUBLE_COMPLEX = MPI_C_DOUBLE_COMPLEX;
static const MPI_Datatype MALLEUS_C_LONG_DOUBLE_COMPLEX = MPI_C_LONG_DOUBLE_COMPLEX;
static const MPI_Datatype MALLEUS_AINT = MPI_AINT;
static const MPI_Datatype MALLEUS_OFFSET = MPI_OFFSET;
static const MPI_Datatype MALLEUS_COUNT = MPI_COUNT;
static const MPI_Datatype MALLEUS_FLOAT_INT = MPI_FLOAT_INT;
static const MPI_Datatype MALLEUS_DOUBLE_INT = MPI_DOUBLE_INT;
static const MPI_Datatype MALLEUS_LONG_INT = MPI_LONG_INT;
static const MPI_Datatype MALLEUS_SHORT_INT = MPI_SHORT_INT;
static const MPI_Datatype MALLEUS_2INT = MPI_2INT;
static const MPI_Datatype MALLEUS_LONG_DOUBLE_INT = MPI_LONG_DOUBLE_INT;

/* Enumerators, which bindgen makes unsigned; the window attributes are int. */
static const int MALLEUS_WIN_FLAVOR_CREATE = MPI_WIN_FLAVOR_CREATE;
static const int MALLEUS_WIN_FLAVOR_ALLOCATE = MPI_WIN_FLAVOR_ALLOCATE;
static const int MALLEUS_WIN_FLAVOR_DYNAMIC = MPI_WIN_FLAVOR_DYNAMIC;
static const int MALLEUS_WIN_FLAVOR_SHARED = MPI_WIN_FLAVOR_SHARED;
static const int MALLEUS_WIN_SEPARATE = MPI_WIN_SEPARATE;
static const int MALLEUS_WIN_UNIFIED = MPI_WIN_UNIFIED;

enum {
    MALLEUS_BOTTOM = (intptr_t)(MPI_BOTTOM),
    MALLEUS_IN_PLACE = (intptr_t)(MPI_IN_PLACE),
    MALLEUS_STATUS_IGNORE = (intptr_t)(MPI_STATUS_IGNORE),
    MALLEUS_STATUSES_IGNORE = (intptr_t)(MPI_STATUSES_IGNORE),
    MALLEUS_ERRCODES_IGNORE = (intptr_t)(MPI_ERRCODES_IGNORE),
    MALLEUS_ARGV_NULL = (intptr_t)(MPI_ARGV_NULL),
    MALLEUS_ARGVS_NULL = (intptr_t)(MPI_ARGVS_NULL),
    MALLEUS_FILE_NULL = (intptr_t)(MPI_FILE_NULL)
};

/*
 * MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY need no line either: they are variables
 * of the library (`extern int * const`) in every MPICH from 4.0 to 5.0.
 */
