# pvm spin|sleep: a PVM of two hosts, then our small program, two tasks with a direct route.
. ./peer.sh
if [ "$1" = version ]; then
    # It has no option that tells, and starts a daemon where there is none: ask who packed it.
    [ -e /usr/include/pvm3.h ] || fail 'pvm3.h is not installed: scripts/setup --with-peers'
    needs cc && needs pvm
    sed -n 's/^#define\tPVM_VER[^"]*"\(.*\)".*/{"version":"PVM \1"}/p' /usr/include/pvm3.h
    exit
fi
export PVM_ROOT=/usr/lib/pvm3 PVM_ALLOW_ROOT=1 PVM_RSH=$HOME/agent.sh PVM_TMP=$HOME/alpha AM_BENCH_SLEEP=0
if [ "$1" = sleep ]; then AM_BENCH_SLEEP=1; fi
cc -O2 -o pvm-task pvm.c -lpvm3
mkdir -p alpha beta
printf 'alpha\nbeta ep=/tmp\n' >pvm.hosts
# The console starts the daemons, and leaves once both are there.
echo quit | pvm pvm.hosts >pvm.said 2>&1 || fail "$(cat pvm.said)"
$HOME/pvm-task "$TIME" "$WARM_UP" $SIZES
