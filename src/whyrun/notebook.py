"""Plans, runs, artifacts and tables as small pieces of HTML, for `_repr_html_` in notebooks.

All texts are escaped: they come from workflows, models and the web. There is no script and no address in any of them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


class Html(str):
    """A text that notebooks show as HTML."""

    def _repr_html_(self) -> str:
        return str(self)


SHOWN = 20  # rows of a table
WIDEST = 480  # pixels of an image
LONGEST = 8000  # characters of a text
LARGEST = 2 << 20  # bytes of an image that a notebook keeps
_STATES = {"planned": "▶", "reused": "↺", "open": "…", "deferred": "⏸", "inactive": "○", "clean": "✓"}
_OUTCOMES = {"succeeded": "✓", "failed": "✗", "interrupted": "■", "nothing": "✓"}


def _tag(name: str, content: str, style: str = "") -> str:
    return f'<{name} style="{style}">{content}</{name}>' if style else f"<{name}>{content}</{name}>"


def _rows(
    head: Sequence[str], rows: Iterable[Sequence[str]], more: int = 0, numbers: frozenset[int] = frozenset()
) -> str:
    """A table; the cells are HTML already. Columns of `numbers` are aligned at the right."""

    def line(name: str, cells: Sequence[str]) -> str:
        sides = ("right" if at in numbers else "left" for at in range(len(cells)))
        styles = (f"text-align:{side};padding:2px 14px 2px 0;vertical-align:top" for side in sides)
        return f"<tr>{''.join(_tag(name, cell, style) for cell, style in zip(cells, styles, strict=True))}</tr>"

    lines = [line("th", head)] if any(head) else []
    lines += [line("td", row) for row in rows]
    rest = _tag("div", f"… {more:,} more", "opacity:.7") if more else ""
    return f'<table style="border-collapse:collapse">{"".join(lines)}</table>{rest}'


def _code(text: str) -> str:
    return _tag("code", escape(text), "white-space:pre-wrap;overflow-wrap:anywhere;display:inline-block;max-width:34em")


def plan_html(workflow: str, totals: Mapping[str, int], jobs: Sequence[Mapping[str, Any]], more: int) -> str:
    """What would run and why. Each job has its `id`, `state` and `reasons`: (code, text)."""
    counts = [f"{_STATES[name]} {totals[name]:,} {word}" for name, word in _WORDS.items() if totals.get(name)]
    head = _tag("div", f"<b>{escape(workflow)}</b> &nbsp; {' &nbsp; '.join(counts)}")
    rows = []
    for job in jobs:
        reasons = "<br>".join(f"<b>{escape(code)}</b> {escape(text)}" for code, text in job["reasons"])
        rows.append((_STATES.get(job["state"], ""), _code(job["id"]), _tag("div", reasons, "overflow-wrap:anywhere")))
    return f"<div>{head}{_rows((), rows, more) if rows else ''}</div>"


_WORDS = {
    "planned": "to run",
    "reused": "reused",
    "open": "open",
    "deferred": "deferred",
    "inactive": "inactive",
    "clean": "up to date",
}


def run_html(title: str, state: str, counts: Mapping[str, int]) -> str:
    numbers = ", ".join(f"{number:,} {escape(name)}" for name, number in counts.items() if number)
    return f"<div>{_OUTCOMES.get(state, '')} <b>{escape(title)}</b> &nbsp; {numbers}</div>"


def workflow_html(name: str, description: str, headline: str, picture: str) -> str:
    """`picture`: the SVG of `graph_pictures`, which is made by us."""
    text = _tag("div", escape(description)) if description else ""
    shown = _tag("div", picture, "overflow:auto;max-height:42em")
    return f"<div><b>{escape(name)}</b>{text}{_tag('div', escape(headline), 'opacity:.8')}{shown}</div>"


def table_html(columns: Sequence[str], rows: Sequence[Sequence[Any]], total: int) -> str:
    cells = [[_cell(value) for value in row] for row in rows[:SHOWN]]
    numbers = frozenset(
        at
        for at in range(len(columns))
        if all(isinstance(row[at], int | float) and not isinstance(row[at], bool) for row in rows[:SHOWN])
    )
    return _rows([escape(name) for name in columns], cells, max(0, total - SHOWN), numbers)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return escape(value if isinstance(value, str) else repr(value))


def artifact_html(title: str, content: str) -> str:
    return f"<div>{_tag('div', _code(title), 'opacity:.8')}{content}</div>"


def image_html(media_type: str, data: bytes, alt: str) -> str:
    text = base64.b64encode(data).decode()
    return f'<img alt="{escape(alt)}" style="max-width:{WIDEST}px" src="data:{escape(media_type)};base64,{text}">'


def text_html(text: str, more: bool = False) -> str:
    text, more = text[:LONGEST], more or len(text) > LONGEST
    return _tag("pre", escape(text) + ("\n…" if more else ""), "max-height:24em;overflow:auto")


def progress_html(done: float, text: str) -> str:
    """`done` from 0 to 1."""
    return f'<div><progress value="{min(max(done, 0.0), 1.0):.3f}" style="width:16em"></progress> {escape(text)}</div>'
