/* What the test programs share: a check that says where it failed. */
#include <fm.h>
#include <stdio.h>
#include <stdlib.h>

/* Fail unless this holds. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, FM_error());                   \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
