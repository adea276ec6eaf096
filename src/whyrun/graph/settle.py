"""After all columns are there: `first(…)` cut to what can be needed, and published paths checked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whyrun.errors import Diagnostic
from whyrun.graph.graph import (
    AlignedArtifact,
    ArtifactAt,
    Computed,
    Condition,
    EachTerm,
    FirstOf,
    Graph,
    InputAt,
    Known,
    SameTerm,
    Slot,
)
from whyrun.graph.paths import folders_of, surely_apart
from whyrun.ids import split_site
from whyrun.workflow.inputs import InputValue


def settle_first(graph: Graph) -> None:
    """Cut each `first(…)` after its first candidate that is surely active; one that is left alone is a plain source."""
    maybe = _may_be_inactive(graph)

    def sure(source: Any) -> bool:
        return isinstance(source, InputAt) or not maybe[source.table]

    def settle(term: Any) -> Any:
        if isinstance(term, FirstOf):
            kept = []
            for candidate in term.candidates:
                kept.append(candidate)
                if sure(candidate):
                    break
            return kept[0] if len(kept) == 1 else FirstOf(tuple(kept))
        if isinstance(term, Computed):
            return term._replace(operands=tuple(settle(o) for o in term.operands))
        return term

    def settle_column(column: Any) -> Any:
        if isinstance(column, SameTerm):
            return SameTerm(settle(column.term))
        if isinstance(column, EachTerm) and column.kinds & {FirstOf, Computed}:
            return EachTerm([settle(t) for t in column.terms])
        return column

    for table in graph.tables:
        table.slots = tuple(
            Slot(s.name, s.binding, s.path, s.area, settle_column(s.column), s.place) for s in table.slots
        )
        if table.condition is not None:
            table.condition = Condition(table.condition.expression, settle_column(table.condition.operands))


def _may_be_inactive(graph: Graph) -> list[bool]:
    """By job: can an instance of it be inactive? A condition, or something required that can be; to the fixed point."""
    maybe = [table.condition is not None for table in graph.tables]

    def doubtful(term: Any, *, optional: bool = False) -> bool:
        if isinstance(term, ArtifactAt):
            return not optional and maybe[term.table]
        if isinstance(term, FirstOf):
            return all(isinstance(c, ArtifactAt) and maybe[c.table] for c in term.candidates)
        if isinstance(term, Computed):
            return any(doubtful(o) for o in term.operands)
        return False

    changed = True
    while changed:
        changed = False
        for table in graph.tables:
            if maybe[table.number]:
                continue
            for slot in table.slots:
                column = slot.column
                if isinstance(column, AlignedArtifact):
                    found = maybe[column.table]
                elif isinstance(column, EachTerm) and column.kinds <= {InputAt, Known}:
                    found = False
                else:
                    terms: Sequence[Any] = [column.term] if isinstance(column, SameTerm) else column.terms
                    found = any(map(doubtful, terms))
                if found:
                    maybe[table.number] = changed = True
                    break
    return maybe


def check_paths(graph: Graph, diagnostics: list[Diagnostic]) -> None:
    """No two outputs at one path (or under one key of a shared file), none inside another, none on top of an input."""
    columns = [(table, output) for table in graph.tables for output in table.outputs if output.paths is not None]
    inputs = _input_paths(graph)
    if surely_apart([None if output.append else output.head for _, output in columns], inputs):
        return
    sites = [site for _, output in columns for site in output.paths or ()]
    plain = {path for _, output in columns if not output.append for path in output.paths or ()}
    shared = {split_site(site)[0] for _, output in columns if output.append for site in output.paths or ()}
    files = plain | shared if shared else plain
    folders = {path.rpartition("/")[0] for path in files}
    folders |= {parent for folder in folders for parent in folders_of(folder)}
    distinct = len(plain if not shared else set(sites)) == len(sites) and plain.isdisjoint(shared)
    if distinct and files.isdisjoint(folders) and files.isdisjoint(inputs):
        return
    taken: dict[str, str] = {}  # a file, and each section of one → the first that is published there
    for table, output in columns:
        place = table.decl.places.get(f"outputs.{output.name}.path", table.decl.place)
        for position, site in enumerate(output.paths or ()):
            mine = f"Artifact:{table.name}.{output.name}{table.texts[position]}"
            path, section = split_site(site)
            first = taken.setdefault(path, mine)
            other = taken.setdefault(site, mine)
            hint = None
            if path in plain and path in shared and first != mine:
                problem = f"`{path}` would be written by both `{first}` and `{mine}`, and not both say `append`"
                hint = "say `append: true` for every output that shares the file, or give them paths of their own"
            elif other != mine and section is not None:
                problem = f"`{path}` would have two sections `{section}`, of `{other}` and of `{mine}`"
                hint = "give each a `key:` of its own"
                if other.startswith(f"Artifact:{table.name}.{output.name}["):
                    hint = f"put each loop variable into the `key:`, such as `${{{{ {table.decl.loops[-1]} }}}}`"
            elif other != mine:
                problem = f"`{path}` would be written by both `{other}` and `{mine}`"
                hint = "give each output a path of its own"
                if other.startswith(f"Artifact:{table.name}.{output.name}["):
                    hint = f"put each loop variable into the path, such as `${{{{ {table.decl.loops[-1]} }}}}`"
                if output.type == "json":
                    hint += "; or let all of them share the file: `append: true`"
            elif path in folders:
                inside = next(p for p in sorted(files) if p.startswith(f"{path}/"))
                problem = f"`{path}` is an output and also the folder of `{inside}`"
            elif path in inputs:
                problem = f"`{path}` is an input of this workflow; publishing there would change it"
                hint = "choose another path for the output"
            else:
                continue
            diagnostics.append(place.diagnostic("DUPLICATE_OUTPUT_PATH", problem, hint))
            break  # one for each output is enough


def _input_paths(graph: Graph) -> set[str]:
    found: set[str] = set()

    def walk(value: InputValue) -> None:
        if value.path is not None:
            found.add(value.path)
        for item in value.elements or ():
            walk(item)

    for value in graph.inputs.values():
        walk(value)
    return found
