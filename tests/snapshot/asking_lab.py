"""Somebody to ask in the place of the process that runs the actions' code, and graphs without files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whyrun.actions.description import ActionInfo
from whyrun.actions.inspection.messages import WithBlock
from whyrun.graph.expand import expand
from whyrun.graph.tables import Graph
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.parsing.parse import parse_workflow


def expanded(workflow: str, inputs: Mapping[str, InputValue] | None = None) -> Graph:
    return expand(parse_workflow("workflow.yaml", lambda _: workflow), inputs or {})


class Answering:
    """By method: what is said of a block. A ValueError is an action that fails."""

    def __init__(self, **by_method: Callable[[WithBlock], Any]) -> None:
        self.by_method = by_method
        self.asked: list[tuple[str, bool, list[WithBlock]]] = []
        self.timeouts: list[float | None] = []

    def call(
        self,
        info: ActionInfo,
        method: str,
        blocks: Sequence[WithBlock],
        *,
        timeout: float | None = None,
        keep: bool = False,
    ) -> list[dict[str, Any]]:
        self.asked.append((method, keep, list(blocks)))
        self.timeouts.append(timeout)
        return [self.answer(method, block) for block in blocks]

    def answer(self, method: str, block: WithBlock) -> dict[str, Any]:
        try:
            return {"value": self.by_method[method](block)}
        except ValueError as problem:
            return {"error": str(problem)}
