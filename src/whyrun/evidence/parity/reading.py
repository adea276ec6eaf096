"""Read the evidence of one run for a comparison. Damaged or unfinished evidence is refused."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from whyrun.artifacts.hashing import file_sha256
from whyrun.artifacts.store import Store
from whyrun.errors import error
from whyrun.evidence.parity.fields import ABSENT, Difference
from whyrun.evidence.run_directory import Metric
from whyrun.evidence.verify.consistency import COMMANDS_FILE, METRICS_FILE, RecordedCommand
from whyrun.evidence.verify.verify import verify
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.log.decoding import decoded
from whyrun.log.journal import EVENTS_FILE, STATUS_FILE, read_events
from whyrun.log.reads import LongReads
from whyrun.log.runs import RunRef, WorkflowState, log_without_start

PRINTED = re.compile(r"steps/[^/]+/(stdout|stderr)\.log")
_SCRATCH = re.compile(r"steps/(?P<step>[^/]+)/scratch(?P<rest>/.*|$)")
_RANDOM_NAMES = ("/tmp/", "/home/")  # libraries choose file names there
_LINES = (EVENTS_FILE, STATUS_FILE, METRICS_FILE, COMMANDS_FILE)  # files that tell what happened
Artifact = ev.ArtifactAvailable | ev.ArtifactAdopted
_metric = msgspec.json.Decoder(Metric)
_command = msgspec.json.Decoder(RecordedCommand)
_fields = msgspec.json.Decoder(dict[str, Any])
_Line = TypeVar("_Line")


@dataclass(frozen=True)
class RunEvidence:
    """Everything that is compared of one run. `name`: as the user wrote it."""

    name: str
    folder: Path
    events: tuple[ev.AnyEvent, ...]
    files: frozenset[str]  # relative to the folder; empty folders end with `/`
    lost: frozenset[str]  # files that every run has or that the log names, and that are not there
    metrics: tuple[Metric, ...]
    commands: tuple[RecordedCommand, ...]
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
    def stopped(self) -> frozenset[str]:
        """Steps that a time limit, an interruption or a dead worker stopped."""
        steps = {e.step_id for e in self.events if isinstance(e, ev.StatusContractViolation)}
        steps |= {e.step_id for e in self.events if isinstance(e, ev.StepFailed) and e.status != "FAILED"}
        return frozenset(steps)

    def content(self, path: str) -> str:
        """The hash of a file; of a link that does not lead into the store, and of a special file, what it is."""
        file = self.folder / path
        if file.is_symlink() and not file.resolve().is_relative_to(self.store.root.resolve()):
            return f"a link to {os.readlink(file)}"
        try:
            mode = file.stat().st_mode
        except FileNotFoundError:
            return f"a link to {os.readlink(file)}, which is not there"
        return file_sha256(file) if stat.S_ISREG(mode) else stat.filemode(mode)[0]


def random_files(*sides: RunEvidence) -> Callable[[str], str | None]:
    """A function that says why a file of a run folder is not compared; None if it is."""
    stopped = {file_name(step.removeprefix("Job:")) for side in sides for step in side.stopped}

    def why(path: str) -> str | None:
        scratch = _SCRATCH.fullmatch(path)
        if scratch is None:
            return None
        if scratch["step"] in stopped:
            return "how far a stopped step came is random"
        return "temporary files have random names" if scratch["rest"].startswith(_RANDOM_NAMES) else None

    return why


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
    lost = _check(run)
    evidence = RunEvidence(
        name,
        folder,
        events,
        frozenset(_walk(folder)),
        lost,
        tuple(_lines(folder / METRICS_FILE, _metric.decode)),
        tuple(_lines(folder / COMMANDS_FILE, _command.decode)),
        _status(folder),
    )
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


def _lines(path: Path, decode: Callable[[bytes], _Line]) -> Iterator[_Line]:
    """Lines that `verify` has checked."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []  # a kill may leave half a line
    return (decoded(decode, line) for line in lines)


def _status(folder: Path) -> Mapping[str, Any] | None:
    path = folder / STATUS_FILE
    return decoded(_fields.decode, path.read_bytes()) if path.exists() else None


def _check(run: RunRef) -> frozenset[str]:
    """Refuse evidence that `verify` calls damaged. Return the files that are missing: they are differences."""
    folder = run.path
    workflow = Path(os.path.abspath(folder)).parents[1]
    state = WorkflowState(workflow.parent, workflow.name)
    problems = verify(state, state.state_dir.parent, _no_replay, run.name).problems
    lost: set[str] = set()
    for problem in problems:
        inside = os.path.relpath(os.path.abspath(problem.file), os.path.abspath(folder))
        if not os.path.lexists(problem.file) and not inside.startswith(".."):
            lost.add(inside)
            continue
        is_log = problem.stored is None and os.path.basename(problem.file) in _LINES
        code = "LOG_DAMAGED" if is_log else "STORE_DAMAGED"
        about = " ".join(filter(None, (problem.event, problem.subject)))
        what = problem.what + (f" ({about})" if about else "")
        if problem.expected is not None or problem.found is not None:
            what += f": expected {problem.expected}, found {problem.found}"
        hint = "nothing is compared with damaged evidence: `whyrun verify` lists all damage and says how to repair it"
        file = problem.stored or (problem.file if inside.startswith("..") else str(folder / inside))
        raise error(code, what, file=file, line=problem.line, hint=hint)
    if not (folder / STATUS_FILE).exists():
        lost.add(STATUS_FILE)  # `verify` only notes it
    return frozenset(lost)


def _no_replay(run: str) -> None:
    """No plan is computed again: that needs the project of the run."""


def _check_artifacts(evidence: RunEvidence) -> None:
    """STORE_DAMAGED unless the store has the bytes of every artifact: hashes alone would prove nothing. `verify` has
    checked the bytes that are there, and lets those of older versions be missing."""
    store = evidence.store
    for event in evidence.events:
        if not isinstance(event, Artifact) or event.value is not msgspec.UNSET:
            continue  # the event has the value
        if not store.has(event.sha256):
            store.check(event.sha256)
        for file in store.read_tree(event.sha256).files if event.type == "directory" else ():
            if not store.has(file.sha256):
                store.check(file.sha256)


# --- compares what the steps of two runs read undeclared, where strace watched the step in both -----------------------
# else one run may have. seen more.


def reads_differences(old: RunEvidence, new: RunEvidence) -> Iterator[Difference]:
    ours, theirs = (
        {event.step_id: event for event in side.events if isinstance(event, ev.StepComplete) and event.traced}
        for side in (old, new)
    )
    for step in sorted(ours.keys() & theirs.keys()):
        was, now = (_contents(side[step]) for side in (ours, theirs))
        title, seq = f"step_complete {step}", min(ours[step].seq, theirs[step].seq)
        for path in sorted({*was, *now}):
            before, after = was.get(path, ABSENT), now.get(path, ABSENT)
            if before != after and "unknown" not in (before, after):
                yield Difference("event", title, f"observed.{path}", before, after, step_id=step, seq=seq)


def _contents(event: ev.StepComplete) -> dict[str, Any]:
    """Path → its content or kind. Of a long list, its digest stands for all."""
    if event.observed is None:
        return {}
    if isinstance(event.observed, LongReads):
        return {"": event.observed.digest}
    return {read.path: read.sha256 or read.kind for read in event.observed}
