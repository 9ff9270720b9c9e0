/* A program that closes the library's descriptors by their numbers, and has files of its own there: the library closes none of them, reads
 * from none and writes into none, says what has happened, and opens an interface again.
 *
 *   numbers TRANSPORT HOW KIND            as in dp's test of this name
 */
#define _GNU_SOURCE
#include "common.h"

#define CHECK EXPECT
#include "../../../test-support/numbers.h"

static const char *transport;

static am_interface *start(void) {
    am_interface *interface;
    look(is_open);
    interface = open_interface(transport, 1, 60000);
    /* The first wait makes what it needs. */
    CHECK(am_wait(interface, 20) == 0);
    note_library();
    return interface;
}

int main(int argc, char **argv) {
    am_interface *interface;
    CHECK(argc == 4 && am_global_init() == 0);
    transport = argv[1];
    kind = argv[3];
    int code = 0;
    for (int way = 0; way < 3; way++) {
        interface = start();
        lose_all(argv[2]);
        switch (way) {
        case 0:
            while ((code = am_poll(interface)) == 0) {
            }
            break;
        case 1: code = am_wait(interface, 60000); break;
        case 2: code = am_shutdown(interface); break;
        }
        CHECK(code == AM_E_LOST && am_poll(interface) == AM_E_SHUTDOWN);
        check_mine();
    }
    interface = start();
    CHECK(am_shutdown(interface) == 0);
    check_mine();
    start();
    lose_all(argv[2]);
    /* At the exit nothing is closed twice, and what the program has not written yet is written then. */
    printf("mine are as they were\n");
    return 0;
}
