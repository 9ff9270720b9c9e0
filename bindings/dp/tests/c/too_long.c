/* The paper's ping-pong with a message that is longer than the other's pool: the reader that spins, and the one that sleeps, are told. */
#define _GNU_SOURCE
#include "common.h"

enum { POOL = 65536, LONG = 70000 };

static char message[LONG];

static void write_too_long(int fd, int sleeps) {
    char *address;
    int n;
    CHECK(dp_write(fd, message, LONG) == LONG);
    if (sleeps) {
        wait_readable(fd);
    }
    while ((n = dp_read(fd, &address)) == 0) {
        CHECK(!sleeps);
    }
    CHECK(n == -1 && errno == EMSGSIZE && strstr(dp_error(), "70000") && strstr(dp_error(), "65536"));
    CHECK(dp_read(fd, &address) == 0);
}

int main(int count, char **arguments) {
    char *address;
    int own = dp_nid(), fd = dp_open_pool(5, POOL);
    (void)arguments;
    CHECK(count == 1 && fd >= 0 && dp_connect(fd, 1 - own, 5) == 0);
    if (own == 0) {
        write_too_long(fd, 0);
        /* Now it is known. */
        FAILS(dp_write(fd, message, LONG), EMSGSIZE);
        put(fd, "end", 3);
    }
    CHECK(next(fd, &address) == 3 && dp_fsync(fd, 1) == 0);
    if (own == 1) {
        write_too_long(fd, 1);
        put(fd, "end", 3);
    }
    CHECK(dp_close(fd) == 0);
    puts("told");
    return 0;
}
