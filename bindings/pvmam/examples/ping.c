/* Two tasks, a request and its reply to and fro; then messages of many lengths, each in two parts.
 *
 *   make -C bindings/pvmam && sudo make -C bindings/pvmam install
 *   cc -std=c11 -O2 bindings/pvmam/examples/ping.c $(pkg-config --cflags --libs pvmam) -o ping
 *
 *   ./ping                        both tasks on this host, over AM_TRANSPORT, or shared memory and UDP without it
 *   AM_TRANSPORT=udp ./ping       the same over UDP
 *   ./ping 1                      two processes, also on two hosts: each prints its address, and reads that of the other one
 *   ./ping 0                      from its standard input
 */
#define _POSIX_C_SOURCE 200809L
#include <pvmam.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 1000, LONGEST = 1 << 20, FIRST_TID = 0x40001 };

static int PING, PONG, BYE; /* identifiers: the same in both tasks, as both insert in this order */
static long answers, bytes;
static int is_over, wrong;

static void check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "ping: %s: %s\n", what, am_error());
        exit(1);
    }
}

static void on_ping(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    check(am_reply(interface, header, PONG, data, length), "replying");
}

static void on_pong(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    const unsigned char *sent = data;
    (void)interface;
    (void)header;
    for (size_t at = 0; at < length; at++)
        wrong += sent[at] != (unsigned char)(length + at);
    answers++;
    bytes = (long)length;
}

static void on_bye(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    (void)interface;
    (void)data;
    is_over = header->from_task == FIRST_TID && length == 0;
}

/* Wait for this number of answers. */
static void wait_for(am_interface *interface, long count)
{
    while (answers < count)
        check(am_wait(interface, 1000), "waiting");
}

static void ask(am_interface *interface, int tid)
{
    unsigned char *data = malloc(LONGEST);
    long count = 0;
    if (!data)
        exit(1);
    for (; count < ROUNDS; count++) {
        check(am_request(interface, tid, PING, NULL, 0), "asking");
        wait_for(interface, count + 1);
    }
    for (size_t length = 1; length <= LONGEST; length *= 4, count++) {
        struct iovec parts[2] = {{data, length / 2}, {data + length / 2, length - length / 2}};
        for (size_t at = 0; at < length; at++)
            data[at] = (unsigned char)(length + at);
        check(am_request_vdata(interface, tid, PING, parts, 2), "asking");
        wait_for(interface, count + 1);
    }
    check(am_request(interface, tid, BYE, NULL, 0), "taking leave");
    printf("%d round trips without data, %ld of up to %ld bytes, %d bytes wrong\n", ROUNDS, count - ROUNDS, bytes, wrong);
    free(data);
}

/* Task 0 or 1, which writes its address there and reads that of the other one here. */
static int run(int own, FILE *here, FILE *there)
{
    static char name[4096];
    am_info info = {0, 0, 0, 0};
    am_interface *interface;
    am_endpoint *other;
    int tid = FIRST_TID + 1 - own;

    info.tid = FIRST_TID + own;
    check(am_global_init(), "the table");
    check(PING = am_handler_to_id(on_ping), "a handler");
    check(PONG = am_handler_to_id(on_pong), "a handler");
    check(BYE = am_handler_to_id(on_bye), "a handler");
    interface = am_init(NULL, &info);
    if (!interface)
        check(am_error_code(), "a transport");

    fprintf(there, "%s\n", am_task_address(interface, info.tid));
    fflush(there);
    if (!fgets(name, sizeof name, here))
        exit(1);
    name[strcspn(name, "\n")] = 0;

    other = am_allocate_task(interface);
    if (own == 0)
        check(am_connect_task(interface, other, name), "connecting");
    else
        check(am_accept_task(interface, other, name), "accepting");
    check(am_insert_task(interface, other, tid), "the list of tasks");

    if (own == 0)
        ask(interface, tid);
    else
        while (!is_over)
            check(am_wait(interface, 1000), "waiting");
    check(am_deallocate_task(interface, other), "the end of a connection");
    check(am_shutdown(interface), "the end");
    check(am_global_shutdown(), "the end of the table");
    return wrong != 0;
}

int main(int count, char **arguments)
{
    int to_first[2], to_second[2], status = 1, result;
    pid_t child;
    if (count == 2 && (!strcmp(arguments[1], "0") || !strcmp(arguments[1], "1")))
        return run(atoi(arguments[1]), stdin, stdout);
    if (count != 1) {
        fprintf(stderr, "usage: ping | ping 0|1\n");
        return 2;
    }
    if (pipe(to_first) || pipe(to_second))
        return 1;
    /* Before there is an interface. */
    child = fork();
    if (child == 0) {
        /* It ends with its parent at the latest. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(to_first[0]);
        close(to_second[1]);
        return run(1, fdopen(to_second[0], "r"), fdopen(to_first[1], "w"));
    }
    close(to_first[1]);
    close(to_second[0]);
    result = run(0, fdopen(to_first[0], "r"), fdopen(to_second[1], "w"));
    waitpid(child, &status, 0);
    return result || status;
}
