/* A task ends, in the way that the argument says, while its messages are on their way. Its parent gets whole messages in their order, then
 * the notice of its exit, and then nothing more. */
#include "common.h"
#include <signal.h>

enum { DATA = 5, GONE = 6, LENGTH = 200000, ROUNDS = 20 };

static int is_killed(const char *way) { return strcmp(way, "kill") == 0; }

static void child(const char *way) {
    int parent = pvm_parent();
    char *bytes = calloc(1, LENGTH);
    answer(parent, 1, ROUNDS);
    for (int number = 0; is_killed(way) || number < 50; number++) {
        memset(bytes, number, LENGTH);
        pvm_initsend(PvmDataRaw);
        pvm_pkint(&number, 1, 1);
        pvm_pkbyte(bytes, LENGTH, 1);
        pvm_send(parent, DATA);
    }
    if (strcmp(way, "leave") == 0) {
        pvm_exit();
    }
    if (strcmp(way, "abort") == 0) {
        kill(getpid(), SIGKILL);
    }
    exit(0);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "exit";
    int times = count > 2 ? atoi(arguments[2]) : 1, all = 0;
    char *bytes = malloc(LENGTH);
    if (pvm_parent() != PvmNoParent) {
        child(way);
    }
    for (int time = 0; time < times; time++) {
        int tid, number = 0, is_gone = 0;
        struct timeval patience = {20, 0}, moment = {0, 100000};
        spawn("ending", arguments + 1, 1, &tid);
        pvm_notify(PvmTaskExit, GONE, 1, &tid);
        settle(tid, 1, ROUNDS);
        while (!is_gone) {
            int is, tag, from, bytes_of;
            int got = pvm_trecv(-1, -1, &patience);
            if (got <= 0) {
                fail("nothing for 20 s after %d messages: %d", number, got);
            }
            pvm_bufinfo(got, &bytes_of, &tag, &from);
            if (tag == GONE) {
                is_gone = 1;
                break;
            }
            pvm_upkint(&is, 1, 1);
            pvm_upkbyte(bytes, LENGTH, 1);
            if (is != number || bytes[0] != (char)is || bytes[LENGTH - 1] != (char)is || bytes_of != LENGTH + 4) {
                fail("message %d instead of %d, %d bytes", is, number, bytes_of);
            }
            number++;
            if (is_killed(way) && number == time % 7 + 1) {
                pvm_sendsig(tid, SIGKILL);
            }
        }
        if (pvm_trecv(tid, -1, &moment) != 0) {
            fail("a message after the notice");
        }
        if (strcmp(way, "leave") == 0 && number != 50) {
            fail("%d messages instead of 50", number);
        }
        all += number;
    }
    printf("%d tasks have ended, %s\n", times, all > 0 ? "with whole messages before the notice" : "without a message");
    pvm_exit();
    return 0;
}
