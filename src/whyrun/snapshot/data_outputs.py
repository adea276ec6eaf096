"""What jobs declare against what the data actions write: one output, as CSV or Parquet. Told before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from whyrun.errors import Diagnostic
from whyrun.graph.graph import Graph
from whyrun.workflow.composition.diagnostics import CHECKING_ACTION
from whyrun.workflow.model import JobDecl

_WRITING = ("data/merge", "data/append", "data/aggregate", "data/sql")
_SUFFIXES = (".csv", ".tsv", ".parquet", "")


def output_problems(graph: Graph) -> list[Diagnostic]:
    actions = (*_WRITING, CHECKING_ACTION)
    decls = {id(table.decl): table.decl for table in graph.tables if table.decl.uses in actions}
    composition = graph.workflow.composition
    is_plan = composition is not None and composition.manifest is not None
    return list(dict.fromkeys(problem for decl in decls.values() for problem in _problems(decl, is_plan)))


def _problems(decl: JobDecl, is_plan: bool) -> Iterator[Diagnostic]:
    outputs = list(decl.outputs.values())
    what = "product" if is_plan else "output"
    if not outputs:
        yield decl.place.diagnostic(
            "OUTPUT_UNUSABLE", f"`{decl.uses}` fills one {what}, and `{decl.name}` declares none", f"declare the {what}"
        )
    for beyond in outputs[1:]:
        message = (
            f"`{decl.uses}` fills one {what}, and `{decl.name}` declares `{beyond.name}` beside `{outputs[0].name}`"
        )
        hint = "take it out, or make it in a step of its own"
        if is_plan:
            hint = f"{hint}; a file in `produces` that no product is called after is one too"
        yield beyond.place.diagnostic("OUTPUT_UNUSABLE", message, hint)
    if decl.uses not in _WRITING:
        return
    for output in outputs[:1]:
        # Of an expression it is known when the step starts: then `output.suffix` is empty.
        suffix = PurePosixPath(output.path).suffix if isinstance(output.path, str) else output.suffix
        if suffix.lower() not in _SUFFIXES:
            place = decl.places.get(f"outputs.{output.name}.path", output.place)
            message = f"`{decl.uses}` writes `.csv`, `.tsv` or `.parquet`, and `{output.name}` ends in `{suffix}`"
            yield place.diagnostic("OUTPUT_UNUSABLE", message, "change the name of its file")
