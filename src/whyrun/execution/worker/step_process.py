"""The process of one step: what its worker imports before it forks the process, the fork, and the end.

If the process dies, nothing else dies with it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from whyrun import disk
from whyrun.actions.code.source_loader import take_recorded_reads
from whyrun.artifacts.durable import write_all
from whyrun.errors import WhyrunError
from whyrun.execution.protocol.messages import ExecStep, StepCfg
from whyrun.execution.worker.command_source import NO_PUMPS
from whyrun.execution.worker.context import HostLink
from whyrun.execution.worker.processes import become_worker, fork, freeze, opened_pidfd

if TYPE_CHECKING:
    from whyrun.actions.code.import_facts import Import

_STOP = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class OpenedStep:
    """A command with its cfg. `problem`: why it has none; the step fails with it."""

    command: ExecStep
    secrets: dict[str, str]
    cfg: StepCfg | None
    problem: BaseException | None = None

    @property
    def has_own_environment(self) -> bool:
        """No other step may run in a process that has had this environment, or these secrets."""
        cfg = self.cfg
        return cfg is None or bool(cfg.env or cfg.secrets or self.secrets or cfg.environment)

    @property
    def is_a_program(self) -> bool:
        """The step is a program of its own, in which nothing of another step can be left."""
        return self.cfg is not None and self.cfg.action == "shell" and not self.cfg.merged


class StepDied(Exception):
    """The process of the step ended before it gave its result."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status  # as `subprocess` has it: negative for a signal


def run_in_own_process(
    link: HostLink, work: Callable[[], bytes], pumps: Mapping[int, Callable[[], object]] = NO_PUMPS
) -> bytes:
    """Calls `work` in a fork and returns its result. Raises `StepDied`. `pumps`: see `Control.wait_for`."""
    # Not a pipe: a process that the step leaves running would hold it open, and the worker would wait for it.
    result = disk.memory_file("whyrun-result")
    relay, relay_end = os.pipe()
    # Block signals: the child would lose an order to stop that arrives before it can handle it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    child = fork()
    if child == 0:
        status = 1
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(relay_end)
            become_worker()
            link.after_fork()
            link.cancellation.runs_step()
            link.acknowledgements.read_from(relay)
            seed()
            write_all(result, work())
            status = 0
        finally:
            os._exit(status)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(relay)
    if link.cancellation.requested:
        os.kill(child, signal.SIGTERM)  # the signal arrived before the child existed
    with opened_pidfd(child) as ended:
        link.control.wait_for(ended, relay=relay_end, pumps=pumps, each_second=partial(link.cancellation.remind, child))
    _, wait_status = os.waitpid(child, 0)
    os.close(relay_end)
    with os.fdopen(result, "rb") as file:
        file.seek(0)
        data = file.read()
    status = os.waitstatus_to_exitcode(wait_status)
    if status != 0 or not data:
        raise StepDied(status)
    return data


def seed() -> None:
    """Python's `random` seeds itself after a fork, NumPy does not."""
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _has_threads() -> bool:
    """Threads of Python: a fork would have none of them."""
    threading: Any = sys.modules.get("threading")
    return threading is not None and threading.active_count() > 1


# --- libraries ---------------------------------------------------------------------------------------------------


class Libraries:
    """Imports installed libraries before the fork: an import of pandas or PyTorch takes seconds, a fork milliseconds.

    Some cannot be imported before a fork: `import_late` of `whyrun.toml` names them. This class notices those that
    start threads of Python, import modules of the project, or print on import, which each step shall do itself.
    """

    def __init__(self, project: str, has_printed: Callable[[], bool]) -> None:
        self._project, self._has_printed = project, has_printed
        self._imported: set[Import] = set()
        self._late: frozenset[str] | None = None
        self.not_ahead: set[str] = set()  # found to be unfit; `top.module` or `module`

    def to_import(self, named: Sequence[Import]) -> list[Import]:
        """Those of the named libraries that are imported before the fork."""
        if not named:
            return []
        if self._late is None:
            from whyrun.project_config import read_project_config  # only for steps that name libraries

            self._late = frozenset()
            with suppress(WhyrunError):  # the host has reported it
                self._late = frozenset(read_project_config(self._project).import_late)
        late = {*self._late, *self.not_ahead, *self._import_standard(named)}
        return [one for one in named if one.module[0] not in late]

    def _import_standard(self, named: Sequence[Import]) -> frozenset[str]:
        """In any process of the worker: these need none of their own. Returns all such modules."""
        from whyrun.actions.code.libraries import STANDARD

        for one in named:
            if one.module[0] in STANDARD and one.module[0] not in sys.modules:
                __import__(one.module[0])
                freeze()
        return STANDARD

    def import_ahead(self, named: Iterable[Import]) -> str:
        """Import these. Returns the name of one that must not be imported here; empty if all are fit."""
        new = [one for one in named if one not in self._imported]
        for one in new:
            self._imported.add(one)
            with suppress(Exception, SystemExit):  # the step itself gets the error
                __import__(".".join(one.module), fromlist=one.names)
            if _has_threads() or take_recorded_reads(self._project) or self._has_printed():
                return one.module[0]
        if new:
            freeze()
        return ""
