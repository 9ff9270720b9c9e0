/* A program that closes the library's descriptors by their numbers, and has files of its own there: the library closes none of them,
 * reads from none and writes into none, says what has happened, and opens a node again.
 *
 *   numbers HOW KIND
 *     HOW   dup: each number becomes a file at once; close: all are closed, and files are opened; one: only one number, in turn
 *     KIND  file, pipe, event: what the files are
 */
#define _GNU_SOURCE
#include "common.h"

#include "../../../test-support/numbers.h"

static int ends[2];

static void open_ends(int first) {
    char *address;
    look(is_open);
    for (int i = 0; i < 2; i++) CHECK((ends[i] = dp_open(first + i)) >= 0);
    CHECK(dp_connect(ends[0], dp_nid(), first + 1) == 0 && dp_connect(ends[1], dp_nid(), first) == 0);
    CHECK(dp_write(ends[0], "hello", 5) == 5);
    while (dp_read(ends[1], &address) == 0) usleep(100);
    CHECK(memcmp(address, "hello", 5) == 0 && dp_fsync(ends[1], 1) == 0);
    note_library();
}

static int nth_library(int nth) {
    for (int fd = 0; fd < MAX; fd++) {
        if (is_library[fd] && nth-- == 0) return fd;
    }
    return -1;
}

/* Whatever the program calls then fails, and says why; in the end always. */
static void use(void) {
    char *address;
    dpmmap_t pool;
    for (int i = 0; i < 2000; i++) {
        dp_write(ends[0], "hello", 5);
        dp_read(ends[1], &address);
        dp_fsync(ends[1], 1);
        if (i % 100 == 0) usleep(1000);
    }
    while (dp_mmap(ends[0], &pool) == 0 || dp_mmap(ends[1], &pool) == 0) usleep(1000);
    CHECK(errno == EBADF && strstr(dp_error(), "is no endpoint") != NULL);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    kind = argv[2];
    open_ends(1);
    if (strcmp(argv[1], "one") == 0) {
        /* The node ends without it, or the endpoint whose number it is. */
        for (int nth = 0, at; (at = nth_library(nth)) >= 0; nth++) {
            char *address;
            take(at);
            for (int i = 0; i < 300; i++) {
                dp_write(ends[0], "hello", 5);
                dp_read(ends[1], &address);
                if (i % 100 == 0) usleep(1000);
            }
            dp_close(ends[0]);
            dp_close(ends[1]);
            check_mine();
            open_ends(3 + 2 * nth);
        }
    } else {
        lose_all(argv[1]);
        use();
        check_mine();
        open_ends(1);
        CHECK(dp_close(ends[0]) == 0 && dp_close(ends[1]) == 0);
        check_mine();
        open_ends(1);
        lose_all(argv[1]);
    }
    /* At the exit nothing is closed twice, and what the program has not written yet is written then. */
    printf("mine are as they were\n");
    return 0;
}
