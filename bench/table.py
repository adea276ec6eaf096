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
    lines += ["", "| benchmark | N | command | best s | median s | cpu s | peak MB |", "|---|---|---|---|---|---|---|"]
    for row in results:
        if "name" in row:
            median, cpu = (f"{row[key]:.3f}" if key in row else "" for key in ("median_s", "cpu_s"))
            lines.append(
                f"| {row['benchmark']} | {row['n']:,} | {row['name']} | {row['best_s']:.3f} | {median} | {cpu} "
                f"| {row['peak_mb']:.0f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(tables(json.loads(Path(sys.argv[1]).read_text())))
