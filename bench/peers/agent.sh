#!/bin/sh
# Called as ssh would be, by launchers that start something on the other host: OPTION... HOST COMMAND...
# The other host is always "beta", whose network namespace is entered. PVM's daemons do not share a directory.
while [ "${1#-}" != "$1" ]; do shift; done
shift
PVM_TMP="$HOME/far" && export PVM_TMP
exec "$HOME/am-bench" room enter far none sh -c "$*"
