/* What a C program can do wrong, and what it is told then: tests/static_library.rs runs this. */
#include <malleus.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The numbers never change. */
#define PINNED(name, number) _Static_assert((int)(name) == (number), #name)
PINNED(MALLEUS_OK, 0);
PINNED(MALLEUS_ERROR_NULL, 1);
PINNED(MALLEUS_ERROR_ARGUMENT, 2);
PINNED(MALLEUS_ERROR_PANIC, 3);
PINNED(MALLEUS_ERROR_THREAD, 4);
PINNED(MALLEUS_ERROR_BUSY, 5);
PINNED(MALLEUS_ERROR_STATE, 6);
PINNED(MALLEUS_ERROR_ENDED, 7);
PINNED(MALLEUS_ERROR_MPI, 20);
PINNED(MALLEUS_ERROR_MEMORY, 21);
PINNED(MALLEUS_ERROR_REDISTRIBUTE, 22);
PINNED(MALLEUS_ERROR_NAME_TAKEN, 23);
PINNED(MALLEUS_ERROR_UNKNOWN_NAME, 24);
PINNED(MALLEUS_ERROR_MISMATCH, 25);
PINNED(MALLEUS_ERROR_CONSTANT, 26);
PINNED(MALLEUS_ERROR_ABANDONED, 27);
PINNED(MALLEUS_ERROR_VERIFICATION, 28);
PINNED(MALLEUS_ERROR_LOST, 29);
PINNED(MALLEUS_ERROR_PARKING, 30);
PINNED(MALLEUS_ERROR_OTHER, 99);
PINNED(MALLEUS_INT8, 1);
PINNED(MALLEUS_UINT8, 2);
PINNED(MALLEUS_INT16, 3);
PINNED(MALLEUS_UINT16, 4);
PINNED(MALLEUS_INT32, 5);
PINNED(MALLEUS_UINT32, 6);
PINNED(MALLEUS_INT64, 7);
PINNED(MALLEUS_UINT64, 8);
PINNED(MALLEUS_FLOAT, 9);
PINNED(MALLEUS_DOUBLE, 10);
PINNED(MALLEUS_COLLECTIVE, 0);
PINNED(MALLEUS_RMA_LOCK, 1);
PINNED(MALLEUS_RMA_LOCK_ALL, 2);
PINNED(MALLEUS_POINT_TO_POINT, 3);
PINNED(MALLEUS_BLOCKING, 0);
PINNED(MALLEUS_THREADING, 1);
PINNED(MALLEUS_NON_BLOCKING, 2);
PINNED(MALLEUS_WAIT_TARGETS, 3);
PINNED(MALLEUS_PACED, 4);
PINNED(MALLEUS_CONTINUE, 0);
PINNED(MALLEUS_SWITCHED, 1);
PINNED(MALLEUS_LEFT, 2);

static void expect(int line, const char *call, int result, int expected, const char *text)
{
    if (result == expected && strstr(malleus_last_error(), text) != NULL)
        return;
    fprintf(stderr, "line %d: %s gave %s (\"%s\"), expected %s (\"…%s…\")\n", line, call,
            malleus_result_name(result), malleus_last_error(), malleus_result_name(expected), text);
    exit(1);
}

#define EXPECT(call, expected, text) expect(__LINE__, #call, call, expected, text)
#define OK(call) expect(__LINE__, #call, call, MALLEUS_OK, "")

static malleus_job *job;
static malleus_array *array;
static int called;

static void *elsewhere(void *unused)
{
    int rank;
    void *data;
    size_t length;
    uint64_t start;

    (void)unused;
    EXPECT(malleus_job_rank(job, &rank), MALLEUS_ERROR_THREAD, "the thread that started the job");
    EXPECT(malleus_array_data(array, &data, &length, &start), MALLEUS_ERROR_THREAD, "thread");
    EXPECT(malleus_job_end(job), MALLEUS_ERROR_THREAD, "thread");
    return NULL;
}

static void before_switch(void *context, MPI_Comm communicator)
{
    int size, expected = *(int *)context;

    EXPECT(malleus_job_size(job, &size), MALLEUS_ERROR_BUSY, "called back");
    EXPECT(malleus_job_end(job), MALLEUS_ERROR_BUSY, "called back");
    MPI_Barrier(communicator);
    MPI_Comm_size(communicator, &size);
    if (size != expected) {
        fprintf(stderr, "before_switch has a communicator of %d, not of %d\n", size, expected);
        exit(1);
    }
    called++;
}

static const void *pack(void *context, size_t element, size_t *size)
{
    int rank;

    (void)element;
    EXPECT(malleus_job_rank(job, &rank), MALLEUS_ERROR_BUSY, "called back");
    *size = sizeof(int);
    return context;
}

static int unpack(void *context, uint64_t start, size_t count, const size_t *sizes, const void *bytes)
{
    (void)context, (void)start, (void)count, (void)sizes, (void)bytes;
    return 0;
}

/* Runs on two ranks, and shrinks to one. */
int main(int argc, char **argv)
{
    static const int types[] = {MALLEUS_INT8,   MALLEUS_UINT8, MALLEUS_INT16,  MALLEUS_UINT16, MALLEUS_INT32,
                                MALLEUS_UINT32, MALLEUS_INT64, MALLEUS_UINT64, MALLEUS_FLOAT,  MALLEUS_DOUBLE};
    int two = 2, rank, size, i, provided, world_rank;
    malleus_options options = {0};
    malleus_checkpoint outcome;
    malleus_array *constant, *other;
    MPI_Datatype column, nothing;
    MPI_Comm communicator;
    MPI_Errhandler before, after;
    pthread_t thread;
    uint64_t start, iteration, done, refused;
    size_t length;
    void *data;
    const void *read;
    bool first;
    char name[16];

    if (strcmp(malleus_last_error(), "") != 0)
        return 1;
    EXPECT(malleus_job_start(NULL, NULL), MALLEUS_ERROR_NULL, "job is NULL");
    EXPECT(malleus_job_start(NULL, &job), MALLEUS_ERROR_STATE, "MPI is not initialized");

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);

    options.script = "three:2";
    EXPECT(malleus_job_start(&options, &job), MALLEUS_ERROR_ARGUMENT, "the script: ");
    options.script = "\xff";
    EXPECT(malleus_job_start(&options, &job), MALLEUS_ERROR_ARGUMENT, "UTF-8");
    options.script = "2:1";
    options.method = 7;
    EXPECT(malleus_job_start(&options, &job), MALLEUS_ERROR_ARGUMENT, "method 7");
    options.method = MALLEUS_RMA_LOCK;
    options.strategy = 9;
    EXPECT(malleus_job_start(&options, &job), MALLEUS_ERROR_ARGUMENT, "strategy 9");
    options.strategy = MALLEUS_NON_BLOCKING;
    EXPECT(malleus_job_start(&options, &job), MALLEUS_ERROR_ARGUMENT, "strategy 2 does not go with method 1");
    options.strategy = MALLEUS_BLOCKING;
    options.method = MALLEUS_COLLECTIVE;
    options.before_switch = before_switch;
    options.context = &two;
    OK(malleus_job_start(&options, &job));
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
    if (before != after) {
        fprintf(stderr, "the error handler of MPI_COMM_WORLD was changed\n");
        return 1;
    }

    EXPECT(malleus_array_block(NULL, "a", MALLEUS_DOUBLE, 10, false, &array), MALLEUS_ERROR_NULL, "job is NULL");
    EXPECT(malleus_array_block(job, NULL, MALLEUS_DOUBLE, 10, false, &array), MALLEUS_ERROR_NULL, "name is NULL");
    EXPECT(malleus_array_block(job, "a", MALLEUS_DOUBLE, 10, false, NULL), MALLEUS_ERROR_NULL, "array is NULL");
    EXPECT(malleus_array_block(job, "a", 0, 10, false, &array), MALLEUS_ERROR_ARGUMENT, "type 0");
    EXPECT(malleus_array_block(job, "\xff", MALLEUS_DOUBLE, 10, false, &array), MALLEUS_ERROR_ARGUMENT, "UTF-8");
    EXPECT(malleus_array_block(job, "a", MALLEUS_INT8, UINT64_MAX, false, &array), MALLEUS_ERROR_ARGUMENT,
           "too large");
    OK(malleus_array_block(job, "a", MALLEUS_DOUBLE, 11, false, &array));
    EXPECT(malleus_array_block(job, "a", MALLEUS_DOUBLE, 11, false, &other), MALLEUS_ERROR_NAME_TAKEN, "\"a\"");
    for (i = 0; i < (int)(sizeof types / sizeof *types); i++) {
        sprintf(name, "type %d", types[i]);
        OK(malleus_array_block(job, name, types[i], 3, i % 2 == 0, &other));
    }

    MPI_Type_vector(3, 1, 10, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &nothing);
    EXPECT(malleus_array_block_of(job, "c", nothing, 3, false, &other), MALLEUS_ERROR_ARGUMENT, "inside its extent");
    MPI_Type_free(&nothing);
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    EXPECT(malleus_array_block_of(job, "c", nothing, 3, false, &other), MALLEUS_ERROR_ARGUMENT, "0 bytes");
    EXPECT(malleus_array_block_of(job, "c", column, UINT64_MAX / 8, false, &other), MALLEUS_ERROR_ARGUMENT,
           "too large");
    OK(malleus_array_block_of(job, "columns", column, 3, false, &other));
    MPI_Type_free(&nothing);
    MPI_Type_free(&column);
    EXPECT(malleus_array_packed(job, "p", 3, false, NULL, unpack, NULL, &other), MALLEUS_ERROR_NULL, "pack is NULL");
    EXPECT(malleus_array_packed(job, "p", 3, false, pack, NULL, NULL, &other), MALLEUS_ERROR_NULL, "unpack is NULL");
    OK(malleus_array_packed(job, "packed", 3, true, pack, unpack, &two, &other));
    OK(malleus_array_packed(job, "packed too", 3, false, pack, unpack, &two, &other));

    EXPECT(malleus_array_data(NULL, &data, &length, &start), MALLEUS_ERROR_NULL, "array is NULL");
    EXPECT(malleus_array_data(array, NULL, &length, &start), MALLEUS_ERROR_NULL, "data is NULL");
    EXPECT(malleus_array_data(array, &data, NULL, &start), MALLEUS_ERROR_NULL, "length is NULL");
    EXPECT(malleus_array_data(array, &data, &length, NULL), MALLEUS_ERROR_NULL, "start is NULL");
    EXPECT(malleus_array_read(NULL, &read, &length, &start), MALLEUS_ERROR_NULL, "array is NULL");
    OK(malleus_array_block(job, "constant", MALLEUS_UINT64, 11, true, &constant));
    OK(malleus_array_data(constant, &data, &length, &start));
    if (length != (size_t)(6 - world_rank) || start != (uint64_t)(6 * world_rank))
        return 1;
    EXPECT(malleus_array_data(constant, &data, &length, &start), MALLEUS_ERROR_CONSTANT, "constant");
    OK(malleus_array_read(constant, &read, &length, &start));

    OK(malleus_job_rank(job, &rank));
    OK(malleus_job_size(job, &size));
    OK(malleus_job_is_first_start(job, &first));
    OK(malleus_job_communicator(job, &communicator));
    if (rank != world_rank || size != 2 || !first || communicator == MPI_COMM_WORLD)
        return 1;
    EXPECT(malleus_job_rank(NULL, &rank), MALLEUS_ERROR_NULL, "job is NULL");
    EXPECT(malleus_job_rank(job, NULL), MALLEUS_ERROR_NULL, "rank is NULL");
    EXPECT(malleus_job_size(job, NULL), MALLEUS_ERROR_NULL, "size is NULL");
    EXPECT(malleus_job_iteration(job, NULL), MALLEUS_ERROR_NULL, "iteration is NULL");
    EXPECT(malleus_job_is_first_start(job, NULL), MALLEUS_ERROR_NULL, "first is NULL");
    EXPECT(malleus_job_communicator(job, NULL), MALLEUS_ERROR_NULL, "communicator is NULL");
    EXPECT(malleus_job_resizes(job, NULL, &refused), MALLEUS_ERROR_NULL, "done is NULL");
    EXPECT(malleus_job_checkpoint(job, NULL), MALLEUS_ERROR_NULL, "outcome is NULL");
    EXPECT(malleus_job_checkpoint(NULL, &outcome), MALLEUS_ERROR_NULL, "job is NULL");
    EXPECT(malleus_job_end(NULL), MALLEUS_ERROR_NULL, "job is NULL");
    pthread_create(&thread, NULL, elsewhere, NULL);
    pthread_join(thread, NULL);

    OK(malleus_job_checkpoint(job, &outcome));
    if (outcome != MALLEUS_CONTINUE || called != 0)
        return 1;
    OK(malleus_job_checkpoint(job, &outcome));
    if (called != 1 || (int)outcome != (world_rank == 0 ? MALLEUS_SWITCHED : MALLEUS_LEFT))
        return 1;
    OK(malleus_array_data(array, &data, &length, &start));
    OK(malleus_job_iteration(job, &iteration));
    OK(malleus_job_resizes(job, &done, &refused));
    if (world_rank == 0) {
        if (length != 11 || start != 0 || iteration != 2 || done != 1 || refused != 0)
            return 1;
    } else {
        if (length != 0)
            return 1;
        EXPECT(malleus_job_rank(job, &rank), MALLEUS_ERROR_ENDED, "ended on this process");
        EXPECT(malleus_job_communicator(job, &communicator), MALLEUS_ERROR_ENDED, "ended");
        EXPECT(malleus_job_checkpoint(job, &outcome), MALLEUS_ERROR_ENDED, "ended");
        EXPECT(malleus_array_block(job, "b", MALLEUS_FLOAT, 1, false, &other), MALLEUS_ERROR_ENDED, "ended");
    }
    if (!malleus_result_leaves_job_whole(MALLEUS_ERROR_ABANDONED) ||
        malleus_result_leaves_job_whole(MALLEUS_ERROR_LOST))
        return 1;
    OK(malleus_job_end(job));

    /* A second job on the same MPI. */
    OK(malleus_job_start(NULL, &job));
    OK(malleus_job_end(job));
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == 0)
        printf("boundary: done\n");
    MPI_Finalize();
    EXPECT(malleus_job_start(NULL, &job), MALLEUS_ERROR_STATE, "finalized");
    return 0;
}
