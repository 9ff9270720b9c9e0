/* The daemon is killed while two tasks talk. The call that the argument names is the first one behind that. All calls have an error, and none
 * waits. Says what they return, which has to be PVM's error with the library, too. */
#include "common.h"
#include <signal.h>

enum { TALK = 1, DATA = 2, ROUNDS = 25, PATIENCE = 5, TRIES = 100000 };

static const char *const CHILD = "child";

/* Wait for what never comes, and write the error to a file: the daemon takes no output any more. */
static void child(void) {
    int parent = pvm_parent(), daemon = getppid(), result;
    FILE *file;
    signal(SIGPIPE, SIG_IGN);
    answer(parent, TALK, ROUNDS);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&daemon, 1, 1);
    pvm_send(parent, TALK);
    result = pvm_recv(-1, DATA);
    file = fopen("child.new", "w");
    fprintf(file, "%d\n", result);
    fclose(file);
    rename("child.new", CHILD);
    exit(0);
}

static int call(const char *name, int tid) {
    struct timeval patience = {60, 0};
    struct pvmtaskinfo *tasks;
    int number = tid;
    pvm_initsend(PvmDataDefault);
    if (strcmp(name, "recv") == 0) {
        return pvm_recv(-1, DATA);
    }
    if (strcmp(name, "trecv") == 0) {
        return pvm_trecv(-1, DATA, &patience);
    }
    if (strcmp(name, "nrecv") == 0) {
        return pvm_nrecv(-1, DATA);
    }
    if (strcmp(name, "probe") == 0) {
        return pvm_probe(-1, DATA);
    }
    if (strcmp(name, "send") == 0) {
        return pvm_send(tid, TALK);
    }
    if (strcmp(name, "psend") == 0) {
        return pvm_psend(tid, TALK, (char *)&number, sizeof number, PVM_BYTE);
    }
    if (strcmp(name, "mcast") == 0) {
        return pvm_mcast(&number, 1, TALK);
    }
    if (strcmp(name, "notify") == 0) {
        return pvm_notify(PvmTaskExit, DATA, 1, &number);
    }
    if (strcmp(name, "pstat") == 0) {
        return pvm_pstat(tid);
    }
    if (strcmp(name, "tasks") == 0) {
        return pvm_tasks(0, &number, &tasks);
    }
    if (strcmp(name, "spawn") == 0) {
        return pvm_spawn("orphan", 0, PvmTaskDefault, "", 1, &number);
    }
    return pvm_exit();
}

int main(int count, char **arguments) {
    static const char *const ALL[] = {"recv", "trecv", "nrecv", "probe", "send", "psend", "mcast", "notify", "pstat", "tasks", "spawn", "exit"};
    const char *first = count > 1 ? arguments[1] : "recv";
    char *none[] = {0}, line[32] = "nothing\n";
    int tid, daemon, result = 0, tries = 0;
    FILE *file = 0;
    double began;
    if (pvm_parent() != PvmNoParent) {
        child();
    }
    signal(SIGPIPE, SIG_IGN);
    spawn("orphan", none, 1, &tid);
    settle(tid, TALK, ROUNDS);
    pvm_recv(tid, TALK);
    pvm_upkint(&daemon, 1, 1);
    kill(daemon, SIGKILL);
    began = now();
    /* A send does not ask the daemon first. */
    while (result >= 0 && tries++ < TRIES && now() - began < PATIENCE) {
        result = call(first, tid);
        if (strcmp(first, "exit") == 0) {
            break;
        }
    }
    printf("first %s: %d\n", first, result);
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) {
        printf("%s: %d\n", ALL[i], call(ALL[i], tid));
    }
    for (; !file && now() - began < PATIENCE; usleep(1000)) {
        file = fopen(CHILD, "r");
    }
    if (file && !fgets(line, sizeof line, file)) {
        return 1;
    }
    printf("the other task's recv: %s", line);
    printf(now() - began < PATIENCE ? "no call has waited\n" : "FAILED: %.1f s\n", now() - began);
    return 0;
}
