"""Steps that are done, and whose sections wait for others, so that a shared file is not written anew for each."""

from __future__ import annotations

import time

from whyrun.execution.commands import StepFinished
from whyrun.execution.endings import Active
from whyrun.execution.publisher import Publisher
from whyrun.graph.graph import Graph

Finished = tuple[Active, StepFinished]


class HeldSteps:
    """A step is complete once its sections are in their files. Until a merge is due (`Publisher.next_merge`) it is held
    back, and others gather beside it; never for longer than the run has something else to do."""

    def __init__(self, graph: Graph, publisher: Publisher) -> None:
        self._publisher = publisher
        self._sharing = [any(output.append for output in table.outputs) for table in graph.tables]
        self._held: list[Finished] = []

    def __bool__(self) -> bool:
        return bool(self._held)

    def seconds_left(self) -> float:
        return max(0.0, self._publisher.next_merge - time.monotonic())

    def released(self, finished: list[Finished], *, at_once: bool) -> list[Finished]:
        """Those of the finished steps, and of the ones held, that are to be completed now."""
        if at_once or not self.seconds_left():
            ready, self._held = [*self._held, *finished], []
            return ready
        self._held += [one for one in finished if self._shares(one)]
        return [one for one in finished if not self._shares(one)]

    def _shares(self, finished: Finished) -> bool:
        return self._sharing[finished[0].table.number]
