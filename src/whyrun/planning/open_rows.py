"""Loops over results in plans: which of their rows exist. Pure.

The graph has the rows that the log knows and the row `[?]`, which stands for all of them. The judge decides which count
(`Judge.of_loop`): as long as the result is the recorded one, the rows; else `[?]`. The others are void.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from whyrun.graph.tables import Graph, JobTable, tables_read

if TYPE_CHECKING:
    from whyrun.planning.judge import Verdict


def void_rows(graph: Graph, verdicts: Mapping[int, Verdict]) -> frozenset[int]:
    """The rows that do not exist. A row `[?]` that nobody had to judge is of a loop that is known."""
    opens = {table.base + row for table in graph.tables for row in table.open_rows}
    return frozenset(opens - verdicts.keys() | {node for node, v in verdicts.items() if v.state == "void"})


def refuse_void(graph: Graph, option: str, texts: Sequence[str], void: frozenset[int]) -> None:
    """Refuse IDs and patterns that match only rows which do not exist."""
    from whyrun.planning.id_matching import match_nodes, unknown_id  # imported late: most plans have no such options

    for text in texts:
        if not text.startswith("layer:") and void.issuperset(match_nodes(graph, text, option)):
            known = [graph.job_id(node) for node in range(graph.size) if node not in void]
            raise unknown_id(text, known, option=option)


def open_neighbours(graph: Graph, table: JobTable) -> Iterator[int]:
    """The rows `[?]` of jobs whose other instances an instance may read: `[x-1]`, which is no edge of `[?]`."""
    for number in {number for _, column in table.operand_columns() for number in tables_read(column)}:
        other = graph.tables[number]
        yield from (other.base + row for row in other.open_rows)
