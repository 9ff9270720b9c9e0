/* Long replies and the answers to gets, of every size up to the longest: all arrive, and the side that answers keeps few of them at once,
 * however many are asked for. Both processes ask. */
#include "common.h"
#include "resident.h"

enum { ASK = 1, BIG, GOT, DONE, BYE };
enum { LONGEST = 1 << 24, MANY = 24, SOME = 40, MEDIUM = 65000 };
/* One reply may wait for each connection, with a part of the next; and the library's own. */
enum { BOUND = 4 * LONGEST };

/* The first half is read and written by the peer, the second by gets. */
static unsigned char segment[2 * LONGEST], source[LONGEST];
static int arrived, is_other_over, said_bye, sleeps;

/* One process polls, the other sleeps between two polls. */
#define UNTIL(condition)                                                                                               \
    while (!(condition)) {                                                                                             \
        if (sleeps)                                                                                                    \
            OK(AM_WaitSema(bundle));                                                                                   \
        OK(AM_Poll(bundle));                                                                                           \
    }

static unsigned char byte(int bytes, int at)
{
    return (unsigned char)(bytes / 1000 + at + at / 251);
}

static void fill(unsigned char *to, int bytes)
{
    for (int at = 0; at < bytes; at += 97)
        to[at] = byte(bytes, at);
}

static void verify(const unsigned char *from, int bytes)
{
    for (int at = 0; at < bytes; at += 97)
        EXPECT(from[at] == byte(bytes, at));
}

static void on_ask(void *token, int32_t bytes)
{
    fill(source, bytes);
    OK(AM_ReplyXfer0(token, 0, BIG, source, bytes));
}

static void on_big(void *token, void *at, int bytes)
{
    (void)token;
    EXPECT(at == segment);
    verify(at, bytes);
    arrived++;
}

static void on_got(void *token, void *at, int bytes)
{
    (void)token, (void)bytes;
    EXPECT(at == segment + LONGEST);
    arrived++;
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

static void wait_for(int count)
{
    UNTIL(arrived == count);
    arrived = 0;
}

int main(int count, char **arguments)
{
    EXPECT(count == 2);
    sleeps = arguments[1][0] == '1';
    meet();
    OK(AM_SetSeg(ep, segment, sizeof segment));
    OK(AM_SetHandler(ep, ASK, on_ask));
    OK(AM_SetHandler(ep, BIG, on_big));
    OK(AM_SetHandler(ep, GOT, on_got));
    OK(AM_SetHandler(ep, DONE, on_done));
    OK(AM_SetHandler(ep, BYE, on_bye));
    for (int bytes = 1 << 10; bytes <= LONGEST; bytes *= 4) {
        OK(AM_Request1(ep, 0, ASK, bytes));
        wait_for(1);
        OK(AM_GetXfer0(ep, 0, 0, GOT, segment + LONGEST, bytes));
        wait_for(1);
    }
    for (int at = 0; at < SOME; at++)
        OK(AM_Request1(ep, 0, ASK, MEDIUM));
    wait_for(SOME);
    /* What is shared by both uses counts before. */
    memset(segment, 1, sizeof segment);
    memset(source, 1, sizeof source);
    long before = most_resident();
    for (int at = 0; at < MANY; at++)
        OK(at % 2 ? AM_Request1(ep, 0, ASK, LONGEST) : AM_GetXfer0(ep, 0, 0, GOT, segment + LONGEST, LONGEST));
    wait_for(MANY);
    OK(AM_Request0(ep, 0, DONE));
    UNTIL(is_other_over && said_bye);
    long more = more_resident(before, BOUND);
    printf("all sizes arrived, with %ld MiB more\n", more >> 20);
    OK(AM_Terminate());
    return 0;
}
