"""The tables of README.md from the figures of a bench run: `python bench/table.py FIGURES.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def tables(figures: dict[str, Any]) -> str:
    results = figures["results"]
    lines = ["| what | measured | limit | |", "|---|---|---|---|"]
    for row in results:
        if "judged" in row:
            verdict = "met" if row["met"] else "**over**"
            value, limit = f"{row['value']:.2f}{row['unit']}", f"{row['limit']:g}{row['unit']}"
            lines.append(f"| {row['benchmark']}: {row['judged']} | {value} | {limit} | {verdict} |")
    lines += ["", *_beside([row for row in results if row["benchmark"] == "beside"])]
    lines += ["", "| benchmark | N | command | best s | median s | cpu s | peak MB |", "|---|---|---|---|---|---|---|"]
    for row in results:
        if "name" in row and row["benchmark"] != "beside":
            median, cpu = (f"{row[key]:.3f}" if key in row else "" for key in ("median_s", "cpu_s"))
            lines.append(
                f"| {row['benchmark']} | {row['n']:,} | {row['name']} | {row['best_s']:.3f} | {median} | {cpu} "
                f"| {row['peak_mb']:.0f} |"
            )
    return "\n".join(lines) + "\n"


def _beside(rows: list[dict[str, Any]]) -> list[str]:
    """One line a tool: seconds and memory at each N, and how much longer ten times as many take."""
    if not rows:
        return []
    sizes = sorted({row["n"] for row in rows})
    lines = [f"| nothing to do | {' | '.join(f'N = {n:,}' for n in sizes)} | growth |", "|---" * (len(sizes) + 2) + "|"]
    for tool in dict.fromkeys(row["tool"] for row in rows):
        own = {row["n"]: row for row in rows if row["tool"] == tool}
        cells = [f"{own[n]['best_s']:.2f} s, {own[n]['peak_mb']:.0f} MB" if n in own else "" for n in sizes]
        grown = [f"{row['growth']:g}× for 10×" for row in own.values() if row["growth"]]
        lines.append(f"| {tool} | {' | '.join(cells)} | {grown[-1] if grown else ''} |")
    return lines


if __name__ == "__main__":
    sys.stdout.write(tables(json.loads(Path(sys.argv[1]).read_text())))
