/* What PVM can do beside messages, while they go as active messages: the ways to start a task, its output, and what it tells of its calls. */
/* Before pvm3.h, which then knows files. */
#include <stdio.h>

#include "common.h"
#include <pvmtev.h>
#include <signal.h>

enum { TASK = 1, OUTPUT = 2, TRACE = 3, DATA = 4, ROUNDS = 25, COUNT = 200, LINES = 50 };

/* Without leaving PVM. */
static void end_slowly(int signal) {
    (void)signal;
    usleep(300000);
    _exit(0);
}

/* A task that talks with this one, and ends. */
static void meet_one(void) {
    char *arguments[] = {"spawn", 0};
    int tid;
    spawn("forms", arguments, 1, &tid);
    settle(tid, TASK, ROUNDS);
    pvm_recv(tid, TASK);
    pvm_notify(PvmTaskExit, OUTPUT, 1, &tid);
    pvm_recv(-1, OUTPUT);
}

/* A task that was spawned. It says lines between its messages. */
static void child(const char *way) {
    int parent = pvm_parent(), is_debugged = getenv("AM_DEBUGGED") != 0;
    answer(parent, TASK, ROUNDS);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&is_debugged, 1, 1);
    pvm_send(parent, TASK);
    for (int i = 0; strcmp(way, "output") == 0 && i < LINES; i++) {
        printf("line %d of this task\n", i);
        fflush(stdout);
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&i, 1, 1);
        pvm_send(parent, DATA);
    }
    if (strcmp(way, "trace") == 0) {
        meet_one();
    }
    for (int i = 0; strcmp(way, "trace") == 0 && i < COUNT; i++) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&i, 1, 1);
        pvm_send(parent, DATA);
    }
    if (strcmp(way, "halt") == 0) {
        signal(SIGTERM, end_slowly);
        for (int i = 0;; i++) {
            pvm_initsend(PvmDataDefault);
            pvm_pkint(&i, 1, 1);
            if (pvm_send(parent, DATA) < 0) {
                exit(1);
            }
            usleep(100);
        }
    }
    pvm_exit();
    exit(0);
}

/* Start a task in this way, and talk with it. Whether a debugger has started it. */
static int talk(char **arguments, int flags, const char *where) {
    int tid, is_debugged, count = pvm_spawn("forms", arguments, flags, (char *)where, 1, &tid);
    if (count != 1) {
        fail("flags %d where %s: %d tasks, %d", flags, where, count, tid);
    }
    settle(tid, TASK, ROUNDS);
    pvm_recv(tid, TASK);
    pvm_upkint(&is_debugged, 1, 1);
    return is_debugged;
}

static void spawn_all(char **arguments) {
    struct pvmhostinfo *hosts;
    int count, tid;
    pvm_config(&count, 0, &hosts);
    talk(arguments, PvmTaskDefault, "");
    talk(arguments, PvmTaskHost, ".");
    talk(arguments, PvmTaskHost, hosts->hi_name);
    talk(arguments, PvmTaskArch, hosts->hi_arch);
    talk(arguments, PvmTaskArch | PvmHostCompl, "CRAY");
    talk(arguments, PvmMppFront, "");
    talk(arguments, PvmTaskTrace, "");
    if (talk(arguments, PvmTaskHost | PvmTaskDebug, ".") != 1) {
        fail("the debugger was not started");
    }
    if (pvm_spawn("forms", arguments, PvmTaskHost | PvmHostCompl, ".", 1, &tid) == 1 ||
        pvm_spawn("forms", arguments, PvmTaskArch, "CRAY", 1, &tid) == 1 ||
        pvm_spawn("no-such-program", arguments, PvmTaskDefault, "", 1, &tid) == 1) {
        fail("a task was started where there is no place for it");
    }
    if (tid != PvmNoFile) {
        fail("PVM's error for a program that is not there is %d", tid);
    }
    printf("tasks were spawned in all ways\n");
}

/* What catchout has written of one task: its lines, whole and in their order. */
static void catch_all(char **arguments) {
    FILE *caught = tmpfile();
    char line[200], wanted[200];
    int tids[3], number = 0, begun[3] = {0}, lines[3] = {0};
    pvm_catchout(caught);
    spawn("forms", arguments, 3, tids);
    for (int i = 0; i < 3; i++) {
        settle(tids[i], TASK, ROUNDS);
        pvm_recv(tids[i], TASK);
    }
    for (int i = 0; i < 3 * LINES; i++) {
        pvm_recv(tids[i % 3], DATA);
        pvm_upkint(&number, 1, 1);
        if (number != i / 3) {
            fail("message %d instead of %d", number, i / 3);
        }
    }
    /* It waits until the tasks have said all. */
    pvm_exit();
    rewind(caught);
    while (fgets(line, sizeof line, caught)) {
        int at = 0;
        while (at < 3 && (unsigned)strtol(line + 2, 0, 16) != (unsigned)tids[at]) {
            at++;
        }
        if (at == 3) {
            continue;
        }
        snprintf(wanted, sizeof wanted, "[t%x] line %d of this task\n", (unsigned)tids[at], lines[at]);
        begun[at] += strstr(line, "BEGIN") != 0;
        lines[at] += strcmp(line, wanted) == 0;
    }
    for (int i = 0; i < 3; i++) {
        if (begun[i] != 1 || lines[i] != LINES) {
            printf("FAILED: %d lines of task %d, begun %d times\n", lines[i], i, begun[i]);
            exit(1);
        }
    }
    printf("all lines of 3 tasks were caught\n");
    exit(0);
}

/* The output of a task as messages. */
static void collect(char **arguments) {
    int tid, got = 0, is_over = 0, number = 0;
    char *all = calloc(1, 1 << 16);
    pvm_setopt(PvmOutputTid, pvm_mytid());
    pvm_setopt(PvmOutputContext, pvm_getcontext());
    pvm_setopt(PvmOutputCode, OUTPUT);
    spawn("forms", arguments, 1, &tid);
    settle(tid, TASK, ROUNDS);
    while (!is_over || number < LINES) {
        int mid = pvm_recv(-1, -1), tag, of, length;
        pvm_bufinfo(mid, 0, &tag, 0);
        if (tag == DATA) {
            number++;
        }
        if (tag == OUTPUT) {
            pvm_upkint(&of, 1, 1);
            pvm_upkint(&length, 1, 1);
            if (of != tid) {
                fail("output of %x", of);
            }
            if (length > 0) {
                pvm_upkbyte(all + got, length, 1);
                got += length;
            }
            is_over = is_over || length == 0;
        }
    }
    for (int i = 0; i < LINES; i++) {
        char line[100];
        snprintf(line, sizeof line, "line %d of this task\n", i);
        if (!strstr(all, line)) {
            fail("no line %d in: %s", i, all);
        }
    }
    printf("the output of a task has come as messages\n");
}

/* A task tells of each of its calls. Says how many messages that are, which has to be the same with the library and without it. */
static void trace(char **arguments) {
    int tid, traces = 0, number = 0, is_over = 0;
    Pvmtmask mask;
    TEV_MASK_INIT(mask);
    for (int kind = TEV_FIRST; kind <= TEV_MAX; kind++) {
        TEV_MASK_SET(mask, kind);
    }
    pvm_settmask(PvmTaskChild, mask);
    pvm_setopt(PvmTraceTid, pvm_mytid());
    pvm_setopt(PvmTraceContext, pvm_getcontext());
    pvm_setopt(PvmTraceCode, TRACE);
    pvm_setopt(PvmTraceOptions, PvmTraceFull);
    pvm_setopt(PvmTraceBuffer, 0);
    if (pvm_spawn("forms", arguments, PvmTaskTrace, "", 1, &tid) != 1) {
        fail("no task");
    }
    pvm_notify(PvmTaskExit, OUTPUT, 1, &tid);
    settle(tid, TASK, ROUNDS);
    while (!is_over) {
        int mid = pvm_recv(-1, -1), tag, is;
        pvm_bufinfo(mid, 0, &tag, 0);
        traces += tag == TRACE;
        is_over = tag == OUTPUT;
        if (tag == DATA) {
            pvm_upkint(&is, 1, 1);
            if (is != number++) {
                fail("message %d instead of %d", is, number - 1);
            }
        }
    }
    if (number != COUNT) {
        fail("%d messages", number);
    }
    printf("a task has told of its calls in %d messages\n", traces);
}

/* One task ends the machine, while others send to it. */
static void halt(char **arguments) {
    int tids[4];
    spawn("forms", arguments, 4, tids);
    for (int i = 0; i < 4; i++) {
        settle(tids[i], TASK, ROUNDS);
    }
    for (int i = 0; i < COUNT; i++) {
        pvm_recv(tids[i % 4], DATA);
    }
    /* The daemon ends all tasks, this one too. */
    signal(SIGTERM, SIG_IGN);
    printf("the machine is halted: %d\n", pvm_halt());
    exit(0);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "spawn";
    if (pvm_parent() != PvmNoParent) {
        child(way);
    }
    if (strcmp(way, "spawn") == 0) {
        spawn_all(arguments + 1);
    } else if (strcmp(way, "catch") == 0) {
        arguments[1] = "output";
        catch_all(arguments + 1);
    } else if (strcmp(way, "output") == 0) {
        collect(arguments + 1);
    } else if (strcmp(way, "trace") == 0) {
        trace(arguments + 1);
    } else {
        halt(arguments + 1);
    }
    pvm_exit();
    return 0;
}
