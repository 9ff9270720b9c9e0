# shellcheck shell=bash
# DPDK in the guests: what it needs there, which ends of a cell are DPDK's, how a NIC gets there and back. Sourced.
#
# A pair of guests is one of three kinds: `plain`; `iommu`, with an IOMMU, for vfio; `no-iommu`, without, for uio.
# The last two have huge pages of 2 MiB, and this host's DPDK: the shim is made for that.

# Drivers of DPDK's that the guests' NICs have, the buses that these are on, and the mempool that every other starts as.
readonly PMDS=(bus_pci bus_vdev mempool_ring net_e1000 net_virtio net_vmxnet3)
# What guests have of their own, of another version.
readonly GUESTS_OWN='^(libc|libm|libgcc_s|libz|libelf|libzstd|ld-linux-x86-64)\.so'

# The kind of guests that a mode takes.
kind_of() {
    case $1 in
        dpdk-uio) echo no-iommu ;;
        dpdk*) echo iommu ;;
        *) echo plain ;;
    esac
}

# What guests of this kind have more: in $memory, $append and $devices.
equip() {
    kind=$1
    case $kind in
        plain) return ;;
        iommu) append+=' intel_iommu=on' devices+=' -device intel-iommu,intremap=on' ;;
    esac
    append+=' hugepages=300'
    if [ "$memory" -lt 2000 ]; then memory=2000; fi
}

# The cells of DPDK in --all; --dpdk runs these alone.
dpdk_cells() {
    local nic kernel
    for nic in igb virtio-zc vmxnet3 e1000e; do
        cells_of 7.3 "$nic" dpdk "${FRAMINGS[*]}" 1500
        echo "7.3 $nic dpdk-xdp bare 1500"
        echo "7.3 $nic dpdk-back bare 1500"
    done
    for nic in igb virtio vmxnet3; do echo "7.3 $nic dpdk-uio bare 1500"; done
    echo '7.3 igb dpdk bare 3000'
    for kernel in 6.12 6.1 5.10; do echo "$kernel igb dpdk bare 1500"; done
}

# Whether any cell or command is to have DPDK, which is made then, and has to be here.
needs_dpdk() { [ "$kind" != plain ] || [ "$preset" = all ] || [[ $modes = *dpdk* ]]; }

build_for_dpdk() {
    if ! pkg-config --exists libdpdk; then die "scripts/lab: the guests get this host's DPDK, and there is none: scripts/setup --with-dpdk"; fi
    if [ -n "$build" ]; then step 'DPDK shim' build_shim || die "$(tail -n 20 "$step_log")"; fi
    if [ ! -f "$TARGET/release/libdpdk_shim.so" ]; then
        die "scripts/lab: libdpdk_shim.so is not built; scripts/lab without --no-build builds it, as scripts/setup --with-dpdk does"
    fi
}

# The shim, the drivers and the libraries of all these, into the guests' folder. A driver is a link to its library:
# one that is loaded by two names is two drivers.
install_dpdk() {
    local folder library files=()
    folder=$(pkg-config --variable=libdir libdpdk)
    install_as "$TARGET/release/libdpdk_shim.so" libdpdk_shim.so
    install_as scripts/nic nic
    for library in "${PMDS[@]}"; do files+=("$(readlink -f "$folder/librte_$library.so")"); done
    mkdir -p "$LAB/lib/dpdk"
    ldd "${files[@]}" "$LAB/bin/libdpdk_shim.so" | awk '$2 == "=>" { print $3 }' | sort -u | while read -r library; do
        if [[ ! ${library##*/} =~ $GUESTS_OWN ]]; then cp -L "$library" "$LAB/lib/"; fi
    done
    folder=$LAB/lib/dpdk/$(basename "$(dirname "${files[0]}")")
    mkdir -p "$folder"
    for library in "${files[@]}"; do
        cp -L "$library" "$LAB/lib/$(soname "$library")"
        ln -sfn "../../$(soname "$library")" "$folder/$(basename "${library%%.so*}").so"
    done
}

# In the folder of drivers a file is librte_net_e1000.so.23.0; what others ask for is librte_net_e1000.so.23.
soname() { basename "$1" | sed -E 's/(\.so\.[0-9]+).*/\1/'; }

# Where DPDK looks for its drivers.
prepare_guests_for_dpdk() {
    local guest
    for guest in alpha beta; do
        run "$guest" 'mkdir -p /usr/lib/x86_64-linux-gnu && ln -sfn /sh/lib/dpdk /usr/lib/x86_64-linux-gnu/dpdk' 10
    done
}

# end_of GUEST: in $on its transport, in $before what is done first, whose first line says how many queues there are.
end_of() {
    local way='' device
    device=$(printf '0000:00:%02d.0' $((8 + place)))
    case $mode:$1 in
        dpdk-uio:*) way='--driver uio_pci_generic' ;;
        dpdk:* | dpdk-xdp:alpha) ;;
        *) end_of_kernel "$device"; return ;;
    esac
    on=dpdk:$device,am.mtu=$mtu
    before=$(or_refused "nic bind dpdk $device $way")'; echo 1;'
}

# An end that is the kernel's, with the best mode of its driver, unless another was asked for. QEMU's virtio device without copies does not
# get along with QEMU's IOMMU: it reads descriptors that are none, corrupts the guest, or aborts.
end_of_kernel() {
    local one=$mode
    before="[ \$(cat /sys/class/net/eth$place/mtu) = $mtu ] || ip link set eth$place mtu $mtu || exit 3;"
    if [ "$kind" != plain ]; then
        one=$(modes_of "$kernel" "$nic" | cut -d' ' -f1)
        if [ "$nic" = virtio-zc ]; then one=copy; fi
        before="$(or_refused "nic unbind $1"); ip link set eth$place up; $before"
    fi
    on=xdp:eth$place,$(settings_of "$one")
    before+=" ls -d /sys/class/net/eth$place/queues/rx-* | wc -l;"
}

# A command of a guest's; where it fails the cell says what it said.
or_refused() {
    printf '%s' "why=\$($1 2>&1) || { echo; printf '{\"error\":\"%s\"}\\n' \"\$(echo \"\$why\" | tr '\\n\\\"' '  ')\"; exit 2; }"
}
