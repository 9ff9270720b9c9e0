/* A program that waits by select on what pvm_getfds returns sees each message, also one that came while it did something else. */
#include "common.h"
#include <sys/select.h>

enum { COUNT = 100 };

int main(void) {
    int parent = pvm_parent(), tid, got = 0;
    if (parent != PvmNoParent) {
        answer(parent, 1, 20);
        for (int i = 0; i < COUNT; i++) {
            /* After message 7 nothing comes for a while. */
            usleep(i % 50 == 8 ? 1500000 : 500);
            pvm_initsend(PvmDataDefault);
            pvm_pkint(&i, 1, 1);
            pvm_send(parent, 2);
        }
        pvm_recv(parent, 3);
        pvm_exit();
        return 0;
    }
    spawn("descriptors", 0, 1, &tid);
    settle(tid, 1, 20);
    while (got < COUNT) {
        int *list, count = pvm_getfds(&list), most = 0, is;
        struct timeval patience = {1, 0};
        fd_set all;
        FD_ZERO(&all);
        for (int i = 0; i < count; i++) {
            FD_SET(list[i], &all);
            most = list[i] > most ? list[i] : most;
        }
        if (got % 50 == 7) {
            /* Meanwhile the library receives by itself. */
            usleep(30000);
        }
        if (select(most + 1, &all, 0, 0, &patience) == 0) {
            fail("select sees nothing after %d messages", got);
        }
        while (pvm_nrecv(tid, 2) > 0) {
            pvm_upkint(&is, 1, 1);
            if (is != got) {
                fail("message %d instead of %d", is, got);
            }
            got++;
        }
    }
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, 3);
    printf("select has seen %d messages\n", got);
    pvm_exit();
    return 0;
}
