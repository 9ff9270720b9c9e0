/* Several tasks of one thread: all send to all, over a network that loses frames; tasks that both connect; a task that leaves the list,
 * and one that comes back; a list of a hundred tasks. */
#include "common.h"

enum { TASKS = 5, EACH = 100, MANY = 100 };

static int ADD, ADDED;
static int added[TASKS + 1][TASKS + 1], replies, last_from;

static void on_add(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    int to[2];
    EXPECT(length == sizeof to);
    memcpy(to, data, sizeof to);
    last_from = header->from_task;
    EXPECT(to[0] <= TASKS && added[header->from_task][to[0]]++ == to[1]);
    EXPECT(am_reply(interface, header, ADDED, NULL, 0) == 0);
}

static void on_added(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(interface && data && length == 0 && header->type == AM_REPLY);
    replies++;
}

static void send_one(am_interface *interface, int to, int number)
{
    int message[2];
    message[0] = to;
    message[1] = number;
    EXPECT(am_request(interface, to, ADD, message, sizeof message) == 0);
}

static void poll_both(am_interface *first, am_interface *second, int wanted)
{
    while (replies < wanted)
        EXPECT(am_poll(first) >= 0 && am_poll(second) >= 0);
}

static void all_to_all(const char *transport)
{
    am_interface *tasks[TASKS + 1];
    am_endpoint *endpoints[2];
    memset(added, 0, sizeof added);
    replies = 0;
    for (int task = 1; task <= TASKS; task++)
        tasks[task] = open_interface(transport, task, 60000);
    for (int task = 1; task <= TASKS; task++)
        for (int other = 1; other < task; other++)
            join(tasks[task], task, tasks[other], other, endpoints);
    for (int number = 0; number < EACH; number++)
        for (int from = 1; from <= TASKS; from++)
            for (int to = 1; to <= TASKS; to++)
                if (to != from)
                    send_one(tasks[from], to, number);
    while (replies < EACH * TASKS * (TASKS - 1))
        for (int task = 1; task <= TASKS; task++)
            EXPECT(am_poll(tasks[task]) >= 0);
    for (int from = 1; from <= TASKS; from++)
        for (int to = 1; to <= TASKS; to++)
            EXPECT(added[from][to] == (from == to ? 0 : EACH));
    for (int task = 1; task <= TASKS; task++)
        EXPECT(am_shutdown(tasks[task]) == 0);
}

/* Both ask; and each finds the other's messages under its tid in the list, or else under the one that it has given itself. */
static void both_connect(void)
{
    am_interface *first = open_interface("sim:3", 1, 60000), *second = open_interface("sim:3", 2, 60000);
    am_endpoint *one = am_allocate_task(first), *two = am_allocate_task(second);
    memset(added, 0, sizeof added);
    replies = 0;
    EXPECT(am_connect_task(first, one, am_task_address(second, 2)) == 0);
    EXPECT(am_insert_task(first, one, 4) == 0);
    send_one(first, 4, 0);
    poll_both(first, second, 1);
    EXPECT(last_from == 1);
    EXPECT(am_connect_task(second, two, am_task_address(first, 1)) == 0 && am_insert_task(second, two, 3) == 0);
    send_one(first, 4, 0);
    poll_both(first, second, 2);
    EXPECT(last_from == 3);
    send_one(second, 3, 0);
    poll_both(first, second, 3);
    EXPECT(last_from == 4);
    EXPECT(am_remove_task(second, 3) == 0 && am_insert_task(second, two, 5) == 0);
    send_one(first, 4, 0);
    poll_both(first, second, 4);
    EXPECT(last_from == 5);
    /* An endpoint ends, and another one leads there. */
    EXPECT(am_deallocate_task(second, two) == 0);
    while (am_wait(first, 20) > 0)
        ;
    FAILS(am_request_ep(first, one, ADD, NULL, 0), AM_E_UNREACHABLE);
    two = am_allocate_task(second);
    EXPECT(am_connect_task(first, one, am_task_address(second, 2)) == 0);
    EXPECT(am_accept_task(second, two, am_task_address(first, 1)) == 0);
    send_one(first, 4, 1);
    poll_both(first, second, 5);
    EXPECT(am_shutdown(first) == 0 && am_shutdown(second) == 0);
}

/* A task with room for three requests: the fourth waits until some were handled. */
static void depth(void)
{
    am_info info = {2, 3, 60000, 0};
    am_interface *first = open_interface("sim:6", 1, 60000), *second = am_init("sim:6", &info);
    am_endpoint *endpoints[2];
    memset(added, 0, sizeof added);
    replies = 0;
    join(first, 1, second, 2, endpoints);
    for (int number = 0; number < 4; number++) {
        EXPECT(added[1][2] == 0);
        send_one(first, 2, number);
    }
    EXPECT(added[1][2] > 0);
    poll_both(first, second, 4);
    EXPECT(am_shutdown(first) == 0 && am_shutdown(second) == 0);
}

static void many_tasks(void)
{
    am_interface *first = open_interface("sim:4", 1, 60000);
    am_endpoint *endpoints[MANY];
    for (int round = 0; round < 20; round++) {
        for (int at = 0; at < MANY; at++) {
            endpoints[at] = am_allocate_task(first);
            EXPECT(am_insert_task(first, endpoints[at], 1000 + at) == 0);
        }
        for (int at = 0; at < MANY; at += 2)
            EXPECT(am_remove_task(first, 1000 + at) == 0);
        for (int at = 0; at < MANY; at++)
            EXPECT(am_deallocate_task(first, endpoints[at]) == 0);
        FAILS(am_remove_task(first, 1001), AM_E_TASK);
    }
    EXPECT(am_shutdown(first) == 0);
}

int main(void)
{
    EXPECT(am_global_init() == 0);
    ADD = am_handler_to_id(on_add);
    ADDED = am_handler_to_id(on_added);
    all_to_all("sim:5,loss=0.05");
    all_to_all("udp:127.0.0.1:0");
    both_connect();
    depth();
    many_tasks();
    EXPECT(am_global_shutdown() == 0);
    printf("all to all\n");
    return 0;
}
