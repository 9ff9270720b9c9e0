/* A task whose handler never returns: the other one sends to it, which takes no further call, and ends all the same, in its time.
 *
 *   stuck deallocate|shutdown
 */
#define _GNU_SOURCE
#include "common.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int STOP, from_child;

static void on_stop(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(interface && header && data && !length && write(from_child, "", 1) == 1);
    for (;;)
        pause();
}

/* Tell the other process the own address, and connect with it. */
static am_endpoint *meet_at(am_interface *interface, int own, int in, int out)
{
    char name[4096];
    ssize_t count;
    am_endpoint *endpoint = am_allocate_task(interface);
    const char *address = am_task_address(interface, own);
    EXPECT(write(out, address, strlen(address) + 1) > 0 && (count = read(in, name, sizeof name)) > 0 && !name[count - 1]);
    /* The time of task 1 is short: it asks again. */
    while (own == 1 && am_connect_task(interface, endpoint, name) != 0)
        EXPECT(am_error_code() == AM_E_TIMEOUT);
    EXPECT(own == 1 || am_accept_task(interface, endpoint, name) == 0);
    EXPECT(am_insert_task(interface, endpoint, 3 - own) == 0);
    return endpoint;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char **arguments)
{
    char stops;
    int to_parent[2], to_child[2], status;
    double begin;
    pid_t child;
    am_interface *interface;
    am_endpoint *endpoint;
    EXPECT(pipe(to_parent) == 0 && pipe(to_child) == 0 && am_global_init() == 0);
    STOP = am_handler_to_id(on_stop);
    child = fork();
    if (child == 0) {
        /* It ends with this process, however that ends. */
        EXPECT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        from_child = to_parent[1];
        interface = open_interface(NULL, 2, 60000);
        meet_at(interface, 2, to_child[0], to_parent[1]);
        for (;;)
            EXPECT(am_wait(interface, 1000) >= 0);
    }
    interface = open_interface(NULL, 1, 400);
    endpoint = meet_at(interface, 1, to_parent[0], to_child[1]);
    for (int number = 0; number < 20; number++)
        EXPECT(am_request(interface, 2, STOP, NULL, 0) == 0);
    /* This task computes, and does not poll. */
    EXPECT(count == 2 && read(to_parent[0], &stops, 1) == 1);
    begin = seconds();
    if (!strcmp(arguments[1], "deallocate"))
        FAILS(am_deallocate_task(interface, endpoint), AM_E_TIMEOUT);
    else
        FAILS(am_shutdown(interface), AM_E_TIMEOUT);
    SAYS("not acknowledged");
    EXPECT(seconds() - begin >= 0.4 && seconds() - begin < 30);
    if (!strcmp(arguments[1], "deallocate")) {
        FAILS(am_request(interface, 2, STOP, NULL, 0), AM_E_TASK);
        FAILS(am_request_ep(interface, endpoint, STOP, NULL, 0), AM_E_ENDPOINT);
        EXPECT(am_shutdown(interface) == 0);
    }
    FAILS(am_poll(interface), AM_E_SHUTDOWN);
    EXPECT(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    printf("not acknowledged\n");
    return 0;
}
