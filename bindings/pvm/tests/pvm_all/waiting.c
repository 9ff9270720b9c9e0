/* A task that waits uses no processor. One that computes takes part all the same: what is sent to it does not wait for it. */
#include "common.h"

enum { LENGTH = 1 << 20, COUNT = 24 };

static void child(int parent) {
    double before;
    char *bytes = malloc(LENGTH);
    answer(parent, 1, 20);
    before = used();
    pvm_recv(parent, 2);
    before = used() - before;
    if (before > 0.1) {
        fail("%.3f s of the processor for a wait of 2 s", before);
    }
    /* It computes, and calls nothing. */
    for (double end = now() + 3; now() < end;) {
    }
    take(parent, 3, COUNT, bytes, LENGTH);
    pvm_initsend(PvmDataDefault);
    pvm_send(parent, 4);
}

int main(void) {
    int parent = pvm_parent(), tid;
    double took;
    char *bytes = malloc(LENGTH);
    if (parent != PvmNoParent) {
        child(parent);
        pvm_exit();
        return 0;
    }
    spawn("waiting", 0, 1, &tid);
    settle(tid, 1, 20);
    sleep(2);
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, 2);
    took = now();
    give(tid, 3, COUNT, bytes, LENGTH);
    took = now() - took;
    if (took > 2) {
        fail("sends waited %.1f s for a task that computes", took);
    }
    pvm_recv(tid, 4);
    printf("a wait costs nothing, and a task that computes receives\n");
    pvm_exit();
    return 0;
}
