# The common part of the peers' scripts. Each runs as `sh PEER.sh ARGUMENT...` in a sandbox (sandbox.sh), and prints lines of JSON.
# Times are in nanoseconds, and unknown fields are left out:
#
#   {"version":TEXT}                            with the argument `version`
#   {"size":BYTES,"p50":T,"p99":T,"mean":T}     half of a round trip
#   {"size":BYTES,"messages":RATE,"cpu":T}      one way: messages a second, processor time of a message
#
# am-bench sets SIZES, TIME and WARM_UP (nanoseconds), AM_BENCH_CORES (near,far; `none` is not pinned).
set -e
most=1048576
pinned() { [ "$1" = none ] || echo "taskset -c $1"; }
near=$(pinned "${AM_BENCH_CORES%,*}")
# The far side's core on the near side's host, for shared memory.
beside=$(pinned "${AM_BENCH_CORES#*,}")
far="$HOME/far.sh $beside"

fail() {
    echo "$*" >&2
    exit 1
}

needs() {
    command -v "$1" >/dev/null || fail "$1 is not installed: scripts/setup --with-peers"
}

# version WORDS PROGRAM ARGUMENT...: print WORDS and the first line with a digit of the program's output.
version() {
    words=$1
    shift
    needs "$1"
    { "$@" || echo $? >code; } 2>&1 </dev/null | head -c 4096 >said
    case $(cat code 2>&1) in 126 | 127) fail "$1 cannot be started: $(cat said)" ;; esac
    line=$(sed -n '/[0-9]/{s/^[^[:alnum:]]*//;s/[[:space:]]\{1,\}/ /g;s/["\\[:cntrl:]]//g;p;q}' said | head -c 60)
    [ -n "$line" ] || fail "$* does not say its version"
    printf '{"version":"%s%s"}\n' "$words" "$line"
}

# often NANOSECONDS: how many operations of this length fill a measurement.
often() {
    often=$(((TIME + $1 - 1) / $1))
    echo $((often < 10 ? 10 : often))
}

# A program that prints without end is stuck, and its figures are worthless.
quiet() {
    [ "$(wc -c <"$1")" -le $most ] || fail "$1: it was killed because it printed more than 1 MiB"
}

# serve PORT PROGRAM ARGUMENT...: start it, and return once it listens.
serve() {
    port=$(printf %04X "$1") tries=0
    shift
    [ -p pipe ] || mkfifo pipe
    # Here, because the next line may start late.
    : >server
    head -c $((most + 1)) <pipe >server &
    "$@" >pipe 2>&1 </dev/null &
    server=$! net=/proc/$!/net
    # 0A is listening, and UDP has 07 instead.
    until grep -Eqs ":$port [0-9A-F]+:[0-9A-F]+ 0[7A] " $net/tcp $net/tcp6 $net/udp $net/udp6; do
        tries=$((tries + 1))
        if [ ! -e "/proc/$server/exe" ]; then
            # A server that floods dies when `head` has enough.
            quiet server
            fail "the server ended at once: $(tail -c 300 server)"
        fi
        quiet server
        [ $tries -lt 500 ] || fail "the server does not listen: $(tail -c 300 server)"
        sleep 0.01
    done
}

# client PROGRAM ARGUMENT...: run it to its end, then end the server. Its output is in the file `client`.
client() {
    rm -f code
    { "$@" || echo $? >code; } 2>&1 </dev/null | head -c $((most + 1)) >client
    # Some servers end by themselves.
    kill -KILL "$server" 2>/dev/null || :
    wait "$server" 2>/dev/null || :
    quiet server
    quiet client
    [ ! -e code ] || fail "it ended with $(cat code): $(tail -c 300 client)"
}

# figures PROGRAM: print what an awk program finds in `client`. It exits with 1 if it finds nothing.
figures() {
    awk -v size="$size" "$1" client || fail "its output cannot be parsed: \`$(tail -c 240 client)\`"
}

# Processor time of all processes of the sandbox, ended ones too, in hundredths of a second.
worked() {
    cat /proc/[0-9]*/stat 2>/dev/null | awk '{ sub(/.*\) /, ""); sum += $12 + $13 + $14 + $15 } END { print sum }'
}
