/* How much memory a process has used. */
#include <sys/resource.h>

/* The most bytes that have been resident so far. */
static inline long most_resident(void)
{
    struct rusage usage;
    EXPECT(!getrusage(RUSAGE_SELF, &usage));
    return usage.ru_maxrss * 1024;
}

/* How many bytes more than before. Fail if they are more than this. */
static inline long more_resident(long before, long bound)
{
    long more = most_resident() - before;
    if (more > bound) {
        fprintf(stderr, "%ld bytes more than before\n", more);
        exit(1);
    }
    return more;
}
