#!/bin/sh
# Run a program on the far side: in its network namespace, with /sys of that namespace and its host name.
exec nsenter --net=$HOME/far.net unshare --mount --uts sh -c \
    'mount -t sysfs sysfs /sys && echo beta >/proc/sys/kernel/hostname && exec "$@"' sh "$@"
