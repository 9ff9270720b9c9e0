/* A task ends, in the way that the argument says, while its messages are on their way. Its parent gets whole messages in their order, then
 * the notice of its exit, and then nothing more. The last message of a task that leaves is long, and takes its time. Every other time the
 * parent talks with the daemon before it receives. A third argument is another number of messages there and back at first. */
#include "common.h"
#include <signal.h>

enum { DATA = 5, GONE = 6, LENGTH = 200000, LAST = 12000000, COUNT = 50 };

static int rounds = 20;

static int length_of(int number) { return number == COUNT - 1 ? LAST : LENGTH; }

static int is_killed(const char *way) { return strcmp(way, "kill") == 0; }

/* Send until the end. */
static void send_all(int to, const char *way) {
    char *bytes = calloc(1, LAST);
    for (int number = 0; is_killed(way) || number < COUNT; number++) {
        int length = is_killed(way) ? LENGTH : length_of(number);
        memset(bytes, number, (size_t)length);
        pvm_initsend(PvmDataRaw);
        pvm_pkint(&number, 1, 1);
        pvm_pkbyte(bytes, length, 1);
        pvm_send(to, DATA);
    }
    free(bytes);
}

/* Receive until the notice. Returns how many messages have arrived. The sender is killed after some of them. */
static int receive_all(int from, const char *way, int kill_after) {
    char *bytes = malloc(LAST);
    struct timeval patience = {20, 0}, moment = {0, 100000};
    for (int number = 0;; number++) {
        int is, tag, by, length = is_killed(way) ? LENGTH : length_of(number), bytes_of;
        int got = pvm_trecv(-1, -1, &patience);
        if (got <= 0) {
            fail("nothing for 20 s after %d messages: %d", number, got);
        }
        pvm_bufinfo(got, &bytes_of, &tag, &by);
        if (tag == GONE) {
            if (pvm_trecv(from, -1, &moment) != 0) {
                fail("a message after the notice");
            }
            free(bytes);
            return number;
        }
        pvm_upkint(&is, 1, 1);
        pvm_upkbyte(bytes, length, 1);
        if (is != number || bytes[0] != (char)is || bytes[length - 1] != (char)is || bytes_of != length + 4) {
            fail("message %d instead of %d, %d bytes", is, number, bytes_of);
        }
        if (is_killed(way) && number == kill_after) {
            pvm_sendsig(from, SIGKILL);
        }
    }
}

static void child(const char *way) {
    int parent = pvm_parent(), got;
    if (strcmp(way, "first") == 0) {
        pvm_notify(PvmTaskExit, GONE, 1, &parent);
        answer(parent, 1, rounds);
        got = receive_all(parent, way, 0);
        printf(got == COUNT ? "all has arrived before the notice\n" : "FAILED: %d messages\n", got);
        fflush(stdout);
        pvm_exit();
        exit(0);
    }
    answer(parent, 1, rounds);
    send_all(parent, way);
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
    int times = count > 2 ? atoi(arguments[2]) : 1, all = 0, tid;
    rounds = count > 3 ? atoi(arguments[3]) : rounds;
    if (pvm_parent() != PvmNoParent) {
        child(way);
    }
    if (strcmp(way, "first") == 0) {
        spawn("ending", arguments + 1, 1, &tid);
        settle(tid, 1, rounds);
        send_all(tid, way);
        printf("all was sent\n");
        pvm_exit();
        /* It is the daemon that tells of the exit, and not the end of the process. */
        sleep(1);
        return 0;
    }
    for (int time = 0; time < times; time++) {
        int number;
        spawn("ending", arguments + 1, 1, &tid);
        pvm_notify(PvmTaskExit, GONE, 1, &tid);
        settle(tid, 1, rounds);
        if (time % 2 == 1) {
            usleep(300000);
            pvm_pstat(pvm_mytid());
        }
        number = receive_all(tid, way, time % 7);
        if (strcmp(way, "leave") == 0 && number != COUNT) {
            fail("%d messages instead of %d", number, COUNT);
        }
        all += number;
    }
    printf("%d tasks have ended, %s\n", times, all > 0 ? "with whole messages before the notice" : "without a message");
    pvm_exit();
    return 0;
}
