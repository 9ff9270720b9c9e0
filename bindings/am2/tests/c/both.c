/* A program that is C and C++: what AM2_DEST takes for an address and what for an offset, tags, handlers, and each kind of call. */
#include "expect.h"
#include <am_spmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOW(dest) show(#dest, AM2_DEST(dest))

enum { TAG = 7, SHORT = 1, MEDIUM, LONG, GOT, ANSWER, ANSWER_LONG, PLACE = 8 };

static char segment[64];
static eb_t bundle;
static ep_t ep;
static int seen, came_back;

static void show(const char *text, am2_dest_t dest)
{
    printf("%s: %s %d %llu\n", text, dest.is_offset ? "offset" : "address", dest.address != NULL,
           AM2_CAST(unsigned long long, dest.offset));
}

static void on_error(int status, op_t opcode, void *block)
{
    const am_argblock_t *what = AM2_CAST(am_argblock_t *, block);
    printf("came back: %d %d %d\n", status, opcode, what->numargs);
    came_back++;
}

static void on_short(void *token, int32_t number)
{
    OK(AM_Reply1(token, ANSWER, number + 1));
}

static void on_bytes(void *token, void *at, int nbytes, int32_t number)
{
    OK(AM_ReplyMedium4(token, ANSWER_LONG, nbytes, at, number, 2, 3, 4));
}

static void on_got(void *token, void *at, int nbytes)
{
    op_t kind;
    OK(AM2_GetMsgKind(token, &kind));
    printf("got %d bytes %.5s, kind %d, in the segment: %d\n", nbytes, AM2_CAST(char *, at), kind, at == segment + PLACE);
    seen++;
}

static void on_answer(void *token, int32_t number)
{
    (void)token;
    printf("answer %d\n", AM2_CAST(int, number));
    seen++;
}

static void on_answer_long(void *token, void *at, int nbytes, int32_t a, int32_t b, int32_t c, int32_t d)
{
    (void)token;
    printf("answer of %d bytes %.5s, %d\n", nbytes, AM2_CAST(char *, at), AM2_CAST(int, a + b + c + d));
    seen++;
}

static void poll_until(int count)
{
    while (seen + came_back < count)
        OK(AM_Poll(bundle));
}

static void show_all(void)
{
    int number = 5, *const pointer = &number;
    char small = 6;
    short two = 7;
    long long longest = 8;
    unsigned long long unsigned_longest = 9;
    size_t size = 10;
    uintptr_t address = 11;
    tag_t none = AM_NONE, all = AM_ALL;
    SHOW(NULL);
    SHOW((NULL));
    SHOW(segment);
    SHOW(segment + PLACE);
    SHOW(pointer);
    SHOW(0);
    SHOW(0L);
    SHOW(0ULL);
    SHOW(PLACE);
    SHOW(number);
    SHOW(small);
    SHOW(two);
    SHOW(longest);
    SHOW(unsigned_longest);
    SHOW(size);
    SHOW(address);
    SHOW(sizeof segment);
    SHOW(-1);
    printf("%d %d\n", none == 0, all == UINT64_MAX);
}

int main(void)
{
    en_t own;
    handler_t any;
    char source[] = "bytes", here[6] = "";
    show_all();
    OK(AM_Init());
    OK(AM_AllocateBundle(AM_SEQ, &bundle));
    OK(AM_AllocateEndpoint(bundle, &ep, &own));
    OK(AM_SetTag(ep, TAG));
    OK(AM_SetSeg(ep, segment, sizeof segment));
    OK(AM_Map(ep, 0, own, TAG));
    OK(AM_Map(ep, 1, own, AM_NONE));
    OK(AM_SetHandler(ep, 0, on_error));
    OK(AM_SetHandler(ep, SHORT, on_short));
    OK(AM_SetHandler(ep, MEDIUM, &on_bytes));
    OK(AM_SetHandler(ep, LONG, on_bytes));
    OK(AM_SetHandler(ep, GOT, on_got));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    OK(AM_SetHandler(ep, ANSWER_LONG, on_answer_long));
    OK(AM_SetHandlerAny(ep, &any, on_short));
    EXPECT(any == ANSWER_LONG + 1);
    EXPECT(AM_SetHandler(ep, 1, NULL) == AM_ERR_BAD_ARG);
    /* An address without memory, and the begin of the segment. */
    EXPECT(AM_GetXfer0(ep, 0, 0, GOT, NULL, 1) == AM_ERR_BAD_ARG);
    OK(AM_Request1(ep, 0, SHORT, 41));
    poll_until(1);
    OK(AM_RequestI1(ep, 0, MEDIUM, source, 6, 1));
    poll_until(2);
    OK(AM_RequestXfer1(ep, 0, 0, LONG, source, 6, 10));
    poll_until(3);
    OK(AM_GetXfer0(ep, 0, 0, GOT, PLACE, 6));
    poll_until(4);
    OK(AM_GetXferAsynch0(ep, 0, PLACE, GOT, here, 6));
    poll_until(5);
    EXPECT(!strcmp(here, "bytes") && !strcmp(segment + PLACE, "bytes"));
    OK(AM_Request2(ep, 1, SHORT, 1, 2));
    poll_until(6);
    OK(AM2_SpmdBarrier());
    OK(AM_Terminate());
    printf("the same in both languages\n");
    return 0;
}
