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
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import beside
import fold
import logging_cost
import peers
import scale
import table
import trivial
import workload
from lab import HERE, Bench, expect, say, show
from measure import Cost, Series, alternate, timed

ROOT = HERE.parent / ".bench"


# --- planning ----------------------------------------------------------------------------------------------------


def plan_noop(bench: Bench) -> None:
    """Nothing to do at N: whyrun beside ninja. The other tools: see `beside`."""
    found = _noop(bench, bench.n)
    for series in found.values():
        show(series)
        bench.add("plan_noop", bench.n, series)
    bench.judge("plan_noop", "whyrun plan / ninja -n (best)", found["whyrun plan"].best / found["ninja -n"].best, 1.5)
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
        expect(bench.log(name.replace(" ", "-")), "no work to do")
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
    expect(bench.log("whyrun-explain"), "INPUT_CHANGED")
    expect(bench.log("ninja--n--d-explain"), "explain")
    for series in found.values():
        show(series)
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
        show(series)
        bench.add("growth", bench.n, series)
    bench.judge("growth", f"time at N={bench.n} / N={bench.n // 10} (best)", more.best / less.best, 11.0)


def start_up(bench: Bench) -> None:
    """`whyrun --help` and a plan with nothing to do of a small workflow, beside a Python that does nothing."""
    installed = Path(sys.executable).with_name("whyrun")
    command = [installed] if installed.exists() else [sys.executable, "-m", "whyrun.cli.main"]
    folder = bench.folder / f"start-up-{time.time_ns()}"
    folder.mkdir()
    for words in (["init"], ["run", "--quiet"]):
        timed([*command, *words], folder, output=bench.log("start-up-prepared"))
    commands: dict[str, Sequence[str | Path]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "whyrun --help": [*command, "--help"],
        "whyrun plan": [*command, "plan"],
    }
    found = alternate(commands, dict.fromkeys(commands, folder), max(20, bench.repeats), bench.log("x").parent)
    expect(bench.log("whyrun-plan"), "nothing to do")
    for series in found.values():
        show(series)
        bench.add("start_up", 1, series)
    bench.judge("start_up", "whyrun --help (median)", found["whyrun --help"].median, 0.06, " s")
    bench.judge("start_up", "whyrun plan, nothing to do (median)", found["whyrun plan"].median, 0.10, " s")
    ratio = found["whyrun plan"].median / found["python -c pass"].median
    bench.judge("start_up", "whyrun plan / python -c pass (median)", ratio, 9.0)


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
        show(series, bench.jobs, f"{series.best / bench.jobs * 1000:.3f} ms a job")
        bench.add("run_trivial", bench.jobs, series, ms_a_job=round(series.best / bench.jobs * 1000, 4))
    ratio = found["whyrun run"].best / found["ProcessPoolExecutor"].best
    bench.judge("run_trivial", "whyrun run / ProcessPoolExecutor, whole processes (best)", ratio, 5.0)


def isolated(bench: Bench) -> None:
    """Half of these jobs with a process each, in turns beside the same in a shared process; beside bare forks of
    Python, which any engine pays that has them; and beside ninja, which starts a process for each task, too.

    Judged by CPU time: all four are busy on both processors, and what else the machine does changes it least.
    """
    jobs = bench.jobs // 2
    costs: dict[str, list[Cost]] = {name: [] for name in ("process", "shared", "forks", "ninja")}
    for round_ in range(bench.repeats):
        for name in costs:
            folder = bench.folder / f"isolated-{name}-{round_}-{time.time_ns()}"
            command: list[str | Path] = bench.drive("run", folder, "--jobs", "2")
            if name == "ninja":
                workload.ninja_project(folder, jobs // workload.DEPTH)
                command = [bench.tools.ninja, "--quiet", "-j2"]
            else:
                trivial.project(folder, jobs, name if name != "forks" else "process")
            if name == "forks":
                command = [sys.executable, HERE / "trivial.py", "forks", folder, str(jobs)]
            cost = timed(command, folder, output=bench.log(f"isolated-{name}"))
            assert cost is not None
            costs[name].append(cost)
    words = {"process": "whyrun run, a process a job", "shared": "whyrun run, shared", "forks": "bare forks of Python"}
    found = {name: Series(words.get(name, name), tuple(many)) for name, many in costs.items()}
    for series in found.values():
        show(series, jobs, f"{series.cpu / jobs * 1000:.3f} ms of CPU time a job")
        bench.add("isolated", jobs, series, ms_a_job=round(series.cpu / jobs * 1000, 4))
    added = found["process"].cpu - found["shared"].cpu
    bench.judge(
        "isolated", "what a process a job adds to whyrun run / bare forks (CPU)", added / found["forks"].cpu, 5.0
    )
    bench.judge("isolated", "whyrun run, a process a job / ninja (CPU)", found["process"].cpu / found["ninja"].cpu, 5.0)


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
            show(series, logging_cost.TASKS)
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
        show(series, bench.events, f"{bench.events / series.best / 1e6:.2f} M events/s")
        bench.add("fold", bench.events, series)
    for name in ("msgspec decode_lines", "msgspec, our lean records"):
        bench.judge("fold", f"fold_run / {name} (best)", found["whyrun fold"].best / found[name].best, 3.0)


BENCHMARKS: dict[str, Callable[[Bench], None]] = {
    "start_up": start_up,
    "plan_noop": plan_noop,
    "plan_one_changed": plan_one_changed,
    "growth": growth,
    "run_trivial": run_trivial,
    "isolated": isolated,
    "logging": logging,
    "fold": fold_events,
    "run_many": scale.run_many,
    "many_runs": scale.many_runs,
    "beside": beside.beside,
}
ON_DEMAND: dict[str, Callable[[Bench], None]] = {"plan_noop_million": scale.plan_noop_million}


# --- telling -----------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    disk = os.statvfs(ROOT)
    return {
        "cores": os.cpu_count(),
        "processor": model,
        "memory_gb": round(memory, 1),
        "python": platform.python_version(),
        "load": [round(value, 1) for value in os.getloadavg()],
        "inodes_used": f"{1 - disk.f_favail / disk.f_files:.0%}" if disk.f_files else "unlimited",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {**BENCHMARKS, **ON_DEMAND}
    default = f"default: all but {', '.join(ON_DEMAND)}"
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; {default}")
    parser.add_argument("--n", type=int, default=100_000, help="steps of the planning workload")
    parser.add_argument("--jobs", type=int, default=10_000, help="trivial jobs")
    parser.add_argument("--many-jobs", type=int, default=100_000, help="trivial jobs of `run_many`")
    parser.add_argument("--events", type=int, default=1_000_000, help="events to fold")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--reuse-state", action="store_true", help="take the folders of the last bench run")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in known:
            parser.error(f"there is no benchmark `{name}`; there are {', '.join(known)}")
    ROOT.mkdir(exist_ok=True)
    folder = _folder(arguments.reuse_state)
    bench = Bench(
        folder, arguments.n, arguments.repeats, arguments.jobs, arguments.many_jobs, arguments.events,
        peers.install(ROOT),
    )  # fmt: skip
    about = {**machine(), **bench.tools.versions()}
    say(" ".join(f"{key}={value}" for key, value in about.items()))
    began = time.perf_counter()
    for name in arguments.names or BENCHMARKS:
        say(name)
        known[name](bench)
    figures = {"machine": about, "results": bench.results}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    say(f"\nFor bench/README.md ({(time.perf_counter() - began) / 60:.1f} minutes):\n\n{table.tables(figures)}")
    over = [result["judged"] for result in bench.results if result.get("met") is False]
    say(f"{len(over)} over the limit: {'; '.join(over)}" if over else "all within their limits")
    remove_earlier(folder)
    return 1 if over else 0


def _folder(reuse: bool) -> Path:
    """A fresh folder for this bench run, or the newest one."""
    before = sorted(ROOT.glob("run-*"))
    if reuse and before:
        return before[-1]
    folder = ROOT / f"run-{time.strftime('%Y%m%d-%H%M%S')}"
    folder.mkdir()
    return folder


def remove_earlier(folder: Path) -> None:
    """Of bench runs before this one: each leaves a million files and more, and a file system that has hardly any room
    for names makes new ones slowly. After measuring, since it is slow after a mass deletion, too."""
    for earlier in sorted(ROOT.glob("run-*")):
        if earlier != folder:
            say(f"removing {earlier.name}, of an earlier bench run")
            shutil.rmtree(earlier)


if __name__ == "__main__":
    sys.exit(main())
