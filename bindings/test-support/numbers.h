/* For the test programs of all bindings: a program's own files, which get the numbers of the library's descriptors. CHECK is the program's.
 * Define _GNU_SOURCE before. */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX = 2048, FILES = 40 };

static char is_open[MAX], is_library[MAX];
static const char *kind;

typedef struct {
    int fd;
    struct stat as_made;
} mine_t;

static mine_t mine[MAX];
static int count;

/* With two bytes, or a count of 2, that have to stay as they are. */
static int make(void) {
    int fd = -1, ends[2];
    if (strcmp(kind, "file") == 0) {
        CHECK((fd = memfd_create("mine", 0)) >= 0 && write(fd, "ab", 2) == 2 && lseek(fd, 0, SEEK_SET) == 0);
    } else if (strcmp(kind, "pipe") == 0) {
        CHECK(pipe2(ends, O_NONBLOCK) == 0 && write(ends[1], "ab", 2) == 2);
        fd = ends[0];
    } else {
        CHECK((fd = eventfd(2, EFD_NONBLOCK)) >= 0);
    }
    return fd;
}

static void add(int fd) {
    mine[count].fd = fd;
    CHECK(count < MAX && fstat(fd, &mine[count++].as_made) == 0);
}

static void check_mine(void) {
    for (int i = 0; i < count; i++) {
        struct stat now;
        char bytes[16] = "";
        unsigned long long number = 0;
        CHECK(fstat(mine[i].fd, &now) == 0 && now.st_ino == mine[i].as_made.st_ino && now.st_dev == mine[i].as_made.st_dev);
        if (strcmp(kind, "event") == 0) {
            CHECK(read(mine[i].fd, &number, sizeof number) == sizeof number && number == 2);
            CHECK(write(mine[i].fd, &number, sizeof number) == sizeof number);
        } else {
            CHECK(read(mine[i].fd, bytes, sizeof bytes) == 2 && memcmp(bytes, "ab", 2) == 0);
            if (strcmp(kind, "file") == 0) CHECK(lseek(mine[i].fd, 0, SEEK_SET) == 0);
            else mine[i].fd = -1;
        }
    }
    for (int i = count - 1; i >= 0; i--) {
        if (mine[i].fd < 0) mine[i] = mine[--count];
    }
}

/* Which numbers are open now. */
static void look(char numbers[MAX]) {
    memset(numbers, 0, MAX);
    for (int fd = 0; fd < MAX; fd++) numbers[fd] = fcntl(fd, F_GETFD) != -1;
}

/* Without the C library, of which the preload library has these functions. */
static void take(int fd) {
    int file = make();
    if (file != fd) CHECK(syscall(SYS_dup3, file, fd, 0) == fd && syscall(SYS_close, file) == 0);
    add(fd);
}

/* The library may notice it meanwhile, and close the rest. */
static void close_library(void) {
    for (int fd = 0; fd < MAX; fd++) {
        if (is_library[fd]) CHECK(syscall(SYS_close, fd) == 0 || errno == EBADF);
    }
}

/* With the first that goes, the library begins to close the others. A number that becomes another file between its look and its close cannot be
 * told from before, so all go before the first is taken. That a number becomes a file at once is tried with one at a time. */
static void take_all(void) {
    close_library();
    for (int fd = 0; fd < MAX; fd++) {
        if (is_library[fd]) take(fd);
    }
}

static void close_all(void) {
    close_library();
    for (int i = 0; i < FILES; i++) add(make());
}

/* All that became open since look(is_open) are the library's. */
static void note_library(void) {
    look(is_library);
    for (int fd = 0; fd < MAX; fd++) is_library[fd] = is_library[fd] && !is_open[fd];
}

/* HOW: dup or close. */
static __attribute__((unused)) void lose_all(const char *how) {
    strcmp(how, "dup") == 0 ? take_all() : close_all();
}

#endif
