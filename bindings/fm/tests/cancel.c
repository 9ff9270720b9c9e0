/* Threads that are cancelled in a call, and handlers that end their thread. The node of such a thread has ended with it: its end of
 * the wire can be opened again. */
#define _GNU_SOURCE
#include "common.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define FOREVER 1000000000
enum { ROUNDS = 40 };

static const char *const NAMES[] = {"alpha", "beta"};
static const char WIRE[] = "loopback:cancel";

/* Set by the thread under test. */
static volatile int is_ready, cleaned;

static void clean(void *unused)
{
    (void)unused;
    cleaned++;
}

static void start(int node)
{
    EXPECT(FM_initialize(WIRE, node, 2, NAMES) == 0);
    is_ready = 1;
}

static void *waits(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    start(0);
    for (;;)
        EXPECT(FM_extract_or_wait(FOREVER) >= 0);
    pthread_cleanup_pop(0);
    return unused;
}

static void *meets(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    start(0);
    for (;;)
        EXPECT(FM_meet(FOREVER) == 0);
    pthread_cleanup_pop(0);
    return unused;
}

/* Any instruction may be the last one. */
static void *spins(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    start(0);
    EXPECT(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    for (;;)
        EXPECT(FM_extract() >= 0 && FM_node() == 0);
    pthread_cleanup_pop(0);
    return unused;
}

static void *forbids(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    start(0);
    for (int at = 0; at < 5; at++)
        EXPECT(FM_extract_or_wait(50) == 0);
    EXPECT(FM_finalize() == 0);
    pthread_cleanup_pop(0);
    return unused;
}

static void on_exit_of_thread(void *context, const FM_message *message)
{
    (void)message;
    EXPECT(FM_node() == 0);
    pthread_exit(context);
}

static void on_cancel(void *context, const FM_message *message)
{
    (void)message;
    pthread_cancel(pthread_self());
    /* No call of the library acts on it, as the handler was called by one. */
    EXPECT(FM_node() == 0);
    EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
    pthread_testcancel();
    *(int *)context = 1;
}

static int not_reached;

static void *handles(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    start(0);
    EXPECT(FM_set_handler(1, on_exit_of_thread, (void *)NAMES) == 0 && FM_set_handler(2, on_cancel, &not_reached) == 0);
    for (;;)
        EXPECT(FM_extract_or_wait(FOREVER) >= 0);
    pthread_cleanup_pop(0);
    return unused;
}

static void *sends(void *handler)
{
    EXPECT(FM_initialize(WIRE, 1, 2, NAMES) == 0);
    EXPECT(FM_meet(60000) == 0);
    EXPECT(FM_send_4(0, *(int *)handler, 0, 0, 0, 0) == 0);
    FM_finalize();
    return NULL;
}

/* Start it, cancel it after a while, and see its end. */
static void cancel(void *(*run)(void *), int round, void *result)
{
    pthread_t thread;
    void *said = &thread;
    int before = cleaned;
    is_ready = 0;
    EXPECT(pthread_create(&thread, NULL, run, NULL) == 0);
    while (!is_ready)
        usleep(100);
    usleep((useconds_t)(rand() % (1 + round * 100)));
    EXPECT(pthread_cancel(thread) == 0);
    EXPECT(pthread_join(thread, &said) == 0);
    /* glibc does not say PTHREAD_CANCELED where an asynchronous cancel acts in pthread_setcancelstate. */
    EXPECT((said == result || run == spins) && cleaned == before + (result == PTHREAD_CANCELED));
}

static void handle(int handler, void *result)
{
    pthread_t thread, sender;
    void *said = &thread;
    int before = cleaned;
    EXPECT(pthread_create(&thread, NULL, handles, NULL) == 0);
    EXPECT(pthread_create(&sender, NULL, sends, &handler) == 0);
    EXPECT(pthread_join(thread, &said) == 0 && pthread_join(sender, NULL) == 0);
    EXPECT(said == result && cleaned == before + 1 && !not_reached);
}

int main(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        cancel(spins, round, PTHREAD_CANCELED);
        if (round % 8 == 0) {
            cancel(waits, round, PTHREAD_CANCELED);
            cancel(meets, round, PTHREAD_CANCELED);
            cancel(forbids, round, NULL);
            handle(1, (void *)NAMES);
            handle(2, PTHREAD_CANCELED);
        }
    }
    /* And this thread has lost nothing by all that. */
    EXPECT(FM_initialize(WIRE, 0, 2, NAMES) == 0 && FM_extract_or_wait(1) == 0 && FM_finalize() == 0);
    puts("the process is still there");
    return 0;
}
