/* A forked child that exits leaves its parent's connections as they are; its calls are refused. */
#include "common.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const NAMES[] = {"alpha", "beta"};
static int got, returned;

static void on_message(void *context, const FM_message *message)
{
    (void)context;
    (void)message;
    got++;
}

static void on_returned(void *context, const FM_message *message)
{
    (void)context;
    (void)message;
    returned++;
}

static void child(void)
{
    EXPECT(FM_send_4(1, 1, 0, 0, 0, 0) == FM_E_FORKED && strstr(FM_error(), "forked"));
    EXPECT(FM_extract() == FM_E_FORKED && FM_finalize() == FM_E_FORKED && FM_node() == FM_E_FORKED);
    EXPECT(FM_initialize("shm:other", 0, 2, NAMES) == FM_E_FORKED);
    exit(7);
}

static void fork_one(void)
{
    pid_t pid = fork();
    int status;
    if (pid == 0)
        child();
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* Each sends the other a message after each that it got. Node 0 forks meanwhile. */
int main(int count, char **arguments)
{
    (void)count;
    int own = atoi(arguments[1]);
    EXPECT(FM_initialize(arguments[2], own, 2, NAMES) == 0);
    EXPECT(FM_set_handler(1, on_message, NULL) == 0 && FM_set_returned(on_returned, NULL) == 0);
    EXPECT(FM_meet(30000) == 0);
    for (int round = 0; round < 200; round++) {
        EXPECT(FM_send_4(1 - own, 1, 0, 0, 0, 0) == 0);
        while (got <= round)
            EXPECT(FM_extract_or_wait(1000) >= 0 && returned == 0);
        if (own == 0 && round == 100)
            fork_one();
    }
    EXPECT(FM_finalize() == 0);
    /* The process has no node any more. */
    pid_t pid = fork();
    if (pid == 0)
        exit(FM_initialize("loopback:child", 0, 2, NAMES) == 0 ? 0 : 1);
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    puts("200 rounds");
    return 0;
}
