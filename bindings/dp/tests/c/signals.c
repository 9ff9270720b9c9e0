/* A `write` that waits for room ends with each signal whose handler says so, whenever it comes: also between two looks for room. Signals
 * whose handlers have SA_RESTART run, and end none. */
#define _GNU_SOURCE
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

enum { TURNS = 300 };

static atomic_int ended, restarted, turn, is_done;
static pthread_t writer;
static pid_t writers_number;

static void on_end(int signal) {
    (void)signal;
    ended++;
}

static void on_restart(int signal) {
    (void)signal;
    restarted++;
}

static void nap(long nanoseconds) {
    struct timespec time = {.tv_sec = 0, .tv_nsec = nanoseconds};
    nanosleep(&time, NULL);
}

/* Whether the writer sleeps, in the wait for room: the kernel says in which call. */
static int is_asleep(void) {
    char path[64];
    long call = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)writers_number);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    int found = fscanf(file, "%ld", &call);
    fclose(file);
    return found == 1 && (call == SYS_ppoll || call == SYS_clock_nanosleep);
}

static void *interrupt(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        while (turn == i || !is_asleep()) nap(20000);
        int before = restarted;
        CHECK(pthread_kill(writer, SIGUSR2) == 0);
        while (restarted == before) nap(20000);
        /* At any time: in a look as well as in a sleep. */
        nap(i * 7919 % 100000);
        CHECK(turn == i + 1 && pthread_kill(writer, i % 2 ? SIGUSR1 : SIGRTMIN) == 0);
        for (int waited = 0; turn == i + 1 && !is_done; waited++) {
            if (waited == 60000) {
                fprintf(stderr, "the signal of turn %d has ended no write\n", i);
                _exit(1);
            }
            nap(1000000);
        }
    }
    return unused;
}

int main(void) {
    static const char message[1000];
    struct sigaction end = {.sa_handler = on_end}, restart = {.sa_handler = on_restart, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &end, NULL) == 0 && sigaction(SIGRTMIN, &end, NULL) == 0 && sigaction(SIGUSR2, &restart, NULL) == 0);
    int fd = dp_open_pool(30, 4096);
    CHECK(fd >= 0 && dp_connect(fd, dp_nid(), 30) == 0);
    while (dp_write(fd, message, sizeof message) > 0) {
    }
    sigset_t before, after;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
    writer = pthread_self();
    writers_number = (pid_t)syscall(SYS_gettid);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, interrupt, NULL) == 0);
    for (int i = 0; i < TURNS; i++) {
        turn = i + 1;
        CHECK(dp_unix_write(fd, message, sizeof message) == -1 && errno == EINTR && ended == i + 1);
    }
    is_done = 1;
    CHECK(pthread_join(other, NULL) == 0 && restarted == TURNS);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0);
    for (int signal = 1; signal < 65; signal++) CHECK(sigismember(&before, signal) == sigismember(&after, signal));
    puts("each ended a write");
    return 0;
}
