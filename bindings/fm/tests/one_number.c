/* A program has a file of its own under one of the library's numbers: the library leaves that file alone, also at its end, and lets the others
 * be.
 *
 *   one_number TRANSPORT WHICH            prints how many numbers the library has; WHICH counts from 0
 */
#define _GNU_SOURCE
#include "common.h"

#define CHECK EXPECT
#include "../../test-support/numbers.h"

int main(int argc, char **argv) {
    const char *names[] = {"alpha", "beta"};
    CHECK(argc == 3);
    int which = atoi(argv[2]), numbers = 0;
    kind = "file";
    look(is_open);
    CHECK(FM_initialize(argv[1], 0, 2, names) == 0 && FM_extract_or_wait(20) == 0);
    note_library();
    for (int fd = 0; fd < MAX; fd++)
        if (is_library[fd] && numbers++ == which) take(fd);
    CHECK(count == 1);
    for (int i = 0; i < 100; i++) FM_extract_or_wait(1);
    FM_finalize();
    check_mine();
    printf("%d\n", numbers);
    return 0;
}
