/* Where the end of a thread stops on its way through the library, and goes on. See thread_end.rs.
 *
 * glibc ends a thread by unwinding its stack. In C, a frame that wants to clean up registers a place to jump to, and then has the
 * unwinding go on: this is what pthread_cleanup_push expands to. Here it goes on later, when the library's frames have returned. */
#include <pthread.h>

#define INTERNAL __attribute__((visibility("hidden")))

#ifdef __GLIBC__
static __thread __pthread_unwind_buf_t end;

/* pthread.h and setjmp.h differ about the type of the same place, and not in each version. */
extern int place_set(void *place, int saves_mask) __asm__("__sigsetjmp") __attribute__((returns_twice, nothrow));

/* Run `work`. Returns 1 if the thread's end began in it: thread_end_go_on() continues it. */
INTERNAL int thread_end_catch(void (*work)(void *), void *data)
{
    __pthread_unwind_buf_t here;
    if (place_set(here.__cancel_jmp_buf, 0)) {
        __pthread_unregister_cancel(&here);
        end = here;
        return 1;
    }
    __pthread_register_cancel(&here);
    work(data);
    __pthread_unregister_cancel(&here);
    return 0;
}

INTERNAL __attribute__((noreturn)) void thread_end_go_on(void) { __pthread_unwind_next(&end); }
#else
/* Other C libraries run the clean-ups, and then end the thread without unwinding: nothing comes back. */
INTERNAL int thread_end_catch(void (*work)(void *), void *data)
{
    work(data);
    return 0;
}

INTERNAL __attribute__((noreturn)) void thread_end_go_on(void) { pthread_exit(0); }
#endif
