"""Read the evidence of one run for a comparison. Damaged or unfinished evidence is refused."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from whyrun.artifacts.hashing import file_sha256
from whyrun.artifacts.store import Store
from whyrun.errors import WhyrunError, error
from whyrun.evidence.run_directory import Metric, RunDirectory
from whyrun.log import events as ev
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE
from whyrun.log.journal import EVENTS_FILE, check_chain, read_events
from whyrun.log.runs import RunRef, log_without_start

_CFG = re.compile(r"cfg/[^/]+")
_PRINTED = re.compile(r"steps/[^/]+/(stdout|stderr)\.log")
Artifact = ev.ArtifactAvailable | ev.ArtifactAdopted
_metric = msgspec.json.Decoder(Metric)
_fields = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True)
class RunEvidence:
    """Everything that is compared of one run. `name`: as the user wrote it."""

    name: str
    folder: Path
    events: tuple[ev.AnyEvent, ...]
    files: frozenset[str]  # relative to the folder; empty folders end with `/`
    hashes: Mapping[str, str]  # of `manifest.yaml`, `cfg/*.json` and the printed text of steps
    metrics: tuple[Metric, ...]
    status: Mapping[str, Any] | None  # None: there is no `status.json`

    @cached_property
    def start(self) -> ev.RunStart:
        first = self.events[0]
        assert isinstance(first, ev.RunStart)  # checked by `_events`
        return first

    @cached_property
    def end(self) -> ev.RunComplete:
        last = self.events[-1]
        assert isinstance(last, ev.RunComplete)
        return last

    @cached_property
    def store(self) -> Store:
        return store_of(self.folder)

    @cached_property
    def missing(self) -> frozenset[str]:
        """Files that every run has, or that its log names, and that do not exist."""
        logged = {e.path for e in self.events if isinstance(e, ev.CfgMaterialized | ev.ManifestMaterialized)}
        lost = {path for path in logged if path not in self.files}
        return frozenset(lost.union(RunDirectory(self.folder).missing_files(self.start.mode)))


def store_of(folder: Path) -> Store:
    """`.whyrun/<workflow>/runs/r0001` → `.whyrun/store`."""
    return Store(Path(os.path.abspath(folder)).parents[2] / "store")


def run_at(path: str) -> RunRef:
    """The run in a folder such as `../other/.whyrun/demo/runs/r0001`."""
    folder = Path(path)
    if not folder.is_dir():
        hint = "a run is `r0001`, or the path of its folder"
        raise error("FILE_MISSING", f"there is no run folder `{path}`", hint=hint)
    if not (folder / EVENTS_FILE).is_file():
        hint = "the folder of a run is `.whyrun/<workflow>/runs/r0001`"
        raise error("FILE_MISSING", f"`{path}` is not a run folder: it has no `{EVENTS_FILE}`", hint=hint)
    return RunRef(os.path.basename(os.path.abspath(folder)), os.fspath(folder), 0)


def read_evidence(name: str, run: RunRef) -> RunEvidence:
    """LOG_INCOMPLETE for a run that has not ended; LOG_DAMAGED or STORE_DAMAGED for damaged evidence."""
    folder = run.path
    events = _events(run)
    files = frozenset(_walk(folder))
    read = [path for path in files if path == "manifest.yaml" or _CFG.fullmatch(path) or _PRINTED.fullmatch(path)]
    evidence = RunEvidence(
        name,
        folder,
        events,
        files,
        {path: file_sha256(folder / path) for path in read},
        _metrics(folder),
        _status(folder),
    )
    _check_files(evidence)
    _check_artifacts(evidence)
    return evidence


def check_two_runs(old: RunEvidence, new: RunEvidence) -> None:
    """USAGE if both are the same run or copies of it: equality would prove nothing."""
    if old.start.chain == new.start.chain:
        what = "are the same run" if os.path.samefile(old.folder, new.folder) else "are one run and a copy of it"
        hint = "run the workflow twice, each time from an empty state (`--state DIR`), and compare these runs"
        raise error("USAGE", f"`{old.name}` and `{new.name}` {what}: comparing them proves nothing", hint=hint)


def _events(run: RunRef) -> tuple[ev.AnyEvent, ...]:
    try:
        events = tuple(read_events(run.events_path))
    except FileNotFoundError:
        raise log_without_start(run) from None
    first = events[0] if events else None
    if not isinstance(first, ev.RunStart):
        raise log_without_start(run)
    check_chain([run.events_path], first.previous_chain)
    if not isinstance(events[-1], ev.RunComplete):
        raise error(
            "LOG_INCOMPLETE",
            f"`{run.name}` has no `run_complete`: it is still running, or was killed",
            file=str(run.events_path),
            hint="wait for its end; if it was killed, the next `whyrun run` completes it",
        )
    return events


def _walk(folder: Path) -> list[str]:
    def unreadable(problem: OSError) -> None:
        raise problem  # `os.walk` would skip the folder, and unread files would count as equal

    paths: list[str] = []
    for here, folders, files in os.walk(folder, onerror=unreadable):
        relative = os.path.relpath(here, folder)
        lead = "" if relative == "." else f"{relative}/"
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]
        paths += [lead + name for name in (*files, *links)]
        if not files and not folders:
            paths.append(lead)
    # File names in scratch folders may not be UTF-8.
    return [os.fsencode(path).decode("utf-8", "backslashreplace") for path in paths]


def _metrics(folder: Path) -> tuple[Metric, ...]:
    path = folder / "metrics.jsonl"
    if not path.exists():
        return ()
    lines = path.read_bytes().split(b"\n")[:-1]  # the last line of a killed run may be cut off
    metrics = []
    for number, line in enumerate(lines, 1):
        try:
            metrics.append(decoded(_metric.decode, line))
        except UNREADABLE as wrong:
            raise _damaged(path, f"this line is not a metric: {wrong}", number) from None
    return tuple(metrics)


def _status(folder: Path) -> Mapping[str, Any] | None:
    path = folder / "status.json"
    if not path.exists():
        return None
    try:
        return decoded(_fields.decode, path.read_bytes())
    except UNREADABLE as wrong:
        raise _damaged(path, f"it is not a status: {wrong}") from None


def _damaged(path: Path, what: str, line: int | None = None) -> WhyrunError:
    hint = "nothing is compared with damaged evidence: restore the file from a copy, or run again"
    return error("LOG_DAMAGED", what, file=str(path), line=line, hint=hint)


def _check_files(evidence: RunEvidence) -> None:
    """STORE_DAMAGED if the manifest or a file in `cfg/` does not match the log. Missing files are differences."""
    logged = {e.path: e.sha256 for e in evidence.events if isinstance(e, ev.CfgMaterialized | ev.ManifestMaterialized)}
    for path, sha256 in logged.items():
        actual = evidence.hashes.get(path, sha256)
        if actual != sha256:
            raise error(
                "STORE_DAMAGED",
                f"the file has other bytes than the log says (sha256 {actual}, not {sha256})",
                file=str(evidence.folder / path),
                hint="it was changed after the run, so it proves nothing: restore it from a copy, or run again",
            )


def _check_artifacts(evidence: RunEvidence) -> None:
    """STORE_DAMAGED unless the bytes of every artifact match the log: hashes alone would prove nothing."""
    seen: set[str] = set()
    for event in evidence.events:
        if not isinstance(event, Artifact) or event.value is not msgspec.UNSET:
            continue  # the event has the value
        if event.sha256 in seen:
            continue
        seen.add(event.sha256)
        evidence.store.check(event.sha256)
        if event.type == "directory":
            for file in evidence.store.read_tree(event.sha256).files:
                evidence.store.check(file.sha256)
