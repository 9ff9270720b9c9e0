/* Two ends of a kernel socket that io_uring drives. See measure.h.
 *
 *   uring udp|tcp spin|sleep near|far ADDRESS LENGTH WARM-UP SIZE...
 *
 * The socket is a registered file. A long message leaves from registered memory, without a copy where the kernel can do that (SEND_ZC); its
 * bytes are not changed while the kernel may still read them, so each of the two kinds of message has memory of its own. A short one is
 * copied, which costs less. To receive without a copy, the kernel needs a NIC that splits headers from data.
 */
#include "measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <sys/socket.h>

enum { PORT = 5201, ENTRIES = 128, COMPLETIONS = 4096, LONG = 16384, BUFFER = 64 << 20 };
/* Nothing is sent again, so a lost datagram ends the measurement. */
static const uint64_t PATIENCE = 5000000000u;

static struct io_uring ring;
static int is_tcp, spins;
/* The memory of a long message that is sent, by its first byte. */
static char *lent[2];
static int lent_size;

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("uring: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static void check(int result, const char *what)
{
    if (result < 0)
        fail("%s: %s", what, strerror(result == -1 ? errno : -result));
}

/* Wait for the next completion. A spinning end asks the kernel again and again, as one with a socket that does not block. */
static struct io_uring_cqe *next(void)
{
    struct io_uring_cqe *found = NULL;
    if (!spins) {
        struct __kernel_timespec longest = {.tv_sec = (long long)(PATIENCE / 1000000000u)};
        check(io_uring_wait_cqe_timeout(&ring, &found, &longest), "wait");
        return found;
    }
    uint64_t until = 0;
    for (unsigned turn = 1; io_uring_peek_cqe(&ring, &found) != 0; turn++) {
        check(io_uring_get_events(&ring), "look");
        if (turn % 4096 != 0)
            continue;
        if (until == 0)
            until = now() + PATIENCE;
        else if (now() > until)
            fail("nothing has arrived for five seconds: a message was lost");
    }
    return found;
}

/* Until this many operations are done. What is lent is given back at some time. */
static void finish(int count)
{
    check(io_uring_submit(&ring), "submit");
    while (count > 0) {
        struct io_uring_cqe *done = next();
        if (!(done->flags & IORING_CQE_F_NOTIF)) {
            check(done->res, "an operation");
            if ((uint64_t)done->res != done->user_data)
                fail("%d of %llu bytes", done->res, (unsigned long long)done->user_data);
            count--;
        }
        io_uring_cqe_seen(&ring, done);
    }
}

static struct io_uring_sqe *operation(void)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring);
    if (!entry)
        fail("no room for an operation");
    return entry;
}

static void begin(struct io_uring_sqe *entry, uint64_t length, unsigned flags)
{
    io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE | flags);
    io_uring_sqe_set_data64(entry, length);
}

/* Lend the kernel memory for messages of this size. */
static void lend(int size)
{
    struct iovec both[2];
    if (lent_size > 0)
        check(io_uring_unregister_buffers(&ring), "take memory back");
    for (int kind = 0; kind < 2; kind++) {
        free(lent[kind]);
        lent[kind] = aligned_alloc(4096, ((size_t)size + 4095) / 4096 * 4096);
        if (!lent[kind])
            fail("no memory for a message of %d bytes", size);
        memset(lent[kind], 0, (size_t)size);
        lent[kind][0] = (char)kind;
        both[kind] = (struct iovec){.iov_base = lent[kind], .iov_len = (size_t)size};
    }
    check(io_uring_register_buffers(&ring, both, 2), "lend memory");
    lent_size = size;
}

static void begin_send(const char *message, int size, unsigned flags)
{
    struct io_uring_sqe *entry = operation();
    if (size < LONG) {
        io_uring_prep_send(entry, 0, message, (size_t)size, MSG_WAITALL);
    } else {
        unsigned kind = message[0] == LAST ? LAST : MORE;
        if (lent_size != size)
            lend(size);
        io_uring_prep_send_zc_fixed(entry, 0, lent[kind], (size_t)size, MSG_WAITALL, 0, kind);
    }
    begin(entry, (uint64_t)size, flags);
}

static void begin_receive(char *message, size_t bytes)
{
    struct io_uring_sqe *entry = operation();
    io_uring_prep_recv(entry, 0, message, bytes, is_tcp ? MSG_WAITALL : 0);
    begin(entry, bytes, 0);
}

static void put(const char *message, int size)
{
    begin_send(message, size, 0);
    finish(1);
}

static void get(char *message, int size)
{
    begin_receive(message, (size_t)size);
    finish(1);
}

/* Bytes of a stream must leave in their order, so each send waits for the one before it. */
static void put_many(const char *message, int size, int count)
{
    for (int i = 0; i < count; i++)
        begin_send(message, size, is_tcp && i + 1 < count ? IOSQE_IO_LINK : 0);
    finish(count);
}

static void get_many(char *messages, int size, int count)
{
    if (is_tcp) {
        begin_receive(messages, (size_t)size * (size_t)count);
        finish(1);
        return;
    }
    for (int i = 0; i < count; i++)
        begin_receive(messages + (size_t)i * (size_t)size, (size_t)size);
    finish(count);
}

/* A socket whose other end is known. The near end speaks first. */
static int meet(int side, const char *address)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    socklen_t length = sizeof there;
    char hello = 0;
    int one = 1, room = BUFFER, made = socket(AF_INET, is_tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
    check(made, "socket");
    if (inet_pton(AF_INET, address, &there.sin_addr) != 1)
        fail("%s is no address", address);
    if (side == NEAR) {
        check(connect(made, (struct sockaddr *)&there, sizeof there), "connect");
        check((int)send(made, &hello, 1, 0), "the first byte");
        check((int)recv(made, &hello, 1, 0), "the answer");
    } else {
        setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        check(bind(made, (struct sockaddr *)&there, sizeof there), "bind");
        if (is_tcp) {
            check(listen(made, 1), "listen");
            made = accept(made, NULL, NULL);
            check(made, "accept");
            check((int)recv(made, &hello, 1, 0), "the first byte");
        } else {
            check((int)recvfrom(made, &hello, 1, 0, (struct sockaddr *)&there, &length), "the first datagram");
            check(connect(made, (struct sockaddr *)&there, length), "connect");
        }
        check((int)send(made, &hello, 1, 0), "the answer");
    }
    if (is_tcp)
        setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    else if (setsockopt(made, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0)
        setsockopt(made, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    return made;
}

int main(int argc, char **argv)
{
    if (argc < 7)
        fail("udp|tcp spin|sleep near|far ADDRESS LENGTH WARM-UP SIZE...");
    is_tcp = strcmp(argv[1], "tcp") == 0;
    spins = strcmp(argv[2], "spin") == 0;
    int side = strcmp(argv[3], "near") == 0 ? NEAR : FAR;
    struct io_uring_params how = {
        .flags = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, .cq_entries = COMPLETIONS};
    check(io_uring_queue_init_params(ENTRIES, &ring, &how), "io_uring (a kernel from 6.1 on)");
    int made = meet(side, argv[4]);
    check(io_uring_register_files(&ring, &made, 1), "register the socket");
    measure(side, argc - 4, argv + 4);
    return 0;
}
