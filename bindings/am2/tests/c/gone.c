/* A get whose peer dies before it has answered comes back, and so does a transfer that it does not have as a whole. 0 asks, 1 dies. */
#include "common.h"
#include <unistd.h>

enum { BEGIN = 1, GOT, ANSWER, PUT };
enum { LONGEST = 1 << 24, GETS = 8, PUTS = 3, POLLS = 20 };

static char segment[LONGEST], got[LONGEST];
static int arrived, errors, put_errors, has_begun, dies;

static void on_error(int status, op_t opcode, void *block)
{
    EXPECT(status == EUNREACHABLE || status == EBADENDPOINT);
    EXPECT(((am_argblock_t *)block)->nbytes == LONGEST);
    EXPECT(((am_argblock_t *)block)->handler == (opcode == AM_GET_XFER_M ? GOT : PUT));
    errors += opcode == AM_GET_XFER_M;
    put_errors += opcode == AM_REQUEST_XFER_M;
}

static void on_begin(void *token)
{
    dies = 1;
    OK(AM_Reply0(token, ANSWER));
}

static void on_answer(void *token)
{
    (void)token;
    has_begun = 1;
}

static void on_got(void *token, void *at, int bytes)
{
    (void)token, (void)at, (void)bytes;
    arrived++;
}

int main(int count, char **arguments)
{
    EXPECT(count == 2);
    meet();
    OK(AM_SetSeg(ep, segment, sizeof segment));
    OK(AM_SetHandler(ep, 0, on_error));
    OK(AM_SetHandler(ep, BEGIN, on_begin));
    OK(AM_SetHandler(ep, GOT, on_got));
    OK(AM_SetHandler(ep, PUT, on_got));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    if (arguments[1][0] == '1') {
        POLL_UNTIL(dies);
        for (int at = 0; at < POLLS; at++)
            OK(AM_Poll(bundle));
        _exit(0);
    }
    OK(AM_Request0(ep, 0, BEGIN));
    POLL_UNTIL(has_begun);
    for (int at = 0; at < GETS; at++)
        OK(AM_GetXfer0(ep, 0, 0, GOT, got, LONGEST));
    /* Each returns, also while the peer dies. */
    for (int at = 0; at < PUTS; at++)
        OK(AM_RequestXfer0(ep, 0, 0, PUT, got, LONGEST));
    POLL_UNTIL(arrived + errors == GETS && put_errors > 0);
    EXPECT(errors > 0);
    printf("each get has an outcome\n");
    return 0;
}
