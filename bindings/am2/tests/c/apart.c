/* A peer that takes nothing of what it has asked for keeps back no other. 0 answers, 1 asks for much and does not poll until 2 has had all
 * its answers. */
#include "common.h"
#include <am_spmd.h>
#include <poll.h>
#include <unistd.h>

enum { ASK = 1, ASK_LONG, ASK_MEDIUM, ANSWER, LONG, BEGUN };
enum { LONGEST = 1 << 24, MUCH = 4, N = 1000 };

static char segment[LONGEST], source[LONGEST];
static int answers, longs, has_begun;

static void on_ask(void *token)
{
    OK(AM_Reply0(token, ANSWER));
}

static void on_ask_long(void *token, int32_t bytes)
{
    if (bytes <= AM_MaxMedium() && bytes > 1000)
        OK(AM_ReplyI0(token, LONG, source, bytes));
    else
        OK(AM_ReplyXfer0(token, 0, LONG, source, bytes));
}

/* Of bytes that nothing looks at. */
static void on_ask_medium(void *token, void *at, int bytes)
{
    (void)at, (void)bytes;
    OK(AM_ReplyI0(token, LONG, source, 50000));
}

static void on_answer(void *token)
{
    (void)token;
    answers++;
}

static void on_long(void *token, void *at, int bytes)
{
    (void)token, (void)at, (void)bytes;
    longs++;
}

static void on_begun(void *token)
{
    (void)token;
    has_begun = 1;
}

static int exists(const char *path)
{
    return access(path, F_OK) == 0;
}

int main(int count, char **arguments)
{
    EXPECT(count == 2);
    open_endpoint(AM_SEQ);
    OK(AM_SetSeg(ep, segment, sizeof segment));
    OK(AM_SetHandler(ep, ASK, on_ask));
    OK(AM_SetHandler(ep, ASK_LONG, on_ask_long));
    OK(AM_SetHandler(ep, ASK_MEDIUM, on_ask_medium));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    OK(AM_SetHandler(ep, LONG, on_long));
    OK(AM_SetHandler(ep, BEGUN, on_begun));
    OK(AM2_SpmdMap(ep, TAG));
    switch (AM2_SpmdRank()) {
    case 1:
        /* The first answer shows that the connection is open. */
        OK(AM_Request1(ep, 0, ASK_LONG, 1));
        POLL_UNTIL(longs == 1);
        for (int at = 0; at < MUCH; at++)
            OK(AM_Request1(ep, 0, ASK_LONG, LONGEST));
        for (int at = 0; at < MUCH; at++)
            OK(AM_RequestI0(ep, 0, ASK_MEDIUM, source, 60000));
        OK(AM_Request0(ep, 2, BEGUN));
        while (!exists(arguments[1]))
            poll(NULL, 0, 1);
        POLL_UNTIL(longs == 1 + 2 * MUCH);
        break;
    case 2:
        POLL_UNTIL(has_begun);
        for (int at = 0; at < N; at++) {
            if (at % 10 == 1)
                OK(AM_RequestI0(ep, 0, ASK_MEDIUM, source, 60000));
            else
                OK(AM_Request1(ep, 0, ASK_LONG, at % 10 == 0 ? 100000 : at % 10 == 2 ? 40000 : 0));
            OK(AM_Request0(ep, 0, ASK));
        }
        POLL_UNTIL(answers == N && longs == N);
        EXPECT(!exists(arguments[1]) && fclose(fopen(arguments[1], "w")) == 0);
        break;
    }
    OK(AM2_SpmdBarrier());
    printf("each on its own\n");
    OK(AM_Terminate());
    return 0;
}
