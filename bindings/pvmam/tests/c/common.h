/* What the test programs share: a check that says where it failed, and two tasks that connect. */
#ifndef COMMON_H
#define COMMON_H

#include <pvmam.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fail unless this holds. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (%d: %s)\n", __FILE__, __LINE__, #condition, am_error_code(), am_error()); \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Fail unless the last failure's text has this. */
#define SAYS(text) EXPECT(strstr(am_error(), text) != NULL)

/* Fail unless the call fails with this code and a text. */
#define FAILS(call, code)                                                                                              \
    do {                                                                                                               \
        int failed = (call);                                                                                           \
        if (failed != (code)) {                                                                                        \
            fprintf(stderr, "%s:%d: %s is %d (%s), not %s\n", __FILE__, __LINE__, #call, failed, am_error(), #code);    \
            exit(1);                                                                                                   \
        }                                                                                                              \
        EXPECT(am_error_code() == (code) && strlen(am_error()) > 20 && strlen(am_strerror(code)) > 10);                \
    } while (0)

/* Fail unless the call returns NULL with this code and a text. */
#define IS_NULL(call, code)                                                                                            \
    do {                                                                                                               \
        EXPECT((call) == NULL);                                                                                        \
        EXPECT(am_error_code() == (code) && strlen(am_error()) > 20);                                                  \
    } while (0)

/* An interface for this tid, with this time-out in milliseconds. */
static inline am_interface *open_interface(const char *transport, int tid, int timeout)
{
    am_info info = {0, 0, 0, 0};
    am_interface *interface;
    info.tid = tid;
    info.timeout = timeout;
    interface = am_init(transport, &info);
    EXPECT(interface != NULL);
    return interface;
}

/* The own task is 1 or 2: exchange addresses with the other process by standard output and input, and connect. */
static inline am_endpoint *meet(am_interface *interface, int own)
{
    static char name[4096];
    am_endpoint *endpoint = am_allocate_task(interface);
    printf("%s\n", am_task_address(interface, own));
    fflush(stdout);
    EXPECT(endpoint != NULL && fgets(name, sizeof name, stdin) != NULL);
    name[strcspn(name, "\n")] = 0;
    EXPECT((own == 1 ? am_connect_task : am_accept_task)(interface, endpoint, name) == 0);
    EXPECT(am_insert_task(interface, endpoint, 3 - own) == 0);
    return endpoint;
}

/* Two interfaces of one thread connect. */
static inline void join(am_interface *first, int first_tid, am_interface *second, int second_tid, am_endpoint *endpoints[2])
{
    endpoints[0] = am_allocate_task(first);
    endpoints[1] = am_allocate_task(second);
    EXPECT(am_connect_task(first, endpoints[0], am_task_address(second, second_tid)) == 0);
    EXPECT(am_accept_task(second, endpoints[1], am_task_address(first, first_tid)) == 0);
    EXPECT(am_insert_task(first, endpoints[0], second_tid) == 0);
    EXPECT(am_insert_task(second, endpoints[1], first_tid) == 0);
}

#endif
