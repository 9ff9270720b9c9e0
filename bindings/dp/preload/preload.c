/* read, write, fsync and close for programs that use Directed Point's descriptors as files:
 *
 *   LD_PRELOAD=libamdp_preload.so program
 *
 * Each call looks whether its descriptor is an endpoint: one load and some arithmetic. What is none goes to the C library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

/* Of libamdp, which the program is linked with. Without it nothing is an endpoint. */
extern int dp_unix_is_point(int fd) __attribute__((weak));
extern long dp_unix_read(int fd, void *buffer, size_t bytes) __attribute__((weak));
extern long dp_unix_write(int fd, const void *msg, size_t bytes) __attribute__((weak));
extern int dp_unix_fsync(int fd) __attribute__((weak));
extern void dp_unix_close(int fd) __attribute__((weak));

static int is_point(int fd) { return dp_unix_is_point && dp_unix_is_point(fd); }

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

int close(int fd) {
    NEXT(int (*)(int), "close")
    if (is_point(fd)) {
        dp_unix_close(fd);
    }
    return next(fd);
}
