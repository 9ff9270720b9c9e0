# corosync version | member INDEX PROGRAM ADDRESS...: a daemon of Corosync among those at these addresses, and beside it our small
# program, whose text is PROGRAM. Process 1 of a sandbox with its own mounts and processes, on a host of its own. Everything ends
# with the program, and that with its input.
set -e
PATH=$PATH:/usr/sbin:/sbin

fail() {
    echo "$*" >&2
    exit 1
}

if [ "$1" = version ]; then
    command -v corosync >/dev/null || fail 'corosync is not installed: scripts/setup --with-peers'
    [ -e /usr/include/corosync/cpg.h ] || fail 'corosync/cpg.h is not installed: scripts/setup --with-peers'
    command -v cc >/dev/null || fail 'cc is not installed: scripts/setup'
    corosync -v | sed -n "1s/.*version '\(.*\)'.*/\1/p"
    exit
fi
index=$2 program=$3
shift 3
# What a daemon keeps is its own, and goes with it.
for place in /dev/shm /run /var/lib/corosync /var/log/corosync; do
    mount -t tmpfs tmpfs $place
done
mount -t proc proc /proc
cd /run
printf '%s\n' "$program" >member.c
cc -O2 -o member member.c -lcpg
{
    printf 'totem {\nversion: 2\ncluster_name: am-bench\ntransport: knet\ncrypto_cipher: none\ncrypto_hash: none\n}\n'
    printf 'logging {\nto_stderr: yes\nto_syslog: no\nto_logfile: no\n}\nnodelist {\n'
    nth=1
    for address in "$@"; do
        printf 'node {\nring0_addr: %s\nname: m%d\nnodeid: %d\n}\n' "$address" $((nth - 1)) $nth
        nth=$((nth + 1))
    done
    printf '}\n'
} >corosync.conf
corosync -f -c /run/corosync.conf >daemon.said 2>&1 </dev/null &
# Not `exec`: when this process ends, so does the daemon.
./member "$index" $# || fail "$(tail -n 5 daemon.said)"
