"""The shared store while steps run: what they made is given, and asked for is what nobody could know before."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from whyrun.artifacts.shared_result import SharedOrigin, SharedOutput, SharedResult
from whyrun.console.lines import count, listed
from whyrun.execution.commands import StepFinished
from whyrun.execution.endings import Active
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.graph import JobTable
from whyrun.planning.shared import is_shareable
from whyrun.snapshot.snapshot import PlanningSnapshot


@dataclass(slots=True)
class Traffic:
    """How many results went to the shared store, and came from it. Told at the end of a run; nothing is decided by it.

    What stood there already is none of them.
    """

    gave: int = 0
    took: int = 0
    not_given: int = 0
    has_use: bool = True  # whether any job of the workflow may be shared
    secret: tuple[str, ...] = ()  # jobs that would be, were they given no secret and no connection

    def told(self) -> str:
        given = f" (given a secret or a connection: {listed(list(self.secret))})" if self.secret else ""
        if not self.has_use:
            return f"not used, no job here may be shared{given}"
        left = f"; {self.not_given} not given" if self.not_given else ""
        never = f"; never shared{given}" if given else ""
        return f"gave {count(self.gave, 'result')}, took {self.took}{left}{never}"

    def to_json(self) -> dict[str, Any]:
        return {"gave": self.gave, "took": self.took, "not_given": self.not_given}


class Others(Protocol):
    """Who can ask the shared store, and give to it: `sharing.Sharing`."""

    @property
    def traffic(self) -> Traffic: ...

    def ask_later(self, fingerprint: str, step: str) -> bool: ...

    def answers(self) -> Mapping[str, SharedResult | None]: ...

    def offer(self, result: SharedResult) -> None: ...


class RunSharing:
    """Of one run. A step whose fingerprint was not known while planning may wait for the answer of the shared store:
    others go on meanwhile."""

    def __init__(self, others: Others, snapshot: PlanningSnapshot, run: str) -> None:
        self.others, self.snapshot, self.run = others, snapshot, run
        self._shareable: dict[int, bool] = {}  # by number of the job's table
        self._asked: set[int] = set()  # nodes
        self._waiting: set[int] = set()  # nodes
        self._waiting_for: dict[str, list[int]] = {}  # fingerprint → those of them that have it
        tables = snapshot.dependency_graph.tables
        others.traffic.has_use = any(self._may(table) for table in tables)
        others.traffic.secret = tuple(table.name for table in tables if self._is_secret(table))

    def _is_secret(self, table: JobTable) -> bool:
        action = self.snapshot.actions[table.name]
        return action.deterministic and not action.effectful and not self._may(table)

    def asks(self, node: int, table: JobTable, fingerprint: str) -> bool:
        """Whether to wait for an answer; it is asked once for each step."""
        if node in self._waiting:
            return True
        if node in self._asked or not self._may(table):
            return False
        self._asked.add(node)
        if not self.others.ask_later(fingerprint, self.snapshot.dependency_graph.job_id(node)):
            return False
        self._waiting.add(node)
        self._waiting_for.setdefault(fingerprint, []).append(node)
        return True

    def has_asked(self, node: int) -> bool:
        return node in self._asked

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def answered(self) -> list[int]:
        """The steps to look at again: what there is for them is in the snapshot now, its bytes in the store."""
        if not self._waiting:
            return []
        nodes: list[int] = []
        for fingerprint, result in self.others.answers().items():
            nodes += self._waiting_for.pop(fingerprint)
            if result is not None:
                self.snapshot.shared[fingerprint] = result
        self._waiting.difference_update(nodes)
        return nodes

    def took(self) -> None:
        """A step has ended with a result that somebody else made."""
        self.others.traffic.took += 1

    def give(self, active: Active, message: StepFinished) -> None:
        """A step has succeeded: others may have what it made."""
        table, position = self.snapshot.dependency_graph.table_at(active.node)
        if not self._may(table):
            return
        action = self.snapshot.actions[table.name]
        suffixes = {spec.key_at(position): recorded_suffix(table, a) for a, spec in enumerate(table.artifacts)}
        outputs = [
            SharedOutput(output.key, output.sha256, output.size, output.type, suffixes[output.key], value=output.value)
            for output in sorted(message.outputs, key=lambda output: output.key)
        ]
        workflow = self.snapshot.dependency_graph.workflow.name
        by = f"{_user()}@{platform.node()}"
        origin = SharedOrigin(workflow, message.step_id, self.run, by, message.ts, round(message.duration, 6))
        self.others.offer(
            SharedResult(
                1, active.fingerprint, action.name, action.sha256, tuple(outputs), origin, dict(action.versions)
            )
        )

    def _may(self, table: JobTable) -> bool:
        if table.number not in self._shareable:
            self._shareable[table.number] = is_shareable(self.snapshot, table)
        return self._shareable[table.number]


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return str(os.getuid())
