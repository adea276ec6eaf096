"""What waits at this side of a place: taken out of its queue again, by name."""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from typing import Protocol, TypeVar

from whyrun.execution.commands import ExecStep


class Waiting(Protocol):
    @property
    def command(self) -> ExecStep: ...


W = TypeVar("W", bound=Waiting)


def unqueued(queue: deque[W], steps: Set[str]) -> list[ExecStep]:
    taken = [job.command for job in queue if job.command.step_id in steps]
    left = [job for job in queue if job.command.step_id not in steps]
    queue.clear()
    queue.extend(left)
    return taken
