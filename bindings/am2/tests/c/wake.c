/* A thread that sleeps is woken for its own events, by the calls of other threads, and for nothing else. The sleeping
 * thread has no periodic wake, and receives nothing itself. */
#define _GNU_SOURCE
#include "common.h"
#include "waker_only.h"
#include <pthread.h>

enum { ASK = 1, ANSWER, BYE };
enum { ROUNDS = 300, PORT = 7 };

static int answers, asked, bye, ended;
static eb_t apart;

static int look(int *number)
{
    return __atomic_load_n(number, __ATOMIC_SEQ_CST);
}

static void on_ask(void *token)
{
    OK(AM_Reply0(token, ANSWER));
    __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
}

static void on_answer(void *token)
{
    (void)token;
    answers++;
}

static void on_bye(void *token)
{
    (void)token;
    bye = 1;
}

/* Wait and poll until the bundle is freed. Its endpoint could send at any time, which its mask does not ask for. */
static void *wait_apart(void *unused)
{
    int code;
    has_no_node = 1;
    while ((code = AM_WaitSema(apart)) == AM_OK)
        OK(AM_Poll(apart));
    IS(code, AM_ERR_BAD_ARG);
    __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
    return unused;
}

static void ask(int index, int polls)
{
    for (int round = 1; round <= ROUNDS; round++) {
        int before = look(&asked);
        OK(AM_Request0(ep, index, ASK));
        /* A message to this process needs no poll of the sender. */
        while (!polls && look(&asked) == before)
            usleep(100);
        POLL_UNTIL(answers == round);
    }
    answers = 0;
}

int main(int count, char **arguments)
{
    int asks = count > 1 && !strcmp(arguments[1], "0");
    pthread_t waiter;
    ep_t endpoint;
    en_t name, far;
    meet();
    OK(AM_AllocateBundle(AM_SEQ, &apart));
    OK(AM_AllocateKnownEndpoint(apart, &endpoint, &name, PORT));
    OK(AM_SetTag(endpoint, TAG));
    OK(AM_SetHandler(endpoint, ASK, on_ask));
    OK(AM_Map(endpoint, 0, own, TAG));
    OK(AM_SetEventMask(apart, AM_NOTEMPTY));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    OK(AM_SetHandler(ep, ASK, on_ask));
    OK(AM_SetHandler(ep, BYE, on_bye));
    EXPECT(!pthread_create(&waiter, NULL, wait_apart, NULL));
    if (asks) {
        /* The other process has its endpoint when it answers here. */
        OK(AM_Request0(ep, 0, ASK));
        POLL_UNTIL(answers == 1);
        answers = 0;
        OK(AM2_KnownName(&far, (const char *)other.bytes, (const char *)other.bytes + 64, PORT));
        OK(AM_Map(ep, 2, far, TAG));
        OK(AM_Map(ep, 3, name, TAG));
        ask(2, 1);
        ask(3, 0);
        OK(AM_Request0(ep, 0, BYE));
    } else {
        POLL_UNTIL(bye);
    }
    OK(AM_FreeBundle(apart));
    EXPECT(!pthread_join(waiter, NULL) && ended);
    /* One wake a message, one for the other's greeting, one for the end. */
    if (wakes > ROUNDS + 2)
        fprintf(stderr, "%d wakes\n", wakes);
    EXPECT(wakes > 0 && wakes <= ROUNDS + 2);
    if (asks)
        printf("woken for each\n");
    OK(AM_Terminate());
    return 0;
}
