/* A job whose ranks get and ask for transfers of every size up to the longest, each from the next rank, all at once. */
#include "common.h"
#include <am_spmd.h>

enum { ASK = 1, BIG, GOT };
enum { LONGEST = 1 << 24, SHORTEST = 1 << 18 };

static unsigned char segment[LONGEST], source[LONGEST], got[LONGEST];
static int arrived;

static void on_ask(void *token, int32_t bytes)
{
    OK(AM_ReplyXfer0(token, 0, BIG, source, bytes));
}

static void on_big(void *token, void *at, int bytes)
{
    (void)token;
    EXPECT(at == segment && segment[bytes - 1] == (unsigned char)(bytes - 1));
    arrived++;
}

static void on_got(void *token, void *at, int bytes)
{
    (void)token, (void)bytes;
    EXPECT(at == got);
    arrived++;
}

int main(void)
{
    int next, wanted = 0;
    open_endpoint(AM_SEQ);
    OK(AM_SetSeg(ep, segment, sizeof segment));
    OK(AM_SetHandler(ep, ASK, on_ask));
    OK(AM_SetHandler(ep, BIG, on_big));
    OK(AM_SetHandler(ep, GOT, on_got));
    for (int at = 0; at < LONGEST; at++)
        source[at] = (unsigned char)at;
    OK(AM2_SpmdMap(ep, TAG));
    next = (AM2_SpmdRank() + 1) % AM2_SpmdSize();
    for (int bytes = SHORTEST; bytes <= LONGEST; bytes *= 8) {
        OK(AM_Request1(ep, next, ASK, bytes));
        OK(AM_GetXfer0(ep, next, 0, GOT, got, bytes));
        wanted += 2;
        POLL_UNTIL(arrived == wanted);
    }
    OK(AM2_SpmdBarrier());
    printf("%d transfers arrived\n", arrived);
    OK(AM_Terminate());
    return 0;
}
