/* A process alone: every call, its errors, endpoints joined by memory, the pool that cannot be written. */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static sigjmp_buf back;

static void on_fault(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

/* Whether a write to this place faults. */
static int faults(volatile char *place) {
    struct sigaction catch = {.sa_handler = on_fault}, before;
    volatile int faulted = 1;
    CHECK(sigaction(SIGSEGV, &catch, &before) == 0);
    if (sigsetjmp(back, 1) == 0) {
        *place = 'x';
        faulted = 0;
    }
    CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
    return faulted;
}

static void misuse(int one, int two) {
    char *address;
    dpmmap_t pool;
    dp_traffic_t traffic;
    FAILS(dp_open(-1), EINVAL);
    FAILS(dp_open(1), EADDRINUSE);
    FAILS(dp_open_pool(9, 100), EINVAL);
    FAILS(dp_open_pool(9, 0), EINVAL);
    FAILS(dp_read(77, &address), EBADF);
    FAILS(dp_read(-5, &address), EBADF);
    FAILS(dp_read(0, &address), EBADF);
    FAILS(dp_read(one, NULL), EINVAL);
    FAILS(dp_write(one, "text", 4), ENOTCONN);
    FAILS(dp_write(two, NULL, 4), EINVAL);
    FAILS(dp_write(two, "text", -1), EINVAL);
    FAILS(dp_write(two, "text", 0), EINVAL);
    FAILS(dp_write(77, "text", 4), EBADF);
    FAILS(dp_connect(77, 0, 1), EBADF);
    FAILS(dp_connect(one, -1, 1), EINVAL);
    FAILS(dp_connect(one, 0, -1), EINVAL);
    FAILS(dp_connect(one, 1, 1), EHOSTUNREACH);
    CHECK(strstr(dp_error(), "this process is alone") && strstr(dp_error(), "am-run -n 2"));
    FAILS(dp_fsync(one, 1), EINVAL);
    FAILS(dp_fsync(one, -1), EINVAL);
    FAILS(dp_fsync(77, 1), EBADF);
    FAILS(dp_mmap(77, &pool), EBADF);
    FAILS(dp_mmap(one, NULL), EINVAL);
    FAILS(dp_traffic(77, &traffic), EBADF);
    FAILS(dp_traffic(one, NULL), EINVAL);
    FAILS(dp_close(77), EBADF);
    CHECK(dp_is_point(one) == 1 && dp_is_point(0) == 0 && dp_is_point(-1) == 0 && dp_is_point(1 << 30) == 0);
    CHECK(dp_fsync(one, 0) == 0);
}

static void messages(int one, int two) {
    char *address, *other;
    dpmmap_t pool;
    CHECK(dp_read(two, &address) == 0);
    CHECK(dp_write(one, "first", 5) == 5 && dp_write(one, "second", 6) == 6);
    wait_readable(two);
    CHECK(dp_read(two, &address) == 5 && memcmp(address, "first", 5) == 0);
    CHECK(dp_read(two, &other) == 6 && memcmp(other, "second", 6) == 0 && memcmp(address, "first", 5) == 0);
    CHECK(dp_mmap(two, &pool) == 0 && address >= pool.address && other < pool.address + pool.size);
    CHECK(faults(address) && faults(other) && faults((char *)pool.address + pool.size - 1));
    CHECK(mprotect((void *)pool.address, pool.size, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
    FAILS(dp_fsync(two, 3), EINVAL);
    CHECK(dp_fsync(two, 2) == 0);
}

static void full(int one, int two) {
    static char message[1000];
    char *address;
    int count = 0;
    while (dp_write(one, message, sizeof message) == sizeof message) {
        count++;
    }
    CHECK(errno == EAGAIN && count >= 250);
    for (int i = 0; i < count; i++) {
        CHECK(dp_read(two, &address) == sizeof message && dp_fsync(two, 1) == 0);
    }
    static char whole[262144];
    CHECK(dp_write(one, whole, sizeof whole) == sizeof whole && dp_read(two, &address) == sizeof whole);
    CHECK(dp_fsync(two, 1) == 0);
    static char more[262145];
    FAILS(dp_write(one, more, sizeof more), EMSGSIZE);
}

static void calls_by_name(int one, int two) {
    char buffer[4];
    CHECK(dp_unix_write(one, "hello", 5) == 5 && dp_unix_read(two, buffer, 4) == 4 && memcmp(buffer, "hell", 4) == 0);
    CHECK(dp_write(one, "x", 1) == 1);
    char *address;
    CHECK(dp_read(two, &address) == 1 && dp_unix_fsync(two) == 0);
    CHECK(fcntl(two, F_SETFL, fcntl(two, F_GETFL) | O_NONBLOCK) == 0);
    FAILS(dp_unix_read(two, buffer, 4), EAGAIN);
    FAILS(dp_unix_read(two, NULL, 4), EFAULT);
}

static void forked(int one, pid_t child) {
    CHECK(child >= 0);
    if (child == 0) {
        char *address;
        FAILS(dp_read(one, &address), EPERM);
        FAILS(dp_open(50), EPERM);
        CHECK(dp_is_point(one) == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Another file has the number of an endpoint that was closed. */
static void used_again(void) {
    int five = dp_open(5);
    CHECK(five >= 0 && dp_is_point(five) == 1 && close(five) == 0);
    CHECK(open("/dev/null", O_RDWR) == five && dp_is_point(five) == 0 && close(five) == 0);
}

static void limited(void) {
    struct rlimit before;
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    struct rlimit few = {4096, before.rlim_max};
    CHECK(setrlimit(RLIMIT_FSIZE, &few) == 0);
    FAILS(dp_open(5), EFBIG);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
}

/* It runs last: the limit stays. */
static void without_descriptors(void) {
    struct rlimit none = {3, 3};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    FAILS(dp_open(60), EMFILE);
    CHECK(strstr(dp_error(), "ulimit -n"));
}

static void closed(int one, int two) {
    char *address;
    CHECK(dp_close(two) == 0);
    FAILS(dp_read(two, &address), EBADF);
    FAILS(dp_write(one, "gone", 4), ECONNRESET);
    CHECK(write(two, "x", 1) == -1 && errno == EBADF);
    /* By close() alone, which the next call notices. */
    CHECK(close(one) == 0);
    CHECK(dp_open(1) >= 0);
}

static void read_nothing(int fd) {
    char *address;
    for (int i = 0; i < 100000; i++) {
        CHECK(dp_read(fd, &address) == 0);
    }
}

/* A program that waits by reading, and never sleeps. */
static void closed_while_busy(int one) {
    int four = dp_open(4);
    CHECK(four >= 0 && dp_connect(one, 0, 4) == 0);
    read_nothing(one);
    CHECK(close(four) == 0);
    for (int i = 0; dp_write(one, "x", 1) == 1 || errno != ECONNRESET; i++) {
        read_nothing(one);
        CHECK(i < 100);
    }
    CHECK(dp_connect(one, 0, 2) == 0);
}

static char *message;

/* It runs last. A message that was not given back is still there. */
static void at_the_end(void) {
    if (message == NULL || memcmp(message, "last", 4) != 0) {
        _exit(3);
    }
}

static void keep_a_message(void) {
    int three = dp_open(3);
    CHECK(three >= 0 && dp_connect(three, 0, 3) == 0);
    put(three, "last", 4);
    CHECK(next(three, &message) == 4);
}

int main(void) {
    CHECK(atexit(at_the_end) == 0);
    CHECK(dp_nid() == 0 && dp_nodes() == 1 && dp_barrier() == 0);
    int one = dp_open(1), two = dp_open(2);
    CHECK(one >= 0 && two >= 0);
    CHECK(dp_connect(two, 0, 2) == 0);
    misuse(one, two);
    CHECK(dp_connect(one, 0, 2) == 0);
    messages(one, two);
    full(one, two);
    calls_by_name(one, two);
    forked(one, fork());
    /* No handlers run. */
    forked(one, (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    used_again();
    limited();
    closed_while_busy(one);
    closed(one, two);
    keep_a_message();
    without_descriptors();
    puts("all as it should be");
    return 0;
}
