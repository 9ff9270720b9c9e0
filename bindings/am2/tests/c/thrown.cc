/* What may leave a handler of a C++ program. Without an argument: exceptions and jumps stay in their handlers, and all goes on. With one: an
 * exception leaves its handler, of a message or of one that came back. */
#include <am.h>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != AM_OK)                                                                                           \
            std::exit(1);                                                                                              \
    } while (0)

enum { TAG = 7, INSIDE = 1, OUT, JUMP, ANSWER, MISSING };

static std::jmp_buf place;
static int answers;

static void on_inside(void *token)
{
    try {
        throw std::runtime_error("inside");
    } catch (const std::exception &) {
        OK(AM_Reply0(token, ANSWER));
    }
}

static void on_out(void *)
{
    throw std::runtime_error("out of a handler");
}

static void on_jump(void *token)
{
    if (!setjmp(place))
        std::longjmp(place, 1);
    OK(AM_Reply0(token, ANSWER));
}

static void on_answer(void *)
{
    answers++;
}

static void on_error(int, op_t, void *)
{
    throw 7;
}

int main(int count, char **arguments)
{
    eb_t bundle;
    ep_t ep;
    en_t own;
    const bool is_out = count > 1 && arguments[1][0] == 'o', is_back = count > 1 && arguments[1][0] == 'b';
    OK(AM_Init());
    OK(AM_AllocateBundle(AM_SEQ, &bundle));
    OK(AM_AllocateEndpoint(bundle, &ep, &own));
    OK(AM_SetTag(ep, TAG));
    OK(AM_Map(ep, 0, own, TAG));
    OK(AM_SetHandler(ep, 0, on_error));
    OK(AM_SetHandler(ep, INSIDE, on_inside));
    OK(AM_SetHandler(ep, OUT, on_out));
    OK(AM_SetHandler(ep, JUMP, on_jump));
    OK(AM_SetHandler(ep, ANSWER, on_answer));
    try {
        OK(AM_Request0(ep, 0, INSIDE));
        OK(AM_Request0(ep, 0, JUMP));
        if (is_out || is_back)
            OK(AM_Request0(ep, 0, is_out ? OUT : MISSING));
        while (answers < 2 || is_out || is_back)
            OK(AM_Poll(bundle));
        OK(AM_Terminate());
    } catch (...) {
        std::puts("the exception came through the library");
        return 2;
    }
    std::puts("all stayed in their handlers");
    return 0;
}
