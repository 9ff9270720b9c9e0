/* A member of a closed process group of Corosync. It reads orders and writes answers as lines, as the members of ours do:
 * bench/ordered/src/protocol.rs has both. Arguments: its index, and the number of members.
 *
 * It sleeps in poll(2) while there is nothing to do, as a program of Corosync does. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <corosync/cpg.h>

/* The most messages of a measurement whose times are kept. */
enum { KEPT = 1 << 13 };

struct job {
    uint64_t size, rank, senders, window, warm_up, time;
};

static cpg_handle_t group;
static uint32_t self;
static size_t members_there;

/* What was delivered in this measurement. */
static uint64_t count, own, counted, began, counts_from, last, is_changed;
static uint64_t times[KEPT];
static size_t size;
static char *content;
static struct {
    uint64_t nth, at;
} sent_times[KEPT];

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what, int why)
{
    printf("{\"failed\":\"%s: %d\"}\n", what, why);
    fflush(stdout);
    exit(1);
}

static void delivered(cpg_handle_t handle, const struct cpg_name *name, uint32_t node, uint32_t pid, void *message, size_t length)
{
    (void)handle, (void)name, (void)pid;
    uint64_t at = now();
    if (length != size || (count % 16 == 0 && size > 0 && memcmp(message, content, size)))
        is_changed = 1;
    if (count < KEPT)
        times[count] = at;
    count++;
    own += node == self;
    counted += at >= counts_from;
    last = at;
}

static void changed(cpg_handle_t handle, const struct cpg_name *name, const struct cpg_address *all, size_t number,
                    const struct cpg_address *left, size_t number_left, const struct cpg_address *joined, size_t number_joined)
{
    (void)handle, (void)name, (void)all, (void)left, (void)number_left, (void)joined, (void)number_joined;
    members_there = number;
}

/* Receive. Without anything to receive it waits, `milliseconds` at most. Returns whether there is an order to read. */
static int turn(int milliseconds)
{
    int fd;
    cs_error_t why = cpg_fd_get(group, &fd);
    if (why != CS_OK)
        fail("cpg_fd_get", why);
    struct pollfd ready[2] = {{fd, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    poll(ready, 2, milliseconds);
    if (ready[0].revents) {
        why = cpg_dispatch(group, CS_DISPATCH_ALL);
        if (why != CS_OK && why != CS_ERR_TRY_AGAIN)
            fail("cpg_dispatch", why);
    }
    return ready[1].revents != 0;
}

/* The next order, while messages arrive. At the end of its input the program ends. */
static const char *next(void)
{
    static char line[4096];
    while (!turn(1000))
        ;
    size_t length = 0;
    for (; length < sizeof line - 1; length++) {
        if (read(STDIN_FILENO, line + length, 1) != 1)
            exit(0);
        if (line[length] == '\n')
            break;
    }
    line[length] = 0;
    return line;
}

static int mcast(void)
{
    struct iovec part = {content, size};
    cs_error_t why = cpg_mcast_joined(group, CPG_TYPE_AGREED, &part, 1);
    if (why != CS_OK && why != CS_ERR_TRY_AGAIN)
        fail("cpg_mcast_joined", why);
    return why == CS_OK;
}

/* Send until the time is over, then until all own messages are delivered. */
static void send_all(const struct job *job)
{
    uint64_t sent = 0, noted = 0, early = 0, my_turn = job->rank, at;
    /* On a busy machine the time may be over at once. */
    int is_first = job->window > 0 || job->rank == 0;
    while ((at = now()) < counts_from + job->time || (is_first && sent == 0)) {
        int has_room = 1;
        if (job->window > 0) {
            while (has_room && sent - own < job->window) {
                has_room = mcast();
                sent += (uint64_t)has_room;
            }
        } else if (count == my_turn && (has_room = mcast())) {
            sent++;
            /* One of the warm-up is replaced by the first one after it. */
            if (my_turn < KEPT && (noted == 0 || at >= counts_from)) {
                noted -= early;
                early = at < counts_from;
                sent_times[noted].nth = my_turn;
                sent_times[noted++].at = at;
            }
            my_turn += job->senders;
        }
        turn(has_room ? 1 : 0);
    }
    while (own < sent)
        turn(1);
    printf("{\"done\":{\"sent\":%" PRIu64 ",\"times\":[", sent);
    for (uint64_t i = 0; i < noted; i++)
        printf("%s[%" PRIu64 ",%" PRIu64 "]", i ? "," : "", sent_times[i].nth, sent_times[i].at);
    printf("]}}\n");
    fflush(stdout);
}

static void measure(const struct job *job)
{
    count = own = counted = last = is_changed = 0;
    counts_from = UINT64_MAX;
    size = job->size;
    content = realloc(content, size + 1);
    /* As `Check` of am-measure has it. */
    for (size_t i = 0; i < size; i++)
        content[i] = (char)(i * 31 + i / 251);
    puts("\"begun\"");
    fflush(stdout);
    if (strcmp(next(), "\"go\""))
        fail("no go", 0);
    began = now();
    counts_from = began + job->warm_up;
    if (job->rank < job->senders)
        send_all(job);
    uint64_t total;
    if (sscanf(next(), "{\"finish\":{\"total\":%" SCNu64, &total) != 1)
        fail("no finish", 0);
    while (count < total)
        turn(1);
    if (is_changed)
        fail("a message arrived with wrong content or length", 0);
    /* On a busy machine the few messages may all be early. */
    uint64_t from = counted > 0 ? counts_from : began;
    printf("{\"finished\":{\"times\":[");
    for (uint64_t i = 0; i < count && i < KEPT; i++)
        printf("%s%" PRIu64, i ? "," : "", times[i]);
    printf("],\"counted\":%" PRIu64 ",\"took\":%" PRIu64 "}}\n", counted > 0 ? counted : count, last > from ? last - from : 0);
    fflush(stdout);
}

/* The daemon may take a while until it listens, and until it has found the others. */
static void join(size_t members)
{
    cpg_model_v1_data_t callbacks = {.cpg_deliver_fn = delivered, .cpg_confchg_fn = changed};
    struct cpg_name name = {.length = 8, .value = "am-bench"};
    struct timespec pause = {0, 10000000};
    cs_error_t why;
    int tries = 0;
    while ((why = cpg_model_initialize(&group, CPG_MODEL_V1, (cpg_model_data_t *)&callbacks, NULL)) != CS_OK) {
        if (tries++ == 1000)
            fail("cpg_model_initialize", why);
        nanosleep(&pause, NULL);
    }
    while ((why = cpg_join(group, &name)) == CS_ERR_TRY_AGAIN)
        nanosleep(&pause, NULL);
    if (why != CS_OK)
        fail("cpg_join", why);
    why = cpg_local_get(group, &self);
    if (why != CS_OK)
        fail("cpg_local_get", why);
    while (members_there < members)
        turn(10);
}

static void pin(void)
{
    const char *core = getenv("AM_BENCH_CORE");
    cpu_set_t set;
    if (!core || *core < '0' || *core > '9')
        return;
    CPU_ZERO(&set);
    CPU_SET(atoi(core), &set);
    sched_setaffinity(0, sizeof set, &set);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    pin();
    join((size_t)atoi(argv[2]));
    puts("\"ready\"");
    fflush(stdout);
    for (;;) {
        struct job job;
        if (sscanf(next(),
                   "{\"begin\":{\"size\":%" SCNu64 ",\"rank\":%" SCNu64 ",\"senders\":%" SCNu64 ",\"window\":%" SCNu64
                   ",\"warm_up\":%" SCNu64 ",\"time\":%" SCNu64,
                   &job.size, &job.rank, &job.senders, &job.window, &job.warm_up, &job.time) != 6)
            fail("an order out of turn", 0);
        measure(&job);
    }
}
