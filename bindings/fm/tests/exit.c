/* A handler ends the program. */
#include <fm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const NAMES[] = {"alpha", "beta"};

static void on_end(void *context, const FM_message *message)
{
    (void)context;
    (void)message;
    printf("out of a handler\n");
    exit(0);
}

static void *beta(void *unused)
{
    FM_initialize("loopback:exit", 1, 2, NAMES);
    if (FM_meet(10000) == 0)
        FM_send_4(0, 0, 0, 0, 0, 0);
    while (FM_extract_or_wait(1000) >= 0)
        ;
    return unused;
}

int main(void)
{
    pthread_t thread;
    if (FM_initialize("loopback:exit", 0, 2, NAMES) || FM_set_handler(0, on_end, NULL))
        return 1;
    if (pthread_create(&thread, NULL, beta, NULL))
        return 1;
    while (FM_extract_or_wait(1000) >= 0)
        ;
    return 1;
}
