/*
 * The calls that the benchmarks compare Rust's with, made in C by the same process. Compiled with the mpicc of
 * the MPICH that malleus was built with, and loaded at run time.
 *
 * Every function returns the time of its calls in nanoseconds, or minus the code of a call that failed.
 */
#include <mpi.h>
#include <stdint.h>
#include <time.h>

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t) time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t since(int64_t begun, int code)
{
    int64_t elapsed = now() - begun;
    return code == MPI_SUCCESS ? elapsed : -(int64_t) code;
}

/* Whether this MPI is the one that the program has initialized, and not a second one in the same process. */
int reference_initialized(void)
{
    int initialized = 0;
    return MPI_Initialized(&initialized) == MPI_SUCCESS && initialized;
}

enum flavour { CREATE, ALLOCATE, SHARED, DYNAMIC };

int64_t reference_create(int flavour, void *memory, MPI_Aint bytes, MPI_Comm comm, MPI_Win *win)
{
    void *base;
    int code = MPI_ERR_ARG;
    int64_t begun = now();
    switch (flavour) {
        case CREATE:
            code = MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, comm, win);
            break;
        case ALLOCATE:
            code = MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, comm, &base, win);
            break;
        case SHARED:
            code = MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, comm, &base, win);
            break;
        case DYNAMIC:
            code = MPI_Win_create_dynamic(MPI_INFO_NULL, comm, win);
            break;
    }
    return since(begun, code);
}

int64_t reference_attach(MPI_Win *win, void *memory, MPI_Aint bytes)
{
    int64_t begun = now();
    return since(begun, MPI_Win_attach(*win, memory, bytes));
}

int64_t reference_free(MPI_Win *win)
{
    int64_t begun = now();
    return since(begun, MPI_Win_free(win));
}

int64_t reference_barrier(MPI_Comm comm)
{
    int64_t begun = now();
    return since(begun, MPI_Barrier(comm));
}

int64_t reference_dup(MPI_Comm comm, MPI_Comm *dup)
{
    int64_t begun = now();
    return since(begun, MPI_Comm_dup(comm, dup));
}

int64_t reference_allgather(const void *send, void *receive, int bytes, MPI_Comm comm)
{
    int64_t begun = now();
    return since(begun, MPI_Allgather(send, bytes, MPI_BYTE, receive, bytes, MPI_BYTE, comm));
}

/* What Rust's Window::create_raw and Window::free call, one after the other. */
int64_t reference_window(double *memory, MPI_Aint count, MPI_Comm comm)
{
    MPI_Win win;
    int64_t begun = now();
    int code = MPI_Win_create(memory, count * (MPI_Aint) sizeof(double), sizeof(double), MPI_INFO_NULL, comm, &win);
    if (code == MPI_SUCCESS)
        code = MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    int64_t elapsed = since(begun, code);
    if (code == MPI_SUCCESS)
        code = MPI_Win_free(&win);
    return code == MPI_SUCCESS ? elapsed : -(int64_t) code;
}

int64_t reference_lock_all_rget(MPI_Win win, double *buffer, int count, int rank, int repeats)
{
    int code = MPI_SUCCESS;
    int64_t begun = now();
    for (int i = 0; i < repeats && code == MPI_SUCCESS; i++) {
        MPI_Request request;
        code = MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
        if (code == MPI_SUCCESS)
            code = MPI_Rget(buffer, count, MPI_DOUBLE, rank, 0, count, MPI_DOUBLE, win, &request);
        if (code == MPI_SUCCESS)
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS)
            code = MPI_Win_unlock_all(win);
    }
    return since(begun, code);
}

/* Inside an epoch that the caller has opened. */
int64_t reference_put_flush(MPI_Win win, const double *buffer, int count, int rank, int repeats)
{
    int code = MPI_SUCCESS;
    int64_t begun = now();
    for (int i = 0; i < repeats && code == MPI_SUCCESS; i++) {
        code = MPI_Put(buffer, count, MPI_DOUBLE, rank, 0, count, MPI_DOUBLE, win);
        if (code == MPI_SUCCESS)
            code = MPI_Win_flush(rank, win);
    }
    return since(begun, code);
}

int64_t reference_alltoall_init(const double *send, double *receive, int count, MPI_Comm comm, MPI_Request *request)
{
    int64_t begun = now();
    return since(begun, MPI_Alltoall_init(send, count, MPI_DOUBLE, receive, count, MPI_DOUBLE, comm, MPI_INFO_NULL,
                                          request));
}

int64_t reference_start_wait(MPI_Request *request, int repeats)
{
    int code = MPI_SUCCESS;
    int64_t begun = now();
    for (int i = 0; i < repeats && code == MPI_SUCCESS; i++) {
        code = MPI_Start(request);
        if (code == MPI_SUCCESS)
            code = MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    return since(begun, code);
}

int64_t reference_request_free(MPI_Request *request)
{
    int64_t begun = now();
    return since(begun, MPI_Request_free(request));
}
