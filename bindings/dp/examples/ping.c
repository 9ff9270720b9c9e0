/* The ping-pong program of Directed Point's paper (section 6.2), for two processes:
 *
 *   am-run -n 2 ping [BYTES [ROUND TRIPS]]
 *   DP_NID=0 DP_NODES=nodes ping           on one node, and on the other
 *   DP_NID=1 DP_NODES=nodes ping
 *
 * Its loops are the paper's, with C's syntax; the timer is another. A process alone writes to itself.
 */
#define _POSIX_C_SOURCE 199309L
#include <dp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static char msg[1 << 20];

static double rdtsc(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1;
    int trips = argc > 2 ? atoi(argv[2]) : 1000;
    char *buf;
    int i;
    if (n < 1 || n > (int)sizeof msg || trips < 1) {
        fprintf(stderr, "usage: ping [BYTES, 1 to %zu [ROUND TRIPS]]\n", sizeof msg);
        return 2;
    }

    if (dp_nodes() > 2) {
        fprintf(stderr, "ping: it is for two processes\n");
        return 2;
    }
    int myrank = dp_nid();
    int peer = dp_nodes() == 1 ? myrank : 1 - myrank;
    int fd = dp_open(1);
    if (fd < 0 || dp_connect(fd, peer, 1) < 0) {
        fprintf(stderr, "ping: %s\n", dp_error());
        return 1;
    }

    dpmmap_t pool;
    if (dp_mmap(fd, &pool) == 0 && (size_t)n > pool.size) {
        fprintf(stderr, "ping: a message has at most the %zu bytes of the pool; set DP_POOL\n", pool.size);
        return 1;
    }

    if (myrank == 0) {
        double start = rdtsc();
        for (i = 1; i <= trips; i++) {
            dp_write(fd, msg, n);
            while (dp_read(fd, &buf) <= 0);
            dp_fsync(fd, 1);
        }
        double stop = rdtsc();
        printf("%d round trips of %d bytes, %.2f us each\n", trips, n, (stop - start) / trips);
    }
    if (myrank == 1) {
        for (i = 1; i <= trips; i++) {
            while (dp_read(fd, &buf) <= 0);
            dp_write(fd, buf, n);
            dp_fsync(fd, 1);
        }
    }
    dp_close(fd);
    return 0;
}
