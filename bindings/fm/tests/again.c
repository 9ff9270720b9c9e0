/* A wire in memory, whose ends come and go: the first, then the second, then both at once. */
#include "common.h"
#include <pthread.h>

#define WIRE "loopback:again"

static const char *const NAMES[] = {"alpha", "beta", "gamma"};
static int handled;
static volatile int is_over;

static void count(void *context, const FM_message *message)
{
    (void)context;
    EXPECT(message->i[0] == 7);
    handled++;
}

/* A node that stays. */
static void *stays(void *unused)
{
    EXPECT(FM_initialize(WIRE, 1, 2, NAMES) == 0);
    EXPECT(FM_set_handler(0, count, NULL) == 0);
    while (!is_over)
        EXPECT(FM_extract_or_wait(10) >= 0);
    EXPECT(FM_finalize() == 0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    for (int round = 0; round < 6; round++) {
        EXPECT(FM_initialize(WIRE, round % 2, 2, NAMES) == 0);
        EXPECT(FM_extract_or_wait(2) == 0);
        EXPECT(FM_finalize() == 0);
    }
    /* All have left, so the wire is gone, and another may have its name. */
    EXPECT(FM_initialize(WIRE, 2, 3, NAMES) == 0 && FM_finalize() == 0);
    EXPECT(pthread_create(&thread, NULL, stays, NULL) == 0);
    for (int round = 0; round < 6; round++) {
        EXPECT(FM_initialize(WIRE, 0, 2, NAMES) == 0);
        EXPECT(FM_initialize(WIRE, 1, 2, NAMES) == FM_E_INITIALIZED);
        EXPECT(FM_meet(60000) == 0);
        EXPECT(FM_send_4(1, 0, 7, 0, 0, 0) == 0);
        EXPECT(FM_finalize() == 0);
    }
    is_over = 1;
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(handled == 6);
    puts("opened again");
    return 0;
}
