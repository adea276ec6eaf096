"""The kinds of values, and our rules for converting texts to them. They do not depend on a sample or DuckDB's version.

A text counts as an integer, number, boolean, date or timestamp only if the conversion is exact: `007` and
`12345678901234567890` stay texts, and so do `NA`, `1,5` and ` 3 `. Numbers are floating-point: `10.1` and `10.10` are
equal, so keys of this kind are also compared by their spelling (`joining/keys.py`).
"""

from __future__ import annotations

import re

# In this order: a column gets the first kind that all its values fit.
KINDS = ("integer", "number", "boolean", "date", "timestamp", "text")
SMALL = "small integer"  # an integer of 32 bits: needs half of the memory
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
# The spellings that are allowed where the user declares a kind. A date has no time except midnight, and neither a date
# nor a timestamp has an offset: a cast would silently drop them.
_DECLARED_SPELLINGS = {
    "integer": r"\s*[+-]?[0-9]+\s*",
    "number": r"\s*[+-]?[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?\s*",
    "date": rf"\s*{_DAY}([ T]00:00(:00(\.0+)?)?)?\s*",
    "timestamp": rf"\s*{_DAY}([ T][0-9]{{1,2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,6}})?)?)?\s*",
}
_NUMBER = r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?"


def kind_of(type_: str) -> str:
    """The kind of a DuckDB type. Integers of all widths are one kind: joining them is exact."""
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
    """The kind that holds values of all these kinds without loss; used in hints."""
    if set(kinds) <= {"integer", "number"}:
        return "number"
    return "timestamp" if set(kinds) <= {"date", "timestamp"} else "text"


def misfit(text: str, kind: str) -> str:
    """SQL that is true where `text` has a value that is not spelled like this kind; never NULL."""
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
            value = f"TRY_CAST({text} AS TIMESTAMP)"
            fits = f"CAST({value} AS VARCHAR) = replace({text}, 'T', ' ') AND isfinite({value})"
        case _:
            return "false"
    return f"({text} IS NOT NULL AND NOT coalesce({fits}, false))"


def known(value: str, type_: str) -> str:
    """SQL of the value, with NULL for NaN: some programs write a missing value as NaN."""
    if type_ not in FLOATING:
        return value
    return f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"


def from_text(text: str, kind: str) -> str:
    return text if kind == "text" else f"TRY_CAST({text} AS {TYPE_OF[kind]})"


def converted_to(value: str, type_: str, kind: str) -> tuple[str, str]:
    """SQL of the value as the kind that the user declares, and SQL that is true where that is not exact.

    A declared kind allows more spellings than a detected one: `007` is an integer here.
    """
    if kind == "text":
        return f"CAST({value} AS VARCHAR)", "false"
    converted = f"TRY_CAST({value} AS {TYPE_OF.get(kind, kind)})"
    if kind_of(type_) == "text":
        if kind.startswith("decimal("):  # a plain cast would round
            scale = int(kind.rstrip(")").split(",")[1])
            short = f"length(rtrim(split_part(trim({value}), '.', 2), '0')) <= {scale}"
            digits = r"\s*[+-]?[0-9]+(\.[0-9]+)?\s*"
            fits = f"{converted} IS NOT NULL AND regexp_full_match({value}, '{digits}') AND {short}"
            return converted, f"({value} IS NOT NULL AND NOT coalesce({fits}, false))"
        pattern = _DECLARED_SPELLINGS.get(kind)
        written = f" AND regexp_full_match({value}, '{pattern}')" if pattern else ""
        fits = f"{converted} IS NOT NULL{written}"
    else:
        fits = f"TRY_CAST({converted} AS {type_}) = {value}"
    return converted, f"({value} IS NOT NULL AND NOT coalesce({fits}, false))"
