/* Transfers of every length around a frame's and around those that are copied, up to the longest; as requests, replies and gets. Between them are
 * short requests: all handlers run in order, each when its bytes are there. What lies around them stays as it is. */
#include "common.h"

enum { PUT = 1, CLEAR, ANSWER, GOT, ZEROS, BYE, UNSET = 200 };
enum { LONGEST = 1 << 24, GAP = 64, AHEAD = 3, PLACES = AHEAD * (LONGEST + GAP) };

/* Places for those that are under way at once. The first half is read and written by the peer, the second by gets. */
static unsigned char segment[2 * PLACES], source[LONGEST];
static int next, answers, got, bye, expected;

static unsigned char byte(int number, int at)
{
    return (unsigned char)(number * 31 + at + at / 251 + 1);
}

static uintptr_t place(int number)
{
    return (uintptr_t)(number % AHEAD) * (LONGEST + GAP);
}

/* Every byte of the shorter ones. Behind them is nothing. */
static void verify(const unsigned char *bytes, int nbytes, int number)
{
    static const unsigned char nothing[GAP];
    int step = nbytes < 100000 ? 1 : 61;
    for (int at = 0; at < nbytes; at += step)
        EXPECT(bytes[at] == byte(number, at));
    EXPECT(nbytes == 0 || bytes[nbytes - 1] == byte(number, nbytes - 1));
    EXPECT(!memcmp(bytes + nbytes, nothing, GAP));
}

static void on_put(void *token, void *at, int nbytes, int32_t number, int32_t a1, int32_t a2, int32_t a3, int32_t a4)
{
    EXPECT(number == next && a1 == 1 && a2 == 2 && a3 == 3 && a4 == nbytes && at == segment + place(number));
    verify(at, nbytes, number);
    OK(AM_ReplyXfer2(token, place(number), ANSWER, at, nbytes, number, nbytes));
}

/* It comes behind the get. */
static void on_clear(void *token, int32_t number, int32_t nbytes)
{
    (void)token;
    EXPECT(number == next++);
    memset(segment + place(number), 0, (size_t)nbytes);
}

static void on_answer(void *token, void *at, int nbytes, int32_t number, int32_t bytes)
{
    (void)token;
    EXPECT(at == segment + place(number) && nbytes == bytes && number == answers++);
    verify(at, nbytes, number);
    memset(at, 0, (size_t)nbytes);
}

static void on_got(void *token, void *at, int nbytes, int32_t number, int32_t bytes)
{
    (void)token;
    EXPECT(at == segment + PLACES + place(number) && nbytes == bytes && number == got++);
    verify(at, nbytes, number);
    memset(at, 0, (size_t)nbytes);
}

static void on_bye(void *token)
{
    (void)token;
    bye = 1;
}

static void on_error(int status, op_t opcode, void *block)
{
    if (status == expected && opcode == AM_REQUEST_XFER_M) {
        expected = 0;
        return;
    }
    fprintf(stderr, "message %d to handler %d came back: %d\n", opcode, ((am_argblock_t *)block)->handler, status);
    exit(1);
}

static void ask(int nbytes)
{
    int number = next++, code;
    POLL_UNTIL(answers > number - AHEAD && got > number - AHEAD);
    for (int at = 0; at < nbytes; at++)
        source[at] = byte(number, at);
    if (number % 2 == 0)
        OK(AM_RequestXfer5(ep, 0, place(number), PUT, source, nbytes, number, 1, 2, 3, nbytes));
    else
        while ((code = AM_RequestXferAsync5(ep, 0, place(number), PUT, source, nbytes, number, 1, 2, 3, nbytes)) != AM_OK)
            IS(code, AM_ERR_NOT_SENT);
    /* The source is the program's again. */
    memset(source, 0, (size_t)nbytes);
    OK(AM_GetXfer2(ep, 0, place(number), GOT, segment + PLACES + place(number), nbytes, number, nbytes));
    OK(AM_Request2(ep, 0, CLEAR, number, nbytes));
}

/* One that may not be written comes back, and writes nothing. */
static void refused(int to, uintptr_t offset, handler_t handler, int nbytes, int status)
{
    memset(source, 1, (size_t)nbytes);
    expected = status;
    OK(AM_RequestXfer0(ep, to, offset, handler, source, nbytes));
    POLL_UNTIL(expected == 0);
}

static void on_zeros(void *token, void *at, int nbytes)
{
    const unsigned char *bytes = at;
    (void)token;
    EXPECT(bytes[0] == 0 && !memcmp(bytes, bytes + 1, (size_t)nbytes - 1));
    got++;
}

static void ask_for_what_is_refused(void)
{
    static const int lengths[] = {100, 3000, 40000, 65536, 300000, LONGEST};
    OK(AM_Map(ep, 2, other, TAG + 1));
    for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        int nbytes = lengths[at];
        refused(2, 0, PUT, nbytes, EBADTAG);
        refused(0, 0, UNSET, nbytes, EBADHANDLER);
        refused(0, PLACES - (uintptr_t)nbytes + 1, PUT, nbytes, EBADLENGTH);
        refused(0, PLACES + 1, PUT, nbytes, EBADSEGOFF);
        refused(0, UINTPTR_MAX - 5, PUT, nbytes, EBADSEGOFF);
    }
    got = 0;
    for (int at = 0; at < AHEAD; at++)
        OK(AM_GetXfer0(ep, 0, place(at), ZEROS, segment + PLACES + place(at), LONGEST));
    POLL_UNTIL(got == AHEAD);
}

int main(int count, char **arguments)
{
    static const int frames[][2] = {{0, 4}, {1380, 1500}, {1960, 2060}, {4000, 4100}};
    static const int others[] = {9000,  16384,  32767,  32768,   32769,         60000,       65535,  65536,
                                 65537, 100000, 262144, 1 << 20, (1 << 20) + 1, LONGEST - 1, LONGEST};
    int asks = count > 1 && !strcmp(arguments[1], "0");
    meet();
    OK(AM_SetSeg(ep, segment, PLACES));
    OK(AM_SetHandler(ep, 0, on_error));
    OK(AM_SetHandler(ep, PUT, on_put));
    OK(AM_SetHandler(ep, CLEAR, on_clear));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    OK(AM_SetHandler(ep, GOT, on_got));
    OK(AM_SetHandler(ep, ZEROS, on_zeros));
    OK(AM_SetHandler(ep, BYE, on_bye));
    if (asks) {
        for (size_t at = 0; at < sizeof frames / sizeof *frames; at++)
            for (int nbytes = frames[at][0]; nbytes < frames[at][1]; nbytes++)
                ask(nbytes);
        for (size_t at = 0; at < sizeof others / sizeof *others; at++)
            ask(others[at]);
        POLL_UNTIL(answers == next && got == next);
        ask_for_what_is_refused();
        OK(AM_Request0(ep, 0, BYE));
        printf("all %d lengths arrived\n", next);
    }
    POLL_UNTIL(asks || bye);
    OK(AM_Terminate());
    return 0;
}
