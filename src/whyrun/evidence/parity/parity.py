"""Whether two runs left the same evidence: `whyrun parity RUN RUN`.

Compared are files present, `manifest.yaml` and every `cfg/*.json`, the multiset of events (`parity_fields` says which
fields count), row and count metrics, artifacts by content, and the status. Every difference is told, causes before what
follows from them: first by the place in the log, then files, then the status. What may differ between any two runs
(durations, memory, what steps print) is reported and not judged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from msgspec import UNSET

from whyrun.artifacts.hashing import canonical_json
from whyrun.evidence.parity_fields import ComparedEvent, compared_events
from whyrun.evidence.parity_files import compare_files_present
from whyrun.evidence.parity_metrics import compare_metrics, measured
from whyrun.evidence.parity_reading import Artifact, RunEvidence, check_two_runs
from whyrun.evidence.parity_result import ABSENT, Difference, Note, Parity, leaf_differences
from whyrun.ids import file_name
from whyrun.log import events as ev

_NOT_OF_STATUS = ("started", "ended", "backend")
_LAST = 1 << 60

Describe = Callable[[RunEvidence, Artifact, RunEvidence, Artifact], Sequence[str]]


def compare_runs(old: RunEvidence, new: RunEvidence, describe: Describe) -> Parity:
    """`describe` says what differs between two versions of an artifact: the first line is for the headline."""
    check_two_runs(old, new)
    order = _Order(old, new)
    counts, metrics, loose_metrics = compare_metrics(old.metrics, new.metrics)
    files, loose_files = compare_files_present(old, new)
    status, loose_status = _status(old, new)
    causes = [*_events(old, new), *_recorded_files(old, new), *_artifacts(old, new, describe), *metrics]
    return Parity(
        old.name,
        new.name,
        (*sorted(causes, key=order.key), *files, *status),
        (*loose_files, *loose_metrics, *loose_status),
        {
            "events": (len(old.events), len(new.events)),
            "cfg": (_number_of_cfg(old), _number_of_cfg(new)),
            "artifacts": (len(_by_artifact(old)), len(_by_artifact(new))),
            "metrics": counts,
            "files": (len(old.files), len(new.files)),
        },
        (measured(old), measured(new)),
    )


def _number_of_cfg(evidence: RunEvidence) -> int:
    return sum(path.startswith("cfg/") for path in evidence.hashes)


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
    """The events of each run that the other has no equal of, by type and by what they are about, in log order."""
    sides = [[(_key(event), event) for event in compared_events(side.events)] for side in (old, new)]
    counts = [Counter(key for key, _ in side) for side in sides]
    found: list[_Groups] = []
    for side, surplus in zip(sides, (counts[0] - counts[1], counts[1] - counts[0]), strict=True):
        groups: _Groups = defaultdict(list)
        for key, event in side:
            if surplus[key] > 0:
                surplus[key] -= 1
                groups[event.type, event.name].append(event)
        found.append(groups)
    return found[0], found[1]


def _key(event: ComparedEvent) -> bytes:
    return canonical_json([event.type, list(event.name), dict(event.fields)])


# --- manifest, cfg, artifacts ------------------------------------------------------------------------------------


def _recorded_files(old: RunEvidence, new: RunEvidence) -> Iterator[Difference]:
    """`manifest.yaml` and `cfg/*.json` by their bytes; one that only one run has is told with the files."""
    where = {e.path: e.seq for e in old.events if isinstance(e, ev.ManifestMaterialized | ev.CfgMaterialized)}
    for path in sorted(old.hashes.keys() & new.hashes.keys()):
        kind: Literal["cfg", "manifest"] = "manifest" if path == "manifest.yaml" else "cfg"
        if (path == "manifest.yaml" or path.startswith("cfg/")) and old.hashes[path] != new.hashes[path]:
            was, now = old.hashes[path], new.hashes[path]
            yield Difference(kind, path, "sha256", was, now, seq=where.get(path, _LAST))


def _by_artifact(evidence: RunEvidence) -> dict[str, list[Artifact]]:
    found: dict[str, list[Artifact]] = defaultdict(list)
    for event in evidence.events:
        if isinstance(event, Artifact):
            found[event.artifact].append(event)
    return found


def _artifacts(old: RunEvidence, new: RunEvidence, describe: Describe) -> Iterator[Difference]:
    """Those that both runs have, by content; one that only one run has is told with the events."""
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


# --- status ------------------------------------------------------------------------------------------------------


def _status(old: RunEvidence, new: RunEvidence) -> tuple[list[Difference], list[Note]]:
    if old.status is None or new.status is None:
        return [], []  # the file itself is missing, which is told with the files
    ours, theirs = (
        {name: value for name, value in side.status.items() if name not in _NOT_OF_STATUS}
        for side in (old, new)
        if side.status is not None
    )
    found, notes = [], []
    for path, was, now in leaf_differences(ours, theirs):
        if path == "error" and _is_order_alone(old, new):
            notes.append(Note("status.json", "the first of the same failures is another one", was, now))
        else:
            found.append(Difference("status", "status.json", path, was, now))
    return found, notes


def _is_order_alone(old: RunEvidence, new: RunEvidence) -> bool:
    """`error` is the failure that came first; with several, which that is depends on who was faster."""
    said = [side.status["error"] for side in (old, new) if side.status is not None]
    return all(error in _failures(side) for error in said for side in (old, new))


def _failures(evidence: RunEvidence) -> set[str]:
    return {f"{e.step_id}: {e.error_type}: {e.error}" for e in evidence.events if isinstance(e, ev.StepFailed)}


# --- order -------------------------------------------------------------------------------------------------------


class _Order:
    """Differences of one step stand together, steps in the order of their first difference, and failures first: what
    is missing after a failure follows from it."""

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
        is_hash = difference.field.endswith(("sha256", "fingerprint"))  # beside a value it tells nobody anything
        return first, not is_failure, seq, difference.name, is_hash, difference.field
