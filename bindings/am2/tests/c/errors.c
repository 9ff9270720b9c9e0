/* Messages that cannot be delivered come back with their reason and their arguments. */
#include "common.h"

enum { ECHO = 1, BYE, BAD_REPLY, TOLD, TELL, LONG, WHOLE, GOT, UNSET = 200 };

static unsigned char segment[1000], data[1 << 16];
static int errors, status_last, opcode_last, told, bye;
static am_argblock_t last;

static void on_error(int status, op_t opcode, void *block)
{
    errors++;
    status_last = status;
    opcode_last = opcode;
    last = *(am_argblock_t *)block;
    /* An error handler is a handler. */
    IS(AM_Poll(bundle), AM_ERR_BAD_ARG);
}

static void on_echo(void *token, int32_t a, int32_t b)
{
    OK(AM_Reply4(token, TOLD, a, b, 0, 0));
}

static void on_bad_reply(void *token, int32_t a)
{
    OK(AM_Reply5(token, UNSET, a, 2, 3, 4, 5));
}

static void on_tell(void *token)
{
    OK(AM_Reply4(token, TOLD, errors, status_last, opcode_last, last.args[4]));
}

static int32_t told_args[4];

static void on_told(void *token, int32_t a, int32_t b, int32_t c, int32_t d)
{
    (void)token;
    told_args[0] = a, told_args[1] = b, told_args[2] = c, told_args[3] = d;
    told++;
}

static void on_long(void *token, void *buf, int nbytes)
{
    (void)buf, (void)nbytes;
    OK(AM_Reply4(token, TOLD, 0, 0, 0, 0));
}

/* Between its own segment and the whole address space. */
static void on_whole(void *token)
{
    static char word[] = "whole";
    void *start;
    uintptr_t nbytes, at = (uintptr_t)word;
    OK(AM_GetSeg(ep, &start, &nbytes));
    OK(start ? AM_SetSeg(ep, NULL, UINTPTR_MAX) : AM_SetSeg(ep, segment, sizeof segment));
    memcpy(word, "whole", 5);
    OK(AM_Reply4(token, TOLD, (int32_t)at, (int32_t)(at >> 16 >> 16), 0, 0));
}

static void on_got(void *token, void *buf, int nbytes)
{
    (void)token;
    EXPECT(buf == data && nbytes == 5);
    told++;
}

static void on_bye(void *token)
{
    (void)token;
    bye = 1;
}

/* The next error is this one. */
static void came_back(int status, op_t opcode, int index, int handler)
{
    POLL_UNTIL(errors > 0);
    EXPECT(errors == 1);
    if (status_last != status || opcode_last != opcode)
        fprintf(stderr, "status %d of operation %d, expected %d of %d\n", status_last, opcode_last, status, opcode);
    EXPECT(status_last == status);
    EXPECT(opcode_last == opcode);
    EXPECT(last.request_endpoint == ep && last.reply_endpoint == index && last.handler == handler);
    errors = 0;
}

/* Offsets are addresses where the peer's segment is the whole address space; and nothing is at 0. */
static void whole(int to)
{
    int before = told;
    uintptr_t at;
    OK(AM_Request0(ep, to, WHOLE));
    POLL_UNTIL(told == before + 1);
    at = (uintptr_t)(uint32_t)told_args[0] | (uintptr_t)(uint32_t)told_args[1] << 16 << 16;
    data[0] = 0;
    OK(AM_GetXfer0(ep, to, at, GOT, data, 5));
    POLL_UNTIL(told == before + 2);
    EXPECT(!memcmp(data, "whole", 5));
    OK(AM_RequestXfer0(ep, to, at, LONG, data + 1, 4));
    POLL_UNTIL(told == before + 3);
    OK(AM_GetXfer0(ep, to, at, GOT, data, 5));
    POLL_UNTIL(told == before + 4);
    EXPECT(!memcmp(data, "holee", 5));
    OK(AM_RequestXfer0(ep, to, 0, LONG, data, 1));
    came_back(EBADLENGTH, AM_REQUEST_XFER_M, to, LONG);
    OK(AM_GetXfer0(ep, to, (uintptr_t)-1, GOT, data, 2));
    came_back(EBADLENGTH, AM_GET_XFER_M, to, GOT);
    OK(AM_Request0(ep, to, WHOLE));
    POLL_UNTIL(told == before + 5);
}

static void ask(int to, en_t name)
{
    int wrong = to + 10, before;
    /* A tag that is not the endpoint's. */
    OK(AM_Map(ep, wrong, name, TAG + 1));
    OK(AM_Request6(ep, wrong, ECHO, 1, 2, 3, 4, 5, -6));
    came_back(EBADTAG, AM_REQUEST_M, wrong, ECHO);
    EXPECT(last.numargs == 6 && last.args[0] == 1 && last.args[5] == -6);
    OK(AM_RequestI1(ep, wrong, ECHO, data, 77, 9));
    came_back(EBADTAG, AM_REQUEST_IM, wrong, ECHO);
    EXPECT(last.nbytes == 77 && last.args[0] == 9);
    OK(AM_RequestI5(ep, wrong, ECHO, data, 1 << 16, 9, 8, 7, 6, 5));
    came_back(EBADTAG, AM_REQUEST_IM, wrong, ECHO);
    EXPECT(last.nbytes == 1 << 16 && last.args[4] == 5);
    OK(AM_RequestXfer1(ep, wrong, 3, LONG, data, 500, 9));
    came_back(EBADTAG, AM_REQUEST_XFER_M, wrong, LONG);
    EXPECT(last.nbytes == 500 && last.offset == 3);
    OK(AM_Unmap(ep, wrong));
    /* A handler that is not set, and the error handler. */
    OK(AM_Request1(ep, to, UNSET, 8));
    came_back(EBADHANDLER, AM_REQUEST_M, to, UNSET);
    OK(AM_Request0(ep, to, 0));
    came_back(EBADHANDLER, AM_REQUEST_M, to, 0);
    OK(AM_RequestI0(ep, to, UNSET, data, 50000));
    came_back(EBADHANDLER, AM_REQUEST_IM, to, UNSET);
    EXPECT(last.nbytes == 50000);
    /* Beyond the segment. */
    OK(AM_RequestXfer0(ep, to, 1001, LONG, data, 1));
    came_back(EBADSEGOFF, AM_REQUEST_XFER_M, to, LONG);
    OK(AM_RequestXfer0(ep, to, 999, LONG, data, 2));
    came_back(EBADLENGTH, AM_REQUEST_XFER_M, to, LONG);
    OK(AM_RequestXfer0(ep, to, 0, LONG, data, 2000));
    came_back(EBADLENGTH, AM_REQUEST_XFER_M, to, LONG);
    OK(AM_GetXfer1(ep, to, 999, LONG, data, 2, 4));
    came_back(EBADLENGTH, AM_GET_XFER_M, to, LONG);
    OK(AM_GetXfer0(ep, to, (uintptr_t)-1, LONG, data, 2));
    came_back(EBADSEGOFF, AM_GET_XFER_M, to, LONG);
    before = told;
    OK(AM_RequestXfer0(ep, to, 999, LONG, data, 1));
    POLL_UNTIL(told == before + 1);
    whole(to);
    /* A translation that is not mapped. */
    OK(AM_Request2(ep, 100, ECHO, 1, 2));
    came_back(EBADENTRY, AM_REQUEST_M, 100, ECHO);
}

/* A reply that cannot be delivered comes back to who replied. */
static void ask_for_bad_reply(void)
{
    int before = told;
    OK(AM_Request1(ep, 0, BAD_REPLY, 7));
    do {
        OK(AM_Request0(ep, 0, TELL));
        before++;
        POLL_UNTIL(told == before);
    } while (told_args[0] == 0);
    EXPECT(told_args[0] == 1 && told_args[1] == EBADHANDLER && told_args[2] == AM_REPLY_M && told_args[3] == 5);
    OK(AM_Request1(ep, 1, BAD_REPLY, 7));
    came_back(EBADHANDLER, AM_REPLY_M, 0, UNSET);
}

/* Nobody of that name. The node's name is the first part of the name, its address the third. */
static void ask_nobody(en_t name, int index)
{
    en_t nobody;
    OK(AM2_KnownName(&nobody, (const char *)name.bytes, (const char *)name.bytes + 64, 99));
    OK(AM_Map(ep, index, nobody, TAG));
    OK(AM_Request2(ep, index, ECHO, 1, 2));
    came_back(EBADENDPOINT, AM_REQUEST_M, index, ECHO);
}

int main(int count, char **arguments)
{
    int asks = count > 1 && !strcmp(arguments[1], "0");
    tag_t tag;
    meet();
    OK(AM_SetSeg(ep, segment, sizeof segment));
    OK(AM_SetHandler(ep, 0, on_error));
    OK(AM_SetHandler(ep, ECHO, on_echo));
    OK(AM_SetHandler(ep, BYE, on_bye));
    OK(AM_SetHandler(ep, BAD_REPLY, on_bad_reply));
    OK(AM_SetHandler(ep, TELL, on_tell));
    OK(AM_SetHandler(ep, TOLD, on_told));
    OK(AM_SetHandler(ep, LONG, on_long));
    OK(AM_SetHandler(ep, WHOLE, on_whole));
    OK(AM_SetHandler(ep, GOT, on_got));
    if (!asks) {
        POLL_UNTIL(bye);
        OK(AM_Terminate());
        return 0;
    }
    ask(0, other);
    ask(1, own);
    ask_for_bad_reply();
    ask_nobody(other, 20);
    ask_nobody(own, 21);
    /* AM_ALL takes every tag, AM_NONE none. */
    OK(AM_Map(ep, 30, own, 12345));
    OK(AM_SetTag(ep, AM_ALL));
    OK(AM_GetTag(ep, &tag));
    EXPECT(tag == AM_ALL);
    told = 0;
    OK(AM_Request0(ep, 30, TELL));
    POLL_UNTIL(told == 1);
    OK(AM_SetTag(ep, AM_NONE));
    OK(AM_Request0(ep, 30, TELL));
    came_back(EBADTAG, AM_REQUEST_M, 30, TELL);
    OK(AM_SetTag(ep, TAG));
    /* The other process leaves. */
    OK(AM_Request0(ep, 0, BYE));
    while (errors == 0) {
        OK(AM_Request2(ep, 0, ECHO, 3, 4));
        OK(AM_Poll(bundle));
    }
    EXPECT(status_last == EBADENDPOINT || status_last == EUNREACHABLE);
    EXPECT(last.args[0] == 3 && last.args[1] == 4);
    printf("all came back\n");
    OK(AM_Terminate());
    return 0;
}
