"""The expanded graph: every job instance with what it consumes and makes, as columns per job.

A workflow of 100,000 instances has a handful of jobs. So the graph is a handful of tables: one `JobTable` per job, one
row ("position") per loop instance, and one `Slot` per thing that an instance consumes, holding a column over the rows.
A column with one value for all rows, or with one row of another table per row, is stored as such. ID texts are made
only on demand. A node is a number: `table.base + position`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from whyrun.graph.id_lookup import ArtifactsByName, NodesByName
from whyrun.graph.paths import ArtifactSpec, OutputColumn
from whyrun.graph.ragged import Results
from whyrun.ids import Index, format_index, format_indices, place_of
from whyrun.workflow.arrays import Every
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Expression, JobDecl, Opens, Place, Workflow

# --- what one instance's slot refers to --------------------------------------------------------------------------


class ArtifactAt(NamedTuple):
    """One artifact: a column of a table, at a row. Of an array, whose elements are known once it is made: the list
    itself, the element with this key, or every element (only in fan-ins)."""

    table: int
    artifact: int
    position: int
    element: Index | Every | None = None

    @property
    def whole(self) -> ArtifactAt:
        """The list, of an element."""
        return self if self.element is None else ArtifactAt(*self[:3])


class InputAt(NamedTuple):
    """A workflow input or an element of one, with its value."""

    id: str
    value: InputValue


Source = ArtifactAt | InputAt


class Group(NamedTuple):
    """A fan-in: its members in loop order. One object per selection, shared by all consumers (never N × M edges)."""

    members: tuple[Source, ...]
    keys: tuple[tuple[Index, ...], ...] | None = None  # `named(…)`: by member, one index for each `:`


class FirstOf(NamedTuple):
    """`first(…)` without absent neighbours, up to the first candidate that is surely active. If empty: inactive."""

    candidates: tuple[Source, ...]
    absent: str = ""  # the input that is absent, where it is needed outside of `first`


class Known(NamedTuple):
    """A value that is known at expansion: a literal, or computed from inputs and loop variables."""

    value: Any
    sha256: str


class Computed(NamedTuple):
    """A value to be computed from small artifact values once they are known."""

    template: Any
    operands: tuple[Operand, ...]
    names: Mapping[str, Any]


class Absent(NamedTuple):
    """A reference inside `exists(…)` or `first(…)` to an element that does not exist."""


Operand = ArtifactAt | InputAt | Group | FirstOf | Absent
Term = ArtifactAt | InputAt | Group | FirstOf | Known | Computed


# --- columns -----------------------------------------------------------------------------------------------------


class SameTerm(msgspec.Struct, frozen=True):
    """Every row has this term."""

    term: Term

    def at(self, position: int) -> Term:
        return self.term


class EachTerm(msgspec.Struct, frozen=True):
    """Row p has terms[p]."""

    terms: Sequence[Term]

    def at(self, position: int) -> Term:
        return self.terms[position]

    @property
    def kinds(self) -> set[type[Term]]:
        return set(map(type, self.terms))


class AlignedArtifact(msgspec.Struct, frozen=True):
    """Row p consumes row p of another table's column: the most common case, stored without one object per row."""

    table: int
    artifact: int

    def at(self, position: int) -> Term:
        return ArtifactAt(self.table, self.artifact, position)


Column = SameTerm | EachTerm | AlignedArtifact


class Slot(msgspec.Struct, frozen=True):
    """One thing that a job consumes. `name` is the binding's or parameter's name: `SourceImages[0]`, `caption`.

    Environment variables are `.env.NAME`; a leading dot cannot clash with an entry of `with:`.
    """

    name: str
    binding: bool  # else a parameter
    path: tuple[str | int, ...]  # its path in `with:` (or ("NAME",) in `env:`)
    area: str  # "with" or "env"
    column: Column
    place: Place

    def input_id(self, job: str) -> str:
        """The canonical input ID of a parameter: `Input:Clip[1].with.caption`."""
        tail = self.name if self.area == "with" else self.path[0]
        return f"Input:{job}.{self.area}.{tail}"


class Condition(msgspec.Struct, frozen=True):
    expression: Expression
    operands: Column | None  # rows of Computed, whose operands are those of expression.refs

    def at(self, position: int) -> Computed:
        assert self.operands is not None
        term = self.operands.at(position)
        assert isinstance(term, Computed)
        return term


class JobTable(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One job. `dict` is for the cached properties only: a changed table is a new one, without what the old cached."""

    number: int
    name: str  # with its imports: "Intro/Script"
    decl: JobDecl
    rows: Sequence[tuple[Index, ...]]
    texts: Sequence[str]  # "[asia][7]" by row; [""] where there is no loop
    base: int
    outputs: tuple[OutputColumn, ...] = ()
    artifacts: tuple[ArtifactSpec, ...] = ()
    slots: tuple[Slot, ...] = ()
    condition: Condition | None = None
    needs: tuple[int, ...] = ()
    names: Mapping[str, Any] = msgspec.field(default_factory=dict)
    only_paths: bool = False  # a plan of an older Whyrun, whose actions received the content of no text
    open_rows: frozenset[int] = frozenset()  # `[?]`: each stands for all rows of a loop that is not known
    gates: tuple[tuple[int, Column], ...] = ()  # of a loop over a result: its place in `for:`, and the result by row
    levels: tuple[int, ...] = ()  # of an import that runs for loops: how many of the indices each import has
    observed: Slot | None = None  # what other jobs publish and earlier attempts read undeclared: groups of artifacts

    def __len__(self) -> int:
        return len(self.rows)

    def path(self, position: int) -> str:
        """The job ID without its kind."""
        if self.levels:
            return "".join(self.ends_at(position))
        return self.name + self.texts[position]

    def ends_at(self, position: int) -> tuple[str, str]:
        """What comes before an output in its IDs, and what after it: `Video[ada]/Clip`, `[0]`."""
        if not self.levels:
            return self.name, self.texts[position]
        outer, heads = self.rows[position][: sum(self.levels)], self.__dict__.setdefault("heads", {})
        if outer not in heads:
            heads[outer] = place_of(self.name, self.levels, outer)[0], len(format_indices(outer))
        head, cut = heads[outer]
        return head, self.texts[position][cut:]

    def job_id(self, position: int) -> str:
        return f"Job:{self.path(position)}"

    def output_id(self, output: str, position: int) -> str:
        before, after = self.ends_at(position)
        return f"Artifact:{before}.{output}{after}"

    def artifact_id(self, artifact: int, position: int) -> str:
        return (
            f"{self.output_id(self.artifacts[artifact].output, position)}{self.artifacts[artifact].leaf_at(position)}"
        )

    def part(self, positions: Sequence[int]) -> JobTable:
        """Some of its rows, as far as references need them."""
        rows, texts = [self.rows[p] for p in positions], [self.texts[p] for p in positions]
        opens = frozenset(number for number, p in enumerate(positions) if p in self.open_rows)
        return replace(self, rows=rows, texts=texts, open_rows=opens)

    def artifact_ids(self, artifact: int) -> list[str]:
        """The whole column of IDs at once; planning calls this most."""
        if self.levels:
            return [self.artifact_id(artifact, position) for position in range(len(self))]
        spec = self.artifacts[artifact]
        head = f"Artifact:{self.name}.{spec.output}"
        if spec.leaf_by_row is not None:
            return [f"{head}{t}{leaf}" for t, leaf in zip(self.texts, spec.leaf_by_row, strict=True)]
        leaf = spec.leaf
        return [f"{head}{t}{leaf}" for t in self.texts]

    def job_ids(self) -> list[str]:
        return self._job_ids

    @cached_property
    def _job_ids(self) -> list[str]:
        if self.levels:
            return [self.job_id(position) for position in range(len(self))]
        return [f"Job:{self.name}{text}" for text in self.texts]

    @cached_property
    def output_number(self) -> dict[str, int]:
        return {output.name: i for i, output in enumerate(self.outputs)}

    def output_of(self, artifact: int) -> OutputColumn:
        return self.outputs[self.output_number[self.artifacts[artifact].output]]

    @cached_property
    def position_of(self) -> dict[tuple[Index, ...], int]:
        return {row: i for i, row in enumerate(self.rows)}

    @cached_property
    def opens(self) -> Opens:
        if self.only_paths or self.decl.uses == "shell":
            return Opens.NOWHERE
        if self.decl.uses == "python":
            return Opens.NOWHERE if "script" in self.decl.with_ else Opens.ALONE
        return Opens.ANYWHERE

    def opens_texts(self, slot: Slot) -> Opens:
        """Where the action may receive the content of `text` files of this slot."""
        return self.opens if len(slot.path) == 1 else self.opens.inside

    def operand_columns(self) -> Iterator[tuple[Slot | None, Column]]:
        """Everything that an instance depends on by content or by condition (None), not by `needs`."""
        for slot in self.slots:
            yield slot, slot.column
        if self.observed is not None:
            yield self.observed, self.observed.column
        if self.condition is not None and self.condition.operands is not None:
            yield None, self.condition.operands
        for _, column in self.gates:
            yield None, column


def sources_of(term: Term | Operand) -> Iterator[Source]:
    """Every source of a term, including members of a fan-in and all candidates of `first`."""
    if isinstance(term, ArtifactAt | InputAt):
        yield term
    elif isinstance(term, Group):
        yield from term.members
    elif isinstance(term, FirstOf):
        yield from term.candidates
    elif isinstance(term, Computed):
        for operand in term.operands:
            yield from sources_of(operand)


class Graph(msgspec.Struct, frozen=True, eq=False, dict=True):
    workflow: Workflow
    inputs: Mapping[str, InputValue]  # by canonical ID: Input:Topic, Input:Intro/Topic
    tables: tuple[JobTable, ...]
    asked: Mapping[str, Mapping[str, Sequence[str]]] = {}  # sites that output hooks returned
    connected: Mapping[str, Mapping[str, Any]] = {}  # slots that hold connections, as written
    results: Results = msgspec.field(default_factory=Results)  # that loops go over

    @cached_property
    def bases(self) -> list[int]:
        return [table.base for table in self.tables]

    @cached_property
    def size(self) -> int:
        return sum(map(len, self.tables))

    def table_at(self, node: int) -> tuple[JobTable, int]:
        table = self.tables[bisect_right(self.bases, node) - 1]
        return table, node - table.base

    def job_id(self, node: int) -> str:
        table, position = self.table_at(node)
        return table.job_id(position)

    @cached_property
    def node_of(self) -> Mapping[str, int]:
        """Job ID → node, for IDs of the command line and of events."""
        return NodesByName(self.tables)

    @cached_property
    def artifact_of(self) -> Mapping[str, ArtifactAt]:
        return ArtifactsByName(self.tables)

    def artifact_id(self, at: ArtifactAt) -> str:
        whole = self.tables[at.table].artifact_id(at.artifact, at.position)
        if at.element is None or at.element is Every.ELEMENT:
            return whole
        return f"{whole}[{format_index(at.element)}]"

    def source_id(self, source: Source) -> str:
        return source.id if isinstance(source, InputAt) else self.artifact_id(source)

    def node(self, at: ArtifactAt) -> int:
        return self.tables[at.table].base + at.position

    def upstream(self, node: int) -> Iterator[int]:
        """The nodes whose artifacts this one may read; may repeat. Without `needs`."""
        table, position = self.table_at(node)
        for _, column in table.operand_columns():
            for source in sources_of(column.at(position)):
                if isinstance(source, ArtifactAt):
                    yield self.node(source)

    @cached_property
    def _consumers(self) -> list[list[tuple[JobTable, Column]]]:
        """By producing table: the columns that read from it."""
        found: list[list[tuple[JobTable, Column]]] = [[] for _ in self.tables]
        for table in self.tables:
            for _, column in table.operand_columns():
                for number in tables_read(column):
                    found[number].append((table, column))
        return found

    @cached_property
    def readers(self) -> set[int]:
        """The tables that read from any, by number."""
        return {table.number for consumers in self._consumers for table, _ in consumers}

    @cached_property
    def _inverse(self) -> dict[tuple[int, int], dict[int, list[Sequence[int]]]]:
        return {}

    def dependents(self, node: int) -> Iterator[int]:
        """The nodes that read, or may read (a candidate of `first`), an artifact of this one; may repeat."""
        for base, rows in self.dependent_rows(node):
            for row in rows:
                yield base + row

    def dependent_rows(self, node: int) -> Iterator[tuple[int, Sequence[int]]]:
        """The same as (base of the table, rows). Members of a fan-in share one list, which a walk visits once."""
        table, position = self.table_at(node)
        for consumer, column in self._consumers[table.number]:
            if isinstance(column, AlignedArtifact):
                yield consumer.base, (position,)
                continue
            key = (id(column), table.number)
            inverse = self._inverse.get(key)
            if inverse is None:
                inverse = self._inverse[key] = _invert(column, len(consumer), table.number)
            for rows in inverse.get(position, ()):
                yield consumer.base, rows

    def downstream(self, roots: Iterable[int], within: Container[int] | None = None) -> set[int]:
        """The roots and everything that depends on them through artifacts; `within`: only through these nodes."""
        seen = set(roots)
        stack = list(seen)
        lists: set[int] = set()  # shared lists that were followed already
        while stack:
            for base, rows in self.dependent_rows(stack.pop()):
                if len(rows) > 1:
                    if id(rows) in lists:
                        continue
                    lists.add(id(rows))
                for row in rows:
                    if base + row not in seen and (within is None or base + row in within):
                        seen.add(base + row)
                        stack.append(base + row)
        return seen


def tables_read(column: Column) -> set[int]:
    if isinstance(column, AlignedArtifact):
        return {column.table}
    if isinstance(column, EachTerm) and column.kinds <= {InputAt, Known}:
        return set()
    terms = [column.term] if isinstance(column, SameTerm) else column.terms
    return {s.table for part in parts_of(terms) for s in sources_of(part) if isinstance(s, ArtifactAt)}


def parts_of(terms: Iterable[Term]) -> Iterator[Operand]:
    """The operands of many terms; a shared fan-in comes once, at any depth."""
    seen: set[int] = set()
    for term in terms:
        for part in operands_of(term):
            if isinstance(part, Group):
                if id(part) in seen:
                    continue
                seen.add(id(part))
            yield part


def operands_of(term: Term | Operand) -> Sequence[Operand]:
    if isinstance(term, Computed):
        return term.operands
    return () if isinstance(term, Known) else (term,)


def _invert(column: SameTerm | EachTerm, rows: int, table: int) -> dict[int, list[Sequence[int]]]:
    """Producing row → lists of consuming rows. All members of a fan-in get the same list object."""
    inverse: dict[int, list[Sequence[int]]] = {}

    def add(sources: Iterable[Source], consumers: Sequence[int]) -> None:
        for position in {s.position for s in sources if isinstance(s, ArtifactAt) and s.table == table}:
            inverse.setdefault(position, []).append(consumers)

    if isinstance(column, SameTerm):
        add(sources_of(column.term), range(rows))
        return inverse
    singles: dict[int, list[int]] = {}
    groups: dict[int, tuple[Group, list[int]]] = {}
    for p, term in enumerate(column.terms):
        for part in operands_of(term):
            if isinstance(part, Group):
                groups.setdefault(id(part), (part, []))[1].append(p)
                continue
            for source in sources_of(part):
                if isinstance(source, ArtifactAt) and source.table == table:
                    singles.setdefault(source.position, []).append(p)
    for position, consumers in singles.items():
        inverse.setdefault(position, []).append(consumers)
    for group, consumers in groups.values():
        add(group.members, consumers)
    return inverse
