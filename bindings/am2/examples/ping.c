/* Each process asks the next one, and one is answered: round trips, a medium message, a transfer.
 *
 *   make -C bindings/am2 && sudo make -C bindings/am2 install && sudo ldconfig
 *   cc -std=c11 -O2 bindings/am2/examples/ping.c $(pkg-config --cflags --libs am2) -o ping
 *   cargo build --release -p am-run
 *
 *   ./ping                                   alone: a process talks to itself
 *   target/release/am-run -n 4 ./ping        over UDP
 *   target/release/am-run -n 4 --transport shm ./ping
 *   mpirun -n 4 ./ping
 */
#include <am.h>
#include <am_spmd.h>
#include <stdio.h>
#include <stdlib.h>

enum { ERROR, PING, PONG, TEXT, LONG, DONE }; /* handlers, by number */
enum { ROUNDS = 1000, BYTES = 100000, TAG = 1998 };

static volatile int answers, wrong;
static unsigned char segment[BYTES];

static void check(int code, const char *what)
{
    if (code != AM_OK) {
        fprintf(stderr, "ping: %s: %s\n", what, AM2_ErrorText(code));
        exit(1);
    }
}

static void on_error(int status, op_t opcode, void *argblock)
{
    const am_argblock_t *block = argblock;
    fprintf(stderr, "ping: a message (%d) to handler %d came back: %s\n", opcode, block->handler,
            AM2_StatusText(status));
    exit(1);
}

static void on_ping(void *token, int32_t number)
{
    check(AM_Reply2(token, PONG, number, number + 1), "replying");
}

static void on_pong(void *token, int32_t number, int32_t next)
{
    (void)token;
    wrong += next != number + 1;
    answers++;
}

static void on_text(void *token, void *buf, int nbytes, int32_t sum)
{
    const unsigned char *bytes = buf;
    for (int at = 0; at < nbytes; at++)
        sum -= bytes[at];
    check(AM_Reply1(token, DONE, sum), "replying");
}

static void on_done(void *token, int32_t difference)
{
    (void)token;
    wrong += difference != 0;
    answers++;
}

static void wait_for(eb_t bundle, int count)
{
    while (answers < count) {
        check(AM_WaitSema(bundle), "waiting");
        check(AM_Poll(bundle), "polling");
    }
}

int main(void)
{
    eb_t bundle;
    ep_t endpoint;
    en_t name;
    static unsigned char data[BYTES];
    int32_t sum = 0, short_sum = 0;

    check(AM_Init(), "AM_Init");
    check(AM_AllocateBundle(AM_SEQ, &bundle), "a bundle");
    check(AM_AllocateEndpoint(bundle, &endpoint, &name), "an endpoint");
    check(AM_SetTag(endpoint, TAG), "the tag");
    check(AM_SetSeg(endpoint, segment, sizeof segment), "the segment");
    check(AM_SetEventMask(bundle, AM_NOTEMPTY), "the event mask");
    check(AM_SetHandler(endpoint, ERROR, on_error), "a handler");
    check(AM_SetHandler(endpoint, PING, on_ping), "a handler");
    check(AM_SetHandler(endpoint, PONG, on_pong), "a handler");
    check(AM_SetHandler(endpoint, TEXT, on_text), "a handler");
    check(AM_SetHandler(endpoint, LONG, on_text), "a handler");
    check(AM_SetHandler(endpoint, DONE, on_done), "a handler");
    check(AM2_SpmdMap(endpoint, TAG), "the others");

    int next = (AM2_SpmdRank() + 1) % AM2_SpmdSize();
    for (int round = 1; round <= ROUNDS; round++) {
        check(AM_Request1(endpoint, next, PING, round), "requesting");
        wait_for(bundle, round);
    }
    for (int at = 0; at < BYTES; at++) {
        data[at] = (unsigned char)(at / 3);
        sum += data[at];
        short_sum += at < AM_MaxMedium() ? data[at] : 0;
    }
    check(AM_RequestI1(endpoint, next, TEXT, data, AM_MaxMedium(), short_sum), "requesting");
    check(AM_RequestXfer1(endpoint, next, 0, LONG, data, BYTES, sum), "transferring");
    wait_for(bundle, ROUNDS + 2);
    check(AM2_SpmdBarrier(), "the others");
    printf("rank %d of %d: %d answers, %d wrong\n", AM2_SpmdRank(), AM2_SpmdSize(), answers, wrong);
    check(AM_Terminate(), "AM_Terminate");
    return wrong != 0;
}
