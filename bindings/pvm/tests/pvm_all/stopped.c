/* A task that is stopped for longer than a network is patient is not dead: what is sent to it arrives when it goes on. */
#include "common.h"
#include <signal.h>

enum { COUNT = 60, LENGTH = 3000 };

int main(void) {
    int parent = pvm_parent(), tid;
    char bytes[LENGTH];
    if (parent != PvmNoParent) {
        answer(parent, 1, 20);
        take(parent, 2, COUNT, bytes, LENGTH);
        pvm_initsend(PvmDataDefault);
        pvm_send(parent, 3);
        pvm_exit();
        return 0;
    }
    spawn("stopped", 0, 1, &tid);
    settle(tid, 1, 20);
    pvm_sendsig(tid, SIGSTOP);
    usleep(200000);
    give(tid, 2, COUNT, bytes, LENGTH);
    sleep(4);
    pvm_sendsig(tid, SIGCONT);
    pvm_recv(tid, 3);
    printf("a task that was stopped has got %d messages\n", COUNT);
    pvm_exit();
    return 0;
}
