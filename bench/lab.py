"""One bench run: where its folders are, which states it has made, what it found, and how it is told."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import peers
import workload
from measure import Cost, Failed, Series, timed

HERE = Path(__file__).resolve().parent


@dataclass
class Bench:
    """One bench run: where its folders are, and what it found."""

    folder: Path
    n: int
    repeats: int
    jobs: int
    many_jobs: int
    events: int
    tools: peers.Peers
    results: list[dict[str, Any]] = field(default_factory=list)

    # -- commands --

    def drive(self, *words: str | Path) -> list[str | Path]:
        return [sys.executable, HERE / "drive.py", *words]

    def log(self, name: str) -> Path:
        folder = self.folder / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.log"

    # -- states, made once a bench run --

    def state(self, tool: str, n: int) -> Path:
        """A folder in which `tool` has really done all of the workload."""
        folder = self.folder / f"{tool}-{n}"
        ready = folder.with_suffix(".ready")
        if ready.exists():
            return folder
        make: dict[str, Callable[[Path, int], None]] = {
            "whyrun": workload.whyrun_project,
            "ninja": workload.ninja_project,
            "snakemake": workload.snakemake_project,
            "doit": workload.doit_project,
            "dvc": workload.dvc_project,
        }
        build: dict[str, list[str | Path]] = {
            "whyrun": self.drive("run", folder, "--jobs", "2"),
            "ninja": [self.tools.ninja, "--quiet", "-j2"],
            "doit": [self.tools.doit, "run"],
            "dvc": ["sh", "-c", '"$0" init --quiet --no-scm && "$0" commit --quiet --force', self.tools.dvc],
        }
        make[tool](folder, n // workload.DEPTH)
        if tool in build:
            cost = timed(build[tool], folder, output=self.log(f"make-{tool}-{n}"), limit=3600.0)
            assert cost is not None, "an hour is enough"
            say(f"  state: {tool} ran {n} steps in {cost.seconds:.1f} s, {cost.seconds / n * 1000:.2f} ms a step")
            self.results.append({"benchmark": "state", "tool": tool, "n": n, **cost_json(cost)})
        ready.touch()
        return folder

    def add(self, benchmark: str, n: int, series: Series | Cost, name: str = "", **more: Any) -> None:
        measured = series.to_json() if isinstance(series, Series) else {"name": name, **cost_json(series)}
        self.results.append({"benchmark": benchmark, "n": n, **measured, **more})

    def judge(self, benchmark: str, what: str, value: float, limit: float, unit: str = "×") -> None:
        met = value <= limit
        self.results.append(
            {"benchmark": benchmark, "judged": what, "value": round(value, 3), "limit": limit, "unit": unit, "met": met}
        )
        say(f"  {'ok  ' if met else 'OVER'} {what}: {value:.2f}{unit} (limit {limit:g}{unit})")


# --- telling -----------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show(series: Series, n: int | None = None, more: str = "") -> None:
    name = series.name if n is None else f"{series.name} (N={n})"
    times = f"best {series.best:8.3f} s  median {series.median:8.3f} s  cpu {series.cpu:7.3f} s"
    say(f"  {name:<40} {times}  {series.peak_mb:7.1f} MB  {more}")


def cost_json(cost: Cost) -> dict[str, float]:
    return {"best_s": round(cost.seconds, 4), "peak_mb": round(cost.peak_mb, 1)}


def expect(log: Path, text: str) -> None:
    """A measurement of something else than was meant is worse than none."""
    if text not in log.read_text(errors="replace"):
        raise Failed(f"{log}: `{text}` was expected in:\n{log.read_text(errors='replace')[-1000:]}")
