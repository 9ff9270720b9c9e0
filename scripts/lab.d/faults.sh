# shellcheck shell=bash
# What goes wrong with real interfaces, while messages are on their way. Sourced.
#
# `verify keep` in alpha sends requests of all lengths and checks their echoes; `verify serve` in beta answers. After some
# seconds the fault begins. It is `good` where messages arrive again afterwards, none is wrong, and both programs live.

# name  what it does, in the table's words
readonly FAULTS=(
    'link-near   alpha: ip link set eth0 down, 3 s, up'
    'link-far    beta: the same'
    'cable       pulled for 3 s'
    'cable-long  pulled for 8 s; patience is 2 s'
    'mtu         beta: MTU 1400 for 3 s, 1500 again'
    'mtu-most    alpha: an MTU of 9000, which a driver with an XDP program mostly refuses'
    'channels    beta: ethtool -L, one queue for 3 s, two again'
    'rename      beta: the interface is called lan0, 3 s, eth0 again'
    'rebind      beta: driver unbound from the NIC for 3 s, bound again'
    'kill-far    beta: kill -9 of the server, another 2 s later'
    'kill-near   alpha: kill -9 of a client, another at once'
    'suspend     beta suspended for 5 s'
    'beside      ping and TCP on the same interface'
    'netem       a bridge in beta delays, loses, doubles, reorders frames: what is left of the rate (netem.sh)'
)

# Those that stop messages: a pause of less than a second means that they did not happen.
readonly STOPPING=' link-near link-far cable cable-long rebind kill-far suspend '

# Seconds: of a run, and of it before the fault begins.
readonly KEEP=20 BEGINS=4

faults() {
    local begin=$SECONDS kernels=${kernel//,/ } nics=${nic//,/ } each
    for kernel in $kernels; do
        prepare "$kernel"
        for nic in $nics; do
            open_pair
            for each in "${FAULTS[@]}"; do
                each=${each%% *}
                if [ -n "$only_faults" ] && [[ ",$only_faults," != *",$each,"* ]]; then continue; fi
                if [ "$each" = netem ]; then netem; else one_fault "$each"; fi
            done
            judge_kernel
            close_pair
        done
    done
    if [ -n "$json" ]; then cat "$results"; else say; faults_table; say "$(wc -l <"$results") faults, $((SECONDS - begin)) s."; fi
    ! grep -qvE '"verdict":"(good|refused)"' "$results"
}

# As a user would say it: a driver without XDP of its own wants the generic mode.
fault_transport() {
    if [ "$(modes_of "$kernel" "$nic" | cut -d' ' -f1)" = generic ]; then echo xdp:eth0,attach=generic; else echo xdp:eth0; fi
}

# With the pid of each where a later command finds it.
serve_in_beta() { start beta "echo \$\$ >/run/server; exec verify serve $(fault_transport) seconds=$((KEEP * 3)) patience=${1:-20}" $((KEEP * 4)); }
keep_in_alpha() { start alpha "echo \$\$ >/run/client; exec verify keep $(fault_transport) seconds=$KEEP patience=${1:-20}" $((KEEP * 4)); }

# One after the other in one pair; what a fault left behind would be the next one's.
one_fault() {
    local name=$1 client server status=0 begin=$SECONDS patience=20 what='' before='' started said
    if [ "$name" = cable-long ]; then patience=2; fi
    if [ "$name" = beside ]; then before="alone $(fault_beside); beside messages "; fi
    serve_in_beta "$patience"; server=$started
    keep_in_alpha "$patience"; client=$started
    await_traffic "$client"
    what=$("fault_${name//-/_}") || status=$?
    what=$before$what
    if [ "$name" = kill-far ]; then server=$what what=; fi
    if [ "$name" = kill-near ]; then client=$what what=; fi
    local ended=0
    finish alpha "$client" $((KEEP * 2)) || ended=$?
    local line
    line=$(grep -F '"phase":"keep"' "$said" || tail -n 1 "$said")
    local lives=yes
    run beta "kill -0 \$(cat /run/server)" 10 || lives=no
    local server_said=$LAB/beta/$server.out
    run beta "kill \$(cat /run/server)" 10 || true
    finish beta "$server" 10 || true
    record_fault "$name" "$line" "$server_said" "$ended" "$status" "$lives" "$what" $((SECONDS - begin))
}

# Until the client has connected, and then some.
await_traffic() {
    local end=$((SECONDS + KEEP))
    until grep -qs '"phase":"open"' "$LAB/alpha/$1.out" || [ "$SECONDS" -ge "$end" ]; do sleep 0.2; done
    sleep "$BEGINS"
}

# record_fault NAME CLIENT-LINE SERVER-FILE CLIENT-STATUS FAULT-STATUS LIVES WHAT SECONDS
record_fault() {
    local verdict=good why
    why=$(text_in error "$2")$(text_in first "$2")
    if [ "$4" != 0 ]; then verdict=BAD why="the client ends with $4${why:+: $why}"; fi
    if [ "$6" = no ]; then verdict=BAD why="the server is gone: $(tail -n 1 "$3" | tr -d '"\\')"; fi
    if [[ $STOPPING == *" $1 "* && $(decimal_in pause "$2") == 0.* ]]; then verdict=BAD why='the fault was not felt'; fi
    if [ "$5" = 95 ] && [ "$verdict" = good ]; then verdict=refused; elif [ "$5" != 0 ] && [ "$5" != 95 ]; then verdict=BAD why="the fault could not be made: $7"; fi
    why=$(printf '%s' "${why:-$7}" | tr -d '"\\' | tr '\n' ' ')
    printf '{"kernel":"%s","nic":"%s","fault":"%s","sent":%s,"received":%s,"returned":%s,"unanswered":%s,"wrong":%s,"pause":%s,"reconnects":%s,"seconds":%s,"verdict":"%s","why":"%s","trouble":"%s","transport":"%s"}\n' \
        "$kernel" "$nic" "$1" "$(number_or_0 sent "$2")" "$(number_or_0 received "$2")" "$(number_or_0 returned "$2")" \
        "$(number_or_0 missing "$2")" "$(number_or_0 wrong "$2")" "$(decimal_in pause "$2")" "$(number_or_0 reconnects "$2")" \
        "$8" "$verdict" "$why" "$(text_in last_trouble "$2")" "$(text_in transport "$2")" >>"$results"
    progress "$kernel $nic $1" "$8" "$verdict${why:+: $why}"
}

decimal_in() {
    local number
    number=$(printf '%s' "$2" | sed -nE "s/.*[{,]\"$1\":([0-9.]+).*/\\1/p")
    echo "${number:-0}"
}

faults_table() {
    local line
    printf '%-6s %-10s %-11s %7s %8s %8s %10s %6s %7s %10s  %s\n' \
        kernel NIC fault sent echoed returned unanswered wrong 'pause s' reconnects verdict
    while read -r line; do
        printf '%-6s %-10s %-11s %7s %8s %8s %10s %6s %7s %10s  %s\n' "$(text_in kernel "$line")" "$(text_in nic "$line")" \
            "$(text_in fault "$line")" "$(number_in sent "$line")" "$(number_in received "$line")" "$(number_in returned "$line")" \
            "$(number_in unanswered "$line")" "$(number_in wrong "$line")" "$(decimal_in pause "$line")" \
            "$(number_in reconnects "$line")" "$(text_in verdict "$line")$(why_in "$line")"
    done <"$results"
}

why_in() {
    local why
    why=$(text_in why "$1")
    if [ -n "$why" ]; then printf ': %.100s' "$why"; fi
}

# The faults. Each says on standard output what a reader should know; 95 means that the driver does not take it.

in_guest() {
    local said status=0
    run "$1" "$2" "${3:-30}" || status=$?
    cat "$said"
    return "$status"
}

fault_link_near() { in_guest alpha 'ip link set eth0 down; sleep 3; ip link set eth0 up'; }
fault_link_far() { in_guest beta 'ip link set eth0 down; sleep 3; ip link set eth0 up'; }
fault_cable() { pull 3; }
fault_cable_long() { pull 8; }
fault_suspend() { monitor beta stop; sleep 5; monitor beta cont; }
fault_mtu() { in_guest beta 'ip link set eth0 mtu 1400 && sleep 3 && ip link set eth0 mtu 1500'; }

pull() {
    monitor alpha 'set_link nic0 off'
    sleep "$1"
    monitor alpha 'set_link nic0 on'
}

fault_mtu_most() {
    in_guest alpha 'if ip link set eth0 mtu 9000 2>&1; then echo "the driver takes it"; sleep 3; ip link set eth0 mtu 1500; fi'
}

fault_channels() {
    in_guest beta 'for counts in "combined 2" "combined 1" "combined 2"; do
        ethtool -L eth0 $counts >/run/said 2>&1 || [ $? = 80 ] || grep -q unmodified /run/said || { echo "the driver sets no number of queues"; exit 95; }
        sleep 2
    done'
}

fault_rename() {
    in_guest beta 'ip link set eth0 name lan0 2>&1 || { ip link set eth0 down; ip link set eth0 name lan0; ip link set lan0 up; echo "down for it"; }
        sleep 3
        ip link set lan0 name eth0 2>&1 || { ip link set lan0 down; ip link set lan0 name eth0; ip link set eth0 up; }' | paste -sd' '
}

fault_rebind() {
    in_guest beta 'device=$(readlink -f /sys/class/net/eth0/device); driver=$(readlink -f $device/driver); address=$(cat /sys/class/net/eth0/address)
        name=${device##*/}
        echo $name >$driver/unbind; sleep 3; echo $name >$driver/bind; sleep 1
        for new in /sys/class/net/*; do [ "$(cat $new/address)" = "$address" ] && new=${new##*/} && break; done
        if [ "$new" != eth0 ]; then ip link set $new down; ip link set $new name eth0; fi
        ip addr add 10.77.0.2/24 dev eth0; ip link set eth0 up'
}

fault_kill_far() {
    in_guest beta 'kill -9 $(cat /run/server); sleep 2' >/dev/null
    serve_in_beta
    echo "$started"
}

fault_kill_near() {
    in_guest alpha 'kill -9 $(cat /run/client)' >/dev/null
    keep_in_alpha
    echo "$started"
}

# Loss and rate of others on the same interface.
fault_beside() {
    run beta 'iperf3 -s -D -1 >/dev/null' 10 || true
    in_guest alpha '/usr/bin/ping -q -c 20 -i 0.2 10.77.0.2 | sed -nE "s/.*, ([0-9]+% packet loss).*/ping \1/p"
        iperf3 -c 10.77.0.2 -t 4 -f m | sed -nE "s/.* ([0-9.]+ Mbits.sec) .*receiver/TCP \1/p"' 40 | paste -sd' '
}
