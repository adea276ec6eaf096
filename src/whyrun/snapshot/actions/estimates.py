"""Runtime estimates of actions, for instances without a duration in the log. They are not part of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from whyrun.actions.inspection.messages import WithBlock, encode_value
from whyrun.graph.tables import Graph, JobTable
from whyrun.snapshot.actions.known_inputs import InputReader

if TYPE_CHECKING:
    from whyrun.actions.description import ActionInfo
    from whyrun.actions.inspection.inspector import Inspector

METHOD = "estimate_runtime"
PATIENCE = 10.0  # seconds: an estimate that takes longer is not worth waiting for
ASKED = 1000  # different `with:` blocks of one job; the other instances get the mean


class RuntimeEstimates(msgspec.Struct, eq=False):
    """Asks when it is called, once an instance; an action that cannot say has no estimate."""

    graph: Graph
    reader: InputReader
    infos: Mapping[str, ActionInfo]  # by job
    inspector: Inspector
    _known: dict[int, float | None] = msgspec.field(default_factory=dict)

    def __call__(self, nodes: Sequence[int]) -> dict[int, float]:
        """Seconds by node, for instances whose action gives an estimate."""
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
        blocks: dict[bytes, WithBlock] = {}
        of_position: dict[int, bytes] = {}
        for position in positions:
            known = self.reader.inputs(table, position)
            block = WithBlock(encode_value(known.given), missing=list(known.missing))
            key = of_position[position] = msgspec.json.encode(block)
            if len(blocks) < ASKED:
                blocks[key] = block
        answers = self.inspector.call(self.infos[table.name], METHOD, list(blocks.values()), timeout=PATIENCE)
        found = {key: answer.get("value") for key, answer in zip(blocks, answers, strict=True)}
        known_seconds = [seconds for seconds in found.values() if seconds is not None]
        mean = sum(known_seconds) / len(known_seconds) if known_seconds else None
        for position, key in of_position.items():
            self._known[table.base + position] = found.get(key, mean)
