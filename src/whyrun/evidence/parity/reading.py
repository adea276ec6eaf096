"""The evidence of one run, read for comparing; what is damaged or unfinished is refused, for it proves nothing."""

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
    """All that is compared of one run. `name` is how the user called it."""

    name: str
    folder: Path
    events: tuple[ev.AnyEvent, ...]
    files: frozenset[str]  # relative to the folder; an empty folder with a slash at its end
    hashes: Mapping[str, str]  # of `manifest.yaml`, `cfg/*.json` and what steps printed
    metrics: tuple[Metric, ...]
    status: Mapping[str, Any] | None  # None: there is no `status.json`

    @cached_property
    def start(self) -> ev.RunStart:
        first = self.events[0]
        assert isinstance(first, ev.RunStart)  # else it would not have been read
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
        """Files that every run has, or that its log speaks of, and that are not there."""
        logged = {e.path for e in self.events if isinstance(e, ev.CfgMaterialized | ev.ManifestMaterialized)}
        lost = {path for path in logged if path not in self.files}
        return frozenset(lost.union(RunDirectory(self.folder).missing_files(self.start.mode)))


def store_of(folder: Path) -> Store:
    """`.whyrun/<workflow>/runs/r0001` → `.whyrun/store`."""
    return Store(Path(os.path.abspath(folder)).parents[2] / "store")


def run_at(word: str) -> RunRef:
    """The run whose folder this is: `../other/.whyrun/demo/runs/r0001`."""
    folder = Path(word)
    if not folder.is_dir():
        hint = "a run is `r0001`, or the path of its folder"
        raise error("FILE_MISSING", f"there is no run folder `{word}`", hint=hint)
    if not (folder / EVENTS_FILE).is_file():
        hint = "the folder of a run is `.whyrun/<workflow>/runs/r0001`"
        raise error("FILE_MISSING", f"`{word}` is no run folder: it has no `{EVENTS_FILE}`", hint=hint)
    return RunRef(os.path.basename(os.path.abspath(folder)), os.fspath(folder), 0)


def read_evidence(name: str, run: RunRef) -> RunEvidence:
    """Raises LOG_INCOMPLETE for a run that has not ended, LOG_DAMAGED and STORE_DAMAGED for what is not as it was."""
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
    """A run is equal to itself and to its copies, and that proves nothing."""
    if old.start.chain == new.start.chain:
        what = "are the same run" if os.path.samefile(old.folder, new.folder) else "are one run and a copy of it"
        hint = "run the workflow twice, each time from an empty state (`--state DIR`), and compare these runs"
        raise error("USAGE", f"`{old.name}` and `{new.name}` {what}: to find them equal proves nothing", hint=hint)


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
            hint="wait for its end; what was killed is completed by the next `whyrun run`",
        )
    return events


def _walk(folder: Path) -> list[str]:
    def unreadable(problem: OSError) -> None:
        raise problem  # `os.walk` would pass over it, and what was not looked at would count as equal

    found: list[str] = []
    for place, folders, files in os.walk(folder, onerror=unreadable):
        relative = os.path.relpath(place, folder)
        lead = "" if relative == "." else f"{relative}/"
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        found += [lead + name for name in (*files, *links)]
        if not files and not folders:
            found.append(lead)
    # A step may leave names behind that are no text.
    return [os.fsencode(path).decode("utf-8", "backslashreplace") for path in found]


def _metrics(folder: Path) -> tuple[Metric, ...]:
    path = folder / "metrics.jsonl"
    if not path.exists():
        return ()
    lines = path.read_bytes().split(b"\n")[:-1]  # of a killed run the last line may be cut
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(decoded(_metric.decode, line))
        except UNREADABLE as wrong:
            raise _damaged(path, f"this line is no metric: {wrong}", number) from None
    return tuple(found)


def _status(folder: Path) -> Mapping[str, Any] | None:
    path = folder / "status.json"
    if not path.exists():
        return None
    try:
        return decoded(_fields.decode, path.read_bytes())
    except UNREADABLE as wrong:
        raise _damaged(path, f"it is no status: {wrong}") from None


def _damaged(path: Path, what: str, line: int | None = None) -> WhyrunError:
    hint = "nothing is compared with damaged evidence: restore the file from a copy, or run again"
    return error("LOG_DAMAGED", what, file=str(path), line=line, hint=hint)


def _check_files(evidence: RunEvidence) -> None:
    """What stands in `cfg/` and the manifest is what the log says; what is gone is told as a difference."""
    logged = {e.path: e.sha256 for e in evidence.events if isinstance(e, ev.CfgMaterialized | ev.ManifestMaterialized)}
    for path, sha256 in logged.items():
        found = evidence.hashes.get(path, sha256)
        if found != sha256:
            raise error(
                "STORE_DAMAGED",
                f"the file has other bytes than the log says (sha256 {found}, not {sha256})",
                file=str(evidence.folder / path),
                hint="it was changed after the run, so it is no evidence: restore it from a copy, or run again",
            )


def _check_artifacts(evidence: RunEvidence) -> None:
    """The bytes of every artifact are those that the log says: hashes of a log alone would be words about words."""
    seen: set[str] = set()
    for event in evidence.events:
        if not isinstance(event, Artifact) or event.value is not msgspec.UNSET:
            continue  # a value stands in the event itself
        if event.sha256 in seen:
            continue
        seen.add(event.sha256)
        evidence.store.check(event.sha256)
        if event.type == "directory":
            for file in evidence.store.read_tree(event.sha256).files:
                evidence.store.check(file.sha256)
