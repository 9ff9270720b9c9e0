#!/bin/sh
# A replacement of ssh for launchers that start a program on the other host: OPTION... HOST COMMAND...
# The other host is always "beta". PVM's daemons must not share a directory.
while [ "${1#-}" != "$1" ]; do shift; done
shift
PVM_TMP=$HOME/beta && export PVM_TMP
exec $HOME/far.sh sh -c "$*"
