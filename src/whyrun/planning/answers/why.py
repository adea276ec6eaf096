"""Why a job instance is, was, or is not in a plan: its reasons, back to the root causes. Pure.

The plan has every reason; `why` follows the reasons upstream and judges nothing again, except a clean instance: it
compares what its last success consumed with what it would consume now, and asks the judge. For an inactive instance it
names the condition or the absent source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from whyrun.graph.fingerprint import counts
from whyrun.graph.tables import ArtifactAt, Graph, sources_of
from whyrun.ids import OPEN, output_of
from whyrun.planning.artifact_states import ArtifactState, Available, Pending
from whyrun.planning.consume import Consumer, Consumption, Entry, is_small
from whyrun.planning.input_changes import InputChanged
from whyrun.planning.judge import Judge, missing_of_clean
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.planning.reasons import KIND_OF, Forced, More, Reason, find_reasons, reason_json
from whyrun.snapshot.records import Attempt, run_name
from whyrun.snapshot.snapshot import Consumed, PlanningSnapshot
from whyrun.workflow.arrays import Every, is_value_type

EXPLAINED = 40  # jobs of one answer that are listed in full; root causes are found beyond them
OF_A_KIND = 3  # jobs with the same reasons and other indices that are listed in full; the rest is counted
COMPARED = 64  # compared inputs of a clean job that are listed


class PlanView:
    """A plan and the snapshot that it was made from, for questions about single instances.

    The plan has decided already: clean instances have the results that the log says, reused ones those that will be
    taken, inactive ones none, and the results of all others are pending.
    """

    def __init__(self, snapshot: PlanningSnapshot, plan: Plan) -> None:
        self.snapshot = snapshot
        self.graph = snapshot.dependency_graph
        self.plan = plan
        self.jobs: dict[int, PlannedJob] = {job.node: job for job in plan.jobs}
        self._consumer = Consumer(self.graph, self.artifact_state)
        forced = {job.node: reason.by for job in plan.jobs for reason in job.reasons if isinstance(reason, Forced)}
        self._judge = Judge(snapshot, forced)

    def artifact_state(self, at: ArtifactAt) -> ArtifactState:
        job = self.jobs.get(self.graph.node(at))
        spec = self.graph.tables[at.table].artifacts[at.artifact]
        if job is None:
            sha = self.snapshot.shas[at.table][at.artifact][at.position]
            assert sha is not None, missing_of_clean(self.graph, at)
            return Available(sha, self.snapshot.output(at).value if spec.is_leaf or is_value_type(spec.type) else UNSET)
        if job.state == "inactive":
            return None
        if job.reuse is not None:
            output = job.reuse.outputs[spec.key_at(at.position)]
            return Available(output.sha256, output.value)
        return Pending(maybe=job.conditional)

    def consumption(self, node: int) -> Consumption:
        return self._consumer.consume(*self.graph.table_at(node))

    def with_all_reasons(self, job: PlannedJob) -> PlannedJob:
        """The job with every particular of its reasons; the plan lists 20 of a code, and counts the rest."""
        if not any(isinstance(reason, More) for reason in job.reasons):
            return job
        case = self._judge.case(job.node, self.consumption(job.node))
        return msgspec.structs.replace(job, reasons=tuple(find_reasons(case, most=None)))

    def reasons_of_clean(self, node: int, consumption: Consumption, consumed: Consumed) -> tuple[Reason, ...]:
        """What the judge says of an instance that the plan calls clean, if it knows what the last success consumed.
        The snapshot has that only for suspects and for instances downstream of one."""
        record = self.snapshot.record(node)
        success = record.last_success() if record is not None else None
        assert success is not None, f"{self.graph.job_id(node)} is clean, but has no success"
        known = {**self.snapshot.consumed, (success.run, success.seq): consumed}
        judge = Judge(replace(self.snapshot, consumed=known), {})
        return tuple(find_reasons(judge.case(node, consumption)))

    def fingerprint(self, node: int, consumption: Consumption) -> str:
        """Only for an instance that has a known consumption."""
        table, position = self.graph.table_at(node)
        return self._judge.fingerprint(table, position, consumption)


# --- answers -----------------------------------------------------------------------------------------------------


class LastSuccess(msgspec.Struct, frozen=True):
    """`adopted`: outputs that someone adopted since, each with its run; empty if all outputs were adopted.

    `attempt` is None if only the run is known: for the outputs that were not adopted with the others.
    """

    run: str
    attempt: int | None
    how: str  # executed reused adopted kept
    adopted: Mapping[str, str] = msgspec.field(default_factory=dict)
    kept: tuple[str, str] | None = None  # who kept it, and why

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"run": self.run, "attempt": self.attempt, "how": self.how}
        if self.attempt is None:
            del body["attempt"]
        if self.kept is not None:
            body["by"], body["because"] = self.kept
        return {**body, "adopted": dict(self.adopted)} if self.adopted else body


class Compared(msgspec.Struct, frozen=True):
    """One input of a clean instance. Its last success consumed the same content; anything else is a bug in Whyrun."""

    name: str
    id: str
    sha256: str
    value: Any = UNSET
    differs: bool = False

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"name": self.name, "id": self.id, "sha256": self.sha256}
        if self.value is not UNSET:
            body["value"] = self.value
        return {**body, "differs": True} if self.differs else body


class LoopSource(msgspec.Struct, frozen=True):
    """A result that decides how many instances there are."""

    artifact: str
    value: Any
    run: str | None  # that made it; None: the run whose plan this is

    def __str__(self) -> str:
        what = f"is {self.value}"
        if isinstance(self.value, list):
            what = f"has {len(self.value)} element{'' if len(self.value) == 1 else 's'}"
        return f"{self.artifact} {what}, made in {self.run or 'the same run'}"

    def to_json(self) -> dict[str, Any]:
        count = len(self.value) if isinstance(self.value, list) else self.value
        return {"artifact": self.artifact, "count": count, "run": self.run}


class WhyJob(msgspec.Struct, frozen=True):
    """One job of the answer. `causes`: the jobs that its reasons lead to. `depth` is 0 for the job in question."""

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
    made: tuple[tuple[str, LastSuccess], ...] = ()  # changed sources of clean jobs, each with the run that made it
    last_success: LastSuccess | None = None
    compared: tuple[Compared, ...] = ()
    compared_more: int = 0
    contradiction: tuple[Reason, ...] = ()  # reasons of a clean instance: planning skipped it wrongly
    alike: int = 0  # number of further instances of the job with the same state and reasons
    exists_by: tuple[LoopSource, ...] = ()  # of the job in question: the results that its loops go over

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"id": self.id, "depth": self.depth, "state": self.state}
        if self.exists_by:
            body["exists_by"] = [source.to_json() for source in self.exists_by]
        if self.layer is not None:
            body["layer"] = self.layer
        if self.reuse is not None:
            body["reuse"] = self.reuse
        if self.conditional:
            body["conditional"] = True
        if self.because is not None:
            body["because"] = dict(self.because)
        if self.reasons:
            body["reasons"] = [{**reason_json(r), "text": r.text(self.id)} for r in self.reasons]
        if self.made:
            body["made"] = {artifact: success.to_json() for artifact, success in self.made}
        if self.last_success is not None:
            body["last_success"] = self.last_success.to_json()
        if self.state == "clean":
            body["compared"] = [entry.to_json() for entry in self.compared]
            if self.compared_more:
                body["compared_more"] = self.compared_more
            if self.contradiction:
                body["contradiction"] = [{**reason_json(r), "text": r.text(self.id)} for r in self.contradiction]
        if self.alike:
            body["alike"] = self.alike
        body["causes"] = list(self.causes)
        return body


class Why(msgspec.Struct, frozen=True):
    """The answer: the job in question first, then the jobs that its reasons lead to, each once, depth first."""

    jobs: tuple[WhyJob, ...]
    roots: tuple[WhyJob, ...]  # at most as many as jobs are listed
    more: int  # jobs upstream that are neither listed nor counted as `alike`
    hidden: tuple[WhyJob, ...] = ()  # the roots among these

    @property
    def is_chain(self) -> bool:
        """Each job has one cause, so the last one listed is the root cause."""
        return not self.more and all(len(job.causes) <= 1 for job in self.jobs)

    def to_json(self) -> dict[str, Any]:
        return {
            "jobs": [job.to_json() for job in self.jobs],
            "roots": [root.id for root in self.roots],
            "more": self.more,
        }


def why_job(view: PlanView, node: int, *, whole: bool = False, consumed: Consumed | None = None) -> Why:
    """Follow the reasons depth first, each job once. Without recursion, because chains may be deep.

    `consumed`: what the last success of the job consumed, to compare it if the job is clean. None: not compared.

    `whole`: list every job, and the job in question with every particular of its reasons. The others have the
    particulars that the plan lists."""
    explained, of_a_kind = (None, None) if whole else (EXPLAINED, OF_A_KIND)
    listed: list[WhyJob] = []
    roots: list[WhyJob] = []
    hidden: list[WhyJob] = []
    kinds: dict[tuple[Any, ...], list[int]] = {}  # kind → positions in `listed`; -1 for each that is only counted
    seen: set[int] = set()
    stack = [(node, 0)]
    more = 0
    while stack:
        at, depth = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        job = view.jobs.get(at)
        if whole and depth == 0 and job is not None:
            job = view.with_all_reasons(job)
        causes = list(_causes(view, at, job))
        if job is None:  # only the job in question can be clean: no reason leads to a clean one
            answer = _clean(view, at, depth, None if whole else COMPARED, consumed)
        else:
            answer = _describe(view, job, depth, causes)
        if depth == 0:
            answer = replace(answer, exists_by=tuple(_loop_sources(view, at)))
        is_root = not causes and _has_room(roots, explained)
        if is_root:
            roots.append(answer)
        alike = kinds.setdefault(_kind(view, answer), [])
        if not _has_room(alike, of_a_kind):
            alike.append(-1)
        elif _has_room(listed, explained):
            alike.append(len(listed))
            listed.append(answer)
        else:
            more += 1
            if is_root:
                hidden.append(answer)
        stack.extend((cause, depth + 1) for cause in reversed(causes) if cause not in seen)
    for positions in kinds.values():
        if not whole and len(positions) > OF_A_KIND:
            last = positions[OF_A_KIND - 1]
            listed[last] = replace(listed[last], alike=len(positions) - OF_A_KIND)
    return Why(tuple(listed), tuple(roots), more, tuple(hidden))


def _loop_sources(view: PlanView, node: int) -> Iterator[LoopSource]:
    table, position = view.graph.table_at(node)
    for place, column in table.gates:
        source = column.at(position)
        if table.rows[position][place] is not OPEN and isinstance(source, ArtifactAt):
            id_ = view.graph.artifact_id(source)
            outputs = view.snapshot.made.get(view.graph.job_id(view.graph.node(source)))
            if outputs is not None:
                yield LoopSource(id_, outputs[id_].value, None)
                continue
            record, made = view.snapshot.record(view.graph.node(source)), view.snapshot.output(source)
            assert record is not None
            yield LoopSource(made.id, made.value, run_name(record.latest.source_of(made.id)[0]))


def _has_room(members: Sized, most: int | None) -> bool:
    return most is None or len(members) < most


def _kind(view: PlanView, job: WhyJob) -> tuple[Any, ...]:
    """Instances of one job that are in the plan for the same reasons have the same kind."""
    table, _ = view.graph.table_at(job.node)
    reasons = tuple((reason.code, getattr(reason, "binding", None)) for reason in job.reasons)
    return table.number, job.depth, job.state, job.reuse, job.conditional, reasons, bool(job.causes)


def _causes(view: PlanView, node: int, job: PlannedJob | None) -> Iterator[int]:
    """The nodes that the reasons of a job lead to, in the order of the reasons, each once."""
    if job is None:
        return
    causes: dict[int, None] = {}
    graph = view.graph
    for reason in job.reasons:
        if isinstance(reason, More):
            if KIND_OF[reason.code].waits_for_upstream:
                causes |= dict.fromkeys(_pending_upstream(view, node))
        else:
            producer = reason.producer(graph)
            if producer is not None and producer in view.jobs:  # for a clean producer, see `_made`
                causes[producer] = None
    absent = job.because.get("source")
    if absent is not None and absent in graph.artifact_of:
        causes[graph.node(graph.artifact_of[absent])] = None
    yield from causes


def _pending_upstream(view: PlanView, node: int) -> Iterator[int]:
    for upstream in view.graph.upstream(node):
        job = view.jobs.get(upstream)
        if job is not None and job.state != "inactive" and job.reuse is None:
            yield upstream


def _describe(view: PlanView, job: PlannedJob, depth: int, causes: Iterable[int]) -> WhyJob:
    return WhyJob(
        job.id,
        job.node,
        depth,
        "reused" if job.state == "planned" and job.reuse is not None else job.state,
        job.layer,
        job.reasons,
        job.reuse.written(job.id) if job.reuse is not None else None,
        job.conditional,
        job.because if job.state == "inactive" else None,
        tuple(view.graph.job_id(cause) for cause in causes),
        tuple(_made(view, job)),
    )


def _made(view: PlanView, job: PlannedJob) -> Iterator[tuple[str, LastSuccess]]:
    """The changed sources of a job that clean jobs made, each with its run."""
    graph = view.graph
    for reason in job.reasons:
        if isinstance(reason, InputChanged) and reason.source is not None:
            producer = reason.producer(graph)
            if producer is not None and producer not in view.jobs:
                record = view.snapshot.record(producer)
                assert record is not None, f"{graph.job_id(producer)} is clean, but has no success"
                run, how = record.latest.source_of(reason.source)
                yield reason.source, LastSuccess(run_name(run), _number(record.latest, run), how or "executed")


def _clean(view: PlanView, node: int, depth: int, most: int | None, consumed: Consumed | None) -> WhyJob:
    table, position = view.graph.table_at(node)
    record = view.snapshot.record(node)
    assert record is not None, f"{view.graph.job_id(node)} is clean, but has no success"
    consumption = view.consumption(node)
    action = view.snapshot.actions[table.name]
    contradiction = () if consumed is None else view.reasons_of_clean(node, consumption, consumed)
    differing = {reason.binding for reason in contradiction if isinstance(reason, InputChanged)}
    of_action = f"Input:{table.path(position)}.action"
    compared = [Compared("action", of_action, action.sha256, action.name, "action" in differing)]
    for slot, entry in consumption.entries.items():  # sorted by name, as the slots are
        if not counts(slot, action.uncounted):
            continue
        name = slot.removeprefix(".")
        for one in entry if isinstance(entry, list) else [entry]:
            compared.append(_compared(name, one, name in differing))
    compared += _compared_reads(view, node, record.latest, contradiction)
    return WhyJob(
        view.graph.job_id(node),
        node,
        depth,
        "clean",
        last_success=last_success(record.latest),
        compared=tuple(compared[:most]),
        compared_more=0 if most is None else max(0, len(compared) - most),
        contradiction=contradiction,
    )


def _compared_reads(view: PlanView, node: int, success: Attempt, contradiction: Sequence[Reason]) -> Iterator[Compared]:
    differing = {reason.source for reason in contradiction if isinstance(reason, InputChanged) and reason.read}
    for read in view.snapshot.reads.observations.reads_of(success.reads):
        nothing = UNSET if read.sha256 is not None else read.content
        yield Compared("observed", read.shown, read.sha256 or "", nothing, read.shown in differing)


def _compared(name: str, entry: Entry, differs: bool) -> Compared:
    small = entry.value is not UNSET and is_small(entry.value)
    return Compared(name, entry.id, entry.sha256, entry.value if small else UNSET, differs)


def last_success(attempt: Attempt) -> LastSuccess:
    adopted = attempt.adopted
    others = [output.id for output in attempt.outputs if output.id not in adopted]
    if not others:  # all its outputs were adopted, or it has none
        return LastSuccess(run_name(attempt.run), attempt.number, attempt.origin or "executed", kept=attempt.kept)
    run, how = attempt.source_of(others[0])
    wholes = {artifact: run_name(adopted[artifact]) for artifact in sorted(adopted) if output_of(artifact) is not None}
    return LastSuccess(run_name(run), _number(attempt, run), how or "executed", wholes, attempt.kept)


def _number(attempt: Attempt, run: int) -> int | None:
    return attempt.number if attempt.run == run else None


def _reads_one(source: ArtifactAt, wanted: Collection[ArtifactAt]) -> bool:
    """Who reads an array reads its elements, and the other way round."""
    if source.element is None or source in wanted:
        return source in wanted
    every = isinstance(source.element, Every)
    return any(at.whole == source.whole and (every or at.element is None) for at in wanted)


def direct_readers(graph: Graph, at: ArtifactAt, *beside: ArtifactAt) -> list[str]:
    """The jobs that read this artifact or one of the others `beside` it from the same step, in the order of the graph.
    Candidates of `first` count as read."""
    readers, wanted = [], {at, *beside}
    for node in sorted(set(graph.dependents(graph.node(at)))):
        table, position = graph.table_at(node)
        sources = (source for _, column in table.operand_columns() for source in sources_of(column.at(position)))
        if any(isinstance(source, ArtifactAt) and _reads_one(source, wanted) for source in sources):
            readers.append(graph.job_id(node))
    return readers
