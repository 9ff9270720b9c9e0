/* A host comes, goes and comes again, while tasks on both talk. */
#include "common.h"

enum { TASK = 1, DATA = 2, GONE = 3, LEFT = 4, CAME = 5, ROUNDS = 30, LENGTH = 200000, COUNT = 40, TASKS = 3 };

/* Messages to all others, each answered, until the host is deleted. */
static void child(void) {
    int parent = pvm_parent(), number = 0;
    char *bytes = malloc(LENGTH);
    answer(parent, TASK, ROUNDS);
    for (;;) {
        memset(bytes, number, LENGTH);
        pvm_initsend(number % 2 ? PvmDataRaw : PvmDataDefault);
        pvm_pkint(&number, 1, 1);
        pvm_pkbyte(bytes, LENGTH, 1);
        if (pvm_send(parent, DATA) < 0 || pvm_recv(parent, DATA) < 0) {
            exit(1);
        }
        number++;
    }
}

static void hear(int from, int number, char *bytes) {
    int is;
    pvm_upkint(&is, 1, 1);
    pvm_upkbyte(bytes, LENGTH, 1);
    if (is != number || bytes[0] != (char)is || bytes[LENGTH - 1] != (char)is) {
        fail("message %d of %x instead of %d", is, from, number);
    }
    pvm_initsend(PvmDataDefault);
    pvm_send(from, DATA);
}

static int host_of(int tid) { return tid & 0x3ffc0000; }

static int number_of(const int *tids, int tid) {
    for (int i = 0; i < TASKS; i++) {
        if (tids[i] == tid) {
            return i;
        }
    }
    fail("%x is unknown", tid);
    return -1;
}

/* Add the host, let its tasks send, and delete it. */
static void one_life(char *host, int life) {
    int error, tids[TASKS], got[TASKS] = {0}, all = 0, gone = 0, left = 0, came = 0, dtid;
    static char bytes[LENGTH];
    struct timeval patience = {20, 0}, moment = {0, 100000};
    pvm_notify(PvmHostAdd, CAME, 1, 0);
    if (pvm_addhosts(&host, 1, &error) != 1) {
        fail("life %d: the host was not added: %d", life, error);
    }
    while (!came) {
        pvm_recv(-1, CAME);
        pvm_upkint(&came, 1, 1);
    }
    pvm_notify(PvmHostAdd | PvmNotifyCancel, CAME, 0, 0);
    while (pvm_nrecv(-1, CAME) > 0) {
    }
    dtid = pvm_tidtohost(pvm_mytid());
    if (pvm_spawn("hosts", 0, PvmTaskHost, host, 1, tids) != 1 ||
        pvm_spawn("hosts", 0, PvmTaskHost | PvmHostCompl, ".", 1, tids + 1) != 1 ||
        pvm_spawn("hosts", 0, PvmTaskHost, ".", 1, tids + 2) != 1) {
        fail("life %d: not all tasks were started: %d %d %d", life, tids[0], tids[1], tids[2]);
    }
    if (host_of(tids[0]) != host_of(tids[1]) || host_of(tids[0]) == host_of(pvm_mytid()) ||
        host_of(tids[2]) != host_of(pvm_mytid())) {
        fail("tasks were started on other hosts");
    }
    pvm_notify(PvmTaskExit, GONE, 2, tids);
    int there = pvm_tidtohost(tids[0]);
    pvm_notify(PvmHostDelete, LEFT, 1, &there);
    for (int i = 0; i < TASKS; i++) {
        settle(tids[i], TASK, ROUNDS);
    }
    while (gone < 2 || left < 1) {
        int tag, from, mid = pvm_trecv(-1, -1, &patience);
        if (mid <= 0) {
            fail("nothing for 20 s: %d of 2 notices of tasks, %d of the host", gone, left);
        }
        pvm_bufinfo(mid, 0, &tag, &from);
        if (tag == DATA) {
            int i = number_of(tids, from);
            hear(from, got[i]++, bytes);
            if (++all == 3 * COUNT && (pvm_delhosts(&host, 1, &error) != 1 || error != 0)) {
                fail("the host was not deleted: %d", error);
            }
        }
        gone += tag == GONE;
        left += tag == LEFT;
    }
    /* The task of this host goes on. */
    for (int i = 0; i < COUNT;) {
        int from;
        pvm_bufinfo(pvm_recv(-1, DATA), 0, 0, &from);
        if (from != tids[2]) {
            fail("a message of %x, whose host is gone", from);
        }
        hear(from, got[2]++, bytes);
        i++;
    }
    pvm_notify(PvmTaskExit, GONE, 1, tids + 2);
    pvm_kill(tids[2]);
    pvm_recv(-1, GONE);
    while (pvm_trecv(-1, DATA, &moment) > 0) {
    }
    if (dtid != pvm_tidtohost(pvm_mytid())) {
        fail("this host is another one");
    }
}

int main(int count, char **arguments) {
    if (pvm_parent() != PvmNoParent) {
        child();
    }
    pvm_mytid();
    for (int life = 0; life < 3; life++) {
        one_life(count > 1 ? arguments[1] : "10.77.0.2", life);
    }
    printf("a host has come and gone 3 times\n");
    pvm_exit();
    return 0;
}
