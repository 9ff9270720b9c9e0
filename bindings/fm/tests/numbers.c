/* A program that closes the library's descriptors by their numbers, and has files of its own there: the library closes none of them, reads
 * from none and writes into none, says what has happened, and opens a node again.
 *
 *   numbers TRANSPORT HOW KIND            as in dp's test of this name
 */
#define _GNU_SOURCE
#include "common.h"

#define CHECK EXPECT
#include "../../test-support/numbers.h"

static const char *transport;

static void start(void) {
    const char *names[] = {"alpha", "beta"};
    look(is_open);
    CHECK(FM_initialize(transport, 0, 2, names) == 0);
    /* The first wait makes what it needs. */
    CHECK(FM_extract_or_wait(20) == 0);
    note_library();
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    transport = argv[1];
    kind = argv[3];
    int code = 0;
    for (int way = 0; way < 3; way++) {
        start();
        lose_all(argv[2]);
        switch (way) {
        case 0:
            while ((code = FM_extract()) == 0) {
            }
            break;
        case 1: code = FM_extract_or_wait(60000); break;
        case 2: code = FM_finalize(); break;
        }
        CHECK(code == FM_E_LOST && FM_extract() == FM_E_NOT_INITIALIZED);
        check_mine();
    }
    start();
    CHECK(FM_finalize() == 0);
    check_mine();
    start();
    lose_all(argv[2]);
    /* At the exit nothing is closed twice, and what the program has not written yet is written then. */
    printf("mine are as they were\n");
    return 0;
}
