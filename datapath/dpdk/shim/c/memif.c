/* A send of memif's driver that fails. */

#include <sys/socket.h>

ssize_t __real_sendmsg(int socket, const struct msghdr *message, int flags);

/* The driver greets each peer that it accepts. If the peer has gone by then, the driver closes the descriptor and frees
 * its record, but leaves the descriptor registered for interrupts (memif_listener_handler in memif_socket.c, the label
 * `error`; DPDK 22.11 to 26.11). DPDK's interrupt thread then ends the process, because it cannot wait for a descriptor
 * that is closed (rte_panic in eal_intr_thread_main). Any process that connects to the socket and closes can cause that.
 *
 * So no send fails here. It cuts the connection instead, and the driver takes the next event for the peer's farewell:
 * it reads nothing, unregisters the descriptor and only then closes it. Where the driver does handle a failed send, it
 * disconnects, too.
 *
 * build.rs links the driver into this library, so that the linker can replace the call. Nothing else here sends. */
ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags)
{
	/* MSG_NOSIGNAL: a program in C, which loads this as well, does not ignore SIGPIPE. */
	ssize_t sent = __real_sendmsg(socket, message, flags | MSG_NOSIGNAL);
	if (sent >= 0)
		return sent;
	shutdown(socket, SHUT_RDWR);
	return (ssize_t)message->msg_iov[0].iov_len;
}
