"""MODEL + INPUTS → GRAPH: loops become rows, references become edges, all problems are found at once. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import PurePosixPath
from typing import Any

from whyrun.artifacts.hashing import value_sha256
from whyrun.errors import Diagnostic, InvalidError
from whyrun.graph.fingerprint import suffix_of_path
from whyrun.graph.graph import (
    Absent,
    AlignedArtifact,
    ArtifactAt,
    ArtifactSpec,
    Column,
    Computed,
    Condition,
    EachTerm,
    FirstOf,
    Graph,
    InputAt,
    JobTable,
    Known,
    OutputColumn,
    SameTerm,
    Slot,
    Term,
    sources_of,
)
from whyrun.graph.layers import check_cycles
from whyrun.graph.resolve import OperandColumn, Resolver, Scope
from whyrun.graph.template import compute, contains_binding, expressions_in, uses_loops
from whyrun.ids import Index, format_index, format_indices
from whyrun.workflow.expression import ABSENT, ExpressionError
from whyrun.workflow.fields import path_problem
from whyrun.workflow.inputs import IndexProblem, InputValue, element
from whyrun.workflow.model import (
    At,
    Expression,
    Formatted,
    InputRef,
    JobDecl,
    LeafDecl,
    Loop,
    LoopDecl,
    OutputDecl,
    Place,
    Template,
    Workflow,
)
from whyrun.workflow.values import not_an_array

MAX_INSTANCES = 5_000_000
_UNUSUAL = re.compile(r"//|\./|[\0-\x1f\\:]")  # what makes a path worth a closer look
SUFFIX_OF_TYPE = {"image": ".png", "text": ".txt", "json": ".json"}


def expand(workflow: Workflow, inputs: Mapping[str, InputValue]) -> Graph:
    """The graph, or `InvalidError` with everything that is wrong."""
    diagnostics: list[Diagnostic] = []
    tables: dict[str, JobTable] = {}
    scopes = list(_scopes(workflow, "", inputs, tables, diagnostics))
    # Tables stand in the order of their names, so that a node's number, and with it every list that is sorted by
    # node, does not depend on the order in which a file happens to be written.
    jobs = [(scope.prefix + name, scope, decl) for scope, flow in scopes for name, decl in flow.jobs.items()]
    for _, scope, decl in sorted(jobs, key=lambda job: job[0]):
        _make_table(scope, decl, tables)
    _stop_if(diagnostics)  # loops must be right before references can be
    for scope, flow in scopes:
        for name in flow.jobs:
            _fill(scope, flow, tables[scope.prefix + name])
    graph = Graph(workflow, inputs, tuple(tables.values()))
    _settle_first(graph)
    _check_paths(graph, diagnostics)
    _stop_if(diagnostics)
    check_cycles(graph)
    return graph


def _stop_if(diagnostics: list[Diagnostic]) -> None:
    if diagnostics:
        raise InvalidError(sorted(set(diagnostics), key=lambda d: (d.file or "", d.line or 0, d.column or 0, d.code)))


def _scopes(
    workflow: Workflow,
    prefix: str,
    inputs: Mapping[str, InputValue],
    tables: dict[str, JobTable],
    diagnostics: list[Diagnostic],
) -> Iterator[tuple[Scope, Workflow]]:
    loops: dict[str, Sequence[Index]] = {}
    for loop in workflow.loops.values():
        loops[loop.name] = _loop_values(loop, prefix, inputs, diagnostics)
    positions = {name: {value: i for i, value in enumerate(values)} for name, values in loops.items()}
    yield Scope(prefix, loops, positions, tables, inputs, diagnostics), workflow
    for name, imported in workflow.imports.items():
        yield from _scopes(imported.workflow, f"{prefix}{name}/", inputs, tables, diagnostics)


# --- loops -------------------------------------------------------------------------------------------------------


def _loop_values(
    loop: LoopDecl, prefix: str, inputs: Mapping[str, InputValue], diagnostics: list[Diagnostic]
) -> Sequence[Index]:
    def wrong(code: str, message: str, hint: str | None = None) -> Sequence[Index]:
        diagnostics.append(loop.place.diagnostic(code, message, hint))
        return ()

    source = loop.source
    if isinstance(source, InputRef):
        whole = inputs.get(f"Input:{prefix}{source.name}")
        if whole is None:
            return ()
        try:
            given = element(whole, tuple(s.index for s in source.selectors if isinstance(s, At)))
        except IndexProblem as problem:
            return wrong(problem.code, f"loop `{loop.name}`: {problem}")
        if loop.kind == "each":
            if given.elements is None:
                why = not_an_array(given, "what it ranges over")
                return wrong(why.code, f"loop `{loop.name}`: {why}")
            return range(len(given.elements))
        source = tuple(given.value) if loop.kind == "values" and isinstance(given.value, list) else given.value
    if loop.kind == "count":
        if isinstance(source, bool) or not isinstance(source, int) or source < 0:
            return wrong("WRONG_TYPE", f"loop `{loop.name}` counts to {source!r}, which is no whole number from 0")
        return range(source) if source <= MAX_INSTANCES else wrong("WRONG_TYPE", f"loop `{loop.name}` is too long")
    if loop.kind == "range":
        first, last = source
        if last - first >= MAX_INSTANCES:
            return wrong("WRONG_TYPE", f"loop `{loop.name}` is too long")
        return range(first, last + 1)
    if not isinstance(source, tuple | list):
        return wrong("WRONG_TYPE", f"loop `{loop.name}` needs a list of values")
    seen: set[str] = set()
    for value in source:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return wrong("WRONG_TYPE", f"loop `{loop.name}`: {value!r} is neither text nor a number")
        text = format_index(value)
        if text in seen:
            return wrong("NAME_TAKEN", f"loop `{loop.name}` has the value `{text}` twice", "values are names: keep one")
        seen.add(text)
    return tuple(source)


def _rows(scope: Scope, decl: JobDecl) -> Sequence[tuple[Index, ...]]:
    axes = [scope.loops[loop] for loop in decl.loops]
    total = 1
    for axis in axes:
        total *= len(axis)
    if total > MAX_INSTANCES:
        scope.diagnostics.append(
            decl.place.diagnostic(
                "WRONG_TYPE", f"job `{decl.name}` has {total} instances; the limit is {MAX_INSTANCES}"
            )
        )
        return ()
    rows = list(product(*axes))
    if decl.exclude:
        number = {loop: i for i, loop in enumerate(decl.loops)}
        drops = [[(number[loop], value) for loop, value in entry.items()] for entry in decl.exclude]
        rows = [row for row in rows if not any(all(row[i] == value for i, value in drop) for drop in drops)]
    known = set(rows) if decl.include else set()
    for entry in decl.include:
        added = tuple(entry[loop] for loop in decl.loops)
        if added not in known:
            known.add(added)
            rows.append(added)
    return rows


def _make_table(scope: Scope, decl: JobDecl, tables: dict[str, JobTable]) -> None:
    """Rows and artifacts first: references need every table's."""
    made = None if decl.exclude or decl.include else scope.rows.get(decl.loops)
    if made is None:
        rows = _rows(scope, decl)
        made = (rows, [format_indices(row) for row in rows])
        if not decl.exclude and not decl.include:
            scope.rows[decl.loops] = made  # shared, so that aligned jobs are recognised by identity
    last = tables[next(reversed(tables))] if tables else None
    base = last.base + len(last) if last is not None else 0
    table = JobTable(len(tables), scope.prefix + decl.name, decl, made[0], made[1], base)
    specs: list[ArtifactSpec] = []
    for output in decl.outputs.values():
        specs.append(ArtifactSpec(output.name, output.type))
        for leaf in output.leaves:
            specs.extend(_leaf_specs(scope, decl, output, leaf, table))
    # Leaves whose path follows the job's own loop have one text a row: all of them, or authoring order would count.
    table.artifacts = tuple(sorted(specs, key=lambda spec: (spec.output, spec.leaf, *(spec.leaf_by_row or ()))))
    tables[table.name] = table


def _leaf_specs(
    scope: Scope, decl: JobDecl, output: OutputDecl, leaf: LeafDecl, table: JobTable
) -> Iterator[ArtifactSpec]:
    """A leaf over a loop that the job does not have stands for one artifact per value of that loop."""
    used = [s.loop for _, selectors in leaf.path for s in selectors if isinstance(s, Loop)]
    foreign = [loop for loop in dict.fromkeys(used) if loop not in decl.loops]
    own = [loop for loop in dict.fromkeys(used) if loop in decl.loops]
    for values in product(*(scope.loops[loop] for loop in foreign)):
        fixed = dict(zip(foreign, values, strict=True))
        if not own:
            yield ArtifactSpec(output.name, leaf.type, _leaf_path(leaf, fixed))
            continue
        number = {loop: decl.loops.index(loop) for loop in own}
        by_row = [_leaf_path(leaf, {**fixed, **{loop: row[i] for loop, i in number.items()}}) for row in table.rows]
        yield ArtifactSpec(output.name, leaf.type, leaf_by_row=by_row)


def _leaf_path(leaf: LeafDecl, loops: Mapping[str, Index]) -> str:
    text = ""
    for name, selectors in leaf.path:
        indices = [loops[s.loop] if isinstance(s, Loop) else s.index for s in selectors if isinstance(s, Loop | At)]
        text += f".{name}{format_indices(indices)}"
    return text


# --- slots -------------------------------------------------------------------------------------------------------


class _Names(Mapping[str, Any]):
    """The names an expression may use, for one row: loop variables, `workflow`, `env`."""

    __slots__ = ("_env", "_loops", "_row", "_workflow")

    def __init__(
        self, loops: Sequence[str], row: tuple[Index, ...], workflow: Mapping[str, Any], env: Mapping[str, Any]
    ):
        self._loops, self._row, self._workflow, self._env = loops, row, workflow, env

    def __getitem__(self, key: str) -> Any:
        if key in self._loops:
            return self._row[self._loops.index(key)]
        if key == "workflow":
            return self._workflow
        if key == "env":
            return self._env
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter((*self._loops, "workflow", "env"))

    def __len__(self) -> int:
        return len(self._loops) + 2


class _Filler:
    """Fills one table's slots, condition, outputs and needs."""

    def __init__(self, scope: Scope, workflow: Workflow, table: JobTable) -> None:
        self.scope, self.table, self.decl = scope, table, table.decl
        self.resolver = Resolver(scope, table)
        self.workflow_names = {"name": workflow.name}
        self.env: list[Mapping[str, Any]] | None = None  # by row, once known
        self.slots: list[Slot] = []

    def names(self, position: int) -> Mapping[str, Any]:
        env = self.env[position] if self.env is not None else {}
        return _Names(self.decl.loops, self.table.rows[position], self.workflow_names, env)

    def place(self, key: str) -> Place:
        return self.decl.places.get(key, self.decl.place)

    def with_entry(self, template: Template, name: str, path: tuple[str | int, ...], place: Place) -> None:
        if isinstance(template, Expression) and template.whole is not None:
            column = self.resolver.operand(template.whole, optional=False)
            self.slots.append(Slot(name, True, path, "with", column, template.place))
        elif isinstance(template, list) and contains_binding(template):
            for i, item in enumerate(template):
                self.with_entry(item, f"{name}[{i}]", (*path, i), place)
        elif isinstance(template, dict) and contains_binding(template):
            for key, item in template.items():
                if not key.isidentifier():
                    self.report(place, "NAME_INVALID", f"`{key}` names a binding, so it must be an identifier")
                self.with_entry(item, f"{name}.{key}", (*path, key), place)
        else:
            self.slots.append(Slot(name, False, path, "with", self.parameter(template, place), place))

    def parameter(self, template: Template, place: Place) -> Column:
        """A typed value: known now where it depends on inputs and loops only, else computed when its sources are."""
        rows = range(len(self.table))
        operands = self.operands(template)
        later = any(_reads_artifacts(column) for column in operands)
        if later:
            terms = [
                Computed(template, tuple(c.at(p) for c in operands), self.names(p))  # type: ignore[misc]
                for p in rows
            ]
            return EachTerm(terms)
        if not uses_loops(template):
            return SameTerm(self.known(template, operands, 0, place) if rows else Known(None, value_sha256(None)))
        return EachTerm([self.known(template, operands, p, place) for p in rows])

    def operands(self, template: Template) -> list[OperandColumn]:
        found = []
        for expression in expressions_in(template):
            for i, ref in enumerate(expression.refs):
                found.append(self.resolver.operand(ref, optional=i in expression.optional))
        return found

    def known(self, template: Template, operands: Sequence[OperandColumn], position: int, place: Place) -> Known:
        value = self.value(template, operands, position, place)
        return Known(value, value_sha256(value))

    def value(self, template: Template, operands: Sequence[OperandColumn], position: int, place: Place) -> Any:
        values = [input_operand_value(column.at(position)) for column in operands]
        try:
            return compute(template, values, self.names(position))
        except ExpressionError as problem:
            if self.scope.diagnostics and any(isinstance(column.at(position), Absent) for column in operands):
                return None  # the reference itself was reported; that nothing cannot be formatted is no second mistake
            where = f" (in `{self.table.job_id(position)}`)" if len(self.table) > 1 else ""
            self.report(place, "WRONG_TYPE", f"{problem}{where}")
            return None

    def report(self, place: Place, code: str, message: str, hint: str | None = None) -> None:
        self.scope.diagnostics.append(place.diagnostic(code, message, hint))

    def fill(self) -> None:
        decl, table = self.decl, self.table
        env_columns: dict[str, Column] = {}
        for key, template in decl.env.items():
            env_columns[key] = self.parameter(template, self.place(f"env.{key}"))
        if env_columns:
            self.env = [
                {key: t.value for key, c in env_columns.items() if isinstance(t := c.at(p), Known)}
                for p in range(len(table))
            ]
        for key, template in decl.with_.items():
            self.with_entry(template, key, (key,), self.place(f"with.{key}"))
        for key, column in env_columns.items():
            self.slots.append(Slot(f".env.{key}", False, (key,), "env", column, self.place(f"env.{key}")))
        table.slots = tuple(sorted(self.slots, key=lambda slot: slot.name))
        if decl.condition is not None:
            columns = self.operands(decl.condition)
            terms = [
                Computed(decl.condition, tuple(c.at(p) for c in columns), self.names(p))  # type: ignore[misc]
                for p in range(len(table))
            ]
            table.condition = Condition(decl.condition, EachTerm(terms))
        table.outputs = tuple(self.output(decl.outputs[name]) for name in sorted(decl.outputs))
        table.needs = tuple(self.scope.tables[self.scope.prefix + job].number for job in decl.needs)

    def output(self, output: OutputDecl) -> OutputColumn:
        if output.path is None:
            return OutputColumn(output.name, output.type, SUFFIX_OF_TYPE.get(output.type, ""), None)
        place = self.place(f"outputs.{output.name}.path")
        paths = [self.scope.prefix + path for path in self.path_texts(output.path, place)]
        checked = [self.checked_path(path, place) for path in paths]
        tail = _constant_tail(output.path)
        suffixes = {suffix_of_path(tail)} if tail else {suffix_of_path(path) for path in checked}
        if len(suffixes) > 1:
            self.report(place, "WRONG_TYPE", f"the paths of `{output.name}` end differently: {sorted(suffixes)}")
        return OutputColumn(output.name, output.type, next(iter(sorted(suffixes)), ""), checked)

    def path_texts(self, template: Template, place: Place) -> list[str]:
        table = self.table
        if isinstance(template, str):
            return [template] * len(table)
        simple = _loop_parts(template, self.decl.loops)
        if simple is not None:  # the hot path: text and loop variables only
            head, *rest = simple
            texts = [str(head)] * len(table) if isinstance(head, str) else [str(row[head]) for row in table.rows]
            for part in rest:
                if isinstance(part, str):
                    texts = [t + part for t in texts]
                else:
                    texts = [t + str(row[part]) for t, row in zip(texts, table.rows, strict=True)]
            return texts
        operands = self.operands(template)
        return [str(self.value(template, operands, p, place)) for p in range(len(table))]

    def checked_path(self, path: str, place: Place) -> str:
        # The quick test first: nearly all paths are plain.
        if path and path[0] not in "/.~ " and path[-1] not in "/. " and not _UNUSUAL.search(path):
            return path
        problem = path_problem(path)
        if problem is not None:
            self.report(place, "PATH_OUTSIDE", f"`{path}`: {problem}")
        return str(PurePosixPath(path))


def _fill(scope: Scope, workflow: Workflow, table: JobTable) -> None:
    _Filler(scope, workflow, table).fill()


def _loop_parts(template: Template, loops: Sequence[str]) -> list[str | int] | None:
    """A formatted string of text and bare loop variables, as text and positions in the row; else None."""
    parts = template.parts if isinstance(template, Formatted) else (template,)
    found: list[str | int] = []
    for part in parts:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, Expression) and part.text.strip() in loops:
            found.append(loops.index(part.text.strip()))
        else:
            return None
    return found or None


def _constant_tail(template: Template) -> str | None:
    """The text after the last expression of a path, if the suffix surely stands in it."""
    last = template.parts[-1] if isinstance(template, Formatted) else template
    return f"x{last}" if isinstance(last, str) and "." in last else None


def _reads_artifacts(column: OperandColumn) -> bool:
    if isinstance(column, AlignedArtifact):
        return True
    terms: Sequence[Term] = [column.term] if isinstance(column, SameTerm) else column.terms
    return any(isinstance(s, ArtifactAt) for t in terms for s in sources_of(t))


def input_operand_value(term: Any) -> Any:
    """The value of an operand that depends on inputs only."""
    if isinstance(term, InputAt):
        return term.value.value
    if isinstance(term, Absent):
        return ABSENT
    if isinstance(term, FirstOf):
        return input_operand_value(term.candidates[0]) if term.candidates else ABSENT
    return [input_operand_value(member) for member in term.members]


# --- after all tables are filled ---------------------------------------------------------------------------------


def _settle_first(graph: Graph) -> None:
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
        if isinstance(column, EachTerm) and any(isinstance(t, FirstOf | Computed) for t in column.terms):
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
                else:
                    terms: Sequence[Any] = [column.term] if isinstance(column, SameTerm) else column.terms
                    found = any(map(doubtful, terms))
                if found:
                    maybe[table.number] = changed = True
                    break
    return maybe


def _check_paths(graph: Graph, diagnostics: list[Diagnostic]) -> None:
    """No two outputs at one path, none inside another, none on top of an input."""
    columns = [(table, output) for table in graph.tables for output in table.outputs if output.paths is not None]
    paths = [path for _, output in columns for path in output.paths or ()]
    known = set(paths)
    folders = {path.rpartition("/")[0] for path in known}
    folders |= {parent for folder in folders for parent in _parents(folder)}
    if len(known) == len(paths) and known.isdisjoint(folders) and known.isdisjoint(_input_paths(graph)):
        return
    taken: dict[str, str] = {}
    inputs = _input_paths(graph)
    for table, output in columns:
        place = table.decl.places.get(f"outputs.{output.name}.path", table.decl.place)
        for position, path in enumerate(output.paths or ()):
            mine = f"Artifact:{table.name}.{output.name}{table.texts[position]}"
            other = taken.setdefault(path, mine)
            hint = None
            if other != mine:
                problem = f"`{path}` would be written by both `{other}` and `{mine}`"
                hint = "put a loop variable into the path, such as `${{ segment }}`"
            elif path in folders:
                inside = next(p for p in paths if p.startswith(f"{path}/"))
                problem = f"`{path}` is an output and also the folder of `{inside}`"
            elif path in inputs:
                problem = f"`{path}` is an input of this workflow; publishing there would change it"
                hint = "choose another path for the output"
            else:
                continue
            diagnostics.append(place.diagnostic("DUPLICATE_OUTPUT_PATH", problem, hint))
            break  # one for each output is enough


def _parents(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


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
