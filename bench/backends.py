"""What a backend costs: `python bench/backends.py [sandbox] [dask] [memory] [--repeats R]`.

The cost of a step is the slope between a small and a large number of steps, so that what a run pays once (a cluster to
start, a bundle to pack) is not in it. Peers are measured in the same run, in turns. As a script within itself,
`python bench/backends.py submit FOLDER FEW MANY`, it is the plain Dask peer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import trivial
from measure import timed

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent / ".bench"
FEW, MANY = 100, 300  # steps in sandboxes
FEW_TASKS, MANY_TASKS = 1000, 5000  # on the cluster
STEPS = 10_000
LOOK = 1.0  # seconds between two looks at memory


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def seconds(folder: Path, jobs: int, *words: str) -> float:
    """A whole run from an empty state, in a fresh folder."""
    project = folder / f"{'-'.join(words) or 'local'}-{jobs}-{time.time_ns()}".replace("--", "")
    trivial.project(project, jobs)
    cost = timed(_run(project, *words), project, output=folder / "log")
    assert cost is not None
    return cost.seconds


def _run(project: Path, *words: str) -> list[str | Path]:
    return [sys.executable, HERE / "drive.py", "run", project, "--jobs", "2", "--quiet", *words]


def slope(folder: Path, few: int, many: int, *words: str) -> float:
    """Seconds that one more step costs."""
    return (seconds(folder, many, *words) - seconds(folder, few, *words)) / (many - few)


def sandbox(folder: Path, repeats: int) -> list[dict[str, Any]]:
    local = min(slope(folder, FEW, MANY) for _ in range(repeats))
    inside = min(slope(folder, FEW, MANY, "--backend", "sandbox") for _ in range(repeats))
    over = (inside - local) * 1000
    say(f"  local {local * 1000:.2f} ms a step, sandbox {inside * 1000:.2f} ms a step, two workers")
    return [_judged("sandbox", "start-up of a step over local", over, 30.0, " ms")]


def dask(folder: Path, repeats: int) -> list[dict[str, Any]]:
    ours: list[float] = []
    plain: list[float] = []
    for _ in range(repeats):
        ours.append(slope(folder, FEW_TASKS, MANY_TASKS, "--backend", "dask"))
        plain.append(_submitted(folder))
    say(f"  whyrun on dask {min(ours) * 1000:.3f} ms a step, client.submit {min(plain) * 1000:.3f} ms a task")
    return [_judged("dask", "a step on dask / a task of client.submit", min(ours) / min(plain), 2.0, "×")]


def _submitted(folder: Path) -> float:
    project = folder / f"submit-{time.time_ns()}"
    trivial.project(project, 1)
    words = [sys.executable, str(HERE / "backends.py"), "submit", str(project), str(FEW_TASKS), str(MANY_TASKS)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-1])


def submit(project: str, few: int, many: int) -> None:
    """The same function, on a cluster of the same shape, one `submit` a task, all results fetched."""
    import distributed

    dask: Any = distributed
    sys.path.insert(0, project)
    function = import_module("work").job
    with (
        dask.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        dask.Client(cluster) as client,
    ):
        client.upload_file(f"{project}/work.py")
        took = []
        for tasks in (few, few, many):  # the first is not counted
            began = time.perf_counter()
            futures = [client.submit(function, number, pure=False) for number in range(tasks)]
            results = [found["Result"] for found in client.gather(futures)]
            took.append(time.perf_counter() - began)
            assert results == [number * number for number in range(tasks)]
    sys.stdout.write(f"{(took[2] - took[1]) / (many - few)}\n")


def memory(folder: Path, repeats: int) -> list[dict[str, Any]]:
    """10,000 steps on two Dask workers: what the host and the largest process of the cluster hold, as time goes on."""
    del repeats
    project = folder / f"memory-{time.time_ns()}"
    trivial.project(project, STEPS)
    seen: list[tuple[float, float]] = []
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([str(word) for word in _run(project, "--backend", "dask")], stdout=log, stderr=log)
        while process.poll() is None:
            time.sleep(LOOK)
            host, others = _resident(process.pid)
            if host:
                seen.append((host, others))
    assert process.returncode == 0, (folder / "log").read_text()[-2000:]
    quarter = len(seen) // 4
    early, late = seen[quarter : 2 * quarter], seen[3 * quarter :]
    grown = [max(pair[which] for pair in late) / max(pair[which] for pair in early) for which in (0, 1)]
    peak = [max(pair[which] for pair in seen) for which in (0, 1)]
    say(f"  {STEPS:,} steps: host at most {peak[0]:.0f} MB, the largest process of the cluster {peak[1]:.0f} MB")
    return [
        _judged("dask", "host's memory, last quarter / second quarter", grown[0], 1.5, "×"),
        _judged("dask", "the cluster's, last quarter / second quarter", grown[1], 1.5, "×"),
    ]


def _resident(root: int) -> tuple[float, float]:
    """MB of a process, and of the largest one below it."""
    sizes: dict[int, float] = {}
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            parents[int(name)], sizes[int(name)] = int(fields[1]), int(fields[21]) * 4096 / 1e6
    below: list[int] = []
    todo = [root]
    while todo:
        parent = todo.pop()
        children = [pid for pid, of in parents.items() if of == parent]
        below += children
        todo += children
    return sizes.get(root, 0.0), max((sizes[pid] for pid in below), default=0.0)


def _judged(benchmark: str, what: str, value: float, limit: float, unit: str) -> dict[str, Any]:
    met = value <= limit
    say(f"  {'ok  ' if met else 'OVER'} {what}: {value:.2f}{unit} (limit {limit:g}{unit})")
    return {"benchmark": benchmark, "judged": what, "value": round(value, 3), "limit": limit, "unit": unit, "met": met}


BENCHMARKS = {"sandbox": sandbox, "dask": dask, "memory": memory}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], default=[])
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    folder = ROOT / f"backends-{time.strftime('%Y%m%d-%H%M%S')}"
    folder.mkdir(parents=True)
    results: list[dict[str, Any]] = []
    for name in given.names or BENCHMARKS:
        say(name)
        results += BENCHMARKS[name](folder, given.repeats)
    (folder / "figures.json").write_text(json.dumps(results, indent=1) + "\n")
    return 0 if all(row["met"] for row in results) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["submit"]:
        submit(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(main())
