"""The `with:` blocks of job instances against the typed parameters of their actions.

Literals are checked with the job (`lookup`). Here come the values that inputs and loops give, and the types of what is
bound: known as soon as the graph is, and so before anything runs. What a run makes is checked when its step starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whyrun.actions.problem import Bound, Problem
from whyrun.artifacts.hashing import canonical_json, digest
from whyrun.errors import Diagnostic
from whyrun.graph.graph import (
    ArtifactAt,
    EachTerm,
    FirstOf,
    Graph,
    Group,
    InputAt,
    JobTable,
    Known,
    SameTerm,
    Slot,
    Source,
    Term,
)
from whyrun.graph.template import expressions_in

if TYPE_CHECKING:
    from whyrun.actions.asking import Asker
    from whyrun.actions.registry import ActionInfo

Entries = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Misfit:
    """What does not fit the action of one job instance."""

    table: JobTable
    position: int
    problem: Problem

    def diagnostic(self) -> Diagnostic:
        decl, problem = self.table.decl, self.problem
        place = decl.places.get(f"with.{problem.entry}", decl.places.get("uses", decl.place))
        where = f" (in `{self.table.job_id(self.position)}`)" if len(self.table) > 1 else ""
        return place.diagnostic(problem.code, problem.message + where, problem.hint)


def instance_misfits(graph: Graph, infos: Mapping[str, ActionInfo], asker: Asker) -> Iterator[Misfit]:
    """`infos`: the actions by job. A problem that many instances share is told once, with the first of them."""
    for table in graph.tables:
        info = infos.get(table.name)
        if info is None or not info.typed:
            continue
        token = _token(graph, table)
        if asker.is_known_to_fit(info, token):
            continue
        blocks: dict[str, tuple[int, Entries]] = {}
        for position, entries in _blocks(graph, table):
            blocks.setdefault(_key(entries), (position, entries))
        if not blocks:
            continue
        told: set[tuple[str | None, str]] = set()
        computed = _computed(table)
        found = _checked(info, [entries for _, entries in blocks.values()], asker)
        if not any(found):
            asker.keep_that_it_fits(info, token)
        for (position, _), problems in zip(blocks.values(), found, strict=True):
            for problem in problems:
                # What is wrong with the block as it is written, `lookup` has said.
                new = problem.entry in computed if problem.entry is not None else problem.brief is None
                if new and not problem.at_name and (problem.entry, problem.message) not in told:
                    told.add((problem.entry, problem.message))
                    yield Misfit(table, position, problem)


def _checked(info: ActionInfo, blocks: list[Entries], asker: Asker) -> list[list[Problem]]:
    if info.origin == "builtin":
        from whyrun.actions.registry import check_typed

        return [check_typed(info, block, asker.project, asker) for block in blocks]
    return asker.check_all(info, blocks)


def _blocks(graph: Graph, table: JobTable) -> Iterator[tuple[int, Entries]]:
    """By instance, its entries as far as they are known."""
    slots: dict[str, list[Slot]] = {}
    for slot in table.slots:
        if slot.area == "with":
            slots.setdefault(str(slot.path[0]), []).append(slot)
    computed = _computed(table)
    if not computed:
        return
    same = all(isinstance(slot.column, SameTerm) for name in computed for slot in slots.get(name, ()))
    literals = {name: value for name, value in table.decl.with_.items() if name not in computed}
    for position in range(min(1, len(table)) if same else len(table)):
        yield (
            position,
            {**literals, **{name: _entry(graph, slots.get(name, []), position) for name in sorted(computed)}},
        )


def _token(graph: Graph, table: JobTable) -> str:
    """All that the blocks of a job consist of. Hashes of values are there already: of 100,000 instances in one pass."""
    literals = {name: value for name, value in table.decl.with_.items() if name not in _computed(table)}
    parts: list[Any] = [sorted(table.decl.with_), literals]
    for slot in table.slots:
        if slot.area == "with":
            column = slot.column
            terms = column.terms if isinstance(column, EachTerm) else [column.at(0)] if len(table) else []
            parts += [slot.name, [t.sha256 if isinstance(t, Known) else _term_token(graph, t) for t in terms]]
    return digest("blocks/v1", canonical_json(parts))


def _term_token(graph: Graph, term: Term) -> str:
    known = known_term(graph, term)
    if isinstance(known, Bound):
        return f"type {known.type}"
    assert isinstance(term, InputAt)
    return term.value.sha256


def _computed(table: JobTable) -> set[str]:
    """The entries that are no literals."""
    return {name for name, value in table.decl.with_.items() if any(True for _ in expressions_in(value))}


def _entry(graph: Graph, slots: list[Slot], position: int) -> Any:
    """Its value, or what is known of it."""
    if len(slots) != 1 or len(slots[0].path) != 1:
        return Bound()  # put together from several: looked at when the step starts
    return known_term(graph, slots[0].column.at(position))


def known_term(graph: Graph, term: Term) -> Any:
    if isinstance(term, Known):
        return Bound() if has_secret(term.value) else term.value
    if isinstance(term, InputAt):
        value = term.value
        return Bound(str(value.type)) if value.type.is_path or value.path is not None else value.value
    if isinstance(term, ArtifactAt):
        return Bound(_type(graph, term))
    if isinstance(term, Group | FirstOf):
        sources = term.members if isinstance(term, Group) else term.candidates
        types = {_type(graph, source) for source in sources}
        if len(types) == 1:
            return Bound(types.pop() + ("[]" if isinstance(term, Group) else ""))
    return Bound()


def _type(graph: Graph, source: Source) -> str:
    if isinstance(source, InputAt):
        return str(source.value.type)
    return graph.tables[source.table].artifacts[source.artifact].type


def has_secret(value: Any) -> bool:
    if isinstance(value, dict):
        return "$secret" in value or any(map(has_secret, value.values()))
    return isinstance(value, list) and any(map(has_secret, value))


def _key(entries: Entries) -> str:
    return repr([(name, ("type", v.type) if isinstance(v, Bound) else v) for name, v in entries.items()])
