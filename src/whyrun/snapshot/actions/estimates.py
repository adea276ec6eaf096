"""What actions say of their own runtime, where the log has no duration yet. No part of any plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from whyrun.actions.questions import Block, as_json
from whyrun.graph.graph import Graph, JobTable
from whyrun.snapshot.known_inputs import InputReader

if TYPE_CHECKING:
    from whyrun.actions.asking import Asker
    from whyrun.actions.registry import ActionInfo

METHOD = "estimate_runtime"
PATIENCE = 10.0  # seconds: an estimate that takes longer is not worth waiting for
ASKED = 1000  # different blocks of one job; the other instances get the mean


@dataclass(eq=False)
class RuntimeEstimates:
    """Asks when it is called, once an instance; an action that cannot say has no estimate."""

    graph: Graph
    reader: InputReader
    infos: Mapping[str, ActionInfo]  # by job
    asker: Asker
    _known: dict[int, float | None] = field(default_factory=dict)

    def __call__(self, nodes: Sequence[int]) -> dict[int, float]:
        """Seconds by node, for those whose action says something."""
        graph = self.graph
        asked: dict[int, list[int]] = {}
        for node in nodes:
            table, position = graph.table_at(node)
            info = self.infos.get(table.name)
            if node not in self._known and info is not None and info.origin != "builtin" and METHOD in info.hooks:
                asked.setdefault(table.number, []).append(position)
        for number, positions in asked.items():
            self._ask(graph.tables[number], positions)
        return {node: seconds for node in nodes if (seconds := self._known.get(node)) is not None}

    def _ask(self, table: JobTable, positions: Sequence[int]) -> None:
        blocks: dict[bytes, Block] = {}
        of_position: dict[int, bytes] = {}
        for position in positions:
            known = self.reader.inputs(table, position)
            block = Block(as_json(known.given), missing=list(known.missing))
            key = of_position[position] = msgspec.json.encode(block)
            if len(blocks) < ASKED:
                blocks[key] = block
        answers = self.asker.call(self.infos[table.name], METHOD, list(blocks.values()), timeout=PATIENCE)
        found = {key: answer.get("value") for key, answer in zip(blocks, answers, strict=True)}
        known_seconds = [seconds for seconds in found.values() if seconds is not None]
        mean = sum(known_seconds) / len(known_seconds) if known_seconds else None
        for position, key in of_position.items():
            self._known[table.base + position] = found.get(key, mean)
