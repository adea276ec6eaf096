"""Finds the instances that may not be clean, by comparing whole columns. Pure.

Most instances of a large workflow are up to date, and showing that must cost nearly nothing. An instance that is no
suspect is clean: its fingerprint is that of its latest, successful attempt, its outputs are recorded and present, and
it has no condition. It can still become dirty through a change upstream, which the planner follows along the edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import repeat

import msgspec

from whyrun.artifacts.hash_column import HashColumn
from whyrun.artifacts.hashing import value_sha256
from whyrun.graph.fingerprint import (
    EMPTY_MAPPING,
    artifact_form,
    counted,
    fingerprint,
    form_of,
    group_token,
    input_form,
    input_tokens,
    prefixes,
    token,
    under,
)
from whyrun.graph.tables import (
    Absent,
    AlignedArtifact,
    ArtifactAt,
    Column,
    Computed,
    FirstOf,
    Group,
    InputAt,
    JobTable,
    Known,
    SameTerm,
    Term,
)
from whyrun.graph.template import compute
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.arrays import Element, Every, element_type
from whyrun.workflow.expressions.expression import ExpressionError
from whyrun.workflow.model import Opens


class _Tokens(msgspec.Struct, frozen=True):
    """The tokens of one slot by row; None where the log alone does not tell.

    They are stored as one token for all rows, as one text per row, or as one hash per row and a common form.
    """

    rows: int
    same: str | None = None
    texts: Sequence[str | None] | None = None
    hashes: HashColumn | None = None
    form: str = ""

    def parts(self) -> tuple[bytes, ...] | None:
        """All tokens as bytes, for a digest; None if one is not known."""
        if self.hashes is not None:
            whole = self.hashes.whole
            return None if whole is None else (b"hashes", self.form.encode(), whole)
        if self.texts is None:
            return None if self.same is None else (b"same", self.same.encode())
        return None if None in self.texts else (b"texts", "\0".join(self.texts).encode())  # type: ignore[arg-type]

    def by_row(self) -> Sequence[str | None]:
        if self.hashes is not None:
            letter, suffix = self.form[0], self.form[1:]
            return [None if sha is None else f"{letter}{sha}{suffix}" for sha in self.hashes]
        return [self.same] * self.rows if self.texts is None else self.texts


def find_suspects(snapshot: PlanningSnapshot, fingerprints: Sequence[HashColumn], memo: dict[str, str]) -> list[int]:
    """The nodes that may not be clean. `fingerprints`: by table, of the latest attempts that succeeded."""
    found: list[int] = []
    for table in snapshot.dependency_graph.tables:
        if table.condition is not None:
            found.extend(range(table.base, table.base + len(table)))
            continue
        heads, of_slots = _current_columns(snapshot, table)
        tokens = list(of_slots.values())
        recorded = fingerprints[table.number]
        incomplete = [column for column in snapshot.shas[table.number] if not column.is_complete]
        digest = None if incomplete else _digest(heads, tokens, recorded)
        if digest is not None and memo.get(table.name) == digest:
            continue
        before = len(found)
        columns = [column.by_row() for column in tokens]
        consumed: Iterable[tuple[str | None, ...]] = zip(*columns, strict=True) if columns else repeat((), len(table))
        for p, (was, head, row) in enumerate(zip(recorded, heads, consumed, strict=True)):
            if (
                None in row
                or was != fingerprint(head, row)  # type: ignore[arg-type]  # no None in it
                or any(column[p] is None for column in incomplete)
            ):
                found.append(table.base + p)
        if digest is not None and len(found) == before:
            memo[table.name] = digest
    return found


class SuspectCheck(msgspec.Struct, frozen=True):
    """What `find_suspects` compares of one instance, for people who look for the reason of a wrong skip."""

    is_suspect: bool  # as `find_suspects` decided
    has_condition: bool  # then it is a suspect without a comparison
    recorded: str | None  # the fingerprint of the latest attempt, if that succeeded
    current: str | None  # None: the token of a slot is not known from the log alone
    tokens: Mapping[str, str | None]  # by slot that counts
    missing: Sequence[str]  # artifacts that are not available


def check_suspect(snapshot: PlanningSnapshot, node: int) -> SuspectCheck:
    """Compare one row, as `find_suspects` does, but without its memo."""
    table, position = snapshot.dependency_graph.table_at(node)
    heads, of_slots = _current_columns(snapshot, table)
    tokens = {name: column.by_row()[position] for name, column in of_slots.items()}
    row = [token_ for token_ in tokens.values() if token_ is not None]
    record = snapshot.record(node)
    shas = snapshot.shas[table.number]
    return SuspectCheck(
        is_suspect=node in snapshot.suspects,
        has_condition=table.condition is not None,
        recorded=record.latest.fingerprint if record is not None and record.latest.ok else None,
        current=fingerprint(heads[position], row) if len(row) == len(tokens) else None,
        tokens=tokens,
        missing=[table.artifact_id(a, position) for a in range(len(shas)) if shas[a][position] is None],
    )


def _current_columns(snapshot: PlanningSnapshot, table: JobTable) -> tuple[Sequence[str], dict[str, _Tokens]]:
    """The columns that a fingerprint is made of now: its prefix by row, and the tokens of each slot that counts."""
    action = snapshot.actions[table.name]
    slots = counted(table, action.uncounted)
    tokens = {slot.name: _tokens(snapshot, slot.column, len(table), table.opens_texts(slot)) for slot in slots}
    return prefixes(table, action.sha256, action.uncounted), tokens


def _digest(heads: Sequence[str], tokens: Sequence[_Tokens], recorded: HashColumn) -> str | None:
    """The digest of everything that a comparison of the rows reads, column by column, each part with its length."""
    prints = recorded.whole
    if prints is None:
        return None
    same = heads[:1] if len(set(heads)) == 1 else heads
    whole = sha256(b"whyrun/columns/v2 %d\n" % len(recorded))
    for parts in ((b"heads", "\0".join(same).encode()), *(column.parts() for column in tokens), (b"recorded", prints)):
        if parts is None:
            return None
        for part in parts:
            whole.update(b"%d\n" % len(part))
            whole.update(part)
    return whole.hexdigest()


def _tokens(snapshot: PlanningSnapshot, column: Column, rows: int, opens: Opens) -> _Tokens:
    """By row: the token of the term that a slot would consume."""
    if not rows:
        return _Tokens(0, texts=())  # a loop without values: its slots were never resolved
    graph = snapshot.dependency_graph
    if isinstance(column, AlignedArtifact):
        form = artifact_form(graph.tables[column.table], column.artifact, opens)
        return _Tokens(rows, hashes=snapshot.shas[column.table][column.artifact], form=form)
    groups: dict[int, str | None] = {}
    inside = opens.inside

    def token_of(term: Term) -> str | None:
        if isinstance(term, Group):
            if id(term) not in groups:
                groups[id(term)] = _token_of_group(snapshot, term, inside)
            return groups[id(term)]
        return _plain_token(snapshot, term, opens)

    if isinstance(column, SameTerm):
        return _Tokens(rows, same=token_of(column.term))
    if column.kinds == {InputAt}:
        values = [term.value for term in column.terms if isinstance(term, InputAt)]
        return _Tokens(rows, texts=input_tokens(values, opens))
    return _Tokens(rows, texts=[token_of(term) for term in column.terms])


def _token_of_group(snapshot: PlanningSnapshot, group: Group, opens: Opens) -> str | None:
    tokens: list[str] = []
    for number, member in enumerate(group.members):
        keys = () if group.keys is None else group.keys[number]
        if isinstance(member, ArtifactAt) and isinstance(member.element, Every):
            if snapshot.shas[member.table][member.artifact][member.position] is None:
                return None
            for element in snapshot.elements(member):
                plain = _element_token(snapshot, member, element, opens)
                tokens.append(plain if group.keys is None else under(plain, (*keys, element.key)))
            continue
        one = _plain_token(snapshot, member, opens)
        if one is None:
            return None
        tokens.append(under(one, keys))
    return group_token(tokens) if tokens or group.keys is None else f"v{EMPTY_MAPPING}"


def _element_token(snapshot: PlanningSnapshot, at: ArtifactAt, element: Element, opens: Opens) -> str:
    spec = snapshot.dependency_graph.tables[at.table].artifacts[at.artifact]
    return token(form_of(element_type(spec.type), element.suffix, opens), element.sha256)


def _plain_token(snapshot: PlanningSnapshot, term: Term, opens: Opens) -> str | None:
    if isinstance(term, Known):
        return f"v{term.sha256}"
    if isinstance(term, InputAt):
        return token(input_form(term.value, opens), term.value.sha256)
    if isinstance(term, ArtifactAt):
        sha = snapshot.shas[term.table][term.artifact][term.position]
        if sha is None:
            return None
        if term.element is not None:
            element = snapshot.element(term)
            return None if element is None else _element_token(snapshot, term, element, opens)
        producer = snapshot.dependency_graph.tables[term.table]
        return token(artifact_form(producer, term.artifact, opens), sha)
    if isinstance(term, Computed):
        values = []
        for operand in term.operands:
            if isinstance(operand, InputAt):
                values.append(operand.value.value)
            elif isinstance(operand, ArtifactAt):
                if snapshot.shas[operand.table][operand.artifact][operand.position] is None:
                    return None
                if operand.element is not None and snapshot.element(operand) is None:
                    return None
                values.append(snapshot.value(operand))
            else:
                return None  # fan-ins, `first` and absent terms: the planner decides
        try:
            return f"v{value_sha256(compute(term.template, values, term.names))}"
        except ExpressionError:
            return None
    assert isinstance(term, FirstOf | Group | Absent), "only the row `[?]` has absent terms"
    return None
