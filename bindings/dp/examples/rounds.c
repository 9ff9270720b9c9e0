/* Rounds of messages on any graph. In each round a process writes one message along each edge that leaves its vertex, and takes one for
 * each edge that arrives, as processes that compute on a mesh exchange their borders.
 *
 *   dp-graph run ring:4 ./rounds [ROUNDS [BYTES]]
 *   dp-graph run mesh:3x3 ./rounds 100000
 *   dp-graph run --dot live.dot own.dot ./rounds
 *
 * It names no node, and knows no shape.
 */
#define _POSIX_C_SOURCE 200809L
#include <dp.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void fail(const char *what) {
    fprintf(stderr, "rounds: %s: %s\n", what, dp_error());
    exit(1);
}

static void put(int fd, const void *msg, int bytes) {
    while (dp_write(fd, msg, bytes) < 0) {
        if (errno != EAGAIN) fail("dp_write");
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

/* The round that the next message is of. A neighbour may be a round ahead, so messages that arrive at one endpoint mix. */
static unsigned take(int fd) {
    char *address;
    unsigned round;
    int n;
    while ((n = dp_read(fd, &address)) == 0) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        poll(&one, 1, -1);
    }
    if (n < 0) fail("dp_read");
    memcpy(&round, address, sizeof round);
    dp_fsync(fd, 1);
    return round;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    int bytes = argc > 2 ? atoi(argv[2]) : 64;
    if (rounds < 1 || bytes < (int)sizeof(unsigned) || bytes > 1 << 17) {
        fprintf(stderr, "usage: rounds [ROUNDS [BYTES, 4 to 131072]]\n");
        return 2;
    }
    int out = dp_graph();
    if (out < 0) fail("dp_graph");
    int in = dp_in_degree();
    char *msg = calloc(1, bytes);
    if (msg == NULL) return 1;
    unsigned long long sum = 0;
    for (unsigned round = 1; round <= (unsigned)rounds; round++) {
        memcpy(msg, &round, sizeof round);
        for (int k = 0; k < out; k++) put(dp_out(k), msg, bytes);
        for (int k = 0; k < in; k++) sum += take(dp_in(k));
    }
    int is_right = sum == (unsigned long long)in * rounds * (rounds + 1ULL) / 2;
    printf("%s of %d: %d rounds, %d out, %d in, %s\n", dp_vertex_name(), dp_vertices(), rounds, out, in,
           is_right ? "all there" : "NOT all there");
    free(msg);
    /* A neighbour may still read what was written last; then all go. */
    return dp_barrier() < 0 || !is_right;
}
