/* What an endpoint has sent arrives although it is freed, and the answers to what was asked although the translation is unmapped. Each
 * request has one outcome, also where no endpoint is left in the bundle that is polled. 0 asks, 1 answers. */
#include "common.h"
#include <time.h>
#include <unistd.h>

enum { ASK = 1, ASK_LONG, ANSWER, LONG, LAST };
enum { N = 400, UNMAPPED = 100, LENGTH = 300000 };

static char segment[LENGTH], source[LENGTH];
static int answers, longs, errors, last_status, replied, was_asked_last;

static void on_error(int status, op_t opcode, void *block)
{
    (void)opcode, (void)block;
    last_status = status;
    errors++;
}

static void on_ask(void *token, int32_t a)
{
    OK(AM_Reply1(token, ANSWER, a));
    replied++;
}

static void on_ask_long(void *token, int32_t a)
{
    (void)a;
    OK(AM_ReplyXfer0(token, 0, LONG, source, LENGTH));
    replied++;
}

static void on_answer(void *token, int32_t a)
{
    (void)token, (void)a;
    answers++;
}

static void on_long(void *token, void *at, int bytes)
{
    (void)token, (void)at;
    EXPECT(bytes == LENGTH);
    longs++;
}

static void ask(const char *done)
{
    FILE *file;
    /* Each answer, and no error. */
    for (int i = 0; i < UNMAPPED; i++)
        OK(i % 10 ? AM_Request1(ep, 0, ASK, i) : AM_Request1(ep, 0, ASK_LONG, i));
    OK(AM_Unmap(ep, 0));
    IS(AM_GetTranslationInuse(ep, 0), AM_ERR_RESOURCE);
    POLL_UNTIL(answers + longs + errors == UNMAPPED);
    EXPECT(errors == 0 && longs == UNMAPPED / 10);
    OK(AM_Map(ep, 0, other, TAG));
    /* The peer frees its endpoint meanwhile: what it has answered arrives, the rest comes back. */
    answers = longs = 0;
    OK(AM_Request1(ep, 0, LAST, 0));
    for (int i = 0; i < N; i++)
        OK(i % 40 ? AM_Request1(ep, 0, ASK, i) : AM_Request1(ep, 0, ASK_LONG, i));
    POLL_UNTIL(answers + longs + errors == N + 1);
    EXPECT(errors > 0 && last_status == EBADENDPOINT);
    EXPECT((file = fopen(done, "w")) && fprintf(file, "%d", answers + longs) > 0 && !fclose(file));
}

static void on_last(void *token, int32_t a)
{
    was_asked_last = 1;
    replied = 0;
    on_ask(token, a);
}

static void answer(const char *done)
{
    FILE *file;
    int arrived = -1;
    POLL_UNTIL(was_asked_last && replied > N / 2);
    OK(AM_FreeEndpoint(ep));
    int taken = replied;
    /* No endpoint is left. */
    do {
        OK(AM_Poll(bundle));
        if ((file = fopen(done, "r"))) {
            if (fscanf(file, "%d", &arrived) != 1)
                arrived = -1;
            fclose(file);
        }
    } while (arrived < 0);
    EXPECT(replied == taken);
    if (arrived != taken) {
        fprintf(stderr, "%d replies were taken, %d arrived\n", taken, arrived);
        exit(1);
    }
}

int main(int count, char **arguments)
{
    EXPECT(count == 3);
    meet();
    OK(AM_SetSeg(ep, segment, sizeof segment));
    OK(AM_SetHandler(ep, 0, on_error));
    OK(AM_SetHandler(ep, ASK, on_ask));
    OK(AM_SetHandler(ep, ASK_LONG, on_ask_long));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    OK(AM_SetHandler(ep, LONG, on_long));
    OK(AM_SetHandler(ep, LAST, on_last));
    if (arguments[1][0] == '0')
        ask(arguments[2]);
    else
        answer(arguments[2]);
    OK(AM_Terminate());
    printf("nothing lost\n");
    return 0;
}
