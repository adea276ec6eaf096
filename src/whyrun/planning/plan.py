"""STATE → PLAN: `plan = compute_execution_plan(snapshot, options)`, deterministic to the byte. Pure.

The options apply in a fixed order: `--force` while instances are judged, then `--target`, then `--up`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from whyrun.artifacts.hashing import canonical_json, canonical_list, canonical_object
from whyrun.errors import InvalidError, error
from whyrun.graph.layers import compute_layers
from whyrun.graph.tables import Graph, JobTable, tables_read
from whyrun.ids import output_of
from whyrun.planning.judge import EMPTY, Judge, Verdict
from whyrun.planning.reasons import Forced, MissingOutput, Reason, RetryPreviousFailure, reason_json
from whyrun.planning.reuse import Reuse
from whyrun.snapshot.records import run_name
from whyrun.snapshot.snapshot import PlanningSnapshot

VERSION = 1
FORCE_ALL = "all"  # of `--force`: every job, and with targets every job that they need
WIDE = 64  # members; a plan writes a longer list as {count, digest, blob}
_UP = "`--up 1` runs the first layer that has something to do; `whyrun plan` shows the layers"
State = Literal["planned", "deferred", "inactive", "open"]
# Reasons that say nothing about inputs: with these alone, the job would consume what its last success consumed.
_SAME_INPUTS = frozenset({RetryPreviousFailure.code, MissingOutput.code, Forced.code})


class PlanOptions(msgspec.Struct, frozen=True):
    up: int | None = None
    targets: tuple[str, ...] = ()
    force: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"up": self.up, "targets": sorted(set(self.targets)), "force": sorted(set(self.force))}


class PlannedJob(msgspec.Struct, frozen=True):
    """One job instance that is not clean."""

    id: str
    action: str
    layer: int
    state: State
    reasons: tuple[Reason, ...] = ()
    bindings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    reuse: Reuse | None = None
    conditional: bool = False
    because: Mapping[str, Any] = msgspec.field(default_factory=dict)
    node: int = -1
    replaces: Mapping[str, str] = msgspec.field(default_factory=dict)  # adopted artifact → the run that adopted it
    restorable: Mapping[str, str] = msgspec.field(default_factory=dict)  # missing artifact → the run that has it

    @property
    def is_running(self) -> bool:
        return any(isinstance(reason, MissingOutput) and reason.is_made_now for reason in self.reasons[:1])

    @property
    def headline(self) -> str | None:
        return self.reasons[0].code if self.reasons else None


class Plan(msgspec.Struct, eq=False, dict=True):
    workflow: str
    log_position: Mapping[str, Any] | None
    options: PlanOptions
    totals: Mapping[str, int]
    snapshot: Mapping[str, Any] | None  # a summary; None in a stage
    jobs: tuple[PlannedJob, ...]  # in the order of layer and node
    source: str | None = None  # of a stage: the job whose results its loops go over

    @property
    def planned(self) -> list[PlannedJob]:
        return [job for job in self.jobs if job.state == "planned"]

    @property
    def open(self) -> list[PlannedJob]:
        """Entries that stand for all instances of a loop whose values are not known yet."""
        return [job for job in self.jobs if job.state == "open"]

    @property
    def layers(self) -> list[list[str]]:
        by_layer: dict[int, list[str]] = {}
        for job in self.jobs:
            if job.state == "planned":
                by_layer.setdefault(job.layer, []).append(job.id)
        return [by_layer[layer] for layer in sorted(by_layer)]

    def headlines(self) -> dict[str, str]:
        """Job ID → the code of its first reason, for every planned job."""
        return {job.id: job.headline or "" for job in self.planned}

    def _repr_html_(self) -> str:
        from whyrun.notebook import SHOWN, plan_html

        jobs = [
            {
                "id": job.id,
                "state": "reused" if job.state == "planned" and job.reuse is not None else job.state,
                "reasons": [(r.code, r.text(job.id)) for r in job.reasons]
                + [("condition_false", str(text)) for text in [job.because.get("condition")] if text],
            }
            for job in self.jobs[:SHOWN]
        ]
        return plan_html(self.workflow, self.totals, jobs, len(self.jobs) - len(jobs))

    @cached_property
    def _written(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Each part as JSON, and the long lists by hash. Bytes, not objects, because a plan may have a million jobs."""
        blobs: dict[str, bytes] = {}
        parts = {name: canonical_json(part) for name, part in self._head(blobs).items()}
        parts["jobs"] = canonical_list(canonical_json(job) for job in self._jobs_json(blobs))
        return parts, blobs

    def _head(self, blobs: dict[str, bytes]) -> dict[str, Any]:
        """Everything except the jobs."""
        of_snapshot: dict[str, Any] = {} if self.source is None else {"source": self.source}
        if self.snapshot is not None:
            of_snapshot = {"snapshot": {**self.snapshot, "failed": _narrow(self.snapshot["failed"], blobs),
                                        "inputs_changed": _narrow(self.snapshot["inputs_changed"], blobs)}}  # fmt: skip
        return {
            "version": VERSION,
            "workflow": self.workflow,
            "options": self.options.to_json(),
            **of_snapshot,
            "totals": dict(self.totals),
            "layers": self.layers,
        }

    def _jobs_json(self, blobs: dict[str, bytes]) -> Iterator[dict[str, Any]]:
        known: dict[int, Any] = {}
        return (_job_json(job, blobs, known) for job in self.jobs)

    @cached_property
    def digest(self) -> str:
        """The hash of everything except itself and the log position."""
        return "sha256:" + hashlib.sha256(canonical_object(self._written[0])).hexdigest()

    @property
    def blobs(self) -> Mapping[str, bytes]:
        """The long lists that the plan refers to, by hash."""
        return self._written[1]

    def written_bindings(self) -> Iterator[tuple[PlannedJob, Mapping[str, Any]]]:
        """Every planned job with its bindings as the plan writes them."""
        blobs: dict[str, bytes] = {}
        known: dict[int, Any] = {}
        return ((job, _bindings_json(job, blobs, known)) for job in self.jobs if job.state == "planned")

    def forget_written(self) -> None:
        """Free the written form, which a run no longer needs once the plan is stored. It can be made again."""
        self.digest  # noqa: B018  # computed now, because it is needed later
        self.__dict__.pop("_written", None)

    def to_json(self) -> dict[str, Any]:
        head = self._head({})
        position = dict(self.log_position) if self.log_position is not None else None
        first = {"version": head.pop("version"), "workflow": head.pop("workflow"), "digest": self.digest}
        return {**first, "log_position": position, **head, "jobs": list(self._jobs_json({}))}

    def to_bytes(self, identity: Mapping[str, Any] | None = None) -> bytes:
        """The file format of plans. Two plans of the same state are identical to the byte.

        `identity`: what the plan was made from, for a saved plan.
        """
        position = dict(self.log_position) if self.log_position is not None else None
        more = {"digest": canonical_json(self.digest), "log_position": canonical_json(position)}
        more |= {name: canonical_json(value) for name, value in (identity or {}).items()}
        return canonical_object({**self._written[0], **more}) + b"\n"


NOT_IN_DIGEST = ("digest", "log_position", "snapshot_sha256", "snapshot_parts", "stage")


def written_digest(plan: Mapping[str, Any]) -> str | None:
    """The digest of a plan that was read from a file. None: Whyrun never writes such a content."""
    try:
        content = canonical_json({name: value for name, value in plan.items() if name not in NOT_IN_DIGEST})
    except (ValueError, RecursionError):
        return None
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _job_json(job: PlannedJob, blobs: dict[str, bytes], known: dict[int, Any]) -> dict[str, Any]:
    """`known`: long lists as they are written, by id, because the instances of a job may share a wide fan-in."""
    body: dict[str, Any] = {"id": job.id, "action": job.action, "layer": job.layer, "state": job.state}
    if job.conditional:
        body["conditional"] = True
    if job.reuse is not None:
        body["reuse"] = job.reuse.written(job.id)
    if job.state == "inactive":
        body["because"] = dict(job.because)
    else:
        body["reasons"] = [reason_json(reason) for reason in job.reasons]
        body["bindings"] = _bindings_json(job, blobs, known)
    return body


def _bindings_json(job: PlannedJob, blobs: dict[str, bytes], known: dict[int, Any]) -> dict[str, Any]:
    return {
        name: _narrow_binding(value, blobs, known) if isinstance(value, list | dict) else value
        for name, value in job.bindings.items()
    }


def _narrow_binding(value: Any, blobs: dict[str, bytes], known: dict[int, Any]) -> Any:
    if isinstance(value, dict):
        ((kind, ids),) = value.items()  # `first` or `open`
        return {kind: ids if isinstance(ids, str) else _narrow(ids, blobs)}
    if len(value) <= WIDE:
        return list(value)
    if id(value) not in known:
        known[id(value)] = _narrow(value, blobs)
    return known[id(value)]


def _narrow(members: Sequence[Any], blobs: dict[str, bytes]) -> Any:
    if len(members) <= WIDE:
        return list(members)
    data = canonical_json(list(members))
    sha = hashlib.sha256(data).hexdigest()
    blobs[sha] = data
    return {"count": len(members), "digest": sha, "blob": sha}


# --- computing ---------------------------------------------------------------------------------------------------


class Judged(msgspec.Struct, frozen=True):
    """The verdicts, and which instances `--target` and `--up` let run."""

    layers: Sequence[int]
    judge: Judge
    wanted: set[int] | None  # the targets and everything they need; None without targets
    up_layers: set[int] | None  # the layers that `--up` lets run; None without `--up`

    def runs(self, node: int) -> bool:
        """Whether a dirty instance runs. Otherwise it is deferred."""
        wanted = self.wanted is None or node in self.wanted
        return wanted and (self.up_layers is None or self.layers[node] in self.up_layers)


def judge_instances(snapshot: PlanningSnapshot, options: PlanOptions) -> Judged:
    """Apply the options in their order: `--force`, `--target`, `--up`."""
    graph = snapshot.dependency_graph
    if options.up is not None and options.up < 1:
        raise error("USAGE", f"`--up {options.up}`: it takes the number of layers to run, from 1", hint=_UP)
    layers = compute_layers(graph) if options.force or options.targets else []
    forced = _forced(graph, layers, options.force)
    judge = Judge(snapshot, forced)
    if judge.suspects and not layers:  # not if there is nothing to judge: that must cost nearly nothing
        layers = compute_layers(graph)
    judge.judge_all(layers)
    if judge.problems:
        raise InvalidError(judge.problems.values())
    wanted = _wanted(graph, options.targets)
    if wanted is not None:
        _refuse_forcing_outside(graph, forced, wanted)
    up_layers = None
    if options.up is not None:
        dirty = (node for node, verdict in judge.verdicts.items() if verdict.state == "dirty")
        with_work = sorted({layers[node] for node in dirty if wanted is None or node in wanted})
        up_layers = set(with_work[: options.up])
    return Judged(layers, judge, wanted, up_layers)


def compute_execution_plan(snapshot: PlanningSnapshot, options: PlanOptions | None = None) -> Plan:
    options = options or PlanOptions()
    graph = snapshot.dependency_graph
    judged = judge_instances(snapshot, options)
    layers, verdicts = judged.layers, judged.judge.verdicts
    jobs = []
    for node in sorted((n for n, v in verdicts.items() if v.state != "clean"), key=lambda n: (layers[n], n)):
        jobs.append(planned_job(snapshot, node, verdicts.pop(node), layers[node], judged.runs(node)))
    return Plan(
        workflow=graph.workflow.name,
        log_position=snapshot.log_position,
        options=options,
        totals=_totals(graph, jobs),
        snapshot=_summary(snapshot),
        jobs=tuple(jobs),
    )


def planned_job(snapshot: PlanningSnapshot, node: int, verdict: Verdict, layer: int, runs: bool) -> PlannedJob:
    table, position = snapshot.dependency_graph.table_at(node)
    admitted: State = "open" if verdict.is_open else "planned"
    state: State = "inactive" if verdict.state == "inactive" else admitted if runs else "deferred"
    return PlannedJob(
        table.job_id(position), table.decl.uses, layer, state, verdict.reasons, verdict.bindings, verdict.reuse,
        verdict.conditional, verdict.because, node, _replaced(snapshot, node, verdict.reuse),
        _restorable(snapshot, node, verdict),
    )  # fmt: skip


def _restorable(snapshot: PlanningSnapshot, node: int, verdict: Verdict) -> Mapping[str, str]:
    """The outputs that a success had before the same step failed (with `--force`, or because its surroundings changed),
    each with the run that has it. Like `replaces`, it is not part of the digest."""
    record = snapshot.record(node)
    if record is None or record.success is None or verdict.reuse is not None or not snapshot.has_failed(node):
        return EMPTY
    same = record.success.fingerprint == record.latest.fingerprint
    if not same or any(reason.code not in _SAME_INPUTS for reason in verdict.reasons):
        return EMPTY
    missing = {reason.artifact for reason in verdict.reasons if isinstance(reason, MissingOutput)}
    made = {output.id for output in record.success.outputs if output_of(output.id) is not None}
    return {id_: run_name(record.success.run) for id_ in sorted(made & missing)}


def _replaced(snapshot: PlanningSnapshot, node: int, reuse: Reuse | None) -> Mapping[str, str]:
    """The adopted outputs that an execution or another result replaces, each with the run that adopted it. The plan
    does not depend on it, so it is not part of the digest."""
    record = snapshot.record(node)
    if record is None or not record.latest.ok:
        return EMPTY
    adopted = {id_: run_name(run) for id_, run in sorted(record.latest.adopted.items()) if output_of(id_) is not None}
    if reuse is None or not adopted:
        return adopted
    table, position = snapshot.dependency_graph.table_at(node)
    taken = {
        table.artifact_id(a, position): reuse.outputs[spec.key_at(position)].sha256
        for a, spec in enumerate(table.artifacts)
    }
    same = {output.id for output in record.latest.outputs if taken.get(output.id) == output.sha256}
    return {id_: run for id_, run in adopted.items() if id_ not in same}


def _totals(graph: Graph, jobs: Sequence[PlannedJob]) -> dict[str, int]:
    size = graph.size
    totals = {"jobs": size, "planned": 0, "reused": 0, "clean": size - len(jobs), "deferred": 0, "inactive": 0}
    if any(table.gates for table in graph.tables):
        totals["open"] = 0
    for job in jobs:
        totals["reused" if job.state == "planned" and job.reuse is not None else job.state] += 1
    return totals


def _summary(snapshot: PlanningSnapshot) -> dict[str, Any]:
    graph = snapshot.dependency_graph
    opens = frozenset(table.base + row for table in graph.tables for row in table.open_rows)
    statuses = {"succeeded": graph.size - len(opens), "failed": 0, "never_run": 0, "running": 0}
    failed: list[str] = []
    for node in snapshot.suspects:  # every other instance has succeeded
        if node in opens:
            continue
        record = snapshot.record(node)
        if record is not None and record.latest.ok:
            continue
        statuses["succeeded"] -= 1
        running = snapshot.is_running(node)
        statuses["never_run" if record is None else "running" if running else "failed"] += 1
        if record is not None and not running:
            table, p = graph.table_at(node)
            failed.extend(table.artifact_id(a, p) for a in range(len(table.artifacts)))
    available = sum(len(column) - column.count(None) for columns in snapshot.shas for column in columns)
    return {"available": available, "failed": failed, "inputs_changed": snapshot.inputs_changed, "jobs": statuses}


def _forced(graph: Graph, layers: Sequence[int], force: Sequence[str]) -> dict[int, str]:
    if not force:
        return {}
    from whyrun.planning.id_matching import match_nodes  # imported late: most plans force nothing

    forced: dict[int, str] = {}
    for text in sorted(set(force)):  # sorted, because the plan names the first option that matches a node
        if text.startswith("layer:"):
            number = text.removeprefix("layer:")
            nodes = [n for n, layer in enumerate(layers) if str(layer) == number]
            if not nodes:
                known = f"layers are 0 to {max(layers)}" if layers else "there is no job, so there is no layer"
                raise error("USAGE", f"`--force {text}`: there is no such layer", hint=known)
        else:
            nodes = list(range(graph.size)) if text == FORCE_ALL else match_nodes(graph, text, "--force")
        for node in nodes:
            forced.setdefault(node, text)
    return forced


def _wanted(graph: Graph, targets: Sequence[str]) -> set[int] | None:
    """The targets and everything they need, including `needs:`; None without targets."""
    if not targets:
        return None
    from whyrun.planning.id_matching import match_nodes  # imported late: most plans have no targets

    return needed_by(graph, [node for text in targets for node in match_nodes(graph, text, "--target")])


def needed_by(graph: Graph, stack: list[int]) -> set[int]:
    """These instances and everything that they need."""
    seen = set(stack)
    followed: set[int] = set()  # jobs that had their `needs` followed
    while stack:
        node = stack.pop()
        table, position = graph.table_at(node)
        upstream = list(graph.upstream(node))
        if position in table.open_rows:
            upstream.extend(_open_neighbours(graph, table))
        if table.number not in followed:
            followed.add(table.number)
            for number in table.needs:
                needed = graph.tables[number]
                upstream.extend(range(needed.base, needed.base + len(needed)))
        for other in upstream:
            if other not in seen:
                seen.add(other)
                stack.append(other)
    return seen


def _open_neighbours(graph: Graph, table: JobTable) -> Iterator[int]:
    """The rows `[?]` of jobs whose other instances an instance may read: `[x-1]`, which is no edge of `[?]`."""
    for number in {number for _, column in table.operand_columns() for number in tables_read(column)}:
        other = graph.tables[number]
        yield from (other.base + row for row in other.open_rows)


def _refuse_forcing_outside(graph: Graph, forced: Mapping[int, str], wanted: set[int]) -> None:
    for node, text in forced.items():
        if node not in wanted and text != FORCE_ALL:
            raise error(
                "USAGE",
                f"`--force {text}` names `{graph.job_id(node)}`, which the targets do not need",
                hint="force a job that the target needs, or omit `--target`",
            )
