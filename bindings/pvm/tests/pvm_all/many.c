/* Tasks come, talk, and end, ten at a time, in the number that the argument says. Every other ten send first. Then something is sent to some
 * that have ended. */
#include "common.h"

enum { TALK = 1, GONE = 2, ROUNDS = 6, AT_ONCE = 10 };

int main(int count, char **arguments) {
    int all = count > 1 ? atoi(arguments[1]) : 100, parent, tids[AT_ONCE];
    pvm_mytid();
    parent = pvm_parent();
    if (parent != PvmNoParent) {
        count > 1 ? settle(parent, TALK, ROUNDS) : answer(parent, TALK, ROUNDS);
        pvm_exit();
        return 0;
    }
    for (int done = 0; done < all; done += AT_ONCE) {
        int is_first = done / AT_ONCE % 2;
        char *first[] = {"first", 0};
        spawn("many", is_first ? first : 0, AT_ONCE, tids);
        pvm_notify(PvmTaskExit, GONE, AT_ONCE, tids);
        if (is_first) {
            for (int i = 0; i < ROUNDS * AT_ONCE; i++) {
                int length, tag, from;
                pvm_bufinfo(pvm_recv(-1, TALK), &length, &tag, &from);
                pvm_initsend(PvmDataDefault);
                pvm_send(from, TALK);
            }
        } else {
            for (int i = 0; i < ROUNDS; i++) {
                pvm_initsend(PvmDataDefault);
                pvm_mcast(tids, AT_ONCE, TALK);
                for (int j = 0; j < AT_ONCE; j++) {
                    pvm_recv(tids[j], TALK);
                }
                usleep(2000);
            }
        }
        for (int i = 0; i < AT_ONCE; i++) {
            pvm_recv(-1, GONE);
        }
        pvm_initsend(PvmDataDefault);
        pvm_send(tids[0], TALK);
    }
    /* The daemon answers about them. */
    for (int i = 0; i < 20; i++) {
        pvm_pstat(tids[0]);
        usleep(10000);
    }
    printf("%d tasks have come and gone\n", all);
    pvm_exit();
    return 0;
}
