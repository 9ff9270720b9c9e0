/* The collective calls of a group, after MPBench: one of several tasks takes the times.
 *
 *   broadcast   to all others, each of which answers with an empty message
 *   reduce      the sum of each number of all tasks, at one; then an empty broadcast
 *   all-to-all  each task sends to each other one, and receives from each
 */
#include "tasks.h"

enum { GO = 1, DATA = 2, ANSWER = 3, SUM = 4, MOST_TASKS = 64, MOST = 65536, WARM = 20, COUNT = 200 };

static const int SIZES[] = {8, 1024, 65536};

static char bytes[MOST];
static int tids[MOST_TASKS], tasks, own;

static void give(int to, int tag, int size) { pvm_psend(to, tag, bytes, size, PVM_BYTE); }

static void take(int from, int tag, int size) { pvm_precv(from, tag, bytes, size, PVM_BYTE, NULL, NULL, NULL); }

static void broadcast(int tag, int size)
{
    pvm_initsend(PvmDataRaw);
    pvm_pkbyte(bytes, size, 1);
    pvm_bcast("bench", tag);
}

static void answered_broadcast(int size)
{
    if (own == 0) {
        broadcast(DATA, size);
        for (int i = 1; i < tasks; i++)
            take(-1, ANSWER, 0);
    } else {
        take(tids[0], DATA, size);
        give(tids[0], ANSWER, 0);
    }
}

static void reduce(int size)
{
    double *numbers = (double *)(void *)bytes;
    for (int i = 0; i < size / 8; i++)
        numbers[i] = own + i;
    if (pvm_reduce(PvmSum, numbers, size / 8, PVM_DOUBLE, SUM, "bench", 0) < 0)
        exit(1);
    if (own == 0 && numbers[size / 8 - 1] != tasks * (tasks - 1) / 2 + tasks * (size / 8 - 1)) {
        fprintf(stderr, "group: a sum is wrong\n");
        exit(1);
    }
    if (own == 0)
        broadcast(GO, 0);
    else
        take(tids[0], GO, 0);
}

static void all_to_all(int size)
{
    for (int i = 1; i < tasks; i++)
        give(tids[(own + i) % tasks], DATA, size);
    for (int i = 1; i < tasks; i++)
        take(tids[(own + i) % tasks], DATA, size);
}

/* Whether SIZES, which the first task exports to the others, has this size. */
static int is_wanted(int size)
{
    for (const char *rest = word("SIZES"); *rest;) {
        char *end;
        if (strtol(rest, &end, 10) == size)
            return 1;
        if (end == rest)
            return 0;
        rest = end;
    }
    return 0;
}

static void measure(const char *name, void (*call)(int), int size)
{
    static uint64_t times[COUNT];
    for (int i = 0; i < WARM + COUNT; i++) {
        uint64_t begin = now();
        call(size);
        if (i >= WARM)
            times[i - WARM] = now() - begin;
    }
    if (own == 0)
        print_times(name, size, times, COUNT);
}

int main(int argc, char **argv)
{
    if (pvm_mytid() < 0 || argc != 2)
        return 1;
    set_route();
    tasks = atoi(argv[1]);
    if (tasks < 2 || tasks > MOST_TASKS)
        return 2;
    /* The first task has to have the first number of the group. */
    if (pvm_parent() == PvmNoParent) {
        own = pvm_joingroup("bench");
        start(argv, tasks - 1, tids + 1);
    } else {
        own = pvm_joingroup("bench");
    }
    pvm_freezegroup("bench", tasks);
    for (int i = 0; i < tasks; i++)
        tids[i] = pvm_gettid("bench", i);
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        if (!is_wanted(SIZES[i]))
            continue;
        measure("broadcast", answered_broadcast, SIZES[i]);
        measure("reduce", reduce, SIZES[i]);
        measure("all-to-all", all_to_all, SIZES[i]);
    }
    pvm_barrier("bench", tasks);
    pvm_lvgroup("bench");
    pvm_exit();
    return 0;
}
