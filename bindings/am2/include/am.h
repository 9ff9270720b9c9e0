/* Active Messages 2: the calls of Mainwaring and Culler's "Active Messages Applications Programming
 * Interface and Communication Subsystem Organization" (draft 1.1), over AF_XDP, DPDK, UDP, TCP and
 * shared memory.
 *
 *   make -C bindings/am2 && sudo make -C bindings/am2 install      (PREFIX=/usr/local; DESTDIR as usual)
 *   cc -std=c11 -O2 program.c $(pkg-config --cflags --libs am2) -o program
 *
 * `make` builds target/library/libam2.so. Where the loader does not look in PREFIX/lib, `sudo ldconfig` or LD_LIBRARY_PATH tells it. A
 * directory of your own as PREFIX needs no root:
 *
 *   make -C bindings/am2 install PREFIX=$PWD/try
 *   cc -std=c11 -O2 program.c $(PKG_CONFIG_PATH=try/lib/pkgconfig pkg-config --cflags --libs am2) -Wl,-rpath,$PWD/try/lib -o program
 *
 * A whole program is bindings/am2/examples/ping.c. Processes of one job: am_spmd.h.
 *
 * LANGUAGES. C99 or later, where the compiler has C11's _Generic (gcc 4.9, clang 3.0), and C++11 or later. A program means the same in both.
 *
 * TRANSPORT. The variable AM_TRANSPORT names it, as docs/am-run.md says: "udp" (without the variable),
 * "shm:lab", "xdp:eth1", "shm:lab+udp:10.0.0.7:7000", .. AM_Init prints what is wrong with a name.
 *
 * RESULTS. Each call returns AM_OK or one of AM_ERR_... No call ends the program. NULL, a handle that was
 * freed and an index out of range are AM_ERR_BAD_ARG. AM2_ErrorText says what a result means.
 *
 * TAGS. A message carries the tag of its translation. An endpoint accepts messages with its own tag; with
 * the tag AM_ALL all messages, and with AM_NONE, which a new endpoint has, none.
 *
 * WHAT COMES BACK. A message that is not delivered comes to handler 0 of the endpoint that sent it, with
 * the reason (AM2_StatusText), the kind of message and an am_argblock_t. It came to no handler of the peer, except
 * with EUNREACHABLE: then it may have. Without a handler 0 a line on standard error says it. A get also comes back if its peer ends first.
 *
 * TRANSFERS write to the segment before their handlers run, perhaps before those of earlier messages have: write to a place again when the
 * peer has answered. A request of more than 65,536 bytes returns when the peer has all of it, or it has come back.
 *
 * MEMORY. A request waits for room. At most 16 MiB of an endpoint's requests to this process wait for their handlers. The library copies a
 * reply that is longer than a frame, and sends the copy with later polls. While 1 MiB of such copies waits for a peer, that peer's requests
 * are not handled; while 256 MiB wait in the process, no peer's are. The parts of a medium longer than a frame wait in memory of the node,
 * at most 64 MiB, until all have arrived.
 *
 * POLLING. A process that does not poll answers nobody. After 30 s without an answer a peer is taken for unreachable, and
 * after 120 s also if nothing was sent to it.
 *
 * HANDLERS run in AM_Poll, and in requests while they wait for room; never two at once in a process.
 * A handler's type follows from the message: a token; for AM_RequestI, AM_ReplyI and transfers the bytes and
 * their number; then as many int32_t as the message has:
 *
 *   void on_ping(void *token, int32_t number) { AM_Reply1(token, PONG, number + 1); }      for AM_Request1
 *   void on_text(void *token, void *bytes, int nbytes, int32_t number) { .. }              for AM_RequestI1, AM_RequestXfer1
 *
 * A handler of a request may reply once. No handler may request, poll, wait or free. The token and the bytes of a
 * medium message are valid until the handler returns.
 *
 * A handler returns, or ends its thread (THREADS). A C++ exception that leaves it ends the program by abort(), with a line on standard error;
 * one that the handler catches changes nothing. No longjmp may leave it: then the process's lock stays taken, and
 * the call that ran the handler has not ended. A longjmp within a handler is as everywhere.
 *
 * LIMITS. A process has 65,535 endpoints and 16,383 connections. Each translation that was used takes a connection while it is mapped,
 * and so does each translation of another process that leads here; those within a process take none. An endpoint has 16,383
 * translations and 256 handlers. Names in AM2_KnownName have 31 bytes, the address 191. AM_Max... say the other limits. A full table is
 * AM_ERR_RESOURCE; a request that finds no connection comes back with ENOCONNECTION.
 *
 * UNLIKE BERKELEY'S am.h: AM_WaitSema does not take the event, and returns at once while it holds. ECONGESTION is rare, because
 * requests wait. Results and reasons have other numbers. AM_AllocateKnownEndpoint also returns the name; AM_GetEventMask returns the mask
 * by a pointer; en_t is 256 bytes. Handlers of transfers get an address, not an offset. Old names: AM_RequestMedium4 and so on.
 *
 * THREADS. Any thread may use any endpoint; one lock of the process keeps them apart, and AM_WaitSema
 * sleeps without it. So AM_SEQ and AM_PAR behave alike. pthread_cancel acts when a call begins, and while AM_WaitSema sleeps; a request
 * waits for room first, and the calls of am_spmd.h for the other processes. A handler may end its thread by pthread_exit, which acts at
 * the end of the call that ran it. No cancel acts within a handler's call of the library. The lock costs the first thread less until
 * another one comes; a filter of system calls (seccomp) that is set between the two has to allow membarrier(2).
 *
 * DESCRIPTORS. The node has descriptors of its own, with high numbers. A program that closes them, as by closefrom(3), ends the node: AM_Poll
 * and AM_WaitSema return AM_ERR_RESOURCE once and say so on standard error, every other call AM_ERR_NOT_INIT, and AM_Init starts anew; over
 * AF_XDP it may have to be on another queue, because the first one may be free only when the process has ended. A file of the program's that
 * has such a number later is left alone.
 *
 * FORK. After fork() the node is the parent's: in the child every call that needs it is AM_ERR_BAD_ARG until exec, AM_Init and
 * AM_Terminate too. A child that is forked in a handler must not return from it.
 */
#ifndef AM2_AM_H
#define AM2_AM_H

#include <stddef.h>
#include <stdint.h>

/* A conversion, without a warning in either language. */
#ifdef __cplusplus
#define AM2_CAST(type, value) static_cast<type>(value)
extern "C" {
#else
#define AM2_CAST(type, value) ((type)(value))
#endif

/* What calls return. */
#define AM_OK 0           /* done */
#define AM_ERR_NOT_INIT 1 /* AM_Init was not called */
#define AM_ERR_BAD_ARG 2  /* a wrong argument, or a call that this caller may not make */
#define AM_ERR_RESOURCE 3 /* something is missing, full, or not there; a table entry is taken */
#define AM_ERR_NOT_SENT 4 /* an asynchronous message could not leave at once */
#define AM_ERR_IN_USE 5   /* it is in use */
#define AM_ERR_NOT_TERM 6 /* Berkeley's; no call returns it, because a second AM_Init does nothing */

/* Why a message came back: the status of the error handler. */
#define EBADARGS 1     /* its arguments */
#define EBADENTRY 2    /* the translation is not mapped */
#define EBADTAG 3      /* the endpoint has another tag */
#define EBADHANDLER 4  /* the endpoint has no such handler */
#define EBADSEGOFF 5   /* the transfer begins beyond the segment */
#define EBADLENGTH 6   /* the transfer ends beyond the segment */
#define EBADENDPOINT 7 /* there is no such endpoint */
#define ECONGESTION 8  /* too many requests wait for the endpoint's process */
#define EUNREACHABLE 9 /* the endpoint's process does not answer, or not any more */
#define EREPLYREJECTED 10 /* Berkeley's; a reply comes back with one of the other reasons */
#define ENOCONNECTION 11  /* this process, or the peer, has no connection left: see LIMITS */

/* What came back: the operation of the error handler. */
typedef int op_t;
#define AM_REQUEST_M 1
#define AM_REQUEST_IM 2
#define AM_REQUEST_XFER_M 3
#define AM_REPLY_M 4
#define AM_REPLY_IM 5
#define AM_REPLY_XFER_M 6
#define AM_GET_XFER_M 7

/* Access to a bundle. */
#define AM_SEQ 0 /* by one thread at a time */
#define AM_PAR 1 /* by several */

/* Events that a bundle waits for: bits. */
#define AM_NOEVENTS 0
#define AM_NOTEMPTY 1 /* a message waits for its handler */
#define AM_CANSEND 2  /* some translation could send a request without waiting */

typedef uint64_t tag_t;
#define AM_NONE AM2_CAST(tag_t, 0)
#define AM_ALL AM2_CAST(tag_t, -1)

typedef uint8_t handler_t;

/* Bundles and endpoints: handles. */
typedef struct am2_bundle *eb_t;
typedef struct am2_endpoint *ep_t;
typedef ep_t ea_t;

/* The name of an endpoint: bytes that mean nothing to programs. They may be compared, and sent to another process. */
typedef struct {
    unsigned char bytes[256];
} en_t;

/* A message that came back. */
typedef struct {
    ep_t request_endpoint;            /* the endpoint that sent it */
    int reply_endpoint;               /* the index of the translation; 0 if there is none any more */
    handler_t handler;                /* the handler that it named */
    int nbytes;                       /* of a message with bytes: how many */
    uintptr_t offset;                 /* of transfers and gets: where in the peer's segment */
    int numargs;                      /* its arguments */
    int32_t args[16];
} am_argblock_t;

/* Handler 0: typedef void (*)(int status, op_t opcode, void *argblock), the block an am_argblock_t. */
typedef void (*am_error_handler_t)(int status, op_t opcode, void *argblock);
typedef void (*am_handler_fn_t)(void);

/* What a result of a call means, and the status of a message that came back. The text is valid for ever. */
const char *AM2_ErrorText(int result);
const char *AM2_StatusText(int status);

/* The process. AM_Init finds the process's place (am_spmd.h) and opens the transport; a second call does nothing. In a job all
 * processes call it, also after AM_Terminate. That frees everything when what was sent has arrived, or has not for 30 s. */
int AM_Init(void);
int AM_Terminate(void);

/* Bundles and endpoints. A known endpoint has a name that other processes can make with AM2_KnownName, from the job's
 * node name (as JOB.RANK; AM2_NodeName says it) and the address of its transport ("" where peers find each other). What an endpoint
 * has sent still arrives when it is freed, by polls of any bundle, an empty one included; none of its handlers runs. */
int AM_AllocateBundle(int access, eb_t *bundle);
int AM_AllocateEndpoint(eb_t bundle, ep_t *endpoint, en_t *name);
int AM_AllocateKnownEndpoint(eb_t bundle, ep_t *endpoint, en_t *name, unsigned port);
int AM2_KnownName(en_t *name, const char *node, const char *address, unsigned port);
int AM2_NodeName(char *node, size_t bytes);
int AM_FreeEndpoint(ep_t endpoint);
int AM_FreeBundle(eb_t bundle);
int AM_MoveEndpoint(ep_t endpoint, eb_t from_bundle, eb_t to_bundle);

/* Translations: 256 in a new endpoint. AM_GetTranslationInuse returns AM_OK for an entry in use, else AM_ERR_RESOURCE. After AM_Unmap the
 * replies to what was sent before still arrive, with the next polls; until then its connection counts (LIMITS). */
int AM_Map(ep_t endpoint, int index, en_t name, tag_t tag);
int AM_MapAny(ep_t endpoint, int *index, en_t name, tag_t tag);
int AM_Unmap(ep_t endpoint, int index);
#define AM_UnMap AM_Unmap
int AM_GetTranslationInuse(ep_t endpoint, int index);
int AM_GetTranslationName(ep_t endpoint, int index, en_t *name);
int AM_GetTranslationTag(ep_t endpoint, int index, tag_t *tag);
int AM_GetNumTranslations(ep_t endpoint, int *count);
int AM_SetNumTranslations(ep_t endpoint, int count);
int AM_MaxNumTranslations(int *count);
int AM_SetExpectedResources(ep_t endpoint, int n_endpoints, int n_outstanding_requests);

/* Tag, segment, handlers. Peers that have the endpoint's tag read and write its segment whenever the process polls. The address NULL with
 * the length that AM_MaxSegLength says is the whole address space, and offsets are addresses: then such a peer reads and
 * writes all memory of the process, and a wrong offset ends it. */
int AM_SetTag(ep_t endpoint, tag_t tag);
int AM_GetTag(ep_t endpoint, tag_t *tag);
int AM_SetSeg(ep_t endpoint, void *address, uintptr_t nbytes);
int AM_GetSeg(ep_t endpoint, void **address, uintptr_t *nbytes);
#define AM_SetSegment AM_SetSeg
#define AM_GetSegment AM_GetSeg
int AM_MaxSegLength(uintptr_t *nbytes);
int AM2_SetHandler(ep_t endpoint, handler_t handler, am_handler_fn_t function);
int AM2_SetHandlerAny(ep_t endpoint, handler_t *handler, am_handler_fn_t function);
#ifdef __cplusplus
extern "C++" {
static inline am_handler_fn_t AM2_HandlerOf(am_handler_fn_t function) { return function; }
template <class R, class... A> inline am_handler_fn_t AM2_HandlerOf(R (*function)(A...))
{
    return reinterpret_cast<am_handler_fn_t>(function);
}
}
#else
#define AM2_HandlerOf(function) ((am_handler_fn_t)(function))
#endif
#define AM_SetHandler(endpoint, handler, function) AM2_SetHandler((endpoint), (handler), AM2_HandlerOf(function))
#define AM_SetHandlerAny(endpoint, handler, function) AM2_SetHandlerAny((endpoint), (handler), AM2_HandlerOf(function))
int AM_GetNumHandlers(ep_t endpoint, int *count);
int AM_SetNumHandlers(ep_t endpoint, int count);
int AM_MaxNumHandlers(void);

/* Limits: arguments, 16; bytes of a medium message, 65,536, which is much for the stack of a thread; bytes of a transfer, 16 MiB. */
int AM_MaxShort(void);
int AM_MaxMedium(void);
int AM_MaxLong(void);

/* Events. AM_WaitSema sleeps until an event of the mask holds; handlers do not run: AM_Poll then runs them. It also returns for a part of a
 * message that is longer than a frame; then AM_Poll may run no handler. */
int AM_Poll(eb_t bundle);
int AM_GetEventMask(eb_t bundle, int *mask);
int AM_SetEventMask(eb_t bundle, int mask);
int AM_WaitSema(eb_t bundle);
#define AM_Wait AM_WaitSema

/* What a handler may ask of its token. AM2_GetSourceIndex says the translation that leads to the sender, of a reply the one that its request
 * was sent by; AM_ERR_RESOURCE where there is none. It is cheaper than the name. The kind is one of AM_REQUEST_M, .., AM_GET_XFER_M. */
int AM_GetSourceEndpoint(void *token, en_t *name);
int AM2_GetSourceIndex(void *token, int *index);
int AM2_GetMsgHandler(void *token, handler_t *handler);
int AM2_GetMsgKind(void *token, op_t *kind);
int AM_GetDestEndpoint(void *token, ep_t *endpoint);
int AM_GetMsgTag(void *token, tag_t *tag);

/* The functions behind AM_RequestM and so on. */
int AM2_Request(ep_t endpoint, int index, handler_t handler, int numargs, const int32_t *args);
int AM2_RequestI(ep_t endpoint, int index, handler_t handler, const void *source, int nbytes, int numargs,
                 const int32_t *args);
int AM2_RequestXfer(ep_t endpoint, int index, uintptr_t dest_offset, handler_t handler, const void *source, int nbytes,
                    int is_async, int numargs, const int32_t *args);
int AM2_GetXfer(ep_t endpoint, int index, uintptr_t source_offset, handler_t handler, void *dest, int nbytes,
                int is_async, int numargs, const int32_t *args);
int AM2_GetXferSeg(ep_t endpoint, int index, uintptr_t source_offset, handler_t handler, uintptr_t dest_offset, int nbytes,
                   int is_async, int numargs, const int32_t *args);
int AM2_Reply(void *token, handler_t handler, int numargs, const int32_t *args);
int AM2_ReplyI(void *token, handler_t handler, const void *source, int nbytes, int numargs, const int32_t *args);
int AM2_ReplyXfer(void *token, uintptr_t dest_offset, handler_t handler, const void *source, int nbytes, int numargs,
                  const int32_t *args);

/* Messages of M arguments, 0 to 16. A request waits for room, and polls its bundle meanwhile; the source may be
 * changed as soon as the call returns.
 *
 *   AM_RequestM(endpoint, index, handler, arg0, ..)
 *   AM_RequestIM(endpoint, index, handler, source, nbytes, arg0, ..)                      nbytes <= AM_MaxMedium()
 *   AM_RequestXferM(endpoint, index, dest_offset, handler, source, nbytes, arg0, ..)      nbytes <= AM_MaxLong()
 *   AM_RequestXferAsyncM, the same; AM_ERR_NOT_SENT where it would wait before its first byte leaves
 *   AM_GetXferM(endpoint, index, source_offset, handler, dest, nbytes, arg0, ..)          the handler runs here;
 *       dest is an address, or an integer: an offset in the own segment, as Berkeley's is
 *   AM_GetXferAsyncM, the same without waiting (also AM_GetXferAsynchM)
 *   AM_ReplyM(token, handler, arg0, ..); AM_ReplyIM; AM_ReplyXferM(token, dest_offset, handler, source, nbytes, ..)
 */
typedef struct {
    void *address;
    uintptr_t offset;
    int is_offset;
} am2_dest_t;

static inline am2_dest_t AM2_DestAddress(void *address)
{
    am2_dest_t dest = {address, 0, 0};
    return dest;
}

static inline am2_dest_t AM2_DestOffset(uintmax_t offset)
{
    am2_dest_t dest = {NULL, AM2_CAST(uintptr_t, offset), 1};
    return dest;
}

static inline am2_dest_t AM2_DestSigned(intmax_t offset)
{
    return AM2_DestOffset(AM2_CAST(uintmax_t, offset));
}

#ifdef __cplusplus
extern "C++" { /* templates and overloads; also where a program includes this within extern "C" */
/* NULL is an address, as in C, though C++ takes it for a number. The text of the argument says it. */
static inline constexpr bool AM2_IsOver(const char *text)
{
    return !*text || ((*text == ')' || *text == ' ') && AM2_IsOver(text + 1));
}
static inline constexpr bool AM2_IsNull(const char *text)
{
    return *text == '(' || *text == ' ' ? AM2_IsNull(text + 1)
                                        : text[0] == '_' && text[1] == '_' && text[2] == 'n' && text[3] == 'u' &&
                                              text[4] == 'l' && text[5] == 'l' && AM2_IsOver(text + 6);
}
template <bool is_null> struct AM2_Dest {
    static am2_dest_t of(void *address) { return AM2_DestAddress(address); }
};
template <> struct AM2_Dest<false> {
    static am2_dest_t of(void *address) { return AM2_DestAddress(address); }
    static am2_dest_t of(decltype(nullptr)) { return AM2_DestAddress(nullptr); }
    static am2_dest_t of(int offset) { return AM2_DestSigned(offset); }
    static am2_dest_t of(long offset) { return AM2_DestSigned(offset); }
    static am2_dest_t of(long long offset) { return AM2_DestSigned(offset); }
    static am2_dest_t of(unsigned offset) { return AM2_DestOffset(offset); }
    static am2_dest_t of(unsigned long offset) { return AM2_DestOffset(offset); }
    static am2_dest_t of(unsigned long long offset) { return AM2_DestOffset(offset); }
};
#define AM2_TEXT_AS_IT_IS(dest) #dest
#define AM2_TEXT(dest) AM2_TEXT_AS_IT_IS(dest)
#define AM2_DEST(dest) AM2_Dest<AM2_IsNull(AM2_TEXT(dest))>::of(dest)
}
#else
/* _Generic is C11's: compilers have it in C99 as an extension. */
#define AM2_DEST(dest)                                                                                                 \
    __extension__ _Generic((dest), char: AM2_DestSigned, signed char: AM2_DestSigned, unsigned char: AM2_DestOffset,   \
        short: AM2_DestSigned, unsigned short: AM2_DestOffset, int: AM2_DestSigned, unsigned: AM2_DestOffset,          \
        long: AM2_DestSigned, unsigned long: AM2_DestOffset, long long: AM2_DestSigned,                                \
        unsigned long long: AM2_DestOffset, default: AM2_DestAddress)(dest)
#endif

static inline int AM2_GetXferTo(ep_t e, int i, uintptr_t o, handler_t h, am2_dest_t d, int n, int is_async, int numargs,
                                const int32_t *args)
{
    return d.is_offset ? AM2_GetXferSeg(e, i, o, h, d.offset, n, is_async, numargs, args)
                       : AM2_GetXfer(e, i, o, h, d.address, n, is_async, numargs, args);
}

#define AM2_UNWRAP(...) __VA_ARGS__
#define AM2_DEFINE(M, PARAMETERS, VALUES)                                                                              \
    static inline int AM_Request##M(ep_t e, int i, handler_t h AM2_UNWRAP PARAMETERS)                                  \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        return AM2_Request(e, i, h, M, args + 1);                                                                      \
    }                                                                                                                  \
    static inline int AM_RequestI##M(ep_t e, int i, handler_t h, const void *s, int n AM2_UNWRAP PARAMETERS)           \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        return AM2_RequestI(e, i, h, s, n, M, args + 1);                                                               \
    }                                                                                                                  \
    static inline int AM_RequestXfer##M(ep_t e, int i, uintptr_t o, handler_t h, const void *s, int n AM2_UNWRAP PARAMETERS) \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        return AM2_RequestXfer(e, i, o, h, s, n, 0, M, args + 1);                                                      \
    }                                                                                                                  \
    static inline int AM_RequestXferAsync##M(ep_t e, int i, uintptr_t o, handler_t h, const void *s,                   \
                                             int n AM2_UNWRAP PARAMETERS)                                              \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        return AM2_RequestXfer(e, i, o, h, s, n, 1, M, args + 1);                                                      \
    }                                                                                                                  \
    static inline int AM2_GetXfer##M(ep_t e, int i, uintptr_t o, handler_t h, am2_dest_t d, int n AM2_UNWRAP PARAMETERS) \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        return AM2_GetXferTo(e, i, o, h, d, n, 0, M, args + 1);                                                        \
    }                                                                                                                  \
    static inline int AM2_GetXferAsync##M(ep_t e, int i, uintptr_t o, handler_t h, am2_dest_t d, int n AM2_UNWRAP PARAMETERS) \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        return AM2_GetXferTo(e, i, o, h, d, n, 1, M, args + 1);                                                        \
    }                                                                                                                  \
    static inline int AM_Reply##M(void *t, handler_t h AM2_UNWRAP PARAMETERS)                                          \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        return AM2_Reply(t, h, M, args + 1);                                                                           \
    }                                                                                                                  \
    static inline int AM_ReplyI##M(void *t, handler_t h, const void *s, int n AM2_UNWRAP PARAMETERS)                   \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        return AM2_ReplyI(t, h, s, n, M, args + 1);                                                                    \
    }                                                                                                                  \
    static inline int AM_ReplyXfer##M(void *t, uintptr_t o, handler_t h, const void *s, int n AM2_UNWRAP PARAMETERS)   \
    {                                                                                                                  \
        const int32_t args[] = {0 AM2_UNWRAP VALUES};                                                                  \
        return AM2_ReplyXfer(t, o, h, s, n, M, args + 1);                                                              \
    }

AM2_DEFINE(0, (), ())
AM2_DEFINE(1, (, int32_t a0), (, a0))
AM2_DEFINE(2, (, int32_t a0, int32_t a1), (, a0, a1))
AM2_DEFINE(3, (, int32_t a0, int32_t a1, int32_t a2), (, a0, a1, a2))
AM2_DEFINE(4, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3), (, a0, a1, a2, a3))
AM2_DEFINE(5, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4), (, a0, a1, a2, a3, a4))
AM2_DEFINE(6, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5),
           (, a0, a1, a2, a3, a4, a5))
AM2_DEFINE(7, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6),
           (, a0, a1, a2, a3, a4, a5, a6))
AM2_DEFINE(8, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7),
           (, a0, a1, a2, a3, a4, a5, a6, a7))
AM2_DEFINE(9, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7
               , int32_t a8),
           (, a0, a1, a2, a3, a4, a5, a6, a7, a8))
AM2_DEFINE(10, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7
               , int32_t a8, int32_t a9),
           (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9))
AM2_DEFINE(11, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7
               , int32_t a8, int32_t a9, int32_t a10),
           (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10))
AM2_DEFINE(12, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7
               , int32_t a8, int32_t a9, int32_t a10, int32_t a11),
           (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11))
AM2_DEFINE(13, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7
               , int32_t a8, int32_t a9, int32_t a10, int32_t a11, int32_t a12),
           (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12))
AM2_DEFINE(14, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7
               , int32_t a8, int32_t a9, int32_t a10, int32_t a11, int32_t a12, int32_t a13),
           (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13))
AM2_DEFINE(15, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7
               , int32_t a8, int32_t a9, int32_t a10, int32_t a11, int32_t a12, int32_t a13, int32_t a14),
           (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14))
AM2_DEFINE(16, (, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7
               , int32_t a8, int32_t a9, int32_t a10, int32_t a11, int32_t a12, int32_t a13, int32_t a14
               , int32_t a15),
           (, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15))

#define AM_GetXfer0(e, i, o, h, d, ...) AM2_GetXfer0(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer1(e, i, o, h, d, ...) AM2_GetXfer1(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer2(e, i, o, h, d, ...) AM2_GetXfer2(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer3(e, i, o, h, d, ...) AM2_GetXfer3(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer4(e, i, o, h, d, ...) AM2_GetXfer4(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer5(e, i, o, h, d, ...) AM2_GetXfer5(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer6(e, i, o, h, d, ...) AM2_GetXfer6(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer7(e, i, o, h, d, ...) AM2_GetXfer7(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer8(e, i, o, h, d, ...) AM2_GetXfer8(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer9(e, i, o, h, d, ...) AM2_GetXfer9(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer10(e, i, o, h, d, ...) AM2_GetXfer10(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer11(e, i, o, h, d, ...) AM2_GetXfer11(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer12(e, i, o, h, d, ...) AM2_GetXfer12(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer13(e, i, o, h, d, ...) AM2_GetXfer13(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer14(e, i, o, h, d, ...) AM2_GetXfer14(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer15(e, i, o, h, d, ...) AM2_GetXfer15(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXfer16(e, i, o, h, d, ...) AM2_GetXfer16(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync0(e, i, o, h, d, ...) AM2_GetXferAsync0(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync1(e, i, o, h, d, ...) AM2_GetXferAsync1(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync2(e, i, o, h, d, ...) AM2_GetXferAsync2(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync3(e, i, o, h, d, ...) AM2_GetXferAsync3(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync4(e, i, o, h, d, ...) AM2_GetXferAsync4(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync5(e, i, o, h, d, ...) AM2_GetXferAsync5(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync6(e, i, o, h, d, ...) AM2_GetXferAsync6(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync7(e, i, o, h, d, ...) AM2_GetXferAsync7(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync8(e, i, o, h, d, ...) AM2_GetXferAsync8(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync9(e, i, o, h, d, ...) AM2_GetXferAsync9(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync10(e, i, o, h, d, ...) AM2_GetXferAsync10(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync11(e, i, o, h, d, ...) AM2_GetXferAsync11(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync12(e, i, o, h, d, ...) AM2_GetXferAsync12(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync13(e, i, o, h, d, ...) AM2_GetXferAsync13(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync14(e, i, o, h, d, ...) AM2_GetXferAsync14(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync15(e, i, o, h, d, ...) AM2_GetXferAsync15(e, i, o, h, AM2_DEST(d), __VA_ARGS__)
#define AM_GetXferAsync16(e, i, o, h, d, ...) AM2_GetXferAsync16(e, i, o, h, AM2_DEST(d), __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#include "am_old_names.h"

#endif
