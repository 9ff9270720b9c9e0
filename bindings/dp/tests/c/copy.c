/* A read on a copy of an endpoint takes no message, and the endpoint is readable again. So it is if the endpoint itself is read without the
 * preload library. */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>

int main(void) {
    char *address, bytes[100];
    int fd = dp_open(1), from = dp_open(2);
    CHECK(dp_connect(from, dp_nid(), 1) == 0);
    int places[] = {dup(fd), fd};
    for (int way = 0; way < 2; way++) {
        CHECK(fcntl(places[way], F_SETFL, O_NONBLOCK) == 0);
        CHECK(dp_write(from, "message", 7) == 7);
        for (int i = 0; i < 3; i++) {
            wait_readable(fd);
            CHECK(read(places[way], bytes, sizeof bytes) >= 0);
        }
        wait_readable(fd);
        CHECK(dp_read(fd, &address) == 7 && memcmp(address, "message", 7) == 0 && dp_fsync(fd, 1) == 0);
        struct pollfd one = {.fd = fd, .events = POLLIN, .revents = 0};
        CHECK(dp_read(fd, &address) == 0 && poll(&one, 1, 300) == 0);
    }
    puts("nothing was taken");
    return 0;
}
