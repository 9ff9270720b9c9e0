# shellcheck shell=bash
# The matrix: which cells there are, how one is run, what becomes of it. Sourced.
#
# A cell is a line `kernel nic mode framing mtu`, with a last word `refused` where the kernel or the driver cannot
# do it, and says so. Cells of one kernel share a pair of guests, in which every NIC has a cable of its own; NICs
# work at the same time, the cells of one NIC one after the other.

readonly FRAMINGS=(bare split plain)

# The modes that a driver has under a kernel, the best first.
modes_of() {
    case $1:$2 in
        7.3:igb) echo zero-copy copy generic ;;
        7.3:virtio-zc) echo zero-copy copy generic ;;
        5.10:virtio* | 5.10:vmxnet3 | 6.1:vmxnet3 | *:e1000e) echo generic ;;
        *) echo copy generic ;;
    esac
}

# What a mode is called in a transport's name.
settings_of() {
    case $1 in
        zero-copy) echo attach=native,copy=never ;;
        copy) echo attach=native,copy=always ;;
        generic) echo attach=generic ;;
        *) echo attach=auto ;;
    esac
}

# The cells of --ci: each kernel and each driver once, each framing where no copy is made. NICs of a kernel work at the same time.
ci_cells() {
    echo '7.3 igb zero-copy bare 1500'
    echo '7.3 igb zero-copy plain 1500'
    echo '7.3 virtio-zc zero-copy split 1500'
    echo '7.3 vmxnet3 copy bare 1500'
    echo '7.3 e1000e generic bare 1500'
    echo '6.12 vmxnet3 copy plain 1500'
    echo '6.1 igb copy bare 1500'
    echo '5.10 igb copy bare 1500'
}

# The cells of --all: every mode of every driver, and what longer frames do.
all_cells() {
    local kernel nic
    cells_of "${KERNELS[*]}" "${NICS[*]}" all "${FRAMINGS[*]}" 1500
    for kernel in "${KERNELS[@]}"; do
        echo "$kernel igb $(modes_of "$kernel" igb | cut -d' ' -f1) bare 1000"
        echo "$kernel igb $(modes_of "$kernel" igb | cut -d' ' -f1) bare 1800"
        echo "$kernel igb copy bare 9000 refused"
        echo "$kernel e1000e generic bare 4000"
    done
    for kernel in 6.12 7.3; do
        echo "$kernel virtio copy bare 9000"
        echo "$kernel vmxnet3 copy bare 9000 refused"
        echo "$kernel e1000e copy bare 1500 refused"
    done
    echo '7.3 virtio-zc zero-copy bare 3000'
    echo '6.12 igb zero-copy bare 1500 refused'
    echo '7.3 vmxnet3 zero-copy bare 1500 refused'
    dpdk_cells
}

# All cells of these lists (words): kernels, NICs, modes, framings, MTUs. The mode `all` is what the driver has.
cells_of() {
    local kernel nic mode framing mtu modes
    for kernel in $1; do
        for nic in $2; do
            modes=$3
            if [ "$modes" = all ]; then modes=$(modes_of "$kernel" "$nic"); fi
            if [ "$modes" = best ]; then modes=$(modes_of "$kernel" "$nic" | cut -d' ' -f1); fi
            for mode in $modes; do
                for mtu in $5; do
                    for framing in $4; do echo "$kernel $nic $mode $framing $mtu"; done
                done
            done
        done
    done
}

# Run the cells on standard input; a line of JSON for each goes to the file $results. One boot for those of a kernel;
# for DPDK's, of which every end polls, one for each NIC.
run_cells() {
    local one two three rest pair
    while read -r one two three rest; do
        pair=$one:$(kind_of "$three")
        case $pair in *:plain) ;; *) pair+=:$two ;; esac
        echo "$pair $one $two $three $rest"
    done >"$results.kinds"
    for pair in $(cut -d' ' -f1 "$results.kinds" | awk '!seen[$0]++'); do
        IFS=: read -r one two rest <<<"$pair"
        kernel=$one
        run_kernel "$two" "$(sed -n "s/^$pair //p" "$results.kinds")"
    done
}

# A cell without a line ended before it wrote one.
missing_cells() {
    local kernel nic mode framing mtu
    while read -r kernel nic mode framing mtu _; do
        if grep -qF "\"kernel\":\"$kernel\",\"nic\":\"$nic\",\"mode\":\"$mode\",\"framing\":\"$framing\",\"mtu\":$mtu," "$results"; then continue; fi
        printf '{"kernel":"%s","nic":"%s","mode":"%s","framing":"%s","mtu":%s,"queues":0,"sent":0,"received":0,"bytes":0,"wrong":0,"missing":0,"seconds":0,"verdict":"BAD","why":"no result","transport":""}\n' \
            "$kernel" "$nic" "$mode" "$framing" "$mtu" >>"$results"
        progress "$kernel $nic $mode $framing $mtu" 0 'BAD: no result'
    done <"$results.cells"
}

# run_kernel KIND CELLS: the cells of one boot.
run_kernel() {
    local cells=$2 number=0 each mtu=1500 memory=$memory append=$append devices=$devices
    workers=()
    equip "$1"
    nic=$(printf '%s\n' "$cells" | cut -d' ' -f2 | awk '!seen[$0]++' | paste -sd,)
    open_pair
    if [ -n "$with_tests" ] && [ "$kind" = plain ]; then guest_tests; fi
    for each in ${nic//,/ }; do
        printf '%s\n' "$cells" | grep " $each " >"$LAB/cells$number"
        run_nic "$number" <"$LAB/cells$number" &
        workers+=($!)
        number=$((number + 1))
    done
    wait "${workers[@]}" || true
    workers=()
    judge_kernel
    close_pair
}

# The cells of one NIC, which is eth$1 in both guests.
run_nic() {
    local kernel nic mode framing mtu expected place=$1
    while read -r kernel nic mode framing mtu expected; do run_cell; done
}

run_cell() {
    local on before server line status=0 begin=$SECONDS started said
    end_of beta
    start beta "$before verify serve $on${extra:+,$extra} framing=$framing seconds=$cell_seconds" "$((cell_seconds * 10))"
    server=$started
    end_of alpha
    run alpha "$before verify check $on${extra:+,$extra} framing=$framing step=$lengths seconds=$cell_seconds" \
        "$((cell_seconds * 10))" || status=$?
    line=$(tail -n 1 "$said")
    finish beta "$server" "$((cell_seconds + 10))" || true
    record "$line" "$(grep -F '"phase":"served"' "$said")" "$(head -n 1 "$LAB/alpha/$started.out")" "$status" $((SECONDS - begin))
}

# A number or a text of a line of JSON that a program of ours printed.
number_in() { printf '%s' "$2" | sed -nE "s/.*[{,]\"$1\":([0-9]+).*/\\1/p"; }
text_in() { printf '%s' "$2" | sed -nE "s/.*[{,]\"$1\":\"(([^\"\\\\]|\\\\.)*)\".*/\\1/p"; }

# record CLIENT-LINE SERVER-LINE QUEUES STATUS SECONDS: what became of the cell.
record() {
    local verdict why client=$1 server=$2
    why=$(text_in error "$client")
    if [ -z "$why" ]; then why=$(text_in first "$client"); fi
    case $why in "the peer received it otherwise"*) why=$(text_in first "$server") ;; esac
    case $4 in
        0) verdict=good ;;
        1) verdict=BAD ;;
        2) verdict=CANNOT-RUN ;;
        3) verdict=NO-MTU why="the driver refuses an MTU of $mtu" ;;
        *) verdict=HANGS why="no end after $5 s; status $4" ;;
    esac
    if [ "$verdict" = good ]; then judge_length "$client"; fi
    case $verdict:$expected in
        CANNOT-RUN:refused | NO-MTU:refused) verdict=refused ;;
        *:refused) verdict=BAD why="this was to be refused" ;;
    esac
    printf '{"kernel":"%s","nic":"%s","mode":"%s","framing":"%s","mtu":%s,"queues":%s,"sent":%s,"received":%s,"bytes":%s,"wrong":%s,"missing":%s,"seconds":%s,"verdict":"%s","why":"%s","transport":"%s"}\n' \
        "$kernel" "$nic" "$mode" "$framing" "$mtu" "$(printf '%s' "$3" | grep -xE '[0-9]+' || echo 0)" \
        "$(number_or_0 sent "$client")" "$(number_or_0 received "$client")" "$(number_or_0 bytes "$client")" \
        "$(number_or_0 wrong "$client")" "$(number_or_0 missing "$client")" "$5" "$verdict" "$why" "$(text_in transport "$client")" >>"$results"
    progress "$kernel $nic $mode $framing $mtu" "$5" "$verdict${why:+: $why}"
}

# A frame that is shortened on its way loses nothing that `verify` sees: the lengths of its messages are those that arrive.
judge_length() {
    local length most=$mtu
    case $framing in split) most=$((mtu - 8)) ;; plain) most=$((mtu - 12)) ;; esac
    length=$(text_in connection "$1" | sed -nE 's/.*, ([0-9]+) bytes a frame.*/\1/p')
    if [ "${length:-0}" != "$most" ]; then verdict=BAD why="${length:-0} bytes a frame, not $most"; fi
}

number_or_0() {
    local number
    number=$(number_in "$1" "$2")
    echo "${number:-0}"
}

# After a pair's last cell: its kernels' logs.
judge_kernel() {
    local complaint
    if complaint=$(kernel_complaints); then
        printf '{"kernel":"%s","nic":"%s","mode":"kernel log","verdict":"BAD","why":"%s"}\n' "$kernel" "$nic" \
            "$(printf '%s' "$complaint" | sed -n 1p | tr -d '"\\')" >>"$results"
        progress "$kernel kernel log" 0 "BAD: $complaint"
    fi
}

progress() {
    if [ -z "$json" ]; then printf '  %-36s %4ds  %.120s\n' "$1" "$2" "$3"; fi
}

# The table of all results.
table() {
    local line
    printf '%-6s %-10s %-10s %-7s %5s %6s %6s %8s %10s %6s %7s  %s\n' \
        kernel NIC mode framing MTU queues sent received 'bytes ok' wrong missing verdict
    while read -r line; do
        printf '%-6s %-10s %-10s %-7s %5s %6s %6s %8s %10s %6s %7s  %s\n' "$(text_in kernel "$line")" "$(text_in nic "$line")" \
            "$(text_in mode "$line")" "$(text_in framing "$line")" "$(number_in mtu "$line")" "$(number_in queues "$line")" \
            "$(number_in sent "$line")" "$(number_in received "$line")" "$(number_in bytes "$line")" \
            "$(number_in wrong "$line")" "$(number_in missing "$line")" "$(text_in verdict "$line")"
    done <"$results"
}
