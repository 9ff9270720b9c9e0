/* Opens DPID 5. `first` and `third` own it; for `second` it is taken. `fails` prints why no node opens; `later` repairs its environment,
 * and opens one. */
#define _GNU_SOURCE
#include "common.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int fd = dp_open(5);
    if (argv[1][0] == 'f' && argv[1][1] == 'a') {
        CHECK(fd == -1);
        char *why = strdup(dp_error());
        CHECK(dp_open(5) == -1 && strcmp(why, dp_error()) == 0);
        puts(why);
        return 0;
    }
    if (argv[1][0] == 'l') {
        CHECK(fd == -1 && setenv("AM_TRANSPORT", "udp", 1) == 0 && dp_open(5) >= 0);
        return 0;
    }
    if (argv[1][0] == 's') {
        CHECK(fd == -1 && errno == EADDRINUSE);
        int other = dp_open(6);
        CHECK(other >= 0 && dp_connect(other, 3, 5) == 0);
        put(other, "hello", 5);
        puts("its");
        return dp_close(other);
    }
    CHECK(fd >= 0);
    puts("mine");
    fflush(stdout);
    if (argv[1][0] == 'f') {
        char *address;
        CHECK(next(fd, &address) == 5 && dp_fsync(fd, 1) == 0);
        /* It is killed. */
        pause();
    }
    return 0;
}
