"""Ctrl-C, SIGTERM and a closed terminal during a run: they reach the runner, and nothing else is cut short by them.

From before the first event to after the last file of the evidence. Whatever comes before the runner works is kept for
it; what comes after it has ended changes nothing any more, so that an impatient user still gets complete evidence.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptible(Protocol):
    def interrupt(self) -> None: ...


class Interrupts:
    """`with Interrupts() as interrupts: … with interrupts.reaching(runner): runner.run()`."""

    def __init__(self) -> None:
        self._early = 0
        self._runner: Interruptible | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # elsewhere no handler can be set
            self._before = {number: signal.signal(number, self._arrived) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def reaching(self, runner: Interruptible) -> Iterator[None]:
        """The runner gets what has come already, and what comes until it has ended."""
        self._runner = runner
        for _ in range(self._early):
            runner.interrupt()
        try:
            yield
        finally:
            self._runner = None

    def _arrived(self, *_: object) -> None:
        if self._runner is not None:
            self._runner.interrupt()
        else:
            self._early += 1
