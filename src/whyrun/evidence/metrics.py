"""What steps measured, read back from the `metrics.jsonl` of earlier runs. For estimates; planning never reads it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from whyrun.evidence.run_directory import Metric, RunDirectory
from whyrun.log.runs import RunRef
from whyrun.planning.plan import Plan
from whyrun.snapshot.snapshot import PlanningSnapshot

_decode = msgspec.json.Decoder(Metric).decode


def logged_peaks(runs: Iterable[RunRef], steps: Collection[str]) -> dict[str, int]:
    """The memory that each of these steps took at most when it last ran, in bytes. `runs` in their order."""
    wanted = set(steps)
    found: dict[str, int] = {}
    for run in reversed(list(runs)):
        if len(found) == len(wanted):
            break
        path = RunDirectory(run.path).metrics
        if not path.exists():
            continue
        here: dict[str, int] = {}
        with path.open("rb") as file:
            for line in file:
                if b'"max_rss_bytes"' not in line or not line.endswith(b"\n"):
                    continue  # of a killed run the last line may be cut
                metric = _decode(line)
                if metric.metric == "max_rss_bytes" and metric.step_id in wanted:
                    here[metric.step_id] = int(metric.value)
        found = {**here, **found}
    return found


def expected_peak(plan: Plan, snapshot: PlanningSnapshot, runs: Iterable[RunRef], workers: int) -> int | None:
    """The memory that the steps of a plan may take at once: the largest of a layer, as many as run side by side.

    A step that never ran takes as much as the largest of its sisters; None where nothing is known of some job.
    """
    graph = snapshot.dependency_graph
    jobs = [job for job in plan.planned if job.reuse is None]
    numbers = {graph.table_at(job.node)[0].number for job in jobs}
    peaks = logged_peaks(runs, [id_ for number in numbers for id_ in graph.tables[number].job_ids()])
    largest: dict[int, int] = {}
    for id_, peak in peaks.items():
        number = graph.table_at(graph.node_of[id_])[0].number
        largest[number] = max(peak, largest.get(number, 0))
    layers: dict[int, list[int]] = {}
    for job in jobs:
        expected = peaks.get(job.id, largest.get(graph.table_at(job.node)[0].number))
        if expected is None:
            return None
        layers.setdefault(job.layer, []).append(expected)
    return max((sum(sorted(layer, reverse=True)[:workers]) for layer in layers.values()), default=None)
