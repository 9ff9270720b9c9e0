/* All tasks send to all others, with contents that name the sender, the receiver and the round. */
#include "common.h"

int main(int count, char **arguments) {
    int tasks = count > 1 ? atoi(arguments[1]) : 4, rounds = count > 2 ? atoi(arguments[2]) : 10, own = pvm_mytid();
    if (count > 3) {
        pvm_setopt(PvmRoute, atoi(arguments[3]));
    }
    int *tids = malloc(sizeof(int) * (size_t)tasks), rank = 0, parent = pvm_parent();
    if (parent == PvmNoParent) {
        tids[0] = own;
        spawn("all", arguments + 1, tasks - 1, tids + 1);
        pvm_initsend(PvmDataDefault);
        pvm_pkint(tids, tasks, 1);
        pvm_mcast(tids + 1, tasks - 1, 1);
    } else {
        pvm_recv(parent, 1);
        pvm_upkint(tids, tasks, 1);
        while (tids[rank] != own) {
            rank++;
        }
    }
    for (int round = 0; round < rounds; round++) {
        int length = (int)(mixed((unsigned)round, 9) % 3000);
        int *numbers = malloc(sizeof(int) * (size_t)(length + 1));
        for (int to = 0; to < tasks; to++) {
            if (to == rank) {
                continue;
            }
            for (int i = 0; i < length; i++) {
                numbers[i] = (int)mixed((unsigned)(rank * 1000 + to), (unsigned)(round * 10000 + i));
            }
            pvm_initsend(round % 2 ? PvmDataRaw : PvmDataDefault);
            pvm_pkint(&length, 1, 1);
            pvm_pkint(numbers, length, 1);
            pvm_send(tids[to], 100 + round);
        }
        for (int from = 0; from < tasks; from++) {
            int is;
            if (from == rank) {
                continue;
            }
            pvm_recv(tids[from], 100 + round);
            pvm_upkint(&is, 1, 1);
            if (is != length) {
                fail("%d numbers instead of %d", is, length);
            }
            pvm_upkint(numbers, length, 1);
            for (int i = 0; i < length; i++) {
                if (numbers[i] != (int)mixed((unsigned)(from * 1000 + rank), (unsigned)(round * 10000 + i))) {
                    fail("number %d of round %d from %d", i, round, from);
                }
            }
        }
        free(numbers);
    }
    if (rank == 0) {
        for (int from = 1; from < tasks; from++) {
            pvm_recv(-1, 2);
        }
        printf("%d tasks, %d rounds: all contents are right\n", tasks, rounds);
    } else {
        pvm_initsend(PvmDataDefault);
        pvm_send(tids[0], 2);
    }
    pvm_exit();
    return 0;
}
