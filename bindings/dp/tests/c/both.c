/* A program that is C and C++: an endpoint with an edge to itself, and each kind of call. */
#include <dp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s: %s\n", __FILE__, __LINE__, #condition, dp_error());                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

int main(void)
{
    char *address = NULL, text[8] = "";
    dpmmap_t pool;
    dp_traffic_t traffic;
    int n = 0, fd = dp_open(1), second = dp_open_pool(2, 8192);
    EXPECT(fd >= 0 && second >= 0 && dp_is_point(fd) && dp_point(2) == second);
    EXPECT(dp_connect(fd, dp_nid(), 2) == 0);
    EXPECT(dp_write(second, "bytes", 5) == -1 && errno == ENOTCONN);
    EXPECT(dp_write(fd, "bytes", 5) == 5);
    while ((n = dp_read(second, &address)) == 0) {
    }
    EXPECT(dp_mmap(second, &pool) == 0 && pool.size >= 8192 && address >= pool.address);
    printf("%d bytes: %.5s\n", n, address);
    EXPECT(dp_fsync(second, 1) == 0);
    EXPECT(dp_unix_write(fd, "again", 5) == 5 && dp_unix_read(second, text, sizeof text) == 5);
    EXPECT(dp_traffic(fd, &traffic) == 0);
    printf("%s, %llu written, %llu bytes\n", text, traffic.written, traffic.bytes_written);
    EXPECT(dp_vertices() == -1 && dp_vertex_name() == NULL && dp_nodes() == 1 && dp_barrier() == 0);
    EXPECT(dp_close(fd) == 0 && dp_close(second) == 0 && dp_close(fd) == -1);
    printf("the same in both languages\n");
    return 0;
}
