"""What one job instance would consume, given the state of the artifacts that it reads. Pure.

Planner and runner both use it: the planner with the artifacts of the log, the runner with those that the run has made.
So the rules of absence, `first`, fan-ins and conditions exist once, and a run does what `explain` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from whyrun.artifacts.hashing import canonical_json, value_sha256
from whyrun.graph.fingerprint import (
    EMPTY_MAPPING,
    artifact_form,
    fingerprint,
    form_of,
    group_token,
    input_form,
    token,
    under,
)
from whyrun.graph.tables import (
    Absent,
    ArtifactAt,
    Computed,
    FirstOf,
    Graph,
    Group,
    InputAt,
    JobTable,
    Known,
    Operand,
    SameTerm,
    Slot,
    Source,
    Term,
)
from whyrun.graph.template import compute, optional_operands
from whyrun.ids import format_indices
from whyrun.planning.artifact_states import (
    ArtifactState,
    ArtifactStates,
    Available,
    NoElement,
    Pending,
    key_of,
)
from whyrun.workflow.arrays import element_type
from whyrun.workflow.expressions.expression import ABSENT, ExpressionError
from whyrun.workflow.model import Opens

SMALL = 256  # bytes of canonical JSON: events and reasons contain values up to this size


def is_small(value: Any) -> bool:
    """Whether events and reasons contain this value itself. The quick tests come first: this runs for every binding."""
    if value is None or isinstance(value, bool | float) or (isinstance(value, str) and len(value) <= SMALL // 6):
        return True
    if isinstance(value, int) and -(1 << 64) < value < 1 << 64:
        return True
    return len(canonical_json(value)) <= SMALL


class Entry(msgspec.Struct, frozen=True):
    """One consumed thing: its source, its content, and the form in which the step receives it."""

    id: str
    sha256: str
    form: str
    value: Any = UNSET
    source: Source | None = None  # None: a parameter
    under: str = ""  # the key of a member of `named(…)`: `[asia][7]`

    @property
    def token(self) -> str:
        return under(token(self.form, self.sha256), self.under)

    def to_json(self) -> dict[str, Any]:
        body = {"id": self.id, "sha256": self.sha256}
        if self.form != "v":
            body["as"] = self.form
        if self.value is not UNSET and is_small(self.value):
            body["value"] = self.value
        if self.under:
            body["under"] = self.under
        return body


class GroupState(msgspec.Struct, frozen=True, eq=False):
    """The state of a fan-in. All its consumers share one."""

    entries: Members
    pending: tuple[ArtifactAt, ...]
    shown: list[str] | dict[str, Any]  # the IDs of the members, as plans write them
    values: list[Any]  # the values of the entries, for expressions


class Members(list[Entry]):
    """The entries of a fan-in. All its consumers share the list and everything derived from it."""

    @cached_property
    def token(self) -> str:
        return group_token([entry.token for entry in self])

    @cached_property
    def contents(self) -> dict[ArtifactAt, str]:
        return {entry.source: entry.sha256 for entry in self if isinstance(entry.source, ArtifactAt)}

    @cached_property
    def recorded(self) -> list[dict[str, Any]]:
        """As the log records it. A single member is marked as `listed`, because a step that receives `[a]` differs from
        one that receives `a`, and nothing else in the record tells them apart."""
        members = [entry.to_json() for entry in self]
        if len(members) == 1:
            members[0]["listed"] = True
        return members

    @property
    def is_named(self) -> bool:
        return bool(self) and bool(self[0].under)


class Decision(msgspec.Struct, frozen=True):
    """The result of a condition, once its inputs are known."""

    result: bool
    inputs: dict[str, Any]


class Consumption(msgspec.Struct):
    """What one instance would consume. `entries` has every known slot: a list for a fan-in, otherwise one entry."""

    entries: dict[str, Entry | Members] = msgspec.field(default_factory=dict)
    shown: dict[str, Any] = msgspec.field(default_factory=dict)  # bindings as plans write them
    singles: dict[ArtifactAt, None] = msgspec.field(default_factory=dict)  # pending artifacts in order, each once
    groups: list[GroupState] = msgspec.field(default_factory=list)  # fan-ins with pending members, never copied
    unknown: list[str] = msgspec.field(default_factory=list)  # slots that wait for a pending artifact
    inactive_by: str | None = None  # the absent source
    decision: Decision | None = None
    undecided: bool = False  # the condition waits for a source
    maybe: bool = False  # it may turn out to be inactive
    problems: dict[str, str] = msgspec.field(default_factory=dict)  # slot (or "if") → why it has no value
    observed: Members | None = None  # artifacts of other jobs that earlier attempts read undeclared

    @property
    def pending(self) -> Iterator[ArtifactAt]:
        """Every pending artifact; one may occur more than once."""
        yield from self.singles
        for group in self.groups:
            yield from group.pending

    @property
    def waits(self) -> bool:
        return bool(self.singles or self.groups)

    @property
    def made_now(self) -> Mapping[ArtifactAt, str]:
        """The content of artifacts that are read undeclared."""
        return self.observed.contents if self.observed else {}

    @property
    def inactive(self) -> bool:
        return self.inactive_by is not None or (self.decision is not None and not self.decision.result)

    @property
    def known(self) -> bool:
        return not self.unknown and not self.problems

    def fingerprint(self, prefix: str, slots: Sequence[Slot]) -> str:
        return fingerprint(prefix, [self.entries[slot.name].token for slot in slots])


class Consumer:
    """Computes consumptions for the instances of a graph. It computes a shared fan-in once."""

    def __init__(
        self,
        graph: Graph,
        artifact_state: Callable[[ArtifactAt], ArtifactState],
        is_final: Callable[[ArtifactAt], bool] | None = None,
    ) -> None:
        """`is_final`: whether the state of this pending artifact will not change. Without it, no state changes."""
        self.graph = graph
        self.states = ArtifactStates(graph, artifact_state)
        self.is_final = is_final
        # By id, and by whether the consumers open texts, because entries contain the form.
        self._groups: dict[tuple[int, Opens], GroupState] = {}
        self._computed: dict[int, tuple[Any, str]] = {}  # by id of a term that instances share
        self._decided: dict[int, Decision] = {}

    def consume(self, table: JobTable, position: int) -> Consumption:
        consumption = Consumption()
        if position in table.open_rows:
            return consumption  # which of each its instances consume is not known yet
        if table.condition is not None:
            self._condition(consumption, table, position)
        for slot in table.slots:
            self._slot(consumption, table, slot, slot.column.at(position), position)
        if table.observed is not None:
            self._observed(consumption, table.observed, table.observed.column.at(position))
        return consumption

    # -- slots --

    def _slot(self, consumption: Consumption, table: JobTable, slot: Slot, term: Term, position: int) -> None:
        name = slot.name
        if isinstance(term, Known):
            consumption.entries[name] = Entry(slot.input_id(table.path(position)), term.sha256, "v", term.value)
        elif isinstance(term, Computed):
            shared = isinstance(slot.column, SameTerm)
            if shared and id(term) in self._computed:  # every instance has the same value
                value, sha256 = self._computed[id(term)]
            else:
                values = self._operands(consumption, term, name)
                if values is None:
                    if name not in consumption.problems:
                        consumption.unknown.append(name)
                    return
                try:
                    value = compute(term.template, values, term.names)
                except ExpressionError as problem:
                    consumption.problems[name] = str(problem)
                    return
                sha256 = value_sha256(value)
                if shared:
                    self._computed[id(term)] = value, sha256
            consumption.entries[name] = Entry(slot.input_id(table.path(position)), sha256, "v", value)
        elif isinstance(term, Group):
            group = self._group(term, table.opens_texts(slot))
            consumption.shown[name] = group.shown
            if group.pending:
                consumption.groups.append(group)
                consumption.unknown.append(name)
            elif term.keys is not None and not group.entries:  # a value: an empty list is something else
                consumption.entries[name] = Entry(slot.input_id(table.path(position)), EMPTY_MAPPING, "v", {})
            else:
                consumption.entries[name] = group.entries
        elif isinstance(term, FirstOf):
            self._first_slot(consumption, name, term, table.opens_texts(slot))
        elif isinstance(term, Absent):
            raise AssertionError("an absent reference outside first and exists passed validation")
        else:
            consumption.shown[name] = self.graph.source_id(term)
            entry = self._source(consumption, term, name, table.opens_texts(slot))
            if entry is None:
                if name not in consumption.problems:
                    consumption.unknown.append(name)
            else:
                consumption.entries[name] = entry

    # `opens` is about what the step receives. As an operand of an expression, a file is only its hash.

    def _source(
        self, consumption: Consumption, source: Source, slot: str, opens: Opens = Opens.NOWHERE
    ) -> Entry | None:
        """The entry of a required source; None if it is pending, absent, or no element of its list, which is a problem
        of the slot."""
        if isinstance(source, InputAt):
            return _input_entry(source, opens)
        state = self.states.of(source)
        if isinstance(state, Available):
            return self._artifact_entry(source, state, opens)
        if state is None:
            consumption.inactive_by = consumption.inactive_by or self.graph.artifact_id(source)
        elif isinstance(state, NoElement):
            consumption.problems[slot] = state.message
        else:
            consumption.singles[source.whole] = None
            consumption.maybe = consumption.maybe or state.maybe
        return None

    def _artifact_entry(self, at: ArtifactAt, available: Available, opens: Opens) -> Entry:
        table = self.graph.tables[at.table]
        if at.element is None:
            form = artifact_form(table, at.artifact, opens)
        else:
            form = form_of(element_type(table.artifacts[at.artifact].type), available.suffix, opens)
        return Entry(self.graph.artifact_id(at), available.sha256, form, available.value, at)

    def _group(self, group: Group, opens: Opens = Opens.NOWHERE) -> GroupState:
        opens = opens.inside
        key = id(group), opens
        cached = self._groups.get(key)
        if cached is not None:
            return cached
        entries = Members()
        pending: list[ArtifactAt] = []
        ids: list[str] = []
        for number, member in enumerate(group.members):
            own = "" if group.keys is None else format_indices(group.keys[number])
            if isinstance(member, InputAt):
                entries.append(_under(_input_entry(member, opens), own))
                ids.append(member.id)
                continue
            state = self.states.of(member)
            if state is None or isinstance(state, NoElement):
                continue  # a fan-in leaves out inactive members, and lists without that element
            if isinstance(state, Pending):
                ids.append(self.graph.artifact_id(member))
                pending.append(member.whole)
                continue
            for at, available in self.states.members(member, state):
                ids.append(self.graph.artifact_id(at))
                under_key = own if at is member or group.keys is None else own + format_indices([key_of(at)])
                entries.append(_under(self._artifact_entry(at, available, opens), under_key))
        is_open = any(at.position in self.graph.tables[at.table].open_rows for at in pending)
        shown: list[str] | dict[str, Any] = {"open": ids[0] if len(ids) == 1 else ids} if is_open else ids
        group_state = GroupState(entries, tuple(pending), shown, [_entry_value(entry) for entry in entries])
        if self.is_final is None or all(map(self.is_final, pending)):
            self._groups[key] = group_state
        return group_state

    def _first(
        self, consumption: Consumption, term: FirstOf, opens: Opens = Opens.NOWHERE
    ) -> tuple[Entry | None, list[str]]:
        """(the chosen candidate, the IDs of all candidates that can still be chosen). If no candidate is left, the
        instance is inactive by the last one."""
        left: list[str] = []
        for candidate in term.candidates:
            if isinstance(candidate, InputAt):
                left.append(candidate.id)
                return (_input_entry(candidate, opens) if len(left) == 1 else None), left
            state = self.states.of(candidate)
            if state is None or isinstance(state, NoElement):
                continue
            if isinstance(state, Available):
                found = next(self.states.members(candidate, state), None)
                if found is None:
                    continue  # an array without elements
                left.append(self.graph.artifact_id(found[0]))
                return (self._artifact_entry(*found, opens) if len(left) == 1 else None), left
            left.append(self.graph.artifact_id(candidate))
            consumption.singles[candidate.whole] = None
            if not state.maybe and candidate.element is None:
                return None, left
        if left:  # all of them may turn out to be inactive
            consumption.maybe = True
        else:
            last = self.graph.source_id(term.candidates[-1]) if term.candidates else term.absent or "first()"
            consumption.inactive_by = consumption.inactive_by or last
        return None, left

    def _first_slot(self, consumption: Consumption, name: str, term: FirstOf, opens: Opens) -> None:
        entry, left = self._first(consumption, term, opens)
        if not left:
            return
        consumption.shown[name] = left[0] if entry is not None or len(left) == 1 else {"first": left}
        if entry is None:
            consumption.unknown.append(name)
        else:
            consumption.entries[name] = entry

    def _observed(self, consumption: Consumption, slot: Slot, term: Term) -> None:
        assert isinstance(term, Group)
        group = self._group(term)
        if group.pending:
            consumption.groups.append(group)
            consumption.unknown.append(slot.name)
        consumption.observed = group.entries

    # -- values and conditions --

    def _operands(self, consumption: Consumption, term: Computed, slot: str) -> list[Any] | None:
        """The values of all operands, or None if one is pending or absent."""
        optional = optional_operands(term.template)
        values: list[Any] = []
        complete = True
        for i, operand in enumerate(term.operands):
            known, value = self._operand(consumption, operand, slot, optional=i in optional)
            complete = complete and known
            values.append(value)
        return values if complete else None

    def _operand(self, consumption: Consumption, operand: Operand, slot: str, *, optional: bool) -> tuple[bool, Any]:
        if isinstance(operand, Absent):
            return True, ABSENT
        if isinstance(operand, Group):
            group = self._group(operand)
            if group.pending:
                consumption.groups.append(group)
            return not group.pending, group.values
        if isinstance(operand, FirstOf):
            entry, _ = self._first(consumption, operand)
            return entry is not None, None if entry is None else _entry_value(entry)
        if optional and isinstance(operand, ArtifactAt) and isinstance(self.states.of(operand), NoElement | None):
            return True, ABSENT
        entry = self._source(consumption, operand, slot)
        return entry is not None, None if entry is None else _entry_value(entry)

    def _condition(self, consumption: Consumption, table: JobTable, position: int) -> None:
        assert table.condition is not None
        term = table.condition.at(position)
        shared = isinstance(table.condition.operands, SameTerm)
        if shared and id(term) in self._decided:
            consumption.decision = self._decided[id(term)]
            return
        values = self._operands(consumption, term, "if")
        if consumption.inactive_by is not None:
            return
        if values is None or consumption.waits:  # no slot was looked at yet, so only the condition can wait
            consumption.undecided = consumption.maybe = True
            return
        try:
            result = bool(compute(term.template, values, term.names))
        except ExpressionError as problem:
            consumption.problems["if"] = str(problem)
            consumption.undecided = consumption.maybe = True
            return
        consumption.decision = Decision(result, self._named(term, values))
        if shared:
            self._decided[id(term)] = consumption.decision

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
                    state = self.states.of(source)
                    for at, available in self.states.members(source, state) if isinstance(state, Available) else ():
                        value = available.sha256 if available.value is UNSET else available.value
                        named[self.graph.artifact_id(at)] = value
        return named


def _input_entry(source: InputAt, opens: Opens) -> Entry:
    value = UNSET if source.value.type.is_path else source.value.value
    return Entry(source.id, source.value.sha256, input_form(source.value, opens), value, source)


def _under(entry: Entry, key: str) -> Entry:
    return replace(entry, under=key) if key else entry


def _entry_value(entry: Entry) -> Any:
    return entry.sha256 if entry.value is UNSET else entry.value
