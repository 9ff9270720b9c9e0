/* What the programs of these tests have in common. */
#include <pvm3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

static void fail(const char *what, ...) {
    va_list rest;
    va_start(rest, what);
    printf("FAILED in %x: ", (unsigned)pvm_mytid());
    vprintf(what, rest);
    printf("\n");
    fflush(stdout);
    va_end(rest);
    pvm_exit();
    exit(1);
}

static double now(void) {
    struct timeval time;
    gettimeofday(&time, 0);
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* The processor's seconds that this process has used. */
static double used(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* A number that depends on all of its arguments. */
static unsigned mixed(unsigned a, unsigned b) {
    unsigned x = a * 2654435761u ^ b * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ x >> 13;
}

/* With AM_OTHER every other task, from the first one on, has that library, and the rest has the one of this task. */
static void spawn(const char *name, char **arguments, int count, int *tids) {
    const char *other = getenv("AM_OTHER"), *own = getenv("LD_PRELOAD");
    int started = 0;
    if (!other) {
        started = pvm_spawn((char *)name, arguments, PvmTaskDefault, "", count, tids);
    }
    for (int i = 0; other && i < count; i++) {
        setenv("LD_PRELOAD", i % 2 == 0 ? other : own, 1);
        started += pvm_spawn((char *)name, arguments, PvmTaskDefault, "", 1, &tids[i]);
    }
    if (started != count) {
        fail("%d of %d tasks started", started, count);
    }
}

/* Until both are on the route that they agree on: some messages there and back. */
static void settle(int tid, int tag, int rounds) {
    for (int i = 0; i < rounds; i++) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&i, 1, 1);
        pvm_send(tid, tag);
        pvm_recv(tid, tag);
        usleep(4000);
    }
}

/* Send this number of messages of these bytes, each filled with its number. */
static void give(int tid, int tag, int count, char *bytes, int length) {
    for (int i = 0; i < count; i++) {
        memset(bytes, i, (size_t)length);
        pvm_psend(tid, tag, bytes, length, PVM_BYTE);
    }
}

/* Receive them, in their order. */
static void take(int tid, int tag, int count, char *bytes, int length) {
    for (int i = 0; i < count; i++) {
        pvm_recv(tid, tag);
        pvm_upkbyte(bytes, length, 1);
        if (bytes[0] != (char)i || bytes[length - 1] != (char)i) {
            fail("message %d", i);
        }
    }
}

static void answer(int tid, int tag, int rounds) {
    for (int i = 0; i < rounds; i++) {
        pvm_recv(tid, tag);
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&i, 1, 1);
        pvm_send(tid, tag);
    }
}
