/* What the test programs share: two processes that learn each other's names through their standard output and input. */
#include "expect.h"
#include <am.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG 1998

static eb_t bundle;
static ep_t ep;
static en_t own, other;

/* Open an endpoint that takes messages of TAG, in a bundle of its own. */
static inline void open_endpoint(int access)
{
    OK(AM_Init());
    OK(AM_AllocateBundle(access, &bundle));
    OK(AM_AllocateEndpoint(bundle, &ep, &own));
    OK(AM_SetTag(ep, TAG));
}

/* Open an endpoint, say its name, read the other's, and map it at 0 and this one at 1. */
static inline void meet(void)
{
    open_endpoint(AM_PAR);
    OK(AM_SetEventMask(bundle, AM_NOTEMPTY));
    for (size_t at = 0; at < sizeof own; at++)
        printf("%02x", own.bytes[at]);
    printf("\n");
    fflush(stdout);
    for (size_t at = 0; at < sizeof other; at++) {
        unsigned byte;
        EXPECT(scanf("%2x", &byte) == 1);
        other.bytes[at] = (unsigned char)byte;
    }
    OK(AM_Map(ep, 0, other, TAG));
    OK(AM_Map(ep, 1, own, TAG));
}

/* Poll until this holds. */
#define POLL_UNTIL(condition)                                                                                          \
    while (!(condition))                                                                                               \
    OK(AM_Poll(bundle))
