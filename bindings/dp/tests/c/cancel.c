/* Threads that are cancelled while they read, write, connect and close. The lock is free afterwards, and nothing is lost. */
#define _GNU_SOURCE
#include "common.h"
#include <pthread.h>

enum { ROUNDS = 20 };

static int reader, writer;
static volatile int is_ready, cleaned;
static char message[2000];

static void clean(void *unused) {
    (void)unused;
    cleaned++;
}

static void *reads(void *unused) {
    char one[2000];
    pthread_cleanup_push(clean, NULL);
    is_ready = 1;
    for (;;)
        CHECK(dp_unix_read(reader, one, sizeof one) == -1);
    pthread_cleanup_pop(0);
    return unused;
}

static void *writes(void *unused) {
    pthread_cleanup_push(clean, NULL);
    is_ready = 1;
    for (;;)
        CHECK(dp_unix_write(writer, message, sizeof message) == sizeof message);
    pthread_cleanup_pop(0);
    return unused;
}

static void *connects(void *unused) {
    pthread_cleanup_push(clean, NULL);
    is_ready = 1;
    for (;;)
        dp_connect(writer, 0, 4711);
    pthread_cleanup_pop(0);
    return unused;
}

static void *opens(void *unused) {
    pthread_cleanup_push(clean, NULL);
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    is_ready = 1;
    for (;;)
        CHECK(dp_nid() == 0 && !dp_is_point(-1));
    pthread_cleanup_pop(0);
    return unused;
}

static void cancel(void *(*run)(void *), int round) {
    pthread_t thread;
    void *said;
    int before = cleaned;
    is_ready = 0;
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
    while (!is_ready)
        usleep(100);
    usleep((useconds_t)(rand() % (1 + round * 200)));
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &said) == 0);
    /* glibc does not say so where an asynchronous cancel acts in pthread_setcancelstate. */
    CHECK((said == PTHREAD_CANCELED || run == opens) && cleaned == before + 1);
}

int main(void) {
    reader = dp_open_pool(1, 65536);
    writer = dp_open(2);
    CHECK(reader >= 0 && writer >= 0);
    for (int round = 0; round < ROUNDS; round++) {
        cancel(reads, round);
        cancel(connects, round);
        cancel(opens, round);
        CHECK(dp_connect(writer, 0, 1) == 0);
        /* It fills the pool, and waits for room. */
        cancel(writes, round);
        char *address;
        for (int length = 1; length > 0;) {
            length = dp_read(reader, &address);
            CHECK(length == 0 || length == sizeof message);
            CHECK(length == 0 || dp_fsync(reader, 1) == 0);
        }
        /* The last message may have been on its way. */
        put(writer, "end", 3);
        int length;
        while ((length = next(reader, &address)) == sizeof message)
            CHECK(dp_fsync(reader, 1) == 0);
        CHECK(length == 3 && dp_fsync(reader, 1) == 0);
    }
    CHECK(dp_close(writer) == 0 && dp_close(reader) == 0);
    puts("the process is still there");
    return 0;
}
