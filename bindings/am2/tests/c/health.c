/* What keeps the own node from its peers is said where a message comes back. 0 asks, and removes the segment; 1 dies. */
#define _GNU_SOURCE
#include "common.h"
#include <fcntl.h>
#include <unistd.h>

enum { DIE = 1, DYING };
enum { POLLS = 20 };

static int dies;

static void on_die(void *token)
{
    dies = 1;
    OK(AM_Reply0(token, DYING));
}

static void on_dying(void *token)
{
    (void)token;
    dies = 1;
}

int main(int count, char **arguments)
{
    char command[4096], line[4096] = "";
    int ends[2];
    EXPECT(count == 3);
    meet();
    OK(AM_SetHandler(ep, DIE, on_die));
    OK(AM_SetHandler(ep, DYING, on_dying));
    if (arguments[1][0] == '1') {
        POLL_UNTIL(dies);
        for (int at = 0; at < POLLS; at++)
            OK(AM_Poll(bundle));
        _exit(0);
    }
    OK(AM_Request0(ep, 0, DIE));
    POLL_UNTIL(dies);
    snprintf(command, sizeof command, "rm -r '%s'/*", arguments[2]);
    EXPECT(system(command) == 0);
    EXPECT(pipe2(ends, O_NONBLOCK) == 0 && dup2(ends[1], 2) == 2);
    while (read(ends[0], line, sizeof line - 1) <= 0)
        OK(AM_Request0(ep, 0, DIE));
    puts(line);
    return 0;
}
