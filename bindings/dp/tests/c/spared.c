/* With the preload library: whatever the program closes, the library's own descriptors stay open, and only its endpoints go. */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>

/* What the preload library asks. */
extern int dp_unix_is_own(int fd);

enum { MAX = 1024 };

static int owned(void) {
    int count = 0;
    for (int fd = 0; fd < MAX; fd++) count += dp_unix_is_own(fd);
    return count;
}

/* An endpoint with its edge to itself, and a message on it. */
static int loop(int dpid) {
    char *address;
    int fd = dp_open(dpid);
    CHECK(fd >= 0 && dp_connect(fd, dp_nid(), dpid) == 0 && dp_write(fd, "hello", 5) == 5);
    CHECK(next(fd, &address) == 5 && dp_fsync(fd, 1) == 0);
    return fd;
}

int main(void) {
    char *address;
    int low = loop(1), high = loop(2), file = open("/dev/zero", O_RDONLY), before = owned();
    CHECK(low < high && before > 4 && !dp_unix_is_own(low) && !dp_unix_is_own(file));
    for (int fd = 0; fd < MAX; fd++) {
        if (!dp_unix_is_own(fd)) continue;
        errno = 0;
        CHECK(close(fd) == -1 && errno == EBADF);
        CHECK(dup2(file, fd) == -1 && errno == EBUSY && dup3(file, fd, 0) == -1 && errno == EBUSY);
        CHECK(close_range(fd, fd, 0) == 0 && dup2(fd, fd) == fd && dp_unix_is_own(fd));
    }
    CHECK(owned() == before);
    closefrom(high);
    CHECK(fcntl(file, F_GETFD) == -1 && !dp_is_point(high) && dp_is_point(low));
    CHECK(dp_write(low, "again", 5) == 5 && next(low, &address) == 5 && memcmp(address, "again", 5) == 0);
    /* What the node had for that endpoint goes with it. */
    high = loop(2);
    while (owned() != before) usleep(1000);
    CHECK(close_range(3, ~0U, 0) == 0 && !dp_is_point(low) && !dp_is_point(high));
    FAILS(dp_write(low, "x", 1), EBADF);
    CHECK(strstr(dp_error(), "closed descriptors") == NULL);
    loop(1);
    for (int fd = 3; fd < MAX; fd++) close(fd);
    loop(1);
    /* A stream that is opened anew closes its endpoint. */
    int fd = loop(5);
    FILE *stream = fdopen(fd, "r"), *zero = freopen("/dev/zero", "r", stream);
    char byte = 1;
    CHECK(zero != NULL && !dp_is_point(fd) && fread(&byte, 1, 1, zero) == 1 && byte == 0);
    puts("spared");
    return 0;
}
