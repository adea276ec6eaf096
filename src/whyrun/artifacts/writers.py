"""Whether somebody can still write into a file without anybody seeing it in its times.

A write by `write` moves the times of a file. One through a mapping (`mmap`, `np.memmap`) does so at most when it first
touches a page; what follows, until that page is on the disk, moves nothing. So the times of a file that is open for
writing say nothing about its content.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal


def is_open_for_writing(path: str | os.PathLike[str], *, unknown: bool) -> bool:
    """Whether any process has it open, or mapped, for writing. `unknown`: the answer where the system gives none (files
    of other users, file systems without leases)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Who opens it while we hold the lease makes the system tell us so: by SIGIO, unless we name another, and that
        # would end this process. This one is ignored where nobody listens.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as refused:
        return refused.errno == errno.EAGAIN or unknown
    finally:
        os.close(descriptor)
    return False
