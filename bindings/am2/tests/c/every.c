/* Each message call with each number of arguments, to another process and to this one. */
#include "common.h"

enum { SHORT = 1, MEDIUM = 21, LONG = 41, SHORT_REPLY = 61, MEDIUM_REPLY = 81, LONG_REPLY = 101, GOT = 121, BYE = 200 };
enum { SEGMENT = 400000, STEP = 20000 };

/* The peer reads and writes the first half; gets go to the second, by its address or its offset. */
static unsigned char segment[2 * SEGMENT], *const got = segment + SEGMENT;
static const unsigned char *got_at = segment + SEGMENT;
static int answers, bye, index_now, index_of_asker;

static int32_t value(int count, int at)
{
    return (count * 100 + at) * (at % 2 ? -54321 : 54321);
}

/* `args` begins with one that is no argument. */
static void verify(const int32_t *args, int count)
{
    for (int at = 0; at < count; at++)
        EXPECT(args[at + 1] == value(count, at));
}

static unsigned char byte(int count, int at)
{
    return (unsigned char)(count * 7 + at + at / 251);
}

static void verify_bytes(const unsigned char *bytes, int nbytes, int count)
{
    for (int at = 0; at < nbytes; at++)
        EXPECT(bytes[at] == byte(count, at));
}

static int medium(int count)
{
    return AM_MaxMedium() * count / 16;
}

static int longest(int count)
{
    return count * STEP + (count > 0);
}

static void named(void *token, int handler, op_t kind, int from)
{
    handler_t named;
    op_t sent_by;
    int index;
    OK(AM2_GetMsgHandler(token, &named));
    OK(AM2_GetMsgKind(token, &sent_by));
    OK(AM2_GetSourceIndex(token, &index));
    EXPECT(named == handler && sent_by == kind && index == from);
}

static void asked(void *token)
{
    ep_t to;
    en_t from;
    tag_t tag;
    OK(AM_GetDestEndpoint(token, &to));
    OK(AM_GetSourceEndpoint(token, &from));
    OK(AM_GetMsgTag(token, &tag));
    EXPECT(to == ep && tag == TAG);
    index_of_asker = !memcmp(&from, &own, sizeof from);
    EXPECT(!memcmp(&from, &other, sizeof from) || index_of_asker);
}

static void answered(void *token)
{
    en_t from;
    OK(AM_GetSourceEndpoint(token, &from));
    EXPECT(!memcmp(&from, index_now ? &own : &other, sizeof from));
    IS(AM_Reply0(token, SHORT_REPLY), AM_ERR_BAD_ARG);
    answers++;
}

#define EACH(M, PARAMETERS, VALUES)                                                                                    \
    static void on_short##M(void *token AM2_UNWRAP PARAMETERS)                                                         \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        verify(args, M);                                                                                               \
        asked(token);                                                                                                  \
        named(token, SHORT + M, AM_REQUEST_M, index_of_asker);                                                         \
        OK(AM_Reply##M(token, SHORT_REPLY + M AM2_UNWRAP VALUES));                                                     \
        IS(AM_Reply##M(token, SHORT_REPLY + M AM2_UNWRAP VALUES), AM_ERR_BAD_ARG);                                     \
    }                                                                                                                  \
    static void on_medium##M(void *token, void *buf, int nbytes AM2_UNWRAP PARAMETERS)                                 \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        verify(args, M);                                                                                               \
        EXPECT(nbytes == medium(M) && (uintptr_t)buf % 8 == 0);                                                        \
        verify_bytes(buf, nbytes, M);                                                                                  \
        asked(token);                                                                                                  \
        named(token, MEDIUM + M, AM_REQUEST_IM, index_of_asker);                                                       \
        OK(AM_ReplyI##M(token, MEDIUM_REPLY + M, buf, nbytes AM2_UNWRAP VALUES));                                      \
    }                                                                                                                  \
    static void on_long##M(void *token, void *buf, int nbytes AM2_UNWRAP PARAMETERS)                                   \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        verify(args, M);                                                                                               \
        EXPECT(nbytes == longest(M) && buf == segment + M);                                                            \
        verify_bytes(buf, nbytes, M);                                                                                  \
        asked(token);                                                                                                  \
        named(token, LONG + M, AM_REQUEST_XFER_M, index_of_asker);                                                     \
        OK(AM_ReplyXfer##M(token, M + 1, LONG_REPLY + M, buf, nbytes AM2_UNWRAP VALUES));                              \
    }                                                                                                                  \
    static void on_short_reply##M(void *token AM2_UNWRAP PARAMETERS)                                                   \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        verify(args, M);                                                                                               \
        named(token, SHORT_REPLY + M, AM_REPLY_M, index_now);                                                          \
        answered(token);                                                                                               \
    }                                                                                                                  \
    static void on_medium_reply##M(void *token, void *buf, int nbytes AM2_UNWRAP PARAMETERS)                           \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        verify(args, M);                                                                                               \
        EXPECT(nbytes == medium(M));                                                                                   \
        verify_bytes(buf, nbytes, M);                                                                                  \
        named(token, MEDIUM_REPLY + M, AM_REPLY_IM, index_now);                                                        \
        answered(token);                                                                                               \
    }                                                                                                                  \
    static void on_long_reply##M(void *token, void *buf, int nbytes AM2_UNWRAP PARAMETERS)                             \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        verify(args, M);                                                                                               \
        EXPECT(nbytes == longest(M) && buf == segment + M + 1);                                                        \
        verify_bytes(buf, nbytes, M);                                                                                  \
        named(token, LONG_REPLY + M, AM_REPLY_XFER_M, index_now);                                                      \
        answered(token);                                                                                               \
    }                                                                                                                  \
    static void on_got##M(void *token, void *buf, int nbytes AM2_UNWRAP PARAMETERS)                                    \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        verify(args, M);                                                                                               \
        EXPECT(nbytes == longest(M) && buf == got_at);                                                                    \
        verify_bytes(buf, nbytes, M);                                                                                  \
        named(token, GOT + M, AM_GET_XFER_M, index_now);                                                               \
        answered(token);                                                                                               \
    }                                                                                                                  \
    static void set##M(void)                                                                                           \
    {                                                                                                                  \
        OK(AM_SetHandler(ep, SHORT + M, on_short##M));                                                                 \
        OK(AM_SetHandler(ep, MEDIUM + M, on_medium##M));                                                               \
        OK(AM_SetHandler(ep, LONG + M, on_long##M));                                                                   \
        OK(AM_SetHandler(ep, SHORT_REPLY + M, on_short_reply##M));                                                     \
        OK(AM_SetHandler(ep, MEDIUM_REPLY + M, on_medium_reply##M));                                                   \
        OK(AM_SetHandler(ep, LONG_REPLY + M, on_long_reply##M));                                                       \
        OK(AM_SetHandler(ep, GOT + M, on_got##M));                                                                     \
    }                                                                                                                  \
    static void ask##M(int to, const unsigned char *data, const int32_t *v)                                            \
    {                                                                                                                  \
        const int32_t a0 = v[0], a1 = v[1], a2 = v[2], a3 = v[3], a4 = v[4], a5 = v[5], a6 = v[6], a7 = v[7],          \
                      a8 = v[8], a9 = v[9], a10 = v[10], a11 = v[11], a12 = v[12], a13 = v[13], a14 = v[14],           \
                      a15 = v[15], all = a0 ^ a1 ^ a2 ^ a3 ^ a4 ^ a5 ^ a6 ^ a7 ^ a8 ^ a9 ^ a10 ^ a11 ^ a12 ^ a13 ^     \
                                         a14 ^ a15;                                                                    \
        int before = answers, code;                                                                                    \
        (void)all;                                                                                                     \
        OK(AM_Request##M(ep, to, SHORT + M AM2_UNWRAP VALUES));                                                        \
        OK(AM_RequestI##M(ep, to, MEDIUM + M, data, medium(M) AM2_UNWRAP VALUES));                                     \
        POLL_UNTIL(answers == before + 2);                                                                             \
        OK(AM_RequestXfer##M(ep, to, M, LONG + M, data, longest(M) AM2_UNWRAP VALUES));                                \
        POLL_UNTIL(answers == before + 3);                                                                             \
        memset(segment, 0, SEGMENT);                                                                            \
        while ((code = AM_RequestXferAsync##M(ep, to, M, LONG + M, data, longest(M) AM2_UNWRAP VALUES)) != AM_OK)      \
            IS(code, AM_ERR_NOT_SENT);                                                                                 \
        POLL_UNTIL(answers == before + 4);                                                                             \
        memset(got, 0, SEGMENT);                                                                                       \
        OK(AM_GetXfer##M(ep, to, M + (to == 1), GOT + M, got, longest(M) AM2_UNWRAP VALUES));                          \
        POLL_UNTIL(answers == before + 5);                                                                             \
        memset(got, 0, SEGMENT);                                                                                       \
        while ((code = AM_GetXferAsync##M(ep, to, M + (to == 1), GOT + M, got, longest(M) AM2_UNWRAP VALUES)) != AM_OK) \
            IS(code, AM_ERR_NOT_SENT);                                                                                 \
        POLL_UNTIL(answers == before + 6);                                                                             \
        memset(got, 0, SEGMENT);                                                                                       \
        got_at = got + M;                                                                                              \
        OK(AM_GetXfer##M(ep, to, M + (to == 1), GOT + M, SEGMENT + M, longest(M) AM2_UNWRAP VALUES));            \
        POLL_UNTIL(answers == before + 7);                                                                             \
        got_at = got;                                                                                                  \
    }
#include "counts.h"
#undef EACH

static void on_error(int status, op_t opcode, void *block)
{
    fprintf(stderr, "message %d to handler %d came back: %d\n", opcode, ((am_argblock_t *)block)->handler, status);
    exit(1);
}

static void on_bye(void *token)
{
    (void)token;
    bye = 1;
}

static void ask(int to)
{
    static unsigned char data[SEGMENT];
    int32_t v[16];
    index_now = to;
#define EACH(M, PARAMETERS, VALUES)                                                                                    \
    for (int at = 0; at < SEGMENT; at++)                                                                               \
        data[at] = byte(M, at);                                                                                        \
    for (int at = 0; at < 16; at++)                                                                                    \
        v[at] = value(M, at);                                                                                          \
    ask##M(to, data, v);
#include "counts.h"
#undef EACH
}

int main(int count, char **arguments)
{
    int asks = count > 1 && !strcmp(arguments[1], "0");
    meet();
    OK(AM_SetSeg(ep, segment, sizeof segment));
    OK(AM_SetHandler(ep, 0, on_error));
    OK(AM_SetHandler(ep, BYE, on_bye));
#define EACH(M, PARAMETERS, VALUES) set##M();
#include "counts.h"
#undef EACH
    if (asks) {
        ask(0);
        ask(1);
        OK(AM_Request0(ep, 0, BYE));
        printf("%d answers\n", answers);
    } else {
        POLL_UNTIL(bye);
    }
    OK(AM_Terminate());
    return 0;
}
