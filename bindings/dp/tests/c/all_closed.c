/* A program that closes every descriptor, as one that goes into the background: the library's thread does not spin, and a node can be
 * opened again. */
#define _GNU_SOURCE
#include "common.h"

#include <sys/resource.h>

int main(void) {
    CHECK(dp_open(1) >= 0);
    for (int fd = 3; fd < 1024; fd++) {
        close(fd);
    }
    sleep(1);
    struct rusage used;
    CHECK(getrusage(RUSAGE_SELF, &used) == 0);
    long milliseconds = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
    CHECK(milliseconds < 300);
    CHECK(dp_open(1) >= 0);
    return 0;
}
