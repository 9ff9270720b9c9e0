/* Tasks that meet in a group. PVM starts a server of groups for them, which has the library too, and stays until the machine is halted. */
#include "common.h"

enum { TASKS = 4, ROUNDS = 30 };

int main(void) {
    int tids[TASKS], parent = pvm_parent(), rank, sum;
    if (parent == PvmNoParent) {
        /* Of two hosts the second one gets this task, and the first one the server. */
        spawn("groups", 0, 1, tids);
        rank = pvm_joingroup("all");
        spawn("groups", 0, TASKS - 2, tids + 1);
        pvm_initsend(PvmDataDefault);
        pvm_mcast(tids, TASKS - 1, 1);
    } else {
        pvm_recv(parent, 1);
        rank = pvm_joingroup("all");
    }
    pvm_barrier("all", TASKS);
    for (int round = 0; round < ROUNDS; round++) {
        sum = rank + round;
        pvm_reduce(PvmSum, &sum, 1, PVM_INT, round, "all", 0);
        if (rank == 0 && sum != TASKS * round + TASKS * (TASKS - 1) / 2) {
            fail("the sum of round %d is %d", round, sum);
        }
        usleep(2000);
    }
    pvm_barrier("all", TASKS);
    if (parent == PvmNoParent) {
        printf("%d tasks met in a group in %s\n", TASKS, getenv("PVM_TMP"));
    }
    pvm_exit();
    return 0;
}
