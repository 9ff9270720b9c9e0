# shellcheck shell=bash
# A guest's first file system, one for each kernel: the userland, the kernel's modules, scripts/lab.d/init. Sourced.

# What is loaded by name, or by whoever debugs in a guest. NICs' drivers are found by their devices.
readonly MODULES=(virtio_pci 9pnet_virtio 9p virtio_net igb igc e1000e vmxnet3 veth bridge sch_netem sch_prio
    cls_u32 dummy tun macvlan 8021q vhost_net uio_pci_generic vfio-pci vfio_iommu_type1 xdp_diag af_packet_diag)
readonly TOOLS=(bash kmod ip bridge tc ethtool ping ps strace tcpdump iperf3 taskset unshare nsenter setsid setpriv stdbuf timeout)

# In a shell in which a failing command ends it (cache.sh).
initramfs() {
    local kernel=$1 out=$LAB_CACHE/initramfs-$1.zst tree
    tree=$(mktemp -d "$LAB_CACHE/tree.XXXXXX")
    mkdir -p "$tree"/{dev,proc,sys,tmp,run,sh,etc,root,var,usr/{bin,sbin,lib}}
    ln -s usr/bin "$tree/bin"
    ln -s usr/sbin "$tree/sbin"
    ln -s usr/lib "$tree/lib"
    ln -s usr/lib "$tree/lib64"
    add_tools "$tree"
    add_modules "$tree" "$kernel"
    cp scripts/lab.d/init "$tree/init"
    chmod 755 "$tree/init"
    (cd "$tree" && find . | in_root cpio --quiet -o -H newc | in_root zstd -q -T0 -6) >"$out.new"
    rm -rf "$tree"
    mv "$out.new" "$out"
}

add_tools() {
    local tree=$1 tool library root=$LAB_CACHE/userland path
    cp "$root"/usr/bin/busybox "$tree/usr/bin/"
    for tool in "${TOOLS[@]}"; do
        path=$(find "$root"/usr/bin "$root"/usr/sbin -maxdepth 1 -name "$tool" -print -quit)
        cp -L "$path" "$tree/usr/bin/$tool"
        "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" --list "$path"
    done | awk '$2 == "=>" { print $3 }' | sort -u >"$tree/libraries"
    for library in libelf.so.1 libz.so.1 libgcc_s.so.1 libm.so.6 libzstd.so.1 libdl.so.2 libpthread.so.0 librt.so.1; do
        echo "$root/usr/lib/x86_64-linux-gnu/$library"
    done >>"$tree/libraries"
    while read -r library; do cp -L "$library" "$tree/usr/lib/"; done <"$tree/libraries"
    cp -L "$root/lib64/ld-linux-x86-64.so.2" "$tree/usr/lib/"
    for tool in modprobe insmod lsmod rmmod depmod modinfo; do ln -s /bin/kmod "$tree/usr/sbin/$tool"; done
    cp "$root/usr/lib/x86_64-linux-gnu/libstdbuf.so" "$tree/usr/lib/" 2>/dev/null ||
        cp "$(find "$root/usr" -name libstdbuf.so -print -quit)" "$tree/usr/lib/"
    rm "$tree/libraries"
}

# The modules with all that they need, unpacked: the guest's boot is shorter so.
add_modules() {
    local tree=$1 place=$LAB_CACHE/kernel-$2 version module file
    version=$(basename "$(echo "$place"/usr/lib/modules/* "$place"/lib/modules/* | tr ' ' '\n' | grep -v '\*' | sed -n 1p)")
    if [ ! -e "$place/lib" ]; then ln -s usr/lib "$place/lib"; fi
    if [ ! -e "$place/lib/modules/$version/modules.dep" ]; then in_root depmod -b "$place" "$version"; fi
    for module in "${MODULES[@]}"; do
        in_root modprobe -d "$place" -S "$version" --show-depends "$module" 2>/dev/null || true
    done | awk '$1 == "insmod" { print $2 }' | sort -u | while read -r file; do
        add_module "$tree" "$version" "$file"
    done
    cp "$place/lib/modules/$version"/modules.{order,builtin,builtin.modinfo} "$tree/usr/lib/modules/$version/"
    in_root depmod -b "$tree" "$version"
}

add_module() {
    local to
    to=$1/usr/lib/modules/$2/kernel/$(basename "$3")
    mkdir -p "$(dirname "$to")"
    case $3 in
        *.xz) in_root xz -dc "$3" >"${to%.xz}" ;;
        *.zst) in_root zstd -qdc "$3" >"${to%.zst}" ;;
        *) cp "$3" "$to" ;;
    esac
}
