/* One of two processes is killed. The other is told, and the DPID is free. Node 1: `victim` opens DPID 5 and writes; `heir` opens it
 * again, as often as it takes. Node 0: `witness`. */
#define _GNU_SOURCE
#include "common.h"

#include <time.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void witness(void) {
    char *address;
    int fd = dp_open(1);
    CHECK(fd >= 0 && dp_connect(fd, 1, 5) == 0);
    CHECK(next(fd, &address) == 10 && memcmp(address, "last words", 10) == 0 && dp_fsync(fd, 1) == 0);
    puts("ready");
    fflush(stdout);
    /* The victim is killed now. */
    double start = seconds();
    wait_readable(fd);
    FAILS(dp_read(fd, &address), ECONNRESET);
    CHECK(strstr(dp_error(), "DPID 5 of node 1"));
    fprintf(stderr, "told after %.1f s\n", seconds() - start);
    CHECK(seconds() - start < 10);
    FAILS(dp_write(fd, "hello", 5), ECONNRESET);
    puts("told");
    fflush(stdout);
    CHECK(dp_connect(fd, 1, 5) == 0);
    put(fd, "to the heir", 11);
    CHECK(next(fd, &address) == 6 && memcmp(address, "thanks", 6) == 0);
    CHECK(dp_close(fd) == 0);
}

static void victim(void) {
    char *address;
    int fd = dp_open(5);
    CHECK(fd >= 0 && dp_connect(fd, 0, 1) == 0);
    put(fd, "last words", 10);
    for (;;) {
        wait_readable(fd);
        dp_read(fd, &address);
    }
}

static void heir(void) {
    char *address;
    int fd = dp_open(5);
    CHECK(fd >= 0);
    CHECK(next(fd, &address) == 11 && memcmp(address, "to the heir", 11) == 0);
    CHECK(dp_connect(fd, 0, 1) == 0);
    put(fd, "thanks", 6);
    CHECK(dp_close(fd) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    switch (argv[1][0]) {
        case 'w': witness(); break;
        case 'v': victim(); break;
        default: heir(); break;
    }
    return 0;
}
