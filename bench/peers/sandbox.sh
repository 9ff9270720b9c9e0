# Process 1 of a sandbox that am-bench makes with unshare(1), with its own processes, mounts, System V memory and host name. When
# this process ends, the kernel kills all others of the sandbox, daemons too, and removes the mounts.
#
#   sh -c THIS sandbox JOB FAR LIBRARY [NAME TEXT]...   write these files, copy the library, if there is one, and run `sh JOB`; FAR is
#                                                       the far side's network namespace
set -e
trap 'exit 143' TERM
exec 3<&0 </dev/null
# Only am-bench has the other end of this pipe, so it closes when am-bench ends, in whatever way.
{ cat <&3; kill -TERM 1; } >/dev/null 2>&1 &
exec 3<&-
job=$1 far=$2
# Before /tmp is replaced.
exec 3<"${3:-/dev/null}"
shift 3

# A program that writes without end fills only this.
mount -t tmpfs -o mode=1777,size=1g tmpfs /tmp
mount -t tmpfs -o mode=1777,size=1g tmpfs /dev/shm
cd /tmp
cat <&3 >library.so
exec 3<&-
if [ -n "$far" ]; then
    # Before /proc is replaced, which still shows the processes outside.
    : >far.net
    mount -c --bind "$far" far.net
    # Some programs look for interfaces in /sys, which shows those of the namespace where it was mounted.
    mount -t sysfs sysfs /sys
fi
mount -t proc proc /proc
echo alpha >/proc/sys/kernel/hostname
printf '127.0.0.1 localhost\n10.77.0.1 alpha\n10.77.0.2 beta\n' >hosts
mount --bind hosts /etc/hosts
while [ $# -gt 0 ]; do
    printf '%s\n' "$2" >"$1"
    chmod +x "$1"
    shift 2
done
export HOME=/tmp TMPDIR=/tmp
sh $job &
wait $!
