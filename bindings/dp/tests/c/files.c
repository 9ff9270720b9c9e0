/* A program that knows read, write, fsync and close, for LD_PRELOAD: only open and connect are Directed Point's. */
#define _GNU_SOURCE
/* A `read` whose length is not known when this is compiled becomes another function. */
#undef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 2
#include "common.h"

#include <fcntl.h>
#include <sys/wait.h>

/* In a forked child, `read` and `write` of the copied descriptor fail, and after `close` the number can stand for a file. The parent's
 * endpoint is as before after the child's `exit`. */
static void forked(int fd, int file) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte = 0;
        CHECK(write(fd, "x", 1) == -1 && errno == EPERM && read(fd, &byte, 1) == -1 && errno == EPERM);
        CHECK(close(fd) == 0 && dup2(file, fd) == fd && read(fd, &byte, 1) == 1);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv) {
    char buffer[64];
    size_t room = argc > 1 ? (size_t)atoi(argv[1]) : sizeof buffer - 1;
    int own = dp_nid(), fd = dp_open(own);
    CHECK(fd >= 0 && dp_connect(fd, 1 - own, 1 - own) == 0);
    int file = open("/dev/zero", O_RDONLY);
    CHECK(read(file, buffer, 3) == 3 && buffer[0] == 0);
    for (int i = 0; i < 1000; i++) {
        if (i == 500) {
            forked(fd, file);
        }
        if (own == 0) {
            int length = snprintf(buffer, sizeof buffer, "message %d", i);
            CHECK(write(fd, buffer, length) == length);
        }
        ssize_t n = read(fd, buffer, room);
        CHECK(n > 0);
        buffer[n] = 0;
        CHECK(atoi(buffer + 8) == i);
        if (own == 1) {
            CHECK(write(fd, buffer, n) == n);
        }
    }
    CHECK(fsync(fd) == -1 && errno == EINVAL);
    CHECK(close(fd) == 0 && close(file) == 0);
    CHECK(read(fd, buffer, 1) == -1 && errno == EBADF);
    /* What was written last may be on its way still. */
    CHECK(dp_open(own) >= 0);
    puts("as files");
    return 0;
}
