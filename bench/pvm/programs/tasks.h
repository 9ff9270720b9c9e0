/* Several tasks of a PVM, and the times of what they do. */
#ifndef TASKS_H
#define TASKS_H

#define _GNU_SOURCE
#include <pvm3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const char *word(const char *name)
{
    const char *word = getenv(name);
    return word ? word : "";
}

static void set_route(void)
{
    pvm_setopt(PvmRoute, strcmp(word("AM_BENCH_ROUTE"), "daemon") == 0 ? PvmDontRoute : PvmRouteDirect);
}

/* Start tasks of this program on both hosts in turn, the first one on the other host; all on this one if that is AM_BENCH_HOST. */
static void start(char **argv, int count, int *tids)
{
    pvm_export("AM_BENCH_ROUTE");
    pvm_export("SIZES");
    for (int i = 0; i < count; i++) {
        const char *host = i % 2 ? "alpha" : word("AM_BENCH_HOST");
        if (pvm_spawn(argv[0], argv + 1, PvmTaskHost, (char *)host, 1, &tids[i]) != 1) {
            fprintf(stderr, "pvm: no task on %s: %d\n", host, tids[i]);
            pvm_exit();
            exit(1);
        }
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *call, int size, uint64_t *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, compare);
    printf("{\"call\":\"%s\",\"size\":%d,\"p50\":%.1f,\"p99\":%.1f}\n", call, size, (double)times[count / 2], (double)times[count * 99 / 100]);
    fflush(stdout);
}

#endif
