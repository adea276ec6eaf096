"""`whyrun parity RUN RUN`: did two runs leave the same evidence?

Each run is first checked on its own (`reading.py`). Then compared are file names, the bytes of most files, commands,
the multiset of events (`fields.py` says which fields), row and count metrics, artifacts by content, and the status.
Differences are listed with causes first: by position in the log, then files, then the status. Durations, memory and
printed text are reported, not compared.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, to_builtins

from whyrun.artifacts.compare.result import CompareSettings, Comparison, counted
from whyrun.artifacts.hashing import canonical_json
from whyrun.evidence.parity.fields import (
    ABSENT,
    ComparedEvent,
    Difference,
    Kind,
    Note,
    Parity,
    compared_command,
    compared_events,
    leaf_differences,
)
from whyrun.evidence.parity.reading import (
    PRINTED,
    Artifact,
    RunEvidence,
    check_two_runs,
    random_files,
    reads_differences,
)
from whyrun.evidence.verify.consistency import DURATION
from whyrun.ids import file_name
from whyrun.log import events as ev

if TYPE_CHECKING:
    from whyrun.evidence.run_directory import Metric

# Metrics of two runs: rows and counts are compared; measured durations and sizes are only reported.


# --- metrics -----------------------------------------------------------------------------------------------------
#
# Measured: by name, or by a unit of time or size. The number of `progress` messages depends on speed.
MEASURED = frozenset(
    {
        "step_duration_ms", "cpu_seconds", "max_rss_bytes", "disk_read_bytes", "disk_written_bytes",
        "bytes_in", "bytes_out", "progress",
    }
)  # fmt: skip
# A worker measures these once for each attempt. A stopped step may have its duration alone.
EACH = frozenset({DURATION, "cpu_seconds", "max_rss_bytes"})
_UNITS = frozenset({"ns", "us", "µs", "ms", "s", "sec", "second", "seconds", "min", "minutes", "h", "hours",
                    "bytes", "B", "kB", "KB", "MB", "GB", "KiB", "MiB", "GiB", "%"})  # fmt: skip
_ENDINGS = ("_ns", "_us", "_ms", "_s", "_seconds", "_duration", "_bytes", "_percent")

_Key = tuple[str, str, str]  # step, metric, unit
_Values = dict[_Key, list[float]]


def is_measured(metric: str, unit: str) -> bool:
    """Whether it is a duration, a size or a rate, which differs in every run."""
    return metric in MEASURED or unit in _UNITS or unit.endswith(("/s", "/min")) or metric.endswith(_ENDINGS)


def compare_metrics(old: RunEvidence, new: RunEvidence) -> tuple[tuple[int, int], list[Difference], list[Note]]:
    """(numbers of compared metrics, differences, notes). Fractions are only noted: they may depend on the order of
    additions."""
    ours, theirs = _reported(old.metrics), _reported(new.metrics)
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
    return (compared[0], compared[1]), [*differences, *_times_measured(old, new)], notes


def _times_measured(old: RunEvidence, new: RunEvidence) -> Iterator[Difference]:
    """How often a worker measured each step. The values differ in every run, but a measurement may not be missing."""
    ours, theirs = (Counter((m.step_id, m.metric) for m in side.metrics if m.metric in EACH) for side in (old, new))
    must = {(e.step_id, DURATION) for side in (old, new) for e in side.events if isinstance(e, ev.StepComplete)}
    for step, metric in sorted({*ours, *theirs, *must}):
        was, now = ours[step, metric], theirs[step, metric]
        name = f"{metric} {step}"
        if was == now == 0:
            what = "every success has it, and neither run has it"
            yield Difference("metric", name, "", ABSENT, ABSENT, (what,), step_id=step)
        elif was != now and (metric == DURATION or not {step} & (old.stopped | new.stopped)):
            yield Difference("metric", name, "times", was, now, step_id=step)


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


# --- two runs ----------------------------------------------------------------------------------------------------


_IGNORED_IN_STATUS = ("started", "ended", "backend")
_LAST = 1 << 60
PRESENT = "present"

# Top folder or file → what its differences are called. The rest repeats what is compared, with times.
_BY_BYTES: dict[str, Kind] = {"manifest.yaml": "manifest", "cfg": "cfg", "source": "file", "steps": "file"}

Describe = Callable[[RunEvidence, Artifact, RunEvidence, Artifact], Sequence[str]]


def compare_runs(old: RunEvidence, new: RunEvidence, describe: Describe) -> Parity:
    """`describe`: the differences between two versions of an artifact; the first line is a summary."""
    check_two_runs(old, new)
    order = _Order(old, new)
    counts, metrics, loose_metrics = compare_metrics(old, new)
    files, loose_files = compare_files_present(old, new)
    status, loose_status = _status(old, new)
    causes = [
        *_events(old, new), *reads_differences(old, new), *_commands(old, new), *_recorded_files(old, new),
        *_artifacts(old, new, describe), *metrics,
    ]  # fmt: skip
    return Parity(
        old.name,
        new.name,
        (*sorted(causes, key=order.key), *files, *status),
        (*loose_files, *loose_metrics, *loose_status),
        {
            "events": (len(old.events), len(new.events)),
            "cfg": (_number_of_cfg(old), _number_of_cfg(new)),
            "commands": (len(old.commands), len(new.commands)),
            "artifacts": (len(_by_artifact(old)), len(_by_artifact(new))),
            "metrics": counts,
            "files": (len(old.files), len(new.files)),
        },
        (measured(old), measured(new)),
    )


def _number_of_cfg(evidence: RunEvidence) -> int:
    return sum(path.startswith("cfg/") for path in evidence.files)


# --- events ------------------------------------------------------------------------------------------------------


def _events(old: RunEvidence, new: RunEvidence) -> Iterator[Difference]:
    """As multisets: the order of events between steps is free."""
    left, right = _unmatched(old, new)
    for group in {**left, **right}:
        ours, theirs = left.get(group, []), right.get(group, [])
        for a, b in zip(ours, theirs, strict=False):
            for path, was, now in leaf_differences(a.fields, b.fields):
                yield Difference("event", a.title, path, was, now, step_id=a.step_id, seq=min(a.seq, b.seq))
        for a in ours[len(theirs) :]:
            yield Difference("event", a.title, "", dict(a.fields), ABSENT, step_id=a.step_id, seq=a.seq)
        for b in theirs[len(ours) :]:
            yield Difference("event", b.title, "", ABSENT, dict(b.fields), step_id=b.step_id, seq=b.seq)


_Groups = dict[tuple[str, tuple[Any, ...]], list[ComparedEvent]]


def _unmatched(old: RunEvidence, new: RunEvidence) -> tuple[_Groups, _Groups]:
    """The events of each run without an equal in the other run, by type and name, in log order."""
    sides = [[(_key(event), event) for event in compared_events(side.events)] for side in (old, new)]
    counts = [Counter(key for key, _ in side) for side in sides]
    unmatched: list[_Groups] = []
    for side, surplus in zip(sides, (counts[0] - counts[1], counts[1] - counts[0]), strict=True):
        groups: _Groups = defaultdict(list)
        for key, event in side:
            if surplus[key] > 0:
                surplus[key] -= 1
                groups[event.type, event.name].append(event)
        unmatched.append(groups)
    return unmatched[0], unmatched[1]


def _key(event: ComparedEvent) -> bytes:
    return canonical_json([event.type, list(event.name), dict(event.fields)])


# --- manifest, cfg, artifacts ------------------------------------------------------------------------------------


def _commands(old: RunEvidence, new: RunEvidence) -> Iterator[Difference]:
    """Each attempt has one command. Hashes are left out: `cfg/`, which was checked against them, is compared."""
    ours, theirs = ({(c.step_id, c.attempt): c for c in side.commands} for side in (old, new))
    starts = {(e.step_id, e.attempt): e.seq for side in (new, old) for e in side.events if isinstance(e, ev.StepStart)}
    for key in {**ours, **theirs}:
        step, name, seq = key[0], f"{key[0]} (attempt {key[1]})", starts.get(key, _LAST)
        if key not in ours or key not in theirs:
            was, now = (PRESENT if key in side else ABSENT for side in (ours, theirs))
            yield Difference("command", name, "", was, now, step_id=step, seq=seq)
            continue
        was_given = compared_command(to_builtins(ours[key]), old.start.session)
        now_given = compared_command(to_builtins(theirs[key]), new.start.session)
        for path, was, now in leaf_differences(was_given, now_given):
            yield Difference("command", name, path, was, now, step_id=step, seq=seq)
    for step in sorted({e.step_id for side in (old, new) for e in side.events if isinstance(e, ev.StepComplete)}):
        if not any(step == given for given, _ in (*ours, *theirs)):
            what = "every success has one, and neither run has it"
            yield Difference("command", step, "", ABSENT, ABSENT, (what,), step_id=step)


def _recorded_files(old: RunEvidence, new: RunEvidence) -> Iterator[Difference]:
    """Files by their bytes: `manifest.yaml`, `cfg/`, `source/`, and what steps executed and left. Files that only one
    run has are listed with the files."""
    where = {e.path: e.seq for e in old.events if isinstance(e, ev.ManifestMaterialized | ev.CfgMaterialized)}
    why_not = random_files(old, new)
    for path in sorted(old.files & new.files):
        top = path.split("/")[0]
        if path.endswith("/") or top not in _BY_BYTES or PRINTED.fullmatch(path) or why_not(path) is not None:
            continue
        was, now = old.content(path), new.content(path)
        if was != now:
            yield Difference(_BY_BYTES[top], path, "sha256", was, now, seq=where.get(path))


def _by_artifact(evidence: RunEvidence) -> dict[str, list[Artifact]]:
    by_artifact: dict[str, list[Artifact]] = defaultdict(list)
    for event in evidence.events:
        if isinstance(event, Artifact):
            by_artifact[event.artifact].append(event)
    return by_artifact


def _artifacts(old: RunEvidence, new: RunEvidence, describe: Describe) -> Iterator[Difference]:
    """Artifacts of both runs, by content. Artifacts that only one run has are listed with the events."""
    ours, theirs = _by_artifact(old), _by_artifact(new)
    for artifact in ours.keys() & theirs.keys():
        for a, b in zip(ours[artifact], theirs[artifact], strict=False):
            if a.sha256 == b.sha256:
                continue
            if a.value is not UNSET or b.value is not UNSET:
                was, now = (ABSENT if version.value is UNSET else version.value for version in (a, b))
                yield Difference("artifact", artifact, "value", was, now, step_id=a.step_id, seq=a.seq)
            else:
                details = tuple(describe(old, a, new, b))
                yield Difference(
                    "artifact", artifact, "sha256", a.sha256, b.sha256, details, step_id=a.step_id, seq=a.seq
                )


# --- files -------------------------------------------------------------------------------------------------------


def compare_files_present(old: RunEvidence, new: RunEvidence) -> tuple[list[Difference], list[Note]]:
    differences: list[Difference] = []
    notes: list[Note] = []
    why_not = random_files(old, new)
    for path in sorted(_only_in_first(old.files, new.files) | _only_in_first(new.files, old.files)):
        was, now = (PRESENT if path in side.files else ABSENT for side in (old, new))
        why = why_not(path)
        if why is None:
            differences.append(Difference("file", path, "", was, now))
        else:
            notes.append(Note(path, why, was, now))
    for path in sorted(old.lost & new.lost):
        differences.append(
            Difference("file", path, "", ABSENT, ABSENT, ("every run has this file, and neither of these has it",))
        )
    for path in sorted(filter(PRINTED.fullmatch, old.files & new.files)):
        was, now = old.content(path), new.content(path)
        if was != now:
            notes.append(Note(path, "printed text may contain times and paths", was, now))
    return differences, notes


def _only_in_first(ours: frozenset[str], theirs: frozenset[str]) -> set[str]:
    """Paths that only the first run has. An empty folder is left out if the other run has (listed) files in it."""
    folders = {path[: slash.end()] for path in theirs for slash in re.finditer("/", path)}
    return {path for path in ours - theirs if not (path.endswith("/") and path in folders)}


# --- status ------------------------------------------------------------------------------------------------------


def _status(old: RunEvidence, new: RunEvidence) -> tuple[list[Difference], list[Note]]:
    if old.status is None or new.status is None:
        return [], []  # the missing file is listed with the files
    ours, theirs = (
        {name: value for name, value in side.status.items() if name not in _IGNORED_IN_STATUS}
        for side in (old, new)
        if side.status is not None
    )
    differences, notes = [], []
    for path, was, now in leaf_differences(ours, theirs):
        if path == "error" and _same_failures(old, new):
            notes.append(Note("status.json", "the same failures, in another order", was, now))
        else:
            differences.append(Difference("status", "status.json", path, was, now))
    return differences, notes


def _same_failures(old: RunEvidence, new: RunEvidence) -> bool:
    """Whether both runs have both errors. `error` is the first failure, and with several, the order is random."""
    errors = [side.status["error"] for side in (old, new) if side.status is not None]
    return all(error in _failures(side) for error in errors for side in (old, new))


def _failures(evidence: RunEvidence) -> set[str]:
    return {f"{e.step_id}: {e.error_type}: {e.error}" for e in evidence.events if isinstance(e, ev.StepFailed)}


# --- order -------------------------------------------------------------------------------------------------------


class _Order:
    """The order of differences: by step, steps in the order of their first difference; a step's failure first, because
    it explains the rest."""

    def __init__(self, old: RunEvidence, new: RunEvidence) -> None:
        self._firsts: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        for event in (*new.events, *old.events):
            step = getattr(event, "step_id", None)
            if step is not None:
                self._firsts[step] = min(event.seq, self._firsts.get(step, _LAST))
                self._ends[step] = event.seq
        self._cfg = {f"cfg/{file_name(step.removeprefix('Job:'))}.json": step for step in self._ends}

    def key(self, difference: Difference) -> tuple[int, bool, int, str, bool, str]:
        step = difference.step_id or self._cfg.get(difference.name)
        seq = difference.seq if difference.seq is not None else self._ends.get(step or "", _LAST)
        first = self._firsts.get(step, seq) if step is not None else seq
        is_failure = difference.kind == "event" and difference.name.startswith("step_failed ")
        is_hash = difference.field.endswith(("sha256", "fingerprint"))  # the value itself says more
        return first, not is_failure, seq, difference.name, is_hash, difference.field


# --- What differs between two versions of an artifact; for tables also row counts and column types -------------------


_TABLES = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".ndjson", ".jsonl", ".dta", ".xlsx", ".xlsm")


def describe_difference(old: RunEvidence, was: Artifact, new: RunEvidence, now: Artifact) -> list[str]:
    """The first line is a summary."""
    if was.type != now.type:
        return [f"type {was.type} → {now.type}"]
    comparison = _compare(old, was, new, now)
    summary = comparison.summary if not comparison.identical else "different bytes, but the same content"
    return [summary, *_shapes(old, was, new, now), *comparison.details]


def _compare(old: RunEvidence, was: Artifact, new: RunEvidence, now: Artifact) -> Comparison:
    def locate(sha256: str) -> Path:
        return Path(next(store for store in (old.store, new.store) if store.has(sha256)).path(sha256))

    settings = CompareSettings()
    if was.type == "directory":
        from whyrun.artifacts.compare.files import compare_trees

        return compare_trees(old.store.read_tree(was.sha256), new.store.read_tree(now.sha256), locate, settings)
    from whyrun.artifacts.compare.files import compare_files

    suffix = was.suffix if was.suffix.startswith(".") else Path(was.path or "").suffix
    return compare_files(locate(was.sha256), locate(now.sha256), was.type, suffix, settings)


def _shapes(old: RunEvidence, was: Artifact, new: RunEvidence, now: Artifact) -> list[str]:
    """Rows and columns of both versions, and each column whose type differs or that only one version has."""
    if was.type != "dataset" and was.suffix.lower() not in _TABLES:
        return []
    before = table_shape(Path(old.store.path(was.sha256)), was.suffix)
    after = table_shape(Path(new.store.path(now.sha256)), now.suffix)
    if before is None or after is None:
        return []
    (rows, types), (new_rows, new_types) = before, after
    lines = [f"{_from_to('row', rows, new_rows)}, {_from_to('column', len(types), len(new_types))}"]
    for name in dict.fromkeys([*types, *new_types]):
        one, other = types.get(name, "not there"), new_types.get(name, "not there")
        if one != other:
            lines.append(f"column `{name}`: {one} → {other}")
    return lines


def _from_to(noun: str, old: int, new: int) -> str:
    return counted(old, noun) if old == new else f"{counted(old, noun)} → {new:,}"


def table_shape(blob: Path, suffix: str) -> tuple[int, dict[str, str]] | None:
    """(rows, column → type); None if it is not a table, or the extra `data` is not installed."""
    try:
        import duckdb
    except ImportError:
        return None
    from whyrun.actions.data.engine import opened
    from whyrun.actions.data.params import DataError, DataParams
    from whyrun.actions.data.tables import open_table

    with tempfile.TemporaryDirectory(prefix="whyrun-parity-") as folder:
        named = Path(folder) / f"table{suffix}"  # blobs have no suffix, and the format follows from it
        named.symlink_to(blob.absolute())
        params = DataParams()
        try:
            with opened(params, Path(folder)) as engine:
                table = open_table(engine, "table", named, params)
        except (DataError, duckdb.Error, OSError):
            return None  # the bytes are compared anyway
    return table.rows, {column.name: column.type for column in table.columns}
