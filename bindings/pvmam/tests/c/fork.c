/* A forked child that exits leaves its parent's connections as they are; its calls are refused.
 *
 *   fork 1|2
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"
#include <sys/wait.h>
#include <unistd.h>

static int TURN;
static int got, returned;
static am_endpoint *endpoint;

static void on_turn(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(interface && header && data && length == 0);
    got++;
}

static void on_returned(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(interface && header && data && length == 0);
    returned++;
}

static void child(am_interface *interface)
{
    FAILS(am_global_init(), AM_E_FORKED);
    FAILS(am_global_shutdown(), AM_E_FORKED);
    FAILS(am_address_to_id(&got), AM_E_FORKED);
    FAILS(am_handler_to_id(on_turn), AM_E_FORKED);
    FAILS(am_bind_address_with_id(&got, TURN), AM_E_FORKED);
    FAILS(am_bind_handler_with_id(on_turn, TURN), AM_E_FORKED);
    IS_NULL(am_id_to_address(TURN), AM_E_FORKED);
    IS_NULL(am_init("udp", NULL), AM_E_FORKED);
    FAILS(am_shutdown(interface), AM_E_FORKED);
    IS_NULL(am_task_address(interface, 1), AM_E_FORKED);
    IS_NULL(am_hostname(interface, 1), AM_E_FORKED);
    IS_NULL(am_allocate_task(interface), AM_E_FORKED);
    FAILS(am_connect_task(interface, endpoint, "x"), AM_E_FORKED);
    FAILS(am_accept_task(interface, endpoint, "x"), AM_E_FORKED);
    FAILS(am_insert_task(interface, endpoint, 9), AM_E_FORKED);
    FAILS(am_remove_task(interface, 2), AM_E_FORKED);
    FAILS(am_deallocate_task(interface, endpoint), AM_E_FORKED);
    FAILS(am_request(interface, 2, TURN, NULL, 0), AM_E_FORKED);
    FAILS(am_request_ep(interface, endpoint, TURN, NULL, 0), AM_E_FORKED);
    FAILS(am_request_vdata(interface, 2, TURN, NULL, 0), AM_E_FORKED);
    FAILS(am_request_vdata_ep(interface, endpoint, TURN, NULL, 0), AM_E_FORKED);
    FAILS(am_reply(interface, NULL, TURN, NULL, 0), AM_E_FORKED);
    FAILS(am_reply_vdata(interface, NULL, TURN, NULL, 0), AM_E_FORKED);
    FAILS(am_poll(interface), AM_E_FORKED);
    FAILS(am_wait(interface, 1), AM_E_FORKED);
    FAILS(am_set_returned(interface, NULL), AM_E_FORKED);
    SAYS("forked");
    exit(7);
}

static void fork_one(am_interface *interface)
{
    int status;
    pid_t pid;
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        child(interface);
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* Each sends the other one a message after each that it got. Task 1 forks meanwhile. */
int main(int count, char **arguments)
{
    int own = count == 2 ? atoi(arguments[1]) : 0, status;
    pid_t pid;
    am_interface *interface;
    EXPECT(am_global_init() == 0 && (own == 1 || own == 2));
    TURN = am_handler_to_id(on_turn);
    interface = open_interface(NULL, own, 60000);
    EXPECT(am_set_returned(interface, on_returned) == 0);
    endpoint = meet(interface, own);
    for (int round = 0; round < 200; round++) {
        EXPECT(am_request(interface, 3 - own, TURN, NULL, 0) == 0);
        while (got <= round)
            EXPECT(am_wait(interface, 1000) >= 0 && returned == 0);
        if (own == 1 && round == 100)
            fork_one(interface);
    }
    EXPECT(am_shutdown(interface) == 0);
    /* The process has no interface any more. */
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        exit(am_init("udp:127.0.0.1:0", NULL) != NULL ? 0 : 1);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    puts("200 rounds");
    return 0;
}
