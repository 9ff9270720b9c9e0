/* Two tasks send to each other from the first moment on: numbered messages of all encodings and of many lengths, some by multicast. The
 * pair changes its route meanwhile. Each arrives once, whole, in its order. */
#include "common.h"

enum { TAG = 7, LONG = 300000 };

static const int ENCODINGS[] = {PvmDataDefault, PvmDataRaw, PvmDataInPlace};

static int length_of(unsigned number) {
    unsigned random = mixed(number, 1);
    return (int)(random % 10 == 0 ? random / 16 % LONG : random / 16 % 200);
}

static void say(int to, int number, char *bytes) {
    int length = length_of((unsigned)number), encoding = ENCODINGS[mixed((unsigned)number, 2) % 3];
    for (int i = 0; i < length; i++) {
        bytes[i] = (char)(number + i);
    }
    pvm_initsend(encoding);
    pvm_pkint(&number, 1, 1);
    pvm_pkint(&length, 1, 1);
    pvm_pkbyte(bytes, length, 1);
    pvm_pkint(&number, 1, 1);
    if (mixed((unsigned)number, 3) % 8 == 0) {
        pvm_mcast(&to, 1, TAG);
    } else {
        pvm_send(to, TAG);
    }
}

static void hear(int from, int number, char *bytes) {
    int is, length;
    pvm_recv(from, TAG);
    pvm_upkint(&is, 1, 1);
    pvm_upkint(&length, 1, 1);
    if (is != number || length != length_of((unsigned)number)) {
        fail("message %d of %d bytes instead of %d of %d", is, length, number, length_of((unsigned)number));
    }
    memset(bytes, 0, (size_t)length);
    pvm_upkbyte(bytes, length, 1);
    pvm_upkint(&is, 1, 1);
    if (is != number) {
        fail("%d behind the bytes of message %d", is, number);
    }
    for (int i = 0; i < length; i++) {
        if (bytes[i] != (char)(number + i)) {
            fail("byte %d of message %d", i, number);
        }
    }
}

int main(int count, char **arguments) {
    int messages = count > 1 ? atoi(arguments[1]) : 1000, other = pvm_parent();
    char *out = malloc(LONG), *in = malloc(LONG);
    if (count > 2) {
        pvm_setopt(PvmRoute, atoi(arguments[2]));
    }
    if (other == PvmNoParent) {
        /* Its fragments end between two words of XDR. */
        pvm_setopt(PvmFragSize, 1001);
        spawn("order", arguments + 1, 1, &other);
    } else if (pvm_setopt(PvmFragSize, 100003) < 0) {
        /* Its fragments are longer than a frame. */
        fail("no fragments of this length");
    }
    for (int sent = 0, got = 0; got < messages;) {
        int burst = 1 + (int)(mixed((unsigned)sent, 4) % 12);
        for (int i = 0; i < burst && sent < messages; i++) {
            say(other, sent++, out);
        }
        burst = sent < messages ? 1 + (int)(mixed((unsigned)got, 5) % 12) : messages;
        for (int i = 0; i < burst && got < messages && got < sent; i++) {
            hear(other, got++, in);
        }
    }
    if (pvm_parent() == PvmNoParent) {
        pvm_recv(other, TAG + 1);
        printf("%d messages in their order\n", messages);
    } else {
        pvm_initsend(PvmDataDefault);
        pvm_send(other, TAG + 1);
    }
    pvm_exit();
    return 0;
}
