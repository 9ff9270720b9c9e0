/* The most translations of an endpoint, and of a process those that took a connection. */
#include "common.h"

enum { LIMIT = 16383, ANY = 1 };

static int errors, status_last;

static void on_error(int status, op_t opcode, void *block)
{
    EXPECT(opcode == AM_REQUEST_XFER_M && ((am_argblock_t *)block)->handler == ANY);
    errors++;
    status_last = status;
}

int main(void)
{
    eb_t other_bundle;
    ep_t second;
    en_t nobody;
    int number, index;
    OK(AM_Init());
    OK(AM_AllocateBundle(AM_SEQ, &bundle));
    OK(AM_AllocateEndpoint(bundle, &ep, &own));
    /* In a bundle of its own: each request polls its endpoint's. */
    OK(AM_AllocateBundle(AM_SEQ, &other_bundle));
    OK(AM_AllocateEndpoint(other_bundle, &second, &own));
    OK(AM_SetHandler(ep, 0, on_error));
    OK(AM_SetHandler(second, 0, on_error));
    OK(AM2_KnownName(&nobody, "nobody", "", 1));
    OK(AM_MaxNumTranslations(&number));
    EXPECT(number == LIMIT);
    IS(AM_SetNumTranslations(ep, LIMIT + 1), AM_ERR_RESOURCE);
    OK(AM_SetNumTranslations(ep, LIMIT));
    for (int at = 0; at < LIMIT; at++) {
        OK(AM_MapAny(ep, &index, nobody, TAG));
        EXPECT(index == at);
        IS(AM_RequestXferAsync0(ep, at, 0, ANY, "", 0), AM_ERR_NOT_SENT);
    }
    IS(AM_MapAny(ep, &index, nobody, TAG), AM_ERR_RESOURCE);
    OK(AM_Map(second, 0, nobody, TAG));
    OK(AM_RequestXferAsync0(second, 0, 0, ANY, "", 0));
    EXPECT(errors == 1 && status_last == ENOCONNECTION);
    /* One that is unmapped is free for another. */
    OK(AM_Unmap(ep, 77));
    IS(AM_RequestXferAsync0(second, 0, 0, ANY, "", 0), AM_ERR_NOT_SENT);
    EXPECT(errors == 1);
    printf("%d connections\n", LIMIT);
    OK(AM_Terminate());
    return 0;
}
