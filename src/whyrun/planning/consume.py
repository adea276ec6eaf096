"""What one job instance would consume, given what is known of its sources. Pure.

Planner and runner both ask here: the planner with what the log says, the runner with what the run has made so far. So
the rules of absence, `first`, fan-in and conditions exist once, and what is explained is what is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from whyrun.artifacts.hashing import canonical_json, value_sha256
from whyrun.graph.fingerprint import artifact_form, fingerprint, group_token, input_form, token
from whyrun.graph.graph import (
    Absent,
    ArtifactAt,
    Computed,
    FirstOf,
    Graph,
    Group,
    InputAt,
    JobTable,
    Known,
    Opens,
    Operand,
    SameTerm,
    Slot,
    Source,
    Term,
)
from whyrun.graph.template import compute, optional_operands
from whyrun.workflow.expression import ABSENT, ExpressionError

SMALL = 256  # bytes of canonical JSON: values up to this stand in events and reasons


def is_small(value: Any) -> bool:
    """May this value stand in full in events and reasons? The quick tests first: it is asked for every binding."""
    if value is None or isinstance(value, bool | float) or (isinstance(value, str) and len(value) <= SMALL // 6):
        return True
    if isinstance(value, int) and -(1 << 64) < value < 1 << 64:
        return True
    return len(canonical_json(value)) <= SMALL


class Seen(NamedTuple):
    """An artifact whose content is known."""

    sha256: str
    value: Any = UNSET  # value outputs and leaves


class Pending(NamedTuple):
    """An artifact that is still to be made. `maybe`: its job may turn out to be inactive."""

    maybe: bool


Look = Seen | Pending | None  # None: its job is inactive


class Entry(NamedTuple):
    """One thing consumed: where it came from, its content, and the form in which it is handed over."""

    id: str
    sha256: str
    form: str
    value: Any = UNSET
    source: Source | None = None  # None: a parameter

    @property
    def token(self) -> str:
        return token(self.form, self.sha256)

    def to_json(self) -> dict[str, Any]:
        found = {"id": self.id, "sha256": self.sha256}
        if self.form != "v":
            found["as"] = self.form
        if self.value is not UNSET and is_small(self.value):
            found["value"] = self.value
        return found


class GroupState(msgspec.Struct, frozen=True, eq=False):
    """What is known of a fan-in. Many consumers may share one."""

    entries: Members
    pending: tuple[ArtifactAt, ...]
    ids: list[str]
    values: list[Any]  # of the entries, for expressions


class Members(list[Entry]):
    """The entries of a fan-in. Shared by all its consumers, and so is what is derived from the whole list."""

    @cached_property
    def token(self) -> str:
        return group_token([entry.token for entry in self])

    @cached_property
    def recorded(self) -> list[dict[str, Any]]:
        """As its record says it. The only member of a fan-in says that it stood in a list: to be given `[a]` and to be
        given `a` are two things, and nothing else in the record would tell them apart."""
        members = [entry.to_json() for entry in self]
        if len(members) == 1:
            members[0]["listed"] = True
        return members


class Decision(NamedTuple):
    """A condition whose inputs are known."""

    result: bool
    inputs: dict[str, Any]


class Consumption(msgspec.Struct):
    """The answer for one instance. `entries` has every slot that is known; a fan-in is a list, others a single."""

    entries: dict[str, Entry | Members] = msgspec.field(default_factory=dict)
    shown: dict[str, Any] = msgspec.field(default_factory=dict)  # bindings as the plan writes them
    singles: dict[ArtifactAt, None] = msgspec.field(default_factory=dict)  # pending, in order, each once
    groups: list[GroupState] = msgspec.field(default_factory=list)  # fan-ins with pending members: shared, never copied
    unknown: list[str] = msgspec.field(default_factory=list)
    inactive_by: str | None = None  # the source that is absent, or None
    decision: Decision | None = None
    undecided: bool = False  # the condition waits for a source
    maybe: bool = False  # may yet turn out to be inactive
    problems: dict[str, str] = msgspec.field(default_factory=dict)  # slot ("if": the condition) → why it has no value

    @property
    def pending(self) -> Iterator[ArtifactAt]:
        """Every artifact that is still to be made; one may come more than once."""
        yield from self.singles
        for group in self.groups:
            yield from group.pending

    @property
    def waits(self) -> bool:
        return bool(self.singles or self.groups)

    @property
    def inactive(self) -> bool:
        return self.inactive_by is not None or (self.decision is not None and not self.decision.result)

    @property
    def known(self) -> bool:
        return not self.unknown and not self.problems

    def fingerprint(self, prefix: str, slots: Sequence[Slot]) -> str:
        return fingerprint(prefix, [self.entries[slot.name].token for slot in slots])


class Consumer:
    """Answers for the instances of a graph. Fan-ins that many share are looked at once."""

    def __init__(
        self, graph: Graph, look: Callable[[ArtifactAt], Look], is_final: Callable[[ArtifactAt], bool] | None = None
    ) -> None:
        """`is_final`: will what `look` says of this pending artifact stay so? Without it, it always will."""
        self.graph = graph
        self.look = look
        self.is_final = is_final
        # By id, and by what their consumers do with texts: an entry says how it is handed over.
        self._groups: dict[tuple[int, Opens], GroupState] = {}
        self._computed: dict[int, tuple[Any, str]] = {}  # by id of a term that all instances of a job share
        self._decided: dict[int, Decision] = {}

    def consume(self, table: JobTable, position: int) -> Consumption:
        found = Consumption()
        if table.condition is not None:
            self._condition(found, table, position)
        for slot in table.slots:
            self._slot(found, table, slot, slot.column.at(position), position)
        return found

    # -- slots --

    def _slot(self, found: Consumption, table: JobTable, slot: Slot, term: Term, position: int) -> None:
        name = slot.name
        if isinstance(term, Known):
            found.entries[name] = Entry(slot.input_id(table.path(position)), term.sha256, "v", term.value)
        elif isinstance(term, Computed):
            shared = isinstance(slot.column, SameTerm)
            if shared and id(term) in self._computed:  # the same for every instance, and known already
                value, sha256 = self._computed[id(term)]
            else:
                values = self._operands(found, term, optional_operands(term.template))
                if values is None:
                    found.unknown.append(name)
                    return
                try:
                    value = compute(term.template, values, term.names)
                except ExpressionError as problem:
                    found.problems[name] = str(problem)
                    return
                sha256 = value_sha256(value)
                if shared:
                    self._computed[id(term)] = value, sha256
            found.entries[name] = Entry(slot.input_id(table.path(position)), sha256, "v", value)
        elif isinstance(term, Group):
            group = self._group(term, table.opens_texts(slot))
            found.shown[name] = group.ids
            if group.pending:
                found.groups.append(group)
                found.unknown.append(name)
            else:
                found.entries[name] = group.entries
        elif isinstance(term, FirstOf):
            self._first_slot(found, name, term, table.opens_texts(slot))
        elif isinstance(term, Absent):
            raise AssertionError("an absent reference outside first and exists passed validation")
        else:
            found.shown[name] = self.graph.source_id(term)
            entry = self._source(found, term, table.opens_texts(slot))
            if entry is None:
                found.unknown.append(name)
            else:
                found.entries[name] = entry

    # `opens` is about what is handed over; as an operand of an expression a file is nothing but its hash.

    def _source(self, found: Consumption, source: Source, opens: Opens = Opens.NOWHERE) -> Entry | None:
        """The entry of a required source; None while it is pending or when it is absent."""
        if isinstance(source, InputAt):
            return _input_entry(source, opens)
        look = self.look(source)
        if isinstance(look, Seen):
            return self._artifact_entry(source, look, opens)
        if look is None:
            found.inactive_by = found.inactive_by or self.graph.artifact_id(source)
        else:
            found.singles[source] = None
            found.maybe = found.maybe or look.maybe
        return None

    def _artifact_entry(self, at: ArtifactAt, look: Seen, opens: Opens) -> Entry:
        form = artifact_form(self.graph.tables[at.table], at.artifact, opens)
        return Entry(self.graph.artifact_id(at), look.sha256, form, look.value, at)

    def _group(self, group: Group, opens: Opens = Opens.NOWHERE) -> GroupState:
        opens = opens.inside
        key = id(group), opens
        cached = self._groups.get(key)
        if cached is not None:
            return cached
        entries = Members()
        pending: list[ArtifactAt] = []
        ids: list[str] = []
        for member in group.members:
            if isinstance(member, InputAt):
                entries.append(_input_entry(member, opens))
                ids.append(member.id)
                continue
            look = self.look(member)
            if look is None:
                continue  # an inactive member is simply not in a fan-in
            ids.append(self.graph.artifact_id(member))
            if isinstance(look, Pending):
                pending.append(member)
            else:
                entries.append(self._artifact_entry(member, look, opens))
        state = GroupState(entries, tuple(pending), ids, [_entry_value(entry) for entry in entries])
        if self.is_final is None or all(map(self.is_final, pending)):
            self._groups[key] = state
        return state

    def _first(self, found: Consumption, term: FirstOf, opens: Opens = Opens.NOWHERE) -> tuple[Entry | None, list[str]]:
        """(the chosen one, the candidates that are left). Without any, the instance is inactive, by the last one."""
        left: list[str] = []
        for candidate in term.candidates:
            if isinstance(candidate, InputAt):
                left.append(candidate.id)
                return (_input_entry(candidate, opens) if len(left) == 1 else None), left
            look = self.look(candidate)
            if look is None:
                continue
            left.append(self.graph.artifact_id(candidate))
            if isinstance(look, Seen):
                return (self._artifact_entry(candidate, look, opens) if len(left) == 1 else None), left
            found.singles[candidate] = None
            if not look.maybe:
                return None, left
        if left:  # every candidate that is left may turn out to be inactive
            found.maybe = True
        else:
            last = self.graph.source_id(term.candidates[-1]) if term.candidates else "first()"
            found.inactive_by = found.inactive_by or last
        return None, left

    def _first_slot(self, found: Consumption, name: str, term: FirstOf, opens: Opens) -> None:
        entry, left = self._first(found, term, opens)
        if not left:
            return
        found.shown[name] = left[0] if entry is not None or len(left) == 1 else {"first": left}
        if entry is None:
            found.unknown.append(name)
        else:
            found.entries[name] = entry

    # -- values and conditions --

    def _operands(self, found: Consumption, term: Computed, optional: frozenset[int]) -> list[Any] | None:
        """The values of all operands, or None while one is pending or absent."""
        values: list[Any] = []
        complete = True
        for i, operand in enumerate(term.operands):
            known, value = self._operand(found, operand, optional=i in optional)
            complete = complete and known
            values.append(value)
        return values if complete else None

    def _operand(self, found: Consumption, operand: Operand, *, optional: bool) -> tuple[bool, Any]:
        if isinstance(operand, Absent):
            return True, ABSENT
        if isinstance(operand, Group):
            group = self._group(operand)
            if group.pending:
                found.groups.append(group)
            return not group.pending, group.values
        if isinstance(operand, FirstOf):
            entry, _ = self._first(found, operand)
            return entry is not None, None if entry is None else _entry_value(entry)
        if optional and isinstance(operand, ArtifactAt) and self.look(operand) is None:
            return True, ABSENT
        entry = self._source(found, operand)
        return entry is not None, None if entry is None else _entry_value(entry)

    def _condition(self, found: Consumption, table: JobTable, position: int) -> None:
        assert table.condition is not None
        term = table.condition.at(position)
        shared = isinstance(table.condition.operands, SameTerm)
        if shared and id(term) in self._decided:
            found.decision = self._decided[id(term)]
            return
        optional = optional_operands(term.template)
        values = self._operands(found, term, optional)
        if found.inactive_by is not None:
            return
        if values is None or found.waits:  # the condition comes first: nothing else waits yet
            found.undecided = found.maybe = True
            return
        try:
            result = bool(compute(term.template, values, term.names))
        except ExpressionError as problem:
            found.problems["if"] = str(problem)
            found.undecided = found.maybe = True
            return
        found.decision = Decision(result, self._named(term, values))
        if shared:
            self._decided[id(term)] = found.decision

    def _named(self, term: Computed, values: Sequence[Any]) -> dict[str, Any]:
        """The condition's inputs by ID, for the record."""
        named: dict[str, Any] = {}
        for operand, value in zip(term.operands, values, strict=True):
            if isinstance(operand, ArtifactAt | InputAt):
                named[self.graph.source_id(operand)] = None if value is ABSENT else value
            elif isinstance(operand, Group | FirstOf):
                sources = operand.members if isinstance(operand, Group) else operand.candidates
                for source in sources:
                    if isinstance(source, InputAt):
                        named[source.id] = source.value.value
                        continue
                    look = self.look(source)
                    if isinstance(look, Seen):
                        named[self.graph.artifact_id(source)] = look.sha256 if look.value is UNSET else look.value
        return named


def _input_entry(source: InputAt, opens: Opens) -> Entry:
    value = UNSET if source.value.type.is_path else source.value.value
    return Entry(source.id, source.value.sha256, input_form(source.value, opens), value, source)


def _entry_value(entry: Entry) -> Any:
    return entry.sha256 if entry.value is UNSET else entry.value
