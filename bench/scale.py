"""What is large: a run of 100,000 jobs, a log of 1,000 runs, a plan of a million jobs."""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import million
import trivial
import workload
from lab import HERE, Bench, expect, say, show
from measure import Cost, Failed, Series, alternate, measured_environment, timed

MILLION = 1_000_000
SAMPLED = 0.1  # seconds
ROUNDS = 2


def run_many(bench: Bench) -> None:
    """As `run_trivial`, ten times as many; and the host's memory while it goes on."""
    jobs = bench.many_jobs
    ours, bare, grown = [], [], []
    for round_ in range(ROUNDS):
        folder = bench.folder / f"many-{round_}-{time.time_ns()}"
        trivial.project(folder, jobs)
        cost, memory = watched(bench.drive("run", folder, "--jobs", "2"), folder, bench.log("whyrun-run-many"))
        pool: list[str | Path] = [sys.executable, HERE / "trivial.py", "pool", folder, str(jobs)]
        beside = timed(pool, folder, output=bench.log("pool-many"))
        assert beside is not None
        ours.append(cost)
        bare.append(beside)
        quarter = len(memory) // 4
        grown.append(statistics.median(memory[-quarter:]) / statistics.median(memory[quarter : 2 * quarter]))
    found = [Series("whyrun run", tuple(ours)), Series("ProcessPoolExecutor", tuple(bare))]
    for series in found:
        show(series, jobs, f"{series.best / jobs * 1000:.3f} ms a job")
        bench.add("run_many", jobs, series, ms_a_job=round(series.best / jobs * 1000, 4))
    bench.judge(
        "run_many", f"{jobs:,} jobs, whyrun run / ProcessPoolExecutor (best)", found[0].best / found[1].best, 3.0
    )
    what = "the host's memory, last quarter of the run / second quarter (median)"
    bench.judge("run_many", what, min(grown), 1.25)


def watched(command: Sequence[str | Path], cwd: Path, output: Path) -> tuple[Cost, list[float]]:
    """What a command costs, and the memory (MB) of its process while it goes on."""
    words = [str(word) for word in command]
    memory: list[float] = []
    with output.open("wb") as sink:
        began = time.perf_counter()
        process = subprocess.Popen(
            words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=measured_environment()
        )
        descriptor = os.pidfd_open(process.pid)
        statm, page = Path(f"/proc/{process.pid}/statm"), os.sysconf("SC_PAGE_SIZE")
        while not select.select([descriptor], [], [], SAMPLED)[0]:
            memory.append(int(statm.read_text().split()[1]) * page / 1e6)
        seconds = time.perf_counter() - began
        _, status, usage = os.wait4(process.pid, 0)
        os.close(descriptor)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Failed(f"{' '.join(words)} ended with {process.returncode}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), memory


def many_runs(bench: Bench) -> None:
    """1,000 jobs with nothing to do, after 10 runs and after 1,000."""
    folders = {}
    for runs in (10, 1000):
        folder = bench.folder / f"runs-{runs}"
        if not folder.with_suffix(".ready").exists():
            _made(bench, "runs", folder, runs)
            folder.with_suffix(".ready").touch()
        folders[f"whyrun plan after {runs} runs"] = folder
    commands = {name: bench.drive("plan", folder) for name, folder in folders.items()}
    found = alternate(commands, folders, max(10, bench.repeats), bench.log("x").parent)
    for (name, series), folder in zip(found.items(), folders.values(), strict=True):
        expect(bench.log(name.replace(" ", "-")), "nothing to do, 1000 of 1000 jobs up to date")
        show(series)
        bench.add("many_runs", len(list((folder / ".whyrun/chains/runs").iterdir())), series)
    few, many = found.values()
    bench.judge("many_runs", "a plan after 1,000 runs / after 10 (best)", many.best / few.best, 1.15)


def _made(bench: Bench, what: str, folder: Path, number: int) -> None:
    command: list[str | Path] = [sys.executable, HERE / "million.py", what, folder, str(number)]
    timed(command, bench.folder, output=bench.log(f"make-{what}-{number}"), limit=3600.0)


def plan_noop_million(bench: Bench) -> None:
    """A million jobs with nothing to do, beside ninja over the same files. Minutes to make, and 6 GB of disk."""
    folder, chains = bench.folder / "million", MILLION // workload.DEPTH
    if not folder.with_suffix(".ready").exists():
        began = time.perf_counter()
        _made(bench, "steps", folder, MILLION)
        million.ninja_log(folder, chains, bench.tools.ninja)
        folder.with_suffix(".ready").touch()
        say(f"  state: made in {time.perf_counter() - began:.0f} s")
    commands: dict[str, Sequence[str | Path]] = {
        "whyrun plan": bench.drive("plan", folder),
        "ninja -n": [bench.tools.ninja, "-n"],
    }
    found = alternate(commands, dict.fromkeys(commands, folder), min(3, bench.repeats), bench.log("x").parent)
    expect(bench.log("whyrun-plan"), f"nothing to do, {MILLION} of {MILLION} jobs up to date")
    expect(bench.log("ninja--n"), "no work to do")
    for series in found.values():
        show(series)
        bench.add("plan_noop_million", MILLION, series)
    ratio = found["whyrun plan"].best / found["ninja -n"].best
    bench.judge("plan_noop_million", "whyrun plan / ninja -n (best)", ratio, 2.0)
    bench.judge("plan_noop_million", "peak memory of whyrun plan", found["whyrun plan"].peak_mb, 2048.0, " MB")
