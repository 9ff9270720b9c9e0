/* How a process may end with an interface open.
 *
 *   last returns|exits|cancelled|other|handler
 */
#define _GNU_SOURCE
#include "common.h"
#include <pthread.h>
#include <unistd.h>

static int END;
static pthread_t self;

static void *cancels(void *thread)
{
    usleep(100000);
    EXPECT(pthread_cancel(*(pthread_t *)thread) == 0);
    return NULL;
}

/* The first thread has ended before. */
static void *works(void *unused)
{
    am_interface *interface = open_interface("udp:127.0.0.1:0", 1, 60000);
    EXPECT(am_wait(interface, 300) == 0);
    puts("open");
    return unused;
}

static void on_end(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(interface && header && data && !length);
    exit(0);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    am_interface *interface, *second;
    am_endpoint *endpoints[2];
    EXPECT(argc == 2 && am_global_init() == 0);
    if (!strcmp(argv[1], "other")) {
        EXPECT(pthread_create(&thread, NULL, works, NULL) == 0);
        pthread_exit(NULL);
    }
    END = am_handler_to_id(on_end);
    interface = open_interface("udp:127.0.0.1:0", 1, 60000);
    second = open_interface("udp:127.0.0.1:0", 2, 60000);
    join(interface, 1, second, 2, endpoints);
    puts("open");
    fflush(stdout);
    if (!strcmp(argv[1], "returns"))
        return 0;
    if (!strcmp(argv[1], "exits"))
        pthread_exit(NULL);
    if (!strcmp(argv[1], "handler"))
        EXPECT(am_request(interface, 2, END, NULL, 0) == 0);
    else {
        self = pthread_self();
        EXPECT(pthread_create(&thread, NULL, cancels, &self) == 0 && pthread_detach(thread) == 0);
    }
    for (;;)
        EXPECT(am_wait(second, 20) >= 0 && am_poll(interface) >= 0);
}
