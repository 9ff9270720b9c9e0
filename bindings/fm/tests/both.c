/* A program that is C and C++: two nodes on a wire in memory, and each kind of call. */
#include "common.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* A conversion in both languages. */
#ifdef __cplusplus
#define AS(type, value) static_cast<type>(value)
#else
#define AS(type, value) ((type)(value))
#endif

enum { ECHO, ANSWER, MISSING };

static const char *const names[] = {"alpha", "beta"};
static int is_over, has_left, came_back;

static void on_echo(void *context, const FM_message *message)
{
    (void)context;
    EXPECT((message->size > 0 ? FM_send(message->node, ANSWER, message->buf, message->size)
                              : FM_send_4(message->node, ANSWER, message->i[0], message->i[1], message->i[2], message->i[3])) == 0);
}

static void on_answer(void *context, const FM_message *message)
{
    int *answers = AS(int *, context);
    printf("node %d, handler %d, %lu bytes, words %d %d %d %d\n", message->node, message->handler, AS(unsigned long, message->size),
           AS(int, message->i[0]), AS(int, message->i[1]), AS(int, message->i[2]), AS(int, message->i[3]));
    ++*answers;
}

static void on_returned(void *context, const FM_message *message)
{
    EXPECT(context == NULL);
    printf("came back: handler %d\n", message->handler);
    came_back = 1;
}

static void *serve(void *unused)
{
    EXPECT(FM_initialize("loopback:both", 1, 2, names) == 0);
    EXPECT(FM_set_handler(ECHO, on_echo, NULL) == 0);
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
        EXPECT(FM_extract_or_wait(10) >= 0);
    EXPECT(FM_finalize() == 0);
    __atomic_store_n(&has_left, 1, __ATOMIC_RELEASE);
    return unused;
}

int main(void)
{
    pthread_t thread;
    int answers = 0;
    EXPECT(FM_extract() == FM_E_NOT_INITIALIZED);
    printf("%s\n", FM_strerror(FM_E_NOT_INITIALIZED));
    EXPECT(pthread_create(&thread, NULL, serve, NULL) == 0);
    EXPECT(FM_initialize("loopback:both", 0, 2, names) == 0);
    EXPECT(FM_set_handler(ANSWER, on_answer, &answers) == 0);
    EXPECT(FM_set_returned(on_returned, NULL) == 0);
    EXPECT(FM_meet(60000) == 0);
    EXPECT(FM_node() == 0 && FM_nodes() == 2 && FM_most(1) > 0);
    EXPECT(FM_send_4(1, ECHO, 1, 2, 3, 4) == 0);
    while (answers < 1)
        EXPECT(FM_extract_or_wait(10) >= 0);
    EXPECT(FM_send(1, ECHO, "bytes", 5) == 0);
    while (answers < 2)
        EXPECT(FM_extract_or_wait(10) >= 0);
    EXPECT(FM_send_4(1, MISSING, 0, 0, 0, 0) == 0);
    while (!came_back)
        EXPECT(FM_extract_or_wait(10) >= 0);
    EXPECT(FM_counter("returned") == 1);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    /* The other node waits until this one has taken what it sent. */
    while (!__atomic_load_n(&has_left, __ATOMIC_ACQUIRE))
        EXPECT(FM_extract_or_wait(10) >= 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(FM_finalize() == 0);
    printf("the same in both languages\n");
    return 0;
}
