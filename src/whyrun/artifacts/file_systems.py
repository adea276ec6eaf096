"""Which file systems are this kernel's alone: it hears of all that is written there, and gives the times."""

from __future__ import annotations

import os
import struct

_LOCAL = {  # as `statfs` numbers them: those that nobody writes to but through this kernel
    0xEF53: "ext2, ext3, ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x01021994: "tmpfs",
    0x858458F6: "ramfs",
    0xF2F52010: "f2fs",
    0x2FC12FC1: "zfs",
    0xCA451A4E: "bcachefs",
    0x794C7630: "overlay",  # the kernel forbids to write to its layers while it is mounted
}
_STATFS_SIZE = 512  # more than it has on any machine


def is_local(folder: str) -> bool:
    """Whether the kernel hears of all that is written there. What is not known counts as not."""
    import ctypes  # not before it is needed: a plan with nothing to do is over in less time than twenty imports take

    found = ctypes.create_string_buffer(_STATFS_SIZE)
    try:
        failed = ctypes.CDLL(None).statfs(os.fsencode(folder), found)
    except AttributeError:  # not a system that has it
        return False
    (kind,) = struct.unpack_from("l", found.raw)
    return failed == 0 and kind & 0xFFFFFFFF in _LOCAL
