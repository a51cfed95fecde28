/*
 * Malleus: MPI jobs that change their number of processes while they run.
 *
 * The program initializes MPI, starts a job, registers its arrays, and comes to a checkpoint each iteration.
 * There the job may grow or shrink, and the arrays move. ffi/examples/grow_and_shrink.c shows all of it.
 *
 *     mpicc main.c $(pkg-config --cflags --static --libs malleus)
 *
 * A function returns a number of malleus_result; malleus_last_error tells more. A NULL pointer gives
 * MALLEUS_ERROR_NULL, except where NULL is said to be allowed. A pointer that is "owned" has to be given
 * back, one that is "borrowed" must not be freed. A job and its arrays belong to the thread that started
 * the job.
 *
 * Generated from src/capi by `make header`: change it there.
 */

#ifndef MALLEUS_H
#define MALLEUS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * What a function came to. The numbers never change; new ones may come.
 */
typedef enum {
  /**
   * It was done.
   */
  MALLEUS_OK = 0,
  /**
   * A pointer is NULL.
   */
  MALLEUS_ERROR_NULL = 1,
  /**
   * Another argument is not what it may be.
   */
  MALLEUS_ERROR_ARGUMENT = 2,
  /**
   * Something in Malleus is broken: a panic. From malleus_job_start on, a panic ends the whole MPI job
   * instead.
   */
  MALLEUS_ERROR_PANIC = 3,
  /**
   * The handle belongs to another thread: the one that started the job.
   */
  MALLEUS_ERROR_THREAD = 4,
  /**
   * The handle is in use by the call that has called back.
   */
  MALLEUS_ERROR_BUSY = 5,
  /**
   * MPI is not initialized, or finalized already, or another library than the one built for.
   */
  MALLEUS_ERROR_STATE = 6,
  /**
   * The job has ended on this process.
   */
  MALLEUS_ERROR_ENDED = 7,
  /**
   * An MPI call failed.
   */
  MALLEUS_ERROR_MPI = 20,
  /**
   * There is no memory for an array.
   */
  MALLEUS_ERROR_MEMORY = 21,
  /**
   * An array could not be moved.
   */
  MALLEUS_ERROR_REDISTRIBUTE = 22,
  /**
   * The name is registered already.
   */
  MALLEUS_ERROR_NAME_TAKEN = 23,
  /**
   * A process that joined asks for something that the job has not registered.
   */
  MALLEUS_ERROR_UNKNOWN_NAME = 24,
  /**
   * A process that joined registers an array in another way than the others did.
   */
  MALLEUS_ERROR_MISMATCH = 25,
  /**
   * A constant array has its contents already.
   */
  MALLEUS_ERROR_CONSTANT = 26,
  /**
   * The resize was not done; the job is as it was before, and goes on.
   */
  MALLEUS_ERROR_ABANDONED = 27,
  /**
   * The resize was not done, since a checksum differs; the job is as it was before, and goes on.
   */
  MALLEUS_ERROR_VERIFICATION = 28,
  /**
   * A lean resize failed halfway; the job can't go on.
   */
  MALLEUS_ERROR_LOST = 29,
  /**
   * A process could not be parked or woken.
   */
  MALLEUS_ERROR_PARKING = 30,
  /**
   * Anything else; malleus_last_error says what.
   */
  MALLEUS_ERROR_OTHER = 99,
} malleus_result;

/**
 * What a checkpoint came to.
 */
typedef enum {
  /**
   * The job goes on as it is.
   */
  MALLEUS_CONTINUE = 0,
  /**
   * The job has another size now: communicator, rank, size and all data pointers are new. A process that
   * slept in between has a new iteration as well.
   */
  MALLEUS_SWITCHED = 1,
  /**
   * This process has left the job: leave the loop, then malleus_job_end and MPI_Finalize.
   */
  MALLEUS_LEFT = 2,
} malleus_checkpoint;

/**
 * How the data of a resize moves.
 */
typedef enum {
  /**
   * MPI_Alltoallv for each array.
   */
  MALLEUS_COLLECTIVE = 0,
  /**
   * A window for each array, a lock for each source.
   */
  MALLEUS_RMA_LOCK = 1,
  /**
   * A window for each array, MPI_Win_lock_all.
   */
  MALLEUS_RMA_LOCK_ALL = 2,
  /**
   * MPI_Isend and MPI_Irecv for each piece of an array.
   */
  MALLEUS_POINT_TO_POINT = 3,
} malleus_method;

/**
 * When the data of a resize moves. With another one than MALLEUS_BLOCKING, constant arrays move while the
 * program goes on, checkpoints give MALLEUS_CONTINUE meanwhile, and all others move at the switch; MPI has to be
 * initialized with MPI_THREAD_MULTIPLE.
 */
typedef enum {
  /**
   * At once.
   */
  MALLEUS_BLOCKING = 0,
  /**
   * A thread on each rank moves it; not with MALLEUS_POINT_TO_POINT.
   */
  MALLEUS_THREADING = 1,
  /**
   * Each checkpoint tests it; not with one-sided methods.
   */
  MALLEUS_NON_BLOCKING = 2,
  /**
   * The same, and a barrier tells that all targets have it.
   */
  MALLEUS_WAIT_TARGETS = 3,
  /**
   * The same, with so many reads between two checkpoints that these come a third later, and not all at once; with
   * one-sided methods only.
   */
  MALLEUS_PACED = 4,
} malleus_strategy;

/**
 * The types of elements.
 */
typedef enum {
  /**
   * int8_t
   */
  MALLEUS_INT8 = 1,
  /**
   * uint8_t
   */
  MALLEUS_UINT8 = 2,
  /**
   * int16_t
   */
  MALLEUS_INT16 = 3,
  /**
   * uint16_t
   */
  MALLEUS_UINT16 = 4,
  /**
   * int32_t
   */
  MALLEUS_INT32 = 5,
  /**
   * uint32_t
   */
  MALLEUS_UINT32 = 6,
  /**
   * int64_t
   */
  MALLEUS_INT64 = 7,
  /**
   * uint64_t
   */
  MALLEUS_UINT64 = 8,
  /**
   * float
   */
  MALLEUS_FLOAT = 9,
  /**
   * double
   */
  MALLEUS_DOUBLE = 10,
} malleus_type;

/**
 * A distributed array. Borrowed from its job, and gone with it.
 */
typedef struct malleus_array malleus_array;

/**
 * A job that can change its number of processes at its checkpoints. Owned: it goes back to malleus_job_end.
 */
typedef struct malleus_job malleus_job;

/**
 * Called on every rank before a resize moves data, with the communicator that it ends. Collective calls on
 * it are allowed: free here what you made out of it, and make it again after the checkpoint, also where that
 * says that the resize was abandoned. No call to Malleus with the job is allowed.
 */
typedef void (*malleus_before_switch)(void *context, MPI_Comm communicator);

/**
 * How a job behaves; the same on every rank. All zero is the default. It is only read.
 */
typedef struct {
  /**
   * When to resize: "ITERATION:PROCESSES,…", such as "10:2,20:1"; NULL or empty for never.
   */
  const char *script;
  /**
   * One of malleus_method.
   */
  int method;
  /**
   * One of malleus_strategy.
   */
  int strategy;
  /**
   * Whether each array's checksum is compared before and after a resize.
   */
  bool verify;
  /**
   * Whether arrays move one at a time, to save memory. A failure after the first then ends the job.
   */
  bool lean;
  /**
   * Called before each switch; may be NULL.
   */
  malleus_before_switch before_switch;
  /**
   * For before_switch.
   */
  void *context;
} malleus_options;

/**
 * Gives the bytes of one element, of which `element` counts this rank's from 0 on, and their number in `*size`. They have
 * to stay as they are until the next call. No call to Malleus with the job is allowed.
 */
typedef const void *(*malleus_pack)(void *context, size_t element, size_t *size);

/**
 * The program's elements become these, in place of those that they were: `count` of them, the first with the global index
 * `start`. `bytes` has the `sizes[0]` bytes of the first, then the `sizes[1]` of the next, and so on. On a process that
 * leaves the job, `count` is 0. Something else than 0 says that it is not possible, which ends the job. No call to
 * Malleus with the job is allowed.
 */
typedef int (*malleus_unpack)(void *context,
                              uint64_t start,
                              size_t count,
                              const size_t *sizes,
                              const void *bytes);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The name of a result, such as "MALLEUS_ERROR_NULL"; "unknown" for another number. Lives for ever.
 */
const char *malleus_result_name(int result);

/**
 * Whether the job goes on with its old size after a malleus_job_checkpoint with this result. It is the
 * same on every rank.
 */
bool malleus_result_leaves_job_whole(int result);

/**
 * The version of Malleus, such as "0.1.0". Lives for ever.
 */
const char *malleus_version(void);

/**
 * What went wrong in the last call of this thread that failed; never NULL, empty if none did. Borrowed:
 * it lives until the next call that fails on this thread.
 */
const char *malleus_last_error(void);

/**
 * Sets what MPICH reads from the environment when it starts, unless the user has set it: the libfabric
 * provider tcp where the node has no fabric device, and how many messages that it keeps, ofi where there is a choice,
 * heavy yield where ranks share cores. To be called before MPI_Init, and before there are threads. Without it, MPICH 4.2's own choice on a
 * node without a fabric device is the provider sockets, with which a process that parks can hang, and a job whose
 * rank 0 runs ahead of the others can hang with tcp where data moves in the background.
 */
malleus_result malleus_prepare(void);

/**
 * Starts a job on the processes of MPI_COMM_WORLD, or joins the one that has started this process: that one
 * comes here by itself, since it runs the same program with the same arguments. Collective over
 * MPI_COMM_WORLD.
 *
 * MPI has to be initialized, best with MPI_THREAD_MULTIPLE; its error handlers are left alone. `options` may
 * be NULL. `*job` is owned: give it to malleus_job_end.
 *
 * A process that joins, and whose resize is abandoned in the meantime, is not needed: it finalizes MPI and
 * exits in this call, with status 0. From here on, a panic in Malleus ends the whole MPI job.
 *
 * # Safety
 *
 * `options` is NULL or valid; `job` may be written.
 */
malleus_result malleus_job_start(const malleus_options *options, malleus_job **job);

/**
 * Ends an iteration: the only place where the job can change its size. Collective over the job. If it does,
 * all arrays have moved when this returns; on a process that leaves it may return much later, since such a
 * process sleeps in here until the job needs it again (MALLEUS_SWITCHED) or ends (MALLEUS_LEFT).
 *
 * Where a resize can't be done, the job goes on with its old size: see malleus_result_leaves_job_whole, and
 * malleus_job_resizes. After any other error it can't go on.
 *
 * # Safety
 *
 * `job` comes from malleus_job_start; `outcome` may be written.
 */
malleus_result malleus_job_checkpoint(malleus_job *job, malleus_checkpoint *outcome);

/**
 * Ends the job, and frees it and its arrays, whatever the result is. Collective over the job, those that
 * have left included. MPI_Finalize comes after it.
 *
 * # Safety
 *
 * `job` comes from malleus_job_start and is not used again; nor are its arrays.
 */
malleus_result malleus_job_end(malleus_job *job);

/**
 * This process's rank in the job.
 *
 * # Safety
 *
 * `job` comes from malleus_job_start; `rank` may be written.
 */
malleus_result malleus_job_rank(const malleus_job *job, int *rank);

/**
 * The number of processes of the job.
 *
 * # Safety
 *
 * `job` comes from malleus_job_start; `size` may be written.
 */
malleus_result malleus_job_size(const malleus_job *job, int *size);

/**
 * The number of checkpoints that the job has passed; the same on every rank, those that joined included.
 *
 * # Safety
 *
 * `job` comes from malleus_job_start; `iteration` may be written.
 */
malleus_result malleus_job_iteration(const malleus_job *job, uint64_t *iteration);

/**
 * Whether this process was there when the job started, so that it has to fill its arrays.
 *
 * # Safety
 *
 * `job` comes from malleus_job_start; `first` may be written.
 */
malleus_result malleus_job_is_first_start(const malleus_job *job, bool *first);

/**
 * The communicator of the job's processes. Borrowed: don't free it, don't change its error handler; a
 * resize replaces it.
 *
 * # Safety
 *
 * `job` comes from malleus_job_start; `communicator` may be written.
 */
malleus_result malleus_job_communicator(const malleus_job *job, MPI_Comm *communicator);

/**
 * How many resizes were done while this process was part of the job, and how many were refused or
 * abandoned. Rank 0 knows all.
 *
 * # Safety
 *
 * `job` comes from malleus_job_start; the others may be written.
 */
malleus_result malleus_job_resizes(const malleus_job *job, uint64_t *done, uint64_t *refused);

/**
 * Registers an array of `length` elements in all, in equal blocks, the remainder to the first ranks. Every
 * rank registers the same, in any order, before its first malleus_job_checkpoint.
 *
 * New elements are zero; on a process that joined, the array has its contents. An array that is `constant`
 * is written once, where the job starts, and only read afterwards.
 *
 * `type` is one of malleus_type. `*array` is borrowed from the job: malleus_job_end frees it.
 *
 * # Safety
 *
 * `job` comes from malleus_job_start; `name` is a C string; `array` may be written.
 */
malleus_result malleus_array_block(malleus_job *job,
                                   const char *name,
                                   int type,
                                   uint64_t length,
                                   bool constant,
                                   malleus_array **array);

/**
 * Registers an array whose elements are of an MPI datatype, such as one of MPI_Type_create_struct; otherwise as
 * malleus_array_block. An element takes the datatype's extent in memory, and moves with the gaps that it may have; its
 * data has to lie inside the extent, which begins at 0. The datatype may be freed afterwards.
 *
 * # Safety
 *
 * `job` comes from malleus_job_start; `name` is a C string; `datatype` is a datatype; `array` may be written.
 */
malleus_result malleus_array_block_of(malleus_job *job,
                                      const char *name,
                                      MPI_Datatype datatype,
                                      uint64_t length,
                                      bool constant,
                                      malleus_array **array);

/**
 * Registers `elements` elements in all that the program keeps in a form of its own, in equal blocks, the remainder to
 * the first ranks: lists of different lengths, trees, and others that an array can't hold. `pack` is called for each of
 * this rank's elements before they move, and `unpack` afterwards, inside of malleus_job_checkpoint.
 *
 * `constant` elements have to be there already, where the job starts: they are packed once, in here. On a process that
 * joined, `unpack` is called in here. `context` is for both functions.
 *
 * `*array` is borrowed from the job: malleus_job_end frees it. malleus_array_read tells which elements this rank has;
 * its data is NULL.
 *
 * # Safety
 *
 * `job` comes from malleus_job_start; `name` is a C string; the functions and their context can be used until
 * malleus_job_end; `array` may be written.
 */
malleus_result malleus_array_packed(malleus_job *job,
                                    const char *name,
                                    uint64_t elements,
                                    bool constant,
                                    malleus_pack pack,
                                    malleus_unpack unpack,
                                    void *context,
                                    malleus_array **array);

/**
 * This rank's block of an array, for reading and writing: `*length` elements, the first of which has the
 * global index `*start`. `*data` is borrowed; it is invalid after a malleus_job_checkpoint that gives
 * something else than MALLEUS_CONTINUE.
 *
 * A constant array is lent like this once, where the job starts, and filled then; after that, and on a
 * process that joined, this is MALLEUS_ERROR_CONSTANT: use malleus_array_read.
 *
 * # Safety
 *
 * `array` comes from malleus_array_block, and its job has not ended; the others may be written.
 */
malleus_result malleus_array_data(malleus_array *array, void **data, size_t *length, uint64_t *start);

/**
 * This rank's block of an array, for reading; otherwise as malleus_array_data.
 *
 * # Safety
 *
 * `array` comes from malleus_array_block, and its job has not ended; the others may be written.
 */
malleus_result malleus_array_read(const malleus_array *array,
                                  const void **data,
                                  size_t *length,
                                  uint64_t *start);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MALLEUS_H */
