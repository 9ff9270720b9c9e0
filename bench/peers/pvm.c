/* Two tasks of a PVM: the one that is started is near, and starts the other. See measure.h.
 *
 *   AM_BENCH_ROUTE  direct or daemon; active messages take no notice of it
 *   AM_BENCH_HOST   where the other task runs
 *   AM_BENCH_WAY    what they call:
 *                   spin        pack in place, send; nrecv until something is there, unpack
 *                   sleep       pack in place, send; recv, unpack
 *                   psend-spin  psend; nrecv until something is there, unpack
 *                   psend       psend; precv
 */
#include "measure.h"

#include <pvm3.h>
#include <unistd.h>

enum { TAG = 1 };

static int other, spins, is_packed;

static void put(const char *message, int size)
{
    if (!is_packed) {
        pvm_psend(other, TAG, (char *)message, size, PVM_BYTE);
        return;
    }
    pvm_initsend(PvmDataInPlace);
    pvm_pkbyte((char *)message, size, 1);
    pvm_send(other, TAG);
}

static void get(char *message, int size)
{
    if (!spins && !is_packed) {
        pvm_precv(other, TAG, message, size, PVM_BYTE, NULL, NULL, NULL);
        return;
    }
    if (!spins)
        pvm_recv(other, TAG);
    else
        while (pvm_nrecv(other, TAG) == 0)
            ;
    pvm_upkbyte(message, size, 1);
}

static void put_many(const char *message, int size, int count)
{
    for (int i = 0; i < count; i++)
        put(message, size);
}

static void get_many(char *messages, int size, int count)
{
    for (int i = 0; i < count; i++)
        get(messages + (size_t)i * (size_t)size, size);
}

/* Until both are on the route that they want: some milliseconds. */
static void settle(int side)
{
    char byte = 0;
    for (int i = 0; i < 50; i++) {
        if (side == NEAR) {
            usleep(2000);
            put(&byte, 1);
            get(&byte, 1);
        } else {
            get(&byte, 1);
            put(&byte, 1);
        }
    }
}

/* A word that am-bench has set. */
static const char *word(const char *name)
{
    const char *word = getenv(name);
    return word ? word : "";
}

int main(int argc, char **argv)
{
    int side, parent;
    if (pvm_mytid() < 0)
        return 1;
    spins = strstr(word("AM_BENCH_WAY"), "spin") != NULL;
    is_packed = strstr(word("AM_BENCH_WAY"), "psend") == NULL;
    pvm_setopt(PvmRoute, strcmp(word("AM_BENCH_ROUTE"), "daemon") == 0 ? PvmDontRoute : PvmRouteDirect);
    parent = pvm_parent();
    side = parent < 0 ? NEAR : FAR;
    other = parent;
    if (side == NEAR) {
        pvm_export("AM_BENCH_CORES");
        pvm_export("AM_BENCH_ROUTE");
        pvm_export("AM_BENCH_WAY");
        if (pvm_spawn(argv[0], argv + 1, PvmTaskHost, (char *)word("AM_BENCH_HOST"), 1, &other) != 1) {
            fprintf(stderr, "pvm: no task on %s: %d\n", word("AM_BENCH_HOST"), other);
            pvm_exit();
            return 1;
        }
    }
    settle(side);
    measure(side, argc, argv);
    pvm_exit();
    return 0;
}
