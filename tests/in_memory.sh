#!/bin/sh
# in_memory.sh COMMAND…: runs a command whose TMPDIR is a file system in memory.
#
# The suite makes and removes a million small files. On ext4 that takes a third of its time. The mount is seen only by
# this command and the processes that it starts, and it is gone with them. Where mounting is not allowed (not root, or
# in a container), or where there is little memory, the command runs with the usual TMPDIR.
set -eu
memory=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo 2>/dev/null || echo 0)
if [ "$memory" -ge 6 ] && unshare --mount mount -t tmpfs tmpfs /mnt 2>/dev/null; then
    folder=$(mktemp -d /tmp/w.XXXXXX)
    trap 'rmdir "$folder"' EXIT
    TMPDIR="$folder" unshare --mount sh -c 'mount -t tmpfs -o mode=1777 tmpfs "$TMPDIR" && exec "$@"' - "$@"
else
    exec "$@"
fi
