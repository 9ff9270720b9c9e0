/* Two threads sleep, each for a bundle of its own, and no thread polls. One of them has the node's descriptor: it receives the messages
 * for the other, and wakes that. */
#define _GNU_SOURCE
#include "common.h"
#include "waker_only.h"
#include <pthread.h>

enum { ASK = 1, ANSWER, BYE };
enum { ROUNDS = 300, PORT = 7 };

static int answers, byes;
static __thread int ends;
static eb_t bundles[2];
static ep_t asleep[2];

static void on_ask(void *token)
{
    OK(AM_Reply0(token, ANSWER));
}

static void on_answer(void *token)
{
    (void)token;
    answers++;
}

/* Each thread polls its own bundle. */
static void on_bye(void *token)
{
    OK(AM_Reply0(token, ANSWER));
    ends = 1;
    byes++;
}

static void *serve(void *own_bundle)
{
    has_no_node = own_bundle == bundles[1];
    while (!ends) {
        OK(AM_WaitSema(own_bundle));
        OK(AM_Poll(own_bundle));
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[2];
    en_t name;
    OK(AM_Init());
    for (int at = 0; at < 2; at++) {
        OK(AM_AllocateBundle(AM_SEQ, &bundles[at]));
        OK(AM_AllocateKnownEndpoint(bundles[at], &asleep[at], &name, PORT + at));
        OK(AM_SetTag(asleep[at], TAG));
        OK(AM_SetHandler(asleep[at], ASK, on_ask));
        OK(AM_SetHandler(asleep[at], BYE, on_bye));
        OK(AM_SetEventMask(bundles[at], AM_NOTEMPTY));
    }
    meet();
    if (count > 1 && !strcmp(arguments[1], "0")) {
        OK(AM_SetHandler(ep, ANSWER, on_answer));
        for (int at = 0; at < 2; at++) {
            OK(AM2_KnownName(&name, (const char *)other.bytes, (const char *)other.bytes + 64, PORT + at));
            OK(AM_Map(ep, 2 + at, name, TAG));
        }
        for (int round = 0; round < ROUNDS; round++) {
            OK(AM_Request0(ep, 2 + round % 2, ASK));
            POLL_UNTIL(answers == round + 1);
        }
        /* The one that has the node's descriptor ends last. */
        OK(AM_Request0(ep, 3, BYE));
        POLL_UNTIL(answers == ROUNDS + 1);
        OK(AM_Request0(ep, 2, BYE));
        POLL_UNTIL(answers == ROUNDS + 2);
        printf("%d answers\n", ROUNDS);
    } else {
        for (int at = 0; at < 2; at++)
            EXPECT(!pthread_create(&threads[at], NULL, serve, bundles[at]));
        for (int at = 0; at < 2; at++)
            EXPECT(!pthread_join(threads[at], NULL));
        EXPECT(byes == 2);
    }
    OK(AM_Terminate());
    return 0;
}
