"""Run tests in a fork of this process, where one function has other code, and say which of them failed."""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType

import pytest

KILLED, TIMED_OUT, SURVIVED, UNCOVERED = "killed", "timed out", "survived", "uncovered"
MEMORY = 6 << 30  # bytes of address space: a mutant that collects without end is ended


@dataclass(frozen=True)
class Verdict:
    how: str
    by: str | None = None  # the test that noticed


def live_functions(files: frozenset[str]) -> dict[tuple[str, str, int], list[FunctionType]]:
    """Every function of these files that anyone holds, decorated or not: (file, qualified name, first line)."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename in files:
            code = thing.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(thing)
    return found


def code_of(module: CodeType, qualname: str, first_line: int) -> CodeType | None:
    """The code of a function or method, found in the code of its module."""
    for constant in module.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == qualname and constant.co_firstlineno == first_line:
                return constant
            if qualname.startswith(constant.co_qualname + "."):
                found = code_of(constant, qualname, first_line)
                if found is not None:
                    return found
    return None


class FirstFailure:
    """A plugin that notices the first failure of a child's tests."""

    def __init__(self) -> None:
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed


def try_tests(
    items: Sequence[pytest.Item], seconds: Sequence[float], change: Callable[[], None], patience: float = 30.0
) -> Verdict:
    """Fork, change, run the items in order until one fails. `seconds`: what each takes when nothing is changed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _in_child(items, seconds, change, writing)
    os.close(writing)
    try:
        at, heard, deadline = -1, b"", time.monotonic() + patience + 60.0
        while True:
            ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return Verdict(TIMED_OUT, items[max(at, 0)].nodeid)
            piece = os.read(reading, 4096)
            if not piece:
                # It ended without a word: by its limit of CPU time, of memory, or by a crash.
                return Verdict(TIMED_OUT, items[max(at, 0)].nodeid)
            heard += piece
            *words, heard = heard.split(b"\n")
            for word in words:
                if word == b"failed":
                    return Verdict(KILLED, items[at].nodeid)
                if word == b"passed":
                    return Verdict(SURVIVED)
                at = int(word)
                deadline = time.monotonic() + patience + 60.0 + 40 * seconds[at]
    finally:
        os.close(reading)
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended before it made its group
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(child, 0)


def _in_child(items: Sequence[pytest.Item], seconds: Sequence[float], change: Callable[[], None], writing: int) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        manager = items[0].config.pluginmanager
        manager.unregister(name="terminalreporter")
        noticed = FirstFailure()
        manager.register(noticed)
        change()
        for at, item in enumerate(items):
            os.write(writing, b"%d\n" % at)
            signal.setitimer(signal.ITIMER_PROF, 5.0 + 10 * seconds[at])
            following = items[at + 1] if at + 1 < len(items) else None
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if noticed.failed:
                os.write(writing, b"failed\n")
                break
        else:
            os.write(writing, b"passed\n")
        status = 0
    except BaseException:  # whatever a mutant does to pytest itself has been noticed, too
        os.write(writing, b"failed\n")
    finally:
        os._exit(status)
