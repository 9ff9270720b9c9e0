/* read, write, fsync, close and the calls that close in other ways, for programs that use Directed Point's descriptors as files:
 *
 *   LD_PRELOAD=libamdp_preload.so program
 *
 * Each call looks whether its descriptor is an endpoint: one load and some arithmetic. What is none goes to the C library.
 *
 * The library has descriptors of its own: sockets, a timer, the node's ends of the endpoints. A program that closes all numbers means its
 * own, so these stay open: close says EBADF, dup2 and dup3 say EBUSY, and close_range and closefrom leave them out.
 * What the BPF loader has opened is not known here, and goes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Of libamdp, which the program is linked with. Without it nothing is an endpoint. */
extern int dp_unix_is_point(int fd) __attribute__((weak));
extern long dp_unix_read(int fd, void *buffer, size_t bytes) __attribute__((weak));
extern long dp_unix_write(int fd, const void *msg, size_t bytes) __attribute__((weak));
extern int dp_unix_fsync(int fd) __attribute__((weak));
extern void dp_unix_close(int fd) __attribute__((weak));
extern int dp_unix_is_own(int fd) __attribute__((weak));

static int is_point(int fd) { return dp_unix_is_point && dp_unix_is_point(fd); }

static int is_own(int fd) { return dp_unix_is_own && dp_unix_is_own(fd); }

/* Endpoints, and the library's own descriptors, have lower numbers. */
enum { MAX_FD = 1 << 16 };

/* The C library's function of this name. */
#define NEXT(type, name)                                  \
    static __typeof__(type) next;                                  \
    if (!next) {                                          \
        *(void **)&next = dlsym(RTLD_NEXT, name);         \
    }

ssize_t read(int fd, void *buffer, size_t bytes) {
    NEXT(ssize_t (*)(int, void *, size_t), "read")
    return is_point(fd) ? dp_unix_read(fd, buffer, bytes) : next(fd, buffer, bytes);
}

/* The compiler calls this instead of `read` where it knows the buffer's size (_FORTIFY_SOURCE). For a read that is longer than the
 * buffer, the C library's function ends the program. */
ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room) {
    NEXT(ssize_t (*)(int, void *, size_t, size_t), "__read_chk")
    return is_point(fd) && bytes <= room ? dp_unix_read(fd, buffer, bytes) : next(fd, buffer, bytes, room);
}

ssize_t write(int fd, const void *msg, size_t bytes) {
    NEXT(ssize_t (*)(int, const void *, size_t), "write")
    return is_point(fd) ? dp_unix_write(fd, msg, bytes) : next(fd, msg, bytes);
}

int fsync(int fd) {
    NEXT(int (*)(int), "fsync")
    return is_point(fd) ? dp_unix_fsync(fd) : next(fd);
}

/* The program is about to close these. What the call that follows leaves in errno is the C library's alone. */
static void forget(unsigned first, unsigned last) {
    int before = errno;
    for (unsigned fd = first; fd <= last && fd < MAX_FD; fd++) {
        if (is_point((int)fd)) {
            dp_unix_close((int)fd);
        }
    }
    errno = before;
}

/* A call that would close the library's own descriptor fails with this. */
static int spare(int why) {
    errno = why;
    return -1;
}

int close(int fd) {
    NEXT(int (*)(int), "close")
    forget(fd, fd);
    return is_own(fd) ? spare(EBADF) : next(fd);
}

/* All of these but the library's own. */
static int close_others(unsigned first, unsigned last, int flags) {
    for (unsigned fd = first; fd <= last && fd < MAX_FD; fd++) {
        if (!is_own((int)fd)) {
            continue;
        }
        if (fd > first && syscall(SYS_close_range, first, fd - 1, flags) != 0) {
            return -1;
        }
        if (fd == last) {
            return 0;
        }
        first = fd + 1;
    }
    return (int)syscall(SYS_close_range, first, last, flags);
}

int close_range(unsigned first, unsigned last, int flags) {
    NEXT(int (*)(unsigned, unsigned, int), "close_range")
    if (flags & CLOSE_RANGE_CLOEXEC || first > last) {
        return next(first, last, flags);
    }
    forget(first, last);
    return close_others(first, last, flags);
}

void closefrom(int first) {
    NEXT(void (*)(int), "closefrom")
    unsigned from = first > 0 ? first : 0;
    forget(from, ~0U);
    /* The C library knows what to do where the kernel has no close_range. */
    if (close_others(from, ~0U, 0) != 0) {
        next(first);
    }
}

static void forget_stream(FILE *file) {
    int before = errno;
    /* A stream in memory has none, which is no error of the program's. */
    int fd = fileno(file);
    errno = before;
    forget(fd, fd);
}

int fclose(FILE *file) {
    NEXT(int (*)(FILE *), "fclose")
    forget_stream(file);
    return next(file);
}

FILE *freopen(const char *path, const char *mode, FILE *file) {
    NEXT(FILE *(*)(const char *, const char *, FILE *), "freopen")
    forget_stream(file);
    return next(path, mode, file);
}

FILE *freopen64(const char *path, const char *mode, FILE *file) {
    NEXT(FILE *(*)(const char *, const char *, FILE *), "freopen64")
    forget_stream(file);
    return next(path, mode, file);
}

/* The program is about to make `fd` a copy of `old`. It fails, and closes nothing, where `old` is not open. */
static void forget_replaced(int old, int fd) {
    if (old != fd && fcntl(old, F_GETFD) != -1) {
        forget(fd, fd);
    }
}

int dup2(int old, int fd) {
    NEXT(int (*)(int, int), "dup2")
    forget_replaced(old, fd);
    return old != fd && is_own(fd) ? spare(EBUSY) : next(old, fd);
}

int dup3(int old, int fd, int flags) {
    NEXT(int (*)(int, int, int), "dup3")
    forget_replaced(old, fd);
    return old != fd && is_own(fd) ? spare(EBUSY) : next(old, fd, flags);
}
