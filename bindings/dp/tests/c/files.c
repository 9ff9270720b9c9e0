/* A program that knows read, write, fsync and close, for LD_PRELOAD: only open and connect are Directed Point's. */
#define _GNU_SOURCE
/* A `read` whose length is not known when this is compiled becomes another function. */
#undef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 2
#include "common.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <sys/uio.h>
#include <signal.h>

/* In a forked child, `read` and `write` of the copied descriptor fail, and after `close` the number can stand for a file. The parent's
 * endpoint is as before after the child's `exit`. */
static void forked(int fd, int file) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte = 0;
        CHECK(write(fd, "x", 1) == -1 && errno == EPERM && read(fd, &byte, 1) == -1 && errno == EPERM);
        CHECK(close(fd) == 0 && dup2(file, fd) == fd && read(fd, &byte, 1) == 1);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* What the preload library asks. `dp_is_point` looks for closed descriptors itself. */
extern int dp_unix_is_point(int fd);

static volatile sig_atomic_t alarms;

static void on_alarm(int signal) {
    (void)signal;
    alarms++;
}

/* A `read` that waits goes on after a signal if the handler says so, and else ends. */
static void interrupted(int fd) {
    char byte;
    struct sigaction restart = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, end = {.sa_handler = on_alarm};
    CHECK(sigaction(SIGALRM, &restart, NULL) == 0);
    ualarm(100000, 0);
    pid_t child = fork();
    if (child == 0) {
        usleep(300000);
        kill(getppid(), SIGUSR1);
        _exit(0);
    }
    CHECK(sigaction(SIGUSR1, &end, NULL) == 0);
    CHECK(read(fd, &byte, 1) == -1 && errno == EINTR && alarms == 2);
    CHECK(waitpid(child, NULL, 0) == child);
}

/* A `write` that waits for room ends with a signal, too. */
static void interrupted_write(void) {
    static const char message[1000];
    int fd = dp_open_pool(30, 4096);
    CHECK(fd >= 0 && dp_connect(fd, dp_nid(), 30) == 0);
    struct sigaction end = {.sa_handler = on_alarm};
    CHECK(sigaction(SIGALRM, &end, NULL) == 0);
    ualarm(100000, 0);
    ssize_t n;
    while ((n = write(fd, message, sizeof message)) == sizeof message) {
    }
    CHECK(n == -1 && errno == EINTR && close(fd) == 0);
}

/* A child of `vfork` closes its own descriptors, and not its parent's endpoint. */
static void vforked(int fd) {
    pid_t child = vfork();
    if (child == 0) {
        _exit(close(fd));
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0 && dp_unix_is_point(fd));
}

/* Each way to close an endpoint frees its number, for a file or another endpoint. */
static void closed(int file) {
    int way = 0, fd = -1;
    char byte = 1;
    for (; way < 6; way++) {
        CHECK((fd = dp_open(20 + way)) >= 0);
        CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
        struct iovec piece = {.iov_base = &byte, .iov_len = 1};
        CHECK(writev(fd, &piece, 1) == -1 && errno == EPIPE);
        switch (way) {
        case 0: CHECK(close(fd) == 0); break;
        case 1: CHECK(dup2(file, fd) == fd); break;
        case 2: CHECK(dup3(file, fd, O_CLOEXEC) == fd); break;
        case 3: CHECK(close_range(fd, fd, 0) == 0); break;
        case 4: CHECK(fclose(fdopen(fd, "r")) == 0); break;
        case 5: CHECK(dup2(-1, fd) == -1 && dp_unix_is_point(fd)); closefrom(fd); break;
        }
        CHECK(!dp_unix_is_point(fd));
        if (way == 1 || way == 2) {
            CHECK(read(fd, &byte, 1) == 1 && byte == 0 && close(fd) == 0);
        }
    }
}

/* A stream without a descriptor closes as ever. */
static void stream_in_memory(void) {
    char text[8] = "text";
    FILE *stream = fmemopen(text, sizeof text, "r");
    errno = 0;
    CHECK(stream != NULL && fclose(stream) == 0 && errno == 0);
}

int main(int argc, char **argv) {
    char buffer[64];
    size_t room = argc > 1 ? (size_t)atoi(argv[1]) : sizeof buffer - 1;
    int own = dp_nid(), fd = dp_open(own);
    CHECK(fd >= 0 && dp_connect(fd, 1 - own, 1 - own) == 0);
    int file = open("/dev/zero", O_RDONLY);
    CHECK(read(file, buffer, 3) == 3 && buffer[0] == 0);
    for (int i = 0; i < 1000; i++) {
        if (i == 500) {
            forked(fd, file);
        }
        if (own == 0) {
            int length = snprintf(buffer, sizeof buffer, "message %d", i);
            CHECK(write(fd, buffer, length) == length);
        }
        ssize_t n = read(fd, buffer, room);
        CHECK(n > 0);
        buffer[n] = 0;
        CHECK(atoi(buffer + 8) == i);
        if (own == 1) {
            CHECK(write(fd, buffer, n) == n);
        }
    }
    CHECK(fsync(fd) == -1 && errno == EINVAL);
    if (own == 0) {
        interrupted(fd);
        interrupted_write();
        vforked(fd);
        closed(file);
        stream_in_memory();
    }
    CHECK(close(fd) == 0 && close(file) == 0);
    CHECK(read(fd, buffer, 1) == -1 && errno == EBADF);
    /* What was written last may be on its way still. */
    CHECK(dp_open(own) >= 0);
    puts("as files");
    return 0;
}
