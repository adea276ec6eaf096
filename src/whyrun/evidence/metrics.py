"""Memory peaks of steps, read from the `metrics.jsonl` of earlier runs. For estimates; planning never reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from whyrun.evidence.run_directory import Metric, RunDirectory
from whyrun.log.runs import RunRef
from whyrun.planning.plan import Plan
from whyrun.snapshot.snapshot import PlanningSnapshot

_decode = msgspec.json.Decoder(Metric).decode


def logged_peaks(runs: Iterable[RunRef], steps: Collection[str]) -> dict[str, int]:
    """Step → its memory peak in bytes, from the latest run that measured it. `runs`: oldest first."""
    wanted = set(steps)
    peaks: dict[str, int] = {}
    for run in reversed(list(runs)):
        if len(peaks) == len(wanted):
            break
        path = RunDirectory(run.path).metrics
        if not path.exists():
            continue
        in_run: dict[str, int] = {}
        with path.open("rb") as file:
            for line in file:
                if b'"max_rss_bytes"' not in line or not line.endswith(b"\n"):
                    continue  # the last line of a killed run may be cut off
                metric = _decode(line)
                if metric.metric == "max_rss_bytes" and metric.step_id in wanted:
                    in_run[metric.step_id] = int(metric.value)
        peaks = {**in_run, **peaks}
    return peaks


def expected_peak(plan: Plan, snapshot: PlanningSnapshot, runs: Iterable[RunRef], workers: int) -> int | None:
    """The memory that the steps of a plan may need at once: the `workers` largest of the layer with the highest sum.

    A step that never ran is estimated as the largest instance of the same job. None if no instance ever ran.
    """
    graph = snapshot.dependency_graph
    jobs = [job for job in plan.planned if job.reuse is None]
    numbers = {graph.table_at(job.node)[0].number for job in jobs}
    logged = logged_peaks(runs, [id_ for number in numbers for id_ in graph.tables[number].job_ids()])
    largest: dict[int, int] = {}
    for id_, peak in logged.items():
        number = graph.table_at(graph.node_of[id_])[0].number
        largest[number] = max(peak, largest.get(number, 0))
    layers: dict[int, list[int]] = {}
    for job in jobs:
        expected = logged.get(job.id, largest.get(graph.table_at(job.node)[0].number))
        if expected is None:
            return None
        layers.setdefault(job.layer, []).append(expected)
    return max((sum(sorted(layer, reverse=True)[:workers]) for layer in layers.values()), default=None)
