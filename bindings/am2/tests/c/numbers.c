/* A program that closes the library's descriptors by their numbers, and has files of its own there: the library closes none of them, reads
 * from none and writes into none, says what has happened, and starts anew.
 *
 *   numbers HOW KIND            as in dp's test of this name
 */
#define _GNU_SOURCE
#include <am.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                                              \
    do {                                                                         \
        if (!(what)) {                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);           \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

#include "../../../test-support/numbers.h"

static eb_t bundle;
static ep_t ep;
static en_t name;

static void start(void) {
    look(is_open);
    CHECK(AM_Init() == AM_OK && AM_AllocateBundle(AM_SEQ, &bundle) == AM_OK && AM_AllocateEndpoint(bundle, &ep, &name) == AM_OK);
    CHECK(AM_SetEventMask(bundle, AM_NOTEMPTY) == AM_OK && AM_Poll(bundle) == AM_OK);
    note_library();
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    kind = argv[2];
    int code = 0;
    for (int way = 0; way < 3; way++) {
        start();
        lose_all(argv[1]);
        switch (way) {
        case 0:
            while ((code = AM_Poll(bundle)) == AM_OK) {
            }
            break;
        case 1: code = AM_WaitSema(bundle); break;
        case 2: code = AM_Terminate(); break;
        }
        CHECK(code == AM_ERR_RESOURCE && AM_Poll(bundle) == AM_ERR_NOT_INIT);
        check_mine();
    }
    start();
    CHECK(AM_Terminate() == AM_OK);
    check_mine();
    start();
    lose_all(argv[1]);
    printf("mine are as they were\n");
    return 0;
}
