/* With an argument: the task is killed instead, while its parent leaves, which does not wait for it any more.
 *
 * A task that is stopped for longer than a network is patient is not dead: what is sent to it arrives when it goes on. */
#include "common.h"
#include <signal.h>

enum { COUNT = 60, LENGTH = 3000 };

/* Leave, while a process of its own kills the task. */
static void leave(pid_t killed) {
    double took = now();
    if (fork() == 0) {
        usleep(500000);
        kill(killed, SIGKILL);
        _exit(0);
    }
    pvm_exit();
    took = now() - took;
    printf(took < 3 ? "left\n" : "FAILED: left after %.1f s\n", took);
    exit(0);
}

int main(int count, char **arguments) {
    int parent = pvm_parent(), tid, pid = getpid();
    char bytes[LENGTH];
    if (parent != PvmNoParent) {
        answer(parent, 1, 20);
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&pid, 1, 1);
        pvm_send(parent, 3);
        take(parent, 2, COUNT, bytes, LENGTH);
        pvm_initsend(PvmDataDefault);
        pvm_send(parent, 3);
        pvm_exit();
        return 0;
    }
    spawn("stopped", arguments + 1, 1, &tid);
    settle(tid, 1, 20);
    pvm_recv(tid, 3);
    pvm_upkint(&pid, 1, 1);
    pvm_sendsig(tid, SIGSTOP);
    usleep(200000);
    give(tid, 2, COUNT, bytes, LENGTH);
    if (count > 1) {
        leave(pid);
    }
    sleep(4);
    pvm_sendsig(tid, SIGCONT);
    pvm_recv(tid, 3);
    printf("a task that was stopped has got %d messages\n", COUNT);
    pvm_exit();
    return 0;
}
