"""One join: compares the key types, counts matches from the keys alone, and writes rows in the left side's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.actions.data.engine import ROW, Engine, name, position
from whyrun.actions.data.joining.keys import KEY, Packing, check_spellings, packing, stray_text, type_hint, without_nan
from whyrun.actions.data.joining.update import Additions, check_indicator, updated_columns
from whyrun.actions.data.kinds import KINDS, wider
from whyrun.actions.data.output import Written, write_table
from whyrun.actions.data.params import CardinalityViolated, ColumnsClash, KeyTypesDiffer, counted, listed
from whyrun.actions.data.tables import Column, Table, has_value

# --- counting matches --------------------------------------------------------------------------------------------
#
# Counts the rows of a join from the keys alone, before any row is joined.


@dataclass(frozen=True, slots=True)
class JoinCounts:
    """Row counts of the two sides. A row with a missing key matches nothing, so it also counts as unmatched."""

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
class _Counts:
    """Counts of the rows that have a key."""

    keyed_left: int
    keyed_right: int
    matched_left: int
    matched_right: int
    repeated_left: int = 0
    repeated_right: int = 0
    rows_repeated_left: int = 0
    rows_repeated_right: int = 0
    pairs: int = 0


def count_join(
    engine: Engine,
    left: Table,
    right: Table,
    keys: Sequence[Column],
    right_keys: Sequence[Column],
    packed: Packing | None,
    how: str,
) -> JoinCounts:
    keyed = _count_by_bits(engine, left, right, keys, right_keys, packed) if packed is not None else None
    if keyed is None:
        keyed = _count_by_grouping(engine, left, right, keys, right_keys, packed)
    out = keyed.pairs
    if how in ("left", "outer"):
        out += left.rows - keyed.matched_left
    if how in ("right", "outer"):
        out += right.rows - keyed.matched_right
    return JoinCounts(
        left.rows, right.rows, left.rows - keyed.keyed_left, right.rows - keyed.keyed_right,
        keyed.matched_left, keyed.matched_right, keyed.repeated_left, keyed.repeated_right,
        keyed.rows_repeated_left, keyed.rows_repeated_right, keyed.pairs, out,
    )  # fmt: skip


def _count_by_bits(
    engine: Engine, left: Table, right: Table, keys: Sequence[Column], right_keys: Sequence[Column], packed: Packing
) -> _Counts | None:
    """Set one bit for each key that occurs: one scan of each side, much faster than grouping.

    This is enough if no key is repeated, as in most merges. None if one is repeated, or if the range of keys is so
    large that the bits would need too much memory.
    """
    if packed.values > engine.spare_bits():
        return None
    sides = [
        f"(SELECT bitstring_agg(k, 0, {packed.values - 1}) AS bits, count(k) AS n "
        f"FROM (SELECT CAST({packed.number(columns)} AS BIGINT) AS k FROM {table.relation}))"
        for table, columns in ((left, keys), (right, right_keys))
    ]
    keyed_left, keyed_right, of_left, of_right, of_both = engine.row(
        f"SELECT l.n, r.n, bit_count(l.bits), bit_count(r.bits), bit_count(l.bits & r.bits) "
        f"FROM {sides[0]} l, {sides[1]} r"
    )
    if (of_left, of_right) != (keyed_left, keyed_right):
        return None
    return _Counts(keyed_left, keyed_right, of_both, of_both, pairs=of_both)


def _count_by_grouping(
    engine: Engine,
    left: Table,
    right: Table,
    keys: Sequence[Column],
    right_keys: Sequence[Column],
    packed: Packing | None,
) -> _Counts:
    """Group the keys of both sides once."""
    comparable = all(key.kind == other.kind for key, other in zip(keys, right_keys, strict=True))

    def side(table: Table, columns: Sequence[Column], mark: str) -> str:
        if packed is not None:
            return f"SELECT k0, {mark} FROM (SELECT {packed.number(columns)} AS k0 FROM {table.relation}) WHERE k0 >= 0"
        values = ", ".join(
            f"{name(column.name) if comparable else f'CAST({name(column.name)} AS VARCHAR)'} AS k{at}"
            for at, column in enumerate(columns)
        )
        present = " AND ".join(f"{name(column.name)} IS NOT NULL" for column in columns)
        return f"SELECT {values}, {mark} FROM {table.relation} WHERE {present}"

    grouped = ", ".join(f"k{at}" for at in range(1 if packed is not None else len(keys)))
    # Use counts, not sums: DuckDB sums in 128 bits, which takes twice the time.
    both = f"{side(left, keys, 'NULL AS r')} UNION ALL {side(right, right_keys, 'true AS r')}"
    row = engine.row(
        f"""SELECT coalesce(sum(l), 0), coalesce(sum(r), 0),
            coalesce(sum(l) FILTER (r > 0), 0), coalesce(sum(r) FILTER (l > 0), 0),
            count(*) FILTER (l > 1), count(*) FILTER (r > 1),
            coalesce(sum(l) FILTER (l > 1), 0), coalesce(sum(r) FILTER (r > 1), 0), coalesce(sum(l * r), 0)
        FROM (SELECT count(*) - count(r) AS l, count(r) AS r FROM ({both}) GROUP BY {grouped})"""
    )
    return _Counts(*map(int, row))


# --- joining -----------------------------------------------------------------------------------------------------


_EXAMPLES = 5
_LONGEST_KEY = 100  # characters of a key in a message
_JOIN = {"left": "LEFT", "inner": "INNER", "right": "RIGHT", "outer": "FULL"}


@dataclass(frozen=True, slots=True)
class KeyMatch:
    """Two datasets whose keys were compared and counted. NaN in a key is missing."""

    left: Table
    right: Table
    keys: tuple[Column, ...]  # of the left side; the output has them under these names
    right_keys: tuple[Column, ...]
    packed: Packing | None
    counts: JoinCounts

    @classmethod
    def of(
        cls, engine: Engine, left: Table, right: Table, keys: Sequence[str], right_keys: Sequence[str], how: str
    ) -> KeyMatch:
        left_columns = tuple(left.column(key, "keys") for key in keys)
        right_columns = tuple(right.column(key, "keys") for key in right_keys)
        _check_types(engine, left, right, left_columns, right_columns)
        for pair in zip(left_columns, right_columns, strict=True):
            check_spellings(engine, ((left, pair[0]), (right, pair[1])))
        left, right = without_nan(engine, left, left_columns), without_nan(engine, right, right_columns)
        packed = packing(engine, left, right, left_columns, right_columns)
        counts = count_join(engine, left, right, left_columns, right_columns, packed, how)
        return cls(left, right, left_columns, right_columns, packed, counts)

    def facts(self, asked: str | None, how: str | None = None) -> dict[str, Any]:
        """The decision for the log. `asked`: the declared cardinality. `how`: None if another action makes the rows."""
        names, right_names = [key.name for key in self.keys], [key.name for key in self.right_keys]
        return {
            "decision": "merge",
            "left": self.left.label,
            "right": self.right.label,
            **({} if how is None else {"how": how}),
            "keys": names if names == right_names else {"primary": names, "secondary": right_names},
            "cardinality": {"asked": asked, "found": self.counts.cardinality},
            "rows": {name: rows for name, rows in self.counts.rows().items() if how is not None or name != "out"},
        }

    def found(self, engine: Engine, *, joins: bool = False, keys: bool = True) -> str:
        """The cardinality and the matches in words. If nothing matches, with an example of each side.

        `joins`: with the rows of the right side and of the result. `keys`: whether keys may be shown.
        """
        counts = self.counts
        matched = f"{counts.matched_left:,} of {counted(counts.left, 'row')} matched"
        if joins:
            unused = counts.right - counts.matched_right
            matched += f", {unused:,} of {counts.right:,} unused, {counts.out:,} out"
        text = f"on {', '.join(key.name for key in self.keys)}: {counts.cardinality}, {matched}"
        if counts.matched_left:
            return text
        if not keys:
            return f"{text}: NO KEY MATCHES"
        sides = ((self.left, self.keys), (self.right, self.right_keys))
        examples = [key_example(engine, table, keys) for table, keys in sides]
        both = zip(examples, sides, strict=True)
        shown = [f"`{table.label}` has {f'({example})' if example else 'no key'}" for example, (table, _) in both]
        return f"{text}: NO KEY MATCHES, {' and '.join(shown)}"

    def cardinality_violation(
        self, engine: Engine, declared: str | None, most: int = _EXAMPLES
    ) -> CardinalityViolated | None:
        """The error if the rows do not have the declared cardinality, with up to `most` examples."""
        if declared is None:
            return None
        counts = self.counts
        one_left, one_right = declared.split(":")
        problems = []
        if one_left == "1" and counts.repeated_left:
            keys, rows = counts.repeated_left, counts.rows_repeated_left
            problems.append(self._repeated(engine, self.left, self.keys, keys, rows, most))
        if one_right == "1" and counts.repeated_right:
            keys, rows = counts.repeated_right, counts.rows_repeated_right
            problems.append(self._repeated(engine, self.right, self.right_keys, keys, rows, most))
        if not problems:
            return None
        return CardinalityViolated(
            f"`cardinality: {declared}` does not hold (found {counts.cardinality}): {'; '.join(problems)}; "
            f"correct the data, add columns to `keys` that distinguish the rows, or write `{counts.cardinality}`"
        )

    def _repeated(self, engine: Engine, table: Table, keys: Sequence[Column], number: int, rows: int, most: int) -> str:
        names = ", ".join(name(key.name) for key in keys)
        present = " AND ".join(f"{name(key.name)} IS NOT NULL" for key in keys)
        examples = engine.rows(
            f"SELECT {', '.join(f'CAST({name(key.name)} AS VARCHAR)' for key in keys)}, count(*) FROM {table.relation} "
            f"WHERE {present} GROUP BY {names} HAVING count(*) > 1 ORDER BY count(*) DESC, min({ROW}) LIMIT {most}"
        )
        shown = ", ".join(f"({_key(keys, values[:-1])}) {values[-1]:,} times" for values in examples)
        more = ", …" if number > len(examples) else ""
        verb = "occurs" if number == 1 else "occur"
        text = f"{counted(number, 'key')} {verb} more than once in `{table.label}` ({counted(rows, 'row')})"
        return f"{text}: {shown}{more}" if examples else text


@dataclass(frozen=True, slots=True)
class Join:
    match: KeyMatch
    columns: tuple[Column, ...]
    renamed: dict[str, str]  # column of the right side → its name in the output, if it differs
    query: str  # the joined rows; `l` and `r` are the two sides
    order: tuple[str, ...]  # the sort order of the rows
    adds: Additions

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
        indicator: str | None = None,
        update: bool = False,
    ) -> Join:
        match = KeyMatch.of(engine, left, right, keys, right_keys, how)
        left, right = match.left, match.right
        adds = Additions(indicator, updated_columns(engine, left, right, set(right_keys)) if update else ())
        filled = {column.name for column in adds.updated}
        renamed = _renamed(left, right, {*right_keys, *filled}, suffix)
        added = [c.name for c in right.columns if c.name not in right_keys and c.name not in filled]
        check_indicator(indicator, [*left.names, *(renamed.get(column, column) for column in added)])
        query = _query(engine, match, how, renamed, adds)
        order = [f"l.{ROW} NULLS LAST"]
        # If the keys of the right side are unique, each left row occurs once, and one sort column is enough.
        if match.counts.repeated_right or how in ("right", "outer"):
            order.append(f"r.{ROW} NULLS LAST")
        single = {column.name for column in left.columns if column.single}
        single |= {renamed.get(column.name, column.name) for column in right.columns if column.single}
        columns = tuple(Column(*found, found[0] in single) for found in engine.columns(query))
        return cls(match, columns, renamed, query, tuple(order), adds)

    @property
    def counts(self) -> JoinCounts:
        return self.match.counts

    def update_facts(self, engine: Engine) -> dict[str, Any]:
        """For the log: the columns that `update` fills, and in how many rows of both sides it does, or could not."""
        if not self.adds.updated:
            return {}
        sides, on = on_keys(self.match)
        conflicts, filled = engine.row(
            f"SELECT count(*) FILTER ({self.adds.conflict}), count(*) FILTER (({self.adds.filled}) AND NOT "
            f"coalesce({self.adds.conflict}, false)) FROM {sides[0]} l JOIN {sides[1]} r ON {on}"
        )
        columns = [column.name for column in self.adds.updated]
        return {"update": {"columns": columns, "updated": int(filled), "conflicts": int(conflicts)}}


def write_join(engine: Engine, join: Join, path: Path) -> Written:
    return write_table(engine, join.query, join.order, path)


def joined_table(engine: Engine, join: Join) -> Table:
    """The result as a dataset, for the next join."""
    table, view = engine.new_name("joined"), engine.new_name("rows")
    engine.do(f"CREATE TABLE {table} AS {join.query} ORDER BY {', '.join(join.order)}")
    engine.do(
        f"CREATE VIEW {view} AS SELECT *, {position(column.name for column in join.columns)} AS {ROW} FROM {table}"
    )
    left, right = join.match.left, join.match.right
    untyped = left.untyped or right.untyped
    texts = {key.name: left.texts[key.name] for key in join.match.keys if key.name in left.texts}
    return Table(f"{left.label}+{right.label}", view, join.columns, join.counts.out, untyped, texts, left.retyped)


def _query(engine: Engine, match: KeyMatch, how: str, renamed: Mapping[str, str], adds: Additions) -> str:
    left, right, keys, right_keys = match.left, match.right, match.keys, match.right_keys
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
        else:
            value = adds.value(column, value, f"r.{name(column.name)}")
        selected.append(f"{value} AS {name(column.name)}")
    named = {key.name for key in right_keys} | {column.name for column in adds.updated}
    selected += [
        f"r.{name(column.name)} AS {name(renamed.get(column.name, column.name))}"
        for column in right.columns
        if column.name not in named
    ]
    if (indicator := adds.column()) is not None:
        selected.append(indicator)
    sides, on = on_keys(match)
    return f"SELECT {', '.join(selected)} FROM {sides[0]} l {_JOIN[how]} JOIN {sides[1]} r ON {on}"


def on_keys(match: KeyMatch) -> tuple[list[str], str]:
    """SQL of the two sides, and of the equality of their keys as `l` and `r`."""
    if match.packed is None:
        return [match.left.relation, match.right.relation], _on(match.keys, match.right_keys)
    both = ((match.left, match.keys), (match.right, match.right_keys))
    number = match.packed.number
    sides = [f"(SELECT *, {number(columns)} AS {KEY} FROM {table.relation})" for table, columns in both]
    return sides, f"l.{KEY} = r.{KEY}"


def _key(keys: Sequence[Column], values: Sequence[Any]) -> str:
    parts = []
    for key, value in zip(keys, values, strict=True):
        text = str(value)
        parts.append(f"{key.name}={text if len(text) <= _LONGEST_KEY else text[: _LONGEST_KEY - 1] + '…'}")
    return ", ".join(parts)


def key_example(engine: Engine, table: Table, keys: Sequence[Column]) -> str | None:
    """The first key of a dataset, for a message; None if no row has one."""
    present = " AND ".join(f"{name(key.name)} IS NOT NULL" for key in keys)
    found = engine.rows(
        f"SELECT {', '.join(f'CAST({name(key.name)} AS VARCHAR)' for key in keys)} FROM {table.relation} "
        f"WHERE {present} ORDER BY {ROW} LIMIT 1"
    )
    return _key(keys, found[0]) if found else None


def _check_types(
    engine: Engine, left: Table, right: Table, keys: Sequence[Column], right_keys: Sequence[Column]
) -> None:
    for key, other in zip(keys, right_keys, strict=True):
        both = f"`{key.name}`" if key.name == other.name else f"`{key.name}` and `{other.name}`"
        if key.bits is not None and other.bits is not None and key.bits != other.bits:
            hint = type_hint(engine, left, right, key, other, "text")
            raise KeyTypesDiffer(
                f"the key {both} is a number of {key.bits} bits in `{left.label}` and of {other.bits} in "
                f"`{right.label}`, so 0.1 is not equal to 0.1; {hint}"
            )
        if key.kind == other.kind or not has_value(engine, left, key) or not has_value(engine, right, other):
            continue
        common = wider(key.kind, other.kind)
        preferred = key.kind if common == "text" and key.kind in KINDS else common
        stray = stray_text(engine, [(left, key), (right, other)])
        raise KeyTypesDiffer(
            f"the key {both} is {key.kind} in `{left.label}` and {other.kind} in `{right.label}`{stray}; "
            f"{type_hint(engine, left, right, key, other, preferred)}"
        )


def _renamed(left: Table, right: Table, right_keys: set[str], suffix: str | None) -> dict[str, str]:
    taken = {column.casefold(): column for column in left.names}
    added = [column.name for column in right.columns if column.name not in right_keys]
    clashing = [column for column in added if column.casefold() in taken]
    if not clashing:
        return {}
    if suffix is None:
        raise ColumnsClash(
            f"`{right.label}` has {counted(len(clashing), 'column')} that `{left.label}` also has and that "
            f"{'is not a key' if len(clashing) == 1 else 'are not keys'}: {listed(clashing)}; "
            f"add {'it' if len(clashing) == 1 else 'them'} to `keys`, or write `suffix:` for those of `{right.label}`"
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
    """Equality of the keys. A column without values has no type to compare, so it matches nothing."""
    return " AND ".join(
        f"l.{name(key.name)} = r.{name(other.name)}" if key.kind == other.kind else "false"
        for key, other in zip(keys, right_keys, strict=True)
    )
