#!/bin/sh
# Called as ssh would be, by launchers that start something on the other host: OPTION... HOST COMMAND...
# The other host is always "beta". PVM's daemons do not share a directory.
while [ "${1#-}" != "$1" ]; do shift; done
shift
PVM_TMP=$HOME/beta && export PVM_TMP
exec $HOME/far.sh sh -c "$*"
