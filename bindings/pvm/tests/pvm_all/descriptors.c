/* A program that waits by select on PVM's descriptors sees each message, also one that came while it did something else. It asks for the list
 * before each wait ("each"), or once at its start ("once"), or takes the first one and those of new routes ("news"). */
#include "common.h"
#include <sys/select.h>

enum { COUNT = 100, ADDED = 7, DELETED = 8 };

static fd_set all;
static int most;

static void add(int descriptor) {
    FD_SET(descriptor, &all);
    most = descriptor > most ? descriptor : most;
}

static void add_list(int limit) {
    int *list, count = pvm_getfds(&list);
    for (int i = 0; i < count && i < limit; i++) {
        add(list[i]);
    }
}

/* Of a route to this task, or of its end. */
static int news_of(int tid, int tag) {
    struct timeval patience = {20, 0};
    int of, descriptor;
    if (pvm_trecv(-1, tag, &patience) <= 0) {
        fail("no news of a route");
    }
    pvm_upkint(&of, 1, 1);
    pvm_upkint(&descriptor, 1, 1);
    if (of != tid) {
        fail("a route to %x", (unsigned)of);
    }
    return descriptor;
}

static void child(int parent) {
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
    exit(0);
}

int main(int arguments, char **argument) {
    int parent = pvm_parent(), tid, got = 0;
    const char *way = arguments > 1 ? argument[1] : "each";
    int is_each = strcmp(way, "each") == 0, is_news = strcmp(way, "news") == 0;
    if (parent != PvmNoParent) {
        child(parent);
    }
    FD_ZERO(&all);
    add_list(is_news ? 1 : 100);
    if (is_news) {
        pvm_setopt(PvmRoute, PvmRouteDirect);
        pvm_notify(PvmRouteAdd, ADDED, -1, 0);
    }
    spawn("descriptors", 0, 1, &tid);
    settle(tid, 1, 20);
    if (is_news) {
        add(news_of(tid, ADDED));
        pvm_notify(PvmRouteDelete, DELETED, 1, &tid);
    }
    while (got < COUNT) {
        int is;
        struct timeval patience = {got % 50 == 8 ? 10 : 1, 0};
        fd_set ready;
        if (is_each) {
            FD_ZERO(&all);
            add_list(100);
        }
        if (got % 50 == 7) {
            /* Meanwhile the library receives by itself. */
            usleep(30000);
        }
        ready = all;
        if (select(most + 1, &ready, 0, 0, &patience) == 0) {
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
    if (is_news && pvm_nrecv(-1, DELETED) > 0) {
        fail("a route has ended before its task");
    }
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, 3);
    if (is_news && news_of(tid, DELETED) != -1) {
        fail("a route that has ended has a descriptor");
    }
    printf("select has seen %d messages\n", got);
    pvm_exit();
    return 0;
}
