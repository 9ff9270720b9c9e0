/* Every call, used wrongly in each way: an error that says what to do, and everything works afterwards. */
#define _POSIX_C_SOURCE 200809L
#include "common.h"
#include <pthread.h>
#include <stdint.h>

enum { FIRST = 7, SECOND = 8, THIRD = 9 };

static int ask, answer, data_id, number;
static int asked, answered, in_handler;
static const am_header *stale;
static am_header copy;
static am_interface *interfaces[2];
static am_endpoint *endpoints[2];

static void on_answer(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    answered += header->type == AM_REPLY && header->from_task == SECOND && length == 5 && !memcmp(data, "reply", 5);
    FAILS(am_reply(interface, header, answer, NULL, 0), AM_E_REPLY);
    SAYS("no request");
}

/* What a handler may not do, and what it may. */
static void in_a_handler(am_interface *interface)
{
    am_endpoint *endpoint;
    FAILS(am_poll(interface), AM_E_IN_HANDLER);
    FAILS(am_wait(interface, 1), AM_E_IN_HANDLER);
    FAILS(am_poll(interfaces[0]), AM_E_IN_HANDLER);
    FAILS(am_request(interface, FIRST, answer, NULL, 0), AM_E_IN_HANDLER);
    FAILS(am_request_ep(interface, endpoints[1], answer, NULL, 0), AM_E_IN_HANDLER);
    FAILS(am_request_vdata(interface, FIRST, answer, NULL, 0), AM_E_IN_HANDLER);
    FAILS(am_request_vdata_ep(interface, endpoints[1], answer, NULL, 0), AM_E_IN_HANDLER);
    FAILS(am_shutdown(interface), AM_E_IN_HANDLER);
    FAILS(am_global_init(), AM_E_IN_HANDLER);
    FAILS(am_global_shutdown(), AM_E_IN_HANDLER);
    IS_NULL(am_init("sim:1", NULL), AM_E_IN_HANDLER);
    FAILS(am_deallocate_task(interface, endpoints[1]), AM_E_IN_HANDLER);
    FAILS(am_connect_task(interface, endpoints[1], "x"), AM_E_IN_HANDLER);
    FAILS(am_accept_task(interface, endpoints[1], "x"), AM_E_IN_HANDLER);
    EXPECT(am_id_to_address(data_id) == &number && !strcmp(am_hostname(interface, SECOND), am_hostname(interface, FIRST)));
    EXPECT(am_task_address(interface, FIRST) != NULL);
    endpoint = am_allocate_task(interface);
    EXPECT(endpoint && am_insert_task(interface, endpoint, THIRD) == 0 && am_remove_task(interface, THIRD) == 0);
    in_handler = 1;
}

static void on_ask(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    struct iovec hole[2] = {{NULL, 0}, {NULL, 3}};
    asked++;
    EXPECT(interface == interfaces[1] && header->type == AM_REQUEST && header->from_task == FIRST && header->handler == ask);
    EXPECT(header->total_length == length && data != NULL);
    in_a_handler(interface);
    copy = *header;
    stale = header;
    FAILS(am_reply(interface, NULL, answer, NULL, 0), AM_E_ARGUMENT);
    FAILS(am_reply(interface, &copy, answer, NULL, 0), AM_E_REPLY);
    FAILS(am_reply(interfaces[0], header, answer, NULL, 0), AM_E_REPLY);
    FAILS(am_reply(NULL, header, answer, NULL, 0), AM_E_ARGUMENT);
    FAILS(am_reply(interface, header, -1, NULL, 0), AM_E_ID);
    FAILS(am_reply(interface, header, 256, NULL, 0), AM_E_ID);
    FAILS(am_reply(interface, header, answer, NULL, 1), AM_E_ARGUMENT);
    FAILS(am_reply(interface, header, answer, &number, SIZE_MAX), AM_E_TOO_LARGE);
    FAILS(am_reply_vdata(interface, header, answer, NULL, 1), AM_E_ARGUMENT);
    FAILS(am_reply_vdata(interface, header, answer, hole, 2), AM_E_ARGUMENT);
    SAYS("data[1]");
    EXPECT(am_reply(interface, header, answer, "reply", 5) == 0);
    FAILS(am_reply(interface, header, answer, "reply", 5), AM_E_REPLY);
    SAYS("reply already");
}

/* Each call with an interface that is none, for this reason. */
static void with_interface(am_interface *interface, int code)
{
    FAILS(am_shutdown(interface), code);
    IS_NULL(am_allocate_task(interface), code);
    FAILS(am_connect_task(interface, endpoints[0], "x"), code);
    FAILS(am_accept_task(interface, endpoints[0], "x"), code);
    FAILS(am_insert_task(interface, endpoints[0], THIRD), code);
    FAILS(am_remove_task(interface, SECOND), code);
    FAILS(am_deallocate_task(interface, endpoints[0]), code);
    IS_NULL(am_task_address(interface, FIRST), code);
    IS_NULL(am_hostname(interface, FIRST), code);
    FAILS(am_request(interface, SECOND, ask, NULL, 0), code);
    FAILS(am_request_ep(interface, endpoints[0], ask, NULL, 0), code);
    FAILS(am_request_vdata(interface, SECOND, ask, NULL, 0), code);
    FAILS(am_request_vdata_ep(interface, endpoints[0], ask, NULL, 0), code);
    FAILS(am_reply(interface, &copy, ask, NULL, 0), code);
    FAILS(am_reply_vdata(interface, &copy, ask, NULL, 0), code);
    FAILS(am_poll(interface), code);
    FAILS(am_wait(interface, 1), code);
    FAILS(am_set_returned(interface, on_answer), code);
}

/* Each call with an endpoint that is none. */
static void with_endpoint(am_endpoint *endpoint, int code)
{
    const char *name = am_task_address(interfaces[1], SECOND);
    FAILS(am_connect_task(interfaces[0], endpoint, name), code);
    FAILS(am_accept_task(interfaces[0], endpoint, name), code);
    FAILS(am_insert_task(interfaces[0], endpoint, THIRD), code);
    FAILS(am_deallocate_task(interfaces[0], endpoint), code);
    FAILS(am_request_ep(interfaces[0], endpoint, ask, NULL, 0), code);
    FAILS(am_request_vdata_ep(interfaces[0], endpoint, ask, NULL, 0), code);
}

static void before_the_beginning(void)
{
    EXPECT(am_error_code() == 0 && !*am_error() && !strcmp(am_strerror(0), "no error") && *am_strerror(-99));
    FAILS(am_address_to_id(&number), AM_E_NOT_INITIALIZED);
    SAYS("am_global_init");
    EXPECT(strcmp(am_error(), am_strerror(AM_E_NOT_INITIALIZED)) != 0);
    FAILS(am_handler_to_id(on_ask), AM_E_NOT_INITIALIZED);
    FAILS(am_bind_address_with_id(&number, 0), AM_E_NOT_INITIALIZED);
    FAILS(am_bind_handler_with_id(on_ask, 0), AM_E_NOT_INITIALIZED);
    IS_NULL(am_id_to_address(0), AM_E_NOT_INITIALIZED);
    IS_NULL(am_init("sim:1", NULL), AM_E_NOT_INITIALIZED);
    FAILS(am_global_shutdown(), AM_E_NOT_INITIALIZED);
    with_interface(NULL, AM_E_ARGUMENT);
    SAYS("am_init");
}

static void identifiers(void)
{
    EXPECT(am_global_init() == 0);
    FAILS(am_global_init(), AM_E_INITIALIZED);
    EXPECT(strcmp(am_error(), am_strerror(AM_E_INITIALIZED)) != 0);
    IS_NULL(am_id_to_address(0), AM_E_ID);
    FAILS(am_bind_address_with_id(&number, 0), AM_E_ID);
    EXPECT((ask = am_handler_to_id(on_answer)) == 0 && (answer = am_handler_to_id(on_answer)) == 1);
    EXPECT((data_id = am_address_to_id(&number)) == 2 && am_id_to_address(data_id) == &number);
    EXPECT(am_bind_handler_with_id(on_ask, ask) == 0 && am_bind_address_with_id(&asked, data_id) == 0);
    EXPECT(am_id_to_address(data_id) == &asked && am_bind_address_with_id(&number, data_id) == 0);
    FAILS(am_address_to_id(NULL), AM_E_ARGUMENT);
    FAILS(am_handler_to_id(NULL), AM_E_ARGUMENT);
    FAILS(am_bind_address_with_id(NULL, ask), AM_E_ARGUMENT);
    FAILS(am_bind_handler_with_id(NULL, ask), AM_E_ARGUMENT);
    FAILS(am_bind_handler_with_id(on_ask, 3), AM_E_ID);
    FAILS(am_bind_handler_with_id(on_ask, -1), AM_E_ID);
    IS_NULL(am_id_to_address(-1), AM_E_ID);
    IS_NULL(am_id_to_address(3), AM_E_ID);
    SAYS("has returned 3");
}

static void transports(void)
{
    am_info infos[] = {{-1, 0, 0, 0}, {0, -1, 0, 0}, {0, 513, 0, 0}, {0, 100000, 0, 0}, {0, 0, -1, 0}, {0, 0, 0, -1}};
    static const struct { const char *name, *says; } WRONG[] = {
        {"token-ring", "SCHEME"}, {"ring:eth1", "xdp:eth1"},      {"tcp:eth1", "eth1"},
        {"xdp:no-such", "no-such"}, {"udp:127.0.0.1:0+", "joins"}, {"udp:203.0.113.9:7", "203.0.113.9"},
        {"\xff\xfe", "UTF-8"},                                    {"UDP", "write `shm`, `udp`, `tcp`"},
        {"shm:", "write `shm`, or `shm:"}, {"bogus", "there are: `shm`, `udp`, `tcp`, "},
    };
    EXPECT(setenv("AM_TRANSPORT", "\xff", 1) == 0);
    IS_NULL(am_init(NULL, NULL), AM_E_TRANSPORT);
    SAYS("AM_TRANSPORT");
    IS_NULL(am_init("", NULL), AM_E_TRANSPORT);
    EXPECT(setenv("AM_TRANSPORT", "ring:0", 1) == 0);
    IS_NULL(am_init(NULL, NULL), AM_E_TRANSPORT);
    SAYS("xdp:eth1");
    EXPECT(setenv("PVMAM_DEPTH", "many", 1) == 0);
    IS_NULL(am_init("sim:1", NULL), AM_E_ARGUMENT);
    SAYS("PVMAM_DEPTH");
    EXPECT(setenv("PVMAM_DEPTH", "0", 1) == 0);
    IS_NULL(am_init("sim:1", NULL), AM_E_ARGUMENT);
    EXPECT(unsetenv("PVMAM_DEPTH") == 0);
    for (size_t at = 0; at < sizeof infos / sizeof *infos; at++)
        IS_NULL(am_init("sim:1", &infos[at]), AM_E_ARGUMENT);
    for (size_t at = 0; at < sizeof WRONG / sizeof *WRONG; at++) {
        EXPECT(am_init(WRONG[at].name, NULL) == NULL);
        EXPECT(am_error_code() == (at == 6 ? AM_E_ARGUMENT : AM_E_TRANSPORT));
        SAYS(WRONG[at].says);
    }
}

static void addresses(void)
{
    am_endpoint *endpoint = am_allocate_task(interfaces[0]);
    am_interface *other = open_interface("sim:2", THIRD, 100);
    static const char *const WRONG[] = {"", "x", "am1", "am1/host/node", "udp:127.0.0.1:7", "am1/h/n/02000000000g/sim:1"};
    for (size_t at = 0; at < sizeof WRONG / sizeof *WRONG; at++) {
        FAILS(am_connect_task(interfaces[0], endpoint, WRONG[at]), AM_E_ADDRESS);
        FAILS(am_accept_task(interfaces[0], endpoint, WRONG[at]), AM_E_ADDRESS);
    }
    FAILS(am_connect_task(interfaces[0], endpoint, NULL), AM_E_ARGUMENT);
    FAILS(am_accept_task(interfaces[0], endpoint, NULL), AM_E_ARGUMENT);
    FAILS(am_connect_task(interfaces[0], endpoint, "\xff"), AM_E_ARGUMENT);
    FAILS(am_connect_task(interfaces[0], endpoint, am_task_address(interfaces[0], FIRST)), AM_E_ADDRESS);
    SAYS("itself");
    FAILS(am_connect_task(interfaces[0], endpoint, am_task_address(other, THIRD)), AM_E_ADDRESS);
    SAYS("in common");
    FAILS(am_request_ep(interfaces[0], endpoint, ask, NULL, 0), AM_E_NOT_CONNECTED);
    EXPECT(am_insert_task(interfaces[0], endpoint, THIRD) == 0);
    FAILS(am_request(interfaces[0], THIRD, ask, NULL, 0), AM_E_NOT_CONNECTED);
    IS_NULL(am_task_address(interfaces[0], THIRD), AM_E_NOT_CONNECTED);
    IS_NULL(am_hostname(interfaces[0], THIRD), AM_E_NOT_CONNECTED);
    EXPECT(am_deallocate_task(interfaces[0], endpoint) == 0);
    with_endpoint(endpoint, AM_E_ENDPOINT);
    FAILS(am_request(interfaces[0], THIRD, ask, NULL, 0), AM_E_TASK);
    EXPECT(am_shutdown(other) == 0);
}

/* Calls that wait for another task in vain. */
static void in_vain(void)
{
    am_interface *short_one = open_interface("sim:1", THIRD, 200);
    am_endpoint *endpoint = am_allocate_task(short_one);
    char cut[4096];
    FAILS(am_accept_task(short_one, endpoint, am_task_address(interfaces[1], SECOND)), AM_E_TIMEOUT);
    SAYS("am_connect_task");
    /* A task that is not there. */
    strcpy(cut, am_task_address(interfaces[1], SECOND));
    strchr(cut + 4, '/')[1] = 'x';
    FAILS(am_connect_task(short_one, endpoint, cut), AM_E_TIMEOUT);
    SAYS("no answer");
    EXPECT(am_shutdown(short_one) == 0);
}

static void tasks(void)
{
    am_endpoint *third = am_allocate_task(interfaces[0]);
    char stack;
    FAILS(am_insert_task(interfaces[0], third, FIRST), AM_E_TASK);
    SAYS("itself");
    FAILS(am_insert_task(interfaces[0], third, SECOND), AM_E_TASK);
    FAILS(am_insert_task(interfaces[0], third, 0), AM_E_TASK);
    FAILS(am_insert_task(interfaces[0], third, -5), AM_E_TASK);
    EXPECT(am_insert_task(interfaces[0], third, THIRD) == 0);
    FAILS(am_insert_task(interfaces[0], third, 10), AM_E_TASK);
    EXPECT(am_remove_task(interfaces[0], THIRD) == 0);
    FAILS(am_remove_task(interfaces[0], THIRD), AM_E_TASK);
    FAILS(am_remove_task(interfaces[0], 0), AM_E_TASK);
    FAILS(am_request(interfaces[0], THIRD, ask, NULL, 0), AM_E_TASK);
    IS_NULL(am_task_address(interfaces[0], THIRD), AM_E_TASK);
    IS_NULL(am_hostname(interfaces[0], 0), AM_E_TASK);
    FAILS(am_connect_task(interfaces[0], third, am_task_address(interfaces[1], SECOND)), AM_E_CONNECTED);
    FAILS(am_connect_task(interfaces[0], endpoints[0], am_task_address(interfaces[1], SECOND)), AM_E_CONNECTED);
    FAILS(am_accept_task(interfaces[0], endpoints[0], am_task_address(interfaces[1], SECOND)), AM_E_CONNECTED);
    with_endpoint(NULL, AM_E_ARGUMENT);
    with_endpoint((am_endpoint *)(void *)&stack, AM_E_ARGUMENT);
    with_endpoint((am_endpoint *)(void *)interfaces[0], AM_E_ARGUMENT);
    with_endpoint((am_endpoint *)(uintptr_t)-1, AM_E_ARGUMENT);
    with_endpoint(endpoints[1], AM_E_ENDPOINT);
    with_interface((am_interface *)(void *)&stack, AM_E_ARGUMENT);
    FAILS(am_bind_address_with_id(&number, ask), AM_E_OPEN);
    EXPECT(am_bind_handler_with_id(on_ask, ask) == 0 && am_bind_address_with_id(&number, data_id) == 0);
    EXPECT(!strcmp(am_task_address(endpoints[0], SECOND), am_task_address(interfaces[1], SECOND)));
}

static void messages(void)
{
    struct iovec hole[2] = {{NULL, 0}, {NULL, 3}}, huge[2] = {{&number, SIZE_MAX}, {&number, 9}};
    FAILS(am_request(interfaces[0], SECOND, -1, NULL, 0), AM_E_ID);
    FAILS(am_request(interfaces[0], SECOND, 256, NULL, 0), AM_E_ID);
    SAYS("0 to 255");
    FAILS(am_request(interfaces[0], SECOND, ask, NULL, 1), AM_E_ARGUMENT);
    FAILS(am_request(interfaces[0], SECOND, ask, &number, SIZE_MAX), AM_E_TOO_LARGE);
    FAILS(am_request(interfaces[0], SECOND, ask, &number, ((size_t)1 << 30) + 1), AM_E_TOO_LARGE);
    SAYS("in parts");
    FAILS(am_request(interfaces[0], 0, ask, NULL, 0), AM_E_TASK);
    FAILS(am_request_vdata(interfaces[0], SECOND, ask, NULL, 1), AM_E_ARGUMENT);
    FAILS(am_request_vdata(interfaces[0], SECOND, ask, hole, 2), AM_E_ARGUMENT);
    FAILS(am_request_vdata(interfaces[0], SECOND, ask, huge, 2), AM_E_TOO_LARGE);
    FAILS(am_request_vdata(interfaces[0], SECOND, ask, hole, SIZE_MAX), AM_E_ARGUMENT);
    FAILS(am_request_vdata_ep(interfaces[0], endpoints[0], 256, NULL, 0), AM_E_ID);
    FAILS(am_reply(interfaces[0], &copy, answer, NULL, 0), AM_E_REPLY);
    SAYS("no handler runs");
    FAILS(am_wait(interfaces[0], -1), AM_E_ARGUMENT);
    /* And one that is right. */
    EXPECT(am_request_vdata(interfaces[0], SECOND, ask, hole, 1) == 0);
    while (!answered)
        EXPECT(am_poll(interfaces[0]) >= 0 && am_poll(interfaces[1]) >= 0);
    EXPECT(asked == 1 && in_handler);
    FAILS(am_reply(interfaces[1], stale, answer, NULL, 0), AM_E_REPLY);
}

static void *on_another_thread(void *unused)
{
    with_interface(interfaces[0], AM_E_THREAD);
    SAYS("another thread");
    EXPECT(am_id_to_address(data_id) == &number);
    FAILS(am_global_shutdown(), AM_E_OPEN);
    return unused;
}

int main(void)
{
    pthread_t thread;
    before_the_beginning();
    identifiers();
    transports();
    interfaces[0] = open_interface("sim:1", FIRST, 60000);
    interfaces[1] = open_interface("sim:1", SECOND, 60000);
    addresses();
    in_vain();
    join(interfaces[0], FIRST, interfaces[1], SECOND, endpoints);
    tasks();
    messages();
    EXPECT(pthread_create(&thread, NULL, on_another_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    FAILS(am_global_shutdown(), AM_E_OPEN);
    SAYS("am_shutdown");
    EXPECT(strcmp(am_error(), am_strerror(AM_E_OPEN)) != 0);
    EXPECT(am_shutdown(interfaces[1]) == 0 && am_shutdown(interfaces[0]) == 0);
    with_interface(interfaces[0], AM_E_SHUTDOWN);
    SAYS("am_init");
    EXPECT(am_global_shutdown() == 0);
    FAILS(am_address_to_id(&number), AM_E_NOT_INITIALIZED);
    /* And once more. */
    EXPECT(am_global_init() == 0 && am_address_to_id(&number) == 0 && am_global_shutdown() == 0);
    printf("all as it should be\n");
    return 0;
}
