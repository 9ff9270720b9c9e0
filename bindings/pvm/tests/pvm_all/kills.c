/* Tasks that all send to all, and are killed at random moments: one while it starts, one within a long message, two at once. A task that lives gets
 * whole messages of each other one, in their order, then the notice of its exit, and then nothing of it. In the end all that live have gone on. */
#include "common.h"
#include <signal.h>

enum { TEAM = 1, DATA = 2, TAKEN = 3, GONE = 4, FINAL = 5, DONE = 6, QUIT = 7, WORKERS = 5, WINDOW = 3, LONGEST = 20000000 };

/* What a task knows of another one. A task's number is never given again. */
struct peer {
    int tid, sent, taken, got, wanted, is_gone, pid;
    double since;
};

static struct peer peers[8192];
static int known, first_alive, is_final, own, parent;
static long all;

static struct peer *peer(int tid) {
    for (int i = known; i-- > 0;) {
        if (peers[i].tid == tid) {
            return &peers[i];
        }
    }
    return 0;
}

static void meet(int tid) {
    if (tid == own || peer(tid)) {
        return;
    }
    if (known == (int)(sizeof peers / sizeof *peers)) {
        fail("more than %d tasks", known);
    }
    peers[known].tid = tid;
    peers[known++].since = now();
    if (tid != parent) {
        pvm_notify(PvmTaskExit, GONE, 1, &tid);
    }
}

/* Some tasks send such messages to their parent as take more than one piece. */
static int length_of(int from, int to, int number) {
    unsigned random = mixed((unsigned)(from + number * 64), (unsigned)to);
    if (from % 3 == 0 && random % 5 == 0 && (to == parent || from == parent || own == to)) {
        return random % 16 == 0 ? LONGEST : 1500000;
    }
    return (int)(random % 8 == 0 ? random / 8 % 400000 : random / 8 % 3000);
}

static void tell(struct peer *to) {
    static char *bytes;
    int number = to->sent++, length = length_of(own, to->tid, number);
    if (!bytes) {
        bytes = malloc(LONGEST);
    }
    memset(bytes, number, (size_t)length);
    pvm_initsend(number % 2 ? PvmDataRaw : PvmDataDefault);
    pvm_pkint(&number, 1, 1);
    pvm_pkint(&length, 1, 1);
    pvm_pkbyte(bytes, length, 1);
    pvm_pkint(&number, 1, 1);
    pvm_send(to->tid, DATA);
}

static void hear(struct peer *from) {
    static char *bytes;
    int number, length, last;
    if (!bytes) {
        bytes = malloc(LONGEST);
    }
    pvm_upkint(&number, 1, 1);
    pvm_upkint(&length, 1, 1);
    if (number != from->got || length < 0 || length > LONGEST) {
        fail("message %d of %d bytes of %x instead of %d", number, length, from->tid, from->got);
    }
    memset(bytes, number + 1, (size_t)length);
    if (pvm_upkbyte(bytes, length, 1) < 0 || pvm_upkint(&last, 1, 1) < 0 || last != number) {
        fail("message %d of %x is not whole", number, from->tid);
    }
    for (int i = 0; i < length; i++) {
        if (bytes[i] != (char)number) {
            fail("byte %d of %d of message %d of %x", i, length, number, from->tid);
        }
    }
    from->got++;
    all++;
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&number, 1, 1);
    pvm_send(from->tid, TAKEN);
}

static int is_done(void) {
    for (int i = first_alive; i < known; i++) {
        if (!peers[i].is_gone && peers[i].got < peers[i].wanted) {
            return 0;
        }
    }
    return 1;
}

/* Whatever a message is. Returns its tag. */
static int take_one(int mid, int *tid) {
    int length, tag, from, number, count;
    struct peer *of;
    pvm_bufinfo(mid, &length, &tag, &from);
    of = peer(from);
    if (tag != GONE && of && of->is_gone) {
        fail("a message %d of %x after the notice of its exit", tag, from);
    }
    *tid = from;
    switch (tag) {
    case TEAM:
        pvm_upkint(&count, 1, 1);
        while (count-- > 0) {
            pvm_upkint(&number, 1, 1);
            meet(number);
        }
        break;
    case DATA:
        meet(from);
        hear(peer(from));
        break;
    case TAKEN:
        pvm_upkint(&number, 1, 1);
        if (number != of->taken++) {
            fail("%x has taken message %d instead of %d", from, number, of->taken - 1);
        }
        break;
    case GONE:
        pvm_upkint(tid, 1, 1);
        peer(*tid)->is_gone = 1;
        break;
    case FINAL:
        for (int i = 0; i < known; i++) {
            peers[i].wanted = peers[i].got + 2 * WINDOW + 1;
        }
        is_final = 1;
        break;
    default:
        break;
    }
    while (first_alive < known && peers[first_alive].is_gone) {
        first_alive++;
    }
    return tag;
}

/* Send to each other task that has taken most of what was sent. Returns how many messages. */
static int tell_all(void) {
    int count = 0;
    for (int i = first_alive; i < known; i++) {
        if (!peers[i].is_gone && peers[i].sent - peers[i].taken < WINDOW) {
            tell(&peers[i]);
            count++;
        }
    }
    return count;
}

static void work(void) {
    int tag = 0, from, mid;
    meet(parent);
    while (tag != QUIT) {
        int count = tell_all();
        while (tag != QUIT && (mid = count > 0 ? pvm_nrecv(-1, -1) : pvm_recv(-1, -1)) > 0) {
            tag = take_one(mid, &from);
            count = 1;
        }
        if (is_final == 1 && is_done()) {
            is_final = 2;
            pvm_initsend(PvmDataDefault);
            pvm_send(parent, DONE);
        }
    }
}

static void start(int count) {
    int tids[WORKERS];
    spawn("kills", 0, count, tids);
    for (int i = 0; i < count; i++) {
        meet(tids[i]);
    }
    pvm_initsend(PvmDataDefault);
    count = 0;
    for (int i = first_alive; i < known; i++) {
        count += !peers[i].is_gone;
    }
    pvm_pkint(&count, 1, 1);
    for (int i = first_alive; i < known; i++) {
        if (!peers[i].is_gone) {
            pvm_pkint(&peers[i].tid, 1, 1);
        }
    }
    for (int i = first_alive; i < known; i++) {
        if (!peers[i].is_gone) {
            pvm_send(peers[i].tid, TEAM);
        }
    }
}

static int alive(int number) {
    for (int i = first_alive;; i = i + 1 < known ? i + 1 : first_alive) {
        if (!peers[i].is_gone && number-- <= 0) {
            return i;
        }
    }
}

/* Take part until this moment. */
static void play(double end) {
    int from, mid;
    struct timeval moment = {0, 500};
    while (now() < end) {
        tell_all();
        while (now() < end && (mid = pvm_trecv(-1, -1, &moment)) > 0) {
            if (take_one(mid, &from) == GONE) {
                fail("%x has ended by itself", from);
            }
        }
    }
}

static void kill_some(int number) {
    unsigned random = mixed((unsigned)number, (unsigned)own);
    int count = random % 10 == 0 ? 2 : 1, killed[2], left = count;
    double end = now() + 20;
    for (int i = 0; i < count; i++) {
        int first = killed[0];
        do {
            killed[i] = alive((int)(random / 16 % WORKERS));
            random = mixed(random, 1);
        } while (i == 1 && killed[1] == first);
        if (number % 3 == 0) {
            pvm_kill(peers[killed[i]].tid);
        } else {
            pvm_sendsig(peers[killed[i]].tid, SIGKILL);
        }
    }
    while (left > 0) {
        int from, mid;
        struct timeval moment = {0, 500};
        tell_all();
        /* The daemon's answer may come while other messages come back. */
        pvm_pstat(own);
        while (left > 0 && (mid = pvm_trecv(-1, -1, &moment)) > 0) {
            if (take_one(mid, &from) == GONE) {
                if (peer(from) != &peers[killed[0]] && (count == 1 || peer(from) != &peers[killed[1]])) {
                    fail("%x has ended by itself", from);
                }
                left--;
            }
        }
        if (now() > end) {
            fail("no notice of kill %d in 20 s", number);
        }
    }
    start(count);
}

static void end_all(void) {
    int left = WORKERS, from, mid;
    double end = now() + 20;
    pvm_initsend(PvmDataDefault);
    for (int i = first_alive; i < known; i++) {
        if (!peers[i].is_gone) {
            pvm_send(peers[i].tid, FINAL);
        }
    }
    while (left > 0) {
        struct timeval moment = {0, 500};
        tell_all();
        while ((mid = pvm_trecv(-1, -1, &moment)) > 0) {
            left -= take_one(mid, &from) == DONE;
        }
        if (now() > end) {
            fail("%d tasks do not go on", left);
        }
    }
    pvm_initsend(PvmDataDefault);
    for (int i = first_alive; i < known; i++) {
        if (!peers[i].is_gone) {
            pvm_send(peers[i].tid, QUIT);
        }
    }
    for (int i = 0; i < WORKERS;) {
        mid = pvm_recv(-1, -1);
        i += take_one(mid, &from) == GONE;
    }
}

int main(int count, char **arguments) {
    int kills = count > 1 ? atoi(arguments[1]) : 50;
    own = pvm_mytid();
    parent = pvm_parent();
    if (parent != PvmNoParent) {
        work();
        pvm_exit();
        return 0;
    }
    start(WORKERS);
    for (int i = 0; i < kills; i++) {
        play(now() + mixed((unsigned)i, 3) % 80 / 1000.0);
        kill_some(i);
    }
    end_all();
    printf("%d kills, and all others have gone on\n", kills);
    fprintf(stderr, "%ld messages\n", all);
    pvm_exit();
    return 0;
}
