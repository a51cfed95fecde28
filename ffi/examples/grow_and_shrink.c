/*
 * A job that changes its number of processes while it runs, in C.
 *
 *     mpicc -o grow_and_shrink grow_and_shrink.c $(pkg-config --cflags --static --libs malleus)
 *     mpiexec -n 1 ./grow_and_shrink 5:2,10:4,15:1
 *
 * grow_and_shrink SCRIPT [METHOD [ITERATIONS [verify|lean]]]
 *
 * A process that the job starts when it grows runs main from the beginning, as the first ones did.
 */
#include <inttypes.h>
#include <malleus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS 10007

/* Ends the whole MPI job where something went wrong. */
static void check(malleus_result result, const char *what)
{
    if (result != MALLEUS_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, malleus_result_name(result), malleus_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

#define CHECK(call) check(call, #call)

static int64_t weight(uint64_t index)
{
    return (int64_t)(index % 13) + 1;
}

/* Frees what was made out of the communicator that a resize ends. */
static void before_switch(void *context, MPI_Comm communicator)
{
    MPI_Comm *mine = context;
    (void)communicator;
    MPI_Comm_disconnect(mine);
}

/* This rank's blocks, and a communicator of its own: all of them new after a resize. */
static void take(malleus_job *job, malleus_array *x, malleus_array *weights, double **values,
                 const int64_t **constants, size_t *length, uint64_t *start, MPI_Comm *mine)
{
    MPI_Comm communicator;
    size_t weights_length;
    uint64_t weights_start;
    void *data;
    const void *read;

    CHECK(malleus_array_data(x, &data, length, start));
    CHECK(malleus_array_read(weights, &read, &weights_length, &weights_start));
    if (weights_length != *length || weights_start != *start) {
        fprintf(stderr, "two arrays of one length have different blocks\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    *values = data;
    *constants = read;
    CHECK(malleus_job_communicator(job, &communicator));
    MPI_Comm_dup(communicator, mine);
}

int main(int argc, char **argv)
{
    const uint64_t iterations = argc > 3 ? strtoull(argv[3], NULL, 10) : 20;
    MPI_Comm mine = MPI_COMM_NULL;
    malleus_options options = {0};
    malleus_job *job;
    malleus_array *x, *weights;
    malleus_checkpoint outcome = MALLEUS_CONTINUE;
    double *values, sum = 0;
    const int64_t *constants;
    size_t length, i;
    uint64_t start, iteration, done, refused;
    bool first;
    int provided, rank = -1, size;

    malleus_prepare();
    /* Any level will do; with this one the job copes with more processes than cores. */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);

    options.script = argc > 1 ? argv[1] : NULL;
    options.method = argc > 2 ? atoi(argv[2]) : MALLEUS_COLLECTIVE;
    options.strategy = argc > 5 ? atoi(argv[5]) : MALLEUS_BLOCKING;
    options.verify = argc > 4 && strcmp(argv[4], "verify") == 0;
    options.lean = argc > 4 && strcmp(argv[4], "lean") == 0;
    options.before_switch = before_switch;
    options.context = &mine;
    CHECK(malleus_job_start(&options, &job));

    CHECK(malleus_array_block(job, "x", MALLEUS_DOUBLE, ELEMENTS, false, &x));
    CHECK(malleus_array_block(job, "weights", MALLEUS_INT64, ELEMENTS, true, &weights));
    CHECK(malleus_job_is_first_start(job, &first));
    if (first) {
        void *data;

        CHECK(malleus_array_data(weights, &data, &length, &start));
        for (i = 0; i < length; i++)
            ((int64_t *)data)[i] = weight(start + i);
        CHECK(malleus_array_data(x, &data, &length, &start));
        for (i = 0; i < length; i++)
            ((double *)data)[i] = (double)(start + i);
    }
    take(job, x, weights, &values, &constants, &length, &start, &mine);

    CHECK(malleus_job_iteration(job, &iteration));
    while (iteration < iterations) {
        double local = 0;

        for (i = 0; i < length; i++) {
            values[i] += (double)constants[i];
            local += values[i];
        }
        MPI_Allreduce(&local, &sum, 1, MPI_DOUBLE, MPI_SUM, mine);

        CHECK(malleus_job_checkpoint(job, &outcome));
        if (outcome == MALLEUS_LEFT)
            break;
        if (outcome == MALLEUS_SWITCHED)
            take(job, x, weights, &values, &constants, &length, &start, &mine);
        CHECK(malleus_job_iteration(job, &iteration));
    }

    if (outcome != MALLEUS_LEFT) {
        /* Every element is what so many iterations make of it, wherever it has been in between. */
        for (i = 0; i < length; i++) {
            double expected = (double)(start + i) + (double)iterations * (double)weight(start + i);

            if (values[i] != expected) {
                fprintf(stderr, "element %" PRIu64 " is %g, not %g\n", start + i, values[i], expected);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        CHECK(malleus_job_rank(job, &rank));
        CHECK(malleus_job_size(job, &size));
        CHECK(malleus_job_resizes(job, &done, &refused));
        MPI_Comm_disconnect(&mine);
    }
    CHECK(malleus_job_end(job));
    if (rank == 0)
        printf("%" PRIu64 " iterations, %" PRIu64 " resizes, %" PRIu64 " refused, %d ranks, sum %.0f\n",
               iterations, done, refused, size, sum);
    MPI_Finalize();
    return 0;
}
