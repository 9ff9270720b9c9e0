/* The first thread ends by pthread_exit, and the process with the last one: no thread of the library's keeps it. */
#include "common.h"
#include <pthread.h>

static void *works(void *transport)
{
    static const char *const NAMES[] = {"alpha", "beta"};
    EXPECT(FM_initialize(transport, 0, 2, NAMES) == 0 && FM_extract_or_wait(300) == 0 && FM_finalize() == 0);
    puts("the last thread ends");
    return NULL;
}

int main(void)
{
    static char transport[] = "udp:127.0.0.1:0";
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, works, transport) == 0);
    pthread_exit(NULL);
}
