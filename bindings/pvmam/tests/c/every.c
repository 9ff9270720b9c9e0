/* Two processes, 1 and 2, which exchange addresses by standard output and input: messages of each kind and many lengths, floods in both
 * directions, all once, in order and whole.
 *
 *   every 1|2
 */
#include "common.h"
#include <stdint.h>

enum { FLOOD = 3000, BIG = 5000003 };

static int COUNT, REPLIED, BYTES, SUM, BYE;
static long counted, replied, sums[64], sum_count, wrong;
static int has_left;

static unsigned char byte_at(size_t length, size_t at)
{
    return (unsigned char)(length * 7 + at * 13 + (at >> 8));
}

static void on_count(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    long number;
    EXPECT(length >= sizeof number && header->type == AM_REQUEST);
    memcpy(&number, data, sizeof number);
    wrong += number != counted++;
    /* Every third has no reply. */
    if (number % 3)
        EXPECT(am_reply(interface, header, REPLIED, data, sizeof number) == 0);
}

static void on_replied(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    long number;
    EXPECT(interface && header->type == AM_REPLY && length == sizeof number);
    memcpy(&number, data, sizeof number);
    wrong += number != replied / 2 * 3 + replied % 2 + 1;
    replied++;
}

/* Replies with the number of right bytes, in two parts, and the bytes themselves. */
static void on_bytes(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    long right = 0;
    struct iovec parts[2] = {{&right, sizeof right}, {(void *)(uintptr_t)data, length}};
    for (size_t at = 0; at < length; at++)
        right += bytes[at] == byte_at(length, at);
    EXPECT(am_reply_vdata(interface, header, SUM, parts, 2) == 0);
}

static void on_sum(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)data + sizeof(long);
    EXPECT(interface && header->total_length == length && length >= sizeof(long));
    memcpy(&sums[sum_count++], data, sizeof(long));
    length -= sizeof(long);
    for (size_t at = 0; at < length; at++)
        wrong += bytes[at] != byte_at(length, at);
}

static void on_bye(am_interface *interface, const am_header *header, const void *data, size_t length)
{
    EXPECT(interface && data && length == 0 && header->handler == BYE);
    has_left = 1;
}

static void flood(am_interface *interface, int other, am_endpoint *endpoint)
{
    static char rest[1000];
    for (long number = 0; number < FLOOD; number++) {
        struct iovec parts[3] = {{&number, 3}, {(char *)&number + 3, sizeof number - 3}, {rest, (size_t)(number % 1000)}};
        EXPECT((number % 2 ? am_request_vdata(interface, other, COUNT, parts, 3)
                           : am_request_ep(interface, endpoint, COUNT, &number, sizeof number)) == 0);
    }
    while (counted < FLOOD || replied < FLOOD / 3 * 2)
        EXPECT(am_wait(interface, 1000) >= 0);
    EXPECT(counted == FLOOD && replied == FLOOD / 3 * 2 && wrong == 0);
}

static void sizes(am_interface *interface, int other)
{
    static const size_t SIZES[] = {0, 1, 7, 1400, 1446, 1447, 9000, 65536, 1000001, BIG};
    enum { N = sizeof SIZES / sizeof *SIZES };
    unsigned char *bytes = malloc(BIG);
    EXPECT(bytes);
    for (int round = 0; round < 2; round++)
        for (int which = 0; which < N; which++) {
            size_t length = SIZES[which], cut = length / 3;
            struct iovec parts[3] = {{bytes, cut}, {bytes + cut, 0}, {bytes + cut, length - cut}};
            for (size_t at = 0; at < length; at++)
                bytes[at] = byte_at(length, at);
            EXPECT((round ? am_request_vdata(interface, other, BYTES, parts, 3)
                          : am_request(interface, other, BYTES, bytes, length)) == 0);
            /* It was copied. */
            memset(bytes, 0, length);
        }
    free(bytes);
    while (sum_count < 2 * N)
        EXPECT(am_wait(interface, 1000) >= 0);
    for (int which = 0; which < 2 * N; which++)
        EXPECT(sums[which] == (long)SIZES[which % N]);
    EXPECT(wrong == 0);
}

int main(int count, char **arguments)
{
    int own = count == 2 ? atoi(arguments[1]) : 0, other = 3 - own;
    am_interface *interface;
    am_endpoint *endpoint;
    EXPECT(am_global_init() == 0 && (own == 1 || own == 2));
    COUNT = am_handler_to_id(on_count);
    REPLIED = am_handler_to_id(on_replied);
    BYTES = am_handler_to_id(on_bytes);
    SUM = am_handler_to_id(on_sum);
    BYE = am_handler_to_id(on_bye);
    interface = open_interface(NULL, own, 60000);
    endpoint = meet(interface, own);
    flood(interface, other, endpoint);
    sizes(interface, other);
    EXPECT(am_request(interface, other, BYE, NULL, 0) == 0);
    while (!has_left)
        EXPECT(am_wait(interface, 1000) >= 0);
    EXPECT(am_shutdown(interface) == 0 && am_global_shutdown() == 0);
    printf("%ld counted, %ld replied, %ld lengths, %ld wrong\n", counted, replied, sum_count, wrong);
    return 0;
}
