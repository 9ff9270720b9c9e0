/* For the test programs: a check that says where it failed, and calls that wait. */
#ifndef COMMON_H
#define COMMON_H

#include <dp.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what)                                                                                                   \
    do {                                                                                                              \
        if (!(what)) {                                                                                                \
            fprintf(stderr, "%s:%d: %s (errno %d; %s)\n", __FILE__, __LINE__, #what, errno, dp_error());              \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

#define FAILS(what, error)                                                                                            \
    do {                                                                                                              \
        errno = 0;                                                                                                    \
        CHECK((what) == -1);                                                                                          \
        CHECK(errno == (error));                                                                                      \
        CHECK(strlen(dp_error()) > 10);                                                                               \
    } while (0)

/* Wait until the descriptor is readable. */
static inline void wait_readable(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLIN, .revents = 0};
    CHECK(poll(&one, 1, 30000) == 1 && one.revents & POLLIN);
}

/* The next message, by sleeping. */
static inline int next(int fd, char **address) {
    int n;
    while ((n = dp_read(fd, address)) == 0) {
        wait_readable(fd);
    }
    return n;
}

/* Write, and wait for room. */
static inline void put(int fd, const void *message, int length) {
    int n;
    while ((n = dp_write(fd, message, length)) == -1 && errno == EAGAIN) {
        usleep(50);
    }
    CHECK(n == length);
}

#endif
