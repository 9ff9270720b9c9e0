# sockperf udp|tcp: its ping-pong halves round trips itself; its throughput counts messages that the sender handed over.
. ./peer.sh
case $1 in
udp) tcp= ;;
tcp) tcp=--tcp ;;
*) version '' sockperf --version && exit ;;
esac
# Sizes from its own header to the longest datagram. Each takes long, so only the smallest, the middle and the largest are measured.
fit=
for size in $SIZES; do [ "$size" -lt 14 ] || [ "$size" -gt 65507 ] || fit="$fit $size"; done
set -- $fit
[ $# -gt 0 ] || fail 'no size within its limits, 14 to 65,507 bytes'
eval "set -- \$1 \${$(($# / 2 + 1))} \${$#}"
before=
for size; do
    [ "$size" != "$before" ] || continue
    before=$size
    for what in ping-pong throughput; do
        place="-i 10.77.0.2 -p 5001 --nonblocked $tcp"
        serve 5001 $far sockperf server $place
        client $near sockperf $what -t 1 -m "$size" $place
        figures '
            match($0, /avg-latency=[0-9.]+/) { mean = substr($0, RSTART + 12, RLENGTH - 12) * 1000 }
            /percentile 50\.000/ { p50 = $NF * 1000 }
            /percentile 99\.000/ { p99 = $NF * 1000 }
            match($0, /Message Rate is [0-9]+/) { messages = substr($0, RSTART + 16, RLENGTH - 16) }
            END {
                if (p50) printf "{\"size\":%d,\"p50\":%.1f,\"p99\":%.1f,\"mean\":%.1f}\n", size, p50, p99, mean
                else if (messages) printf "{\"size\":%d,\"messages\":%.1f}\n", size, messages
                else exit 1
            }'
    done
done
