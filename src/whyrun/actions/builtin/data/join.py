"""One join: its keys compared, its facts counted from the keys alone, then the rows in the order of the left side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.actions.builtin.data.engine import ROW, Engine, name
from whyrun.actions.builtin.data.kinds import KINDS
from whyrun.actions.builtin.data.output import write
from whyrun.actions.builtin.data.problems import CardinalityViolated, ColumnsClash, KeyTypesDiffer, counted, listed
from whyrun.actions.builtin.data.tables import Column, Table, has_value

_EXAMPLES = 5
_LONGEST_KEY = 100  # characters of a key in a message
_JOIN = {"left": "LEFT", "inner": "INNER", "right": "RIGHT", "outer": "FULL"}


@dataclass(frozen=True, slots=True)
class Facts:
    """Rows of the two sides. A row with a missing key matches nothing, and is counted among the unmatched ones too."""

    left: int
    right: int
    null_left: int
    null_right: int
    matched_left: int
    matched_right: int
    repeated_left: int  # keys that occur more than once
    repeated_right: int
    rows_repeated_left: int  # rows with such a key
    rows_repeated_right: int
    pairs: int
    out: int

    @property
    def cardinality(self) -> str:
        return f"{'m' if self.repeated_left else '1'}:{'m' if self.repeated_right else '1'}"

    def rows(self) -> dict[str, int]:
        return {
            "left": self.left,
            "right": self.right,
            "matched_left": self.matched_left,
            "matched_right": self.matched_right,
            "unmatched_left": self.left - self.matched_left,
            "unmatched_right": self.right - self.matched_right,
            "null_key_left": self.null_left,
            "null_key_right": self.null_right,
            "out": self.out,
        }


@dataclass(frozen=True, slots=True)
class Join:
    left: Table
    right: Table
    keys: tuple[Column, ...]  # of the left side; the output has them under these names
    right_keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    renamed: dict[str, str]  # column of the right side → its name in the output, where that differs
    facts: Facts
    query: str  # the joined rows, with `l` and `r` in scope
    order: tuple[str, ...]  # what to sort them by

    @classmethod
    def of(
        cls,
        engine: Engine,
        left: Table,
        right: Table,
        keys: Sequence[str],
        right_keys: Sequence[str],
        how: str,
        suffix: str | None,
    ) -> Join:
        left_columns = tuple(left.column(key, "keys") for key in keys)
        right_columns = tuple(right.column(key, "keys") for key in right_keys)
        _check_types(engine, left, right, left_columns, right_columns)
        renamed = _renamed(left, right, set(right_keys), suffix)
        facts = _facts(engine, left, right, left_columns, right_columns, how)
        query = _query(engine, left, right, left_columns, right_columns, how, renamed)
        order = [f"l.{ROW} NULLS LAST"]
        # Where the right side's keys are unique, a left row stands for at most one: a sort by one number is cheaper.
        if facts.repeated_right or how in ("right", "outer"):
            order.append(f"r.{ROW} NULLS LAST")
        columns = tuple(Column(*found) for found in engine.columns(query))
        return cls(left, right, left_columns, right_columns, columns, renamed, facts, query, tuple(order))

    # -- the check --

    def refusal(self, engine: Engine, asked: str | None) -> CardinalityViolated | None:
        """Why the rows are not as the user says they are."""
        if asked is None:
            return None
        facts = self.facts
        one_left, one_right = asked.split(":")
        problems = []
        if one_left == "1" and facts.repeated_left:
            problems.append(self._repeated(engine, self.left, self.keys, facts.repeated_left, facts.rows_repeated_left))
        if one_right == "1" and facts.repeated_right:
            problems.append(
                self._repeated(engine, self.right, self.right_keys, facts.repeated_right, facts.rows_repeated_right)
            )
        if not problems:
            return None
        return CardinalityViolated(
            f"`cardinality: {asked}` does not hold (found {facts.cardinality}): {'; '.join(problems)}; "
            f"correct the data, add to `keys` what tells the rows apart, or ask for `{facts.cardinality}`"
        )

    def _repeated(self, engine: Engine, table: Table, keys: Sequence[Column], number: int, rows: int) -> str:
        names = ", ".join(name(key.name) for key in keys)
        present = " AND ".join(f"{name(key.name)} IS NOT NULL" for key in keys)
        found = engine.rows(
            f"SELECT {', '.join(f'CAST({name(key.name)} AS VARCHAR)' for key in keys)}, count(*) FROM {table.relation} "
            f"WHERE {present} GROUP BY {names} HAVING count(*) > 1 ORDER BY count(*) DESC, min({ROW}) LIMIT {_EXAMPLES}"
        )
        shown = ", ".join(f"({_key(keys, values[:-1])}) {values[-1]:,} times" for values in found)
        more = ", …" if number > len(found) else ""
        verb = "occurs" if number == 1 else "occur"
        return (
            f"{counted(number, 'key')} {verb} more than once in `{table.label}` ({counted(rows, 'row')}): {shown}{more}"
        )


def write_join(engine: Engine, join: Join, path: Path) -> None:
    write(engine, join.query, join.order, path)


def joined_table(engine: Engine, join: Join) -> Table:
    """The result as a dataset of its own, to be joined further."""
    table, view = engine.new_name("joined"), engine.new_name("rows")
    engine.do(f"CREATE TABLE {table} AS {join.query} ORDER BY {', '.join(join.order)}")
    engine.do(f"CREATE VIEW {view} AS SELECT *, rowid AS {ROW} FROM {table}")
    label = f"{join.left.label}+{join.right.label}"
    untyped = join.left.untyped or join.right.untyped
    return Table(label, view, join.columns, join.facts.out, untyped)


def _query(
    engine: Engine,
    left: Table,
    right: Table,
    keys: Sequence[Column],
    right_keys: Sequence[Column],
    how: str,
    renamed: Mapping[str, str],
) -> str:
    other = {key.name: right_key for key, right_key in zip(keys, right_keys, strict=True)}
    selected = []
    for column in left.columns:
        value = f"l.{name(column.name)}"
        if column.name in other and how in ("right", "outer"):
            taken = f"r.{name(other[column.name].name)}"
            if column.kind == other[column.name].kind:
                value = f"coalesce({value}, {taken})"
            elif not has_value(engine, left, column):
                value = taken
        selected.append(f"{value} AS {name(column.name)}")
    named = {key.name for key in right_keys}
    selected += [
        f"r.{name(column.name)} AS {name(renamed.get(column.name, column.name))}"
        for column in right.columns
        if column.name not in named
    ]
    return (
        f"SELECT {', '.join(selected)} FROM {left.relation} l "
        f"{_JOIN[how]} JOIN {right.relation} r ON {_on(keys, right_keys)}"
    )


def _key(keys: Sequence[Column], values: Sequence[Any]) -> str:
    parts = []
    for key, value in zip(keys, values, strict=True):
        text = str(value)
        parts.append(f"{key.name}={text if len(text) <= _LONGEST_KEY else text[: _LONGEST_KEY - 1] + '…'}")
    return ", ".join(parts)


def _check_types(
    engine: Engine, left: Table, right: Table, keys: Sequence[Column], right_keys: Sequence[Column]
) -> None:
    for key, other in zip(keys, right_keys, strict=True):
        if key.kind == other.kind or not has_value(engine, left, key) or not has_value(engine, right, other):
            continue
        kind = key.kind if key.kind in KINDS else "text"
        both = f"`{key.name}`" if key.name == other.name else f"`{key.name}` and `{other.name}`"
        raise KeyTypesDiffer(
            f"the key {both} is {key.kind} in `{left.label}` and {other.kind} in `{right.label}`; nothing is cast "
            f"silently: say what it is, as in `types: {{{other.name}: {kind}}}`"
        )


def _renamed(left: Table, right: Table, right_keys: set[str], suffix: str | None) -> dict[str, str]:
    taken = {column.casefold(): column for column in left.names}
    added = [column.name for column in right.columns if column.name not in right_keys]
    clashing = [column for column in added if column.casefold() in taken]
    if not clashing:
        return {}
    if suffix is None:
        raise ColumnsClash(
            f"`{right.label}` has {counted(len(clashing), 'column')} that `{left.label}` has too and that "
            f"{'is' if len(clashing) == 1 else 'are'} no key: {listed(clashing)}; "
            f"add {'it' if len(clashing) == 1 else 'them'} to `keys`, or say `suffix:` for those of `{right.label}`"
        )
    renamed = {column: column + suffix for column in clashing}
    final = [*left.names, *(renamed.get(column, column) for column in added)]
    seen: set[str] = set()
    for column in final:
        if column.casefold() in seen:
            raise ColumnsClash(f"with `suffix: {suffix}` there are still two columns `{column}`; choose another suffix")
        seen.add(column.casefold())
    return renamed


def _on(keys: Sequence[Column], right_keys: Sequence[Column]) -> str:
    """Equality of the keys. A side without a value has no type to compare: it matches nothing."""
    return " AND ".join(
        f"l.{name(key.name)} = r.{name(other.name)}" if key.kind == other.kind else "false"
        for key, other in zip(keys, right_keys, strict=True)
    )


def _facts(
    engine: Engine, left: Table, right: Table, keys: Sequence[Column], right_keys: Sequence[Column], how: str
) -> Facts:
    """All counts from one grouping of the keys of both sides; no row is joined for it."""
    comparable = all(key.kind == other.kind for key, other in zip(keys, right_keys, strict=True))

    def side(table: Table, columns: Sequence[Column], mark: str) -> str:
        values = ", ".join(
            f"{name(column.name) if comparable else f'CAST({name(column.name)} AS VARCHAR)'} AS k{at}"
            for at, column in enumerate(columns)
        )
        present = " AND ".join(f"{name(column.name)} IS NOT NULL" for column in columns)
        return f"SELECT {values}, {mark} FROM {table.relation} WHERE {present}"

    grouped = ", ".join(f"k{at}" for at in range(len(keys)))
    # Counts, not sums: DuckDB sums in 128 bits, at twice the time.
    both = f"{side(left, keys, 'NULL AS r')} UNION ALL {side(right, right_keys, 'true AS r')}"
    row = engine.row(
        f"""SELECT coalesce(sum(l), 0), coalesce(sum(r), 0),
            coalesce(sum(l) FILTER (r > 0), 0), coalesce(sum(r) FILTER (l > 0), 0),
            count(*) FILTER (l > 1), count(*) FILTER (r > 1),
            coalesce(sum(l) FILTER (l > 1), 0), coalesce(sum(r) FILTER (r > 1), 0), coalesce(sum(l * r), 0)
        FROM (SELECT count(*) - count(r) AS l, count(r) AS r FROM ({both}) GROUP BY {grouped})"""
    )
    keyed_left, keyed_right, matched_left, matched_right, repeated_l, repeated_r, rows_l, rows_r, pairs = map(int, row)
    out = pairs
    if how in ("left", "outer"):
        out += left.rows - matched_left
    if how in ("right", "outer"):
        out += right.rows - matched_right
    return Facts(
        left.rows, right.rows, left.rows - keyed_left, right.rows - keyed_right, matched_left, matched_right,
        repeated_l, repeated_r, rows_l, rows_r, pairs, out,
    )  # fmt: skip
