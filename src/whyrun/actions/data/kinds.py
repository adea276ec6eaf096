"""Kinds of values, and how a text becomes one: rules of our own, so that no sample and no version decides.

A text is an integer, a number, a boolean, a date or a timestamp only where nothing of it is lost: `007` and
`12345678901234567890` stay texts, and so do `NA`, `1,5` and ` 3 `. A number is a floating-point one: `10.1` and
`10.10` are the same, and so keys of that kind are looked at once more, as they are written (`written_keys`).
"""

from __future__ import annotations

import re

# In this order: a column has the first kind that all its values fit.
KINDS = ("integer", "number", "boolean", "date", "timestamp", "text")
SMALL = "small integer"  # an integer of 32 bits: how a column is kept while that is enough, in half of the memory
TYPE_OF = {
    SMALL: "INTEGER",
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "text": "VARCHAR",
}
FLOATING = ("DOUBLE", "FLOAT")
NAN_TEXTS = "('nan', '-nan')"
INFINITE_TEXTS = "('inf', '-inf')"
_INTEGERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
# How a text may be written where the user asks for a kind. A time is no part of a date, unless it is midnight; an
# offset is part of neither: what a cast would leave out is not left out.
_ASKED = {
    "integer": r"\s*[+-]?[0-9]+\s*",
    "number": r"\s*[+-]?[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?\s*",
    "date": rf"\s*{_DAY}([ T]00:00(:00(\.0+)?)?)?\s*",
    "timestamp": rf"\s*{_DAY}([ T][0-9]{{1,2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,6}})?)?)?\s*",
}
_NUMBER = r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?"


def kind_of(type_: str) -> str:
    """The kind of DuckDB's type: all widths of integers are one kind, since joining them loses nothing."""
    if _INTEGERS.fullmatch(type_):
        return "integer"
    if type_ in FLOATING:
        return "number"
    if type_ == "VARCHAR" or type_.startswith("ENUM"):
        return "text"
    if type_.startswith("TIMESTAMP") and "TIME ZONE" not in type_:
        return "timestamp"
    return type_.lower()


def wider(*kinds: str) -> str:
    """What values of all these kinds can be without a loss: what to advise where they meet."""
    if set(kinds) <= {"integer", "number"}:
        return "number"
    return "timestamp" if set(kinds) <= {"date", "timestamp"} else "text"


def misfit(text: str, kind: str) -> str:
    """SQL that is true where the text `text` is there and is not written as this kind is; never NULL."""
    match kind:
        case "integer" | "small integer":
            fits = f"CAST(TRY_CAST({text} AS {TYPE_OF[kind]}) AS VARCHAR) = {text}"
        case "number":
            fits = f"regexp_full_match({text}, '{_NUMBER}') AND isfinite(TRY_CAST({text} AS DOUBLE))"
        case "boolean":
            fits = f"{text} IN ('true', 'false', 'True', 'False', 'TRUE', 'FALSE')"
        case "date":
            fits = f"CAST(TRY_CAST({text} AS DATE) AS VARCHAR) = {text} AND isfinite(TRY_CAST({text} AS DATE))"
        case "timestamp":
            found = f"TRY_CAST({text} AS TIMESTAMP)"
            fits = f"CAST({found} AS VARCHAR) = replace({text}, 'T', ' ') AND isfinite({found})"
        case _:
            return "false"
    return f"({text} IS NOT NULL AND NOT coalesce({fits}, false))"


def known(value: str, type_: str) -> str:
    """SQL of the value; NULL for NaN, which is how some programs write that there is none."""
    if type_ not in FLOATING:
        return value
    return f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"


def from_text(text: str, kind: str) -> str:
    return text if kind == "text" else f"TRY_CAST({text} AS {TYPE_OF[kind]})"


def asked(value: str, type_: str, kind: str) -> tuple[str, str]:
    """(the value as the kind that the user asks for, SQL that is true where it cannot be). Exact, or refused; but what
    is asked for may be written more freely than what is found: `007` is an integer here."""
    if kind == "text":
        return f"CAST({value} AS VARCHAR)", "false"
    converted = f"TRY_CAST({value} AS {TYPE_OF.get(kind, kind)})"
    if kind_of(type_) == "text":
        if kind.startswith("decimal("):  # a cast alone would round
            scale = int(kind.rstrip(")").split(",")[1])
            short = f"length(rtrim(split_part(trim({value}), '.', 2), '0')) <= {scale}"
            digits = r"\s*[+-]?[0-9]+(\.[0-9]+)?\s*"
            fits = f"{converted} IS NOT NULL AND regexp_full_match({value}, '{digits}') AND {short}"
            return converted, f"({value} IS NOT NULL AND NOT coalesce({fits}, false))"
        pattern = _ASKED.get(kind)
        written = f" AND regexp_full_match({value}, '{pattern}')" if pattern else ""
        fits = f"{converted} IS NOT NULL{written}"
    else:
        fits = f"TRY_CAST({converted} AS {type_}) = {value}"
    return converted, f"({value} IS NOT NULL AND NOT coalesce({fits}, false))"
