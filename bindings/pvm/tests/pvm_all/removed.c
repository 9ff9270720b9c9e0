/* Another process of the user removes the files of the shared memory, as some systems do when a user logs out. The argument is what their names begin
 * with. Tasks that talk go on, and those that start later talk with all. */
#include "common.h"

enum { ROUNDS = 100, LENGTH = 3000000, DATA = 2, TASK = 3 };

static struct timeval patience = {20, 0};

/* Messages there and back. */
static void talk(int tid, int rounds) {
    for (int i = 0; i < rounds; i++) {
        int got;
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&i, 1, 1);
        pvm_send(tid, TASK);
        if (pvm_trecv(tid, TASK, &patience) <= 0 || pvm_upkint(&got, 1, 1) < 0 || got != i) {
            fail("no answer %d of %x", i, (unsigned)tid);
        }
        usleep(1000);
    }
}

int main(int count, char **arguments) {
    int parent = pvm_parent(), tids[2];
    char *bytes = malloc(LENGTH), command[256];
    if (parent != PvmNoParent) {
        for (int tag = 0, length = 0, mid; tag != DATA; pvm_send(parent, tag)) {
            mid = pvm_recv(parent, -1);
            pvm_bufinfo(mid, &length, &tag, 0);
            pvm_upkbyte(bytes, length, 1);
            pvm_initsend(PvmDataDefault);
            pvm_pkbyte(bytes, length, 1);
        }
        pvm_exit();
        return 0;
    }
    spawn("removed", 0, 1, tids);
    talk(tids[0], ROUNDS);
    snprintf(command, sizeof command, "rm -f /dev/shm/%s*", count > 1 ? arguments[1] : "none");
    if (system(command) != 0) {
        fail("%s", command);
    }
    /* Some checks of the link. */
    usleep(200000);
    talk(tids[0], ROUNDS);
    spawn("removed", 0, 1, tids + 1);
    talk(tids[1], ROUNDS);
    for (int i = 0; i < 2; i++) {
        memset(bytes, i + 1, LENGTH);
        pvm_psend(tids[i], DATA, bytes, LENGTH, PVM_BYTE);
        memset(bytes, 0, LENGTH);
        if (pvm_trecv(tids[i], DATA, &patience) <= 0 || pvm_upkbyte(bytes, LENGTH, 1) < 0 || bytes[LENGTH - 1] != i + 1) {
            fail("no long answer of task %d", i);
        }
    }
    printf("tasks without the files of their memory have got all answers\n");
    pvm_exit();
    return 0;
}
