/* Arrays of a derived datatype, and elements that the program packs: tests/static_library.rs runs this. */
#include <inttypes.h>
#include <malleus.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS 1013
#define LISTS 101

/* With gaps, one of them at the end. */
typedef struct {
    char kind;
    double position[3];
    short id;
} record;

/* The lists of one rank: list i has i % 7 numbers. */
typedef struct {
    uint64_t start;
    size_t count;
    int32_t **lists;
    size_t unpacked;
} lists;

static void check(malleus_result result, const char *what)
{
    if (result != MALLEUS_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, malleus_result_name(result), malleus_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

#define CHECK(call) check(call, #call)

static void fail(const char *what, uint64_t index)
{
    fprintf(stderr, "%s %" PRIu64 " is wrong\n", what, index);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int32_t number(uint64_t list, size_t i, uint64_t steps)
{
    return (int32_t)(list * 100 + i * 10 + steps);
}

static void clear(lists *all)
{
    size_t i;

    for (i = 0; i < all->count; i++)
        free(all->lists[i]);
    free(all->lists);
    all->lists = NULL;
    all->count = 0;
}

static void allocate(lists *all, uint64_t start, size_t count)
{
    size_t i;

    all->start = start;
    all->count = count;
    all->lists = calloc(count + 1, sizeof *all->lists);
    for (i = 0; i < count; i++)
        all->lists[i] = calloc((start + i) % 7 + 1, sizeof **all->lists);
}

static void fill(lists *all, uint64_t steps)
{
    size_t i, j;

    for (i = 0; i < all->count; i++)
        for (j = 0; j < (all->start + i) % 7; j++)
            all->lists[i][j] = number(all->start + i, j, steps);
}

static const void *pack(void *context, size_t element, size_t *size)
{
    const lists *all = context;

    *size = (all->start + element) % 7 * sizeof(int32_t);
    return *size == 0 ? NULL : all->lists[element];
}

static int unpack(void *context, uint64_t start, size_t count, const size_t *sizes, const void *bytes)
{
    lists *all = context;
    const char *next = bytes;
    size_t i;

    clear(all);
    allocate(all, start, count);
    for (i = 0; i < count; i++) {
        if (sizes[i] != (start + i) % 7 * sizeof(int32_t))
            return 1;
        memcpy(all->lists[i], next, sizes[i]);
        next += sizes[i];
    }
    all->unpacked++;
    return 0;
}

static void check_lists(const lists *all, malleus_array *array, uint64_t steps)
{
    const void *data;
    size_t length, i, j;
    uint64_t start;

    CHECK(malleus_array_read(array, &data, &length, &start));
    if (data != NULL || length != all->count || start != all->start)
        fail("the range of", start);
    for (i = 0; i < all->count; i++)
        for (j = 0; j < (all->start + i) % 7; j++)
            if (all->lists[i][j] != number(all->start + i, j, steps))
                fail("list", all->start + i);
}

int main(int argc, char **argv)
{
    static const int lengths[] = {1, 3, 1};
    static const MPI_Aint places[] = {offsetof(record, kind), offsetof(record, position), offsetof(record, id)};
    static const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
    malleus_options options = {0};
    malleus_checkpoint outcome = MALLEUS_CONTINUE;
    malleus_job *job;
    malleus_array *records, *variable, *constant;
    MPI_Datatype parts, datatype;
    lists changing = {0}, fixed = {0};
    uint64_t iteration, start, done, refused, mine;
    size_t length, i;
    void *data;
    bool first;
    int provided, rank, size;

    malleus_prepare();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    options.script = "1:2,2:4,3:1,4:3,5:2";
    options.method = argc > 1 ? atoi(argv[1]) : MALLEUS_COLLECTIVE;
    options.strategy = argc > 2 ? atoi(argv[2]) : MALLEUS_BLOCKING;
    options.verify = true;
    CHECK(malleus_job_start(&options, &job));
    CHECK(malleus_job_is_first_start(job, &first));
    CHECK(malleus_job_rank(job, &rank));
    CHECK(malleus_job_size(job, &size));

    MPI_Type_create_struct(3, lengths, places, types, &parts);
    MPI_Type_create_resized(parts, 0, sizeof(record), &datatype);
    CHECK(malleus_array_block_of(job, "records", datatype, RECORDS, false, &records));
    MPI_Type_free(&parts);
    MPI_Type_free(&datatype);
    if (first) {
        /* Equal blocks, the remainder to the first ranks. */
        uint64_t each = LISTS / size, more = LISTS % size;

        mine = each + ((uint64_t)rank < more);
        start = rank * each + ((uint64_t)rank < more ? (uint64_t)rank : more);
        allocate(&changing, start, mine);
        allocate(&fixed, start, mine);
        fill(&fixed, 99);
    }
    CHECK(malleus_array_packed(job, "changing", LISTS, false, pack, unpack, &changing, &variable));
    CHECK(malleus_array_packed(job, "fixed", LISTS, true, pack, unpack, &fixed, &constant));
    if (first != (changing.unpacked == 0) || first != (fixed.unpacked == 0))
        fail("the number of calls to unpack", changing.unpacked);

    for (;;) {
        MPI_Comm communicator;

        /* Those that joined have not seen all resizes. */
        CHECK(malleus_job_resizes(job, &done, &refused));
        CHECK(malleus_job_communicator(job, &communicator));
        MPI_Bcast(&done, 1, MPI_UINT64_T, 0, communicator);
        if (done == 5)
            break;
        CHECK(malleus_job_iteration(job, &iteration));
        if (iteration >= 1000000)
            fail("iteration", iteration);
        CHECK(malleus_array_data(records, &data, &length, &start));
        for (i = 0; i < length; i++) {
            record *one = (record *)data + i;

            if (iteration > 0 && (one->kind != 'k' || one->id != (short)(start + i) ||
                                  one->position[2] != (double)(iteration - 1)))
                fail("record", start + i);
            one->kind = 'k';
            one->id = (short)(start + i);
            one->position[2] = (double)iteration;
        }
        if (iteration > 0)
            check_lists(&changing, variable, iteration - 1);
        check_lists(&fixed, constant, 99);
        fill(&changing, iteration);
        CHECK(malleus_job_checkpoint(job, &outcome));
        if (outcome == MALLEUS_LEFT)
            break;
    }
    if (outcome == MALLEUS_LEFT && (changing.count != 0 || fixed.count != 0))
        fail("what is left", changing.count);
    if (outcome != MALLEUS_LEFT) {
        CHECK(malleus_job_rank(job, &rank));
        CHECK(malleus_job_size(job, &size));
        if (rank == 0)
            printf("forms: %" PRIu64 " resizes, %d ranks\n", done, size);
    }
    clear(&changing);
    clear(&fixed);
    CHECK(malleus_job_end(job));
    MPI_Finalize();
    return 0;
}
