/* A poll() that stands for the library's, and keeps the node's descriptor from a thread that has none: only a waker ends its sleep, and
 * no time-out. */
#include <poll.h>
#include <unistd.h>

static __thread int has_no_node;
static int wakes;

static int is_node(int descriptor)
{
    char path[64], target[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    EXPECT(readlink(path, target, sizeof target - 1) > 0);
    return strstr(target, "eventpoll") != NULL;
}

int poll(struct pollfd *descriptors, nfds_t count, int timeout)
{
    struct pollfd kept[8];
    struct timespec time = {timeout / 1000, timeout % 1000 * 1000000L};
    nfds_t number = 0;
    int ready;
    if (!has_no_node)
        return ppoll(descriptors, count, timeout < 0 ? NULL : &time, NULL);
    EXPECT(count == 2);
    for (nfds_t at = 0; at < count; at++) {
        descriptors[at].revents = 0;
        if (!is_node(descriptors[at].fd))
            kept[number++] = descriptors[at];
    }
    EXPECT(number == 1);
    ready = ppoll(kept, number, NULL, NULL);
    wakes++;
    return ready;
}
