"""`whyrun table PATTERN... [FILE]`: values over loops as one table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import names_and_project
from whyrun.cli.output import columns, page, print_json, print_lines, value_text

if TYPE_CHECKING:
    from whyrun.project import Project

_CELL = 40  # characters of a value in a text table


def _is_artifact(word: str) -> bool:
    """A word such as `Fit` is probably the name of a job: the answer then names the patterns of its values."""
    return word.startswith(("Artifact:", "Job:", "Input:")) or not ("." in word or os.path.exists(word))


@click.command(short_help="Show values over loops as one table.")
@click.option("--sort", metavar="COLUMN", help="Sort by this column; -COLUMN: the largest first.")
@click.option("--all", "show_all", is_flag=True, help="Show every row, not only the first 50.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all rows as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print all rows as JSON, each value with its artifact and run.")
@names_and_project(_is_artifact, "[PATTERN]... [FILE]")
def command(
    project: Project, names: tuple[str, ...], sort: str | None, show_all: bool, as_csv: bool, as_json: bool
) -> None:
    """Show values over loops as one table: a row for each instance, a column for each value.

    PATTERN is an artifact in which `*` stands for a name or index: a leaf, an output that is a value, or a JSON output,
    whose members become columns. Several patterns with the same loops make one table. Values that are not current are
    empty. Without a pattern, the command lists the patterns that have values.

    \b
    Example:
      whyrun table
      whyrun table 'Artifact:Train.Result[*][*].acc' --sort -acc
      whyrun table 'Artifact:Train.Result[*]' 'Artifact:Test.Score[*]' --csv > results.csv
    """
    from whyrun.facts.table import possible_patterns, value_table

    if not names:
        patterns = possible_patterns(project.graph)
        if as_json:
            print_json({"workflow": project.workflow.name, "patterns": patterns})
        else:
            print_lines(patterns or ["no output of this workflow is a value or JSON"])
        return
    table = value_table(project, names)
    if sort is not None:
        _sort(table, sort)
    if as_json:
        print_json({"workflow": project.workflow.name, **table})
    elif as_csv:
        print_lines(_csv_lines(table))
    else:
        print_lines(_text_lines(table, show_all))


def _sort(table: dict[str, Any], by: str) -> None:
    """Numbers come before texts, and rows without a value last, also where the largest comes first."""
    from whyrun.errors import did_you_mean, error

    names = [*table["loops"], *table["columns"]]
    name, descending = (by[1:], True) if by not in names and by.startswith("-") else (by, False)
    if name not in names:
        hint = did_you_mean(name, names) or f"the columns are {', '.join(f'`{one}`' for one in names)}"
        raise error("USAGE", f"`--sort {by}`: the table has no column `{name}`", hint=hint)
    at = names.index(name)

    def key(row: dict[str, Any]) -> tuple[bool, float, str]:
        value = [*row["index"], *row["values"]][at]
        is_number = isinstance(value, int | float)
        return not is_number, float(value) if is_number else 0.0, "" if is_number else value_text(value)

    known: list[dict[str, Any]] = []
    without: list[dict[str, Any]] = []
    for row in table["rows"]:
        (without if [*row["index"], *row["values"]][at] is None else known).append(row)
    table["rows"] = [*sorted(known, key=key, reverse=descending), *without]


def _csv_lines(table: dict[str, Any]) -> Iterator[str]:
    import csv
    import io

    for row in _rows(table):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row)
        yield line.getvalue()


def _text_lines(table: dict[str, Any], show_all: bool) -> Iterator[str]:
    head, *body = _rows(table, states=True)
    shown, rest = page(body, show_all)
    numeric = [all(isinstance(row[i], int | float | None) for row in body) for i in range(len(head))]
    texts = [[_cell(cell) for cell in row] for row in [head, *shown]]
    widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
    yield from columns(
        [
            [cell.rjust(width) if right else cell for cell, width, right in zip(row, widths, numeric, strict=True)]
            for row in texts
        ],
        indent=0,
    )
    if rest is not None:
        yield rest


def _rows(table: dict[str, Any], *, states: bool = False) -> Iterator[list[Any]]:
    """The head, then the rows; `states`: with a last column that says why values are missing, if any is."""
    missing = states and any(state != "available" for row in table["rows"] for state in row["states"])
    yield [*table["loops"], *table["columns"], *(["state"] if missing else [])]
    for row in table["rows"]:
        why = _reasons(row["states"]) if missing else ()
        yield [*row["index"], *row["values"], *([", ".join(why)] if missing else [])]


def _reasons(states: Iterable[str]) -> list[str]:
    return [state for state in dict.fromkeys(states) if state not in ("available", "none")]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else value_text(value, _CELL)
    text = " ".join(text.split())
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"
