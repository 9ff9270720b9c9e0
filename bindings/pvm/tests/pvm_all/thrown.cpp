// A message handler throws an exception, which leaves it. With an argument it ends its thread instead.
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <pvm3.h>
#include <stdexcept>
#include <unistd.h>

enum { ASK = 1, THROW = 2, ROUNDS = 25, COUNT = 50 };

static bool ends_thread;

static int on_message(int) {
    if (ends_thread) {
        pthread_exit(nullptr);
    }
    throw std::runtime_error("from a handler");
}

static void ask(int tid, int number) {
    int got = -1;
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&number, 1, 1);
    pvm_send(tid, ASK);
    pvm_recv(tid, ASK);
    pvm_upkint(&got, 1, 1);
    if (got != number) {
        std::printf("FAILED: %d instead of %d\n", got, number);
        std::exit(1);
    }
}

static void *wait_for_message(void *tid) {
    int own = *static_cast<int *>(tid);
    pvm_initsend(PvmDataDefault);
    pvm_send(own, THROW);
    pvm_recv(own, THROW + 1);
    return tid;
}

int main(int count, char **) {
    int parent = pvm_parent(), tid;
    char name[] = "thrown", anywhere[] = "";
    ends_thread = count > 1;
    if (parent != PvmNoParent) {
        for (int tag = ASK; pvm_recv(parent, -1) > 0; pvm_send(parent, tag)) {
            pvm_bufinfo(pvm_getrbuf(), nullptr, &tag, nullptr);
            pvm_setsbuf(pvm_getrbuf());
        }
    }
    pvm_spawn(name, nullptr, PvmTaskDefault, anywhere, 1, &tid);
    for (int i = 0; i < ROUNDS; i++) {
        ask(tid, i);
        usleep(4000);
    }
    pvm_addmhf(tid, THROW, pvm_getcontext(), on_message);
    try {
        pthread_t thread;
        if (!ends_thread || pthread_create(&thread, nullptr, wait_for_message, &tid) != 0) {
            wait_for_message(&tid);
        }
        pthread_join(thread, nullptr);
        for (int i = 0; i < COUNT; i++) {
            ask(tid, i);
        }
        std::printf("a task whose handler has ended a thread has got %d answers\n", COUNT);
    } catch (std::exception &) {
        std::printf("caught\n");
    }
    pvm_kill(tid);
    pvm_exit();
}
