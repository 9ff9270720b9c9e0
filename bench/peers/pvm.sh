# pvm ROUTE WAY...: a PVM of two hosts, then our small program for each WAY (pvm.c), two tasks.
#   ROUTE  direct, direct-near, daemon; or active messages by ./library.so over xdp, udp or shm. With direct-near and shm both
#          tasks are on one host
#   WAY    one of pvm.c's; or a program of FILES and its number of tasks, as in fft:4
# Of several ways, each line says its own.
. ./peer.sh
if [ "$2" = version ]; then
    # It has no option that tells, and starts a daemon where there is none: ask who packed it.
    [ -e /usr/include/pvm3.h ] || fail 'pvm3.h is not installed: scripts/setup --with-peers'
    needs cc && needs pvm
    sed -n 's/^#define\tPVM_VER[^"]*"\(.*\)".*/{"version":"PVM \1"}/p' /usr/include/pvm3.h
    exit
fi
export PVM_ROOT=/usr/lib/pvm3 PVM_ALLOW_ROOT=1 PVM_RSH=$HOME/agent.sh PVM_TMP=$HOME/alpha
export AM_BENCH_ROUTE=direct AM_BENCH_HOST=beta AM_BENCH_WAY=
case "$1" in
    direct) ;;
    direct-near) AM_BENCH_HOST=alpha ;;
    daemon) AM_BENCH_ROUTE=daemon ;;
    shm) AM_BENCH_HOST=alpha active=shm ;;
    udp) active=udp ;;
    xdp) active=xdp:am0 ;;
    *) fail "no route $1" ;;
esac
shift
mkdir -p alpha beta
printf 'alpha ep=/tmp:/usr/bin\nbeta ep=/tmp:/usr/bin\n' >pvm.hosts
# The console starts the daemons, and leaves once both are there.
echo quit | pvm pvm.hosts >pvm.said 2>&1 || fail "$(cat pvm.said)"
if [ -n "$active" ]; then
    export LD_PRELOAD=$HOME/library.so PVM_AM=$active PVM_EXPORT=LD_PRELOAD:PVM_AM
fi

way=
# task PROGRAM ARGUMENT...: run it. PVM's library writes what it says among the lines.
task() {
    program=$1
    shift
    { "$HOME/$program" "$@" || echo "$program: it ended with $?"; } | sed "s/^{/{$way/"
}

[ -e pvm-task ] || LD_PRELOAD= cc -O2 -o pvm-task pvm.c -lpvm3
for AM_BENCH_WAY in "$@"; do
    if [ $# -gt 1 ]; then way="\"way\":\"$AM_BENCH_WAY\","; fi
    case $AM_BENCH_WAY in
        *:*)
            program=${AM_BENCH_WAY%:*}
            [ -e "$program" ] || LD_PRELOAD= cc -O3 -march=native -o "$program" "$program.c" -lgpvm3 -lpvm3 -lm
            task "$program" "${AM_BENCH_WAY#*:}"
            ;;
        *) task pvm-task "$TIME" "$WARM_UP" $SIZES ;;
    esac
done
