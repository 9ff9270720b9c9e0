/* What keeps the own node from its peers is said where they do not answer. */
#include "common.h"

int main(int argc, char **argv)
{
    static const char *const NAMES[] = {"alpha", "beta"};
    EXPECT(argc == 2 && FM_initialize(argv[1], 0, 2, NAMES) == 0);
    puts("open");
    fflush(stdout);
    EXPECT(getchar() == EOF);
    EXPECT(FM_meet(2500) == FM_E_TIMEOUT);
    puts(FM_error());
    FM_finalize();
    return 0;
}
