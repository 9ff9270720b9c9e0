/* Two processes that both connect at once, and send at once: each request and reply arrives once, in order.
 *
 *   crossed 1|2 connect         both connect
 *   crossed 1|2 late            task 2 computes for three seconds before it accepts
 *   crossed 1|2 stopped         task 2 is stopped for four seconds before it accepts: longer than a silent host is given
 */
#define _GNU_SOURCE
#include "common.h"
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { EACH = 500 };

static int COUNT, REPLIED;
static int counted, replied;

static void on_count(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(length == sizeof counted && !memcmp(data, &counted, sizeof counted));
    counted++;
    EXPECT(am_reply(interface, header, REPLIED, data, length) == 0);
}

static void on_replied(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(interface && header && length == sizeof replied && !memcmp(data, &replied, sizeof replied));
    replied++;
}

/* A process that wakes this one, also if this one is slow to stop. */
static void start_alarm(void)
{
    if (fork() == 0) {
        EXPECT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        for (;;) {
            sleep(4);
            kill(getppid(), SIGCONT);
        }
    }
}

int main(int count, char **arguments)
{
    int own = count == 3 ? atoi(arguments[1]) : 0, is_late, is_stopped;
    static char name[4096];
    am_interface *interface;
    am_endpoint *endpoint;
    EXPECT(own == 1 || own == 2);
    is_late = !strcmp(arguments[2], "late");
    is_stopped = !strcmp(arguments[2], "stopped");
    if (is_stopped && own == 2)
        start_alarm();
    EXPECT(am_global_init() == 0);
    COUNT = am_handler_to_id(on_count);
    REPLIED = am_handler_to_id(on_replied);
    interface = open_interface(NULL, own, 60000);
    printf("%s\n", am_task_address(interface, own));
    fflush(stdout);
    EXPECT(fgets(name, sizeof name, stdin));
    name[strcspn(name, "\n")] = 0;
    endpoint = am_allocate_task(interface);
    if (is_late && own == 2)
        sleep(3);
    if (is_stopped && own == 2)
        raise(SIGSTOP);
    EXPECT(((is_late || is_stopped) && own == 2 ? am_accept_task : am_connect_task)(interface, endpoint, name) == 0);
    EXPECT(am_insert_task(interface, endpoint, 3 - own) == 0);
    for (int number = 0; number < EACH; number++)
        EXPECT(am_request(interface, 3 - own, COUNT, &number, sizeof number) == 0);
    while (counted < EACH || replied < EACH)
        EXPECT(am_wait(interface, 1000) >= 0);
    EXPECT(am_shutdown(interface) == 0);
    printf("%d and %d\n", counted, replied);
    return 0;
}
