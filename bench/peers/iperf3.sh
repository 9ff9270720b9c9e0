# iperf3: a stream, for a second a size. Each side prints the share of a core that it used, in per cent.
. ./peer.sh
[ "$1" != version ] || { version '' iperf3 --version && exit; }
for size in $SIZES; do
    serve 5201 $far iperf3 -s -1 -p 5201
    client $near iperf3 -c 10.77.0.2 -p 5201 -t 1 -l "$size" --json
    figures '
        /"sum_received"/ { end = 1 }
        end && /"bits_per_second"/ { rate = $2 / 8 / size; end = 0 }
        /"host_total"/ { near = $2 }
        /"remote_total"/ { far = $2 }
        END {
            if (!rate) exit 1
            cpu = near + far > 0 ? sprintf(",\"cpu\":%.1f", (near + far) * 1e7 / rate) : ""
            printf "{\"size\":%d,\"messages\":%.3f%s}\n", size, rate, cpu
        }'
done
