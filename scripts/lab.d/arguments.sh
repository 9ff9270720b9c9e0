# shellcheck shell=bash
# The arguments: read, and looked at before anything is fetched, built or booted. Sourced.

# All options that were given, with a space before and after each; and the one that says what to do.
given=' ' action=

parse() {
    while [ $# -gt 0 ]; do
        given+="$1 "
        needs_values "$@"
        case $1 in
            --kernel) kernel=$2; shift ;;
            --nic) nic=$2; shift ;;
            --mtu) mtu=$2; shift ;;
            --cpus) cpus=$2; shift ;;
            --memory) memory=$2; shift ;;
            --append) append+=" $2"; shift ;;
            --device) devices+=" -device $2"; shift ;;
            --program) programs+=("$2"); shift ;;
            --timeout) timeout=$2; shift ;;
            --save) save=$2; shift ;;
            --no-build) build= ;;
            --alpha) act commands '--alpha or --beta'; alpha=$2; shift ;;
            --beta) act commands '--alpha or --beta'; beta=$2; shift ;;
            --exec) act commands --exec; both=$2; shift ;;
            --monitor) act monitor --monitor; monitor_guest=$2 monitor_command=$3; shift 2 ;;
            --shell) act shell --shell; shell=alpha; if [ "${2:-}" = alpha ] || [ "${2:-}" = beta ]; then shell=$2; shift; fi ;;
            --faults) act faults --faults; if [ -n "${2:-}" ] && [[ $2 != -* ]]; then only_faults=$2; shift; fi ;;
            --dpdk) preset=${preset:-dpdk} kind=iommu ;;
            --ci | --all) act cells "$1"; preset=${1#--} with_tests=1 ;;
            --mode) modes=$2; shift ;;
            --framing) framings=$2; shift ;;
            --step) lengths=$2; shift ;;
            --settings) extra=$2; shift ;;
            --seconds) cell_seconds=$2; shift ;;
            --tests) with_tests=1 ;;
            --json) json=1 ;;
            --hold | --list | --fetch) act "${1#--}" "$1" ;;
            --on) on=$2; shift ;;
            -h | --help) help_and_exit ;;
            *) usage "unknown argument '$1'; see scripts/lab --help" ;;
        esac
        shift
    done
    check_values
    check_together
    if [ -n "$on" ]; then check_guests; fi
    modes=${modes//,/ } framings=${framings//,/ }
}

needs_values() {
    local count=1
    case $1 in
        --kernel | --nic | --mtu | --cpus | --memory | --append | --device | --program | --timeout | --save) ;;
        --alpha | --beta | --exec | --mode | --framing | --step | --settings | --seconds | --on) ;;
        --monitor) count=2 ;;
        *) return 0 ;;
    esac
    if [ -z "${2:-}" ] || [[ $2 = --* ]]; then usage "$1 needs a value"; fi
    if [ "$count" = 2 ] && [ -z "${3:-}" ]; then usage "$1 needs two values, a guest and a command"; fi
}

# act WHAT OPTION: one thing at a time.
act() {
    if [ -n "$action" ] && [ "$action" != "$2" ]; then usage "$action and $2 do not go together"; fi
    what=$1 action=$2
}

# known OPTION LIST NAME...: each word of the list is one of the names.
known() {
    local option=$1 list=$2 word words
    shift 2
    IFS=, read -ra words <<<"$list,"
    for word in "${words[@]}"; do
        if [[ -z $word || $word = *[[:space:]]* || " $* " != *" $word "* ]]; then usage "$option: there is no '$word'; there are $*"; fi
    done
}

# number OPTION VALUE LEAST MOST
number() {
    if [[ ! $2 =~ ^[1-9][0-9]{0,6}$ ]] || [ "$2" -lt "$3" ] || [ "$2" -gt "$4" ]; then usage "$1: '$2' is no number from $3 to $4"; fi
}

check_values() {
    local each
    known --kernel "$kernel" "${KERNELS[@]}"
    known --nic "$nic" "${NICS[@]}"
    known --framing "$framings" "${FRAMINGS[@]}"
    case $modes in
        best | all) ;;
        *) known --mode "$modes" zero-copy copy generic auto dpdk dpdk-xdp dpdk-back dpdk-uio ;;
    esac
    if [ -n "$only_faults" ]; then known --faults "$only_faults" "${FAULTS[@]%% *}"; fi
    IFS=, read -ra each <<<"$mtu,"
    for each in "${each[@]}"; do number --mtu "$each" 68 65535; done
    number --cpus "$cpus" 1 64
    number --memory "$memory" 256 65536
    number --timeout "$timeout" 1 1000000
    number --seconds "$cell_seconds" 1 3600
    if [ -n "$lengths" ]; then number --step "$lengths" 1 65536; fi
    for each in "${programs[@]}"; do
        if [ ! -f "$each" ]; then usage "--program: there is no file $each"; fi
    done
    if [ "$what" = monitor ]; then
        known --monitor "$monitor_guest" alpha beta
        if [ -z "$on" ]; then usage '--monitor needs --on FOLDER'; fi
    fi
}

# ignores WHAT OPTION...: refuse these, which would do nothing.
ignores() {
    local what=$1 each
    shift
    for each in "$@"; do
        if [[ $given = *" $each "* ]]; then usage "$what does not take $each; see scripts/lab --help"; fi
    done
}

# takes WHAT OPTION...: refuse all others, which would do nothing.
takes() {
    local what=$1 each
    shift
    for each in $given; do
        if [[ " $* " != *" $each "* ]]; then usage "$what does not take $each; see scripts/lab --help"; fi
    done
}

check_together() {
    local pair='--kernel --nic --mtu --cpus --memory --append --device --program --no-build --save --dpdk --mode'
    case $preset:$action in
        ci:* | all:*) ignores "$action" --dpdk --kernel --nic --mode --framing --mtu --timeout ;;
        dpdk:) ignores 'without a command --dpdk' --kernel --nic --mode --framing --mtu --timeout --tests ;;
        dpdk:--faults | dpdk:--list | dpdk:--fetch | dpdk:--monitor) ignores "$action" --dpdk ;;
    esac
    case $what in
        cells) ignores "${action:-the matrix}" --timeout; return ;;
        list) takes --list --list ;;
        fetch) takes --fetch --fetch --kernel ;;
        monitor) takes --monitor --monitor --on ;;
        hold) takes --hold --hold $pair ;;
        shell) takes --shell --shell --on $pair ;;
        commands) takes "$action" --alpha --beta --exec --timeout --on $pair ;;
        faults) ignores "$action" --mode --framing --step --settings --seconds --timeout --tests ;;
    esac
    case $preset:$modes in
        dpdk:best | dpdk:dpdk | dpdk:dpdk-*) ;;
        *) ignores "$action" --mode ;;
    esac
    case $what:$kernel in commands:*,* | shell:*,* | hold:*,*) usage "$action takes one --kernel" ;; esac
    case $mtu in *,*) usage "$action takes one --mtu" ;; esac
}

# Guests that another process keeps.
check_guests() {
    case $what in
        commands | shell | monitor) ;;
        *) usage '--on takes --exec, --alpha, --beta, --shell or --monitor' ;;
    esac
    ignores --on --kernel --nic --mtu --cpus --memory --append --device --mode --save
    if [ ! -e "$on/alpha/up" ] || [ ! -e "$on/beta/up" ] || ! lives "$on/../pid"; then
        usage "--on: no guests run in $on; scripts/lab --hold starts two, and says their folder"
    fi
}

# lives FILE: whether the process is there whose number the file has.
lives() { [ -s "$1" ] && [ -d "/proc/$(cat "$1")" ]; }
