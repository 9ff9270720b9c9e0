/* What a program does beside PVM: it has children of its own, signals of its own, and computes for long. */
#include "common.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { TASK = 1, DATA = 2, ROUNDS = 25, COUNT = 300, LENGTH = 20000, BURST = 100 };

static volatile sig_atomic_t alarms, arrivals;

static void on_alarm(int number) {
    (void)number;
    alarms++;
}

static void on_arrival(int number) {
    (void)number;
    arrivals++;
}

/* Answer each message, until one is empty. */
static void echo(int parent) {
    char *bytes = malloc(LENGTH);
    answer(parent, TASK, ROUNDS);
    for (;;) {
        int length, mid = pvm_recv(parent, DATA);
        pvm_bufinfo(mid, &length, 0, 0);
        if (length == 0) {
            break;
        }
        pvm_upkbyte(bytes, length, 1);
        pvm_psend(parent, DATA, bytes, length, PVM_BYTE);
    }
    free(bytes);
}

static void ask(int tid, int number, char *bytes, int length) {
    int got;
    memset(bytes, number, (size_t)length);
    pvm_psend(tid, DATA, bytes, length, PVM_BYTE);
    memset(bytes, number + 1, (size_t)length);
    if (pvm_precv(tid, DATA, bytes, length, PVM_BYTE, 0, 0, &got) < 0 || got != length) {
        fail("%d bytes instead of %d", got, length);
    }
    for (int i = 0; i < length; i++) {
        if (bytes[i] != (char)number) {
            fail("byte %d of answer %d", i, number);
        }
    }
}

static void say_end(int tid) {
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, DATA);
}

/* Children that compute, run another program, or end at once: the parent goes on, and gets nothing of its messages twice. */
static void fork_children(int tid, char *bytes) {
    for (int i = 0; i < 30; i++) {
        int status, pipes[2];
        char text[16] = "";
        pid_t child;
        if (pipe(pipes) < 0) {
            fail("no pipe");
        }
        /* Something is under way. */
        memset(bytes, i, LENGTH);
        pvm_psend(tid, DATA, bytes, LENGTH, PVM_BYTE);
        child = fork();
        if (child == 0) {
            if (i % 3 == 0) {
                dup2(pipes[1], 1);
                execlp("echo", "echo", "hello", (char *)0);
            }
            if (write(pipes[1], "hello\n", 6) != 6) {
                _exit(1);
            }
            /* With what the program wants at its end, and without it. */
            i % 3 == 1 ? exit(0) : _exit(0);
        }
        close(pipes[1]);
        for (int at = 0, got; (got = (int)read(pipes[0], text + at, sizeof text - 1 - (size_t)at)) > 0;) {
            at += got;
        }
        close(pipes[0]);
        if (waitpid(child, &status, 0) != child || status != 0 || strcmp(text, "hello\n") != 0) {
            fail("child %d: %d, %s", i, status, text);
        }
        if (waitpid(-1, &status, WNOHANG) != -1 || errno != ECHILD) {
            fail("a child that the program has not started");
        }
        pvm_precv(tid, DATA, bytes, LENGTH, PVM_BYTE, 0, 0, 0);
        if (bytes[0] != (char)i || bytes[LENGTH - 1] != (char)i) {
            fail("answer %d", i);
        }
        ask(tid, i, bytes, 1 + i * 600);
    }
    printf("a task with 30 children has got all its messages\n");
}

/* A timer that interrupts whatever is under way, and SIGIO of a socket of the program's own. */
static void get_signals(int tid, char *bytes) {
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {0};
    int pair[2];
    char byte = 0;
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, 0);
    action.sa_handler = on_arrival;
    sigaction(SIGIO, &action, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) {
        fail("no sockets");
    }
    fcntl(pair[0], F_SETOWN, getpid());
    fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK);
    setitimer(ITIMER_REAL, &often, 0);
    for (int i = 0; i < COUNT; i++) {
        if (write(pair[1], &byte, 1) != 1) {
            fail("cannot write");
        }
        ask(tid, i, bytes, 1 + i % 7 * 3000);
        while (read(pair[0], &byte, 1) == 1) {
        }
    }
    setitimer(ITIMER_REAL, &never, 0);
    action.sa_handler = SIG_IGN;
    sigaction(SIGIO, &action, 0);
    if (arrivals < COUNT / 2 || alarms < 5) {
        fail("%d signals of a socket, %d of a timer", (int)arrivals, (int)alarms);
    }
    printf("a task with signals of its own has got %d answers\n", COUNT);
}

/* The task may open no more files. The kernel does not poll as many as it has then. */
static void open_nothing(int tid, char *bytes) {
    struct rlimit none = {0, 0};
    struct timeval second = {1, 0};
    double before;
    setrlimit(RLIMIT_NOFILE, &none);
    for (int i = 0; i < COUNT; i++) {
        ask(tid, i, bytes, 1 + i % 7 * 3000);
    }
    before = used();
    if (pvm_trecv(tid, TASK, &second) != 0 || used() - before > 0.3) {
        fail("a wait of a second has used %.1f s", used() - before);
    }
    printf("a task that may open nothing has got %d answers\n", COUNT);
}

static void *wait_in_vain(void *tid) {
    pvm_recv(*(int *)tid, TASK);
    return tid;
}

/* A thread that waits is cancelled. The others take part. */
static void cancel_threads(int tid, char *bytes) {
    for (int i = 0; i < COUNT; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, wait_in_vain, &tid) != 0) {
            fail("no thread");
        }
        usleep(i % 4 * 500);
        pthread_cancel(thread);
        pthread_join(thread, 0);
        ask(tid, i, bytes, 1 + i % 7 * 3000);
    }
    printf("a task with threads that were cancelled has got %d answers\n", COUNT);
}

/* A process of the task's own calls PVM. The library says what that one does not get. */
static void go_on_as_child(int tid) {
    struct timeval moment = {0, 1000};
    int status;
    pid_t child = fork();
    if (child == 0) {
        pvm_trecv(tid, TASK, &moment);
        pvm_trecv(tid, TASK, &moment);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("a child has called PVM\n");
}

/* The program's files replace the library's. */
static void lose_descriptors(int tid, char *bytes) {
    int other = open("/dev/null", O_RDWR), code = 0;
    for (int number = 20; number < 1024; number++) {
        dup2(other, number);
    }
    for (int i = 0; i < COUNT && code >= 0; i++) {
        pvm_psend(tid, DATA, bytes, LENGTH, PVM_BYTE);
        code = pvm_recv(tid, DATA);
    }
    if (code != PvmSysErr) {
        fail("%d", code);
    }
    printf("a task without the descriptors of the library has got an error\n");
}

/* The other task computes for this long, without a call. What is sent to it waits for it, and the senders do not. */
static void compute(char **arguments, double seconds) {
    int tids[3], parent = pvm_parent();
    char *bytes = malloc(LENGTH);
    if (parent != PvmNoParent) {
        int length, first;
        pvm_recv(parent, TASK);
        pvm_upkint(tids, 3, 1);
        first = tids[0];
        if (first == pvm_mytid()) {
            answer(tids[1], TASK, ROUNDS);
            answer(tids[2], TASK, ROUNDS);
            for (double end = now() + seconds; now() < end;) {
            }
            for (int count = 0; count < 2 * (int)seconds * BURST; count++) {
                pvm_bufinfo(pvm_recv(-1, DATA), &length, 0, 0);
                if (length != LENGTH) {
                    fail("%d bytes", length);
                }
            }
        } else {
            double longest = 0;
            settle(first, TASK, ROUNDS);
            for (int count = 0; count < (int)seconds * BURST; count++) {
                double since = now();
                pvm_psend(first, DATA, bytes, LENGTH, PVM_BYTE);
                longest = now() - since > longest ? now() - since : longest;
                usleep(1000000 / BURST * 9 / 10);
            }
            if (longest > 1.5) {
                fail("a send waited %.1f s for a task that computes", longest);
            }
        }
        pvm_initsend(PvmDataDefault);
        pvm_send(parent, DATA);
        pvm_exit();
        exit(0);
    }
    spawn("alone", arguments, 3, tids);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(tids, 3, 1);
    pvm_mcast(tids, 3, TASK);
    for (int i = 0; i < 3; i++) {
        pvm_recv(-1, DATA);
    }
    printf("a task has computed for %g s, and has got all messages\n", seconds);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "fork";
    int parent = pvm_parent(), tid;
    char *bytes = malloc(LENGTH);
    if (strcmp(way, "compute") == 0) {
        compute(arguments + 1, count > 2 ? atof(arguments[2]) : 10);
    } else if (parent != PvmNoParent) {
        echo(parent);
    } else {
        spawn("alone", arguments + 1, 1, &tid);
        settle(tid, TASK, ROUNDS);
        if (strcmp(way, "fork") == 0) {
            fork_children(tid, bytes);
        } else if (strcmp(way, "signals") == 0) {
            get_signals(tid, bytes);
        } else if (strcmp(way, "limit") == 0) {
            open_nothing(tid, bytes);
        } else if (strcmp(way, "cancel") == 0) {
            cancel_threads(tid, bytes);
        } else if (strcmp(way, "child") == 0) {
            go_on_as_child(tid);
        } else {
            lose_descriptors(tid, bytes);
        }
        say_end(tid);
    }
    pvm_exit();
    return 0;
}
