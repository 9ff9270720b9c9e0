/* Edges that are redirected again and again while messages flow. Each process writes numbered messages along each edge of its vertex, and
 * leads the edge to the inbox of a random vertex after some of them. Each process counts what arrives, from whom. At the end each edge
 * visits all vertices and says how many messages it has brought there, and the sum of their numbers.
 *
 *   redirect SEED REDIRECTS MESSAGES       so many redirects of each edge, and so many messages after each at the most
 */
#define _GNU_SOURCE
#include "common.h"

#include <time.h>

enum { MAX_VERTICES = 16, MAX_EDGES = 4, MAX_LENGTH = 9000, MESSAGE = 1, END = 2, INBOX = 0 };

typedef struct {
    unsigned kind, from, edge, to;
    /* Of a message; or, of the end, of all messages that this edge has brought here. */
    unsigned long long number, count, sum;
} header_t;

typedef struct {
    unsigned long long count, sum, last;
} tally_t;

static int own, vertices, ends;
static tally_t written[MAX_EDGES][MAX_VERTICES], taken[MAX_VERTICES][MAX_EDGES];
static unsigned long long state;

static unsigned below(unsigned limit) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % limit;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void wrong(const char *what, const header_t *head) {
    fprintf(stderr, "vertex %d: %s: message %llu of edge %u of vertex %u, written to %u; the last one was %llu\n", own, what, head->number,
            head->edge, head->from, head->to, taken[head->from][head->edge].last);
    exit(1);
}

static void on_message(const char *address, int length) {
    header_t head;
    CHECK(length >= (int)sizeof head);
    memcpy(&head, address, sizeof head);
    CHECK(head.from < MAX_VERTICES && head.edge < MAX_EDGES);
    tally_t *tally = &taken[head.from][head.edge];
    if (head.to != (unsigned)own) wrong("at the wrong end", &head);
    if (head.kind == END) {
        if (tally->count != head.count) wrong(tally->count < head.count ? "some were lost" : "some came twice", &head);
        if (tally->sum != head.sum) wrong("other ones arrived", &head);
        ends++;
        return;
    }
    if (head.number <= tally->last) wrong(head.number == tally->last ? "it came twice" : "too late, or twice", &head);
    for (int at = sizeof head; at < length; at++) {
        if (address[at] != (char)(head.number + at)) wrong("its bytes are others", &head);
    }
    tally->count++;
    tally->sum += head.number;
    tally->last = head.number;
}

/* Take what has arrived. Returns how much. */
static int take_all(void) {
    int fd = dp_point(INBOX), count = 0, n;
    char *address;
    while ((n = dp_read(fd, &address)) > 0) {
        on_message(address, n);
        CHECK(dp_fsync(fd, 1) == 0);
        count++;
    }
    CHECK(n == 0);
    return count;
}

static void put_and_take(int fd, const void *message, int length) {
    int n;
    while ((n = dp_write(fd, message, length)) == -1 && errno == EAGAIN) {
        if (take_all() == 0) usleep(20);
    }
    CHECK(n == length);
}

static void put_message(int edge, int to, unsigned long long number, int is_long) {
    static char message[MAX_LENGTH];
    header_t head = {.kind = MESSAGE, .from = own, .edge = edge, .to = to, .number = number};
    int length = is_long ? MAX_LENGTH : sizeof head + below(100);
    memcpy(message, &head, sizeof head);
    for (int at = sizeof head; at < length; at++) message[at] = (char)(number + at);
    put_and_take(dp_out(edge), message, length);
    tally_t *tally = &written[edge][to];
    tally->count++;
    tally->sum += number;
}

static void lead(int edge, int to) {
    CHECK(dp_connect(dp_out(edge), to, INBOX) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int out = dp_graph(), redirects = atoi(argv[2]), most = atoi(argv[3]);
    int before[MAX_EDGES] = {0}, now[MAX_EDGES] = {0};
    unsigned long long number[MAX_EDGES] = {0}, all = 0;
    own = dp_nid();
    vertices = dp_vertices();
    CHECK(out > 0 && out <= MAX_EDGES && vertices <= MAX_VERTICES);
    state = strtoull(argv[1], NULL, 10) * 1000 + own;
    for (int turn = 0; turn < redirects; turn++) {
        for (int edge = 0; edge < out; edge++) {
            /* Often back to where it led before. */
            int to = below(3) ? (int)below(vertices) : before[edge];
            before[edge] = now[edge];
            now[edge] = to;
            lead(edge, to);
            for (int left = below(most); left > 0; left--) put_message(edge, to, ++number[edge], below(16) == 0);
            /* Often a message of many frames is the last, and has not left when the edge is redirected. */
            put_message(edge, to, ++number[edge], below(2));
        }
        /* A slow reader keeps what is written to it waiting. */
        if (below(4) == 0) usleep(below(3000));
    }
    for (int edge = 0; edge < out; edge++) {
        all += number[edge];
        for (int to = 0; to < vertices; to++) {
            tally_t *tally = &written[edge][to];
            header_t head = {.kind = END, .from = own, .edge = edge, .to = to, .count = tally->count, .sum = tally->sum};
            lead(edge, to);
            put_and_take(dp_out(edge), &head, sizeof head);
        }
    }
    /* Each vertex has as many edges out as this one. */
    double start = seconds();
    while (ends < vertices * out) {
        if (take_all() == 0) usleep(100);
        if (seconds() - start > 60) {
            fprintf(stderr, "vertex %d: %d of %d edges have said their end\n", own, ends, vertices * out);
            return 1;
        }
    }
    CHECK(dp_barrier() == 0);
    /* Nothing comes after the end: not even twice. */
    for (start = seconds(); seconds() - start < 0.5; usleep(1000)) CHECK(take_all() == 0);
    printf("vertex %d: %llu messages written, all that were written here arrived once\n", own, all);
    CHECK(dp_barrier() == 0);
    return 0;
}
