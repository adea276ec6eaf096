"""Bytes that the log has the hash of: blobs of the store and files of run folders, read and hashed again.

What must be there: the latest version of every artifact, what a replay needs (snapshot blobs and long lists), what was
saved from being written over, and the data that a composition has kept. An older version may be gone (somebody may have
made room). What is there has its bytes checked in any case, whatever of the log or the run folders speaks of it: all
that `gc` keeps.
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
from whyrun.evidence.composed_run import input_links, link_target
from whyrun.evidence.spoken_blobs import files_of_folder, hashes_of_runs, stored_names
from whyrun.evidence.verify_lines import described
from whyrun.evidence.verify_links import LinkCheck
from whyrun.evidence.verify_report import PLAN_AGAIN, Checked, Findings, Kind, Problem
from whyrun.log import events as ev
from whyrun.log.decoding import decoded
from whyrun.log.journal import EVENTS_FILE
from whyrun.log.values import value_problem

PLAN_FILE = "plan.json"
MANIFEST_FILE = "manifest.yaml"
_SAVED = "that was saved before it was written over"
_KEPT_DATA = (
    "data that steps have read: restore the blob from a copy, which may be the data file itself. No job needs it: "
    "without a copy, what the step has read cannot be looked at any more, and nothing else comes of it"
)
_UNREADABLE = (OSError, ValueError, TypeError, LookupError, AttributeError, WhyrunError)
# Of lost hashes those that the latest version of an artifact needs, each with the file or folder that this artifact is
# published as, for every such artifact (None: it has none of its own with these bytes). None: nobody can say.
Current = Callable[[Container[str]], Mapping[str, Collection[str | None]] | None]
Recorded = tuple[str, int]  # the hash of a file, and the line of the log that says it
_decoder: msgspec.json.Decoder[ev.AnyEvent] = msgspec.json.Decoder(ev.AnyEvent)
_APART = ("digest", "log_position")  # of a written plan: what its digest is not over


@dataclass(frozen=True, slots=True)
class Mention:
    """Where the log speaks of some bytes."""

    run: str
    file: str
    line: int | None = None
    event: str | None = None
    subject: str | None = None

    hint: str | None = None

    def problem(self, kind: Kind, what: str, stored: str, expected: str, found: str | None = None) -> Problem:
        place = (self.line, self.event, self.subject)
        return Problem(kind, self.run, self.file, what, *place, expected, found, stored, self.hint)


class BlobCheck:
    """Each blob is read once, however often the log speaks of it. And the links to blobs."""

    def __init__(self, store: Store, project: Path, findings: Findings, checked: Checked) -> None:
        self._store = store
        self._project = project
        self._findings = findings
        self._checked = checked
        self._seen: set[str] = set()
        self._gone: dict[str, Mention] = {}  # artifacts: hash → its first mention
        self._told: set[str] = set()
        self._links = LinkCheck(store, findings)
        self._adopted: list[tuple[str, str, Mention]] = []
        self._run = ""
        self._folders: list[Path] = []  # of the runs so far

    def artifact(self, event: ev.ArtifactAvailable | ev.ArtifactAdopted, run: str, file: str, line: int) -> None:
        if run != self._run:
            self._begin(run, file)
        self._links.made(event)
        if event.value is not msgspec.UNSET:
            self._value(event, event.artifact, event.value, event.sha256, run, file, line)
        if event.sha256 not in self._seen:
            self._artifact(event, run, file, line)

    def event(self, event: ev.AnyEvent, run: str, file: str, line: int) -> None:
        """What any event but `artifact_available` speaks of."""
        if run != self._run:
            self._begin(run, file)
        match event:
            case ev.StepStart():
                self._links.dropped(event.step_id)
                self._lists(event, event.bindings, run, file, line)
            case ev.StepComplete():
                self._links.ended(event.step_id)
            case ev.StepFailed():
                self._links.dropped(event.step_id)
            case ev.StepSkipped():
                self._lists(event, event.bindings, run, file, line)
            case ev.ArtifactAdopted():
                self.artifact(event, run, file, line)
                self._lists(event, event.bindings, run, file, line)
            case ev.PlanComputed():
                self._needed(event, event.snapshot_sha256, "the snapshot that the plan was made from", run, file, line)
            case ev.FileDisplaced():
                self.saved(event.sha256, Mention(run, file, line, *described(event)))
            case ev.RunComplete():
                self._links.run_ended()
            case _:
                pass  # speaks of no stored bytes

    def plan_lists(self, plan: Any, mention: Mention) -> None:
        """The long lists that a plan refers to."""
        for blob in _blobs_in(plan):
            self._look(blob, "a long list of the plan", mention)

    def saved(self, sha: str, mention: Mention) -> None:
        """A file or a folder of the user's: this may be the only copy. Of a pruned run, its tombstone speaks of it."""
        self._look(sha, f"a file {_SAVED}", mention)
        for file in self._files_of(sha):
            self._look(file.sha256, f"`{file.path}` of a folder {_SAVED}", mention)

    def adopted(self, sha: str, type_: str, mention: Mention) -> None:
        """A version of the user's own, of a pruned run. An older one: like all of these, it may be gone."""
        self._adopted.append((sha, type_, mention))

    def finish(self, current: Current) -> None:
        """Tell of all that can be told only now."""
        folders = [folder for folder in self._folders if (folder / MANIFEST_FILE).is_file()]  # else that is told
        for folder in folders:
            self._inputs(folder)
        for sha, type_, mention in self._adopted:  # kept runs may say more of them, such as where they are published
            if sha not in self._seen:
                self._version(sha, type_, mention)
        self._others(folders)
        self._tell_gone(current)

    def _begin(self, run: str, file: str) -> None:
        self._run = run
        self._folders.append(Path(file).parent)
        self._links.begin(run, self._folders[-1])

    def _tell_gone(self, current: Current) -> None:
        if not self._gone:
            return
        latest = current(self._gone)
        older = 0
        for sha, mention in self._gone.items():
            if latest is not None and sha not in latest:
                older += 1
            elif latest is not None and (path := self._standing(sha, latest[sha])) is not None:
                self._findings.note(
                    f"{mention.subject} ({mention.run}) is not in the store; `{path}` has its bytes, and a run that "
                    "needs them takes them from there"
                )
            else:
                self._tell(mention, "artifact", "its bytes are not in the store", sha)
        if older:
            which = "1 older version is" if older == 1 else f"{older} older versions are"
            self._findings.note(f"{which} not in the store any more, and cannot be restored or reused")

    def _standing(self, sha: str, places: Collection[str | None]) -> str | None:
        """A published file that has these bytes; None if one of the artifacts with this content has none at its place:
        for that one, nobody looks at those of others."""
        stand = [path for path in places if path is not None and _has_bytes(self._project / path, sha)]
        return stand[0] if len(stand) == len(places) else None

    def _inputs(self, folder: Path) -> None:
        """What steps that compose datasets have read: kept in the store, where there is a link to it."""
        try:
            links = list(input_links(folder, self._store))
        except _UNREADABLE:
            return  # the manifest or the log is not as it was written, which is told
        for link, sha in sorted(dict(reversed(links)).items()):  # of several attempts, the first has made the link
            place, target = str(link), link_target(link, self._store.path(sha))
            if not link.is_symlink() or not self._links.compare(folder.name, place, target):
                continue  # no link: a file that is no dataset is not kept
            mention = Mention(folder.name, place, hint=_KEPT_DATA)
            if sha not in self._seen:  # else it is an artifact, or another step has read it
                self._look(sha, "what the step has read", mention)
            for file in self._files_of(sha):
                if file.sha256 not in self._seen:
                    self._look(file.sha256, f"`{file.path}` of a folder that the step has read", mention)

    def _others(self, folders: list[Path]) -> None:
        """Whatever else the runs speak of. Their text is read only where the store has more than was looked at."""
        try:
            left = stored_names(self._store.root) - self._seen
            found = left.intersection(hashes_of_runs(folders, self._store)) if left else set()
        except OSError:
            return  # a folder of the store or a file of a run that cannot be read, which is told
        for sha in sorted(found):
            self._other(sha, sha)
            for file in self._files_of(sha):
                if file.sha256 in left:  # what is not there may be the hash of anything
                    self._other(file.sha256, sha)

    def _other(self, sha: str, spoken_of: str) -> None:
        if sha in self._seen:
            return
        self._seen.add(sha)
        found = self._hash(sha)
        if found is not None and found != sha:
            what = "what the log speaks of has other bytes in the store"
            self._tell(self._first_mention(spoken_of), "blob", what, sha, found)

    def _first_mention(self, sha: str) -> Mention:
        """Looked for only where there is something to tell."""
        text = sha.encode()
        for name in (EVENTS_FILE, MANIFEST_FILE):
            for place in (folder / name for folder in self._folders):
                lines = place.read_bytes().splitlines() if place.is_file() else []
                for number, line in enumerate(lines, 1):
                    if text in line:
                        return Mention(place.parent.name, str(place), number, *_told(line))
        return Mention(self._run, self._store.path(sha))  # it stands in a long list

    def _files_of(self, sha: str) -> tuple[TreeFile, ...]:
        """What is in a folder. Nothing of a blob that has other bytes, or none that can be read."""
        return () if sha in self._told else files_of_folder(sha, self._store)

    def _artifact(self, event: ev.ArtifactAvailable | ev.ArtifactAdopted, run: str, file: str, line: int) -> None:
        mention = Mention(run, file, line, *described(event))
        self._version(event.sha256, event.type, mention, event.value is not msgspec.UNSET)

    def _version(self, sha: str, type_: str, mention: Mention, in_log: bool = False) -> None:
        """`in_log`: the event itself holds it."""
        found = self._hash(sha)
        if found is None and in_log:
            return
        self._seen.add(sha)
        if found is None:
            self._gone.setdefault(sha, mention)
        elif found != sha:
            self._tell(mention, "artifact", "the store has other bytes", sha, found)
        elif type_ == "directory":
            self._tree(sha, mention)

    def _tree(self, sha: str, mention: Mention) -> None:
        tree = self._read_tree(sha, mention)
        for one in tree.files if tree is not None else ():
            if one.sha256 in self._seen:
                continue
            self._seen.add(one.sha256)
            found = self._hash(one.sha256)
            if found is None:
                self._gone[one.sha256] = mention
            elif found != one.sha256:
                what = f"the store has other bytes of `{one.path}` in it"
                self._tell(mention, "artifact", what, one.sha256, found)

    def _read_tree(self, sha: str, mention: Mention) -> Tree | None:
        try:
            return decode_tree(Path(self._store.path(sha)).read_bytes())
        except ValueError as wrong:
            self._tell(mention, "artifact", f"what is stored is not a folder: {wrong}", sha)
            return None

    def _lists(self, event: ev.AnyEvent, bindings: Any, run: str, file: str, line: int) -> None:
        for members in bindings.values() if isinstance(bindings, dict) else ():
            if isinstance(members, dict) and isinstance(members.get("blob"), str):
                self._needed(event, members["blob"], "a long list of bindings", run, file, line)
            for one in members if isinstance(members, list) else ():
                if isinstance(one, dict) and "value" in one and str(one.get("id")).startswith("Artifact:"):
                    self._value(event, one["id"], one["value"], one.get("sha256"), run, file, line)

    def _value(self, event: ev.AnyEvent, id_: str, value: Any, sha256: Any, run: str, file: str, line: int) -> None:
        what = value_problem(id_, value, sha256)
        if what is not None:
            self._findings.add(Problem("log", run, file, what, line, *described(event)))

    def _needed(self, event: ev.AnyEvent, sha: str, what: str, run: str, file: str, line: int) -> None:
        if sha not in self._seen or sha in self._gone:
            self._look(sha, what, Mention(run, file, line, *described(event)))

    def _look(self, sha: str, what: str, mention: Mention) -> None:
        if sha in self._seen and self._gone.pop(sha, None) is None:  # an older version may be gone; this may not
            return
        self._seen.add(sha)
        found = self._hash(sha)
        if found is None:
            self._tell(mention, "blob", f"{what} is not in the store", sha)
        elif found != sha:
            self._tell(mention, "blob", f"{what} has other bytes in the store", sha, found)

    def _tell(self, mention: Mention, kind: Kind, what: str, sha: str, found: str | None = None) -> None:
        self._told.add(sha)
        self._findings.add(mention.problem(kind, what, self._store.path(sha), sha, found))

    def _hash(self, sha: str) -> str | None:
        """None: it is not there."""
        found, size = _hash_and_size(self._store.path(sha))
        if found is not None:
            self._checked.blobs += 1
            self._checked.bytes += size
        return found


def _told(line: bytes) -> tuple[str | None, str | None]:
    try:
        event = decoded(_decoder.decode, line)
    except ev.UNREADABLE:
        return None, None  # broken, which is told
    return described(event)


def _hash_and_size(path: str) -> tuple[str | None, int]:
    """None: it is not there. What is there and cannot be read has a word on that instead of a hash."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return "(it is no file)", 0  # a pipe would be waited for, for ever
        return file_sha256(path), status.st_size
    except (FileNotFoundError, NotADirectoryError):
        return None, 0
    except OSError as refused:
        return f"(it cannot be read: {refused.strerror})", 0


def check_file(folder: Path, path: str, said: Recorded, run: str, findings: Findings, checked: Checked) -> None:
    """A file of a run folder, against the hash that the log has of it."""
    sha, line = said
    place = f"{folder}/{path}"
    found, _ = _hash_and_size(place)
    if found is None:
        findings.add(Problem("file", run, place, "the file is not there", expected=sha))
        return
    checked.files += 1
    if found != sha:
        what = f"the file is not what line {line} of the log says"
        findings.add(Problem("file", run, place, what, expected=sha, found=found))


def check_plan(folder: Path, event: ev.PlanComputed, mention: Mention, findings: Findings, checked: Checked) -> Any:
    """`plan.json`, against its digest in the log. The plan, if it is that one."""
    run = mention.run
    place = folder / PLAN_FILE
    try:
        data = place.read_bytes()
    except OSError as refused:
        gone = isinstance(refused, FileNotFoundError)
        what = "the file is not there" if gone else f"the file cannot be read: {refused.strerror}"
        findings.add(Problem("file", run, str(place), what, expected=event.plan_sha256, hint=PLAN_AGAIN))
        return None
    checked.files += 1
    expected, found = event.plan_sha256, _plan_digest(data, event.log_position)
    if found == expected:
        return json.loads(data)
    what = f"the file is not the plan that line {mention.line} of the log says"
    findings.add(Problem("file", run, str(place), what, expected=expected, found=found, hint=PLAN_AGAIN))
    return None


def _plan_digest(data: bytes, position: Any) -> str | None:
    """None: the bytes are not as a plan is written, or it is not the plan for that place in the log."""
    try:
        plan = json.loads(data)
        if not isinstance(plan, dict) or canonical_json(plan) + b"\n" != data or plan.get("log_position") != position:
            return None
    except (ValueError, TypeError, RecursionError):
        return None
    body = {name: value for name, value in plan.items() if name not in _APART}
    digest = bytes_sha256(canonical_json(body))
    return digest if plan.get("digest") == f"sha256:{digest}" else None


def _blobs_in(value: Any) -> Iterator[str]:
    """The blobs of long lists (`{count, digest, blob}`), wherever they stand."""
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
