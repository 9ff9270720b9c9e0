# ucx_perftest tcp|shm: its tests of active messages, each size to and fro, twice for two percentiles, and one way. `guess` is the
# nanoseconds that a message takes, to choose how often; its percentiles are of the last 2048 round trips.
. ./peer.sh
case $1 in
tcp) export UCX_TLS=tcp,self UCX_NET_DEVICES=am0 && where=$far host=10.77.0.2 ;;
shm) export UCX_TLS=posix,self && where=$beside host=127.0.0.1 ;;
*) needs ucx_perftest && version 'UCX ' ucx_info -v && exit ;;
esac
for size in $SIZES; do
    if [ "$1" = tcp ]; then guess=$((12000 + size * 8 / 10)); else guess=$((700 + size * 3 / 10)); fi
    pings=$(often $((2 * guess))) stream=$(often $((guess / 2)))
    if [ "$pings" -gt 20480 ]; then pings=20480; fi
    for rank in 50 99; do echo "lat-$rank-$size -t ucp_am_lat -s $size -n $pings -w $((pings / 5)) -R $rank"; done
    echo "bw-0-$size -t ucp_am_bw -s $size -n $stream -w $((stream / 5))"
done >batch
serve 13337 $where ucx_perftest -p 13337 -b batch -f -v
begin=$(date +%s%N) before=$(worked)
client $near ucx_perftest $host -p 13337 -b batch -f -v
busy=$((($(worked) - before) * 10000000)) took=$(($(date +%s%N) - begin))
# name,iterations,percentile,average,overall,bandwidths,message rates: in microseconds and messages a second.
figures 'BEGIN { FS = "," }
    NF < 6 || !/^(lat-50|lat-99|bw-0)-[0-9]+,/ { next }
    { split($1, name, "-") }
    name[2] == 50 { p50 = $3 * 1000; mean = $5 * 1000 }
    name[2] == 99 { printf "{\"size\":%d,\"p50\":%.1f,\"p99\":%.1f,\"mean\":%.1f}\n", name[3], p50, $3 * 1000, mean }
    name[1] == "bw" && $NF > 0 {
        printf "{\"size\":%d,\"messages\":%.1f,\"cpu\":%.1f}\n", name[3], $NF, '"$busy / $took"' * 1e9 / $NF
        found = 1
    }
    END { exit !found }'
