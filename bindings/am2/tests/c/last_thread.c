/* The last thread of the program ends with its node open: by pthread_exit, or cancelled in a call. */
#define _GNU_SOURCE
#include "common.h"
#include <pthread.h>
#include <unistd.h>

static void *cancels(void *thread)
{
    usleep(100000);
    EXPECT(pthread_cancel(*(pthread_t *)thread) == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    static pthread_t self, canceller;
    EXPECT(argc == 2);
    open_endpoint(AM_PAR);
    puts("open");
    fflush(stdout);
    if (strcmp(argv[1], "cancelled") == 0) {
        self = pthread_self();
        EXPECT(pthread_create(&canceller, NULL, cancels, &self) == 0 && pthread_detach(canceller) == 0);
        OK(AM_SetEventMask(bundle, AM_NOTEMPTY));
        for (;;)
            OK(AM_WaitSema(bundle));
    }
    pthread_exit(NULL);
}
