#!/bin/sh
# Start a PVM of two hosts and then the program that measures, on this one.
set -e
mkdir -p "$HOME/near" "$HOME/far"
printf 'alpha\nbeta ep=%s\n' "$HOME" >"$HOME/pvm.hosts"
# The console starts the daemons, and leaves once both are there.
echo quit | pvm "$HOME/pvm.hosts" >"$HOME/pvm.said" 2>&1 || { cat "$HOME/pvm.said" >&2; exit 1; }
exec "$HOME/pvm" "$@"
