/* What keeps the own node from its peers is said where they do not answer. */
#define _GNU_SOURCE
#include "common.h"

int main(void) {
    int fd = dp_open(1);
    CHECK(fd >= 0);
    puts("open");
    fflush(stdout);
    CHECK(getchar() == EOF);
    FAILS(dp_connect(fd, 1, 1), EHOSTUNREACH);
    puts(dp_error());
    return 0;
}
