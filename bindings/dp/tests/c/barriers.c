/* Two threads of rank 0 call dp_barrier at once. Rank 1 calls it, leaves a mark, and calls it again: so one of the two sees the mark. */
#define _GNU_SOURCE
#include "common.h"

#include <pthread.h>

static void *meet(void *unused) {
    (void)unused;
    CHECK(dp_barrier() == 0);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (dp_nid() == 0) {
        pthread_t two[2];
        for (int i = 0; i < 2; i++) {
            CHECK(pthread_create(&two[i], NULL, meet, NULL) == 0);
        }
        for (int i = 0; i < 2; i++) {
            CHECK(pthread_join(two[i], NULL) == 0);
        }
        CHECK(access(argv[1], F_OK) == 0);
        return 0;
    }
    CHECK(dp_barrier() == 0);
    usleep(100000);
    FILE *mark = fopen(argv[1], "w");
    CHECK(mark != NULL && fclose(mark) == 0);
    CHECK(dp_barrier() == 0);
    return 0;
}
