/* epoll over a thousand endpoints and a TCP socket at once. Node 0 has them; node 1 writes to each of them, in a random order, by one
 * endpoint whose edge it redirects. The soft limit of descriptors is too low for that: the library raises it. */
#define _GNU_SOURCE
#include "common.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { COUNT = 1000, ROUNDS = 2 };

static void serve(void) {
    static int points[COUNT];
    static int seen[COUNT];
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 256;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int set = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM, 0), tcp = -1;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof own;
    CHECK(bind(listener, (struct sockaddr *)&own, sizeof own) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&own, &size) == 0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) == 0);
    for (int i = 0; i < COUNT; i++) {
        points[i] = dp_open_pool(i, 4096);
        CHECK(points[i] >= 0);
        event.data.fd = points[i];
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, points[i], &event) == 0);
    }
    printf("%d\n", ntohs(own.sin_port));
    fflush(stdout);
    int messages = 0, bytes = 0, waits = 0;
    while (messages < COUNT * ROUNDS || bytes < ROUNDS) {
        struct epoll_event events[64];
        int count = epoll_wait(set, events, 64, 30000);
        CHECK(count > 0);
        waits++;
        for (int at = 0; at < count; at++) {
            int fd = events[at].data.fd;
            char *address, byte;
            if (fd == listener) {
                tcp = accept(listener, NULL, NULL);
                event.data.fd = tcp;
                CHECK(tcp >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, tcp, &event) == 0);
            } else if (fd == tcp) {
                CHECK(read(tcp, &byte, 1) == 1);
                bytes++;
            } else {
                int number, n = dp_read(fd, &address);
                CHECK(n == sizeof number);
                memcpy(&number, address, sizeof number);
                CHECK(points[number] == fd && dp_fsync(fd, 1) == 0);
                seen[number]++;
                messages++;
            }
        }
    }
    for (int i = 0; i < COUNT; i++) {
        char *address;
        CHECK(seen[i] == ROUNDS && dp_read(points[i], &address) == 0);
    }
    fprintf(stderr, "%d messages, %d bytes, %d waits\n", messages, bytes, waits);
}

static void ask(int port) {
    int tcp = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    CHECK(connect(tcp, (struct sockaddr *)&to, sizeof to) == 0);
    int fd = dp_open(0);
    CHECK(fd >= 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++) {
            int number = (i * 387 + round) % COUNT;
            CHECK(dp_connect(fd, 0, number) == 0);
            put(fd, &number, sizeof number);
        }
        CHECK(write(tcp, "b", 1) == 1);
    }
    CHECK(dp_close(fd) == 0);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        ask(atoi(argv[1]));
    } else {
        serve();
    }
    return 0;
}
