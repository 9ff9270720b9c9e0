/* Message handlers that send: from within a handler a message leaves, and the next one is answered too. Also what a task sends to itself, and a
 * message that is forwarded as it came. */
#include "common.h"
#include <fcntl.h>

enum { ASK = 11, ANSWER = 12, FORWARD = 13, COMPUTE = 14, COUNT = 300, MANY = 2000, LENGTH = 16000 };

static int answered;

/* Compute until the other task has sent everything: the file says so. */
static int on_compute(int mid) {
    double begin = now();
    (void)mid;
    while (access("all-is-sent", F_OK) != 0) {
        if (now() - begin > 20) {
            fail("a send waits for a handler that computes");
        }
        usleep(1000);
    }
    return 0;
}

static int on_ask(int mid) {
    int number, from;
    pvm_bufinfo(mid, 0, 0, &from);
    pvm_upkint(&number, 1, 1);
    pvm_initsend(PvmDataDefault);
    number *= 2;
    pvm_pkint(&number, 1, 1);
    pvm_send(from, ANSWER);
    answered++;
    return 0;
}

int main(void) {
    int parent = pvm_parent(), tid, number, own = pvm_mytid();
    static char bytes[LENGTH];
    if (parent != PvmNoParent) {
        pvm_addmhf(-1, ASK, pvm_getcontext(), on_ask);
        answer(parent, 1, 20);
        while (answered < COUNT) {
            struct timeval moment = {0, 1000};
            pvm_trecv(-1, 99, &moment);
        }
        for (int i = 0; i < COUNT; i++) {
            pvm_recv(parent, FORWARD);
            pvm_setsbuf(pvm_getrbuf());
            pvm_send(parent, FORWARD);
            pvm_setsbuf(0);
        }
        pvm_addmhf(-1, COMPUTE, pvm_getcontext(), on_compute);
        pvm_recv(parent, 2);
        take(parent, 3, MANY, bytes, LENGTH);
        pvm_initsend(PvmDataDefault);
        pvm_send(parent, 3);
        pvm_exit();
        return 0;
    }
    unlink("all-is-sent");
    spawn("handlers", 0, 1, &tid);
    settle(tid, 1, 20);
    for (int i = 0; i < COUNT; i++) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&i, 1, 1);
        pvm_send(tid, ASK);
    }
    for (int i = 0; i < COUNT; i++) {
        pvm_recv(tid, ANSWER);
        pvm_upkint(&number, 1, 1);
        if (number != 2 * i) {
            fail("the handler answers %d instead of %d", number, 2 * i);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        char text[100];
        pvm_initsend(i % 2 ? PvmDataRaw : PvmDataDefault);
        pvm_pkstr("some text");
        pvm_pkint(&i, 1, 1);
        pvm_send(tid, FORWARD);
        pvm_recv(tid, FORWARD);
        pvm_upkstr(text);
        pvm_upkint(&number, 1, 1);
        if (strcmp(text, "some text") != 0 || number != i) {
            fail("forwarded: %s %d", text, number);
        }
    }
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&own, 1, 1);
    pvm_send(own, 4);
    pvm_recv(own, 4);
    pvm_upkint(&number, 1, 1);
    /* It has waited in PVM for a while when its handler begins to compute. */
    usleep(50000);
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, COMPUTE);
    give(tid, 3, MANY, bytes, LENGTH);
    close(creat("all-is-sent", 0600));
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, 2);
    pvm_recv(tid, 3);
    printf("handlers have answered %d times, %s\n", COUNT, number == own ? "and a task reaches itself" : "BAD");
    pvm_exit();
    return 0;
}
