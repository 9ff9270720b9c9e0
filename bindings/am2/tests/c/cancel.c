/* Threads that are cancelled in a call, and handlers that end their thread. The lock is free afterwards, and no token is left. */
#define _GNU_SOURCE
#include "common.h"
#include <pthread.h>
#include <unistd.h>

enum { LEAVE = 1, ANSWER, BACK };
enum { ROUNDS = 30 };

static volatile int is_ready, cleaned, answers, errors;

static void clean(void *unused)
{
    (void)unused;
    cleaned++;
}

static void on_leave(void *token, int argument)
{
    (void)token;
    pthread_exit((void *)(size_t)argument);
}

static void on_ask(void *token, int argument)
{
    OK(AM_Reply1(token, ANSWER, argument));
}

static void on_answer(void *token, int argument)
{
    (void)token;
    EXPECT(argument == 7);
    answers++;
}

static void on_error(int status, op_t operation, void *block)
{
    (void)status, (void)operation, (void)block;
    errors++;
    pthread_exit((void *)&errors);
}

/* It waits for the bundle of the process. */
static void *waits(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    is_ready = 1;
    for (;;) {
        OK(AM_WaitSema(bundle));
        OK(AM_Poll(bundle));
    }
    pthread_cleanup_pop(0);
    return unused;
}

static void *polls(void *asynchronous)
{
    pthread_cleanup_push(clean, NULL);
    is_ready = 1;
    if (asynchronous)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;)
        OK(AM_Poll(bundle));
    pthread_cleanup_pop(0);
    return NULL;
}

static void *join(pthread_t thread)
{
    void *said;
    EXPECT(pthread_join(thread, &said) == 0);
    return said;
}

static pthread_t begin(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    is_ready = 0;
    EXPECT(pthread_create(&thread, NULL, run, argument) == 0);
    while (!is_ready)
        usleep(100);
    return thread;
}

int main(void)
{
    open_endpoint(AM_PAR);
    OK(AM_SetEventMask(bundle, AM_NOTEMPTY));
    OK(AM_Map(ep, 0, own, TAG));
    OK(AM_Map(ep, 1, own, TAG + 1));
    OK(AM_SetHandler(ep, LEAVE, on_leave));
    OK(AM_SetHandler(ep, BACK, on_ask));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    OK(AM_SetHandler(ep, 0, on_error));
    for (int round = 0; round < ROUNDS; round++) {
        void *(*run[])(void *) = {waits, polls, polls};
        for (int kind = 0; kind < 3; kind++) {
            pthread_t thread = begin(run[kind], kind == 2 ? &bundle : NULL);
            usleep((useconds_t)(rand() % (1 + round * 100)));
            EXPECT(pthread_cancel(thread) == 0);
            /* glibc does not say so where an asynchronous cancel acts in pthread_setcancelstate. */
            void *said = join(thread);
            EXPECT(said == PTHREAD_CANCELED || kind == 2);
        }
        pthread_t thread = begin(round % 2 ? waits : polls, NULL);
        OK(AM_Request1(ep, 0, LEAVE, 1 + round));
        EXPECT(join(thread) == (void *)(size_t)(1 + round));
        /* A request with another tag comes back, to a handler that ends its thread. */
        OK(AM_Request1(ep, 1, BACK, 7));
        thread = begin(round % 2 ? polls : waits, NULL);
        EXPECT(join(thread) == (void *)&errors && errors == round + 1);
        EXPECT(cleaned == 5 * (round + 1));
        /* The lock is free, no token is left, and the endpoint in use by none. */
        OK(AM_Request1(ep, 0, BACK, 7));
        POLL_UNTIL(answers == round + 1);
    }
    OK(AM_FreeEndpoint(ep));
    OK(AM_Terminate());
    puts("the process is still there");
    return 0;
}
