"""Draws docs/img/house.svg: the packages of Whyrun as floors, and how data flows through them.

    python docs/house_picture.py    write the picture anew after a package was added or renamed

A test compares the picture with the packages that exist.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PICTURE = DOCS / "img" / "house.svg"

# Floors from top to bottom. A package may import those on lower floors only.
FLOORS: list[tuple[str, list[tuple[str, str]]]] = [
    ("people", [("cli", "one module a command"), ("viewer", "the page and the report"), ("api", "from Python")]),
    ("answers", [("results", "in Python"), ("exports", "pictures, other formats"), ("facts", "answers as JSON")]),
    ("PLAN → EVENTS", [("execution", "run · dispatch · recording · backends · worker")]),
    (
        "evidence for people",
        [("evidence", "run folder · verify · parity · retention"), ("console", "lines, progress, summary")],
    ),
    ("STATE → PLAN", [("planning", "judge · reasons · plan · answers"), ("project", "one opened workflow")]),
    ("LOG + DISK → STATE", [("snapshot", "history · observing · actions · build")]),
    ("the truth, the graph", [("log", "events, journal, lock, repair"), ("graph", "MODEL → GRAPH: canonical IDs")]),
    (
        "actions, settings",
        [
            ("actions", "registry · code · inspection"),
            ("connections", "databases by name"),
            ("project_config", "whyrun.toml"),
        ],
    ),
    ("places", [("environments", "locked packages, virtual environments, containers")]),
    ("bytes, files", [("artifacts", "hashing, store, publishing"), ("workflow", "FILE → MODEL: parsing, expressions")]),
    (
        "ground",
        [
            ("ids", ""),
            ("errors", ""),
            ("json_values", ""),
            ("money", ""),
            ("disk", ""),
            ("lazy_regex", ""),
            ("notebook", ""),
        ],
    ),
]
WIDTH, LEFT, TOP, HEIGHT, GAP = 980, 170, 20, 54, 12
FONT = "font-family=\"'DejaVu Sans', Helvetica, Arial, sans-serif\""


def drawn() -> str:
    height = TOP * 2 + len(FLOORS) * (HEIGHT + GAP) - GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">',
        "<title>The house: packages from top to bottom; imports go downward only</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#ffffff"/>',
    ]
    for number, (label, rooms) in enumerate(FLOORS):
        y = TOP + number * (HEIGHT + GAP)
        parts.append(
            f'<text x="{LEFT - 16}" y="{y + HEIGHT / 2 + 4}" text-anchor="end" {FONT} font-size="12" fill="#64748b">'
            f"{escape(label)}</text>"
        )
        room = (WIDTH - LEFT - TOP - GAP * (len(rooms) - 1)) / len(rooms)
        for place, (name, text) in enumerate(rooms):
            x = LEFT + place * (room + GAP)
            fill = "#e0f2fe" if number in (1, 3, 4, 5) else "#f1f5f9"
            parts.append(
                f'<rect x="{x:.0f}" y="{y}" width="{room:.0f}" height="{HEIGHT}" rx="6" '
                f'fill="{fill}" stroke="#94a3b8"/>'
            )
            middle = x + room / 2
            line = y + (HEIGHT / 2 - 2 if text else HEIGHT / 2 + 5)
            parts.append(
                f'<text x="{middle:.0f}" y="{line:.0f}" text-anchor="middle" {FONT} font-size="15" font-weight="bold" '
                f'fill="#0f172a">{escape(name)}</text>'
            )
            if text:
                parts.append(
                    f'<text x="{middle:.0f}" y="{line + 17:.0f}" text-anchor="middle" {FONT} font-size="11.5" '
                    f'fill="#334155">{escape(text)}</text>'
                )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
