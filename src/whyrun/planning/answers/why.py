"""Why a job instance is, was, or is not in a plan: its reasons, back to the root causes. Pure.

The plan holds every reason; this only follows them upstream. Nothing is judged again, so what `why` says is what was
planned. A clean instance is answered with what was compared, an inactive one with its condition or the absent source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from msgspec import UNSET

from whyrun.graph.fingerprint import counts
from whyrun.graph.graph import ArtifactAt, Graph, Group, InputAt, Known, Term, sources_of
from whyrun.graph.template import expressions_in
from whyrun.ids import output_of, parse_id_of
from whyrun.planning.consume import Entry, is_small
from whyrun.planning.explain import particulars
from whyrun.planning.known import KnownState
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.planning.reasons import InputChanged, More, Reason, UpstreamDirty, UpstreamFailed, reason_json
from whyrun.snapshot.records import Attempt, run_name
from whyrun.workflow.model import First, InputRef, JobDecl, Workflow

EXPLAINED = 40  # jobs of one answer that are told in full; root causes are found beyond them
OF_A_KIND = 3  # jobs that differ in their indices only and are told in full; the rest of a wide fan-in is counted
COMPARED = 64  # members of one answer


@dataclass(frozen=True, slots=True)
class LastSuccess:
    """`adopted`: the outputs that somebody adopted since, each with its run; empty where all of it was adopted.

    `attempt` is None where only the run is known: of outputs that stand beside adopted ones.
    """

    run: str
    attempt: int | None
    how: str  # executed reused adopted
    adopted: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"run": self.run, "attempt": self.attempt, "how": self.how}
        if self.attempt is None:
            del found["attempt"]
        return {**found, "adopted": dict(self.adopted)} if self.adopted else found


@dataclass(frozen=True, slots=True)
class Compared:
    """One thing that a clean instance would consume, and that is what its last success consumed."""

    name: str
    id: str
    sha256: str
    value: Any = UNSET

    def to_json(self) -> dict[str, Any]:
        found = {"name": self.name, "id": self.id, "sha256": self.sha256}
        return found if self.value is UNSET else {**found, "value": self.value}


@dataclass(frozen=True, slots=True)
class WhyJob:
    """One job of the answer. `causes`: the jobs that its reasons lead to; `depth` counts from the one asked about."""

    id: str
    node: int
    depth: int
    state: str  # planned reused deferred inactive clean
    layer: int | None = None
    reasons: tuple[Reason, ...] = ()
    reuse: str | None = None
    conditional: bool = False
    because: Mapping[str, Any] | None = None
    causes: tuple[str, ...] = ()
    made: tuple[tuple[str, LastSuccess], ...] = ()  # changed sources that are clean: which run made them
    last_success: LastSuccess | None = None
    compared: tuple[Compared, ...] = ()
    compared_more: int = 0
    alike: int = 0  # so many more jobs are like this one: the same job, state and reasons, other indices

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id, "depth": self.depth, "state": self.state}
        if self.layer is not None:
            found["layer"] = self.layer
        if self.reuse is not None:
            found["reuse"] = self.reuse
        if self.conditional:
            found["conditional"] = True
        if self.because is not None:
            found["because"] = dict(self.because)
        if self.reasons:
            found["reasons"] = [{**reason_json(r), "text": particulars(r, self.id)} for r in self.reasons]
        if self.made:
            found["made"] = {artifact: success.to_json() for artifact, success in self.made}
        if self.last_success is not None:
            found["last_success"] = self.last_success.to_json()
        if self.state == "clean":
            found["compared"] = [entry.to_json() for entry in self.compared]
            if self.compared_more:
                found["compared_more"] = self.compared_more
        if self.alike:
            found["alike"] = self.alike
        found["causes"] = list(self.causes)
        return found


@dataclass(frozen=True, slots=True)
class Why:
    """The answer: the job asked about first, then those that its reasons lead to, each once, depth first."""

    jobs: tuple[WhyJob, ...]
    roots: tuple[WhyJob, ...]  # at most so many as are told
    more: int  # jobs upstream that are neither told nor like one that is
    hidden: tuple[WhyJob, ...] = ()  # the roots among these

    @property
    def is_chain(self) -> bool:
        """Each job has one cause: then the last one told is the root cause."""
        return not self.more and all(len(job.causes) <= 1 for job in self.jobs)

    def to_json(self) -> dict[str, Any]:
        return {
            "jobs": [job.to_json() for job in self.jobs],
            "roots": [root.id for root in self.roots],
            "more": self.more,
        }


def why_job(known: KnownState, node: int, *, whole: bool = False) -> Why:
    """Depth first along the reasons, each job once. Deep chains are walked, not recursed into.

    `whole`: every job is told, and the one asked about with every particular of its reasons. The others keep to what
    the plan lists of theirs: what they lead to is told in its turn."""
    explained, of_a_kind = (None, None) if whole else (EXPLAINED, OF_A_KIND)
    told: list[WhyJob] = []
    roots: list[WhyJob] = []
    hidden: list[WhyJob] = []
    kinds: dict[tuple[Any, ...], list[int]] = {}  # kind → positions in `told`, then -1 for each that is only counted
    seen: set[int] = set()
    stack = [(node, 0)]
    more = 0
    while stack:
        at, depth = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        job = known.jobs.get(at)
        if whole and depth == 0 and job is not None:
            job = known.whole(job)
        causes = list(_causes(known, at, job))
        if job is None:  # the one asked about: no reason leads to what is clean
            answer = _clean(known, at, depth, None if whole else COMPARED)
        else:
            answer = _describe(known, job, depth, causes)
        is_root = not causes and _has_room(roots, explained)
        if is_root:
            roots.append(answer)
        alike = kinds.setdefault(_kind(known, answer), [])
        if not _has_room(alike, of_a_kind):
            alike.append(-1)
        elif _has_room(told, explained):
            alike.append(len(told))
            told.append(answer)
        else:
            more += 1
            if is_root:
                hidden.append(answer)
        stack.extend((cause, depth + 1) for cause in reversed(causes) if cause not in seen)
    for positions in kinds.values():
        if not whole and len(positions) > OF_A_KIND:
            last = positions[OF_A_KIND - 1]
            told[last] = replace(told[last], alike=len(positions) - OF_A_KIND)
    return Why(tuple(told), tuple(roots), more, tuple(hidden))


def _has_room(members: Sized, most: int | None) -> bool:
    return most is None or len(members) < most


def _kind(known: KnownState, job: WhyJob) -> tuple[Any, ...]:
    """What instances of one job have in common that are in the plan for the same reasons."""
    table, _ = known.graph.table_at(job.node)
    reasons = tuple((reason.code, getattr(reason, "binding", None)) for reason in job.reasons)
    return table.number, job.depth, job.state, job.reuse, job.conditional, reasons, bool(job.causes)


def _causes(known: KnownState, node: int, job: PlannedJob | None) -> Iterator[int]:
    """The nodes that a job's reasons lead to, in the order of the reasons, each once."""
    if job is None:
        return
    found: dict[int, None] = {}
    graph = known.graph
    for reason in job.reasons:
        match reason:
            case UpstreamDirty():
                found[graph.node_of[reason.job]] = None
            case UpstreamFailed():
                found[graph.node(graph.artifact_of[reason.artifact])] = None
            case InputChanged(source=str(source)) if source in graph.artifact_of:
                producer = graph.node(graph.artifact_of[source])
                if producer in known.jobs:  # it will be reused: why it is another is told there
                    found[producer] = None
            case More(code="UPSTREAM_DIRTY" | "UPSTREAM_FAILED"):
                for upstream in graph.upstream(node):
                    other = known.jobs.get(upstream)
                    if other is not None and other.state != "inactive" and other.reuse is None:
                        found[upstream] = None
    absent = job.because.get("source")
    if absent is not None and absent in graph.artifact_of:
        found[graph.node(graph.artifact_of[absent])] = None
    yield from found


def _describe(known: KnownState, job: PlannedJob, depth: int, causes: Iterable[int]) -> WhyJob:
    return WhyJob(
        job.id,
        job.node,
        depth,
        "reused" if job.state == "planned" and job.reuse is not None else job.state,
        job.layer,
        job.reasons,
        job.reuse.run if job.reuse is not None else None,
        job.conditional,
        job.because if job.state == "inactive" else None,
        tuple(known.graph.job_id(cause) for cause in causes),
        tuple(_made(known, job)),
    )


def _made(known: KnownState, job: PlannedJob) -> Iterator[tuple[str, LastSuccess]]:
    graph = known.graph
    for reason in job.reasons:
        match reason:
            case InputChanged(source=str(source)) if source in graph.artifact_of:
                producer = graph.node(graph.artifact_of[source])
                if producer not in known.jobs:
                    record = known.snapshot.record(producer)
                    assert record is not None, "a clean instance has succeeded"
                    run, how = record.latest.source_of(source)
                    yield source, LastSuccess(run_name(run), _number(record.latest, run), how or "executed")


def _clean(known: KnownState, node: int, depth: int, most: int | None) -> WhyJob:
    table, position = known.graph.table_at(node)
    record = known.snapshot.record(node)
    assert record is not None, "a clean instance has succeeded"
    found = known.consumption(node)
    action = known.snapshot.actions[table.name]
    compared = [Compared("action", f"Input:{table.path(position)}.action", action.sha256, action.name)]
    for name, entry in found.entries.items():  # in the order of their names, as the slots are
        if not counts(name, action.uncounted):
            continue
        for one in entry if isinstance(entry, list) else [entry]:
            compared.append(_compared(name.removeprefix("."), one))
    return WhyJob(
        known.graph.job_id(node),
        node,
        depth,
        "clean",
        last_success=last_success(record.latest),
        compared=tuple(compared[:most]),
        compared_more=0 if most is None else max(0, len(compared) - most),
    )


def _compared(name: str, entry: Entry) -> Compared:
    small = entry.value is not UNSET and is_small(entry.value)
    return Compared(name, entry.id, entry.sha256, entry.value if small else UNSET)


def last_success(attempt: Attempt) -> LastSuccess:
    adopted = attempt.adopted
    others = [output.id for output in attempt.outputs if output.id not in adopted]
    if not others:  # nothing was executed for what it has now
        return LastSuccess(run_name(attempt.run), attempt.number, attempt.origin or "executed")
    run, how = attempt.source_of(others[0])
    wholes = {artifact: run_name(adopted[artifact]) for artifact in sorted(adopted) if output_of(artifact) is not None}
    return LastSuccess(run_name(run), _number(attempt, run), how or "executed", wholes)


def _number(attempt: Attempt, run: int) -> int | None:
    return attempt.number if attempt.run == run else None


def direct_readers(graph: Graph, at: ArtifactAt, *beside: ArtifactAt) -> list[str]:
    """The jobs that read this artifact, now or perhaps (a candidate of `first`), in the order of the graph; or one of
    others `beside` it, of the same step."""
    found, wanted = [], {at, *beside}
    for node in sorted(set(graph.dependents(graph.node(at)))):
        table, position = graph.table_at(node)
        sources = (source for _, column in table.operand_columns() for source in sources_of(column.at(position)))
        if any(isinstance(source, ArtifactAt) and source in wanted for source in sources):  # inputs may have no hash
            found.append(graph.job_id(node))
    return found


# --- inputs ------------------------------------------------------------------------------------------------------


class Reader(NamedTuple):
    """A job that reads an input. `condition_only`: it decides whether the job runs, and is nothing to it beyond."""

    job: str
    condition_only: bool


def readers(graph: Graph, other: Graph) -> list[Reader]:
    """The jobs that read something other in the second graph, which is the first with one input assumed to be another:
    those whose own slots or condition differ, and those that are in one of them only."""
    before, after = _by_job(graph), _by_job(other)
    found = []
    for job, (slots, condition) in before.items():
        others = after.get(job)
        if others != (slots, condition):
            found.append(Reader(job, others is not None and others[0] == slots))
    return found + [Reader(job, False) for job in after if job not in before]


def _by_job(graph: Graph) -> dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Job → what its slots and its condition read of inputs, by content."""
    same: dict[int, Any] = {}

    def content(term: Term) -> Any:
        if not isinstance(term, Group):
            return _content(term)
        if id(term) not in same:  # a fan-in is one object for all who read it
            same[id(term)] = _content(term)
        return same[id(term)]

    found = {}
    for table in graph.tables:
        columns = list(table.operand_columns())
        for p, id_ in enumerate(table.job_ids()):
            slots = tuple(content(column.at(p)) for slot, column in columns if slot is not None)
            found[id_] = slots, tuple(content(column.at(p)) for slot, column in columns if slot is None)
    return found


def _content(term: Term) -> Any:
    if isinstance(term, Known):
        return term.sha256
    sources = list(sources_of(term))
    return len(sources), [(source.id, source.value.sha256) for source in sources if isinstance(source, InputAt)]


class WouldRun(NamedTuple):
    job: str
    reason: str
    anyway: bool  # it is executed in the plan of now, too

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"job": self.job, "reason": self.reason}
        return {**found, "anyway": True} if self.anyway else found


def would_run(now: Plan, then: Plan, graph: Graph, read_by: Iterable[str]) -> list[WouldRun]:
    """What is executed if an input changes, because of it: what is not executed now, and, of what is, whatever reads
    the input or something that its change reaches. `then`: the plan and `graph` with the change; `read_by`: the jobs
    that read it for more than their conditions.
    """
    executed = {job.id for job in now.planned if job.reuse is None}
    reused = {job.id for job in now.planned if job.reuse is not None}
    direct = set(read_by)
    planned = {job.node: job for job in then.planned}
    other = [job.node for job in planned.values() if job.id not in (executed if job.reuse is None else reused)]
    read = [job.node for job in planned.values() if job.id in direct]
    reached = graph.downstream([*other, *read], within=planned)
    return [
        WouldRun(job.id, job.headline or "", job.id in executed)
        for node, job in planned.items()
        if node in reached and job.reuse is None
    ]


def named_readers(graph: Graph, id_: str) -> list[Reader]:
    """All instances of the jobs whose `with`, `env`, `if` or loops refer to an input by name."""
    identity = parse_id_of("Input", id_)
    workflow = graph.workflow
    for name in identity.imports:
        workflow = workflow.imports[name].workflow
    prefix = "".join(f"{name}/" for name in identity.imports)
    wanted = identity.segments[0].name
    found = []
    for table in graph.tables:
        decl = workflow.jobs.get(table.name.removeprefix(prefix)) if table.name.startswith(prefix) else None
        if decl is not None:
            by_content = wanted in _named_inputs(workflow, decl)
            if by_content or wanted in _names([decl.condition]):
                found += [Reader(job, not by_content) for job in table.job_ids()]
    return found


def _named_inputs(workflow: Workflow, decl: JobDecl) -> set[str]:
    """Of `with`, `env` and the loops."""
    sources = [workflow.loops[loop].source for loop in decl.loops]
    loops = {source.name for source in sources if isinstance(source, InputRef)}
    return loops | _names([*decl.with_.values(), *decl.env.values()])


def _names(templates: Iterable[Any]) -> set[str]:
    refs = [ref for template in templates for expression in expressions_in(template) for ref in expression.refs]
    found = {ref.name for ref in refs if isinstance(ref, InputRef)}
    return found | {c.name for ref in refs if isinstance(ref, First) for c in ref.candidates if isinstance(c, InputRef)}
