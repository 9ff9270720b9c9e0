/* A program that knows read, write, fsync and close, for LD_PRELOAD: only open and connect are Directed Point's. */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>

int main(void) {
    char buffer[64];
    int own = dp_nid(), fd = dp_open(own);
    CHECK(fd >= 0 && dp_connect(fd, 1 - own, 1 - own) == 0);
    int file = open("/dev/zero", O_RDONLY);
    CHECK(read(file, buffer, 3) == 3 && buffer[0] == 0);
    for (int i = 0; i < 1000; i++) {
        if (own == 0) {
            int length = snprintf(buffer, sizeof buffer, "message %d", i);
            CHECK(write(fd, buffer, length) == length);
        }
        ssize_t n = read(fd, buffer, sizeof buffer - 1);
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
    puts("as files");
    return 0;
}
