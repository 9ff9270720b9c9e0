/* The active messages of PVMAM (Mucci: "An Efficient Transport Independent Active Messaging Implementation for PVM",
 * 1998, Appendix B), over any transport by its name.
 *
 *   am_global_init()                                  the table of address identifiers
 *   am_address_to_id(handler)                         a function that messages may name
 *   am_init(transport, info)                          an interface on a transport
 *   am_task_address(interface, tid)                   this task's address, for other tasks
 *   am_allocate_task, am_connect_task or am_accept_task, am_insert_task             another task, by its address
 *   am_request(interface, tid, handler, data, length)        runs the handler there
 *   am_reply(interface, header, handler, data, length)       from that handler, runs one here
 *   am_poll(interface)                                runs the handlers of what has arrived
 *
 * A whole program is bindings/pvmam/examples/ping.c; docs/pvmam.md says what differs from the paper, and why. To build one:
 *
 *   make -C bindings/pvmam && sudo make -C bindings/pvmam install        (PREFIX=/usr/local; DESTDIR as usual)
 *   cc -std=c11 -O2 program.c $(pkg-config --cflags --libs pvmam) -o program
 *
 * Where the loader does not look in PREFIX/lib, LD_LIBRARY_PATH=PREFIX/lib tells it, or -Wl,-rpath,PREFIX/lib at the link.
 *
 * It is C99 and C++11, and later ones of both.
 *
 * ERRORS. A call that returns `int` returns a negative AM_E_... if it fails; one that returns a pointer returns NULL.
 * am_error() then has a text that says what to do, and am_error_code() the number. No call ends the program.
 *
 * POINTERS. Interfaces and endpoints are names, not memory. A stale one, or one of another thread, is an error.
 *
 * THREADS. An interface belongs to the thread that called am_init, and ends with it. Each thread may have several. The table
 * of identifiers is one for the process.
 *
 * HANDLERS run in calls that poll: am_poll and am_wait for their interface, and, while they wait, am_request, am_connect_task,
 * am_accept_task, am_deallocate_task and am_shutdown for all interfaces of the thread. Never two at once on a thread. A handler
 *   - may reply to its request, once, while it runs;
 *   - may call am_address_to_id, am_id_to_address and their like, am_allocate_task, am_insert_task, am_remove_task,
 *     am_task_address, am_hostname, am_set_returned, am_error. Every other call returns AM_E_IN_HANDLER: a handler waits for nothing;
 *   - must return, or end its thread by pthread_exit, which acts at the end of the call that ran it. No longjmp may leave it. A
 *     C++ exception that leaves it ends the program by abort(), with a line on standard error;
 *   - has its header and data until it returns, and no longer.
 *
 * DELIVERY. Each message is handled once, or comes back to am_set_returned's function. Requests to a task are handled there
 * in the order in which they were sent, and so are replies.
 *
 * WAITING. A request waits where the receiver has no room; a receiver makes room by polling. A task that computes and does not
 * poll makes others wait, and is not taken for dead.
 *
 * CANCEL. pthread_cancel acts when a call begins, and in calls that wait, a tenth of a second late at most.
 *
 * FORK. After fork() the interfaces are the parent's: in the child every call returns AM_E_FORKED until exec, and its exit
 * leaves the parent's connections as they are. A child that is forked in a handler must not return from it. Fork before the
 * first am_init, or after the last am_shutdown.
 *
 * DESCRIPTORS. An interface has descriptors of its own, with high numbers. A program that closes them, as by closefrom(3), ends
 * its interfaces: am_poll returns AM_E_LOST, and am_init opens another one.
 */
#ifndef PVMAM_H
#define PVMAM_H

#include <stddef.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What calls return if they fail. */
enum {
    AM_E_ARGUMENT = -1,        /* a wrong argument */
    AM_E_NOT_INITIALIZED = -2, /* before am_global_init */
    AM_E_INITIALIZED = -3,     /* am_global_init was called already */
    AM_E_TRANSPORT = -4,       /* the transport could not be opened */
    AM_E_SHUTDOWN = -5,        /* the interface has been shut down */
    AM_E_THREAD = -6,          /* it belongs to another thread */
    AM_E_FORKED = -7,          /* in a child after fork(): it is the parent's */
    AM_E_IN_HANDLER = -8,      /* not from within a handler */
    AM_E_ID = -9,              /* no such identifier; no handler has this number */
    AM_E_FULL = -10,           /* the identifiers are used up */
    AM_E_TASK = -11,           /* no task of that tid in the list, or there is one already */
    AM_E_ENDPOINT = -12,       /* no such endpoint */
    AM_E_CONNECTED = -13,      /* it is connected already */
    AM_E_NOT_CONNECTED = -14,  /* it is not connected */
    AM_E_ADDRESS = -15,        /* no address of a task, or not to be reached by this transport */
    AM_E_REPLY = -16,          /* no reply is possible with this header */
    AM_E_TOO_LARGE = -17,      /* more than a message carries */
    AM_E_UNREACHABLE = -18,    /* the task is not there, or not any more */
    AM_E_TIMEOUT = -19,        /* the time was over */
    AM_E_LOST = -20,           /* the program has closed the interface's descriptors */
    AM_E_OPEN = -21,           /* interfaces are open */
    AM_E_INTERNAL = -22        /* a bug of the library */
};

typedef struct am_interface am_interface;
typedef struct am_endpoint am_endpoint;

/* Kinds of messages: the `type` of a header. */
enum {
    AM_REQUEST = 1,
    AM_REPLY = 2,
    AM_RETURNED_REQUEST = 3, /* a request of this task that came back, and a reply */
    AM_RETURNED_REPLY = 4
};

/* The header of a message, as long as its handler runs. */
typedef struct am_header {
    int from_task;       /* the task that sent it: its tid in the list of tasks, or the one that it has given itself. Of a
                          * message that came back, the task that it was for; 0 if that is in no list */
    int type;            /* AM_REQUEST, ... */
    int handler;         /* the identifier that it names */
    size_t total_length; /* the number of its bytes */
} am_header;

/* A handler. `data` is not aligned, and never NULL. */
typedef void (*am_handler)(am_interface *interface, const am_header *header, const void *data, size_t length);

/* What am_init has to know. 0 stands for the default. */
typedef struct am_info {
    int tid;      /* the number of this task, positive: in PVM, pvm_mytid(). Default: that of the process */
    int depth;    /* the most requests of each other task on their way to this one, 1 to 512; default: PVMAM_DEPTH, or 128 */
    int timeout;  /* how long calls wait for another task, in milliseconds; default: 10 s */
    int patience; /* a task whose host is silent for this time is given up, in milliseconds; default: 1.5 s. One that
                   * only computes is not silent */
} am_info;

/* ---- The process ---- */

/* Make the table of address identifiers, and free it. */
int am_global_init(void);
int am_global_shutdown(void);

/* The identifier of an address: the next one, from 0 on. Tasks that insert their addresses in the same order have the same
 * identifiers. Messages name handlers by the identifiers 0 to 255; there may be 65,536 in all, for data too. An address of data
 * is never run, whatever a message names.
 *
 * A message for an identifier that has no handler at the receiver returns to its sender. So insert them before am_init. */
int am_address_to_id(const void *address);

/* The address of an identifier. */
void *am_id_to_address(int id);

/* Replace the address of an identifier. While an interface is open a handler is replaced by handlers only. */
int am_bind_address_with_id(const void *address, int id);

/* The same for functions, which strict C does not convert to `const void *`. */
int am_handler_to_id(am_handler handler);
int am_bind_handler_with_id(am_handler handler, int id);

/* ---- Interfaces ---- */

/* Open an interface on a transport:
 *   "shm:NAME"          the processes of this machine that name it
 *   "udp:IP:PORT"       the kernel's UDP; port 0 is any; "tcp:..." likewise
 *   "xdp:INTERFACE"     that network, as root or with the rights that docs/operating.md lists
 *   "amd:SOCKET"        a network interface that a daemon shares
 *   "dpdk:DEVICE" or "sim:SEED"; or several with `+` between them, as "shm:lab+udp:10.0.0.7:0"
 *   "shm", "udp", "tcp"        this user's tasks on this host; any port of this host's first address
 *   NULL or ""          what the environment names in AM_TRANSPORT, or else "shm+udp", which needs no rights
 * docs/transport-settings.md has their settings. `info` may be NULL. Neither is needed afterwards. */
am_interface *am_init(const char *transport, const am_info *info);

/* Wait until all messages are acknowledged, at most info->timeout, then close all connections and the interface. It is gone also
 * if this returns AM_E_TIMEOUT. */
int am_shutdown(am_interface *interface);

/* The address of a task: of this one, or of one in the list. It is text without spaces; give it to other tasks by any means.
 * Valid until the interface, or that task's connection, ends. The first argument may be an endpoint, as in the paper. */
const char *am_task_address(const void *interface, int tid);

/* The name of a task's host. Valid as long. */
const char *am_hostname(const void *interface, int tid);

/* ---- Tasks ---- */

/* An endpoint for another task, which leads nowhere yet. */
am_endpoint *am_allocate_task(am_interface *interface);

/* Connect the endpoint with the task at this address. It waits for the other task, which answers in any call that polls, at most
 * info->timeout. An endpoint whose connection has ended may be connected again. */
int am_connect_task(am_interface *interface, am_endpoint *endpoint, const char *name);

/* Wait until the task at this address has connected, at most info->timeout. Of two tasks one connects, and the other accepts, in any
 * order; that both connect does no harm. */
int am_accept_task(am_interface *interface, am_endpoint *endpoint, const char *name);

/* Put the endpoint into the list of tasks, under this tid, before or after it is connected. */
int am_insert_task(am_interface *interface, am_endpoint *endpoint, int tid);

/* Take the task out of the list. Its endpoint stays connected. */
int am_remove_task(am_interface *interface, int tid);

/* End the endpoint: wait until its messages are acknowledged, at most info->timeout, then close its connection, and take it out of
 * the list. It is gone also if this returns AM_E_TIMEOUT. */
int am_deallocate_task(am_interface *interface, am_endpoint *endpoint);

/* ---- Messages ---- */

/* Send a request to a task in the list, or to an endpoint: up to 1 GiB, in one message. It waits for room, however long the receiver
 * takes. `data` may be changed afterwards. */
int am_request(am_interface *interface, int tid, int handler_id, const void *data, size_t length);
int am_request_ep(am_interface *interface, am_endpoint *endpoint, int handler_id, const void *data, size_t length);

/* The same with vectorized data: `length` parts, which arrive as one. */
int am_request_vdata(am_interface *interface, int tid, int handler_id, const struct iovec *data, size_t length);
int am_request_vdata_ep(am_interface *interface, am_endpoint *endpoint, int handler_id, const struct iovec *data, size_t length);

/* Reply to the request whose handler runs. A request that gets no reply needs none. */
int am_reply(am_interface *interface, const am_header *header, int handler_id, const void *data, size_t length);
int am_reply_vdata(am_interface *interface, const am_header *header, int handler_id, const struct iovec *data, size_t length);

/* Service the network: run the handlers of what has arrived. Returns how many messages and events were handled. */
int am_poll(am_interface *interface);

/* The same; if nothing is there, sleep until there is, at most for this time. */
int am_wait(am_interface *interface, int milliseconds);

/* Run this for messages of this task that come back, because their task has gone, or does not have their handler. NULL: for none. */
int am_set_returned(am_interface *interface, am_handler returned);

/* ---- Errors ---- */

/* What went wrong last on this thread, and what to do about it. Valid until the next call on this thread that fails. */
const char *am_error(void);

/* The number of it; 0 if nothing went wrong. */
int am_error_code(void);

/* The general meaning of a number that a call returned: of use where that call's am_error() is gone. */
const char *am_strerror(int number);

#ifdef __cplusplus
}
#endif

#endif
