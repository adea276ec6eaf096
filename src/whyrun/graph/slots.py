"""The columns of one job: what its instances consume, their condition, and where they publish. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from whyrun.artifacts.hashing import value_sha256
from whyrun.errors import Diagnostic
from whyrun.graph.fingerprint import SUFFIX_OF_TYPE, suffix_of_path
from whyrun.graph.inputs import OperandColumn, Scope, input_operand_value
from whyrun.graph.paths import LoopWords, OutputColumn, PathTexts, are_all_plain, loop_parts, loop_paths, same_path
from whyrun.graph.resolve import Resolver
from whyrun.graph.tables import (
    Absent,
    AlignedArtifact,
    ArtifactAt,
    Column,
    Computed,
    Condition,
    EachTerm,
    FirstOf,
    InputAt,
    JobTable,
    Known,
    SameTerm,
    Slot,
    Term,
    sources_of,
)
from whyrun.graph.template import compute, contains_binding, expressions_in, inputs_in, optional_operands, uses_loops
from whyrun.ids import SECTION_MARK, Index, absolute, file_name, split_folder, whole_input, without_indices
from whyrun.workflow.arrays import is_array
from whyrun.workflow.expressions.expression import ABSENT, ExpressionError
from whyrun.workflow.fields import USES, path_problem
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import (
    Expression,
    Formatted,
    JobDecl,
    OutputDecl,
    Place,
    Template,
    Workflow,
)

UNKNOWN = Known(None, value_sha256(None))  # of no instance, or reported


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
    """Finds the slots, condition, outputs and needs of one table."""

    def __init__(self, scope: Scope, workflow: str, table: JobTable, kind: str = "Job") -> None:
        self.scope, self.table, self.decl = scope, table, table.decl
        self.resolver = Resolver(scope, table, kind)
        self.workflow_names = {"name": workflow}
        self.env: list[Mapping[str, Any]] = [{}] * len(table)  # by row, those that are known before the run
        self.wrong_env: set[str] = set()
        self.slots: list[Slot] = []
        self.failed: set[int] = set()  # templates that were reported

    def names(self, position: int) -> Mapping[str, Any]:
        return _Names(self.decl.loops, self.table.rows[position], self.workflow_names, self.env[position])

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
        """A typed value: known now if it depends on inputs and loops only, else computed once its sources are known."""
        rows = range(len(self.table))
        operands = self.operands(template)
        if self.reads_late_env(template):
            return SameTerm(UNKNOWN)
        later = any(_reads_artifacts(column) for column in operands)
        if later and not self.varies(template) and rows:
            return SameTerm(Computed(template, tuple(c.at(0) for c in operands), self.names(0)))  # type: ignore[misc]
        if later:
            terms = [
                Computed(template, tuple(c.at(p) for c in operands), self.names(p))  # type: ignore[misc]
                for p in rows
            ]
            return EachTerm(terms)
        if not self.varies(template):
            first = next((p for p in rows if p not in self.table.open_rows), 0)  # a row `[?]` has no values
            return SameTerm(self.known(template, operands, first, place) if rows else UNKNOWN)
        return EachTerm([self.known(template, operands, p, place) for p in rows])

    def varies(self, template: Template) -> bool:
        """May its value differ between the rows? In an import that runs for loops, each index has its own inputs."""
        return uses_loops(template) or (self.scope.nest.repeats and bool(inputs_in([template])))

    def operands(self, template: Template) -> list[OperandColumn]:
        found = []
        for expression in expressions_in(template):
            for i, ref in enumerate(expression.refs):
                found.append(self.resolver.operand(ref, optional=i in expression.optional))
        return found

    def reads_late_env(self, template: Template) -> bool:
        """Whether it reads a variable of `env:` that is not known now: only the run knows it, or it is wrong."""
        late = False
        for expression in expressions_in(template):
            for name in sorted(expression.env):
                if all(name in env for p, env in enumerate(self.env) if p not in self.table.open_rows):
                    continue
                late = True
                if name not in self.wrong_env:
                    message = f"`env.{name}` cannot be read in an expression: it is not known before the run"
                    hint = f"write here what `env: {{{name}: …}}` holds"
                    self.report(expression.place, "EXPRESSION_FORBIDDEN", message, hint)
        return late

    def known(
        self, template: Template, operands: Sequence[OperandColumn], position: int, place: Place
    ) -> Known | Computed:
        """Its value. Where a `first(…)` has no candidate left, the planner finds that the instance is inactive."""
        if _lacks_candidates(operands, position):
            terms = tuple(column.at(position) for column in operands)
            return Computed(template, terms, self.names(position))  # type: ignore[arg-type]  # no term is Known
        value = self.value(template, operands, position, place)
        return UNKNOWN if value is ABSENT else Known(value, value_sha256(value))

    def value(self, template: Template, operands: Sequence[OperandColumn], position: int, place: Place) -> Any:
        """`ABSENT` where it cannot be computed, which is reported; and in a row `[?]`."""
        if position in self.table.open_rows:
            return ABSENT
        terms = [column.at(position) for column in operands]
        absent = {i for i, term in enumerate(terms) if isinstance(term, Absent)}
        if absent and not absent <= optional_operands(template):
            return ABSENT  # the resolver has reported the reference
        try:
            return compute(template, [input_operand_value(term) for term in terms], self.names(position))
        except ExpressionError as problem:
            if id(template) not in self.failed:  # once, for the first instance
                self.failed.add(id(template))
                where = self.resolver.where(position)
                self.report(place, "WRONG_TYPE", f"{problem}{where}", self._of_sheet(terms))
            return ABSENT

    def _of_sheet(self, terms: Sequence[Any]) -> str | None:
        """A hint: the file to correct, if the expression reads a row of a sample sheet."""
        for term in terms:
            whole = self.scope.inputs.get(whole_input(term.id)) if isinstance(term, InputAt) else None
            if whole is not None and whole.path is not None and whole.elements is not None:
                return f"`{term.id}` is in `{whole.path}`"
        return None

    def report(self, place: Place, code: str, message: str, hint: str | None = None) -> None:
        self.scope.diagnostics.append(place.diagnostic(code, message, hint))

    def filled(self) -> JobTable:
        decl, table = self.decl, self.table
        env_columns: dict[str, Column] = {}
        for key, template in decl.env.items():
            env_columns[key] = self.parameter(template, self.place(f"env.{key}"))
        if env_columns:
            self.env = [
                {k: t.value for k, c in env_columns.items() if isinstance(t := c.at(p), Known) and t is not UNKNOWN}
                for p in range(len(table))
            ]
            known_rows = [p for p in range(len(table)) if p not in table.open_rows]
            self.wrong_env = {k for k, c in env_columns.items() if any(c.at(p) is UNKNOWN for p in known_rows)}
        for key, template in decl.with_.items():
            self.with_entry(template, key, (key,), self.place(f"with.{key}"))
        for key, column in env_columns.items():
            self.slots.append(Slot(f".env.{key}", False, (key,), "env", column, self.place(f"env.{key}")))
        condition = None
        if decl.condition is not None and not self.reads_late_env(decl.condition):
            columns = self.operands(decl.condition)
            same = not self.varies(decl.condition) and len(table) > 0
            terms = [
                Computed(decl.condition, tuple(c.at(p) for c in columns), self.names(p))  # type: ignore[misc]
                for p in range(1 if same else len(table))
            ]
            condition = Condition(decl.condition, SameTerm(terms[0]) if same else EachTerm(terms))
        return replace(
            table,
            slots=tuple(sorted(self.slots, key=lambda slot: slot.name)),
            condition=condition,
            outputs=tuple(self.output(decl.outputs[name]) for name in sorted(decl.outputs)),
            needs=tuple(self.scope.tables[absolute(self.scope.prefix, job)].number for job in decl.needs),
        )

    def output(self, output: OutputDecl) -> OutputColumn:
        table = self.table
        if output.path is None:
            suffix = output.suffix or SUFFIX_OF_TYPE.get(output.type, "")
            keys = self.section_keys(output) if output.append else None
            return OutputColumn(output.name, output.type, suffix, None, append=output.append, keys=keys)
        place = self.place(f"outputs.{output.name}.path")
        found = self.path_texts(output.path, place, published=True)
        keys = self.section_keys(output) if output.append else None
        if found is None or (output.append and keys is None):
            return OutputColumn(output.name, output.type, "", None)
        checked = (
            found.texts
            if found.are_plain
            else [self.checked_path(path, place, p) for p, path in enumerate(found.texts)]
        )
        if is_array(output.type):  # a folder: its name says nothing about the elements
            return OutputColumn(output.name, output.type, "", checked)
        tail = _constant_tail(output.path)
        known = [path for p, path in enumerate(checked) if p not in self.table.open_rows]
        suffixes = {suffix_of_path(tail)} if tail else set(map(suffix_of_path, known))
        if len(suffixes) > 1:
            self.report(place, "WRONG_TYPE", f"the paths of `{output.name}` end differently: {sorted(suffixes)}")
        suffix = next(iter(sorted(suffixes)), "")
        if table.open_rows:  # nothing is published there, so it is the path of no other row, and of no other job
            checked = [f"{path}?{table.number}.{p}" if p in table.open_rows else path for p, path in enumerate(checked)]
        if keys is None:
            return OutputColumn(output.name, output.type, suffix, checked, head=found.head if found.are_plain else None)
        sites = [f"{path}{SECTION_MARK}{key}" for path, key in zip(checked, keys, strict=True)]
        return OutputColumn(output.name, output.type, suffix, sites, append=True)

    def section_keys(self, output: OutputDecl) -> Sequence[str] | None:
        """By row: the key of the section in its shared file. None if it is not known, which is reported."""
        if output.key is None:
            return [self.table.path(p) for p in range(len(self.table))]
        place = self.place(f"outputs.{output.name}.key")
        found = self.path_texts(output.key, place)
        if found is None:
            return None
        keys = found.texts
        for position, key in enumerate(keys):
            if not key or not key.isprintable():
                what = f"the key of `{output.name}` is {key!r} in `{self.table.job_id(position)}`"
                self.report(place, "WRONG_TYPE", what, "a key has at least one character, and only printable ones")
                break  # one problem per output is enough
        return keys

    def path_texts(self, template: Template, place: Place, *, published: bool = False) -> PathTexts | None:
        """By row. None if one is not known, which is reported. Published paths lie in the folder of the import."""
        rows = len(self.table)
        if published and self.table.levels:
            inside = self.path_texts(template, place)
            if inside is None:
                return None
            texts = [import_folder(self.table, p) + text for p, text in enumerate(inside.texts)]
            return PathTexts(texts, are_all_plain(texts))
        prefix = self.scope.prefix if published else ""
        if isinstance(template, str):
            return same_path(prefix + template, rows)
        simple = loop_parts(template, self.decl.loops)
        if simple is not None:  # the common case: text and loop variables only
            return loop_paths([prefix, *(self.words(part) if isinstance(part, int) else part for part in simple)], rows)
        before = len(self.scope.diagnostics)
        operands = self.operands(template)
        open_rows = self.table.open_rows
        lacking = next((p for p in range(rows) if p not in open_rows and _lacks_candidates(operands, p)), None)
        if lacking is not None:
            message = f"no candidate of `first(…)` is there for `{self.table.job_id(lacking)}`"
            self.report(place, "INDEX_OUT_OF_RANGE", message, "end the list with one that is always there")
            return None
        texts = [
            prefix + ("?" if p in open_rows else str(self.value(template, operands, p, place))) for p in range(rows)
        ]
        if len(self.scope.diagnostics) > before:
            return None
        return PathTexts(texts, are_all_plain(texts))

    def words(self, place: int) -> LoopWords:
        """A loop variable by row, shared by the jobs over the same loops."""
        rows = self.table.rows
        found = self.scope.words.get((id(rows), place))
        if found is None:
            found = self.scope.words[(id(rows), place)] = LoopWords(
                rows, place
            )  # holds the rows, so the id stays theirs
        return found

    def checked_path(self, path: str, place: Place, position: int) -> str:
        if are_all_plain([path]):
            return path
        problem = path_problem(path)
        if problem is not None:
            hint = "the path must lie in the project folder: use another value, or leave it out of the path"
            self.report(place, "PATH_OUTSIDE", f"`{path}` of `{self.table.job_id(position)}`: {problem}", hint)
        return str(PurePosixPath(path))


def import_folder(table: JobTable, position: int) -> str:
    """The folder that the paths of an imported job lie in: `Intro/`; of an import with loops `Video/ada/`."""
    names = table.name.split("/")[:-1]
    if not table.levels:
        return "".join(f"{name}/" for name in names)
    row, at, parts = table.rows[position], 0, list[str]()
    for name, count in zip(names, table.levels, strict=True):
        parts += [name, *(file_name(str(index)) for index in row[at : at + count])]
        at += count
    return "".join(f"{part}/" for part in parts)


def fill(scope: Scope, workflow: Workflow, table: JobTable) -> JobTable:
    """The table with its slots, condition, outputs and needs."""
    return _Filler(scope, workflow.name, table).filled()


def values_of(scope: Scope, table: JobTable, template: Template, place: Place, kind: str = "Job") -> list[Any]:
    """The value of a template over inputs, by row; `ABSENT` where it has none, which is reported. `kind`: what the rows
    of the table stand for."""
    filler = _Filler(scope, "", table, kind)
    operands = filler.operands(template)
    return [filler.value(template, operands, position, place) for position in range(len(table))]


def declared_jobs(
    workflow: Workflow, inputs: Mapping[str, InputValue], problems: list[Diagnostic], prefix: str = ""
) -> Iterator[tuple[str, JobDecl]]:
    """Every job by its name in the graph (`Intro/Script`), with its action as far as that is known."""
    for name, decl in workflow.jobs.items():
        yield prefix + name, with_action(decl, prefix, inputs, problems)
    for name, imported in workflow.imports.items():
        yield from declared_jobs(imported.workflow, inputs, problems, f"{prefix}{name}/")


def with_action(decl: JobDecl, prefix: str, inputs: Mapping[str, InputValue], problems: list[Diagnostic]) -> JobDecl:
    if decl.uses_by is None:
        return decl
    place = decl.places.get("uses", decl.place)
    table = JobTable(0, prefix + decl.name, JobDecl(name=decl.name, place=decl.place), [()], [""], 0)
    found: dict[str, str] = {}
    for folder in _folders(prefix, inputs_in([decl.uses_by]), inputs):
        (uses,) = values_of(Scope(folder, {}, {}, {}, {}, inputs, problems), table, decl.uses_by, place)
        if isinstance(uses, str) and USES.fullmatch(uses):
            found.setdefault(uses, folder[:-1])
        elif uses is not ABSENT:
            message = f"`uses` of job `{decl.name}` is {uses!r}, which cannot be the name of an action"
            problems.append(place.diagnostic("INVALID_USES", message, "write `shell`, `python`, …"))
            return decl
    if len(found) > 1:
        names = " and ".join(f"`{uses}` in `{folder}`" for uses, folder in list(found.items())[:2])
        message = f"`uses` of job `{decl.name}` is not the same at all indices of its import: {names}"
        problems.append(place.diagnostic("INVALID_USES", message, "write an import for each action"))
    return replace(decl, uses=next(iter(found))) if len(found) == 1 else decl


def _folders(prefix: str, names: set[str], inputs: Mapping[str, InputValue]) -> list[str]:
    """What the IDs of a file's inputs begin with: `Video[ada]/`, `Video[bob]/`, as far as all of these are known."""
    wanted = {f"Input:{prefix}{name}" for name in names}
    found: dict[str, int] = {}
    for id_ in inputs:
        if without_indices(id_) in wanted:
            folder = split_folder(id_)[0].removeprefix("Input:")
            found[folder] = found.get(folder, 0) + 1
    return [folder for folder, number in found.items() if number == len(wanted)] if wanted else [prefix]


def _constant_tail(template: Template) -> str | None:
    """The text after the last expression of a path, if it surely contains the suffix."""
    last = template.parts[-1] if isinstance(template, Formatted) else template
    return f"x{last}" if isinstance(last, str) and "." in last else None


def _lacks_candidates(operands: Sequence[OperandColumn], position: int) -> bool:
    terms = (column.at(position) for column in operands)
    return any(isinstance(term, FirstOf) and not term.candidates for term in terms)


def _reads_artifacts(column: OperandColumn) -> bool:
    if isinstance(column, AlignedArtifact):
        return True
    terms: Sequence[Term] = [column.term] if isinstance(column, SameTerm) else column.terms
    return any(isinstance(s, ArtifactAt) for t in terms for s in sources_of(t))
