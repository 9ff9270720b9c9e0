/* Message handlers that send: from within a handler a message leaves, and the next one is answered too. Also what a task sends to itself, and a
 * message that is forwarded as it came. */
#include "common.h"

enum { ASK = 11, ANSWER = 12, FORWARD = 13, COUNT = 300 };

static int answered;

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
        pvm_recv(parent, 2);
        pvm_exit();
        return 0;
    }
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
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, 2);
    printf("handlers have answered %d times, %s\n", COUNT, number == own ? "and a task reaches itself" : "BAD");
    pvm_exit();
    return 0;
}
