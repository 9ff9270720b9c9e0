/* A program that is C and C++: two interfaces on a simulated network, and each kind of call. */
#include "common.h"

/* A conversion in both languages. */
#ifdef __cplusplus
#define AS(type, value) static_cast<type>(value)
#define WRITABLE(data) const_cast<void *>(data)
#else
#define AS(type, value) ((type)(value))
#define WRITABLE(data) ((void *)(data))
#endif

static int ECHO_BACK, ANSWER, MISSING;
static int answers, came_back;

static void on_echo(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    struct iovec parts[2];
    parts[0].iov_base = NULL;
    parts[0].iov_len = 0;
    parts[1].iov_base = WRITABLE(data);
    parts[1].iov_len = length;
    if (length % 2)
        EXPECT(am_reply(interface, header, ANSWER, data, length) == 0);
    else
        EXPECT(am_reply_vdata(interface, header, ANSWER, parts, 2) == 0);
}

static void on_answer(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(interface != NULL && header->total_length == length);
    printf("task %d, type %d, handler %d, \"%.*s\"\n", header->from_task, header->type, header->handler, AS(int, length),
           AS(const char *, data));
    answers++;
}

static void on_returned(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(interface != NULL && data != NULL);
    printf("came back from %d: type %d, handler %d, %d bytes\n", header->from_task, header->type, header->handler, AS(int, length));
    came_back = 1;
}

int main(void)
{
    am_interface *first, *second;
    am_endpoint *endpoints[2];
    static char text[] = "vectorized";
    struct iovec parts[2];
    parts[0].iov_base = text;
    parts[0].iov_len = 6;
    parts[1].iov_base = text + 6;
    parts[1].iov_len = 4;
    EXPECT(am_init("sim:1", NULL) == NULL && am_error_code() == AM_E_NOT_INITIALIZED);
    printf("%s\n", am_strerror(AM_E_NOT_INITIALIZED));
    EXPECT(am_global_init() == 0);
    ECHO_BACK = am_handler_to_id(on_echo);
    ANSWER = am_handler_to_id(on_answer);
    MISSING = am_address_to_id(text);
    EXPECT(am_bind_handler_with_id(on_echo, ECHO_BACK) == 0 && am_bind_address_with_id(text, MISSING) == 0);
    EXPECT(am_id_to_address(MISSING) == text);
    first = open_interface("sim:1", 1, 60000);
    second = open_interface("sim:1", 2, 60000);
    EXPECT(am_set_returned(first, on_returned) == 0);
    join(first, 1, second, 2, endpoints);
    EXPECT(strlen(am_hostname(first, 2)) > 0);
    EXPECT(am_request(first, 2, ECHO_BACK, "bytes", 5) == 0);
    EXPECT(am_request_ep(first, endpoints[0], ECHO_BACK, "ep", 2) == 0);
    EXPECT(am_request_vdata(first, 2, ECHO_BACK, parts, 2) == 0);
    EXPECT(am_request_vdata_ep(first, endpoints[0], ECHO_BACK, parts, 1) == 0);
    while (answers < 4)
        EXPECT(am_poll(first) >= 0 && am_wait(second, 1) >= 0);
    /* Behind the answers, because what comes back has no place among them. */
    EXPECT(am_request(first, 2, MISSING, "data", 4) == 0);
    while (!came_back)
        EXPECT(am_poll(first) >= 0 && am_wait(second, 1) >= 0);
    EXPECT(am_remove_task(first, 2) == 0 && am_deallocate_task(first, endpoints[0]) == 0);
    EXPECT(am_shutdown(first) == 0 && am_shutdown(second) == 0 && am_global_shutdown() == 0);
    printf("the same in both languages\n");
    return 0;
}
