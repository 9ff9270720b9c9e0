/* A task that leaves, and that has asked for the notice of its own exit. PVM gives it one itself. The daemon's comes behind its
 * answer, which is the last message that PVM reads. */
#define _GNU_SOURCE
#include "common.h"
#include <sched.h>

enum { NOTICE = 21, ROUNDS = 200 };

static int notices;

static int on_notice(int mid) {
    (void)mid;
    notices++;
    return 0;
}

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        int own = pvm_mytid();
        cpu_set_t processor;
        /* The daemon's notice is there at once only if it has another processor. */
        CPU_ZERO(&processor);
        CPU_SET(i % 2, &processor);
        sched_setaffinity(0, sizeof processor, &processor);
        pvm_addmhf(-1, NOTICE, pvm_getcontext(), on_notice);
        pvm_notify(PvmTaskExit, NOTICE, 1, &own);
        /* The library looks at the daemon's socket at most every 100 us. */
        usleep(200);
        pvm_exit();
    }
    printf("%d notices of %d exits\n", notices, ROUNDS);
    return 0;
}
