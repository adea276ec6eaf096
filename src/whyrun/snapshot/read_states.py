"""Looks at what undeclared reads and packages are now, each distinct one once. Reads through its arguments only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as replaced

import msgspec
from msgspec.structs import replace

from whyrun.errors import InvalidError
from whyrun.graph.fingerprint import counted
from whyrun.graph.layers import check_cycles
from whyrun.graph.tables import ArtifactAt, EachTerm, Graph, Group, InputAt, JobTable, Known, SameTerm, Slot
from whyrun.ids import split_site
from whyrun.log.reads import own_names
from whyrun.snapshot.observations import ABSENT, KnownRead, Observations
from whyrun.snapshot.reads import ObservedReads, OutdatedPackage, UnboundRead, bound_outputs
from whyrun.snapshot.records import StepRecord
from whyrun.snapshot.snapshot import ActionFacts, LogReader, Observer
from whyrun.workflow.arrays import is_array

# --- undeclared reads of what other jobs publish: which artifacts stand there, and the edges that follow. Pure --------
# The log knows them from an earlier run, so they are edges from the next plan on, as if they were declared.


OBSERVED = ".observed"  # the slot of these edges; a leading dot cannot clash with an entry of `with:`


class Made(msgspec.Struct, frozen=True):
    """The artifacts at the path of a read. `whole`: the path holds just this one file, so its hash is that of the
    artifact; else it is in a folder that is an artifact, is a file that several jobs share, or a folder."""

    artifacts: tuple[ArtifactAt, ...]
    whole: bool


def find_made(graph: Graph, reads: Iterable[KnownRead]) -> dict[str, Made]:
    """By `KnownRead.key`: what jobs publish there."""
    files: dict[str, list[str]] = {}  # path, or a folder above it → the keys of reads
    folders: dict[str, list[str]] = {}
    kinds = {read.key: read for read in reads}
    for key, read in kinds.items():
        if read.kind == "folder":
            folders.setdefault(read.path, []).append(key)
        for path in _with_folders_above(read.path):
            files.setdefault(path, []).append(key)
    found: dict[str, dict[ArtifactAt, bool]] = {}
    for table in graph.tables if kinds else ():
        for a, spec in enumerate(table.artifacts):
            output = table.output_of(a)
            if spec.is_leaf or output.paths is None:
                continue
            paths = [split_site(site)[0] for site in output.paths] if output.append else output.paths
            is_folder = spec.type == "directory" or is_array(spec.type)
            hits = files.keys() & set(paths)
            for p, path in enumerate(paths if hits else ()):
                if path in hits:
                    for key in files[path]:
                        exact = kinds[key].path == path and kinds[key].kind != "folder"
                        if exact or is_folder:
                            whole = exact and not is_folder and not output.append
                            found.setdefault(key, {})[ArtifactAt(table.number, a, p)] = whole
            for p, path in enumerate(paths if folders else ()):
                for key in folders.get(path.rpartition("/")[0] or ".", ()):
                    found.setdefault(key, {})[ArtifactAt(table.number, a, p)] = False
    return {key: Made(tuple(sorted(there)), list(there.values()) == [True]) for key, there in found.items()}


def _with_folders_above(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def with_read_edges(
    graph: Graph,
    columns: Sequence[Sequence[int]],
    observations: Observations,
    made: Mapping[str, Made],
    is_outdated: Callable[[JobTable, int], bool],
) -> Graph:
    """The graph with an edge for each undeclared read of what another job publishes.

    `columns`: by table, the number of each row's reads. A listed folder makes no edge that would close a circle: only
    the names in it count. A circle of other reads is CYCLE, unless the job has changed since (`is_outdated`, by table
    and row), so that nobody knows what it reads now.
    """
    if not made:
        return graph
    every = _with_edges(graph, columns, observations, made, folders=True)
    if every is graph or _circle(every) is None:
        return every
    files = _with_edges(graph, columns, observations, made, folders=False)
    if _circle(files) is None:
        return files
    outdated = {table.number for table in files.tables if _is_outdated(table, columns[table.number], is_outdated)}
    known = _with_edges(graph, columns, observations, made, folders=False, without=outdated)
    circle = _circle(known)
    if circle is not None:
        raise _explained(circle, known, columns, observations, made)
    return known


def _with_edges(
    graph: Graph,
    columns: Sequence[Sequence[int]],
    observations: Observations,
    made: Mapping[str, Made],
    *,
    folders: bool,
    without: Collection[int] = (),
) -> Graph:
    groups: dict[tuple[ArtifactAt, ...], Group] = {}  # one object for all readers of the same
    tables = list(graph.tables)
    for table in graph.tables:
        if table.number in without:
            continue
        column, by_number = columns[table.number], dict[int, Group]()
        for number in set(column):
            sources = dict.fromkeys(
                at
                for read in observations.reads_of(number)
                if read.key in made and (folders or read.kind != "folder")
                for at in made[read.key].artifacts
                if at.table != table.number
            )
            by_number[number] = groups.setdefault(tuple(sorted(sources)), Group(tuple(sorted(sources))))
        if any(group.members for group in by_number.values()):
            one = len(by_number) == 1
            terms = SameTerm(by_number[column[0]]) if one else EachTerm([by_number[number] for number in column])
            slot = Slot(OBSERVED, True, (OBSERVED,), "observed", terms, table.decl.place)
            tables[table.number] = replace(table, observed=slot)
    changed = any(new is not old for new, old in zip(tables, graph.tables, strict=True))
    return replace(graph, tables=tuple(tables)) if changed else graph


def _circle(graph: Graph) -> InvalidError | None:
    try:
        check_cycles(graph)
    except InvalidError as circle:
        return circle
    return None


def _is_outdated(table: JobTable, column: Sequence[int], is_outdated: Callable[[JobTable, int], bool]) -> bool:
    row = next((row for row, number in enumerate(column) if number), None)
    return table.observed is not None and row is not None and is_outdated(table, row)


def _explained(
    circle: InvalidError,
    graph: Graph,
    columns: Sequence[Sequence[int]],
    observations: Observations,
    made: Mapping[str, Made],
) -> InvalidError:
    """The error, with the first of the undeclared reads that may have closed the circle."""
    first = circle.diagnostics[0]
    named = {table.name for table in graph.tables if f"Job:{table.name}" in first.message}
    for table in graph.tables:
        if table.observed is None or table.name not in named:
            continue
        for row, number in enumerate(columns[table.number]):
            for read in observations.reads_of(number):
                makers = [at for at in made[read.key].artifacts if at.table != table.number] if read.key in made else []
                maker = next((graph.tables[at.table] for at in makers if graph.tables[at.table].name in named), None)
                if maker is not None and read.kind != "folder":
                    what = f"{table.job_id(row)} read `{read.shown}`, which Job:{maker.name} makes"
                    hint = "change what one of them reads; what it read before a change of its script does not count"
                    return InvalidError([replaced(first, message=f"{first.message}: {what}", hint=hint)])
    return circle


# --- what undeclared reads and packages are now -----------------------------------------------------------------------


class ReadsLook:
    """First at what the last successes read; then, for instances that may run, at what their earlier attempts read."""

    def __init__(
        self,
        log: LogReader,
        observe: Observer,
        columns: Sequence[tuple[Sequence[int], Sequence[int]]],
    ) -> None:
        """`columns`: by table, the numbers of reads and of packages by row."""
        self.log, self.observe, self.columns = log, observe, columns
        self.observations = log.records.observations
        self.used = {number for reads, _ in columns for number in set(reads) if number}
        self.packages = {number for _, packages in columns for number in set(packages) if number}
        self.seen: set[int] = set()  # places in `Observations.reads`, as for all that may be many
        self.made: dict[str, Made] = {}
        self.present: dict[str, str] = {}
        self.names: dict[str, tuple[str, ...]] = {}
        self.versions: dict[str, str | None] = {}

    def look(
        self, graph: Graph, rows: Sequence[Sequence[StepRecord | None]], actions: Mapping[str, ActionFacts]
    ) -> Graph:
        """Returns the graph with the edges that follow from the reads."""
        self._look_at(graph, self.used)
        self._look_at_packages(self.packages)

        def is_outdated(table: JobTable, row: int) -> bool:
            return self._is_outdated(table, row, rows[table.number][row], actions[table.name])

        return with_read_edges(graph, [reads for reads, _ in self.columns], self.observations, self.made, is_outdated)

    def look_at_earlier(self, graph: Graph, histories: Iterable[StepRecord]) -> None:
        attempts = [one for record in histories for one in (*record.attempts(), *(record.unadopted or ()))]
        self._look_at(graph, {attempt.reads for attempt in attempts if attempt.reads} - self.used)
        self._look_at_packages({attempt.packages for attempt in attempts if attempt.packages} - self.packages)

    def found(self, graph: Graph) -> ObservedReads:
        return ObservedReads(
            self.observations, dict(self.present), dict(self.names), dict(self.made), dict(self.versions),
            self.observe.counts_packages, tuple(self._outdated()), tuple(self._unbound(graph)),
        )  # fmt: skip

    def _outdated(self) -> list[OutdatedPackage]:
        jobs: Counter[tuple[str, str, str]] = Counter()
        changed = {number for number in self.packages if self._have_changed(number)}
        for _, packages in self.columns if changed else ():
            for number, rows in Counter(packages).items():
                for name, old in self.observations.packages_of(number).items() if number in changed else ():
                    new = self.versions.get(name, old)
                    if new != old:
                        jobs[name, old, new or ""] += rows
        return sorted(OutdatedPackage(*found, count) for found, count in jobs.items())

    def _unbound(self, graph: Graph) -> list[UnboundRead]:
        found: dict[tuple[str, str], str] = {}
        for table, (by_row, _) in zip(graph.tables, self.columns, strict=True):
            bound = bound_outputs(table) if self.made and any(by_row) else frozenset[tuple[int, int]]()
            for number in set(by_row) if self.made else ():
                for read in self.observations.reads_of(number):
                    for at in self.made[read.key].artifacts if read.key in self.made and read.kind != "folder" else ():
                        if at.table != table.number and (at.table, at.artifact) not in bound:
                            pair = table.name, graph.tables[at.table].name
                            found[pair] = min(read.shown, found.get(pair, read.shown))
        return sorted(UnboundRead(job, path, maker) for (job, maker), path in found.items())

    def changed_rows(self, graph: Graph) -> list[int]:
        """The nodes whose last success read something that seems to be otherwise now."""
        found: list[int] = []
        changed = {place for place in self.seen if self._has_changed(self.observations.reads[place])}
        sets = self.observations.read_sets
        reads = {number for number in self.used if not changed.isdisjoint(sets[number])} if changed else set()
        packages = (
            {number for number in self.packages if self._have_changed(number)}
            if self.observe.counts_packages
            else set()
        )
        for table, (by_row, packages_by_row) in zip(graph.tables, self.columns, strict=True):
            if reads:
                found.extend(table.base + row for row, number in enumerate(by_row) if number in reads)
            if packages:
                found.extend(table.base + row for row, number in enumerate(packages_by_row) if number in packages)
        return found

    def _has_changed(self, read: KnownRead) -> bool:
        return read.content is None or self.present.get(read.key, read.content) != read.content

    def _have_changed(self, number: int) -> bool:
        recorded = self.observations.packages_of(number)
        return any(self.versions.get(name, version) != version for name, version in recorded.items())

    def _look_at(self, graph: Graph, numbers: Iterable[int]) -> None:
        places = set[int]().union(*map(self.observations.read_sets.__getitem__, numbers)) - self.seen
        if not places:
            return
        self.seen |= places
        reads = sorted((self.observations.reads[place] for place in places), key=lambda read: read.path)
        self.made |= find_made(graph, reads)
        self.present |= _otherwise(reads, graph, self.observe)
        for read in reads:
            now = self.present.get(read.key, ABSENT) if read.kind == "folder" else ABSENT
            if now not in (ABSENT, read.sha256):
                changes = self.observe.name_changes(read, _own_names(graph, read), self._files_in(read.path))
                if changes:
                    self.names[read.names_key] = tuple(changes)

    def _files_in(self, folder: str) -> set[str]:
        """The names of files there that some step has read."""
        files = (read.path.rpartition("/") for read in self.observations.reads if read.kind == "file")
        return {name for above, _, name in files if (above or ".") == folder}

    def _look_at_packages(self, numbers: Iterable[int]) -> None:
        recorded = [self.observations.packages_of(number) for number in numbers]
        names = {name for packages in recorded for name in packages}
        if not names:
            return
        now = self.observe.versions(sorted(names))
        for packages in recorded:
            for name, version in packages.items():
                if name in now and now[name] != version:
                    self.versions[name] = now[name]

    def _is_outdated(self, table: JobTable, row: int, record: StepRecord | None, action: ActionFacts) -> bool:
        """Whether the action, a parameter or an input of an instance is not that of the attempt whose reads count."""
        attempt = None if record is None else record.last_success() or record.latest
        if attempt is None:
            return True
        before = self.log.consumed([attempt]).get((attempt.run, attempt.seq), {})
        now = {".action": action.sha256}
        for slot in counted(table, action.uncounted):
            term = slot.column.at(row)
            if isinstance(term, Known):
                now[slot.name] = term.sha256
            elif isinstance(term, InputAt):
                now[slot.name] = term.value.sha256
        return any([one["sha256"] for one in _listed(before.get(name))] != [sha256] for name, sha256 in now.items())


def _listed(members: object) -> Sequence[Mapping[str, str]]:
    return members if isinstance(members, list) else ()


def _otherwise(reads: Sequence[KnownRead], graph: Graph, observe: Observer) -> dict[str, str]:
    """By key: what is there now, where some of these reads found something else."""
    files = list(dict.fromkeys(read.path for read in reads if read.kind == "file"))
    others = dict.fromkeys(read.path for read in reads if read.kind in ("absent", "unknown"))
    folders: dict[str, tuple[str, Collection[str]]] = {}
    for read in reads:
        if read.kind == "folder" and read.key not in folders:
            folders[read.key] = read.path, _own_names(graph, read)
    known = set(files)
    now = observe.contents(files, [path for path in others if path not in known], folders)
    return {read.key: now[read.key] for read in reads if read.key in now and now[read.key] != read.content}


def _own_names(graph: Graph, read: KnownRead) -> Collection[str]:
    return own_names(_published_by(graph, read.job), read.path)


def _published_by(graph: Graph, job: str) -> Iterable[str]:
    for table in graph.tables:
        if table.name == job:
            for output in table.outputs:
                yield from (split_site(site)[0] for site in output.paths or ())
