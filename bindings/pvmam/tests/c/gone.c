/* Task 2 is killed: what it has not handled comes back to task 1, which notices, and connects the endpoint with another process.
 *
 *   gone 1 DIRECTORY      reads the address of task 2 from the file `first` there, sends until it is dead, and reads the next address from
 *                         `second`
 *   gone 2                prints its address, and stops in its first handler
 *   gone 3                prints its address, and does not stop
 */
#define _DEFAULT_SOURCE
#include "common.h"
#include <unistd.h>

static int COUNT, REPLIED;
static int returned, replied, own;

static void on_count(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    if (own == 2) {
        printf("stops\n");
        fflush(stdout);
        for (;;)
            pause();
    }
    EXPECT(am_reply(interface, header, REPLIED, data, length) == 0);
}

static void on_replied(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(interface && header && data && length == 7);
    replied++;
}

static void on_returned(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(header->type == AM_RETURNED_REQUEST && header->from_task == 2 && header->handler == COUNT);
    EXPECT(length == 7 && !memcmp(data, "request", 7));
    FAILS(am_reply(interface, header, REPLIED, NULL, 0), AM_E_REPLY);
    returned++;
}

/* The text of a file, once it is there. */
static const char *text_of(const char *directory, const char *file)
{
    static char path[4096], text[4096];
    FILE *from;
    snprintf(path, sizeof path, "%s/%s", directory, file);
    while (!(from = fopen(path, "r")))
        usleep(1000);
    EXPECT(fgets(text, sizeof text, from) && fclose(from) == 0);
    return text;
}

static void ask(am_interface *interface, const char *directory)
{
    am_endpoint *endpoint = am_allocate_task(interface);
    int sent = 0, code;
    EXPECT(am_set_returned(interface, on_returned) == 0);
    EXPECT(am_connect_task(interface, endpoint, text_of(directory, "first")) == 0 && am_insert_task(interface, endpoint, 2) == 0);
    /* Until there is no room, and the task is dead. */
    while ((code = am_request(interface, 2, COUNT, "request", 7)) == 0)
        sent++;
    EXPECT(code == AM_E_UNREACHABLE && sent > 10);
    while (returned < sent - 1)
        EXPECT(am_wait(interface, 1000) >= 0);
    EXPECT(am_wait(interface, 20) >= 0 && returned <= sent);
    FAILS(am_request(interface, 2, COUNT, "request", 7), AM_E_UNREACHABLE);
    FAILS(am_request_ep(interface, endpoint, COUNT, "request", 7), AM_E_UNREACHABLE);
    EXPECT(am_set_returned(interface, NULL) == 0);
    printf("%s came back\n", returned == sent ? "all" : "all but one");
    fflush(stdout);
    EXPECT(am_connect_task(interface, endpoint, text_of(directory, "second")) == 0);
    EXPECT(am_request(interface, 2, COUNT, "request", 7) == 0);
    while (!replied)
        EXPECT(am_wait(interface, 1000) >= 0);
    EXPECT(am_shutdown(interface) == 0);
    printf("replied\n");
}

int main(int count, char **arguments)
{
    am_interface *interface;
    EXPECT(am_global_init() == 0 && count >= 2);
    own = atoi(arguments[1]);
    COUNT = am_handler_to_id(on_count);
    REPLIED = am_handler_to_id(on_replied);
    interface = open_interface(NULL, own, 60000);
    printf("%s\n", am_task_address(interface, own));
    fflush(stdout);
    if (own == 1)
        ask(interface, arguments[2]);
    else
        while (am_wait(interface, 1000) >= 0)
            ;
    return 0;
}
