/* PVM gives the numbers of tasks that have ended again, when it has given all. A new task gets nothing that was for the old one, and what the old
 * one has sent comes before the notice of its exit.
 *
 *   parent                    old tasks              helper
 *     talks with them           answer
 *     stops one, sends to it    one sends for ever
 *     computes                                         kills them, uses up all numbers, starts new tasks with theirs
 *     receives                                         says that it is done
 */
#include "common.h"
#include <signal.h>

enum { TALK = 1, DATA = 2, GONE = 3, GO = 4, ROUNDS = 25, TASKS = 2, COUNT = 40, LENGTH = 5000, BURNERS = 8, NUMBERS = 0x3ffff, NEAR = 2000 };
enum { OLD = 'o', NEW = 'n' };

static const char *const DONE = "done";

static void burn(int count) {
    int tid;
    for (int i = 0; i < count; i++) {
        pvm_spawn("/none", 0, PvmTaskDefault, "", 1, &tid);
    }
}

static void hello(int parent) {
    int pid = getpid();
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&pid, 1, 1);
    pvm_send(parent, TALK);
}

static void old_task(void) {
    int parent = pvm_parent();
    char bytes[LENGTH];
    memset(bytes, OLD, LENGTH);
    answer(parent, TALK, ROUNDS);
    hello(parent);
    pvm_recv(parent, GO);
    for (;;) {
        pvm_psend(parent, DATA, bytes, LENGTH, PVM_BYTE);
    }
}

/* The parent is the helper. Tasks that only use a number end at once. */
static void new_task(char **arguments) {
    int other = atoi(arguments[0]), first = atoi(arguments[1]), own = pvm_mytid();
    char bytes[LENGTH];
    if (own < first || own >= first + TASKS) {
        pvm_exit();
        exit(0);
    }
    memset(bytes, NEW, LENGTH);
    pvm_psend(other, DATA, bytes, LENGTH, PVM_BYTE);
    /* The first message of all. */
    pvm_recv(-1, -1);
    pvm_upkbyte(bytes, 1, 1);
    if (bytes[0] != NEW) {
        fail("a new task has got a message for the old one");
    }
    answer(other, TALK, ROUNDS);
    pvm_exit();
    exit(0);
}

static void helper(void) {
    int parent = pvm_parent(), first, pids[TASKS], burners[BURNERS], tid;
    char numbers[2][16], *arguments[] = {"new", numbers[0], numbers[1], 0}, *burner[] = {"burn", 0};
    pvm_recv(parent, TALK);
    pvm_upkint(&first, 1, 1);
    pvm_upkint(pids, TASKS, 1);
    for (int i = 0; i < TASKS; i++) {
        kill(pids[i], SIGKILL);
        while (pvm_pstat(first + i) == PvmOk) {
            usleep(1000);
        }
    }
    spawn("reuse", burner, BURNERS, burners);
    pvm_notify(PvmTaskExit, GONE, BURNERS, burners);
    for (int i = 0; i < BURNERS; i++) {
        pvm_recv(-1, GONE);
    }
    snprintf(numbers[0], sizeof numbers[0], "%d", parent);
    snprintf(numbers[1], sizeof numbers[1], "%d", first);
    do {
        int left;
        spawn("reuse", arguments, 1, &tid);
        left = (first - tid + NUMBERS) % NUMBERS;
        if (left > 20) {
            burn(left > NEAR ? NEAR : left - 10);
        }
    } while (tid != first + TASKS - 1);
    fclose(fopen(DONE, "w"));
    pvm_exit();
    exit(0);
}

/* Receive of one number: old messages, the notice, and a new message. */
static void receive_all(const int *tids) {
    struct timeval patience = {20, 0};
    int gone[TASKS] = {0}, met = 0, old = 0;
    while (met < TASKS) {
        int tag, from, at, mid = pvm_trecv(-1, -1, &patience);
        char byte;
        if (mid <= 0) {
            fail("nothing for 20 s: %d, %d tasks met", mid, met);
        }
        pvm_bufinfo(mid, 0, &tag, &from);
        if (tag == GONE) {
            pvm_upkint(&from, 1, 1);
        }
        at = from - tids[0];
        if (at < 0 || at >= TASKS) {
            fail("a message of %x", from);
        }
        if (tag == GONE) {
            gone[at] = 1;
            continue;
        }
        pvm_upkbyte(&byte, 1, 1);
        if ((byte == NEW) != gone[at]) {
            fail(gone[at] ? "an old message of %x after the notice" : "a new message of %x before the notice", from);
        }
        old += byte == OLD;
        met += byte == NEW;
    }
    if (old == 0) {
        fail("no message of the old tasks");
    }
}

int main(int count, char **arguments) {
    int tids[TASKS], pids[TASKS], other;
    char bytes[LENGTH], *none[] = {0}, *help[] = {"help", 0}, byte = NEW;
    if (pvm_parent() != PvmNoParent) {
        const char *way = count > 1 ? arguments[1] : "";
        if (strcmp(way, "help") == 0) {
            helper();
        }
        if (strcmp(way, "new") == 0) {
            new_task(arguments + 2);
        }
        if (strcmp(way, "burn") == 0) {
            burn((NUMBERS - 2 * NEAR) / BURNERS);
            pvm_exit();
            return 0;
        }
        old_task();
    }
    spawn("reuse", none, TASKS, tids);
    pvm_notify(PvmTaskExit, GONE, TASKS, tids);
    spawn("reuse", help, 1, &other);
    for (int i = 0; i < TASKS; i++) {
        settle(tids[i], TALK, ROUNDS);
        pvm_recv(tids[i], TALK);
        pvm_upkint(&pids[i], 1, 1);
    }
    /* One is stopped, and does not receive any more; the other one is killed while it sends. */
    kill(pids[0], SIGSTOP);
    usleep(100000);
    give(tids[0], DATA, COUNT, memset(bytes, OLD, LENGTH), LENGTH);
    pvm_initsend(PvmDataDefault);
    pvm_send(tids[1], GO);
    usleep(20000);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(tids, 1, 1);
    pvm_pkint(pids, TASKS, 1);
    pvm_send(other, TALK);
    while (access(DONE, F_OK) != 0) {
        usleep(1000);
    }
    receive_all(tids);
    for (int i = 0; i < TASKS; i++) {
        pvm_psend(tids[i], DATA, &byte, 1, PVM_BYTE);
        settle(tids[i], TALK, ROUNDS);
    }
    printf("%d numbers were given again\n", TASKS);
    pvm_exit();
    return 0;
}
