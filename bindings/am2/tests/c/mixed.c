/* Every kind of message in a flood: each process of a job sends all others, and itself, requests of each kind, whose replies are of each kind,
 * and waits for no answer before it has sent all. All answers arrive. */
#include "common.h"
#include <am_spmd.h>

enum { SHORT = 1, MEDIUM, LONG, ANSWER, ANSWER_BYTES, GOT };
enum { PLACE = 300000, N = 600, MOST = 8 };

/* A part for what each rank writes, and one for what it gets. */
static unsigned char segment[(MOST + 1) * PLACE], data[PLACE];
static int answers;

/* The number of bytes of an answer, by a number that the request has. */
static int length(int32_t number)
{
    return number % 5 == 0 ? AM_MaxMedium() : number % 5 == 1 ? 10 : number % 5 == 2 ? 9000 : 40000;
}

static void answer(void *token, int32_t number)
{
    switch (number % 3) {
    case 0:
        OK(AM_Reply1(token, ANSWER, number));
        break;
    case 1:
        OK(AM_ReplyI1(token, ANSWER_BYTES, data, length(number), number));
        break;
    default:
        OK(AM_ReplyXfer1(token, (uintptr_t)AM2_SpmdRank() * PLACE, ANSWER_BYTES, data, number % 7 == 0 ? PLACE : length(number), number));
    }
}

static void on_short(void *token, int32_t number)
{
    answer(token, number);
}

static void on_bytes(void *token, void *at, int bytes, int32_t number)
{
    const unsigned char *own = at;
    EXPECT(bytes > 0 && own[0] == data[0] && own[bytes - 1] == data[bytes - 1]);
    answer(token, number);
}

static void on_answer(void *token, int32_t number)
{
    (void)token;
    EXPECT(number % 3 == 0);
    answers++;
}

static void on_answer_bytes(void *token, void *at, int bytes, int32_t number)
{
    const unsigned char *own = at;
    (void)token;
    EXPECT(number % 3 != 0 && own[0] == data[0] && own[bytes - 1] == data[bytes - 1]);
    answers++;
}

static void on_got(void *token, void *at, int bytes)
{
    (void)token;
    EXPECT(bytes > 0 && at != NULL);
    answers++;
}

static void on_error(int status, op_t opcode, void *block)
{
    fprintf(stderr, "message %d to handler %d came back: %d\n", opcode, ((am_argblock_t *)block)->handler, status);
    exit(1);
}

int main(int count, char **arguments)
{
    int sleeps = count > 1 && !strcmp(arguments[1], "sleeps");
    open_endpoint(AM_SEQ);
    OK(AM_SetEventMask(bundle, AM_NOTEMPTY));
    OK(AM_SetSeg(ep, segment, sizeof segment));
    OK(AM_SetHandler(ep, 0, on_error));
    OK(AM_SetHandler(ep, SHORT, on_short));
    OK(AM_SetHandler(ep, MEDIUM, on_bytes));
    OK(AM_SetHandler(ep, LONG, on_bytes));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    OK(AM_SetHandler(ep, ANSWER_BYTES, on_answer_bytes));
    OK(AM_SetHandler(ep, GOT, on_got));
    OK(AM2_SpmdMap(ep, TAG));
    EXPECT(AM2_SpmdSize() <= MOST);
    for (int at = 0; at < PLACE; at++)
        data[at] = (unsigned char)(at / 7 + at);
    for (int32_t at = 0; at < N; at++) {
        int to = (AM2_SpmdRank() + at / 4) % AM2_SpmdSize();
        uintptr_t place = (uintptr_t)AM2_SpmdRank() * PLACE;
        switch (at % 4) {
        case 0:
            OK(AM_Request1(ep, to, SHORT, at));
            break;
        case 1:
            OK(AM_RequestI1(ep, to, MEDIUM, data, length(at / 4), at));
            break;
        case 2:
            OK(AM_RequestXfer1(ep, to, place, LONG, data, length(at / 4) + 100000, at));
            break;
        default:
            OK(AM_GetXfer0(ep, to, 0, GOT, segment + (uintptr_t)MOST * PLACE, length(at / 4)));
        }
    }
    while (answers < N) {
        if (sleeps)
            OK(AM_WaitSema(bundle));
        OK(AM_Poll(bundle));
    }
    OK(AM2_SpmdBarrier());
    printf("%d answers\n", answers);
    OK(AM_Terminate());
    return 0;
}
