/* Two tasks of a PVM with a direct route between them: the one that is started is
 * near, and starts the other on the host "beta". See measure.h. With AM_BENCH_SLEEP=1
 * they block in pvm_recv instead of polling. */
#include "measure.h"

#include <pvm3.h>

enum { TAG = 1 };

static int other, sleeps;

static void put(const char *message, int size)
{
    pvm_initsend(PvmDataInPlace);
    pvm_pkbyte((char *)message, size, 1);
    pvm_send(other, TAG);
}

static void get(char *message, int size)
{
    if (sleeps)
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

int main(int argc, char **argv)
{
    const char *sleep = getenv("AM_BENCH_SLEEP");
    int side, parent;
    if (pvm_mytid() < 0)
        return 1;
    sleeps = sleep && *sleep == '1';
    pvm_setopt(PvmRoute, PvmRouteDirect);
    parent = pvm_parent();
    side = parent < 0 ? NEAR : FAR;
    other = parent;
    if (side == NEAR) {
        pvm_export("AM_BENCH_CORES");
        pvm_export("AM_BENCH_SLEEP");
        if (pvm_spawn(argv[0], argv + 1, PvmTaskHost, "beta", 1, &other) != 1) {
            fprintf(stderr, "pvm: no task on beta: %d\n", other);
            pvm_exit();
            return 1;
        }
    }
    measure(side, argc, argv);
    pvm_exit();
    return 0;
}
