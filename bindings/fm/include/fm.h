/* Illinois Fast Messages' calls (Pakin, Lauria, Chien: "High Performance Messaging
 * on Workstations", SC'95, table 1), on active messages over AF_XDP.
 *
 *   FM_send_4(dest, handler, i0, i1, i2, i3)    send a message of four words
 *   FM_send(dest, handler, buf, size)           send a message of at most one frame
 *   FM_extract()                                run the handlers of what has arrived
 *
 * A whole program is bindings/fm/examples/ping.c. To build one:
 *
 *   make -C bindings/fm && sudo make -C bindings/fm install        (PREFIX=/usr/local; DESTDIR as usual)
 *   cc -std=c11 -O2 program.c $(pkg-config --cflags --libs amfm) -o program
 *
 * Where the loader does not look in PREFIX/lib, `sudo ldconfig` or LD_LIBRARY_PATH tells it.
 * A directory of your own as PREFIX needs no root:
 *
 *   make -C bindings/fm install PREFIX=$PWD/try
 *   cc program.c $(PKG_CONFIG_PATH=try/lib/pkgconfig pkg-config --cflags --libs amfm) -Wl,-rpath,$PWD/try/lib -o program
 *
 * It is C99 and C++11, and later ones of both.
 *
 * What returns `int` returns a negative FM_E_... where it fails; FM_error() then has a
 * text that says what to do. No call ends the program.
 *
 * THREADS. A node belongs to the thread that called FM_initialize, and only that
 * thread may use it: it is found through the thread. On a thread without a node every
 * call returns FM_E_NOT_INITIALIZED. Two threads may have a node each. A thread's node
 * ends with the thread.
 *
 * CANCEL. pthread_cancel acts when a call begins, and while FM_extract_or_wait and
 * FM_meet wait, a tenth of a second late at most. FM_send waits for room first, and
 * FM_finalize for what is under way. No call acts on it within a handler.
 *
 * FORK. After fork() the nodes are the parent's: in the child every call returns
 * FM_E_FORKED until exec, and its exit leaves the parent's connections as they are. A
 * child that is forked in a handler must not return from it.
 *
 * DESCRIPTORS. A node has descriptors of its own, with high numbers. A program that
 * closes them, as by closefrom(3), ends its nodes: FM_extract returns FM_E_LOST, and
 * FM_initialize opens a node again; over AF_XDP it may have to be on another queue,
 * because the first one may be free only when the process has ended. A file of the
 * program's that has such a number later is left alone.
 *
 * HANDLERS run in FM_extract, and in FM_send_4 and FM_send where they are called
 * outside of handlers and have to wait for room. Never two at once on a thread. A handler
 *   - may send, to any node, and call FM_node, FM_nodes, FM_error and FM_strerror;
 *     every other call returns FM_E_IN_HANDLER;
 *   - must return, or end its thread by pthread_exit, which acts at the end of the call
 *     that ran it. No longjmp may leave it: the node stays in use then. A C++ exception
 *     that leaves it ends the program by abort(), with a line on standard error;
 *   - has its message, bytes included, until it returns, and no longer.
 *
 * DELIVERY. Each message is handled once, or comes back to FM_set_returned's
 * function when its node has gone. What a node sends to another outside of handlers is
 * handled there in the order in which it was sent.
 *
 * DEADLOCK. A send waits where the receiver has no room; a receiver makes room by
 * extracting. If a handler sends at most one message, to the node that its own came
 * from, and the handler of that answer sends none, nothing can hang. Beyond that it is
 * yours to see that two handlers do not wait for each other; one that has
 * waited for 5 s gets FM_E_STUCK.
 */
#ifndef AMFM_FM_H
#define AMFM_FM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What calls return when they fail. */
enum {
    FM_E_ARGUMENT = -1,        /* an argument that makes no sense */
    FM_E_NOT_INITIALIZED = -2, /* the calling thread has no node */
    FM_E_INITIALIZED = -3,     /* it has one already */
    FM_E_TRANSPORT = -4,       /* the transport could not be opened */
    FM_E_NODES = -5,           /* the list of nodes */
    FM_E_DEST = -6,            /* no node of that number, or this one */
    FM_E_HANDLER = -7,         /* not from 0 to 255 */
    FM_E_TOO_LARGE = -8,       /* more than one message carries: see FM_most */
    FM_E_UNREACHABLE = -9,     /* the node is not there, or not any more */
    FM_E_STUCK = -10,          /* a handler waited for room in vain */
    FM_E_IN_HANDLER = -11,     /* not from within a handler */
    FM_E_TIMEOUT = -12,        /* the time was over */
    FM_E_INTERNAL = -13,       /* a bug of the library */
    FM_E_FORKED = -14,         /* in a child after fork(): the node is its parent's */
    FM_E_LOST = -15            /* the program has closed the node's descriptors */
};

/* A message, as long as its handler runs. */
typedef struct FM_message {
    int node;        /* who sent it, -1 if it left before it was heard of; of one
                      * that came back, whom it was for */
    int handler;     /* the handler that it names */
    uint64_t i[4];   /* the words of FM_send_4; zeros of FM_send */
    const void *buf; /* the bytes of FM_send, unaligned; never NULL */
    size_t size;     /* how many; 0 of FM_send_4 */
} FM_message;

/* What a message runs. `context` is what was given with the function. */
typedef void (*FM_handler)(void *context, const FM_message *message);

/* Become node `node` of `nodes`, which count from 0 and are called `names`: the same
 * list in the same order at each node, of names of 1 to 31 bytes. `transport` is
 *   "loopback:NAME"     a wire in memory, between the threads of this process that name it:
 *                       a node may leave and come back, and the name is free when all have left
 *   "xdp:INTERFACE"     that network, as root or with the rights that docs/operating.md lists
 *   "shm:NAME"          the processes of this machine that name it
 *   "udp:IP:PORT,peer=IP:PORT"   the kernel's UDP, to another node's place; "tcp:..." likewise
 *   "dpdk:DEVICE" or "sim:SEED"; or several with `+` between them, as "shm:lab+udp:10.0.0.7:7000"
 * docs/transport-settings.md has their settings.
 * The strings are not needed afterwards. */
int FM_initialize(const char *transport, int node, int nodes, const char *const names[]);

/* Run this for messages that name `handler`, 0 to 255. Other processes have their
 * functions elsewhere, so messages carry this number. Messages for handlers that are not set
 * come back to their senders, and are counted as "no_handler". */
int FM_set_handler(int handler, FM_handler run, void *context);

/* Run this for messages of ours that come back because their node has gone, or does not
 * have their handler. It may not send. They are counted as "returned" in any case. */
int FM_set_returned(FM_handler run, void *context);

/* Wait until all nodes are there, at most so many milliseconds; handlers do not run.
 * Programs that start together need it: a send to a node that does not answer
 * fails after 1.5 s. */
int FM_meet(int milliseconds);

/* Send four words. */
int FM_send_4(int dest, int handler, uint64_t i0, uint64_t i1, uint64_t i2, uint64_t i3);

/* Send bytes, from 0 to FM_most(dest); `buf` may be changed afterwards. What is
 * longer has to be sent in parts, as in the paper (section 5), where a frame had 128 bytes. */
int FM_send(int dest, int handler, const void *buf, size_t size);

/* Run the handlers of what has arrived, of at most 64 messages. Returns how many. */
int FM_extract(void);

/* The same; where nothing is there, wait for it, at most so many milliseconds. */
int FM_extract_or_wait(int milliseconds);

/* The number of this node, and how many there are. */
int FM_node(void);
int FM_nodes(void);

/* The most bytes that one message to this node carries; 0 before there is a
 * connection with it, which the first message or FM_meet makes. */
int FM_most(int dest);

/* A counter of any layer by its name, as docs/operating.md explains them; 0 of a name
 * that nothing has. */
int64_t FM_counter(const char *name);

/* Wait until what was sent has been accepted, at most 5 s, then leave. The node is
 * gone, whatever this returns; what has arrived and was not extracted is dropped. */
int FM_finalize(void);

/* What went wrong last on this thread, and what to do about it. Valid until the next
 * call on this thread that fails. */
const char *FM_error(void);

/* What a number that a call returned means, in general. */
const char *FM_strerror(int number);

#ifdef __cplusplus
}
#endif

#endif
