/* A process of a job ends its node and begins again, several times. In a barrier handlers ask for the rank. */
#include "common.h"
#include <am_spmd.h>

enum { ASK = 1, ANSWER, ROUNDS = 3, N = 100 };

static int answers;

static void on_ask(void *token, int32_t a)
{
    EXPECT(AM2_SpmdRank() >= 0 && AM2_SpmdSize() > 1);
    OK(AM_Reply1(token, ANSWER, a));
}

static void on_answer(void *token, int32_t a)
{
    (void)token;
    EXPECT(a == answers && AM2_SpmdRank() >= 0);
    answers++;
}

int main(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        open_endpoint(AM_SEQ);
        OK(AM_SetHandler(ep, ASK, on_ask));
        OK(AM_SetHandler(ep, ANSWER, on_answer));
        OK(AM2_SpmdMap(ep, TAG));
        answers = 0;
        for (int at = 0; at < N; at++)
            OK(AM_Request1(ep, (AM2_SpmdRank() + 1) % AM2_SpmdSize(), ASK, at));
        OK(AM2_SpmdBarrier());
        POLL_UNTIL(answers == N);
        OK(AM2_SpmdBarrier());
        OK(AM_Terminate());
    }
    printf("%d rounds of %d answers\n", ROUNDS, answers);
    return 0;
}
