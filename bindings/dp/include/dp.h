/* Directed Point (Lee, Tam, Wang: "Directed Point: An Efficient Communication Subsystem for Cluster Computing"), on active messages:
 * a cluster as a directed graph, used with the calls of files.
 *
 *   #include <dp.h>
 *
 *   int fd = dp_open(1);                 an endpoint, DPID 1 of this node
 *   dp_connect(fd, 7, 2);                its edge, to DPID 2 of node 7
 *   dp_write(fd, text, length);          send a message
 *
 *   char *address;
 *   int n = dp_read(fd, &address);       the next message: its length, and where it lies; 0 while there is none
 *   dp_fsync(fd, 1);                     give it back
 *
 * A whole program is bindings/dp/examples/ping.c. To build one:
 *
 *   make -C bindings/dp && sudo make -C bindings/dp install        (PREFIX=/usr/local; DESTDIR as usual)
 *   cc -std=c11 -O2 program.c $(pkg-config --cflags --libs amdp) -o program
 *
 * Where the loader does not look in PREFIX/lib, `sudo ldconfig` or LD_LIBRARY_PATH tells it.
 * A directory of your own as PREFIX needs no root:
 *
 *   make -C bindings/dp install PREFIX=$PWD/try
 *   cc program.c $(PKG_CONFIG_PATH=try/lib/pkgconfig pkg-config --cflags --libs amdp) -Wl,-rpath,$PWD/try/lib -o program
 *
 * LANGUAGES. C99 or C++11, and later ones of both; nothing else is needed.
 *
 * WHO IS WHO. The first dp_open opens the process's node. Which node it is, and how it finds the others, the environment says:
 *
 *   am-run, mpirun, srun        a process's NID is its rank. AM_TRANSPORT is the transport, udp without it
 *   DP_NID=3 DP_NODES=FILE      FILE, the same on all nodes, has a line for each NID: what that node opens, as in
 *                               `3 udp:10.0.0.7:7000` or `3 xdp:eth1`
 *   DP_NID=3 AM_TRANSPORT=...   nodes discover each other: xdp:eth1, shm:lab, amd:/run/amd/am.sock
 *   none of these               the process is alone: node 0
 *
 * With DP_NID several processes of a host may have one NID: through amd, or on shm. A DPID belongs to one of them. The kernel keeps
 * account of that, for each network namespace.
 *
 * WHAT FAILS returns -1 and sets errno; dp_error() then has a text that says what to do, until the next failure on this thread. No call
 * ends the program.
 *
 * THE DESCRIPTOR is a real one. poll, select and epoll say when a message can be read, level-triggered or edge-triggered. They do not
 * say when there is room to write: dp_unix_write waits for that. close() and the end of the process, however it comes, close the
 * endpoint; what was written before close() still leaves, for up to five seconds. A descriptor that another thread waits on is
 * closed by dp_close, not by close(). A reader is not told when a writer closes its edge or exits in order, as nothing is lost then: let
 * the last message say so. After fork() the endpoints are the parent's: in the child every call fails with EPERM. exec closes the
 * descriptors. A copy by dup() can be polled, and no more: a read() of it returns a byte that means nothing, and takes no message. Each
 * endpoint takes two descriptors; the library raises the soft limit when it has to.
 *
 * The library has descriptors of its own, with high numbers. A program that closes them, as by closefrom(3), ends its node: every call fails
 * with EBADF, dp_error() says why, and dp_open opens a node again. The library closes, reads and writes no file of the program's that has
 * such a number later. With the preload library they stay open: close() is EBADF then, dup2() is EBUSY, and closefrom() leaves them out.
 * Without it an AF_XDP queue may be free only when the process has ended.
 *
 * read(), write(), fsync() and close() know endpoints in a program that runs with LD_PRELOAD=libamdp_preload.so. Without it use the
 * dp_ calls: write() fails with EPIPE then, and raises SIGPIPE, as writev() and send() always do. close() works always.
 *
 * MEANWHILE. A thread of the library receives into the pools, acknowledges and sends again while the program does something else. It
 * sleeps while nothing happens, and keeps away while the program itself calls dp_read again and again.
 *
 * THREADS. Any thread may call; one call runs at a time. A signal handler must not call: the interrupted thread
 * may hold the library's lock. pthread_cancel acts when a call begins, and while it waits; dp_barrier and the barrier of dp_graph end
 * first.
 */
#ifndef AMDP_DP_H
#define AMDP_DP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Open the endpoint of this DPID. Returns a descriptor.
 * EINVAL: negative. EADDRINUSE: this node has it already. EMFILE: no descriptor (ulimit -n). ENETDOWN: the node could not be opened, also
 * where it lacks a thread, memory or room in a file; dp_error() says which limit it met. Once the node is open: EAGAIN: no thread
 * (ulimit -u). ENOMEM. EFBIG: the pool is larger than files may be (ulimit -f). */
int dp_open(int dpid);

/* As dp_open, with a token buffer pool of `bytes` bytes (4096 at least). dp_open takes DP_POOL from the environment, or 262144. */
int dp_open_pool(int dpid, size_t bytes);

/* Connect the endpoint to another one: from now on dp_write sends there. Called again, it redirects the edge: what was written before
 * goes to the old end. It waits until the other endpoint is there, up to ten seconds. Where it fails the old edge stays.
 * EBADF. EINVAL: negative. ECONNREFUSED: that node has no such endpoint. EHOSTUNREACH: no such node, or it does not answer.
 * EPROTO: it has another list of nodes. ENOBUFS: too many connections. */
int dp_connect(int fd, int nid, int dpid);

/* Send a message. It never waits. Returns its length; what is at `msg` can be changed then. A message may be longer than a frame: up to
 * the size of the receiver's pool. Then it is copied, and leaves while the program goes on; until it has, the next one is EAGAIN. Of more
 * than 16 messages in a row without a dp_read up to 7 may leave a millisecond later, to share a doorbell.
 * The receiver says how much its pool holds when it gets the first message that is too long. That one was written already, and comes to
 * nothing: the endpoint is readable then, and the next dp_read without a message, or the next dp_write, says EMSGSIZE, once.
 * EAGAIN: the receiver has no room now; try again. ENOTCONN: no edge. EINVAL: no bytes. EMSGSIZE: more than the receiver's pool holds;
 * where dp_error names the length of an earlier message, write this one again. ENOMEM: no memory for a copy.
 * ECONNRESET: the other end is closed or gone: connect again. EBADF. */
int dp_write(int fd, const void *msg, int len);

/* The next message that has arrived: its length, and its place in the pool. 0: there is none now. It never waits. The message stays
 * until it is given back; what writes into it gets SIGSEGV.
 * ECONNRESET: the process at the other end of an edge has died; said once, after its last message. EMSGSIZE: a message that was written
 * to this endpoint's edge is longer than the receiver's pool, and came to nothing; said once. EBADF. */
int dp_read(int fd, char **address);

/* Give back the oldest n messages of those that were read. EINVAL: so many were not read; nothing happens. EBADF. */
int dp_fsync(int fd, int n);

/* The endpoint's token buffer pool, mapped read-only: dp_read returns places in it. EBADF. */
typedef struct {
    const char *address;
    size_t size;
} dpmmap_t;
int dp_mmap(int fd, dpmmap_t *tbp);

/* Close the endpoint, when what was written has been accepted, or five seconds later. EBADF. */
int dp_close(int fd);

/* The UNIX calls by name: read waits for a message, copies as much of it as fits, and gives it back; write waits for room; fsync gives
 * one message back. With O_NONBLOCK they do not wait (EAGAIN); a signal ends a wait (EINTR), unless its handler has SA_RESTART. */
long dp_unix_read(int fd, void *buffer, size_t bytes);
long dp_unix_write(int fd, const void *msg, size_t bytes);
int dp_unix_fsync(int fd);

/* Whether a descriptor is an endpoint of this process. */
int dp_is_point(int fd);

/* The NID of this process's node, and how many nodes there are; -1 where nodes are discovered. Both open the node. */
int dp_nid(void);
int dp_nodes(void);

/* Wait until all processes of a launcher's job are here. Alone it returns at once. EIO: the launcher is gone. */
int dp_barrier(void);

/* What an endpoint has done. */
typedef struct {
    unsigned long long written, bytes_written, stalls, received;
} dp_traffic_t;
int dp_traffic(int fd, dp_traffic_t *traffic);

/* GRAPHS. A program for a ring, a mesh, a tree or an own graph names no node: the variable DP_GRAPH has the graph, and the process is the
 * vertex of its rank (or DP_NID). `dp-graph run ring:8 ./program` starts such a program and shows its edges; docs/dp-graph.md.
 *
 *   int out = dp_graph();                   all endpoints are open, all edges are there
 *   for (int k = 0; k < out; k++) dp_write(dp_out(k), text, length);
 *   for (int k = 0; k < dp_in_degree(); k++) wait for a message at dp_in(k) ...
 *
 * The DPIDs:
 *   ring   each vertex writes to the next at DPID 1, and reads at DPID 0
 *   mesh   an endpoint for each neighbour, to write to it and to read from it: DPID 1 north, 2 east, 3 south, 4 west
 *   tree   the same: DPID 1 the parent, 2 and 3 the children
 *   own    what the DOT file says in ports, as in `a:3 -> b:2`. Without a port the k-th edge out of a vertex leaves at DPID k, from 1,
 *          and an edge arrives at DPID 0 */

/* Become the vertex: open its endpoints, with pools as dp_open makes them, connect those that have an edge, and wait until all
 * processes of the job have done so. Returns how many edges leave. Where it fails none of them stays open.
 * ENOENT: no DP_GRAPH. EINVAL: it is wrong, or has another number of vertices than the job of processes. EADDRINUSE: one of its DPIDs is
 * open already. EALREADY: called before. What dp_open and dp_connect say; it waits up to a minute. */
int dp_graph(void);

/* The descriptor of an own endpoint, however it was opened. ENOENT: no such endpoint, as at the border of a mesh. */
int dp_point(int dpid);

/* After dp_graph (before it, EINVAL): how many vertices the graph has; how many edges leave this one, and how many arrive; the descriptor
 * where its k-th edge leaves or arrives, from 0, in the order of the graph (EINVAL: there are fewer; ENOENT: it was closed). Edges
 * that arrive at one endpoint have one descriptor. */
int dp_vertices(void);
int dp_out_degree(void);
int dp_in_degree(void);
int dp_out(int k);
int dp_in(int k);

/* This vertex's name in the graph; where the graph has no names, its number. NULL before dp_graph. */
const char *dp_vertex_name(void);

/* LIVE FIGURES. With DP_GRAPH_REPORT=MILLISECONDS the library writes a line to standard error in each interval, and at the end: the
 * byte 0x1e, the rank, and for each endpoint where its edge leads and what dp_traffic says. dp-graph sets it and takes the lines out. */

/* The text of the last failure on this thread, until the next one. In one call of printf, do not evaluate it beside the call that fails. */
const char *dp_error(void);

#ifdef __cplusplus
}
#endif

#endif
