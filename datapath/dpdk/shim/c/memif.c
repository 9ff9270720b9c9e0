/* System calls of memif's driver, replaced: build.rs links the driver into this library, so that the linker can do that.
 * Nothing else here makes these calls. */

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

ssize_t __real_sendmsg(int socket, const struct msghdr *message, int flags);

/* The driver greets each peer that it accepts. If the peer has gone by then, the driver closes the descriptor and frees
 * its record, but leaves the descriptor registered for interrupts (memif_listener_handler in memif_socket.c, the label
 * `error`; DPDK 22.11 to 26.11). DPDK's interrupt thread then ends the process, because it cannot wait for a descriptor
 * that is closed (rte_panic in eal_intr_thread_main). Any process that connects to the socket and closes can cause that.
 *
 * So no send fails here. It cuts the connection instead, and the driver takes the next event for the peer's farewell:
 * it reads nothing, unregisters the descriptor and only then closes it. Where the driver does handle a failed send, it
 * disconnects, too. */
ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags)
{
	/* MSG_NOSIGNAL: a program in C, which loads this as well, does not ignore SIGPIPE. */
	ssize_t sent = __real_sendmsg(socket, message, flags | MSG_NOSIGNAL);
	if (sent >= 0)
		return sent;
	shutdown(socket, SHUT_RDWR);
	return (ssize_t)message->msg_iov[0].iov_len;
}

int __real_accept(int socket, struct sockaddr *address, socklen_t *length);
ssize_t __real_recvmsg(int socket, struct msghdr *message, int flags);

/* DPDK's interrupt thread identifies an event by its descriptor's number, and may see one of a socket that has been closed
 * since, see settle() in eal.rs. Where the number is another socket's by now, that one must not wait for a peer: the
 * thread would wait for ever, and each close with it. A listener that finds nobody goes on; a connection is cut, and the
 * client looks for its server again. */
int __wrap_accept(int socket, struct sockaddr *address, socklen_t *length)
{
	struct pollfd waiting = {.fd = socket, .events = POLLIN};
	if (poll(&waiting, 1, 0) != 1) {
		errno = EAGAIN;
		return -1;
	}
	return __real_accept(socket, address, length);
}

ssize_t __wrap_recvmsg(int socket, struct msghdr *message, int flags)
{
	return __real_recvmsg(socket, message, flags | MSG_DONTWAIT);
}
