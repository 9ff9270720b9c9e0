# shellcheck shell=bash
# The cache folder is filled here: each thing in it is whole, or is not there. Sourced.

# prepare KERNEL: what a pair with this kernel needs is in the cache. One process at a time fills it.
prepare() {
    if ! { mkdir -p "$LAB_CACHE" && : >>"$LAB_CACHE/lock"; }; then
        die "scripts/lab: the cache folder $LAB_CACHE cannot be written; AM_LAB_CACHE names another"
    fi
    exec 9>>"$LAB_CACHE/lock"
    if ! flock -n 9; then
        say "Another process fills $LAB_CACHE; this one waits for it." >&2
        flock 9
    fi
    fill "$1"
    exec 9>&-
}

fill() {
    local kernel=$1
    if ! has_userland; then fill_with 'QEMU and userland' fetch_userland; fi
    if ! has_kernel "$kernel"; then fill_with "kernel $kernel" fetch_kernel "$kernel"; fi
    if ! has_initramfs "$kernel"; then fill_with "initramfs $kernel" initramfs "$kernel"; fi
}

# It starts, so its libraries are there.
has_userland() { in_root qemu-system-x86_64 --version >/dev/null 2>&1; }

has_kernel() { [ -s "$LAB_CACHE/kernel-$1/vmlinuz" ] && [ -n "$(find "$LAB_CACHE/kernel-$1" -name '*.ko*' -print -quit)" ]; }

# It can be unpacked, and is newer than all that it is made of.
has_initramfs() {
    local image=$LAB_CACHE/initramfs-$1.zst part
    if [ ! -s "$image" ] || ! in_root zstd -tq "$image" 2>/dev/null; then return 1; fi
    for part in scripts/lab.d/init{,ramfs.sh} "$LAB_CACHE/userland" "$LAB_CACHE/kernel-$1"; do
        if [ "$part" -nt "$image" ]; then return 1; fi
    done
}

# fill_with LABEL FUNCTION...: in a shell of its own, since `set -e` does nothing in a function whose status is looked at. What is left of a
# failure is removed: it may be what fills the disk.
fill_with() {
    if step "$1" bash -euo pipefail -c '. scripts/common.sh; . scripts/lab.d/packages.sh; . scripts/lab.d/initramfs.sh; "$@"' - "${@:2}"; then return; fi
    local reason
    reason=$(why_not "$step_log")
    rm -rf "$LAB_CACHE"/{*.new,tree.*,debs-*,apt}
    die "scripts/lab: $1: $reason
All of it: $step_log"
}

# why_not LOG: what a step that fills the cache failed of.
why_not() {
    local said
    if grep -qsE 'No space left|enough free space' "$1"; then
        say "the disk is full: $(df -BM --output=avail "$LAB_CACHE" | tail -n 1 | tr -d ' ')B are free for $LAB_CACHE, which takes 1.5 GB (AM_LAB_CACHE names another place)"
    elif said=$(grep -hsE -m 1 'Could not (resolve|connect)|Temporary failure|Network is unreachable|Failed to fetch|Unable to (fetch|connect)' "$1"); then
        say "the packages cannot be fetched; is there network? apt says: ${said##  }"
    else
        tail -n 5 "$1"
    fi
}
