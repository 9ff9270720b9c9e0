# uring udp|tcp spin|sleep: our small program, whose sockets io_uring drives.
. ./peer.sh
if [ "$2" = version ]; then
    needs cc
    echo '#include <liburing.h>' | cc -fsyntax-only -xc - >said 2>&1 || fail "cc finds no liburing.h: scripts/setup --with-peers"
    printf '{"version":"Linux %s"}\n' "$(uname -r | cut -d- -f1)"
    exit
fi
[ -e uring ] || cc -O2 -o uring uring.c -luring
fit=
for size in $SIZES; do [ "$1" = tcp ] || [ "$size" -le 65507 ] && fit="$fit $size"; done
[ -n "$fit" ] || fail 'no size within its limit, 65,507 bytes'
serve 5201 $HOME/far.sh $HOME/uring "$1" "$2" far 10.77.0.2 "$TIME" "$WARM_UP" $fit
client $HOME/uring "$1" "$2" near 10.77.0.2 "$TIME" "$WARM_UP" $fit
cat client
