/* All tasks but the first send it a message before it receives anything. Then it answers each. */
#include "common.h"
#include <unistd.h>

int main(int count, char **arguments) {
    int tasks = count > 1 ? atoi(arguments[1]) : 60, parent = pvm_parent(), own = pvm_mytid(), number = 0;
    if (parent != PvmNoParent) {
        int place;
        pvm_recv(parent, 1);
        pvm_upkint(&place, 1, 1);
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&own, 1, 1);
        pvm_send(parent, 2);
        pvm_recv(parent, 3);
        pvm_upkint(&number, 1, 1);
        if (number != own) {
            fail("the answer to %x has come to %x", number, own);
        }
        pvm_exit();
        return 0;
    }
    int *tids = malloc(sizeof(int) * (size_t)tasks);
    spawn("crowd", arguments + 1, tasks, tids);
    for (int i = 0; i < tasks; i++) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&i, 1, 1);
        pvm_send(tids[i], 1);
    }
    /* Their offers wait at the daemon. */
    sleep(2);
    for (int i = 0; i < tasks; i++) {
        int from;
        pvm_recv(-1, 2);
        pvm_upkint(&from, 1, 1);
        number += from > 0;
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&from, 1, 1);
        pvm_send(from, 3);
    }
    printf("%d tasks have got their answers\n", number);
    pvm_exit();
    return 0;
}
