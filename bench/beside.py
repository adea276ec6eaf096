"""Nothing to do: whyrun beside ninja, make, doit, snakemake and DVC, each as large as it can be measured in reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import workload
from lab import Bench, expect, show
from measure import alternate

# The largest N of each, in turns at every size up to it. DVC needs seconds for a thousand stages.
LARGEST = {"whyrun": 100_000, "ninja": 100_000, "make": 100_000, "doit": 10_000, "snakemake": 10_000, "dvc": 1_000}
SIZES = (100, 1_000, 10_000, 100_000)
SAYS = {
    "whyrun": "nothing to do",
    "ninja": "no work to do",
    "make": "Nothing to be done",
    "doit": "-- step:",
    "snakemake": "Nothing to be done",
    "dvc": "up to date",
}


def beside(bench: Bench) -> None:
    best: dict[str, dict[int, float]] = {tool: {} for tool in LARGEST}
    for n in SIZES:
        # Each at its largest size and at a tenth of it, for its growth; and all at 1,000, for a look at them together.
        tools = [tool for tool, most in LARGEST.items() if min(most, bench.n) in (n, n * 10) or n == 1_000]
        tools = [tool for tool in tools if tool != "make" or bench.tools.make is not None]
        commands = {f"{tool} (N={n})": _command(bench, tool) for tool in tools if n <= bench.n}
        if not commands:
            continue
        folders = {f"{tool} (N={n})": _state(bench, tool, n) for tool in tools}
        found = alternate(commands, folders, 2 if n < 100_000 else bench.repeats, bench.log("x").parent)
        for tool, (name, series) in zip(tools, found.items(), strict=True):
            expect(bench.log(name.replace(" ", "-")), SAYS[tool])
            show(series)
            best[tool][n] = series.best
            growth = series.best / best[tool][n // 10] if n // 10 in best[tool] else None
            bench.add("beside", n, series, tool=tool, growth=growth and round(growth, 2))


def _state(bench: Bench, tool: str, n: int) -> Path:
    if tool != "make":
        return bench.state(tool, n)
    folder = bench.state("ninja", n)
    if not (folder / "Makefile").exists():
        workload.make_rules(folder, n // workload.DEPTH)
    return folder


def _command(bench: Bench, tool: str) -> Sequence[str | Path]:
    tools = bench.tools
    commands: dict[str, Sequence[str | Path]] = {
        "whyrun": bench.drive("plan", "."),
        "ninja": [tools.ninja, "-n"],
        "make": [tools.make or "make", "-n"],
        "doit": [tools.doit, "run"],
        "snakemake": [tools.snakemake, "-n"],
        "dvc": [tools.dvc, "status"],
    }
    return commands[tool]
