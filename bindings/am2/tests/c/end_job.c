/* A long exchange; then a handler of rank 1 ends the job on purpose, while ranks 0 and 1 wait at a barrier to which rank 2 does not come. */
#include "common.h"
#include <am_spmd.h>
#include <unistd.h>

enum { END = 1, LONG = 200000 };

static unsigned char blob[LONG], all[3 * LONG];

static void on_end(void *token)
{
    (void)token;
    OK(AM2_SpmdEndJob(0));
}

int main(void)
{
    open_endpoint(AM_SEQ);
    EXPECT(AM2_SpmdSize() == 3);
    OK(AM_SetHandler(ep, END, on_end));
    OK(AM2_SpmdMap(ep, TAG));
    memset(blob, 'a' + AM2_SpmdRank(), sizeof blob);
    OK(AM2_SpmdExchange(blob, sizeof blob, all));
    for (int at = 0; at < 3 * LONG; at++)
        EXPECT(all[at] == 'a' + at / LONG);
    printf("exchanged\n");
    fflush(stdout);
    OK(AM2_SpmdBarrier());
    if (AM2_SpmdRank() == 2)
        for (;;)
            pause();
    if (AM2_SpmdRank() == 0)
        OK(AM_Request0(ep, 1, END));
    OK(AM2_SpmdBarrier());
    fprintf(stderr, "the job has not ended\n");
    return 1;
}
