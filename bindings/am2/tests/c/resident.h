/* How much memory a process has used. */
#include <sys/resource.h>

/* The most bytes that have been resident so far. */
static inline long most_resident(void)
{
    struct rusage usage;
    EXPECT(!getrusage(RUSAGE_SELF, &usage));
    return usage.ru_maxrss * 1024;
}
