/* Two nodes, a message to and fro: FM_send_4's round trip, then FM_send's.
 *
 *   make -C bindings/fm && sudo make -C bindings/fm install
 *   cc -std=c11 -O2 bindings/fm/examples/ping.c $(pkg-config --cflags --libs amfm) -lpthread -o ping
 *
 *   ./ping                        both nodes, in two threads, over a wire in memory
 *   ./ping 1 shm:lab              two processes of one machine: this,
 *   ./ping 0 shm:lab              and this
 *   sudo ./ping 1 xdp:eth1        on one machine
 *   sudo ./ping 0 xdp:eth1        on another
 *   ./ping 1 udp:10.0.0.8:7000,peer=10.0.0.7:7000        the same without AF_XDP and without root
 *   ./ping 0 udp:10.0.0.7:7000,peer=10.0.0.8:7000
 */
#include <fm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PING, PONG, ECHO, ECHOED, BYE }; /* handlers, by number */
enum { ROUNDS = 1000, PATIENCE_MS = 10000, EACH = 2048 };

static const char *const NAMES[] = {"alpha", "beta"};

struct state {
    uint64_t round; /* the last that was answered */
    int wrong;
    int over;
};

static void check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "ping: %s: %s: %s\n", what, FM_strerror(result), FM_error());
        exit(1);
    }
}

static void on_ping(void *context, const FM_message *message)
{
    (void)context;
    check(FM_send_4(message->node, PONG, message->i[0], 0, 0, 0), "answering");
}

static void on_pong(void *context, const FM_message *message)
{
    ((struct state *)context)->round = message->i[0];
}

static void on_echo(void *context, const FM_message *message)
{
    (void)context;
    check(FM_send(message->node, ECHOED, message->buf, message->size), "answering");
}

static void on_echoed(void *context, const FM_message *message)
{
    struct state *state = context;
    const unsigned char *bytes = message->buf;
    for (size_t at = 0; at < message->size; at++)
        state->wrong += bytes[at] != (unsigned char)(message->size + at);
    state->round = message->size;
}

static void on_bye(void *context, const FM_message *message)
{
    (void)message;
    ((struct state *)context)->over = 1;
}

static void wait_for(const struct state *state, uint64_t round)
{
    while (state->round != round)
        check(FM_extract(), "extracting");
}

static void echo(struct state *state, int size)
{
    unsigned char *bytes = malloc((size_t)size);
    if (!bytes)
        exit(1);
    for (int at = 0; at < size; at++)
        bytes[at] = (unsigned char)(size + at);
    check(FM_send(1, ECHO, bytes, (size_t)size), "sending");
    free(bytes);
    wait_for(state, (uint64_t)size);
}

static void ask(struct state *state)
{
    int most = FM_most(1), each = most < EACH ? most : EACH;
    check(most, "the size of a message");
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        check(FM_send_4(1, PING, round, 0, 0, 0), "sending");
        wait_for(state, round);
    }
    state->round = 0;
    for (int size = 1; size <= each; size++)
        echo(state, size);
    if (each < most)
        echo(state, most);
    check(FM_send_4(1, BYE, 0, 0, 0, 0), "sending");
    printf("%d round trips of four words, %d of 1 to %d bytes, %d bytes wrong\n", ROUNDS, each + (each < most), most,
           state->wrong);
}

static void run(int node, const char *transport)
{
    struct state state = {0, 0, 0};
    check(FM_initialize(transport, node, 2, NAMES), transport);
    check(FM_set_handler(PING, on_ping, &state), "PING");
    check(FM_set_handler(PONG, on_pong, &state), "PONG");
    check(FM_set_handler(ECHO, on_echo, &state), "ECHO");
    check(FM_set_handler(ECHOED, on_echoed, &state), "ECHOED");
    check(FM_set_handler(BYE, on_bye, &state), "BYE");
    check(FM_meet(PATIENCE_MS), "meeting");
    if (node == 0)
        ask(&state);
    else
        while (!state.over)
            check(FM_extract_or_wait(1000), "extracting");
    check(FM_finalize(), "leaving");
    if (state.wrong)
        exit(1);
}

static void *beta(void *transport)
{
    run(1, transport);
    return NULL;
}

int main(int count, char **arguments)
{
    static char memory[] = "loopback:ping";
    pthread_t thread;
    if (count == 3 && (!strcmp(arguments[1], "0") || !strcmp(arguments[1], "1"))) {
        run(atoi(arguments[1]), arguments[2]);
        return 0;
    }
    if (count != 1) {
        fprintf(stderr, "usage: ping | ping 0|1 TRANSPORT\n");
        return 2;
    }
    if (pthread_create(&thread, NULL, beta, memory))
        return 1;
    run(0, memory);
    pthread_join(thread, NULL);
    return 0;
}
