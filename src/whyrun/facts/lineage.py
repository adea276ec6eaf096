"""Where a value comes from: from a result back to inputs, parameters and code, hop by hop, as the log has it.

Nothing is read from the present workflow: a result keeps its origins when the workflow, its inputs or its files change.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from whyrun.project import Project
    from whyrun.snapshot.history.reader import History
    from whyrun.snapshot.observations import KnownRead
    from whyrun.snapshot.records import Attempt, Output

Facts = dict[str, Any]
_MADE_BEFORE = ("reused", "kept")  # in an earlier run than the one that recorded it
Version = tuple[str, str]  # an ID and the hash of its content


class Hop(msgspec.Struct):
    """One version of an artifact, or one attempt of a job in question, with what it read."""

    id: str
    sha256: str | None
    size: int | None
    job: str
    attempt: Attempt
    how: str  # executed reused adopted kept
    run: str  # where it was executed, or adopted
    by: str | None = None  # who adopted or kept it
    because: str | None = None  # why it was kept
    action: Facts | None = None  # of executed and reused versions
    reads: tuple[Facts, ...] = ()
    observed: tuple[Facts, ...] = ()  # what it read without declaring it
    depth: int = 0

    def to_json(self) -> Facts:
        body: Facts = {"id": self.id, "kind": self.id.partition(":")[0].lower(), "job": self.job, "how": self.how}
        for name in ("sha256", "size", "by", "because", "action"):
            if getattr(self, name) is not None:
                body[name] = getattr(self, name)
        recorded = {"run": _run_name(self.attempt.run), "seq": self.attempt.seq, "attempt": self.attempt.number}
        body |= {"run": self.run, "recorded": recorded, "depth": self.depth, "reads": list(self.reads)}
        return {**body, "observed": list(self.observed)} if self.observed else body


def lineage(project: Project, id_: str, at: str | None = None) -> Facts:
    """The hops from the latest version of an artifact, or from the last success of a job; `at`: as after that run."""
    history = project.history(project.state.run(at).number if at is not None else None)
    start = _start(project, history, id_, at)
    hops = _Walk(history).from_(start)
    return {
        "id": id_,
        "at": at,
        "hops": [hop.to_json() for hop in _depth_first(start, hops)],
        "not_known": [{"id": made, "sha256": sha256} for (made, sha256), hop in sorted(hops.items()) if hop is None],
    }


def _start(project: Project, history: History, id_: str, at: str | None) -> Hop:
    from whyrun.errors import error
    from whyrun.ids import parse_id
    from whyrun.planning.id_matching import match_nodes, read_pattern

    if "*" in id_:
        raise error("USAGE", f"`{id_}`: lineage takes one ID, not a pattern", hint="`whyrun status` lists artifacts")
    read_pattern(id_, lambda: project.graph)  # raises if it is no ID, and says which one is meant
    parsed = parse_id(id_)
    kind = parsed.kind
    if kind == "Input":
        raise error("USAGE", f"`{id_}`: an input comes from you", hint=f"`whyrun why {id_}` tells what reads it")
    if kind == "Artifact" and len(parsed.segments) < 2:
        match_nodes(project.graph, id_)  # raises: it names a job and no output
    job = id_ if kind == "Job" else step_of(id_, history.records.steps)
    record = history.records.steps.get(job)
    success = record.last_success() if record is not None else None
    if success is None:
        match_nodes(project.settled_graph(), id_)  # raises if the workflow does not have it either
        if at is not None and _made_later(project, job):
            hint = "without `--at`, `whyrun lineage` answers for the latest version"
            raise error("USAGE", f"`{id_}` had not been made by the end of {at}", hint=hint)
        raise error("USAGE", f"`{id_}` has not been made yet", hint="`whyrun explain` shows what would run, and why")
    if kind == "Job":
        run = success.made_in if success.origin in _MADE_BEFORE else success.run
        return Hop(id_, None, None, job, success, success.origin or "executed", _run_name(run))
    output = next((one for one in success.outputs if one.id == id_), None)
    if output is None:
        known = [one.id for one in success.outputs]
        raise error("UNKNOWN_REFERENCE", f"`{job}` has made no `{id_}`", hint=f"it made {', '.join(known[:5])}")
    return _hop(job, success, output)


def _made_later(project: Project, job: str) -> bool:
    record = project.history(None).records.steps.get(job)
    return record is not None and record.last_success() is not None


def step_of(artifact: str, steps: Container[str]) -> str:
    """The job instance that makes an artifact, by its ID and the steps of the log: `Artifact:Clip.Frame[0]` is made by
    `Job:Clip[0]`, or is an element of an array of `Job:Clip`."""
    from whyrun.ids import CanonicalId, Segment, parse_id

    parsed = parse_id(artifact)
    job, output = parsed.segments[:2]
    own, of_array = (
        str(CanonicalId("Job", parsed.imports, (Segment(job.name, indices),)))
        for indices in (output.indices, output.indices[:-1])
    )
    return of_array if own not in steps and of_array in steps else own


def _hop(job: str, attempt: Attempt, output: Output) -> Hop:
    run, how = attempt.source_of(output.id)
    if how in _MADE_BEFORE:
        run = attempt.made_in
    return Hop(output.id, output.sha256, output.size, job, attempt, how or "executed", _run_name(run))


class _Walk:
    """Goes back level by level, so that each run's log is opened once for a level and not once for a hop."""

    def __init__(self, history: History) -> None:
        self.history = history

    def from_(self, start: Hop) -> dict[Version, Hop | None]:
        """By version: its hop; None if the log no longer has the attempt that made it."""
        found: dict[Version, Hop | None] = {}
        level = [start]
        while level:
            self._describe(level)
            following: list[Hop] = []
            for hop in level:
                for read in hop.reads:
                    version = read["id"], read["sha256"]
                    if not read["id"].startswith("Artifact:") or version in found:
                        continue
                    made = self._made(version, before=hop.attempt)
                    found[version] = made
                    if made is not None:
                        made.depth = hop.depth + 1
                        following.append(made)
            level = following
        return found

    def _made(self, version: Version, before: Attempt) -> Hop | None:
        """The latest attempt before this one that recorded the artifact with this content."""
        job = step_of(version[0], self.history.records.steps)
        record = self.history.records.steps.get(job)
        if record is None:
            return None
        known = [record.latest, *([record.success] if record.success else ()), *record.attempts()]
        known += record.unadopted or ()
        made: tuple[Attempt, Output] | None = None
        for attempt in known:
            output = next((one for one in attempt.outputs if (one.id, one.sha256) == version), None)
            if output is None or _line(attempt) >= _line(before):
                continue
            if made is None or _line(made[0]) < _line(attempt):
                made = attempt, output
        made = made or self._made_in_logs(job, version, before)
        return _hop(job, *made) if made is not None else None

    def _made_in_logs(self, job: str, version: Version, before: Attempt) -> tuple[Attempt, Output] | None:
        """The same from the logs themselves: the fold keeps only the latest attempt of each fingerprint."""
        from whyrun.log import events as ev
        from whyrun.snapshot.records import Attempt, Output

        for run in reversed([run for run in self.history.runs if run.number <= before.run]):
            last: Attempt | None = None
            made: tuple[Attempt, Output] | None = None
            kept: Output | None = None  # its `result_kept` follows
            for event in run.events():
                if (run.number, event.seq) >= _line(before):
                    break
                if getattr(event, "step_id", None) != job:
                    continue
                if isinstance(event, ev.StepStart):
                    last = Attempt(run.number, event.seq, event.attempt, event.fingerprint, ok=True)
                elif isinstance(event, ev.StepSkipped) and event.why == "reused":
                    made_in = int((event.from_run or run.name)[1:]) if event.shared is None else run.number
                    last = Attempt(
                        run.number, event.seq, 0, event.fingerprint or "", ok=True, origin="reused", made=made_in
                    )
                elif isinstance(event, ev.ArtifactAdopted) and event.bindings is not None:
                    last = Attempt(run.number, event.seq, 0, event.fingerprint, ok=True, origin="adopted")
                elif isinstance(event, ev.ResultKept) and kept is not None:
                    last = Attempt(run.number, event.seq, 0, event.fingerprint, ok=True, origin="kept")
                    last.made = int(event.from_run[1:])
                    made = last, kept
                if not isinstance(event, ev.ArtifactAvailable | ev.ArtifactAdopted):
                    continue
                if (event.artifact, event.sha256) == version:
                    kept = Output(event.artifact, event.sha256, event.size, event.type)
                    made = (last, kept) if last is not None else made
            if made is not None:
                return made
        return None

    def _describe(self, level: Iterable[Hop]) -> None:
        """What each of these hops read, with its action, and who adopted it."""
        hops = list(level)
        consumed = self.history.consumed(hop.attempt for hop in hops)
        lines = self._lines(hops)
        for hop in hops:
            line = lines[_line(hop.attempt)]
            bindings = dict(consumed[_line(hop.attempt)])
            action = bindings.pop(".action", None)
            if hop.how in ("adopted", "kept"):
                hop.by, hop.because = line.get("by") or None, line.get("because")
            elif action:
                name = {"name": line["driver"]} if "driver" in line else {}
                hop.action = {**name, "id": action[0]["id"], "sha256": action[0]["sha256"]}
                hop.action |= {"files": action[0]["files"]} if action[0].get("files") else {}
            if line.get("shared"):
                hop.how, hop.by = "shared", line["shared"].get("by")
            hop.reads = tuple(_reads(bindings))
            seen = self.history.records.observations.reads_of(hop.attempt.reads)
            hop.observed = tuple(read_as_json(read) for read in seen)

    def _lines(self, hops: Iterable[Hop]) -> dict[tuple[int, int], Facts]:
        from whyrun.log.lean_events import read_lines

        wanted: dict[int, set[int]] = {}
        for hop in hops:
            wanted.setdefault(hop.attempt.run, set()).add(hop.attempt.seq)
        paths = {run.number: run.events_path for run in self.history.runs}
        return {
            (number, seq): msgspec.json.decode(line)
            for number, seqs in wanted.items()
            for seq, line in read_lines(paths[number], seqs).items()
        }


def read_as_json(read: KnownRead) -> Facts:
    body: Facts = {"path": read.shown, "kind": read.kind, "by": read.by}
    return {**body, "sha256": read.sha256} if read.sha256 is not None else body


def _line(attempt: Attempt) -> tuple[int, int]:
    """Where the log has what it read."""
    return attempt.run, attempt.seq


def _reads(bindings: Facts) -> Iterator[Facts]:
    """One entry for each thing that was read, in the order of the bindings; a lost list is one entry without an ID."""
    for name, members in sorted(bindings.items()):
        if not isinstance(members, list):
            yield {"name": name.removeprefix("."), "id": "", "sha256": members["digest"], "count": members["count"]}
            continue
        for member in members:
            body = {"name": name.removeprefix("."), "id": member["id"], "sha256": member["sha256"]}
            yield {**body, "value": member["value"]} if "value" in member else body


def _depth_first(start: Hop, hops: dict[Version, Hop | None]) -> Iterator[Hop]:
    """Each version once, after the first that read it. Without recursion: chains may be deep."""
    seen: set[Version] = set()
    stack = [start]
    while stack:
        hop = stack.pop()
        yield hop
        below = []
        for read in hop.reads:
            version = read["id"], read["sha256"]
            made = hops.get(version)
            if made is not None and version not in seen:
                seen.add(version)
                below.append(made)
        stack += reversed(below)


def _run_name(number: int) -> str:
    from whyrun.snapshot.records import run_name

    return run_name(number)
