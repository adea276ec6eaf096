"""A step in Python asks its worker to attach strace, once there is something that the audit hook cannot see.

That is a program that it starts, or a library that opens files from C. A step that stays in Python is not slowed down.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress

PATIENCE = 5.0  # seconds
_PR_SET_PTRACER, _ANY = 0x59616D61, 2**64 - 1

# Extension modules that open files from C, unseen by the audit hook, may be any but these.
_OPEN_IN_PYTHON = frozenset({
    "numpy", "pandas", "scipy", "sklearn", "PIL", "matplotlib", "yaml", "msgspec", "markupsafe", "charset_normalizer",
    "_cffi_backend", "cryptography", "psutil", "whyrun",
})  # fmt: skip

# Modules of Python that start programs without an audit event: children of `multiprocessing` that are no forks.
STARTERS = frozenset({
    "multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver",
    "loky.backend.popen_loky_posix", "joblib.externals.loky.backend.popen_loky_posix",
})  # fmt: skip


class TraceRequest:
    def __init__(self) -> None:
        self._asked, self._ask = os.pipe()
        self._answer, self._answered = os.pipe()
        self._pids: set[int] = set()

    def ask(self) -> None:
        """In the process of the step, or a fork of it: continue when it is traced."""
        pid = os.getpid()
        if pid in self._pids:
            return
        self._pids.add(pid)
        with suppress(OSError):
            _allow_tracing()
            os.write(self._ask, b"%d\n" % pid)
            poll = select.poll()
            poll.register(self._answer, select.POLLIN)
            if poll.poll(2 * PATIENCE * 1000):
                os.read(self._answer, 1)

    def pumps(self, attach: Callable[[int], None]) -> dict[int, Callable[[], None]]:
        """In the worker: what to do when the step asks."""

        def asked() -> None:
            for pid in os.read(self._asked, 4096).split():
                attach(int(pid))
                os.write(self._answered, b".")

        return {self._asked: asked}

    def close(self) -> None:
        for descriptor in (self._asked, self._ask, self._answer, self._answered):
            os.close(descriptor)


def python_needs(module_file: str) -> bool:
    """Whether this extension module may open files that the audit hook does not see."""
    if not module_file.endswith(".so") or "/lib-dynload/" in module_file:
        return False
    folder, _, inside = module_file.rpartition("-packages/")
    return (inside.partition("/")[0].partition(".")[0] if folder else "") not in _OPEN_IN_PYTHON


def any_loaded_needs() -> bool:
    if not STARTERS.isdisjoint(sys.modules):
        return True
    files = (getattr(module, "__file__", None) for module in [*sys.modules.values()])
    return any(python_needs(file) for file in files if file)


def _allow_tracing() -> None:
    """Some systems (Yama) allow only parents to attach. The tracer is a child of the worker, as this process is."""
    import ctypes  # only for steps that are traced

    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(_ANY), 0, 0, 0)
