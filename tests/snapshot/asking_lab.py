"""Somebody to ask in the place of the process that runs the actions' code, and graphs without files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whyrun.actions.questions import Block
from whyrun.actions.registry import ActionInfo
from whyrun.graph.expand import expand
from whyrun.graph.graph import Graph
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.parse import parse_workflow


def expanded(workflow: str, inputs: Mapping[str, InputValue] | None = None) -> Graph:
    return expand(parse_workflow("workflow.yaml", lambda _: workflow), inputs or {})


class Answering:
    """By method: what is said of a block. A ValueError is an action that fails."""

    def __init__(self, **by_method: Callable[[Block], Any]) -> None:
        self.by_method = by_method
        self.asked: list[tuple[str, bool, list[Block]]] = []
        self.timeouts: list[float | None] = []

    def call(
        self,
        info: ActionInfo,
        method: str,
        blocks: Sequence[Block],
        *,
        timeout: float | None = None,
        keep: bool = False,
    ) -> list[dict[str, Any]]:
        self.asked.append((method, keep, list(blocks)))
        self.timeouts.append(timeout)
        return [self.answer(method, block) for block in blocks]

    def answer(self, method: str, block: Block) -> dict[str, Any]:
        try:
            return {"value": self.by_method[method](block)}
        except ValueError as problem:
            return {"error": str(problem)}
