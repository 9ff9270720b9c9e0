# shellcheck shell=bash
# Debian's packages for scripts/lab: QEMU, the guests' userland, their kernels. Sourced.
#
# They are unpacked into a cache folder. Nothing is installed, and the system's own package sources, lists and
# cache stay as they are: apt gets a sources list, a folder for lists and a package status of its own.

readonly LAB_CACHE="${AM_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/am-lab}"

# QEMU and the userland come from one release whole, C library included, so that they run on any host.
readonly USERLAND_SUITE=trixie
readonly USERLAND=(qemu-system-x86 busybox-static bash kmod iproute2 ethtool iputils-ping util-linux coreutils
    grep sed procps strace tcpdump iperf3 libelf1t64 zlib1g zstd cpio xz-utils)

readonly KERNELS=(5.10 6.1 6.12 7.3)

# The release whose linux-image-amd64 this kernel is.
suite_of() {
    case $1 in
        5.10) echo bullseye ;;
        6.1) echo bookworm ;;
        6.12) echo trixie ;;
        7.3) echo trixie-backports ;;
        *) die "there is no kernel $1; there are ${KERNELS[*]}" ;;
    esac
}

# The mirror that the system itself uses: the source of its own release. Before the first `apt-get update` nothing
# but the address says whose a source is: of several the one that ends as Debian's mirrors do.
mirror() {
    local codename uri
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    uri=$(apt-get indextargets --no-release-info --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v release="$codename" '
            $2 != release || $3 != "main" { next }
            first == "" || (first !~ /\/debian\/?$/ && $1 ~ /\/debian\/?$/) { first = $1 }
            END { print first }')
    if [ -z "$uri" ]; then die "scripts/lab: apt's sources name no mirror of Debian $codename; the lab's packages come from there"; fi
    echo "$uri"
}

# apt with files of its own, over one release. As unpack it ends the shell where it fails, which holds where `set -e` does not.
private_apt() {
    local suite=${1:?} tool=$2 key=/usr/share/keyrings/debian-archive-keyring.gpg
    local apt=$LAB_CACHE/apt/$suite signed='' from
    from=$(mirror) || exit
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" || exit
    if [ -e "$key" ]; then signed="[signed-by=$key] "; fi
    echo "deb $signed$from $suite main" >"$apt/sources.list" || exit
    : >"$apt/status"
    "$tool" -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "Dir::State::status=$apt/status" \
        -o APT::Install-Recommends=0 -o APT::Sandbox::User=root -o Acquire::Languages=none \
        -o Acquire::Retries=3 -o APT::Update::Error-Mode=any -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=0 "${@:3}" ||
        die "$tool ${*:3} failed"
}

# Fetch QEMU and the userland with all that they depend on, and unpack them into $LAB_CACHE/userland.
fetch_userland() {
    local root=$LAB_CACHE/userland package
    private_apt "$USERLAND_SUITE" apt-get update
    private_apt "$USERLAND_SUITE" apt-get install --yes --download-only "${USERLAND[@]}"
    rm -rf "$root.new"
    mkdir -p "$root.new"/usr/{bin,sbin,lib,lib64}
    for package in bin sbin lib lib64; do ln -s "usr/$package" "$root.new/$package"; done
    for package in "$LAB_CACHE/apt/$USERLAND_SUITE/cache/archives"/*.deb; do unpack "$package" "$root.new"; done
    rm -rf "$LAB_CACHE/apt/$USERLAND_SUITE" "$root.new/usr/share"/{doc,man,locale} "$root"
    touch "$root.new"
    mv "$root.new" "$root"
}

# Older packages bring their own /bin and /lib: tar follows the links that stand there.
unpack() { dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink --no-same-owner -C "$2" || die "$1 cannot be unpacked"; }

# download SUITE OPTIONS PLACE PACKAGE...: unpacked into PLACE, a new folder, and not installed. Options are apt-get's.
download() {
    local suite=$1 options=$2 place=$3 package
    rm -rf "$place" "$place.debs"
    mkdir -p "$place" "$place.debs"
    # shellcheck disable=SC2086 # one word each
    (cd "$place.debs" && private_apt "$suite" apt-get $options download "${@:4}") || exit
    for package in "$place.debs"/*.deb; do unpack "$package" "$place"; done
    rm -rf "$place.debs" "$LAB_CACHE/apt/${suite:?}"
}

# Fetch a kernel and its modules into $LAB_CACHE/kernel-VERSION.
fetch_kernel() {
    local kernel=$1 suite packages image
    local place=$LAB_CACHE/kernel-$kernel
    suite=$(suite_of "$kernel")
    private_apt "$suite" apt-get update
    packages=$(private_apt "$suite" apt-cache depends --recurse --important linux-image-amd64 |
        grep -xE 'linux-(image|modules|binary|base)-[0-9].*' | sort -u)
    # shellcheck disable=SC2086 # one word each
    download "$suite" '' "$place.new" $packages
    # In /boot, or of late beside the modules.
    image=$(find "$place.new" -name 'vmlinuz*' -type f -size +0 -print -quit)
    if [ -z "$image" ]; then die "the packages of kernel $kernel have no vmlinuz"; fi
    mv "$image" "$place.new/vmlinuz"
    rm -rf "$place"
    mv "$place.new" "$place"
}

# Run a program of the unpacked userland on this host, with its own C library.
in_root() {
    local root=$LAB_CACHE/userland program
    program=$(find "$root"/usr/bin "$root"/usr/sbin -maxdepth 1 -name "$1" -print -quit)
    "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$program" "${@:2}"
}
