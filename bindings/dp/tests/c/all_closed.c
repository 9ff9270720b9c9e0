/* A program that closes every descriptor, as one that goes into the background, and opens files: the library's thread does not spin,
 * the library writes into none of the files and closes none, and a node can be opened again. */
#define _GNU_SOURCE
#include "common.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { FILES = 20 };

static void close_all(void) {
    for (int fd = 3; fd < 1024; fd++) {
        close(fd);
    }
}

static void open_files(int files[FILES]) {
    for (int i = 0; i < FILES; i++) {
        CHECK((files[i] = memfd_create("file", 0)) >= 0);
    }
}

static void check_files(const int files[FILES]) {
    for (int i = 0; i < FILES; i++) {
        struct stat file;
        CHECK(fstat(files[i], &file) == 0 && file.st_size == 0 && lseek(files[i], 0, SEEK_CUR) == 0);
        CHECK(close(files[i]) == 0);
    }
}

/* Close everything after so long, with the thread asleep, or after many reads, which keep it away. */
static void close_and_write(int milliseconds, int reads) {
    int files[FILES], fd = dp_open(1);
    char *address;
    CHECK(fd >= 0 && dp_connect(fd, 0, 1) == 0 && dp_write(fd, "hello", 5) == 5);
    usleep((unsigned)milliseconds * 1000);
    for (int i = 0; i < reads; i++) {
        dp_read(fd, &address);
    }
    close_all();
    open_files(files);
    for (int i = 0; i < 2000; i++) {
        dp_write(fd, "hello", 5);
        dp_read(fd, &address);
        if (i % 100 == 0) {
            usleep(1000);
        }
    }
    FAILS(dp_close(fd), EBADF);
    int again = dp_open(7);
    CHECK(again >= 0 && dp_connect(again, 0, 7) == 0 && dp_close(again) == 0);
    check_files(files);
}

int main(void) {
    CHECK(dp_open(1) >= 0);
    close_all();
    sleep(1);
    struct rusage used;
    CHECK(getrusage(RUSAGE_SELF, &used) == 0);
    long milliseconds = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
    CHECK(milliseconds < 300);
    close_and_write(300, 0);
    close_all();
    close_and_write(0, 100000);
    /* At once: the thread had no time to notice it. */
    close_all();
    CHECK(dp_open(1) >= 0);
    /* At the exit nothing is closed twice. */
    close_all();
    return 0;
}
