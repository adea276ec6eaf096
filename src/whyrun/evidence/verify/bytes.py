"""Check bytes against the hashes in the log: blobs of the store and files of run folders are read and hashed again.

These blobs must exist: the latest version of every artifact, snapshots and long lists (a replay needs them), files that
were saved before they were overwritten, and the data that a composition has read. Older versions may be missing. Every
existing blob that a log or run folder refers to is checked: these are the blobs that `gc` keeps.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from whyrun.artifacts.hashing import (
    Tree,
    TreeFile,
    UnfitFolder,
    bytes_sha256,
    canonical_json,
    decode_tree,
    file_sha256,
    tree_manifest,
)
from whyrun.artifacts.store import Store
from whyrun.errors import WhyrunError
from whyrun.evidence.composition.run_folder import MANIFEST_FILE, input_links, link_target
from whyrun.evidence.referenced_blobs import referenced_hashes, stored_folder_files, stored_names
from whyrun.evidence.verify.derived_files import LinkCheck, check_summaries
from whyrun.evidence.verify.lines import described
from whyrun.evidence.verify.report import PLAN_AGAIN, Checked, Findings, Kind, VerifyProblem
from whyrun.log import events as ev
from whyrun.log.decoding import decoded
from whyrun.log.events import value_hash_problem
from whyrun.log.journal import EVENTS_FILE, STAGES_FILE
from whyrun.log.reads import LongReads
from whyrun.snapshot.history.bindings import bindings_problem

PLAN_FILE = "plan.json"
_SAVED = "that was saved before it was overwritten"
_KEPT_DATA = (
    "data that steps have read: restore the blob from a copy, which may be the data file itself. No job needs it: "
    "without a copy, the data that the step has read cannot be shown, and nothing else is affected"
)
_UNREADABLE = (OSError, ValueError, TypeError, LookupError, AttributeError, WhyrunError)
# Missing hashes → those that the latest version of an artifact needs, each with the published path of every such
# artifact (None: it has no path of its own with these bytes). The whole answer is None if the log is damaged.
Current = Callable[[Container[str]], Mapping[str, Collection[str | None]] | None]
Recorded = tuple[str, int, int]  # the hash and size of a file, and the line of the log that has them
_decoder: msgspec.json.Decoder[ev.AnyEvent] = msgspec.json.Decoder(ev.AnyEvent)
_NOT_DIGESTED = ("digest", "log_position", "stage")  # fields of a plan that its digest does not cover


@dataclass(frozen=True, slots=True)
class Mention:
    """Where the log refers to some bytes."""

    run: str
    file: str
    line: int | None = None
    event: str | None = None
    subject: str | None = None

    hint: str | None = None

    def problem(self, kind: Kind, what: str, stored: str, expected: str, found: str | None = None) -> VerifyProblem:
        where = (self.line, self.event, self.subject)
        return VerifyProblem(kind, self.run, self.file, what, *where, expected, found, stored, self.hint)


class BlobCheck:
    """Checks blobs, each once, and the links to them. Feed it the events of all runs in order, then call `finish`."""

    def __init__(self, store: Store, project: Path, findings: Findings, checked: Checked) -> None:
        self._store = store
        self._project = project
        self._findings = findings
        self._checked = checked
        self._seen: set[str] = set()
        self._sizes: dict[str, int] = {}  # of the blobs of artifacts; of a folder the size of its files
        self._missing: dict[str, Mention] = {}  # versions of artifacts: hash → its first mention
        self._reported: set[str] = set()
        self._links = LinkCheck(store, findings)
        self._adopted: list[tuple[str, str, Mention]] = []
        self._run = ""
        self._decides = False  # it is the run of a decision
        self._folders: list[Path] = []  # of the runs so far

    def artifact(self, event: ev.ArtifactAvailable | ev.ArtifactAdopted, run: str, file: str, line: int) -> None:
        if run != self._run:
            self._begin(run, file)
        self._links.add(event)
        if event.value is not msgspec.UNSET:
            self._value(event, event.artifact, event.value, event.sha256, run, file, line)
        if event.sha256 not in self._seen:
            self._artifact(event, run, file, line)
        self._size(event, run, file, line)

    def event(self, event: ev.AnyEvent, run: str, file: str, line: int) -> None:
        """Check the bytes that any event except `artifact_available` refers to."""
        if run != self._run:
            self._begin(run, file)
        match event:
            case ev.StepStart():
                self._links.drop(event.step_id)
                self._lists(event, event.bindings, run, file, line)
            case ev.StepComplete():
                self._links.check_step(event.step_id)
                self._reads(event, run, file, line)
            case ev.StepFailed():
                self._links.drop(event.step_id)
                self._reads(event, run, file, line)
            case ev.RunStart():
                self._decides = event.mode == "decide"
            case ev.ResultKept():
                self._links.check_step(event.step_id)
                self._lists(event, event.bindings, run, file, line)
                self._reads(event, run, file, line)
            case ev.StepSkipped():
                self._lists(event, event.bindings, run, file, line)
            case ev.ArtifactAdopted():
                self.artifact(event, run, file, line)
                self._lists(event, event.bindings, run, file, line)
                self._reads(event, run, file, line)
            case ev.PlanComputed():
                self._needed(event, event.snapshot_sha256, "the snapshot that the plan was made from", run, file, line)
            case ev.FileDisplaced():
                self.saved(event.sha256, Mention(run, file, line, *described(event)))
            case ev.RunComplete() if not self._decides:  # outputs without their `result_kept` have no links
                self._links.check_run()
            case _:
                pass  # refers to no stored bytes

    def plan_lists(self, plan: Any, mention: Mention) -> None:
        """The long lists that a plan refers to."""
        for blob in _blobs_in(plan):
            self._require(blob, "a long list of the plan", mention)

    def saved(self, sha: str, mention: Mention) -> None:
        """A saved file or folder of the user, perhaps the only copy. Tombstones of pruned runs name these, too."""
        self._require(sha, f"a file {_SAVED}", mention)
        for file in self._files_of(sha):
            self._require(file.sha256, f"`{file.path}` of a folder {_SAVED}", mention)

    def adopted(self, sha: str, type_: str, mention: Mention) -> None:
        """A version that a pruned run adopted. Like any older version, it may be missing."""
        self._adopted.append((sha, type_, mention))

    def finish(self, current: Current) -> None:
        """Check what needs all runs: composition inputs, remaining blobs, and whether missing versions are needed."""
        # A missing manifest is reported elsewhere.
        folders = [folder for folder in self._folders if (folder / MANIFEST_FILE).is_file()]
        for folder in folders:
            self._inputs(folder)
        for sha, type_, mention in self._adopted:  # checked after the kept runs, which know published paths
            if sha not in self._seen:
                self._version(sha, type_, mention)
        self._others(folders)
        self._report_missing(current)
        check_summaries(folders, self._store, self._reported, self._findings, self._checked)

    def _begin(self, run: str, file: str) -> None:
        self._run = run
        self._folders.append(Path(file).parent)
        self._links.begin(run, self._folders[-1])

    def _report_missing(self, current: Current) -> None:
        if not self._missing:
            return
        latest = current(self._missing)
        older = 0
        for sha, mention in self._missing.items():
            if latest is not None and sha not in latest:
                older += 1
            elif latest is not None and (path := self._published_copy(sha, latest[sha])) is not None:
                self._findings.note(
                    f"{mention.subject} ({mention.run}) is not in the store; `{path}` has its bytes, and a run that "
                    "needs them takes them from there"
                )
            else:
                self._report(mention, "artifact", "its bytes are not in the store", sha)
        if older:
            which = "1 older version is" if older == 1 else f"{older} older versions are"
            self._findings.note(f"{which} not in the store any more and cannot be restored or reused")

    def _published_copy(self, sha: str, paths: Collection[str | None]) -> str | None:
        """A published file with these bytes; None unless every artifact with this content has one: a run looks only at
        the path of the artifact itself."""
        copies = [path for path in paths if path is not None and _has_bytes(self._project / path, sha)]
        return copies[0] if len(copies) == len(paths) else None

    def _inputs(self, folder: Path) -> None:
        """The data that composition steps have read. The store keeps it if `steps/<step>/inputs/` links to it."""
        try:
            links = list(input_links(folder, self._store))
        except _UNREADABLE:
            return  # the manifest or the log is damaged, which is reported elsewhere
        for link, sha in sorted(dict(reversed(links)).items()):  # the first attempt made the link
            target = link_target(link, self._store.path(sha))
            if not link.is_symlink() or not self._links.compare(folder.name, str(link), target):
                continue  # no link: only datasets are kept
            mention = Mention(folder.name, str(link), hint=_KEPT_DATA)
            if sha not in self._seen:  # else it was checked as an artifact or for another step
                self._require(sha, "the data that the step has read", mention)
            for file in self._files_of(sha):
                if file.sha256 not in self._seen:
                    self._require(file.sha256, f"`{file.path}` of a folder that the step has read", mention)

    def _others(self, folders: list[Path]) -> None:
        """All other referenced blobs. The text of the runs is searched only if the store has unchecked blobs."""
        try:
            left = stored_names(self._store.root) - self._seen
            referenced = left.intersection(referenced_hashes(folders, self._store)) if left else set()
        except OSError:
            return  # an unreadable folder or file, which is reported elsewhere
        for sha in sorted(referenced):
            self._other(sha, sha)
            for file in self._files_of(sha):
                if file.sha256 in left:  # a hash that is not in the store may be of anything
                    self._other(file.sha256, sha)

    def _other(self, sha: str, referenced: str) -> None:
        if sha in self._seen:
            return
        self._seen.add(sha)
        actual = self._hash(sha)
        if actual is not None and actual != sha:
            what = "a blob that the log refers to has other bytes in the store"
            self._report(self._first_mention(referenced), "blob", what, sha, actual)

    def _first_mention(self, sha: str) -> Mention:
        """Searched only when there is a problem to report."""
        text = sha.encode()
        for name in (EVENTS_FILE, MANIFEST_FILE):
            for file in (folder / name for folder in self._folders):
                lines = file.read_bytes().splitlines() if file.is_file() else []
                for number, line in enumerate(lines, 1):
                    if text in line:
                        return Mention(file.parent.name, str(file), number, *_described_line(line))
        return Mention(self._run, self._store.path(sha))  # only a long list has it

    def _files_of(self, sha: str) -> tuple[TreeFile, ...]:
        """The files of a folder; none if the blob is damaged."""
        return () if sha in self._reported else stored_folder_files(sha, self._store)

    def _artifact(self, event: ev.ArtifactAvailable | ev.ArtifactAdopted, run: str, file: str, line: int) -> None:
        mention = Mention(run, file, line, *described(event))
        self._version(event.sha256, event.type, mention, event.value is not msgspec.UNSET)

    def _version(self, sha: str, type_: str, mention: Mention, in_log: bool = False) -> None:
        """`in_log`: the event has the value, so the blob may be missing."""
        actual = self._hash(sha)
        if actual is None and in_log:
            return
        self._seen.add(sha)
        if actual is None:
            self._missing.setdefault(sha, mention)
        elif actual != sha:
            self._report(mention, "artifact", "the store has other bytes", sha, actual)
        elif type_ == "directory":
            self._tree(sha, mention)

    def _size(self, event: ev.ArtifactAvailable | ev.ArtifactAdopted, run: str, file: str, line: int) -> None:
        """Check the size of an artifact; of bytes that are lost, only if the event has the value."""
        size = self._sizes.get(event.sha256)
        if size is None and event.value is not msgspec.UNSET:
            size = len(canonical_json(event.value))
        if size is not None and event.size != size:
            what, where = "`size` is not the size of the artifact", described(event)
            self._findings.add(VerifyProblem("log", run, file, what, line, *where, str(size), str(event.size)))

    def _tree(self, sha: str, mention: Mention) -> None:
        tree = self._read_tree(sha, mention)
        if tree is not None:
            self._sizes[sha] = tree.size
        for one in tree.files if tree is not None else ():
            if one.sha256 in self._seen:
                continue
            self._seen.add(one.sha256)
            actual = self._hash(one.sha256)
            if actual is None:
                self._missing[one.sha256] = mention
            elif actual != one.sha256:
                what = f"the store has other bytes of `{one.path}` in it"
                self._report(mention, "artifact", what, one.sha256, actual)

    def _read_tree(self, sha: str, mention: Mention) -> Tree | None:
        try:
            return decode_tree(Path(self._store.path(sha)).read_bytes())
        except ValueError as wrong:
            self._report(mention, "artifact", f"the stored blob is not the manifest of a folder: {wrong}", sha)
            return None

    def _lists(self, event: ev.AnyEvent, bindings: ev.Bindings | None, run: str, file: str, line: int) -> None:
        problem = bindings_problem(bindings or {})
        if problem is not None:
            self._findings.add(VerifyProblem("log", run, file, problem, line, *described(event)))
        for members in (bindings or {}).values():
            if isinstance(members, dict) and isinstance(members.get("blob"), str):
                self._needed(event, members["blob"], "a long list of bindings", run, file, line)
            for one in members if isinstance(members, list) else ():
                if isinstance(one, dict) and "value" in one and str(one.get("id")).startswith("Artifact:"):
                    self._value(event, one["id"], one["value"], one.get("sha256"), run, file, line)

    def _reads(self, event: ev.WithReads, run: str, file: str, line: int) -> None:
        if isinstance(event.observed, LongReads):
            self._needed(event, event.observed.blob, "a long list of reads", run, file, line)

    def _value(self, event: ev.AnyEvent, id_: str, value: Any, sha256: Any, run: str, file: str, line: int) -> None:
        what = value_hash_problem(id_, value, sha256)
        if what is not None:
            self._findings.add(VerifyProblem("log", run, file, what, line, *described(event)))

    def _needed(self, event: ev.AnyEvent, sha: str, what: str, run: str, file: str, line: int) -> None:
        if sha not in self._seen or sha in self._missing:
            self._require(sha, what, Mention(run, file, line, *described(event)))

    def _require(self, sha: str, what: str, mention: Mention) -> None:
        # A missing older version is only noted. If it is required as well, it is a problem.
        if sha in self._seen and self._missing.pop(sha, None) is None:
            return
        self._seen.add(sha)
        actual = self._hash(sha)
        if actual is None:
            self._report(mention, "blob", f"{what} is not in the store", sha)
        elif actual != sha:
            self._report(mention, "blob", f"{what} has other bytes in the store", sha, actual)

    def _report(self, mention: Mention, kind: Kind, what: str, sha: str, found: str | None = None) -> None:
        self._reported.add(sha)
        self._findings.add(mention.problem(kind, what, self._store.path(sha), sha, found))

    def _hash(self, sha: str) -> str | None:
        """The hash of a blob as it is now; None if it is missing."""
        actual, size = _hash_and_size(self._store.path(sha))
        if actual is not None:
            self._checked.blobs += 1
            self._checked.bytes += size
        if actual == sha:
            self._sizes[sha] = size
        return actual


def _described_line(line: bytes) -> tuple[str | None, str | None]:
    try:
        event = decoded(_decoder.decode, line)
    except ev.UNREADABLE:
        return None, None  # a broken line, which is reported elsewhere
    return described(event)


def _hash_and_size(path: str) -> tuple[str | None, int]:
    """None if the file is missing. If it cannot be read, a text in parentheses takes the place of the hash."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return "(not a file)", 0  # reading a pipe would block forever
        return file_sha256(path), status.st_size
    except (FileNotFoundError, NotADirectoryError):
        return None, 0
    except OSError as refused:
        return f"(cannot be read: {refused.strerror})", 0


def check_file(folder: Path, path: str, recorded: Recorded, run: str, findings: Findings, checked: Checked) -> bool:
    """Check a file of a run folder against its hash and size in the log; whether it has this hash."""
    sha, size, line = recorded
    file = f"{folder}/{path}"
    actual, actual_size = _hash_and_size(file)
    if actual is None:
        findings.add(VerifyProblem("file", run, file, "the file is missing", expected=sha))
        return False
    checked.files += 1
    if actual != sha:
        what = f"the file does not match line {line} of the log"
        findings.add(VerifyProblem("file", run, file, what, expected=sha, found=actual))
        return False
    if actual_size != size:
        what = f"`size` is not the size of `{path}`"
        log = f"{folder}/{EVENTS_FILE}"
        findings.add(VerifyProblem("log", run, log, what, line, expected=str(actual_size), found=str(size)))
    return True


def plan_file(event: ev.PlanComputed) -> str:
    return PLAN_FILE if event.stage is None else STAGES_FILE


def check_plan(folder: Path, event: ev.PlanComputed, mention: Mention, findings: Findings, checked: Checked) -> Any:
    """Check a plan against its digest in the log, and return the plan; None if it does not match."""
    run = mention.run
    file = folder / plan_file(event)
    try:
        data = file.read_bytes()
        if event.stage is not None:
            data = b"".join(data.splitlines(keepends=True)[event.stage - 1 : event.stage])
    except OSError as refused:
        gone = isinstance(refused, FileNotFoundError)
        what = "the file is missing" if gone else f"the file cannot be read: {refused.strerror}"
        findings.add(VerifyProblem("file", run, str(file), what, expected=event.plan_sha256, hint=PLAN_AGAIN))
        return None
    checked.files += 1
    expected, actual = event.plan_sha256, _plan_digest(data, event.log_position)
    if actual == expected:
        return json.loads(data)
    what = f"the file is not the plan that line {mention.line} of the log names"
    findings.add(VerifyProblem("file", run, str(file), what, expected=expected, found=actual, hint=PLAN_AGAIN))
    return None


def _plan_digest(data: bytes, position: Any) -> str | None:
    """None: the bytes are not canonical, or the plan is for another position in the log."""
    try:
        plan = json.loads(data)
        if not isinstance(plan, dict) or canonical_json(plan) + b"\n" != data or plan.get("log_position") != position:
            return None
    except (ValueError, TypeError, RecursionError):
        return None
    body = {name: value for name, value in plan.items() if name not in _NOT_DIGESTED}
    digest = bytes_sha256(canonical_json(body))
    return digest if plan.get("digest") == f"sha256:{digest}" else None


def _blobs_in(value: Any) -> Iterator[str]:
    """The blobs of all long lists (`{count, digest, blob}`) in a value."""
    if isinstance(value, dict):
        if value.keys() == {"count", "digest", "blob"} and isinstance(value["blob"], str):
            yield value["blob"]
        else:
            for member in value.values():
                yield from _blobs_in(member)
    elif isinstance(value, list):
        for member in value:
            yield from _blobs_in(member)


def _has_bytes(path: Path, sha: str) -> bool:
    if path.is_dir():
        try:
            return bytes_sha256(tree_manifest(path)) == sha
        except (OSError, UnfitFolder):
            return False
    return _hash_and_size(os.fspath(path))[0] == sha
