"""The benchmarks: `python bench/run.py [NAME …] [--n N] [--repeats R] [--json FILE] [--reuse-state]`.

Every figure that is judged is a ratio of two things measured in the same run, in turns. The state is real: whyrun and
ninja each made it by running the workload once. Fresh folders, and nothing is deleted in between: a file system after
a mass deletion is slow for a while. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fold
import logging_cost
import peers
import trivial
import workload
from measure import Cost, Failed, Series, alternate, timed

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent / ".bench"


@dataclass
class Bench:
    """One bench run: where its folders are, and what it found."""

    folder: Path
    n: int
    small_n: int
    repeats: int
    jobs: int
    events: int
    patience: float  # seconds for one command of a slow peer at N; beyond, it is left out
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
        }
        build: dict[str, list[str | Path]] = {
            "whyrun": self.drive("run", folder, "--jobs", "2"),
            "ninja": [self.tools.ninja, "--quiet", "-j2"],
            "doit": [self.tools.doit, "run"],
        }
        make[tool](folder, n // workload.DEPTH)
        if tool in build:
            cost = timed(build[tool], folder, output=self.log(f"make-{tool}-{n}"), limit=3600.0)
            assert cost is not None, "an hour is enough"
            say(f"  state: {tool} ran {n} steps in {cost.seconds:.1f} s, {cost.seconds / n * 1000:.2f} ms a step")
            self.results.append({"benchmark": "state", "tool": tool, "n": n, **_cost(cost)})
        ready.touch()
        return folder

    def add(self, benchmark: str, n: int, series: Series | Cost, name: str = "", **more: Any) -> None:
        measured = series.to_json() if isinstance(series, Series) else {"name": name, **_cost(series)}
        self.results.append({"benchmark": benchmark, "n": n, **measured, **more})

    def judge(self, benchmark: str, what: str, value: float, limit: float, unit: str = "×") -> None:
        met = value <= limit
        self.results.append(
            {"benchmark": benchmark, "judged": what, "value": round(value, 3), "limit": limit, "unit": unit, "met": met}
        )
        say(f"  {'ok  ' if met else 'OVER'} {what}: {value:.2f}{unit} (limit {limit:g}{unit})")


# --- planning ----------------------------------------------------------------------------------------------------


def plan_noop(bench: Bench) -> None:
    """Nothing to do at N: whyrun beside ninja; the slow peers at a smaller N in turns, and once at N."""
    found = _noop(bench, bench.n)
    for series in found.values():
        _show(series)
        bench.add("plan_noop", bench.n, series)
    bench.judge("plan_noop", "whyrun plan / ninja -n (best)", found["whyrun plan"].best / found["ninja -n"].best, 3.0)
    bench.judge("plan_noop", "peak memory of whyrun plan", found["whyrun plan"].peak_mb, 500.0, " MB")
    _first_plan(bench)


def _noop(bench: Bench, n: int) -> dict[str, Series]:
    ours, theirs = bench.state("whyrun", n), bench.state("ninja", n)
    commands: dict[str, Sequence[str | Path]] = {
        "whyrun plan": bench.drive("plan", ours),
        "ninja -n": [bench.tools.ninja, "-n"],
        "ninja": [bench.tools.ninja],
    }
    folders = {"whyrun plan": bench.folder, "ninja -n": theirs, "ninja": theirs}
    found = alternate(commands, folders, bench.repeats, bench.log("x").parent)
    for name in ("ninja -n", "ninja"):
        _expect(bench.log(name.replace(" ", "-")), "no work to do")
    return found


def _first_plan(bench: Bench) -> None:
    """The same without the derived files: what a first plan on another machine costs. Told, not judged."""
    ours = bench.state("whyrun", bench.n)
    state = ours / ".whyrun"
    aside = bench.folder / f"aside-{time.time_ns()}"
    aside.mkdir()
    for number, derived in enumerate([state / "stat-cache", state / "chains" / "index"]):
        if derived.exists():
            derived.rename(aside / str(number))  # moved, not deleted
    cost = timed(bench.drive("plan", ours), bench.folder, output=bench.log("whyrun-plan-cold"))
    assert cost is not None
    say(f"  {'whyrun plan, no index, no stat-cache':<40} {cost.seconds:8.3f} s  {cost.peak_mb:7.1f} MB")
    bench.add("plan_noop", bench.n, cost, "whyrun plan, no index, no stat-cache")


def slow_peers(bench: Bench) -> None:
    """snakemake and doit: in turns with whyrun at the smaller N, and once at N if it ends in time."""
    n = bench.small_n
    ours, snake, doit = bench.state("whyrun", n), bench.state("snakemake", n), bench.state("doit", n)
    commands: dict[str, Sequence[str | Path]] = {
        "whyrun plan": bench.drive("plan", ours),
        "snakemake -n": _snakemake(bench),
        "doit run": [bench.tools.doit, "run"],
    }
    folders = {"whyrun plan": ours, "snakemake -n": snake, "doit run": doit}
    found = alternate(commands, folders, 2, bench.log("x").parent)
    for series in found.values():
        _show(series, n)
        bench.add("slow_peers", n, series)
    for name, command in (("snakemake", commands["snakemake -n"]), ("doit", commands["doit run"])):
        if n >= bench.n:
            break
        folder = bench.state(name, bench.n)
        cost = timed(command, folder, output=bench.log(f"{name}-{bench.n}"), limit=bench.patience)
        if cost is None:
            say(f"  {name} at N={bench.n}: more than {bench.patience:.0f} s, ended")
            continue
        say(f"  {name + f' at N={bench.n}, once':<40} {cost.seconds:8.3f} s  {cost.peak_mb:7.1f} MB")
        bench.add("slow_peers", bench.n, cost, f"{name}, once")


def _snakemake(bench: Bench) -> list[str | Path]:
    return [bench.tools.snakemake, "-n", "--quiet"]


def plan_one_changed(bench: Bench) -> None:
    """One source edited: ten jobs to run, every reason told. Both tools say why."""
    ours, theirs = bench.state("whyrun", bench.n), bench.state("ninja", bench.n)
    middle = f"src/{bench.n // workload.DEPTH // 2:06d}.txt"
    before = {folder: (folder / middle).read_bytes() for folder in (ours, theirs)}
    for folder in before:
        (folder / middle).write_text(f"edited {time.time_ns()}\n")
    commands: dict[str, Sequence[str | Path]] = {
        "whyrun explain": bench.drive("explain", ours),
        "ninja -n -d explain": [bench.tools.ninja, "-n", "-d", "explain"],
    }
    folders = {"whyrun explain": bench.folder, "ninja -n -d explain": theirs}
    found = alternate(commands, folders, bench.repeats, bench.log("x").parent)
    _expect(bench.log("whyrun-explain"), "INPUT_CHANGED")
    _expect(bench.log("ninja--n--d-explain"), "explain")
    for series in found.values():
        _show(series)
        bench.add("plan_one_changed", bench.n, series)
    ratio = found["whyrun explain"].best / found["ninja -n -d explain"].best
    bench.judge("plan_one_changed", "whyrun explain / ninja -n -d explain (best)", ratio, 4.0)
    # Back as it was. For whyrun that is nothing to do again (content); for ninja a new time, so it builds the ten.
    for folder, content in before.items():
        (folder / middle).write_bytes(content)
    timed([bench.tools.ninja, "--quiet"], theirs, output=bench.log("ninja-back"))


def growth(bench: Bench) -> None:
    """From N/10 to N: in turns, so that both see the same machine."""
    small, large = bench.state("whyrun", bench.n // 10), bench.state("whyrun", bench.n)
    commands = {
        f"whyrun plan N={bench.n // 10}": bench.drive("plan", small),
        f"whyrun plan N={bench.n}": bench.drive("plan", large),
    }
    found = alternate(commands, dict.fromkeys(commands, bench.folder), bench.repeats, bench.log("x").parent)
    less, more = found.values()
    for series in found.values():
        _show(series)
        bench.add("growth", bench.n, series)
    bench.judge("growth", f"time at N={bench.n} / N={bench.n // 10} (best)", more.best / less.best, 11.0)


def cold_help(bench: Bench) -> None:
    """`whyrun --help` in a fresh process, with the installed command where there is one."""
    installed = Path(sys.executable).with_name("whyrun")
    command = [installed] if installed.exists() else [sys.executable, "-m", "whyrun.cli.main"]
    found = alternate(
        {"whyrun --help": [*command, "--help"], "python -c pass": [sys.executable, "-c", "pass"]},
        {"whyrun --help": bench.folder, "python -c pass": bench.folder},
        max(10, bench.repeats),
        bench.log("x").parent,
    )
    for series in found.values():
        _show(series)
        bench.add("cold_help", 1, series)
    bench.judge("cold_help", "whyrun --help (median)", found["whyrun --help"].median, 0.2, " s")


# --- running -----------------------------------------------------------------------------------------------------


def run_trivial(bench: Bench) -> None:
    """Each whyrun round starts from an empty state in a fresh folder: everything is executed and recorded."""
    costs: dict[str, list[Cost]] = {"whyrun run": [], "ProcessPoolExecutor": []}
    for round_ in range(bench.repeats):
        folder = bench.folder / f"trivial-{round_}-{time.time_ns()}"
        trivial.project(folder, bench.jobs)
        ours = timed(bench.drive("run", folder, "--jobs", "2"), folder, output=bench.log("whyrun-run-trivial"))
        pool: list[str | Path] = [sys.executable, HERE / "trivial.py", "pool", folder, str(bench.jobs)]
        bare = timed(pool, folder, output=bench.log("pool"))
        assert ours is not None
        assert bare is not None
        costs["whyrun run"].append(ours)
        costs["ProcessPoolExecutor"].append(bare)
    found = {name: Series(name, tuple(many)) for name, many in costs.items()}
    for series in found.values():
        _show(series, bench.jobs, f"{series.best / bench.jobs * 1000:.3f} ms a job")
        bench.add("run_trivial", bench.jobs, series, ms_a_job=round(series.best / bench.jobs * 1000, 4))
    ratio = found["whyrun run"].best / found["ProcessPoolExecutor"].best
    bench.judge("run_trivial", "whyrun run / ProcessPoolExecutor, whole processes (best)", ratio, 5.0)


def logging(bench: Bench) -> None:
    """2,000 short tasks, as jobs and inside one action: every line told to a file, beside the same with none told."""
    for kind in ("jobs", "study"):
        costs: dict[str, list[Cost]] = {"all lines, to a file": [], "nothing told": []}
        for round_ in range(bench.repeats):
            for name in costs:
                folder = bench.folder / f"logging-{kind}-{len(name)}-{round_}-{time.time_ns()}"
                silent = logging_cost.project(folder, kind)
                told = ["--log-level", "all", "--log-file", folder / "told.log"]
                words = told if name.startswith("all") else ["--log-level", "none", *silent]
                command = [sys.executable, "-m", "whyrun.cli.main", "run", "--jobs", "2", *words]
                cost = timed(command, folder, output=bench.log(f"logging-{kind}"))
                assert cost is not None
                costs[name].append(cost)
                if name.startswith("all"):
                    assert (folder / "told.log").read_text().count("] EXECUTES ") >= logging_cost.TASKS
        found = {name: Series(f"{kind}: {name}", tuple(many)) for name, many in costs.items()}
        for series in found.values():
            _show(series, logging_cost.TASKS)
            bench.add("logging", logging_cost.TASKS, series)
        ratio = found["all lines, to a file"].best / found["nothing told"].best
        bench.judge("logging", f"2,000 short tasks as {kind}, told / not told (best)", ratio, 1.05)


def fold_events(bench: Bench) -> None:
    """A million events folded, beside the plain decoding of the same file; the work itself is timed inside."""
    state = bench.folder / f"fold-{bench.events}"
    folder = state / "runs" / "r0001"
    if not state.with_suffix(".ready").exists():
        fold.make_log(state, bench.events // 4)
        state.with_suffix(".ready").touch()
    size = (folder / "events.jsonl").stat().st_size
    say(f"  {bench.events} events, {size / 1e6:.0f} MB")
    words = {"whyrun fold": "fold", "msgspec decode_lines": "decode", "msgspec, our lean records": "decode-lean"}
    costs: dict[str, list[Cost]] = {name: [] for name in words}
    for round_ in range(bench.repeats + 1):
        for name, word in words.items():
            cost = timed([sys.executable, HERE / "fold.py", word, folder], bench.folder, output=bench.log(word))
            assert cost is not None
            inside = float(bench.log(word).read_text().split()[0])
            if round_:
                costs[name].append(Cost(inside, cost.cpu_seconds, cost.peak_mb))
    found = {name: Series(name, tuple(many)) for name, many in costs.items()}
    for series in found.values():
        _show(series, bench.events, f"{bench.events / series.best / 1e6:.2f} M events/s")
        bench.add("fold", bench.events, series)
    for name in ("msgspec decode_lines", "msgspec, our lean records"):
        bench.judge("fold", f"fold_run / {name} (best)", found["whyrun fold"].best / found[name].best, 3.0)


BENCHMARKS: dict[str, Callable[[Bench], None]] = {
    "cold_help": cold_help,
    "plan_noop": plan_noop,
    "plan_one_changed": plan_one_changed,
    "growth": growth,
    "run_trivial": run_trivial,
    "logging": logging,
    "fold": fold_events,
    "slow_peers": slow_peers,
}


# --- telling -----------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _show(series: Series, n: int | None = None, more: str = "") -> None:
    name = series.name if n is None else f"{series.name} (N={n})"
    times = f"best {series.best:8.3f} s  median {series.median:8.3f} s  cpu {series.cpu:7.3f} s"
    say(f"  {name:<40} {times}  {series.peak_mb:7.1f} MB  {more}")


def _cost(cost: Cost) -> dict[str, float]:
    return {"best_s": round(cost.seconds, 4), "peak_mb": round(cost.peak_mb, 1)}


def _expect(log: Path, text: str) -> None:
    """A measurement of something else than was meant is worse than none."""
    if text not in log.read_text(errors="replace"):
        raise Failed(f"{log}: `{text}` was expected in:\n{log.read_text(errors='replace')[-1000:]}")


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "processor": model,
        "memory_gb": round(memory, 1),
        "python": platform.python_version(),
        "load": [round(value, 1) for value in os.getloadavg()],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--n", type=int, default=100_000, help="steps of the planning workload")
    parser.add_argument("--small-n", type=int, default=10_000, help="steps for snakemake and doit")
    parser.add_argument("--jobs", type=int, default=10_000, help="trivial jobs")
    parser.add_argument("--events", type=int, default=1_000_000, help="events to fold")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=float, default=180.0, help="seconds for a slow peer at N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--reuse-state", action="store_true", help="take the folders of the last bench run")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark `{name}`; there are {', '.join(BENCHMARKS)}")
    ROOT.mkdir(exist_ok=True)
    folder = _folder(arguments.reuse_state)
    bench = Bench(
        folder, arguments.n, min(arguments.small_n, arguments.n), arguments.repeats, arguments.jobs, arguments.events,
        arguments.patience, peers.install(ROOT),
    )  # fmt: skip
    about = {**machine(), **bench.tools.versions()}
    say(" ".join(f"{key}={value}" for key, value in about.items()))
    for name in arguments.names or BENCHMARKS:
        say(name)
        BENCHMARKS[name](bench)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"machine": about, "results": bench.results}, indent=1) + "\n")
    over = [result["judged"] for result in bench.results if result.get("met") is False]
    say(f"{len(over)} over the limit: {'; '.join(over)}" if over else "all within their limits")
    return 1 if over else 0


def _folder(reuse: bool) -> Path:
    """A fresh folder for this bench run, or the newest one."""
    before = sorted(ROOT.glob("run-*"))
    if reuse and before:
        return before[-1]
    folder = ROOT / f"run-{time.strftime('%Y%m%d-%H%M%S')}"
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
