# fi_pingpong udp|tcp|shm: the only program in libfabric's package. It prints the mean, half of a round trip.
. ./peer.sh
kind=rdm where=$far host=10.77.0.2 start=24000 each=16 limit=1000000000 found=
case $1 in
udp) kind=dgram limit=1472 ;;
tcp) ;;
shm) where=$beside host=127.0.0.1 start=2000 each=6 ;;
*) version '' fi_pingpong -h >/dev/null && version '' fi_info --version && exit ;;
esac
for size in $SIZES; do
    [ "$size" -le $limit ] || continue
    program="fi_pingpong -p $1 -e $kind -I $(often $((start + size * each / 10))) -S $size"
    serve 47592 $where $program -B 47592
    client $near $program -P 47592 $host
    # bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec
    figures 'NF == 8 && $7 > 0 { mean = $7 * 1000 }
        END { if (!mean) exit 1; printf "{\"size\":%d,\"mean\":%.1f}\n", size, mean }'
    found=1
done
[ -n "$found" ] || fail "no size that it takes: up to $limit bytes"
