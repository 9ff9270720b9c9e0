/* The measurement loops of our programs for foreign message systems.
 *
 *   near                                   far
 *    | MORE, MORE, ... LAST  one by one --> | each comes back: round trips
 *    | MORE ... LAST     in windows ------> | counts
 *    | <----- counted, after each window -- | the last ends the measurement
 *
 * A program that includes this has `put` and `get`, which block, and the same of
 * several messages of one size at once. Arguments: nanoseconds of a measurement,
 * nanoseconds before it, sizes. What comes out are the lines of peer.sh.
 */
#ifndef MEASURE_H
#define MEASURE_H

#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { NEAR, FAR };
enum { MORE, LAST };

static void put(const char *message, int size);
static void get(char *message, int size);
static void put_many(const char *message, int size, int count);
static void get_many(char *messages, int size, int count);

struct counted {
    uint64_t messages, cpu;
};

/* The limit of recorded round trips. */
enum { KEPT = 1 << 20 };

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t of_timeval(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static uint64_t cpu(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return of_timeval(used.ru_utime) + of_timeval(used.ru_stime);
}

/* `AM_BENCH_CORES=2,3`: near and far; `none` is not pinned. */
static void pin(int side)
{
    const char *cores = getenv("AM_BENCH_CORES");
    const char *second = cores ? strchr(cores, ',') : NULL;
    const char *core = side == FAR && second ? second + 1 : cores;
    cpu_set_t set;
    if (!core || *core < '0' || *core > '9')
        return;
    CPU_ZERO(&set);
    CPU_SET(atoi(core), &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* Messages in flight: about a megabyte. */
static int window(int size)
{
    return size >= 1 << 16 ? 8 : 64;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void one_way(int size, uint64_t *times, uint64_t count)
{
    double sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += (double)times[i];
    qsort(times, count, sizeof *times, compare);
    printf("{\"size\":%d,\"p50\":%.1f,\"p99\":%.1f,\"mean\":%.1f}\n", size, times[count / 2] / 2.0, times[count * 99 / 100] / 2.0,
           sum / (double)count / 2.0);
    fflush(stdout);
}

static void round_trips(int side, char *message, int size, uint64_t length, uint64_t warm)
{
    static uint64_t times[KEPT];
    uint64_t count = 0, begin = now(), end = begin + warm + length;
    if (side == FAR) {
        do {
            get(message, size);
            put(message, size);
        } while (message[0] != LAST);
        return;
    }
    /* The clock is read once an exchange: the end of one is the start of the next. */
    uint64_t sent = begin, back;
    for (message[0] = MORE; message[0] != LAST; sent = back) {
        if (sent >= end || count == KEPT)
            message[0] = LAST;
        put(message, size);
        get(message, size);
        back = now();
        if (message[0] == MORE && sent >= begin + warm)
            times[count++] = back - sent;
    }
    if (count > 0)
        one_way(size, times, count);
}

static void get_windows(char *messages, int size)
{
    struct counted counted = {0, 0};
    uint64_t used = cpu();
    do {
        get_many(messages, size, window(size));
        counted.messages += (uint64_t)window(size);
        counted.cpu = cpu() - used;
        put((const char *)&counted, sizeof counted);
    } while (messages[0] != LAST);
}

/* Send a few windows ahead of the other side, until it has them all. Returns its count. */
static struct counted put_windows(char *message, int size, uint64_t length)
{
    enum { AHEAD = 4 };
    struct counted counted = {0, 0};
    uint64_t begin = now(), sent = 0, got = 0;
    for (message[0] = MORE; message[0] != LAST; sent++) {
        if (now() - begin >= length)
            message[0] = LAST;
        put_many(message, size, window(size));
        if (sent >= AHEAD) {
            get((char *)&counted, sizeof counted);
            got++;
        }
    }
    for (; got < sent; got++)
        get((char *)&counted, sizeof counted);
    return counted;
}

/* All messages of the warm-up arrive before the clock starts, and all others before it stops. */
static void stream(int side, char *messages, int size, uint64_t length, uint64_t warm)
{
    if (side == FAR) {
        get_windows(messages, size);
        get_windows(messages, size);
        return;
    }
    put_windows(messages, size, warm);
    uint64_t begin = now(), used = cpu();
    struct counted counted = put_windows(messages, size, length);
    double count = (double)counted.messages;
    printf("{\"size\":%d,\"messages\":%.3f,\"cpu\":%.1f}\n", size, count * 1e9 / (double)(now() - begin),
           (double)(cpu() - used + counted.cpu) / count);
    fflush(stdout);
}

/* All sizes, first round trips, then one way. */
static void measure(int side, int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "measure: LENGTH WARM-UP SIZE...\n");
        exit(2);
    }
    uint64_t length = strtoull(argv[1], NULL, 10), warm = strtoull(argv[2], NULL, 10);
    pin(side);
    for (int i = 3; i < argc; i++) {
        int size = atoi(argv[i]);
        size_t bytes = (size_t)size * (size_t)window(size) + sizeof(struct counted);
        char *messages = malloc(bytes);
        if (!messages || size < 1) {
            fprintf(stderr, "measure: no room for messages of %s bytes\n", argv[i]);
            exit(1);
        }
        memset(messages, 0, bytes);
        round_trips(side, messages, size, length, warm);
        stream(side, messages, size, length, warm);
        free(messages);
    }
}

#endif
