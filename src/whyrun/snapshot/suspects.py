"""Which instances may be other than clean? Whole columns compared. Pure.

Most instances of a large workflow are up to date, and showing that must cost nearly nothing. An instance that is no
suspect is clean by construction (its fingerprint is that of its latest, successful attempt, its outputs are recorded
and there, and it has no condition), unless something upstream changes, which the planner follows along the edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import repeat

import msgspec

from whyrun.artifacts.hash_column import HashColumn
from whyrun.artifacts.hashing import value_sha256
from whyrun.graph.fingerprint import (
    artifact_form,
    counted,
    fingerprint,
    group_token,
    input_form,
    input_tokens,
    prefixes,
    token,
)
from whyrun.graph.graph import (
    AlignedArtifact,
    ArtifactAt,
    Column,
    Computed,
    FirstOf,
    Group,
    InputAt,
    Known,
    Opens,
    SameTerm,
    Term,
)
from whyrun.graph.template import compute
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.expression import ExpressionError


class _Tokens(msgspec.Struct, frozen=True):
    """The tokens of one slot by row, None where one is not known from the log alone: one for all rows, a text each,
    or a hash each and the form that they share."""

    rows: int
    same: str | None = None
    texts: Sequence[str | None] | None = None
    hashes: HashColumn | None = None
    form: str = ""

    def parts(self) -> tuple[bytes, ...] | None:
        """All that they say, for a digest; None where one is not known."""
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
    """`fingerprints`: by table, of the latest attempts that succeeded."""
    found: list[int] = []
    for table in snapshot.dependency_graph.tables:
        if table.condition is not None:
            found.extend(range(table.base, table.base + len(table)))
            continue
        action = snapshot.actions[table.name]
        slots = counted(table, action.uncounted)
        tokens = [_tokens(snapshot, slot.column, len(table), table.opens_texts(slot)) for slot in slots]
        heads = prefixes(table, action.sha256, action.uncounted)
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


def _digest(heads: Sequence[str], tokens: Sequence[_Tokens], recorded: HashColumn) -> str | None:
    """Over everything that comparing the rows would look at, column by column, each part with its length."""
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
    """By row: the token of what a slot would consume."""
    if not rows:
        return _Tokens(0, texts=())  # a loop without values: what its slots would name was never resolved
    graph = snapshot.dependency_graph
    if isinstance(column, AlignedArtifact):
        form = artifact_form(graph.tables[column.table], column.artifact, opens)
        return _Tokens(rows, hashes=snapshot.shas[column.table][column.artifact], form=form)
    groups: dict[int, str | None] = {}
    inside = opens.inside

    def token_of(term: Term) -> str | None:
        if isinstance(term, Group):
            if id(term) not in groups:
                members = [_plain_token(snapshot, member, inside) for member in term.members]
                groups[id(term)] = None if None in members else group_token(members)  # type: ignore[arg-type]
            return groups[id(term)]
        return _plain_token(snapshot, term, opens)

    if isinstance(column, SameTerm):
        return _Tokens(rows, same=token_of(column.term))
    if column.kinds == {InputAt}:
        values = [term.value for term in column.terms if isinstance(term, InputAt)]
        return _Tokens(rows, texts=input_tokens(values, opens))
    return _Tokens(rows, texts=[token_of(term) for term in column.terms])


def _plain_token(snapshot: PlanningSnapshot, term: Term, opens: Opens) -> str | None:
    if isinstance(term, Known):
        return f"v{term.sha256}"
    if isinstance(term, InputAt):
        return token(input_form(term.value, opens), term.value.sha256)
    if isinstance(term, ArtifactAt):
        sha = snapshot.shas[term.table][term.artifact][term.position]
        if sha is None:
            return None
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
                values.append(snapshot.value(operand))
            else:
                return None  # fan-ins, `first`, absences: the planner decides
        try:
            return f"v{value_sha256(compute(term.template, values, term.names))}"
        except ExpressionError:
            return None
    assert isinstance(term, FirstOf | Group)
    return None
