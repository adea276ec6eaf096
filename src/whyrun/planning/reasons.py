"""Why a job instance is in the plan: the union of all reasons, in the order in which a plan lists them. Pure.

Everything about reasons follows from the union at the end of this module: codes, order, texts, JSON, how the judge
finds them, whether they allow reuse, and the table in docs/planning.md. To add a reason, write a class with `code`,
`when`, `if_none`, `find` and `text`, add it to `FoundReason`, and run `python docs/generate.py`.

The judge looks only at suspects and at jobs downstream of a change. The snapshot suspects an instance if its latest
attempt failed, or its fingerprint, its outputs or its condition may have changed. A reason for any other instance must
name it in `suspects`. A reason that an earlier result does not satisfy must also set `no_reuse`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, ClassVar, get_args

import msgspec

from whyrun.errors import printable
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.tables import ArtifactAt, Graph
from whyrun.ids import job_of
from whyrun.planning.input_changes import InputChanged
from whyrun.planning.reason_base import (
    ArtifactKey,
    Case,
    MergedParticulars,
    Particulars,
    ReasonBase,
    artifact_key,
)
from whyrun.snapshot.records import KEPT_OF_ERROR, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.arrays import is_array

LISTED = 20  # particulars of one code that a plan lists; it counts the rest
_CHANGES = {
    "deleted": "deleted",
    "changed": "changed",
    "unpublished": "not published there yet",
    "unreadable": "the file is not a valid JSON object",
    "lost": "its stored bytes are gone",
    "retyped": "it was made with another type, suffix or `append`",  # the reason does not say which of them
    "disowned": "its action does not find its part in it",
}
RUNNING = "running"


class RetryPreviousFailure(ReasonBase, frozen=True):
    """Its latest attempt failed, timed out or was interrupted."""

    run: str
    attempt: int
    error_type: str
    error: str

    code = "RETRY_PREVIOUS_FAILURE"
    when = "its latest attempt failed, timed out or was interrupted"
    if_none = "its latest attempt did not fail"

    @classmethod
    def find(cls, case: Case) -> list[RetryPreviousFailure]:
        if case.record is None or not case.snapshot.has_failed(case.node):
            return []
        latest = case.record.latest
        return [RetryPreviousFailure(run_name(latest.run), latest.number, latest.error_type, latest.error)]

    def text(self, job: str) -> str:
        del job
        attempt = f" attempt {self.attempt}" if self.attempt else ""  # a reuse has no number
        # The record keeps the beginning of a long message. End it after a word, and say that there is more.
        error = self.error if len(self.error) < KEPT_OF_ERROR else f"{self.error.rpartition(' ')[0] or self.error} …"
        return printable(f"{self.run}{attempt}: {self.error_type}: {error}")


class MissingOutput(ReasonBase, frozen=True):
    """A declared output or leaf is not available, or (without an artifact) the instance never succeeded.

    While a step is executed, its outputs are missing because of that, and one without outputs has not succeeded yet.
    """

    artifact: str | None = None
    change: str | None = None  # deleted changed unpublished lost running …; None: never made
    path: str | None = None
    run: str | None = None  # the run that is executing the step now
    attempt: int | None = None

    code = "MISSING_OUTPUT"
    when = (
        "the job never succeeded, or a declared output or leaf is not available: never made, being made now, deleted, "
        "or changed outside Whyrun, or its shared file is no longer valid JSON"
    )
    if_none = "every declared output is available"

    @classmethod
    def find(cls, case: Case) -> list[MissingOutput]:
        table, position, record = case.table, case.position, case.record
        shas = case.snapshot.shas[table.number]
        if record is not None and case.snapshot.is_running(case.node):
            run, number = run_name(record.latest.run), record.latest.number
            ids: list[str | None] = [table.artifact_id(a, position) for a in range(len(table.artifacts))]
            return [MissingOutput(id_, RUNNING, None, run, number) for id_ in ids or [None]]
        missing: list[MissingOutput] = []
        for a, spec in enumerate(table.artifacts):
            if shas[a][position] is not None:
                continue
            id_ = table.artifact_id(a, position)
            change, path = None, None
            latest = record.latest if record is not None and record.latest.ok else None
            made = next((o for o in latest.outputs if o.id == id_), None) if latest is not None else None
            if made is not None:  # it was made, but is no longer there or no longer what the job declares
                paths = table.output_of(a).paths
                path = None if paths is None or spec.is_leaf else paths[position]
                if (made.type, made.suffix) != (spec.type, recorded_suffix(table, a)):
                    change = "retyped"
                elif is_array(spec.type):
                    parts = case.snapshot.missing_elements(ArtifactAt(table.number, a, position))
                    missing += [MissingOutput(part, how, file) for part, file, how in parts]
                    continue
                else:
                    change = "lost" if path is None else case.snapshot.files.get(path, "lost")
                    if change == "deleted" and made.path != path:
                        change = "unpublished"  # the path is new, so nobody deleted the file
            missing.append(MissingOutput(id_, change, path))
        if not missing and (record is None or record.last_success() is None):
            missing.append(MissingOutput())
        return missing

    @property
    def forbids_reuse(self) -> str | None:
        return "it is being executed now" if self.is_made_now else None

    @property
    def outdates_result(self) -> bool:
        return self.change == "retyped" or self.is_made_now

    @property
    def is_made_now(self) -> bool:
        return self.change == RUNNING

    @property
    def edited_path(self) -> str | None:
        """The published file or section that someone edited."""
        return self.path if self.change == "changed" else None

    def text(self, job: str) -> str:
        del job
        if self.is_made_now:
            now = f"{self.run} attempt {self.attempt} is executing it now"
            return now if self.artifact is None else f"{self.artifact} ({now})"
        if self.artifact is None:
            return "it has not succeeded yet"
        if self.change is None:
            return self.artifact
        where = f"  {self.path}" if self.path else ""
        return printable(f"{self.artifact}{where} ({_CHANGES.get(self.change, self.change)})")


class UpstreamFailed(ReasonBase, frozen=True):
    """A job that makes one of its inputs failed."""

    artifact: str

    code = "UPSTREAM_FAILED"
    when = "a job whose output it needs failed"
    if_none = "no input waits for a job that failed"
    waits_for_upstream = True

    @classmethod
    def find(cls, case: Case) -> Particulars[UpstreamFailed]:
        if not case.consumption.waits:
            return []
        graph, fan_ins = case.graph, case.fan_ins
        failed = {artifact_key(at) for at in case.consumption.singles if case.snapshot.has_failed(graph.node(at))}

        def make(key: ArtifactKey) -> UpstreamFailed:
            table, position, artifact = key
            return UpstreamFailed(graph.artifact_id(ArtifactAt(table, artifact, position)))

        if not case.consumption.groups:
            return list(map(make, sorted(failed)))
        shared = fan_ins.members(case.consumption.groups)
        return MergedParticulars(shared.failed, sorted(failed - shared.failed_set), make)

    def producer(self, graph: Graph) -> int | None:
        return graph.node(graph.artifact_of[self.artifact])

    def text(self, job: str) -> str:
        del job
        return self.artifact


class UpstreamDirty(ReasonBase, frozen=True):
    """A job that makes one of its inputs will be executed, so the input is not known yet."""

    job: str

    code = "UPSTREAM_DIRTY"
    when = "a job that it depends on will be executed, so its input is not known yet"
    if_none = "no input waits for a job that will be executed"
    waits_for_upstream = True

    @classmethod
    def find(cls, case: Case) -> Particulars[UpstreamDirty]:
        if not case.consumption.waits:
            return []
        graph = case.graph
        nodes = {graph.node(at) for at in case.consumption.singles}

        def make(node: int) -> UpstreamDirty:
            return UpstreamDirty(graph.job_id(node))

        if not case.consumption.groups:
            return list(map(make, sorted(nodes)))
        shared = case.fan_ins.members(case.consumption.groups)
        return MergedParticulars(shared.nodes, sorted(nodes - shared.node_set), make)

    def producer(self, graph: Graph) -> int | None:
        return graph.node_of[self.job]

    def text(self, job: str) -> str:
        del job
        return self.job


class Forced(ReasonBase, frozen=True):
    """The user named it with `--force`."""

    by: str  # the option's text: `Job:ThenImage[*]`, `layer:0`

    code = "FORCED"
    when = "you named it with `--force`"
    if_none = "no `--force` names it"
    no_reuse = "a forced job is executed"

    @classmethod
    def suspects(cls, snapshot: PlanningSnapshot, forced: Mapping[int, str]) -> Iterable[int]:
        del snapshot
        return forced

    @classmethod
    def find(cls, case: Case) -> list[Forced]:
        return [] if case.forced_by is None else [Forced(case.forced_by)]

    def text(self, job: str) -> str:
        del job
        return f"--force {self.by}"


# --- the union ---------------------------------------------------------------------------------------------------


class More(msgspec.Struct, frozen=True):
    """So many further particulars of a code."""

    code: str
    more: int
    forbids_reuse: ClassVar[None] = None  # the particulars before it say whether they do

    def text(self, job: str) -> str:
        del job
        return f"… and {self.more} more"


# In the order in which a plan lists them. The first reason of a job is its headline.
FoundReason = RetryPreviousFailure | MissingOutput | InputChanged | UpstreamFailed | UpstreamDirty | Forced
Reason = FoundReason | More

KINDS: tuple[type[FoundReason], ...] = get_args(FoundReason)
KIND_OF: Mapping[str, type[FoundReason]] = {kind.code: kind for kind in KINDS}
CODES = tuple(KIND_OF)


def find_reasons(case: Case, most: int | None = LISTED) -> list[Reason]:
    """Every reason for one instance; at most so many particulars (None: all) of each code, and a count of the rest."""
    reasons: list[Reason] = []
    for kind in KINDS:
        particulars = kind.find(case)
        if len(particulars):
            reasons += bounded(kind.code, particulars, most)
    return reasons


def why_executed(reasons: Iterable[Reason]) -> str | None:
    """Why no earlier result may be taken, by the first reason that forbids it; None if all reasons allow it."""
    return next((why for reason in reasons if (why := reason.forbids_reuse) is not None), None)


def bounded(code: str, particulars: Particulars[FoundReason], most: int | None = LISTED) -> list[Reason]:
    """At most so many particulars (None: all), and a count of the rest."""
    if most is None or len(particulars) <= most:
        return list(particulars)
    first: list[Reason] = list(islice(particulars, most))
    return [*first, More(code, len(particulars) - most)]


def reason_json(reason: Reason) -> dict[str, Any]:
    """The code and every field that has a value."""
    body: dict[str, Any] = {"code": reason.code}
    for name in reason.__struct_fields__:
        value = getattr(reason, name)
        if value is not None and name != "code":
            body[name] = list(value) if isinstance(value, tuple) else value
    return body


def read_reason(written: Mapping[str, Any]) -> Reason | None:
    """A reason as `reason_json` wrote it. None: another version of Whyrun wrote it, and this one does not know it."""
    fields = {name: value for name, value in written.items() if name != "code"}
    code = written["code"]
    if "more" in fields:
        return More(code, fields["more"])
    try:
        return msgspec.convert(fields, KIND_OF[code])
    except (KeyError, msgspec.ValidationError):
        return None


def loop_source(reasons: Iterable[Reason]) -> tuple[str | None, bool]:
    """Of an open entry: the job whose result its loop goes over, and whether that takes an earlier result again."""
    for reason in reasons:
        if isinstance(reason, InputChanged) and reason.source is not None:
            return job_of(reason.source), True
        if isinstance(reason, UpstreamDirty):
            return reason.job, False
    return None, False
