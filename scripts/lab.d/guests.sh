# shellcheck shell=bash
# Two guests and the cable between them: start, run commands, pull the cable, end. Sourced.
#
# $LAB is the folder that the guests share with this host: bin/ with the programs, a folder for each guest with
# its commands (NAME.run), what they said (NAME.out), how they ended (NAME.rc), its kernel's log (dmesg), console and monitor.

# QEMU's device for a NIC of ours; `virtio-zc` is the virtio device that its driver drives without copying.
device_of() {
    case $1 in
        igb | e1000e | vmxnet3) echo "$1" ;;
        virtio) echo virtio-net-pci ;;
        virtio-zc) echo virtio-net-pci,iommu_platform=on,disable-legacy=on ;;
        *) die "scripts/lab: there is no NIC $1; there are ${NICS[*]}" ;;
    esac
}
readonly NICS=(igb virtio virtio-zc vmxnet3 e1000e)

# boot_guest NAME SERVER(on|off) NUMBER: $kernel, $nic, $mtu say the rest.
boot_guest() {
    local name=$1 server=$2 number=$3 nics=() n=0 one
    mkdir -p "$LAB/$name"
    mkfifo "$LAB/$name"/{monitor,tty}.{in,out}
    for one in ${nic//,/ }; do
        nics+=(-netdev "stream,id=n$n,server=$server,addr.type=unix,addr.path=$LAB/cable$n"
            -device "$(device_of "$one"),netdev=n$n,id=nic$n,mac=52:54:00:00:0$number:0$n,bus=pcie.0,addr=$((8 + n)),romfile=")
        n=$((n + 1))
    done
    # shellcheck disable=SC2086 # words of their own
    setpriv --pdeathsig KILL "$LAB_CACHE/userland/lib64/ld-linux-x86-64.so.2" \
        --library-path "$LAB_CACHE/userland/usr/lib/x86_64-linux-gnu" "$LAB_CACHE/userland/usr/bin/qemu-system-x86_64" \
        -L "$LAB_CACHE/userland/usr/share/qemu" -L "$LAB_CACHE/userland/usr/share/seabios" \
        -name "$name" -accel tcg,thread=multi -machine q35 -cpu EPYC -smp "$cpus" -m "$memory" -nodefaults \
        -display none -no-reboot -serial "file:$LAB/$name/console" -serial "pipe:$LAB/$name/tty" \
        -monitor "pipe:$LAB/$name/monitor" \
        -kernel "$LAB_CACHE/kernel-$kernel/vmlinuz" -initrd "$LAB_CACHE/initramfs-$kernel.zst" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check lab.host=$name lab.mtu=$mtu lab.address=$number $append" \
        -fsdev "local,id=f,path=$LAB,security_model=none" -device virtio-9p-pci,fsdev=f,mount_tag=sh \
        $devices "${nics[@]}" >"$LAB/$name/qemu" 2>&1 </dev/null &
    qemus+=($!)
}

boot_pair() {
    mkdir -p "$LAB/bin" "$LAB/lib"
    boot_guest alpha on 1
    local waited=0
    until [ -S "$LAB/cable0" ] || [ $((waited += 1)) -gt 100 ]; do sleep 0.05; done
    boot_guest beta off 2
    await_up alpha && await_up beta
}

# The guest says that it is up, within two minutes. A kernel that says before that it stalls seldom gets further.
await_up() {
    local end=$((SECONDS + 120))
    until [ -e "$LAB/$1/up" ]; do
        if [ "$SECONDS" -gt "$end" ] || ! is_running || { [ "$attempt" -lt 3 ] && grep -qs 'detected stall' "$LAB/$1/console"; }; then
            say "$1 did not start (kernel $kernel, $nic):" "$(tail -n 20 "$LAB/$1/qemu" "$LAB/$1/console")" >&2
            return 1
        fi
        sleep 0.1
    done
}

# start GUEST COMMAND SECONDS: hand it over, and say what it is called in $started.
start() {
    local place
    place=$(mktemp -u -p "$LAB/$1")
    echo "$3" >"$place.limit"
    printf '%s\n' "$2" >"$place.new"
    mv "$place.new" "$place.run"
    started=${place##*/}
}

# finish GUEST NAME SECONDS: wait for it; what it said is in the file $said, how it ended is the status.
finish() {
    local end=$((SECONDS + $3)) rc
    said=$LAB/$1/$2.out
    until [ -e "$LAB/$1/$2.rc" ]; do
        if [ "$SECONDS" -ge "$end" ] || ! is_running; then return 124; fi
        sleep 0.1
    done
    rc=$(cat "$LAB/$1/$2.rc")
    return "$rc"
}

# run GUEST COMMAND SECONDS
run() {
    start "$1" "$2" "$3"
    finish "$1" "$started" $(($3 + 10))
}

# stop GUEST NAME: end it, with all that it started.
stop() {
    run "$1" "pkill -f '^timeout .*$2'" 5 || true
    finish "$1" "$2" 10 || true
}

# Both guests; of a pair that another process keeps that process knows.
is_running() { [ "${#qemus[@]}" = 0 ] || kill -0 "${qemus[@]}" 2>/dev/null; }

# A command for QEMU itself: `monitor alpha 'set_link nic0 off'`, stop, cont, ...
monitor() { echo "$2" >"$LAB/$1/monitor.in"; }

# What a kernel must never say.
kernel_complaints() {
    grep -haE 'WARNING:|BUG:|Oops|Call Trace|general protection|Kernel panic|unregister_netdevice: waiting' "$LAB"/*/{dmesg,console} 2>/dev/null
}

end_pair() {
    if [ "${#qemus[@]}" = 0 ]; then return 0; fi
    kill "${qemus[@]}" 2>/dev/null || true
    wait "${qemus[@]}" 2>/dev/null || true
    qemus=()
}
