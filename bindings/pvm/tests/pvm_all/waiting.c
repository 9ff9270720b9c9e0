/* A task that waits uses no processor. One that computes takes part all the same: what is sent to it does not wait for it. */
#include "common.h"
#include <fcntl.h>

enum { LENGTH = 1 << 20, COUNT = 24 };

static void child(int parent) {
    double before;
    char *bytes = malloc(LENGTH);
    answer(parent, 1, 20);
    before = used();
    pvm_recv(parent, 2);
    before = used() - before;
    if (before > 0.1) {
        fail("%.3f s of the processor for a wait of 2.5 s", before);
    }
    /* It computes, and calls nothing, until the other task has sent everything: the file says so. */
    for (double end = now() + 20; access("all-is-sent", F_OK) != 0;) {
        if (now() > end) {
            fail("sends wait for a task that computes");
        }
    }
    take(parent, 3, COUNT, bytes, LENGTH);
    pvm_initsend(PvmDataDefault);
    pvm_send(parent, 4);
}

/* PVM takes more than a million microseconds for what they are. */
static void wait_for_long(int tid) {
    struct timeval time = {0, 1500000};
    double took = now();
    if (pvm_trecv(tid, 5, &time) != 0) {
        fail("a message");
    }
    took = now() - took;
    if (took < 1.45 || took > 10) {
        fail("%.2f s instead of 1.5 s", took);
    }
}

int main(void) {
    int parent = pvm_parent(), tid;
    char *bytes = malloc(LENGTH);
    if (parent != PvmNoParent) {
        child(parent);
        pvm_exit();
        return 0;
    }
    unlink("all-is-sent");
    spawn("waiting", 0, 1, &tid);
    settle(tid, 1, 20);
    sleep(1);
    wait_for_long(tid);
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, 2);
    give(tid, 3, COUNT, bytes, LENGTH);
    close(creat("all-is-sent", 0600));
    pvm_recv(tid, 4);
    printf("a wait costs nothing, and a task that computes receives\n");
    pvm_exit();
    return 0;
}
