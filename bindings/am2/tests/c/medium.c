/* Mediums of every length up to the longest, in both directions at once and to oneself, each echoed by its handler: they arrive whole, once
 * and in order. */
#include "common.h"
#include "resident.h"

enum { ECHO = 1, ECHO_MANY, ECHOED, ECHOED_MANY, MARK, ASK, ANSWER, DONE, BYE };
enum { LONGEST = 1 << 16, BURST = 40, ASKED = 2000 };
/* 1 MiB of replies waits for a connection, a quarter of the memory for long messages of its requests, and the library's own. */
enum { BOUND = 64 << 20 };

static unsigned char data[LONGEST + 1];
static int echoed, marks, burst, answers, is_other_over, said_bye;

static unsigned char byte(int bytes, int at)
{
    return (unsigned char)(bytes + at + at / 251);
}

static void fill(int bytes)
{
    for (int at = 0; at < bytes; at++)
        data[at] = byte(bytes, at);
}

static void verify(const unsigned char *from, int bytes)
{
    EXPECT((uintptr_t)from % 16 == 0);
    for (int at = 0; at < bytes; at++)
        EXPECT(from[at] == byte(bytes, at));
}

static void on_echo(void *token, void *at, int bytes)
{
    verify(at, bytes);
    IS(AM_ReplyI0(token, ECHOED, data, AM_MaxMedium() + 1), AM_ERR_BAD_ARG);
    OK(AM_ReplyI0(token, ECHOED, at, bytes));
}

static void on_echo_many(void *token, void *at, int bytes, int32_t a, int32_t b, int32_t c, int32_t d, int32_t e, int32_t f, int32_t g,
                         int32_t h, int32_t i, int32_t j, int32_t k, int32_t l, int32_t m, int32_t n, int32_t o, int32_t p)
{
    verify(at, bytes);
    /* The handler may write to them. */
    ((unsigned char *)at)[bytes > 0 ? bytes - 1 : 0] ^= 1;
    ((unsigned char *)at)[bytes > 0 ? bytes - 1 : 0] ^= 1;
    OK(AM_ReplyI16(token, ECHOED_MANY, at, bytes, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p));
}

static void on_echoed(void *token, void *at, int bytes)
{
    (void)token;
    verify(at, bytes);
    echoed++;
}

static void on_echoed_many(void *token, void *at, int bytes, int32_t a, int32_t b, int32_t c, int32_t d, int32_t e, int32_t f, int32_t g,
                           int32_t h, int32_t i, int32_t j, int32_t k, int32_t l, int32_t m, int32_t n, int32_t o, int32_t p)
{
    (void)token;
    verify(at, bytes);
    EXPECT(a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8);
    EXPECT(i == 9 && j == 10 && k == 11 && l == 12 && m == 13 && n == 14 && o == 15 && p == 16);
    echoed++;
}

/* Long and short ones in turn. */
static void on_mark(void *token, void *at, int bytes, int32_t number)
{
    (void)token;
    verify(at, bytes);
    EXPECT(number == marks++);
}

static void on_ask(void *token)
{
    OK(AM_ReplyI0(token, ANSWER, data, LONGEST));
}

static void on_answer(void *token, void *at, int bytes)
{
    (void)token;
    verify(at, bytes);
    answers++;
}

static void on_done(void *token)
{
    is_other_over = 1;
    OK(AM_Reply0(token, BYE));
}

static void on_bye(void *token)
{
    (void)token;
    said_bye = 1;
}

static void on_error(int status, op_t opcode, void *block)
{
    fprintf(stderr, "message %d to handler %d came back: %d\n", opcode, ((am_argblock_t *)block)->handler, status);
    exit(1);
}

static void echo(int to, int bytes)
{
    int before = echoed;
    fill(bytes);
    OK(AM_RequestI0(ep, to, ECHO, data, bytes));
    OK(AM_RequestI16(ep, to, ECHO_MANY, data, bytes, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16));
    POLL_UNTIL(echoed == before + 2);
}

int main(void)
{
    /* About the payload of a frame of each transport. */
    static const int frames[] = {64, 1400, 1500, 2048, 3500, 4096, 8192, 16384, 32768, 60000, LONGEST};
    meet();
    EXPECT(AM_MaxMedium() == LONGEST);
    OK(AM_SetHandler(ep, 0, on_error));
    OK(AM_SetHandler(ep, ECHO, on_echo));
    OK(AM_SetHandler(ep, ECHO_MANY, on_echo_many));
    OK(AM_SetHandler(ep, ECHOED, on_echoed));
    OK(AM_SetHandler(ep, ECHOED_MANY, on_echoed_many));
    OK(AM_SetHandler(ep, MARK, on_mark));
    OK(AM_SetHandler(ep, ASK, on_ask));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    OK(AM_SetHandler(ep, DONE, on_done));
    OK(AM_SetHandler(ep, BYE, on_bye));
    for (int to = 0; to < 2; to++) {
        IS(AM_RequestI0(ep, to, ECHO, data, LONGEST + 1), AM_ERR_BAD_ARG);
        echo(to, 0);
        echo(to, 1);
        for (size_t at = 0; at < sizeof frames / sizeof *frames; at++) {
            int step = frames[at] < 2048 ? 1 : 7;
            for (int bytes = frames[at] - 3 * step; bytes <= frames[at]; bytes += step)
                echo(to, bytes);
        }
    }
    for (burst = 0; burst < BURST; burst++) {
        int bytes = burst % 3 == 0 ? LONGEST : burst % 3 == 1 ? 8 : 20000;
        fill(bytes);
        OK(AM_RequestI1(ep, 0, MARK, data, bytes, burst));
    }
    POLL_UNTIL(marks == BURST);
    fill(LONGEST);
    long before = most_resident();
    for (int at = 0; at < ASKED; at++)
        OK(AM_Request0(ep, 0, ASK));
    POLL_UNTIL(answers == ASKED);
    OK(AM_Request0(ep, 0, DONE));
    POLL_UNTIL(is_other_over && said_bye);
    long more = more_resident(before, BOUND);
    printf("all mediums arrived, with %ld MiB more\n", more >> 20);
    OK(AM_Terminate());
    return 0;
}
