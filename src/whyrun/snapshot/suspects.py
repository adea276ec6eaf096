"""Which instances may be other than clean? Whole columns compared. Pure.

Most instances of a large workflow are up to date, and showing that must cost nearly nothing. An instance that is no
suspect is clean by construction (its fingerprint is that of its latest, successful attempt, its outputs are recorded
and there, and it has no condition), unless something upstream changes, which the planner follows along the edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import repeat

from whyrun.artifacts.hashing import value_sha256
from whyrun.graph.fingerprint import (
    artifact_form,
    counted,
    fingerprint,
    group_token,
    input_form,
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
    SameTerm,
    Term,
)
from whyrun.graph.template import compute
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.expression import ExpressionError


def find_suspects(snapshot: PlanningSnapshot, memo: dict[str, str]) -> list[int]:
    found: list[int] = []
    for table in snapshot.dependency_graph.tables:
        if table.condition is not None:
            found.extend(range(table.base, table.base + len(table)))
            continue
        action = snapshot.actions[table.name]
        tokens = [_token_column(snapshot, slot.column, len(table)) for slot in counted(table, action.uncounted)]
        # "" where there is no success: no fingerprint is empty.
        recorded = [r.latest.fingerprint if r is not None and r.latest.ok else "" for r in snapshot.rows[table.number]]
        heads = prefixes(table, action.sha256, action.uncounted)
        incomplete = [column for column in snapshot.shas[table.number] if None in column]
        digest = None
        if not incomplete and not any(None in column for column in tokens):
            digest = _digest(heads, tokens, recorded)
            if memo.get(table.name) == digest:
                continue
        before = len(found)
        consumed: Iterable[tuple[str | None, ...]] = zip(*tokens, strict=True) if tokens else repeat((), len(table))
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


def _digest(heads: Sequence[str], tokens: Sequence[Sequence[str | None]], recorded: Sequence[str]) -> str:
    """Over everything that comparing the rows would look at, column by column, each with its length."""
    same = heads[:1] if len(set(heads)) == 1 else heads
    whole = sha256()
    for column in (same, *tokens, recorded):
        data = "\0".join(column).encode()  # type: ignore[arg-type]  # no None in it
        whole.update(b"%d %d\n" % (len(column), len(data)))
        whole.update(data)
    return whole.hexdigest()


def _token_column(snapshot: PlanningSnapshot, column: Column, rows: int) -> Sequence[str | None]:
    """By row: the token of what a slot would consume, None where that is not known from the log alone."""
    if not rows:
        return []  # a loop without values: what its slots would name was never resolved
    graph = snapshot.dependency_graph
    if isinstance(column, AlignedArtifact):
        form = artifact_form(graph.tables[column.table], column.artifact)
        letter, suffix = form[0], form[1:]
        return [
            None if sha is None else f"{letter}{sha}{suffix}" for sha in snapshot.shas[column.table][column.artifact]
        ]
    groups: dict[int, str | None] = {}

    def token_of(term: Term) -> str | None:
        if isinstance(term, Group):
            if id(term) not in groups:
                members = [token_of(member) for member in term.members]
                groups[id(term)] = None if None in members else group_token(members)  # type: ignore[arg-type]
            return groups[id(term)]
        return _plain_token(snapshot, term)

    if isinstance(column, SameTerm):
        return [token_of(column.term)] * rows
    return [token_of(term) for term in column.terms]


def _plain_token(snapshot: PlanningSnapshot, term: Term) -> str | None:
    if isinstance(term, Known):
        return f"v{term.sha256}"
    if isinstance(term, InputAt):
        return token(input_form(term.value), term.value.sha256)
    if isinstance(term, ArtifactAt):
        sha = snapshot.shas[term.table][term.artifact][term.position]
        if sha is None:
            return None
        return token(artifact_form(snapshot.dependency_graph.tables[term.table], term.artifact), sha)
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
