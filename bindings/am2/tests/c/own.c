/* Transfers of a process to itself, more than its memory may hold at once: a request waits for room, in one bundle and between two. */
#include "common.h"
#include "resident.h"

enum { LONG = 1, REPLY, GOT };
enum { LONGEST = 1 << 24, MANY = 24, BOUND = 5 * LONGEST };

static unsigned char segment[LONGEST], source[LONGEST], got[LONGEST];
static int seen, replies, gets, errors;

static void on_error(int status, op_t opcode, void *block)
{
    (void)status, (void)opcode, (void)block;
    errors++;
}

static void on_long(void *token, void *at, int bytes, int32_t number)
{
    EXPECT(number == seen && bytes == LONGEST && ((unsigned char *)at)[LONGEST - 1] == (unsigned char)number);
    seen++;
    OK(AM_ReplyXfer1(token, 0, REPLY, source, LONGEST, number));
}

static void on_reply(void *token, void *at, int bytes, int32_t number)
{
    (void)token, (void)at;
    EXPECT(bytes == LONGEST && number == replies);
    replies++;
}

static void on_got(void *token, void *at, int bytes)
{
    (void)token;
    EXPECT(at == got && bytes == LONGEST);
    gets++;
}

static void set_up(ep_t endpoint)
{
    OK(AM_SetTag(endpoint, TAG));
    OK(AM_SetSeg(endpoint, segment, sizeof segment));
    OK(AM_SetHandler(endpoint, 0, on_error));
    OK(AM_SetHandler(endpoint, LONG, on_long));
    OK(AM_SetHandler(endpoint, REPLY, on_reply));
    OK(AM_SetHandler(endpoint, GOT, on_got));
}

int main(void)
{
    eb_t second_bundle;
    ep_t second;
    en_t name;
    OK(AM_Init());
    OK(AM_AllocateBundle(AM_SEQ, &bundle));
    OK(AM_AllocateBundle(AM_SEQ, &second_bundle));
    OK(AM_AllocateEndpoint(bundle, &ep, &own));
    OK(AM_AllocateEndpoint(second_bundle, &second, &name));
    set_up(ep);
    set_up(second);
    OK(AM_Map(ep, 0, own, TAG));
    OK(AM_Map(ep, 1, name, TAG));
    memset(segment, 1, sizeof segment);
    memset(source, 1, sizeof source);
    memset(got, 1, sizeof got);
    long before = most_resident();
    for (int to = 0; to < 2; to++) {
        seen = replies = gets = 0;
        for (int at = 0; at < MANY; at++) {
            source[LONGEST - 1] = (unsigned char)at;
            OK(AM_RequestXfer1(ep, to, 0, LONG, source, LONGEST, at));
            OK(AM_GetXfer0(ep, to, 0, GOT, got, LONGEST));
        }
        while (replies < MANY || gets < MANY) {
            OK(AM_Poll(bundle));
            OK(AM_Poll(second_bundle));
        }
        EXPECT(seen == MANY);
    }
    long more = more_resident(before, BOUND);
    /* What waits for an endpoint that is freed comes back. */
    OK(AM_RequestXfer1(ep, 1, 0, LONG, source, LONGEST, 0));
    OK(AM_FreeEndpoint(second));
    POLL_UNTIL(errors == 1);
    OK(AM_Terminate());
    printf("all to itself, with %ld MiB more\n", more >> 20);
    return 0;
}
