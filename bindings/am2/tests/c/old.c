/* A program with the names of Berkeley's am.h. */
#include "common.h"

enum { ASK = 1, ASK_MEDIUM, ASK_LONG, ANSWER, ANSWER_MEDIUM, ANSWER_LONG, GOT, BYE };

static char segment[128];
static int answers, bye;

static void on_ask(void *token, int a, int b, int c, int d)
{
    OK(AM_ReplyMedium4(token, ANSWER_MEDIUM, 5, "reply", a, b, c, d));
}

static void on_ask_medium(void *token, void *buf, int nbytes, int a, int b, int c, int d, int e, int f, int g, int h)
{
    OK(AM_ReplyLong8(token, 16, ANSWER_LONG, buf, nbytes, a, b, c, d, e, f, g, h));
}

static void on_ask_long(void *token, void *buf, int nbytes, int a, int b, int c, int d)
{
    EXPECT(buf == segment + 32 && !memcmp(buf, "long", nbytes));
    OK(AM_ReplyMedium8(token, ANSWER_MEDIUM, 5, "reply", a, b, c, d, 5, 6, 7, 8));
}

static void on_medium(void *token, void *buf, int nbytes, int a, int b, int c, int d)
{
    (void)token;
    EXPECT(nbytes == 5 && !memcmp(buf, "reply", 5) && a == 1 && b == 2 && c == 3 && d == 4);
    answers++;
}

static void on_long(void *token, void *buf, int nbytes, int a, int b, int c, int d, int e, int f, int g, int h)
{
    (void)token;
    EXPECT(buf == segment + 16 && nbytes == 6 && !memcmp(buf, "medium", 6));
    EXPECT(a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8);
    answers++;
}

static void on_got(void *token, void *buf, int nbytes, int a, int b, int c, int d)
{
    (void)token;
    EXPECT(buf == segment + 64 && nbytes == 4 && !memcmp(buf, "long", 4) && a == 1 && b == 2 && c == 3 && d == 4);
    answers++;
}

static void on_bye(void *token)
{
    (void)token;
    bye = 1;
}

int main(int count, char **arguments)
{
    int code, from = 32, to = 64;
    meet();
    OK(AM_SetSegment(ep, segment, sizeof segment));
    OK(AM_SetHandler(ep, ASK, on_ask));
    OK(AM_SetHandler(ep, ASK_MEDIUM, on_ask_medium));
    OK(AM_SetHandler(ep, ASK_LONG, on_ask_long));
    OK(AM_SetHandler(ep, ANSWER_MEDIUM, on_medium));
    OK(AM_SetHandler(ep, ANSWER_LONG, on_long));
    OK(AM_SetHandler(ep, GOT, on_got));
    OK(AM_SetHandler(ep, BYE, on_bye));
    if (count < 2 || strcmp(arguments[1], "0")) {
        POLL_UNTIL(bye);
        OK(AM_Terminate());
        return 0;
    }
    OK(AM_Request4(ep, 0, ASK, 1, 2, 3, 4));
    OK(AM_RequestMedium8(ep, 0, ASK_MEDIUM, "medium", 6, 1, 2, 3, 4, 5, 6, 7, 8));
    OK(AM_RequestLong4(ep, 0, from, ASK_LONG, "long", 4, 1, 2, 3, 4));
    POLL_UNTIL(answers == 3);
    while ((code = AM_RequestLongAsync4(ep, 0, from, ASK_LONG, "long", 4, 1, 2, 3, 4)) != AM_OK)
        IS(code, AM_ERR_NOT_SENT);
    POLL_UNTIL(answers == 4);
    OK(AM_GetXfer4(ep, 0, from, GOT, to, 4, 1, 2, 3, 4));
    POLL_UNTIL(answers == 5);
    memset(segment, 0, sizeof segment);
    while ((code = AM_GetXferAsynch4(ep, 0, from, GOT, to, 4, 1, 2, 3, 4)) != AM_OK)
        IS(code, AM_ERR_NOT_SENT);
    POLL_UNTIL(answers == 6);
    OK(AM_Request0(ep, 0, BYE));
    printf("all by their old names\n");
    OK(AM_Terminate());
    return 0;
}
