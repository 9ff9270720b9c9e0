/* Several processes of node 3: `holder DPID` opens an endpoint and waits for a message. `writer DPID...`, of any node, writes to each. */
#define _GNU_SOURCE
#include "common.h"

int main(int argc, char **argv) {
    CHECK(argc > 2);
    if (argv[1][0] == 'h') {
        char *address;
        int fd = dp_open(atoi(argv[2]));
        CHECK(fd >= 0);
        puts("open");
        fflush(stdout);
        CHECK(next(fd, &address) == 5 && memcmp(address, "hello", 5) == 0);
        puts("got it");
        return dp_close(fd);
    }
    int fd = dp_open(1);
    CHECK(fd >= 0);
    for (int i = 2; i < argc; i++) {
        CHECK(dp_connect(fd, 3, atoi(argv[i])) == 0);
        put(fd, "hello", 5);
    }
    FAILS(dp_connect(fd, 3, 999), ECONNREFUSED);
    return dp_close(fd);
}
