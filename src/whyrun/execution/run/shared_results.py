"""The shared store during a run: give results of this run to others, and ask for results whose fingerprints only the
run could compute."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from typing import TYPE_CHECKING

from whyrun.artifacts.shared.result import SharedOrigin, SharedOutput, SharedResult
from whyrun.execution.dispatch.dispatch import ActiveStep, PreparedStep
from whyrun.execution.dispatch.reusable_results import ReusableResults
from whyrun.execution.protocol.messages import StepFinished
from whyrun.execution.recording.recorded import recorded_artifacts
from whyrun.graph.tables import JobTable
from whyrun.planning.judge import has_secrets, is_shareable
from whyrun.snapshot.snapshot import PlanningSnapshot

if TYPE_CHECKING:
    from whyrun.execution.sharing.sharing import Sharing


class RunSharing:
    """The shared store as one run uses it. A step whose fingerprint was unknown while planning waits for the answer of
    the shared store; other steps go on."""

    def __init__(self, sharing: Sharing, snapshot: PlanningSnapshot, run: str) -> None:
        self._sharing, self._snapshot, self._run = sharing, snapshot, run
        self._shareable: dict[int, bool] = {}  # by number of the job's table
        self._asked: set[int] = set()  # nodes
        self._waiting: set[int] = set()  # nodes
        self._waiting_for: dict[str, list[int]] = {}  # fingerprint → nodes that wait for it
        tables = snapshot.dependency_graph.tables
        sharing.counts.used = any(self._is_shareable(table) for table in tables)
        sharing.counts.secret = tuple(table.name for table in tables if self._is_secret(table))

    def look_at(self, snapshot: PlanningSnapshot, moved: Callable[[int], int]) -> None:
        """More instances are known from now on, and nodes have other numbers."""
        self._snapshot = snapshot
        self._asked, self._waiting = set(map(moved, self._asked)), set(map(moved, self._waiting))
        self._waiting_for = {print_: list(map(moved, nodes)) for print_, nodes in self._waiting_for.items()}

    def _is_secret(self, table: JobTable) -> bool:
        """Whether the job is not shared only because it has a secret or a connection."""
        action = self._snapshot.actions[table.name]
        return (
            self._snapshot.reuse_scope(table) == "anywhere"
            and not action.effectful
            and has_secrets(self._snapshot, table)
        )

    def asks(self, step: PreparedStep) -> bool:
        """Ask for the result of a step, once; True if the step has to wait for the answer."""
        if step.node in self._asked or not self._is_shareable(step.table):
            return False
        self._asked.add(step.node)
        if not self._sharing.ask_later(step.fingerprint, step.id):
            return False
        self._waiting.add(step.node)
        self._waiting_for.setdefault(step.fingerprint, []).append(step.node)
        return True

    def has_asked(self, node: int) -> bool:
        return node in self._asked

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def receive(self, reusable: ReusableResults) -> list[int]:
        """Add the results that have arrived; their bytes are in the store. Returns the steps to examine again."""
        if not self._waiting:
            return []
        nodes: list[int] = []
        for fingerprint, result in self._sharing.answers().items():
            nodes += self._waiting_for.pop(fingerprint)
            if result is not None:
                reusable.add_shared(result)
        self._waiting.difference_update(nodes)
        return nodes

    def count_taken(self) -> None:
        """A step has ended with a result of the shared store."""
        self._sharing.counts.took += 1

    def give(self, active: ActiveStep, message: StepFinished) -> None:
        """Offer the result of a successful step to the shared store. Not if it read something undeclared: no
        fingerprint has that, and other users may have other files there."""
        table, position = active.table, active.position
        if not self._is_shareable(table) or active.observed.observed:
            return
        action = self._snapshot.actions[table.name]
        recorded = recorded_artifacts(table, position, {output.key: output for output in message.outputs})
        suffixes = {key: each.suffix for key, each in recorded.items()}
        outputs = [
            SharedOutput(output.key, output.sha256, output.size, output.type, suffixes[output.key], value=output.value)
            for output in sorted(message.outputs, key=lambda output: output.key)
        ]
        workflow = self._snapshot.dependency_graph.workflow.name
        by = f"{_user()}@{platform.node()}"
        origin = SharedOrigin(workflow, message.step_id, self._run, by, message.ts, round(message.duration, 6))
        fingerprint = active.step.fingerprint
        self._sharing.offer(
            SharedResult(1, fingerprint, action.name, action.sha256, tuple(outputs), origin, dict(action.versions))
        )

    def _is_shareable(self, table: JobTable) -> bool:
        if table.number not in self._shareable:
            self._shareable[table.number] = is_shareable(self._snapshot, table)
        return self._shareable[table.number]


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return str(os.getuid())
