/* Everything that can be done wrong, and what comes of it. */
#include <fm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ECHO, BACK, IN, BYE, NOBODY = 77 };

static const char *const NAMES[] = {"alpha", "beta", "gamma"};
static const char *const TWICE[] = {"alpha", "alpha"};
static const char *const HOLE[] = {"alpha", NULL};
static char bytes[4096];
static int back, in_handler, over;

static void expect(int line, const char *what, long long got, long long wanted)
{
    if (got != wanted) {
        printf("line %d: %s is %lld (%s), not %lld\n", line, what, got, FM_error(), wanted);
        exit(1);
    }
    if (wanted < 0 && (!*FM_error() || !*FM_strerror((int)wanted))) {
        printf("line %d: %s says nothing\n", line, what);
        exit(1);
    }
}
#define EXPECT(call, wanted) expect(__LINE__, #call, call, wanted)
#define SAYS(text)                                                                                                     \
    if (!strstr(FM_error(), text))                                                                                     \
    printf("line %d: \"%s\" does not say %s\n", __LINE__, FM_error(), text), exit(1)

static void on_echo(void *context, const FM_message *message)
{
    (void)context;
    FM_send(message->node, BACK, message->buf, message->size);
}

static void on_back(void *context, const FM_message *message)
{
    *(int *)context += 1 + (int)message->size;
}

static void on_bye(void *context, const FM_message *message)
{
    *(int *)context = message->node == 0;
}

static void on_in(void *context, const FM_message *message)
{
    EXPECT(FM_extract(), FM_E_IN_HANDLER);
    EXPECT(FM_extract_or_wait(1), FM_E_IN_HANDLER);
    EXPECT(FM_finalize(), FM_E_IN_HANDLER);
    EXPECT(FM_meet(1), FM_E_IN_HANDLER);
    EXPECT(FM_initialize("loopback:other", 0, 2, NAMES), FM_E_IN_HANDLER);
    EXPECT(FM_set_handler(IN, on_in, NULL), FM_E_IN_HANDLER);
    EXPECT(FM_set_returned(on_in, NULL), FM_E_IN_HANDLER);
    EXPECT(FM_most(1), FM_E_IN_HANDLER);
    EXPECT(FM_counter("unhandled"), FM_E_IN_HANDLER);
    EXPECT(FM_send_4(0, BACK, 0, 0, 0, 0), FM_E_DEST);
    EXPECT(FM_send_4(1, 256, 0, 0, 0, 0), FM_E_HANDLER);
    EXPECT(FM_send(1, BACK, bytes, sizeof bytes), FM_E_TOO_LARGE);
    EXPECT(FM_node(), 0);
    EXPECT(FM_nodes(), 2);
    EXPECT(message->node, 1);
    EXPECT(message->handler, IN);
    EXPECT(message->buf != NULL, 1);
    *(int *)context = 1;
}

/* On a thread without a node. */
static void *stranger(void *unused)
{
    EXPECT(FM_send_4(1, ECHO, 0, 0, 0, 0), FM_E_NOT_INITIALIZED);
    SAYS("FM_initialize");
    EXPECT(FM_send(1, ECHO, bytes, 1), FM_E_NOT_INITIALIZED);
    EXPECT(FM_extract(), FM_E_NOT_INITIALIZED);
    EXPECT(FM_extract_or_wait(1), FM_E_NOT_INITIALIZED);
    EXPECT(FM_set_handler(IN, on_in, NULL), FM_E_NOT_INITIALIZED);
    EXPECT(FM_set_returned(on_in, NULL), FM_E_NOT_INITIALIZED);
    EXPECT(FM_meet(1), FM_E_NOT_INITIALIZED);
    EXPECT(FM_most(1), FM_E_NOT_INITIALIZED);
    EXPECT(FM_node(), FM_E_NOT_INITIALIZED);
    EXPECT(FM_nodes(), FM_E_NOT_INITIALIZED);
    EXPECT(FM_counter("unhandled"), FM_E_NOT_INITIALIZED);
    EXPECT(FM_finalize(), FM_E_NOT_INITIALIZED);
    return unused;
}

static void on_another_thread(void *(*run)(void *), pthread_t *thread)
{
    pthread_t own;
    EXPECT(pthread_create(thread ? thread : &own, NULL, run, NULL), 0);
    if (!thread)
        pthread_join(own, NULL);
}

static void *beta(void *unused)
{
    EXPECT(FM_initialize("loopback:misuse", 1, 2, NAMES), 0);
    EXPECT(FM_set_handler(ECHO, on_echo, NULL), 0);
    EXPECT(FM_set_handler(BYE, on_bye, &over), 0);
    EXPECT(FM_meet(10000), 0);
    EXPECT(FM_send(0, IN, NULL, 0), 0);
    while (!over)
        EXPECT(FM_extract_or_wait(1000) >= 0, 1);
    EXPECT(FM_counter("no_handler"), 1);
    EXPECT(FM_finalize(), 0);
    return unused;
}

static void initialize(void)
{
    EXPECT(FM_initialize(NULL, 0, 2, NAMES), FM_E_ARGUMENT);
    EXPECT(FM_initialize("loopback:misuse", 0, 2, NULL), FM_E_ARGUMENT);
    EXPECT(FM_initialize("loopback:misuse", 0, 2, HOLE), FM_E_ARGUMENT);
    SAYS("names[1]");
    EXPECT(FM_initialize("loopback:misuse", -1, 2, NAMES), FM_E_ARGUMENT);
    EXPECT(FM_initialize("loopback:misuse", 0, -1, NAMES), FM_E_ARGUMENT);
    EXPECT(FM_initialize("loopback:misuse", 0, 2, TWICE), FM_E_NODES);
    EXPECT(FM_initialize("loopback:misuse", 2, 2, NAMES), FM_E_NODES);
    EXPECT(FM_initialize("loopback:misuse", 0, 0, NAMES), FM_E_NODES);
    EXPECT(FM_initialize("loopback:misuse", 0, 1, NAMES), FM_E_TRANSPORT);
    EXPECT(FM_initialize("token-ring", 0, 2, NAMES), FM_E_TRANSPORT);
    EXPECT(FM_initialize("ring:eth1", 0, 2, NAMES), FM_E_TRANSPORT);
    SAYS("xdp:eth1");
    SAYS("loopback:NAME");
    EXPECT(FM_initialize("tcp:eth1", 0, 2, NAMES), FM_E_TRANSPORT);
    SAYS("eth1");
    EXPECT(FM_initialize("xdp:no-such-one", 0, 2, NAMES), FM_E_TRANSPORT);
    EXPECT(FM_initialize("loopback:misuse", 0, 2, NAMES), 0);
    EXPECT(FM_initialize("loopback:misuse", 0, 2, NAMES), FM_E_INITIALIZED);
    EXPECT(FM_set_handler(-1, on_in, NULL), FM_E_HANDLER);
    EXPECT(FM_set_handler(256, on_in, NULL), FM_E_HANDLER);
    EXPECT(FM_set_handler(IN, NULL, NULL), FM_E_ARGUMENT);
    EXPECT(FM_set_returned(NULL, NULL), FM_E_ARGUMENT);
    EXPECT(FM_set_handler(IN, on_in, &in_handler), 0);
    EXPECT(FM_set_handler(BACK, on_back, &back), 0);
}

static void send_wrongly(void)
{
    EXPECT(FM_send_4(-1, ECHO, 0, 0, 0, 0), FM_E_DEST);
    EXPECT(FM_send_4(2, ECHO, 0, 0, 0, 0), FM_E_DEST);
    SAYS("the list has 2");
    EXPECT(FM_send_4(0, ECHO, 0, 0, 0, 0), FM_E_DEST);
    SAYS("call the function");
    EXPECT(FM_send_4(1, -1, 0, 0, 0, 0), FM_E_HANDLER);
    EXPECT(FM_send(1, 256, bytes, 1), FM_E_HANDLER);
    EXPECT(FM_send(1, ECHO, NULL, 1), FM_E_ARGUMENT);
    EXPECT(FM_send(1, ECHO, bytes, (size_t)FM_most(1) + 1), FM_E_TOO_LARGE);
    SAYS("in parts");
    EXPECT(FM_send(1, ECHO, bytes, SIZE_MAX), FM_E_TOO_LARGE);
    EXPECT(FM_meet(-1), FM_E_ARGUMENT);
    EXPECT(FM_extract_or_wait(-1), FM_E_ARGUMENT);
    EXPECT(FM_counter(NULL), FM_E_ARGUMENT);
}

int main(void)
{
    pthread_t other;
    stranger(NULL);
    initialize();
    EXPECT(FM_extract(), 0);
    EXPECT(FM_meet(0), FM_E_TIMEOUT);
    on_another_thread(stranger, NULL);
    on_another_thread(beta, &other);
    EXPECT(FM_meet(10000), 0);
    EXPECT(FM_most(1) >= 1488, 1);
    send_wrongly();
    EXPECT(FM_send(1, ECHO, NULL, 0), 0);
    EXPECT(FM_send(1, ECHO, bytes, (size_t)FM_most(1)), 0);
    while (back != 2 + FM_most(1) || !in_handler)
        EXPECT(FM_extract() >= 0, 1);
    EXPECT(FM_send_4(1, NOBODY, 0, 0, 0, 0), 0);
    EXPECT(FM_send_4(1, BYE, 0, 0, 0, 0), 0);
    EXPECT(FM_finalize(), 0);
    EXPECT(FM_finalize(), FM_E_NOT_INITIALIZED);
    pthread_join(other, NULL);
    EXPECT(*FM_strerror(0) && *FM_strerror(-99), 1);
    printf("all as it should be\n");
    return 0;
}
