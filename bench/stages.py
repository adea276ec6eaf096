"""Where the time of a plan goes: `python bench/stages.py FOLDER [--profile]`, stage by stage, in processor time.

Processor time, because it hardly changes with what else the machine does. `--profile` adds cProfile's view of the
functions, which counts calls rightly and times of small functions too high.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
rows: list[tuple[str, float, float]] = []


def stage(name: str, work: Callable[[], T]) -> T:
    began, wall = time.process_time(), time.perf_counter()
    result = work()
    rows.append((name, time.process_time() - began, time.perf_counter() - wall))
    return result


def imports() -> Any:
    import whyrun.cli.main
    import whyrun.planning.plan
    import whyrun.project

    return whyrun


def main() -> None:
    gc.disable()
    file = f"{sys.argv[1]}/workflow.yaml"
    start = time.process_time()
    stage("interpreter (before main)", lambda: None)
    rows[-1] = ("interpreter (before main)", start, 0.0)
    stage("imports", imports)
    from whyrun.planning.plan import compute_execution_plan
    from whyrun.project import Project
    from whyrun.snapshot.build import build_planning_snapshot

    opened = Project.open(file)
    stage("parse the workflow", lambda: opened.workflow)
    stage("load the stat-cache", lambda: opened.cache)
    stage("observe the inputs", lambda: opened.inputs)
    stage("expand", lambda: opened.graph)
    stage("actions", lambda: opened.actions)
    history = opened.history()
    stage("log: index or fold", lambda: history.records)
    observer = opened.observer()
    watched = Watched(observer)
    whole = time.process_time()
    memo = history.load_memo()
    snapshot = stage("snapshot", lambda: build_planning_snapshot(opened.graph, history, watched, opened.actions, memo))
    whole = time.process_time() - whole
    rows[-1] = ("snapshot, without looking at files", whole - watched.seconds, 0.0)
    rows.append(("look at published files and blobs", watched.seconds, 0.0))
    stage("save the stat-cache", opened.save_cache)
    plan = stage("compute_execution_plan", lambda: compute_execution_plan(snapshot))
    stage("digest and JSON", plan.to_bytes)
    for name, cpu, _ in rows:
        sys.stdout.write(f"{name:<40} {cpu * 1000:8.1f} ms\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"{'all':<40} {time.process_time() * 1000:8.1f} ms   {peak:.0f} MB   {dict(plan.totals)}\n")


class Watched:
    """The real observer, with a watch on the time it takes."""

    def __init__(self, observer: Any) -> None:
        self.observer = observer
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.observer, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.process_time()
            try:
                return method(*arguments, **named)
            finally:
                self.seconds += time.process_time() - began

        return timed


if __name__ == "__main__":
    if "--profile" in sys.argv:
        import cProfile
        import pstats

        profile = cProfile.Profile()
        profile.runcall(main)
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    else:
        main()
