#!/bin/sh
# Become a program of the far side: in its network namespace, which /sys then shows, with its host name.
exec nsenter --net=$HOME/far.net unshare --mount --uts sh -c \
    'mount -t sysfs sysfs /sys && echo beta >/proc/sys/kernel/hostname && exec "$@"' sh "$@"
