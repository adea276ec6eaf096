"""Metrics of two runs: rows and counts are compared; measured durations and sizes are only reported."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from whyrun.evidence.parity.result import ABSENT, Difference, Note

if TYPE_CHECKING:
    from whyrun.evidence.parity.reading import RunEvidence
    from whyrun.evidence.run_directory import Metric

# Measured: by name, or by a unit of time or size. The number of `progress` messages depends on speed.
MEASURED = frozenset(
    {
        "step_duration_ms", "cpu_seconds", "max_rss_bytes", "disk_read_bytes", "disk_written_bytes",
        "bytes_in", "bytes_out", "progress",
    }
)  # fmt: skip
_UNITS = frozenset({"ns", "us", "µs", "ms", "s", "sec", "second", "seconds", "min", "minutes", "h", "hours",
                    "bytes", "B", "kB", "KB", "MB", "GB", "KiB", "MiB", "GiB", "%"})  # fmt: skip
_ENDINGS = ("_ns", "_us", "_ms", "_s", "_seconds", "_duration", "_bytes", "_percent")

_Key = tuple[str, str, str]  # step, metric, unit
_Values = dict[_Key, list[float]]


def is_measured(metric: str, unit: str) -> bool:
    """Whether it is a duration, a size or a rate, which differs in every run."""
    return metric in MEASURED or unit in _UNITS or unit.endswith(("/s", "/min")) or metric.endswith(_ENDINGS)


def compare_metrics(
    old: Iterable[Metric], new: Iterable[Metric]
) -> tuple[tuple[int, int], list[Difference], list[Note]]:
    """(numbers of compared metrics, differences, notes). Fractions are only noted: they may depend on the order of
    additions."""
    ours, theirs = _reported(old), _reported(new)
    differences, notes, compared = [], [], [0, 0]
    for key in sorted({*ours, *theirs}):
        was, now = ours.get(key, []), theirs.get(key, [])
        step, metric, _ = key
        name = f"{metric} {step}"
        # Another number of reports is a difference, whatever the values are.
        is_count = len(was) != len(now) or any(value.is_integer() for value in (*was, *now))
        if is_count:
            compared = [compared[0] + len(was), compared[1] + len(now)]
        if was == now:
            continue
        if is_count:
            differences.append(Difference("metric", name, "value", _shown(was), _shown(now), step_id=step))
        else:
            notes.append(Note(name, "a fraction, not a count", _shown(was), _shown(now)))
    return (compared[0], compared[1]), differences, notes


def _reported(metrics: Iterable[Metric]) -> _Values:
    by_key: _Values = defaultdict(list)
    for metric in metrics:
        if not is_measured(metric.metric, metric.unit):
            by_key[metric.step_id, metric.metric, metric.unit].append(metric.value)
    return {key: sorted(values) for key, values in by_key.items()}


def _shown(values: list[float]) -> Any:
    numbers = [int(value) if value.is_integer() else value for value in values]
    return ABSENT if not numbers else numbers[0] if len(numbers) == 1 else numbers


def measured(evidence: RunEvidence) -> Mapping[str, Any]:
    """What is reported of a run besides the comparison: where it ran, and how long."""
    totals: dict[str, float] = defaultdict(float)
    durations: dict[str, float] = defaultdict(float)
    for metric in evidence.metrics:
        if metric.metric == "max_rss_bytes":
            totals[metric.metric] = max(totals[metric.metric], metric.value)
        elif metric.metric in ("cpu_seconds", "step_duration_ms"):
            totals[metric.metric] += metric.value
        if metric.metric == "step_duration_ms":
            durations[metric.step_id] += metric.value
    return {
        "run": evidence.start.session,
        "backend": evidence.start.backend,
        "duration": evidence.end.duration,
        "steps_ms": round(totals["step_duration_ms"], 3),
        "cpu_seconds": round(totals["cpu_seconds"], 3),
        "peak_memory_bytes": int(totals["max_rss_bytes"]),
        "step_ms": {step: round(duration, 3) for step, duration in sorted(durations.items())},
    }
