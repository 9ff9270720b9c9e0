/* A forked child cannot use its parent's node: its calls are refused, and the parent goes on. */
#define _GNU_SOURCE
#include "common.h"
#include <am_spmd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ASK = 1, ANSWER, BYE };
enum { ROUNDS = 200 };

static int answers, ends;

static void on_ask(void *token)
{
    OK(AM_Reply0(token, ANSWER));
}

static void on_answer(void *token)
{
    (void)token;
    answers++;
}

static void on_bye(void *token)
{
    (void)token;
    ends = 1;
}

static void child(void)
{
    IS(AM_Request0(ep, 0, ASK), AM_ERR_BAD_ARG);
    IS(AM_Poll(bundle), AM_ERR_BAD_ARG);
    IS(AM_WaitSema(bundle), AM_ERR_BAD_ARG);
    IS(AM_FreeEndpoint(ep), AM_ERR_BAD_ARG);
    IS(AM_SetTag(ep, TAG), AM_ERR_BAD_ARG);
    IS(AM_Init(), AM_ERR_BAD_ARG);
    IS(AM_Terminate(), AM_ERR_BAD_ARG);
    EXPECT(AM2_SpmdRank() == -1);
    exit(7);
}

static void fork_one(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        child();
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(int count, char **arguments)
{
    int status;
    meet();
    OK(AM_SetHandler(ep, ASK, on_ask));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    OK(AM_SetHandler(ep, BYE, on_bye));
    if (count > 1 && !strcmp(arguments[1], "0")) {
        for (int round = 0; round < ROUNDS; round++) {
            OK(AM_Request0(ep, 0, ASK));
            POLL_UNTIL(answers == round + 1);
            if (round == ROUNDS / 2)
                fork_one();
        }
        OK(AM_Request0(ep, 0, BYE));
        printf("%d answers\n", ROUNDS);
        fflush(stdout);
    } else {
        POLL_UNTIL(ends);
    }
    OK(AM_Terminate());
    /* The process has no node any more, and a child may open one. */
    pid_t pid = fork();
    if (pid == 0)
        _exit(AM_Init() == AM_OK ? 0 : 1);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    return 0;
}
