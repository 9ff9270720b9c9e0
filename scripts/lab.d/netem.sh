# shellcheck shell=bash
# What is left of the rate where the network between two nodes is bad. Sourced; a part of faults.sh.
#
# AF_XDP's own sends pass no queueing discipline, so netem sits on a bridge in beta: its ports are the NIC, whose queue holds
# what goes to alpha, and a veth, whose queue holds what goes to the node in a namespace behind it.
#
#   alpha: node ── eth0 ══ cable ══ eth0 ── bridge ── p0 ── h0 ── node :beta
#                                   netem             netem

# name  what each queue does; the first is what the others are compared with
readonly NETEM=(
    'delay      delay 2ms'
    'loss1      delay 2ms loss 1%'
    'loss3      delay 2ms loss 3%'
    'double     delay 2ms duplicate 5%'
    'reorder    delay 2ms reorder 90% gap 3'
    'jitter     delay 2ms 1ms'
    'both       delay 2ms 1ms reorder 10%'
)

netem() {
    local each name queue whole='' client server status begin line
    in_guest beta 'modprobe -a bridge veth sch_netem; ip netns add far && ip link add p0 type veth peer name h0 netns far &&
        ip link add br0 type bridge && ip link set p0 master br0 && ip link set eth0 master br0 &&
        ip link set br0 up && ip link set p0 up && ip -n far link set h0 up && sleep 2' 60 || return 0
    for each in "${NETEM[@]}"; do
        read -r name queue <<<"$each"
        in_guest beta "tc qdisc replace dev p0 root netem limit 10000 $queue && tc qdisc replace dev eth0 root netem limit 10000 $queue" || true
        begin=$SECONDS status=0
        start beta "exec ip netns exec far verify serve xdp:h0 seconds=10 patience=5" 100; server=$started
        start alpha "exec verify keep $(fault_transport) seconds=15 patience=5 together=256" 100; client=$started
        finish alpha "$client" 100 || status=$?
        line=$(grep -F '"phase":"keep"' "$said" || tail -n 1 "$said")
        finish beta "$server" 20 || true
        whole=${whole:-$(number_or_0 received "$line")}
        record_fault "netem-$name" "$line" "$said" "$status" 0 yes \
            "$queue: $(awk "BEGIN { printf \"%.2f\", $(number_or_0 received "$line") / ($whole + 0.001) }") of the rate" $((SECONDS - begin))
    done
    in_guest beta 'tc qdisc del dev eth0 root; ip link del br0; ip link del p0; ip netns del far; ip link set eth0 nomaster' || true
}
