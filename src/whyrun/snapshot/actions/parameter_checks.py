"""Checks the `with:` blocks of job instances against the typed parameters of their actions.

`lookup` checks literals with the job. This module checks values of inputs and loops, and the types of bindings, which
are known with the graph. Values that a run makes are checked when their step starts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from whyrun.actions.problem import BIND_ANOTHER, Bound, Problem
from whyrun.artifacts.hashing import canonical_json, digest
from whyrun.errors import Diagnostic
from whyrun.graph.tables import (
    ArtifactAt,
    Computed,
    EachTerm,
    FirstOf,
    Graph,
    Group,
    InputAt,
    JobTable,
    Known,
    SameTerm,
    Source,
    Term,
)
from whyrun.graph.template import expressions_in
from whyrun.snapshot.actions.known_inputs import has_secret, put
from whyrun.workflow.model import Expression, Formatted, InputRef, Template, refs_in
from whyrun.workflow.nodes import below

if TYPE_CHECKING:
    from whyrun.actions.description import ActionInfo
    from whyrun.actions.inspection.inspector import Inspector

Entries = dict[str, Any]
GivenBy = Callable[[], Mapping[str, str]]  # input → how it was given: "given by `--set`"


class Misfit(msgspec.Struct, frozen=True):
    """A value that does not fit the action of a job instance; `more` other instances have the same problem."""

    table: JobTable
    position: int
    problem: Problem
    more: int
    origin: str | None  # where the value comes from, if it is not written in the job

    def diagnostic(self) -> Diagnostic:
        problem = self.problem.diagnostic(self.table.decl)
        hint = problem.hint
        if self.origin is not None:
            hint = self.origin if hint is None or hint.startswith("correct ") else f"{hint}; {self.origin}"
        return dataclasses.replace(problem, message=problem.message + self._where(), hint=hint)

    def _where(self) -> str:
        if len(self.table) == 1:
            return ""
        others = f", and in {self.more} more instance{'' if self.more == 1 else 's'}" if self.more else ""
        return f" (in `{self.table.job_id(self.position)}`{others})"


def instance_misfits(
    graph: Graph, infos: Mapping[str, ActionInfo], inspector: Inspector, given_by: GivenBy = dict
) -> Iterator[Misfit]:
    """`infos`: the actions by job. A mistake that many instances share is reported once, with the first of them.

    `given_by`: which inputs have values from outside the workflow file, and how they were given.
    """
    for table in graph.tables:
        info = infos.get(table.name)
        if info is not None and info.name == "shell" and info.origin == "builtin":
            yield from _script_misfits(graph, table)
        if info is None or not info.typed:
            continue
        token = _token(graph, table)
        if inspector.is_known_valid(info, token):
            continue
        blocks: dict[str, tuple[list[int], Entries]] = {}  # the positions of instances with the same block
        for position, entries in _blocks(graph, table):
            blocks.setdefault(repr(_form(entries)), ([], entries))[0].append(position)
        if not blocks:
            continue
        found = _checked(info, [entries for _, entries in blocks.values()], inspector)
        if not any(found):
            inspector.remember_valid(info, token)
            continue
        shared: dict[tuple[str, ...], Misfit] = {}
        computed = _computed(table)
        for (positions, _), problems in zip(blocks.values(), found, strict=True):
            alike = len(table) if _is_same_everywhere(table) else len(positions)
            here: dict[tuple[str, ...], Problem] = {}  # an instance counts once, even if it has the mistake twice
            for problem in problems:
                if not _is_reported_by_lookup(problem, computed):
                    here.setdefault(_kind(problem), problem)
            for kind, problem in here.items():
                first = Misfit(table, positions[0], problem, -1, _origin(graph, table, problem, given_by))
                before = shared.get(kind, first)
                shared[kind] = replace(before, more=before.more + alike)
        yield from shared.values()


def _script_misfits(graph: Graph, table: JobTable) -> Iterator[Misfit]:
    """Uses of JSON text as a file name in a script of `shell`. The types are the same in all instances."""
    from whyrun.actions.builtin.shell import json_as_files

    script = table.decl.with_.get("run")
    if not isinstance(script, str) or not len(table):
        return
    slots = [slot for slot in table.slots if slot.area == "with" and len(slot.path) == 1]
    bound = {str(slot.path[0]): known_term(graph, slot.column.at(0)) for slot in slots}
    types = {name: term for name, term in bound.items() if isinstance(term, Bound) and term.type in ("json", "json[]")}
    for name, command in json_as_files(script, types):
        what = "each member is JSON text" if types[name].type == "json[]" else "it is JSON text"
        message = f"`{name}` is no file: {what}, but `{command}` reads files"
        hint = f"declare the output that `{name}` is bound to as `file` or `text` to get a path; or give the text to "
        hint += f'the command: `<<< "${name}"`, `printf \'%s\\n\' "${{{name}[@]}}" | …`'
        yield Misfit(table, 0, Problem(name, message, hint), len(table) - 1, None)


def _is_reported_by_lookup(problem: Problem, computed: set[str]) -> bool:
    """Does `lookup` report this problem of the block as written?"""
    if problem.entry is None:
        return problem.brief is not None
    return problem.entry not in computed or (problem.at_name and not problem.inner)


def _kind(problem: Problem) -> tuple[str, ...]:
    """The same key for one mistake in many instances with different values."""
    kind, subject = problem.brief or (re.sub(r"\d+", "0", str(problem.message)), "")
    return problem.entry or "", re.sub(r"\d+", "0", problem.inner), kind, subject if kind == "missing required" else ""


def _origin(graph: Graph, table: JobTable, problem: Problem, given_by: GivenBy) -> str | None:
    """The hint for a value that comes from an input of the workflow and not from the job itself."""
    if "/" in table.name or problem.entry is None or problem.hint == BIND_ANOTHER:
        return None  # the inputs of an import come from the importing file
    template, rest = _part_at(table.decl.with_.get(problem.entry), problem.inner)
    if not isinstance(template, Expression | Formatted) or (problem.at_name and not rest):
        return None
    names = list(dict.fromkeys(_inputs_in(template)))
    if not names or any(expression.loops for expression in expressions_in(template)):
        return None
    given = given_by()
    origins = [f"`Input:{name}` ({given.get(name, _default_place(graph, name))})" for name in names]
    whole = isinstance(template, Expression) and template.whole is not None
    elsewhere = "" if whole else f", or `{problem.entry}{problem.inner}`"
    return f"the value comes from {' and '.join(origins)}: correct it there{elsewhere}"


def _part_at(template: Template, inner: str) -> tuple[Template, str]:
    """The deepest written template on the path `inner`, and the rest of the path."""
    members: Iterable[tuple[str | int, Template]] = ()
    if isinstance(template, dict):
        members = template.items()
    elif isinstance(template, list):
        members = enumerate(template)
    for key, member in members:
        step = below("", key)
        if inner == step or (inner.startswith(step) and inner[len(step)] in ".["):
            return _part_at(member, inner[len(step) :])
    return template, inner


def _inputs_in(template: Template) -> Iterator[str]:
    for expression in expressions_in(template):
        for ref in refs_in(expression.refs):
            if isinstance(ref, InputRef):
                yield ref.name


def _default_place(graph: Graph, name: str) -> str:
    place = graph.workflow.inputs[name].place
    return f"its default, {place.source}:{place.line}"


def _checked(info: ActionInfo, blocks: list[Entries], inspector: Inspector) -> list[list[Problem]]:
    if info.origin == "builtin":
        from whyrun.actions.registry.registry import check_typed

        return [check_typed(info, block, inspector.project, inspector) for block in blocks]
    return inspector.check_all(info, blocks)


def _blocks(graph: Graph, table: JobTable) -> Iterator[tuple[int, Entries]]:
    """By instance: its entries, as far as they are known."""
    computed = _computed(table)
    if not computed:
        return
    slots = [slot for slot in table.slots if slot.area == "with" and slot.path[0] in computed]
    literals = {name: value for name, value in table.decl.with_.items() if name not in computed}
    for position in range(min(1, len(table)) if _is_same_everywhere(table) else len(table)):
        entries: Entries = {}
        for slot in slots:
            put(entries, slot.path, known_term(graph, slot.column.at(position)))
        # An entry without a slot has an invalid expression in it: only its presence is known.
        yield position, {**literals, **{name: entries.get(name, Bound()) for name in sorted(computed)}}


def _is_same_everywhere(table: JobTable) -> bool:
    return all(isinstance(slot.column, SameTerm) for slot in table.slots if slot.area == "with")


def _token(graph: Graph, table: JobTable) -> str:
    """A digest of all blocks of a job, made from the hashes of values: one pass for 100,000 instances."""
    literals = {name: value for name, value in table.decl.with_.items() if name not in _computed(table)}
    parts: list[Any] = [sorted(table.decl.with_), literals]
    for slot in table.slots:
        if slot.area == "with":
            column = slot.column
            terms = column.terms if isinstance(column, EachTerm) else [column.at(0)] if len(table) else []
            parts += [slot.name, [t.sha256 if isinstance(t, Known) else _term_token(graph, t) for t in terms]]
    return digest("blocks/v2", canonical_json(parts))


def _term_token(graph: Graph, term: Term) -> str:
    known = known_term(graph, term)
    if isinstance(term, InputAt) and not isinstance(known, Bound):
        return term.value.sha256
    return repr(_form(known))


def _computed(table: JobTable) -> set[str]:
    """The entries that are not literals."""
    return {name for name, value in table.decl.with_.items() if any(True for _ in expressions_in(value))}


def known_term(graph: Graph, term: Term) -> Any:
    """Its value as far as it is known; `Bound` stands for unknown parts."""
    if isinstance(term, Known):
        return _without_secrets(term.value)
    if isinstance(term, Computed):
        return _outline(term.template)
    if isinstance(term, InputAt):
        value = term.value
        return Bound(str(value.type)) if value.type.is_path else value.value
    if isinstance(term, ArtifactAt):
        return Bound(_type(graph, term))
    if isinstance(term, Group | FirstOf):
        sources = term.members if isinstance(term, Group) else term.candidates
        types = {_type(graph, source) for source in sources}
        if len(types) == 1:
            if isinstance(term, Group) and term.keys is not None:
                return Bound()  # a mapping from index to member
            return Bound(types.pop() + ("[]" if isinstance(term, Group) else ""))
    return Bound()


def _without_secrets(value: Any) -> Any:
    if not has_secret(value):
        return value
    if isinstance(value, dict):
        if "$secret" in value or "$connection" in value:
            return Bound()
        return {key: _without_secrets(member) for key, member in value.items()}
    return [_without_secrets(member) for member in value]


def _outline(template: Template) -> Any:
    """The known part of a template that a run completes."""
    if isinstance(template, Expression | Formatted):
        return Bound()
    if isinstance(template, dict):
        return {key: _outline(member) for key, member in template.items()}
    return [_outline(member) for member in template] if isinstance(template, list) else template


def _type(graph: Graph, source: Source) -> str:
    if isinstance(source, InputAt):
        return str(source.value.type)
    return graph.tables[source.table].artifacts[source.artifact].type


def _form(value: Any) -> Any:
    """The same result for equal values with equal bound parts."""
    if isinstance(value, Bound):
        return ("type", value.type)
    if isinstance(value, dict):
        return [(key, _form(member)) for key, member in value.items()]
    return [_form(member) for member in value] if isinstance(value, list) else value
