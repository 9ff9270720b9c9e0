/* Threads that are cancelled in a call, and handlers that end their thread. The interfaces of such a thread have ended with it. */
#define _GNU_SOURCE
#include "common.h"
#include <pthread.h>
#include <unistd.h>

#define FOREVER 1000000000
enum { ROUNDS = 40 };

/* Set by the thread under test. */
static volatile int is_ready, cleaned;
static int EXIT, CANCEL, SPIN;
static int not_reached;

static void clean(void *unused)
{
    (void)unused;
    cleaned++;
}

static am_interface *start(void)
{
    am_interface *interface = open_interface("udp:127.0.0.1:0", 1, FOREVER);
    is_ready = 1;
    return interface;
}

static void *waits(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    am_interface *interface = start();
    for (;;)
        EXPECT(am_wait(interface, FOREVER) >= 0);
    pthread_cleanup_pop(0);
    return unused;
}

/* For a task that never answers. */
static void *meets(void *accepts)
{
    pthread_cleanup_push(clean, NULL);
    am_interface *interface = start();
    am_endpoint *endpoint = am_allocate_task(interface);
    for (;;)
        (accepts ? am_accept_task : am_connect_task)(interface, endpoint, "am1/host/node/020000000007/udp:127.0.0.1:9");
    pthread_cleanup_pop(0);
    return accepts;
}

/* Any instruction may be the last one. */
static void *spins(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    am_interface *interface = start();
    EXPECT(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    for (;;)
        EXPECT(am_poll(interface) >= 0 && am_id_to_address(SPIN));
    pthread_cleanup_pop(0);
    return unused;
}

static void *forbids(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    am_interface *interface = start();
    for (int at = 0; at < 5; at++)
        EXPECT(am_wait(interface, 50) == 0);
    EXPECT(am_shutdown(interface) == 0);
    pthread_cleanup_pop(0);
    return unused;
}

static void on_exit_of_thread(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(am_hostname(interface, 1) && header && data && !length);
    pthread_exit((void *)&EXIT);
}

static void on_cancel(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    pthread_cancel(pthread_self());
    /* No call of the library acts on it, as the handler was called by one. */
    EXPECT(am_hostname(interface, 1) && header && data && !length);
    EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
    pthread_testcancel();
    not_reached = 1;
}

/* Two interfaces of this thread. The handler that ends it runs in a call for the second one. */
static void *handles(void *handler)
{
    pthread_cleanup_push(clean, NULL);
    am_interface *interface = start(), *second = open_interface("udp:127.0.0.1:0", 2, FOREVER);
    am_endpoint *endpoints[2];
    join(interface, 1, second, 2, endpoints);
    EXPECT(am_request(interface, 2, *(int *)handler, NULL, 0) == 0);
    for (;;)
        EXPECT(am_wait(second, FOREVER) >= 0 && am_poll(interface) >= 0);
    pthread_cleanup_pop(0);
    return handler;
}

/* Start it, cancel it after a while, and see its end. */
static void cancel(void *(*run)(void *), void *argument, int round, void *result)
{
    pthread_t thread;
    void *said = &thread;
    int before = cleaned;
    is_ready = 0;
    EXPECT(pthread_create(&thread, NULL, run, argument) == 0);
    while (!is_ready)
        usleep(100);
    usleep((useconds_t)(rand() % (1 + round * 100)));
    EXPECT(pthread_cancel(thread) == 0);
    EXPECT(pthread_join(thread, &said) == 0);
    /* glibc does not say PTHREAD_CANCELED where an asynchronous cancel acts in pthread_setcancelstate. */
    EXPECT((said == result || run == spins) && cleaned == before + (result == PTHREAD_CANCELED));
}

static void handle(int *handler, void *result)
{
    pthread_t thread;
    void *said = &thread;
    int before = cleaned;
    EXPECT(pthread_create(&thread, NULL, handles, handler) == 0 && pthread_join(thread, &said) == 0);
    EXPECT(said == result && cleaned == before + 1 && !not_reached);
}

int main(void)
{
    EXPECT(am_global_init() == 0);
    EXIT = am_handler_to_id(on_exit_of_thread);
    CANCEL = am_handler_to_id(on_cancel);
    SPIN = am_address_to_id(&not_reached);
    for (int round = 0; round < ROUNDS; round++) {
        cancel(spins, NULL, round, PTHREAD_CANCELED);
        if (round % 8 == 0) {
            cancel(waits, NULL, round, PTHREAD_CANCELED);
            cancel(meets, NULL, round, PTHREAD_CANCELED);
            cancel(meets, &EXIT, round, PTHREAD_CANCELED);
            cancel(forbids, NULL, round, NULL);
            handle(&EXIT, &EXIT);
            handle(&CANCEL, PTHREAD_CANCELED);
        }
    }
    /* No interface is left, and this thread can have one. */
    EXPECT(am_global_shutdown() == 0 && am_global_init() == 0);
    am_interface *interface = start();
    EXPECT(am_wait(interface, 1) == 0 && am_shutdown(interface) == 0);
    puts("the process is still there");
    return 0;
}
