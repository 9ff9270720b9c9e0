/* A program has a file of its own under one of the library's numbers: the library leaves that file alone, also at its end, and lets the
 * others be.
 *
 *   one_number TRANSPORT WHICH            prints how many numbers the library has; WHICH counts from 0
 */
#define _GNU_SOURCE
#include "common.h"

#define CHECK EXPECT
#include "../../../test-support/numbers.h"

int main(int argc, char **argv) {
    am_interface *interface;
    CHECK(argc == 3 && am_global_init() == 0);
    int which = atoi(argv[2]), numbers = 0;
    kind = "file";
    look(is_open);
    interface = open_interface(argv[1], 1, 1000);
    CHECK(am_wait(interface, 20) == 0);
    note_library();
    for (int fd = 0; fd < MAX; fd++)
        if (is_library[fd] && numbers++ == which) take(fd);
    CHECK(count == 1);
    for (int i = 0; i < 100; i++) am_wait(interface, 1);
    am_shutdown(interface);
    check_mine();
    printf("%d\n", numbers);
    return 0;
}
