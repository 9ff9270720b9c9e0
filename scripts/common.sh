# shellcheck shell=bash
# What the scripts share. Sourced, not run.

# The script that has sourced this, whatever link it was called by.
SELF=$(readlink -f "$0")
readonly SELF
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# rustup adds itself to the PATH of login shells only.
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
export PATH

readonly TARGET="${CARGO_TARGET_DIR:-target}"
readonly LOGS="$TARGET/logs"

say() { printf '%s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }
# Arguments that make no sense.
usage() { printf 'scripts/%s: %s\n' "${SELF##*/}" "$*" >&2; exit 2; }

# The comment at the head of a script is its help.
help_and_exit() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$SELF"
    exit 0
}

# What a running command is doing, from its log: cargo's progress, or the last thing it began.
last_words() {
    { tail -c 4000 "$1" 2>/dev/null | tr '\r' '\n' | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' \
        | grep -aE '^ *(Building|Updating|Downloading|Downloaded|Compiling|Checking|Linking|Running|Doc-tests|test |Get:|Unpacking|Setting up)' \
        | tail -n 1 | sed -E 's/^ *Building \[[=> ]*\] */building /; s/\(.*//; s/ \.\.\. .*//; s/^ +//; s/ +$//'; } || true
}

# Show that it goes on: in place on a terminal, a line now and then elsewhere.
watch_log() {
    local label=$1 log=$2 pid=$3 start=$SECONDS spoken=$SECONDS
    while kill -0 "$pid" 2>/dev/null; do
        if [ -t 1 ]; then
            printf '\r\033[K  %-28s %4ds  %.40s' "$label" $((SECONDS - start)) "$(last_words "$log")"
        elif [ $((SECONDS - spoken)) -ge 30 ]; then
            spoken=$SECONDS
            printf '  %-28s %4ds  %.60s\n' "$label" $((SECONDS - start)) "$(last_words "$log")"
        fi
        sleep 0.5
    done
    if [ -t 1 ]; then printf '\r\033[K'; fi
}

# The log of a step.
log_of() { echo "$LOGS/$(printf '%s' "${1,,}" | tr -cs 'a-z0-9\n' '-').log"; }

# Leave in $processor_seconds what this shell's ended children have used. (A subshell has children of its own.)
count_processors() {
    times >"$1"
    processor_seconds=$(awk 'NR == 2 { for (at = 1; at <= 2; at++) { split($at, time, /[ms]/); sum += time[1] * 60 + time[2] } printf "%d", sum }' "$1")
    rm -f "$1"
}

# say_end LABEL SECONDS PROCESSORS STATUS: how a step ended.
say_end() { printf '  %-28s %4ds %4ds of processors  %s\n' "$1" "$2" "$3" "$([ "$4" = 0 ] && echo ok || echo FAILED)"; }

# step LABEL COMMAND...: run it, keep what it says in a log, say how it ended.
# Leaves the log's name in $step_log.
step() {
    local label=$1 start=$SECONDS status=0 before
    shift
    mkdir -p "$LOGS"
    step_log=$(log_of "$label")
    count_processors "$step_log.times"
    before=$processor_seconds
    # In a process group of its own: Ctrl-C ends all that was started here, and nothing else.
    set -m
    "$@" >"$step_log" 2>&1 </dev/null &
    set +m
    local pid=$!
    trap 'kill -- "-$pid" 2>/dev/null; wait "$pid" 2>/dev/null; exit 130' INT TERM
    watch_log "$label" "$step_log" "$pid"
    wait "$pid" || status=$?
    trap - INT TERM
    count_processors "$step_log.times"
    say_end "$label" $((SECONDS - start)) $((processor_seconds - before)) "$status"
    return "$status"
}

# Cargo names a crate when it begins it, and the crate that takes long may have begun before it: the progress names those at work.
build_am_bench() {
    step 'build am-bench' env CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 cargo build --release -p am-bench "$@" ||
        die "$(tr '\r' '\n' <"$step_log" | grep -av '^ *Building' | tail -n 30)
The build failed; all of it is in $step_log"
}

# What the transport `dpdk` loads is no part of the workspace, which builds without DPDK. Beside the programs is where they look for it.
build_shim() {
    cargo build --release --manifest-path datapath/dpdk/shim/Cargo.toml --target-dir "$TARGET" &&
        mkdir -p "$TARGET/debug" && cp "$TARGET/release/libdpdk_shim.so" "$TARGET/debug/"
}

# Every source file of tests.
test_sources() { find . \( -name target -o -name fuzz -o -name .git \) -prune -o -path '*/tests/*.rs' -print; }

# Names of test targets: a file in a `tests` directory, or a directory with a main.rs.
targets() {
    test_sources | sed -nE 's|.*/tests/([^/]+)\.rs$|\1|p; s|.*/tests/([^/]+)/main\.rs$|\1|p' | sort -u
}

# How many tests passed and failed, as logs of cargo test say.
count() {
    { grep -ahE '^test result:' "$@" 2>/dev/null || true; } |
        awk '{ passed += $4; failed += $6 } END { printf "%d tests passed, %d failed", passed, failed }'
}
