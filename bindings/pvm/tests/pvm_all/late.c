/* Messages to tasks that have just ended, in the way that the argument says: the sender knows the task's node, and not that it is gone. Each send
 * ends at once, and another task is reached as before. */
#include "common.h"
#include <errno.h>
#include <signal.h>

enum { HELLO = 1, DATA = 2, TALK = 3, TASKS = 12, COUNT = 3000, LENGTH = 1000, ROUNDS = 20, PATIENCE = 5 };

/* Say the number of the process, and end after a while, or wait to be killed. */
static void child(const char *way, int delay) {
    int parent = pvm_parent(), pid = getpid();
    if (strcmp(way, "other") == 0) {
        answer(parent, TALK, ROUNDS * (TASKS + 1));
        pvm_exit();
        exit(0);
    }
    pvm_recv(parent, HELLO);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&pid, 1, 1);
    pvm_send(parent, HELLO);
    if (strcmp(way, "kill") == 0) {
        pvm_recv(parent, DATA);
    }
    usleep((useconds_t)delay * 1000);
    pvm_exit();
    exit(0);
}

static void send_late(const char *way, int delay) {
    char number[16], *arguments[] = {(char *)way, number, 0};
    static char bytes[LENGTH];
    int tid, pid;
    double began;
    snprintf(number, sizeof number, "%d", delay);
    spawn("late", arguments, 1, &tid);
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, HELLO);
    pvm_recv(tid, HELLO);
    pvm_upkint(&pid, 1, 1);
    if (strcmp(way, "kill") == 0) {
        usleep((useconds_t)delay * 1000);
        kill(pid, SIGKILL);
    }
    /* This task does not call PVM meanwhile. */
    while (kill(pid, 0) == 0 || errno != ESRCH) {
        usleep(1000);
    }
    began = now();
    for (int i = 0; i < COUNT; i++) {
        int result = pvm_psend(tid, DATA, bytes, LENGTH, PVM_BYTE);
        if (result != 0 || now() - began > PATIENCE) {
            fail("send %d of %d to a task that has ended: %d after %.1f s", i, COUNT, result, now() - began);
        }
    }
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "kill";
    char *other_way[] = {"other", 0};
    int other;
    double took;
    if (pvm_parent() != PvmNoParent) {
        child(way, count > 2 ? atoi(arguments[2]) : 0);
    }
    spawn("late", other_way, 1, &other);
    settle(other, TALK, ROUNDS);
    for (int i = 0; i < TASKS; i++) {
        send_late(way, i % 4 * 30);
        settle(other, TALK, ROUNDS);
    }
    /* The daemon answers about them. */
    for (int i = 0; i < 20; i++) {
        pvm_pstat(other);
        usleep(10000);
    }
    took = now();
    pvm_exit();
    took = now() - took;
    printf(took < 3 ? "%d tasks were sent to after their end\n" : "FAILED: left late\n", TASKS);
    return 0;
}
