/* Wrong arguments, and calls that their caller may not make; tables and limits. One process, without a peer. */
#include "common.h"
#include <am_spmd.h>
#include <pthread.h>

enum { LOOK = 1, LATE };

static int seen;
static void *stale;

static void on_error(int status, op_t opcode, void *block)
{
    (void)status, (void)opcode, (void)block;
}

static void *elsewhere(void *token)
{
    /* A token belongs to the thread of its handler. */
    IS(AM_Reply0(token, LATE), AM_ERR_BAD_ARG);
    return NULL;
}

static void on_look(void *token, int32_t a)
{
    pthread_t thread;
    (void)a;
    IS(AM_Request0(ep, 1, LOOK), AM_ERR_BAD_ARG);
    IS(AM_RequestXfer0(ep, 1, 0, LOOK, "x", 1), AM_ERR_BAD_ARG);
    IS(AM_Poll(bundle), AM_ERR_BAD_ARG);
    IS(AM_WaitSema(bundle), AM_ERR_BAD_ARG);
    IS(AM_FreeEndpoint(ep), AM_ERR_IN_USE);
    IS(AM_FreeBundle(bundle), AM_ERR_IN_USE);
    IS(AM_Terminate(), AM_ERR_IN_USE);
    IS(AM2_SpmdBarrier(), AM_ERR_BAD_ARG);
    IS(AM_Reply0(NULL, LATE), AM_ERR_BAD_ARG);
    IS(AM_Reply0(&seen, LATE), AM_ERR_BAD_ARG);
    IS(AM_GetSourceEndpoint(token, NULL), AM_ERR_BAD_ARG);
    IS(AM_GetDestEndpoint(token, NULL), AM_ERR_BAD_ARG);
    IS(AM_GetMsgTag(token, NULL), AM_ERR_BAD_ARG);
    EXPECT(!pthread_create(&thread, NULL, elsewhere, token) && !pthread_join(thread, NULL));
    /* What changes tables is allowed. */
    OK(AM_SetTag(ep, TAG));
    stale = token;
    seen++;
}

static void before_init(void)
{
    int number;
    EXPECT(strstr(AM2_ErrorText(AM_ERR_NOT_INIT), "call AM_Init") && strstr(AM2_StatusText(EBADTAG), "another tag"));
    EXPECT(strstr(AM2_ErrorText(-1), "no result") && strstr(AM2_StatusText(0), "no status"));
    IS(AM_Terminate(), AM_ERR_NOT_INIT);
    IS(AM_AllocateBundle(AM_SEQ, &bundle), AM_ERR_NOT_INIT);
    IS(AM_SetTag(NULL, 1), AM_ERR_NOT_INIT);
    IS(AM_Poll(NULL), AM_ERR_NOT_INIT);
    EXPECT(AM2_SpmdRank() == -1 && AM2_SpmdSize() == -1);
    OK(AM_MaxNumTranslations(&number));
    EXPECT(number >= 256 && AM_MaxNumHandlers() >= 256 && AM_MaxShort() >= 8 && AM_MaxMedium() >= 512);
    EXPECT(AM_MaxLong() >= 8192);
}

static void tables(void)
{
    int number, index;
    tag_t tag;
    en_t name, none;
    handler_t handler;
    memset(&none, 0, sizeof none);
    IS(AM_Map(ep, -1, own, 1), AM_ERR_BAD_ARG);
    IS(AM_Map(ep, 256, own, 1), AM_ERR_BAD_ARG);
    IS(AM_Map(ep, 2, none, 1), AM_ERR_BAD_ARG);
    IS(AM_GetTranslationInuse(ep, 2), AM_ERR_RESOURCE);
    OK(AM_Map(ep, 2, own, 77));
    IS(AM_Map(ep, 2, own, 77), AM_ERR_RESOURCE);
    OK(AM_GetTranslationInuse(ep, 2));
    OK(AM_GetTranslationTag(ep, 2, &tag));
    OK(AM_GetTranslationName(ep, 2, &name));
    EXPECT(tag == 77 && !memcmp(&name, &own, sizeof name));
    IS(AM_GetTranslationTag(ep, 3, &tag), AM_ERR_RESOURCE);
    IS(AM_GetTranslationName(ep, 2, NULL), AM_ERR_BAD_ARG);
    OK(AM_UnMap(ep, 2));
    IS(AM_Unmap(ep, 2), AM_ERR_RESOURCE);
    IS(AM_Unmap(ep, 256), AM_ERR_BAD_ARG);
    OK(AM_MapAny(ep, &index, own, 1));
    EXPECT(index == 0);
    IS(AM_MapAny(ep, NULL, own, 1), AM_ERR_BAD_ARG);
    OK(AM_GetNumTranslations(ep, &number));
    EXPECT(number == 256);
    OK(AM_Map(ep, 255, own, 1));
    IS(AM_SetNumTranslations(ep, 255), AM_ERR_IN_USE);
    IS(AM_SetNumTranslations(ep, 0), AM_ERR_BAD_ARG);
    IS(AM_SetNumTranslations(ep, 1 << 20), AM_ERR_RESOURCE);
    OK(AM_SetNumTranslations(ep, 1000));
    OK(AM_Map(ep, 999, own, 1));
    OK(AM_GetNumHandlers(ep, &number));
    EXPECT(number == 256);
    IS(AM_SetNumHandlers(ep, 257), AM_ERR_RESOURCE);
    IS(AM_SetHandler(ep, 1, NULL), AM_ERR_BAD_ARG);
    OK(AM_SetHandlerAny(ep, &handler, on_look));
    EXPECT(handler == 1);
    IS(AM_SetHandlerAny(ep, NULL, on_look), AM_ERR_BAD_ARG);
    OK(AM_SetNumHandlers(ep, 100));
    IS(AM_SetHandler(ep, 100, on_look), AM_ERR_BAD_ARG);
    OK(AM_SetExpectedResources(ep, 10, 10));
    IS(AM_SetExpectedResources(ep, -1, 10), AM_ERR_BAD_ARG);
}

static void segments(void)
{
    void *address;
    uintptr_t nbytes;
    char memory[10];
    OK(AM_SetSegment(ep, memory, sizeof memory));
    OK(AM_GetSegment(ep, &address, &nbytes));
    EXPECT(address == memory && nbytes == sizeof memory);
    IS(AM_SetSeg(ep, NULL, 1), AM_ERR_BAD_ARG);
    IS(AM_SetSeg(ep, NULL, (size_t)-2), AM_ERR_BAD_ARG);
    IS(AM_GetSeg(ep, NULL, &nbytes), AM_ERR_BAD_ARG);
    IS(AM_SetSeg(ep, (void *)16, (size_t)-1), AM_ERR_BAD_ARG);
    IS(AM_SetSeg(ep, (void *)-1, 10), AM_ERR_BAD_ARG);
    OK(AM_SetSeg(ep, NULL, 0));
    OK(AM_MaxSegLength(&nbytes));
    IS(AM_MaxSegLength(NULL), AM_ERR_BAD_ARG);
    OK(AM_SetSeg(ep, NULL, nbytes));
    OK(AM_GetSeg(ep, &address, &nbytes));
    EXPECT(address == NULL && nbytes == UINTPTR_MAX);
    OK(AM_SetSeg(ep, NULL, 0));
}

static void messages(void)
{
    static char much[1 << 15];
    int32_t args[17] = {0};
    IS(AM_Request0(ep, -1, LOOK), AM_ERR_BAD_ARG);
    IS(AM_Request0(ep, 1 << 20, LOOK), AM_ERR_BAD_ARG);
    IS(AM2_Request(ep, 0, LOOK, 17, args), AM_ERR_BAD_ARG);
    IS(AM2_Request(ep, 0, LOOK, -1, args), AM_ERR_BAD_ARG);
    IS(AM2_Request(ep, 0, LOOK, 1, NULL), AM_ERR_BAD_ARG);
    IS(AM_RequestI0(ep, 0, LOOK, NULL, 1), AM_ERR_BAD_ARG);
    IS(AM_RequestI0(ep, 0, LOOK, much, -1), AM_ERR_BAD_ARG);
    IS(AM_RequestI0(ep, 0, LOOK, much, AM_MaxMedium() + 1), AM_ERR_BAD_ARG);
    IS(AM_RequestXfer0(ep, 0, 0, LOOK, much, AM_MaxLong() + 1), AM_ERR_BAD_ARG);
    IS(AM_RequestXfer0(ep, 0, 0, LOOK, NULL, 1), AM_ERR_BAD_ARG);
    IS(AM_GetXfer0(ep, 0, 0, LOOK, NULL, 1), AM_ERR_BAD_ARG);
    /* Offsets: there is no segment, so none of them is in it. */
    IS(AM_GetXfer0(ep, 0, 0, LOOK, 0, 1), AM_ERR_BAD_ARG);
    IS(AM_GetXfer0(ep, 0, 0, LOOK, -1, 0), AM_ERR_BAD_ARG);
    IS(AM_GetXferAsynch1(ep, 0, 0, LOOK, (size_t)-1, 2, 3), AM_ERR_BAD_ARG);
    IS(AM_GetXferAsync0(ep, 0, 0, LOOK, 0, -1), AM_ERR_BAD_ARG);
    IS(AM_Reply0(NULL, LATE), AM_ERR_BAD_ARG);
    OK(AM_Request1(ep, 1, LOOK, 5));
    POLL_UNTIL(seen == 1);
    IS(AM_Reply0(stale, LATE), AM_ERR_BAD_ARG);
}

static void bundles(void)
{
    eb_t second;
    ep_t moved, known;
    en_t name, computed;
    char node[32];
    int mask;
    IS(AM_AllocateBundle(7, &second), AM_ERR_BAD_ARG);
    IS(AM_AllocateBundle(AM_SEQ, NULL), AM_ERR_BAD_ARG);
    OK(AM_AllocateBundle(AM_SEQ, &second));
    OK(AM_GetEventMask(second, &mask));
    EXPECT(mask == AM_NOEVENTS);
    IS(AM_WaitSema(second), AM_ERR_BAD_ARG);
    IS(AM_SetEventMask(second, 64), AM_ERR_BAD_ARG);
    OK(AM_SetEventMask(second, AM_NOTEMPTY | AM_CANSEND));
    OK(AM_GetEventMask(second, &mask));
    EXPECT(mask == (AM_NOTEMPTY | AM_CANSEND));
    IS(AM_AllocateEndpoint(second, &moved, NULL), AM_ERR_BAD_ARG);
    IS(AM_AllocateEndpoint((eb_t)ep, &moved, &name), AM_ERR_BAD_ARG);
    OK(AM_AllocateEndpoint(second, &moved, &name));
    IS(AM_MoveEndpoint(moved, bundle, second), AM_ERR_BAD_ARG);
    OK(AM_MoveEndpoint(moved, second, bundle));
    OK(AM_AllocateKnownEndpoint(second, &known, &name, 4711));
    IS(AM_AllocateKnownEndpoint(second, &moved, &name, 4711), AM_ERR_IN_USE);
    IS(AM2_NodeName(node, 3), AM_ERR_BAD_ARG);
    OK(AM2_NodeName(node, sizeof node));
    OK(AM2_KnownName(&computed, node, (const char *)name.bytes + 64, 4711));
    EXPECT(!memcmp(&computed, &name, sizeof name));
    IS(AM2_KnownName(&computed, NULL, "", 1), AM_ERR_BAD_ARG);
    IS(AM2_KnownName(&computed, "a name that is longer than names may be", "", 1), AM_ERR_BAD_ARG);
    OK(AM_FreeBundle(second));
    IS(AM_SetTag(known, 1), AM_ERR_BAD_ARG);
    IS(AM_FreeBundle(second), AM_ERR_BAD_ARG);
    OK(AM_FreeEndpoint(moved));
    IS(AM_FreeEndpoint(moved), AM_ERR_BAD_ARG);
    IS(AM_Poll(second), AM_ERR_BAD_ARG);
    IS(AM_SetTag((ep_t)bundle, 1), AM_ERR_BAD_ARG);
}

int main(void)
{
    before_init();
    for (int round = 0; round < 2; round++) {
        seen = 0;
        OK(AM_Init());
        OK(AM_Init());
        OK(AM_AllocateBundle(AM_PAR, &bundle));
        /* Nothing to wait for yet; AM_Terminate below finds nobody asleep. */
        OK(AM_SetEventMask(bundle, AM_NOTEMPTY));
        IS(AM_WaitSema(bundle), AM_ERR_BAD_ARG);
        OK(AM_SetEventMask(bundle, AM_NOEVENTS));
        OK(AM_AllocateEndpoint(bundle, &ep, &own));
        OK(AM_SetTag(ep, TAG));
        tables();
        segments();
        OK(AM_Map(ep, 1, own, TAG));
        OK(AM_SetHandler(ep, 0, on_error));
        OK(AM_SetHandler(ep, LOOK, on_look));
        messages();
        bundles();
        EXPECT(AM2_SpmdRank() == 0 && AM2_SpmdSize() == 1);
        OK(AM2_SpmdBarrier());
        IS(AM2_SpmdExchange(NULL, 1, &seen), AM_ERR_BAD_ARG);
        IS(AM2_SpmdExchange(&seen, ((size_t)1 << 30) + 1, &seen), AM_ERR_BAD_ARG);
        IS(AM2_SpmdEndJob(-1), AM_ERR_BAD_ARG);
        IS(AM2_SpmdEndJob(256), AM_ERR_BAD_ARG);
        /* Alone. */
        OK(AM2_SpmdEndJob(3));
        OK(AM_Terminate());
    }
    IS(AM_Terminate(), AM_ERR_NOT_INIT);
    printf("all as it should be\n");
    return 0;
}
