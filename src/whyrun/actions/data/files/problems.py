"""Why a file cannot be read as a table, in our own words: without its content, which messages of DuckDB repeat."""

from __future__ import annotations

import re
from pathlib import Path

from whyrun.actions.data.params import UnreadableTable, counted

_CSV_ERROR = re.compile(r"CSV Error on Line: (\d+)\n")
_FOUND = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
_TOO_LONG = re.compile(r"Maximum line size of (\d+) bytes exceeded")
_NO_UTF8 = re.compile("not utf-8 encoded|Invalid unicode", re.IGNORECASE)
_CLASS = re.compile(r"^[A-Z][A-Za-z]*( [A-Z][A-Za-z]*)* Error: ")  # of DuckDB's exception
_LATIN_1 = "is it `encoding: latin-1`?"


def reason(problem: BaseException) -> str:
    """DuckDB's message without the echo of our query and hints about options that do not exist here."""
    text = str(problem).split("\n\n")[0].split("\nLINE ")[0].split("\nPossible ")[0]
    return " ".join(text.split()).rstrip(".")


def unreadable(label: str, kind: str, problem: Exception, path: Path) -> UnreadableTable:
    """The error for a file that is bound to `label`, from an error of DuckDB or of our own readers."""
    if isinstance(problem, UnreadableTable):
        why, hint = problem.what, problem.hint
    else:
        why, hint = _of_csv(str(problem)) or (_CLASS.sub("", reason(problem)).replace(f" '{path}'", ""), "")
    return UnreadableTable(f"`{label}` cannot be read as {kind}: {why}", hint, path)


def _of_csv(text: str) -> tuple[str, str] | None:
    """What is wrong, and a hint, if DuckDB names a line of a CSV file. Its message: the line, which may have line
    breaks; what is wrong; options of DuckDB."""
    line = _CSV_ERROR.search(text)
    if line is None:
        return ("it is not utf-8 text", _LATIN_1) if _NO_UTF8.search(text) else None
    where = f"line {int(line[1]):,}"
    told = text[line.end() :].rpartition("\nPossible ")[0].split("\n")
    last = next((each for each in reversed(told) if each and not each.startswith("Possible ")), "")
    if (found := _FOUND.match(last)) is not None:
        return (
            f"{where} has {counted(int(found[2]), 'value')} instead of {int(found[1]):,}",
            "correct the line, and quote a value that holds the delimiter",
        )
    if (most := _TOO_LONG.match(last)) is not None:
        return f"{where} has more than {int(most[1]):,} bytes", "shorten it; a quote that does not end joins lines"
    if _NO_UTF8.search(last):
        return f"{where} is not utf-8 text", _LATIN_1
    if "unterminated quote" in last:
        return f'{where} has a `"` that does not end a value', 'write `""` for a quote inside a quoted value'
    return f"{where} is not valid", "correct it"
