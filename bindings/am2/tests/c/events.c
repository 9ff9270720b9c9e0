/* Waiting costs no processor time; threads share a bundle, and wait on one of their own. */
#define _GNU_SOURCE
#include "common.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { ASK = 1, ANSWER, BYE };
enum { THREADS = 4, EACH = 1000 };

static int bye;
/* Handlers never run two at once, but threads look at these meanwhile. */
static int answers[THREADS], asked;

static int look(int *number)
{
    return __atomic_load_n(number, __ATOMIC_SEQ_CST);
}

static void on_ask(void *token, int32_t thread)
{
    __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
    OK(AM_Reply1(token, ANSWER, thread));
}

static void on_answer(void *token, int32_t thread)
{
    (void)token;
    __atomic_add_fetch(&answers[thread], 1, __ATOMIC_SEQ_CST);
}

static void on_bye(void *token)
{
    (void)token;
    bye = 1;
}

static double processor_seconds(void)
{
    struct timespec time;
    EXPECT(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time));
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* All threads send through one endpoint. */
static void *share(void *number)
{
    int thread = (int)(intptr_t)number;
    for (int at = 0; at < EACH; at++)
        OK(AM_Request1(ep, at % 2, ASK, thread));
    POLL_UNTIL(look(&answers[thread]) == EACH);
    return NULL;
}

/* A bundle of this thread's, which waits for messages of this process while another thread polls. */
static void *wait_alone(void *name)
{
    eb_t own_bundle;
    ep_t endpoint;
    OK(AM_AllocateBundle(AM_SEQ, &own_bundle));
    OK(AM_AllocateEndpoint(own_bundle, &endpoint, name));
    OK(AM_SetTag(endpoint, TAG));
    OK(AM_SetHandler(endpoint, ASK, on_ask));
    OK(AM_SetEventMask(own_bundle, AM_NOTEMPTY));
    __atomic_store_n(&asked, 0, __ATOMIC_SEQ_CST);
    while (look(&asked) < EACH) {
        OK(AM_WaitSema(own_bundle));
        OK(AM_Poll(own_bundle));
    }
    OK(AM_FreeBundle(own_bundle));
    return NULL;
}

static void serve(void)
{
    while (!bye) {
        OK(AM_WaitSema(bundle));
        OK(AM_Poll(bundle));
    }
}

static void wait_idle(void)
{
    double before = processor_seconds();
    struct timespec start, now;
    EXPECT(!clock_gettime(CLOCK_MONOTONIC, &start));
    OK(AM_WaitSema(bundle));
    EXPECT(!clock_gettime(CLOCK_MONOTONIC, &now));
    EXPECT(now.tv_sec - start.tv_sec >= 1);
    /* Less than a hundredth of a processor. */
    EXPECT(processor_seconds() - before < 0.01 * (double)(now.tv_sec - start.tv_sec));
    OK(AM_Poll(bundle));
}

int main(int count, char **arguments)
{
    int asks = count > 1 && !strcmp(arguments[1], "0");
    pthread_t threads[THREADS], waiter;
    en_t name;
    meet();
    OK(AM_SetHandler(ep, ASK, on_ask));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    OK(AM_SetHandler(ep, BYE, on_bye));
    if (!asks) {
        wait_idle();
        serve();
        OK(AM_Terminate());
        return 0;
    }
    sleep(3);
    for (intptr_t thread = 0; thread < THREADS; thread++)
        EXPECT(!pthread_create(&threads[thread], NULL, share, (void *)thread));
    for (int thread = 0; thread < THREADS; thread++)
        EXPECT(!pthread_join(threads[thread], NULL));
    /* An endpoint that has open translations can send. */
    OK(AM_SetEventMask(bundle, AM_CANSEND));
    OK(AM_WaitSema(bundle));
    OK(AM_SetEventMask(bundle, AM_NOTEMPTY));
    memset(&name, 0, sizeof name);
    __atomic_store_n(&asked, -1, __ATOMIC_SEQ_CST);
    EXPECT(!pthread_create(&waiter, NULL, wait_alone, &name));
    while (look(&asked) < 0)
        usleep(1000);
    OK(AM_Map(ep, 5, name, TAG));
    answers[0] = 0;
    for (int at = 0; at < EACH; at++)
        OK(AM_Request1(ep, 5, ASK, 0));
    EXPECT(!pthread_join(waiter, NULL));
    POLL_UNTIL(look(&answers[0]) == EACH);
    OK(AM_Request0(ep, 0, BYE));
    printf("%d threads\n", THREADS);
    OK(AM_Terminate());
    return 0;
}
