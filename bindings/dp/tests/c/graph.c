/* A process of a graph, without the name of a node. `shape`: each vertex sends its number along each edge out, and takes one message for
 * each edge in; then it says what it took. `fails`: why there is no graph. */
#define _GNU_SOURCE
#include "common.h"

static void before(void) {
    FAILS(dp_vertices(), EINVAL);
    FAILS(dp_out(0), EINVAL);
    CHECK(dp_vertex_name() == NULL);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (argv[1][0] == 'f') {
        CHECK(dp_graph() == -1);
        puts(dp_error());
        return 0;
    }
    before();
    int out = dp_graph(), in = dp_in_degree();
    CHECK(out >= 0 && out == dp_out_degree() && in >= 0);
    FAILS(dp_graph(), EALREADY);
    FAILS(dp_out(out), EINVAL);
    FAILS(dp_in(-1), EINVAL);
    FAILS(dp_point(77), ENOENT);
    CHECK(dp_vertices() > dp_nid());
    int own = dp_nid();
    for (int k = 0; k < out; k++) {
        put(dp_out(k), &own, sizeof own);
    }
    int sum = 0;
    for (int k = 0; k < in; k++) {
        char *address;
        int from;
        CHECK(next(dp_in(k), &address) == sizeof from);
        memcpy(&from, address, sizeof from);
        CHECK(dp_fsync(dp_in(k), 1) == 0);
        sum += from;
    }
    printf("%s: %d out, %d in, sum %d\n", dp_vertex_name(), out, in, sum);
    /* The others may still connect or read. */
    CHECK(dp_barrier() == 0);
    return 0;
}
