"""What a worker saw of a step becomes what the log records: only reads that nothing declares."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.errors import WhyrunError
from whyrun.execution.protocol.messages import SeenRead, StepReads
from whyrun.graph.tables import ArtifactAt, InputAt, JobTable
from whyrun.ids import split_site
from whyrun.log.decoding import observed_field
from whyrun.log.reads import MOST_OUTSIDE, LongReads, Read, as_code, folder_sha256, is_project_path, own_names
from whyrun.planning.artifact_states import key_of
from whyrun.planning.consume import Consumption, Entry
from whyrun.snapshot.observations import ABSENT, KnownRead
from whyrun.snapshot.reads import bound_outputs
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.arrays import Element, element_type, published_path
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import FILE_TYPES


@dataclass(frozen=True, slots=True)
class ObservedFields:
    """The fields of `step_complete` and `step_failed` that say what was observed."""

    observed: list[Read] | LongReads | None = None
    traced: bool = False
    outside: list[str] = field(default_factory=list)
    packages: dict[str, str] = field(default_factory=dict)

    def to_event(self) -> dict[str, Any]:
        return {
            "observed": self.observed,
            "traced": self.traced,
            "outside": self.outside,
            "packages": self.packages,
        }


NOTHING_OBSERVED = ObservedFields()


@dataclass(frozen=True, slots=True)
class Observed:
    fields: ObservedFields = NOTHING_OBSERVED
    undeclared: list[str] = field(default_factory=list)  # what it read, as `code:` would declare it


class Observations:
    """Of one run."""

    def __init__(
        self,
        snapshot: PlanningSnapshot,
        put_blob: Callable[[bytes], str],
        note: Callable[[str], None],
        look: Callable[[Sequence[Read], int, Collection[str]], list[Read]],
    ) -> None:
        """`look`: these reads as they are now, see `PresentReads`."""
        self._snapshot, self._put_blob, self._note, self._look = snapshot, put_blob, note, look
        self._published: dict[str, frozenset[str]] = {}  # job → the paths that its instances publish
        self._makers: dict[str, list[JobTable]] = {}  # job → those whose outputs its instances bind
        self._traced: dict[str, list[Read]] = {}  # job → what only strace saw of its traced instance
        self._told: set[str] = set()

    def look_at(self, snapshot: PlanningSnapshot) -> None:
        """More instances are known from now on."""
        self._snapshot = snapshot
        self._published.clear()
        self._makers.clear()

    def of(
        self, table: JobTable, consumed: Consumption, reads: StepReads | None, began: int, *, succeeded: bool
    ) -> Observed:
        """`began`: when the step began, in nanoseconds."""
        known = () if reads is not None and reads.traced else self._known(table.name)
        if reads is None:
            if not known:
                return Observed()
            reads = StepReads()
        if reads.untraced:
            self._tell(f"undeclared reads of programs are not seen: {reads.untraced}")
        outside = sorted(set(reads.outside))[:MOST_OUTSIDE]
        for path in set(reads.written) - self._published_by(table) if succeeded else ():
            self._tell(f"Job:{table.name} writes {path}, which no output declares", path)
        for path in outside:
            self._tell(f"Job:{table.name} reads {path}, outside the project: declare it", path)
        bound = self._bound_at(table, consumed, [*(each.path for each in reads.seen), *(read.path for read in known)])
        observed = {read.path: read for read in self._undeclared(table, consumed, reads.seen, bound)}
        if reads.traced and succeeded:
            self._traced[table.name] = [read for read in observed.values() if read.by == "strace"]
        if known:
            unseen = [read for read in known if read.path not in observed]
            given = self._add_published({}, consumed.observed or ())
            for read in self._look(unseen, began, self._published_by(table)):
                if not _is_bound(read, bound):
                    observed[read.path] = _certain(read, given)
        fields = ObservedFields(
            observed_field(observed.values(), self._put_blob) if observed else None,
            reads.traced,
            outside,
            reads.packages,
        )
        files = [read.path for read in observed.values() if read.kind in ("file", "unknown")]
        return Observed(fields, as_code(files, [read.path for read in observed.values() if read.kind == "folder"]))

    def _known(self, job: str) -> Sequence[Read]:
        """What only strace saw of the job's traced instance, in this run or before."""
        if job not in self._traced:
            self._traced[job] = list(self._snapshot.reads.known_reads(job))
        return self._traced[job]

    def _tell(self, note: str, what: str = "") -> None:
        """Once a run."""
        if (what or note) not in self._told:
            self._told.add(what or note)
            self._note(note)

    def _undeclared(
        self, table: JobTable, consumed: Consumption, seen: list[SeenRead], artifacts: Mapping[str, str | None]
    ) -> Iterator[Read]:
        """`artifacts`: see `_bound_at`."""
        code, bound = self._snapshot.actions[table.name].files, {*_bound_paths(consumed)}
        declared = {*code, *bound}
        matched = map(os.path.split, table.decl.code)
        folders = {folder or "." for folder, names in matched if names in ("*", "**")}
        published = self._published_by(table)
        given = self._add_published({}, consumed.observed or ())
        for each in seen:
            # The worker may be one of a sandbox, which a step may have taken over.
            if not is_project_path(each.path) or (each.kind == "file") != (each.sha256 is not None):
                continue
            if each.path in folders and each.kind == "folder":
                continue  # `code:` matches all its names, so they count already
            if _is_bound(each, artifacts):
                continue
            as_text = each.as_text and each.kind == "file" and not _is_in(each.path, bound)
            if as_text and code.get(each.path, each.sha256) != each.sha256:
                yield Read(each.path, "file", each.sha256, each.by)  # its canonical form counts, but no comment in it
                continue
            if each.kind == "absent" and _is_in_graph(each.path, code):
                continue
            if _is_in(each.path, declared) or (each.kind != "folder" and _is_in(each.path, published)):
                continue
            if each.kind != "folder":
                yield _certain(Read(each.path, each.kind, each.sha256, each.by), given)
                continue
            own = own_names(published, each.path)
            if own.issuperset(each.changed):
                yield Read(each.path, "folder", folder_sha256(each.names, own), each.by)
            else:
                yield Read(each.path, "unknown", by=each.by)

    def _bound_at(self, table: JobTable, consumed: Consumption, paths: Iterable[str]) -> Mapping[str, str | None]:
        """By published path: the content of what other jobs made and this instance binds. None: whatever is there, or
        below. Nothing is in it if none of these paths is published by a job that is bound."""
        if table.name not in self._makers:
            tables = self._snapshot.dependency_graph.tables
            self._makers[table.name] = [tables[number] for number in {number for number, _ in bound_outputs(table)}]
        published = [self._published_by(maker) for maker in self._makers[table.name]]
        if not any(_is_in(path, each) for path in paths for each in published):
            return {}
        found: dict[str, str | None] = {}
        for entries in consumed.entries.values():
            self._add_published(found, (entries,) if isinstance(entries, Entry) else entries)
        return found

    def _add_published(self, found: dict[str, str | None], entries: Iterable[Entry]) -> dict[str, str | None]:
        """Add the paths at which these are published, see `_bound_at`."""
        for entry in entries:
            if not isinstance(entry.source, ArtifactAt):
                continue
            at, table = entry.source, self._snapshot.dependency_graph.tables[entry.source.table]
            output, spec = table.output_of(at.artifact), table.artifacts[at.artifact]
            if output.paths is None or output.append or spec.is_leaf:
                continue  # who binds a part of a file has not bound the file
            path, type_ = output.paths[at.position], spec.type
            if at.element is not None:
                element = Element(key_of(at), entry.sha256, 0, entry.form[1:])
                path, type_ = published_path(path, element, type_), element_type(type_)
            found[os.path.normpath(path)] = entry.sha256 if type_ in FILE_TYPES else None
        return found

    def _published_by(self, table: JobTable) -> frozenset[str]:
        if table.name not in self._published:
            self._published[table.name] = published_by(table)
        return self._published[table.name]


def published_by(table: JobTable) -> frozenset[str]:
    """The paths that the instances of a job publish."""
    sites = (site for output in table.outputs for site in output.paths or ())
    return frozenset(os.path.normpath(split_site(site)[0]) for site in sites)


def _is_bound(read: Read | SeenRead, bound: Mapping[str, str | None]) -> bool:
    """Whether the step read what it binds, by its published path. `unknown` counts: a file that was published just
    before the step began is too young to tell by its time."""
    if bound.get(read.path) is not None:
        return read.kind == "unknown" or read.sha256 == bound[read.path]
    return any(bound[path] is None for path in _with_above(read.path) if path in bound)


def _with_above(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def _certain(read: Read, given: Mapping[str, str | None]) -> Read:
    """A file that was published just before the step began, so that its time is too young to tell, is known all the
    same."""
    content = given.get(read.path) if read.kind == "unknown" else None
    return read if content is None else Read(read.path, "file", content, read.by)


def _is_in_graph(path: str, code: Collection[str]) -> bool:
    """Whether the graph of import statements would show this module, if it were there: what is imported in place of it
    belongs to the action."""
    module = path.removesuffix(".py").removesuffix("/__init__")
    return module != path and (f"{module}.py" in code or any(each.startswith(f"{module}/") for each in code))


def _bound_paths(consumed: Consumption) -> Iterator[str]:
    """The files and folders of the project that this instance is given."""
    for entries in consumed.entries.values():
        for entry in (entries,) if isinstance(entries, Entry) else entries:
            if isinstance(entry.source, InputAt):
                yield from _paths_of(entry.source.value)


def _paths_of(value: InputValue) -> Iterator[str]:
    for each in (value,) if value.elements is None else value.elements:
        if each.path is not None:
            yield os.path.normpath(each.path)


def _is_in(path: str, paths: Set[str]) -> bool:
    """Whether the path is one of these, or below one of them."""
    return any(each in paths for each in _with_above(path))


# --- what the paths that a job is known to read hold now, for a step that strace did not watch ------------------------


_TICK = 20_000_000  # nanoseconds: file times may lag so far behind the clock


class PresentReads:
    def __init__(self, project: str, cache: StatCache) -> None:
        self._project, self._cache = project, cache

    def look(self, reads: Sequence[Read], began: int, published: Collection[str]) -> list[Read]:
        """`began`: when the step began; what has changed since then is `unknown`. `published`: by the job itself."""
        return list(self._look(reads, began - _TICK, published))

    def content(self, read: KnownRead, published: Collection[str]) -> str | None:
        """What is there at this moment, in the words of `KnownRead.content`. `published`: by the job that read it."""
        now = next(self._look([read.to_read()], sys.maxsize, published))
        return ABSENT if now.kind == "absent" else now.sha256

    def _look(self, reads: Sequence[Read], since: int, published: Collection[str]) -> Iterator[Read]:
        for read in reads:
            location = f"{self._project}/{read.path}"
            try:
                status = os.stat(location)
                if status.st_ctime_ns >= since:
                    yield Read(read.path, "unknown", by="strace")
                elif stat.S_ISDIR(status.st_mode):
                    sha256 = folder_sha256(os.listdir(location), own_names(published, read.path))
                    yield Read(read.path, "folder", sha256, "strace")
                elif (content := self._cache.sha256_of(location)) is not None:
                    yield Read(read.path, "file", content, "strace")
            except (FileNotFoundError, NotADirectoryError):
                was_there = read.kind in ("file", "folder") and _changed(os.path.dirname(location), since)
                yield Read(read.path, "unknown" if was_there else "absent", by="strace")
            except (OSError, WhyrunError):
                yield Read(read.path, "unknown", by="strace")


def _changed(folder: str, since: int) -> bool:
    """Whether something may have been deleted there since then."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    try:
        return os.stat(folder).st_mtime_ns >= since
    except OSError:
        return True  # the folder itself, just now
