# shellcheck shell=bash
# The programs that guests run, and the tests of crates bpf, afxdp and ordered among them. Sourced.

# Tests that a guest can run: a source, and with it a module. Left out: what compiles with clang in the test (`differential`,
# and tests of `process`), what reads an object file of the build, and what counts seconds that an emulated machine
# does not keep (afxdp's `conformance`, `raw`, `long`, `traffic`; ordered's `forged`, `long`, `sixteen`, `snooping`). A test of a
# group takes 20 s there, so ordered's test of the setting to stamp in the process is left out: `dissemination` has it with copies.
readonly GUEST_TESTS=(
    bpf/src/lib.rs 'bpf/tests/root_all/main.rs attach' 'bpf/tests/root_all/main.rs bounce' 'bpf/tests/root_all/main.rs copies'
    'bpf/tests/root_all/main.rs process' 'bpf/tests/root_all/main.rs sequence' 'bpf/tests/root_all/main.rs variants'
    datapath/afxdp/src/lib.rs 'datapath/afxdp/tests/root_all/main.rs errors' 'datapath/afxdp/tests/root_all/main.rs frames'
    'layers/ordered/tests/root_all/main.rs dissemination' 'layers/ordered/tests/root_all/main.rs stamping'
)
readonly SKIPPED=(
    --skip a_program_left_by_another_tool_can_be_removed_as_we_say --skip a_program_that_the_verifier_rejects_comes_with_its_log
    --skip an_object_that_is_none_of_ours --skip the_programs_for_older_kernels_load
    --skip planted_differences_are_found --skip keep_one_order_when_frames_are_lost
    --skip the_sequencers_process_stamps_if_the_settings_say_so
)
# Frames of a comparison: 250,000 take minutes there.
readonly GUEST_FRAMES=5000
# With --ci: what the verifier of each kernel takes, what its rights are, and whether a group's messages are stamped in the program.
is_for_ci() {
    case $1 in
        *' bounce' | *' process' | *' sequence' | *' stamping' | *' variants') return 0 ;;
        *) return 1 ;;
    esac
}

# What cargo built, a line of JSON each. $AM_LAB_BUILD says which packages and features, where all is built already.
readonly BUILT=$TARGET/lab-programs.json

build_all() {
    local packages=()
    read -ra packages <<<"${AM_LAB_BUILD:-}"
    if [ "${#packages[@]}" != 0 ]; then
        cargo test "${packages[@]}" --no-run --lib --bins --tests --message-format=json-render-diagnostics >"$BUILT.new" || return
        cargo build "${packages[@]}" --example ping --message-format=json-render-diagnostics >>"$BUILT.new" || return
    else
        cargo build -p am-bench -p am-check -p active-messages --bins --examples --message-format=json-render-diagnostics >"$BUILT.new" || return
        if [ -n "$with_tests" ]; then
            cargo test -p am-bpf -p am-afxdp -p am-ordered --no-run --message-format=json-render-diagnostics >>"$BUILT.new" || return
        fi
    fi
    mv "$BUILT.new" "$BUILT"
}

# built_from SOURCE [true]: the program built from a source file, or of a test.
built_from() {
    { grep -sF "\"src_path\":\"$PWD/$1\"" "$BUILT" | grep -F "\"test\":${2:-false}}" | sed -nE 's/.*"executable":"([^"]+)".*/\1/p' | tail -n 1; } || true
}

# Under which name a guest has the program of a test.
program_of() { printf '%s' "$1" | sed -E 's/^(datapath|layers)\///; s| .*||; s|/tests/([^/]*)/main\.rs|-\1|; s|/src/lib\.rs||'; }

# Lines of a name in the guests and the file that was built.
built_programs() {
    local test
    say "am-bench $(built_from bench/src/main.rs)"
    say "ping $(built_from am-api/examples/ping.rs)"
    say "verify $(built_from check/src/bin/verify.rs)"
    if [ -z "$with_tests" ]; then return; fi
    for test in "${GUEST_TESTS[@]}"; do say "$(program_of "$test") $(built_from "${test% *}" true)"; done | sort -u
}

check_programs() {
    local name file command
    while read -r name file; do
        if [ -f "$file" ]; then continue; fi
        command='cargo build -p am-bench -p am-check -p active-messages --bins --examples'
        case $name in bpf* | afxdp* | ordered*) command='cargo test -p am-bpf -p am-afxdp -p am-ordered --no-run' ;; esac
        die "scripts/lab: the program $name is not built; scripts/lab without --no-build builds it ($command)"
    done < <(built_programs)
}

# Copy to where a guest may be running it.
install_as() {
    if ! { cp "$1" "$LAB/bin/.new" && mv "$LAB/bin/.new" "$LAB/bin/$2"; }; then die "scripts/lab: $1 cannot be copied to $LAB/bin"; fi
}

install_programs() {
    local name file
    while read -r name file; do install_as "$file" "$name"; done < <(built_programs)
    if [ "$kind" != plain ]; then install_dpdk; fi
    for file in "${programs[@]}"; do install_as "$file" "${file##*/}"; done
}

# Run them in this pair, those of even places in one guest, the others in the other.
guest_tests() {
    local test even=() odd=()
    for test in "${GUEST_TESTS[@]}"; do
        if [ "$preset" = ci ] && ! is_for_ci "$test"; then continue; fi
        if [ "${#odd[@]}" -lt "${#even[@]}" ]; then odd+=("$test"); else even+=("$test"); fi
    done
    tests_in alpha "${even[@]}" &
    tests_in beta "${odd[@]}"
    wait "$!"
}

tests_in() {
    local guest=$1 test program module status begin said started
    for test in "${@:2}"; do
        program=$(program_of "$test") module= status=0 begin=$SECONDS
        case $test in *' '*) module=${test#* } ;; esac
        run "$guest" "cd /tmp; STEER_FRAMES=$GUEST_FRAMES $program ${module:+$module::} ${SKIPPED[*]}" 200 || status=$?
        record_test "${program%%-*}${module:+-$module}" "$said" "$status" $((SECONDS - begin))
    done
}

# record_test NAME OUTPUT STATUS SECONDS
record_test() {
    local passed failed why verdict=good
    passed=$(sed -nE 's/^test result: .* ([0-9]+) passed.*/\1/p' "$2")
    failed=$(sed -nE 's/^test result: .* ([0-9]+) failed.*/\1/p' "$2")
    why=$(sed -nE 's/^test (.*) \.\.\. FAILED/\1/p' "$2" | paste -sd' ')
    if [ "$3" != 0 ]; then verdict=BAD why="status $3${why:+, failed: $why}"; fi
    printf '{"kernel":"%s","nic":"tests","mode":"%s","framing":"-","mtu":0,"queues":0,"sent":%s,"received":%s,"bytes":0,"wrong":%s,"missing":0,"seconds":%s,"verdict":"%s","why":"%s"}\n' \
        "$kernel" "$1" "$((${passed:-0} + ${failed:-0}))" "${passed:-0}" "${failed:-0}" "$4" "$verdict" "$why" >>"$results"
    progress "$kernel tests $1" "$4" "$verdict, ${passed:-0} passed${why:+: $why}"
}
