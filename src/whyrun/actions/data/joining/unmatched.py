"""What a merge says of rows without a partner: examples of their keys, nearly equal keys, and what must hold of them.

Everything here follows from the keys of all rows, whatever `how` keeps, and before any row is joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whyrun.actions.data.engine import ROW, Engine, name
from whyrun.actions.data.joining.join import KeyMatch, on_keys
from whyrun.actions.data.joining.keys import KEY
from whyrun.actions.data.params import RowsUnmatched, counted
from whyrun.actions.data.tables import Column, Table

_LONGEST = 100  # characters of a value on record
_SHOWN = 5  # keys in a message
_MOST_BITS = 2**31 - 1  # `get_bit` takes an INTEGER
_ROWS_A_KEY = 100  # rows that are read for one example: a key may repeat


def unmatched_facts(engine: Engine, match: KeyMatch, most: int) -> dict[str, Any]:
    """For the log: up to `most` keys of each side that no row of the other side has, and nearly equal ones."""
    facts: dict[str, Any] = {}
    sides = {"left": _examples(engine, match, "left", most), "right": _examples(engine, match, "right", most)}
    if any(sides.values()):
        facts["unmatched"] = sides
    near = _near(engine, match)
    if near is not None:
        number, pair = near
        facts["near"] = {"keys": number, **({"example": pair} if most else {})}
    return facts


def near_text(facts: dict[str, Any]) -> str:
    """For the message: keys that a person would take for the same. They are never matched."""
    near = facts.get("near")
    if near is None:
        return ""
    pair = near.get("example")
    shown = f", such as `{pair[0]}` and `{pair[1]}`" if pair else ""
    differ = "differs" if near["keys"] == 1 else "differ"
    number = counted(near["keys"], "key")
    return f"; {number} without a partner {differ} from one of the other side only in case, spaces or zeros{shown}"


def assertion_problem(engine: Engine, match: KeyMatch, asserted: str | None, examples: int) -> RowsUnmatched | None:
    """The error if a side has rows without a partner and the user says that it has none."""
    counts = match.counts
    wrong = []
    if asserted in ("match", "left") and counts.matched_left < counts.left:
        wrong.append(_unmatched(engine, match, "left", counts.left - counts.matched_left, counts.left, examples))
    if asserted in ("match", "right") and counts.matched_right < counts.right:
        wrong.append(_unmatched(engine, match, "right", counts.right - counts.matched_right, counts.right, examples))
    if not wrong:
        return None
    return RowsUnmatched(
        f"`assert: {asserted}` does not hold: {'; '.join(wrong)}; correct the data or the keys, or remove `assert`"
    )


def _unmatched(engine: Engine, match: KeyMatch, side: str, number: int, rows: int, examples: int) -> str:
    table, _ = _side(match, side)
    keys = _examples(engine, match, side, min(examples, _SHOWN))
    shown = ", ".join(f"({', '.join(f'{c}={v}' for c, v in key.items())})" for key in keys)
    no_key = match.counts.null_left if side == "left" else match.counts.null_right
    without = f", {counted(no_key, 'row')} without a key" if no_key else ""
    return f"{number:,} of {counted(rows, 'row')} of `{table.label}` {'has' if number == 1 else 'have'} no partner" + (
        f": {shown}{without}" if shown else without
    )


def _side(match: KeyMatch, side: str) -> tuple[Table, Sequence[Column]]:
    return (match.left, match.keys) if side == "left" else (match.right, match.right_keys)


def _examples(engine: Engine, match: KeyMatch, side: str, most: int) -> list[dict[str, str]]:
    """The first keys of this side, each once, that the other side does not have."""
    counts = match.counts
    keyed = counts.left - counts.null_left if side == "left" else counts.right - counts.null_right
    matched = counts.matched_left if side == "left" else counts.matched_right
    if not most or keyed == matched:
        return []
    _, columns = _side(match, side)
    names = [column.name for column in columns]
    own = "l" if side == "left" else "r"
    texts = ", ".join(f"CAST({own}.{name(column)} AS VARCHAR)" for column in names)
    source = _alone_by_bits(engine, match, side) or _alone(match, side)
    rows = engine.rows(f"SELECT {texts} FROM {source} ORDER BY {own}.{ROW} LIMIT {most * _ROWS_A_KEY}")
    return [dict(zip(names, map(_short, row), strict=True)) for row in list(dict.fromkeys(rows))[:most]]


def _alone_by_bits(engine: Engine, match: KeyMatch, side: str) -> str | None:
    """The same as `_alone`, with one bit for each key of the other side: a fifth of the time of a join."""
    packed = match.packed
    if packed is None or packed.values > min(engine.spare_bits(), _MOST_BITS):
        return None
    (table, columns), (other, theirs) = _side(match, side), _side(match, "right" if side == "left" else "left")
    own = "l" if side == "left" else "r"
    bits = engine.new_name("bits")
    engine.do(
        f"CREATE TABLE {bits} AS SELECT bitstring_agg(k, 0, {packed.values - 1}) AS bits FROM "
        f"(SELECT CAST({packed.number(theirs)} AS BIGINT) AS k FROM {other.relation}) WHERE k IS NOT NULL"
    )
    keyed = f"(SELECT *, CAST({packed.number(columns)} AS BIGINT) AS {KEY} FROM {table.relation})"
    absent = f"b.bits IS NULL OR get_bit(b.bits, CAST({own}.{KEY} AS INTEGER)) = 0"
    return f"{keyed} {own}, {bits} b WHERE {own}.{KEY} IS NOT NULL AND ({absent})"


def _alone(match: KeyMatch, side: str) -> str:
    """SQL after FROM: the rows of this side that have a key and no partner."""
    sides, on = on_keys(match)
    own, other = ("l", "r") if side == "left" else ("r", "l")
    relations = {"l": sides[0], "r": sides[1]}
    _, columns = _side(match, side)
    present = " AND ".join(f"{own}.{name(column.name)} IS NOT NULL" for column in columns)
    return f"{relations[own]} {own} ANTI JOIN {relations[other]} {other} ON {on} WHERE {present}"


def _near(engine: Engine, match: KeyMatch) -> tuple[int, list[str]] | None:
    """How many keys without a partner are those of the other side but for case, spaces and leading zeros."""
    counts = match.counts
    alone = (
        counts.left - counts.null_left - counts.matched_left,
        counts.right - counts.null_right - counts.matched_right,
    )
    texts = [
        key.kind == "text" and other.kind == "text" for key, other in zip(match.keys, match.right_keys, strict=True)
    ]
    if not all(alone) or not any(texts):
        return None
    queries = []
    for side, own in (("left", "l"), ("right", "r")):
        _, columns = _side(match, side)
        written = [f"CAST({own}.{name(column.name)} AS VARCHAR)" for column in columns]
        plain = [
            f"coalesce(nullif(ltrim(lower(trim({text})), '0'), ''), '0')" if is_text else text
            for text, is_text in zip(written, texts, strict=True)
        ]
        values = ", ".join(f"{text} AS k{at}" for at, text in enumerate(plain))
        shown = f"concat_ws(', ', {', '.join(written)})"
        queries.append(f"SELECT DISTINCT {values}, {shown} AS shown FROM {_alone(match, side)}")
    same = " AND ".join(f"a.k{at} = b.k{at}" for at in range(len(texts)))
    number, left, right = engine.row(
        f"SELECT count(DISTINCT a.shown), min(a.shown), arg_min(b.shown, a.shown || chr(0) || b.shown) "
        f"FROM ({queries[0]}) a JOIN ({queries[1]}) b ON {same}"
    )
    return (int(number), [_short(left), _short(right)]) if number else None


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
