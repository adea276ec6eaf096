"""View 1: why a job is or is not in the plan: old and new content of each change, and the way to the cause."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.log import events as ev
from whyrun.viewer.contents import artifacts_of, content, input_content, suffix_of
from whyrun.viewer.current import OUTCOME_OF, STATE_OF, Params

if TYPE_CHECKING:
    from whyrun.facts.subjects import Subject
    from whyrun.log.runs import RunRef
    from whyrun.planning.answers.why import PlanView, Why
    from whyrun.planning.plan import PlannedJob
    from whyrun.snapshot.records import Attempt
    from whyrun.viewer.current import CurrentState, State

DIFFED = 64 << 10  # bytes of a text that is compared line by line
COMPARED = 4 << 20  # bytes of a content that is compared for a summary
DIFF_LINES = 400
CONSEQUENCES = 50
CHANGES = 100
FAILURES = 200  # of a run that are listed
PRINTED = 40  # last lines of what a failed step printed


def why_view(state: CurrentState, params: Params) -> dict[str, Any]:
    """`why ID --json`, and what a page needs to show it."""
    from whyrun.facts.subjects import find_subject
    from whyrun.facts.why import input_answer, why_body, why_head, why_node

    id_, at = params.one("id"), params.maybe("at") or state.at
    found, known = _plan_at(state, at)
    subject = find_subject(found.snapshot.dependency_graph, id_)
    words = ["why", id_, *(["--at", at] if at else [])]
    body: dict[str, Any] = {"command": state.command(*words), "id": id_, "kind": subject.kind, "at": at}
    head = why_head(found, id_, at)
    if subject.kind == "input":
        answer = input_answer(state.project, found, known, subject, at)
        return {**body, "answer": {**head, **answer}, "input": _input(state, subject)}
    why = why_node(state.project, known, subject.node, whole=bool(params.maybe("all")))
    body["answer"] = {**head, **why_body(why)}
    return {**body, **_of_job(state, known, subject, why, at)}


def _plan_at(state: CurrentState, at: str | None) -> tuple[Any, PlanView]:
    from whyrun.facts.plans import plan_of_run
    from whyrun.planning.answers.why import PlanView

    if at is None or at == state.at:
        return state.found, state.known
    found = plan_of_run(state.project, at)
    return found, PlanView(found.snapshot, found.plan)


def _input(state: CurrentState, subject: Subject) -> dict[str, Any]:
    from whyrun.facts.show import known_facts

    body: dict[str, Any] = {"facts": known_facts(state.project, state.known, subject.id)}
    assert subject.value is not None
    if subject.value.elements is None and state.at is None:
        body["content"] = input_content(state, subject.id, subject.value)
    recorded = body["facts"].get("recorded_sha256")
    if recorded and subject.value.type.is_path:
        body["before"] = content(state, recorded, subject.value.type.base, _input_suffix(subject.value.path))
    return body


def _input_suffix(path: str | None) -> str:
    return os.path.splitext(path or "")[1]


def _of_job(state: CurrentState, known: PlanView, subject: Subject, why: Why, at: str | None) -> dict[str, Any]:
    from whyrun.facts.show import known_facts, latest_attempt
    from whyrun.planning.answers.explain import job_json

    node, graph = subject.node, known.graph
    job = known.jobs.get(node)
    id_ = graph.job_id(node)
    body: dict[str, Any] = {
        "job_id": id_,
        "explain": job_json(job) if job is not None else None,
        "roots": [root.id for root in why.roots],
        "chain": _chain(why),
        "changes": [],
        "failure": None,
    }
    if job is not None:
        body["changes"] = list(_changes(state, known, job))[:CHANGES]
    if at is None or at == state.at:
        body["job"] = known_facts(state.project, known, id_)
        if at is not None:
            body["job"]["latest_attempt"] = latest_attempt(state.project, id_, state.record(node))
            body["job"]["outputs"] = [artifact.to_json() for artifact in artifacts_of(state, [node])]
        body["failure"] = failure_of(state, node)
        body["outcome"] = OUTCOME_OF[state.outcomes[node]]
        downstream = sorted(n for n in graph.downstream([node], within=known.jobs) if n != node)
        body["consequences"] = {
            "count": len(downstream),
            "first": [{"id": graph.job_id(n), "state": STATE_OF[state.states[n]]} for n in downstream[:CONSEQUENCES]],
        }
    return body


def reasons_of(state: CurrentState, nodes: Sequence[int], *, brief: bool = False) -> list[dict[str, Any]]:
    """The answers of many jobs, without contents: the log is read once for all that are clean. `brief`: of clean jobs
    only their last success."""
    from whyrun.planning.answers.why import why_job

    known = state.known
    clean = [node for node in nodes if node not in known.jobs]
    successes = {node: record.last_success() for node in clean if (record := state.found.snapshot.record(node))}
    consumed = {} if brief else state.log.consumed([success for success in successes.values() if success is not None])
    answers = []
    for node in nodes:
        success = successes.get(node)
        if success is not None and brief:
            answers.append(_brief(state, node, success))
            continue
        then = None if success is None else consumed.get((success.run, success.seq))
        answers.append(_answer(state, node, why_job(known, node, consumed=then)))
    return answers


def _answer(state: CurrentState, node: int, why: Why) -> dict[str, Any]:
    from whyrun.facts.why import why_body, why_head
    from whyrun.planning.answers.explain import job_json

    id_, job = state.graph.job_id(node), state.known.jobs.get(node)
    return {
        **_head(state, node),
        "answer": {**why_head(state.found, id_, state.at), **why_body(why)},
        "explain": job_json(job) if job is not None else None,
        "roots": [root.id for root in why.roots],
        "chain": _chain(why),
    }


def _brief(state: CurrentState, node: int, success: Attempt) -> dict[str, Any]:
    """A clean job without what it has compared, in the same form."""
    from whyrun.facts.why import why_head
    from whyrun.snapshot.records import run_name

    id_ = state.graph.job_id(node)
    last = {"run": run_name(success.run), "attempt": success.number, "how": success.origin or "executed"}
    job = {"id": id_, "depth": 0, "state": "clean", "last_success": last, "compared": [], "causes": []}
    body = {"job": id_, "jobs": [job], "roots": [id_], "more": 0, "brief": True}
    return {
        **_head(state, node),
        "answer": {**why_head(state.found, id_, state.at), **body},
        "explain": None,
        "roots": [id_],
        "chain": [],
    }


def _head(state: CurrentState, node: int) -> dict[str, Any]:
    id_ = state.graph.job_id(node)
    return {
        "id": id_,
        "kind": "job",
        "job_id": id_,
        "command": state.command("why", id_, *(["--at", state.at] if state.at else [])),
        "changes": [],
        "failure": None,
        "outcome": OUTCOME_OF[state.outcomes[node]],
    }


def _chain(why: Why) -> list[dict[str, Any]]:
    """From the job to its first root cause, one step a job."""
    by_id = {job.id: job for job in why.jobs}
    chain, seen = [], set[str]()
    here = why.jobs[0] if why.jobs else None
    while here is not None and here.id not in seen:
        seen.add(here.id)
        first = here.reasons[0] if here.reasons else None
        chain.append(
            {
                "id": here.id,
                "state": here.state,
                "code": first.code if first is not None else None,
                "text": first.text(here.id) if first is not None else "",
            }
        )
        here = next((by_id[cause] for cause in here.causes if cause in by_id), None)
    return chain


# --- old and new -----------------------------------------------------------------------------------------------------


def _changes(state: CurrentState, known: PlanView, job: PlannedJob) -> Iterator[dict[str, Any]]:
    """For each reason with an old and a new content: both of them, as far as they are kept."""
    from whyrun.planning.input_changes import InputChanged

    for number, reason in enumerate(job.reasons):
        if not isinstance(reason, InputChanged) or reason.read is not None:
            continue  # the content of undeclared files is not kept
        source = reason.source or reason.old_source
        old = _side(state, known, reason.old_source or source, reason.old, reason.old_value, is_new=False)
        new = _side(state, known, source, reason.new, reason.new_value, is_new=True)
        change = {"reason": number, "name": reason.binding, "id": source, "old": old, "new": new}
        if reason.files is not None:
            change["files"] = list(reason.files)
        yield {**change, **diff_of(state, old, new)}


def _side(
    state: CurrentState, known: PlanView, source: str | None, sha256: str | None, value: Any, *, is_new: bool
) -> dict[str, Any] | None:
    if sha256 is None:
        return None
    if value is not None:
        return {"kind": "value", "sha256": sha256, "value": value}
    if source is not None and source in state.graph.artifact_of:
        return content(state, sha256, *type_of(state, source))
    found = _input_value(known.graph.inputs, source)
    if found is None:
        return {"kind": "value", "sha256": sha256, "kept": False}
    if is_new and found.sha256 == sha256 and state.at is None:
        return input_content(state, source or "", found)
    if not found.type.is_path:
        return {"kind": "value", "sha256": sha256, "kept": False}
    return content(state, sha256, found.type.base, _input_suffix(found.path)) | {"path": found.path}


def type_of(state: CurrentState, id_: str) -> tuple[str, str]:
    """The type and the suffix of an artifact or input."""
    at = state.graph.artifact_of.get(id_)
    if at is not None:
        return state.graph.tables[at.table].artifacts[at.artifact].type, suffix_of(state, id_)
    value = _input_value(state.graph.inputs, id_)
    return ("file", "") if value is None else (value.type.base, _input_suffix(value.path))


def _input_value(inputs: Mapping[str, Any], id_: str | None) -> Any:
    from whyrun.graph.inputs import lookup
    from whyrun.workflow.inputs import IndexProblem

    if id_ is None or not id_.startswith("Input:"):
        return None
    try:
        return lookup(inputs, id_)
    except (IndexProblem, KeyError):
        return None  # a parameter of a job, which has only a hash


def diff_of(state: CurrentState, old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    """What differs, in a few words, and the lines if both sides are texts; as far as both are kept and not large."""
    if old is None or new is None:
        return {}
    before, after = _path_of(state, old), _path_of(state, new)
    if before is None or after is None:
        texts = [side.get("value") for side in (old, new)]
        is_text = all(isinstance(text, str) and "\n" in text for text in texts)
        return diff_lines(str(texts[0]), str(texts[1])) if is_text else {}
    return {**_summary(before, after, new["kind"]), **_text_diff(before, after, new["kind"])}


def _summary(old: str, new: str, kind: str) -> dict[str, Any]:
    from whyrun.artifacts.compare.files import compare_files
    from whyrun.artifacts.compare.result import CompareSettings

    type_ = kind if kind in ("image", "text", "json") else "file"
    if max(map(os.path.getsize, (old, new))) > COMPARED:
        return {}
    found = compare_files(Path(old), Path(new), type_, os.path.splitext(new)[1], CompareSettings())
    return {"summary": found.summary}


def _text_diff(old: str, new: str, kind: str) -> dict[str, Any]:
    if kind not in ("text", "json", "table", "graph", "html") or max(map(os.path.getsize, (old, new))) > DIFFED:
        return {}
    try:
        return diff_lines(Path(old).read_text("utf-8"), Path(new).read_text("utf-8"))
    except UnicodeDecodeError:
        return {}


def _path_of(state: CurrentState, side: dict[str, Any]) -> str | None:
    """Where the bytes of a side are; None if they are not kept, or it is a value."""
    if "href" not in side:
        return None
    if side["href"].startswith("blob/"):
        return state.project.store.path(side["sha256"])
    path = os.path.join(state.project.folder, side["path"])
    return path if os.path.isfile(path) else None


def diff_lines(old: str, new: str) -> dict[str, Any]:
    lines = []
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), n=3, lineterm=""):
        if line.startswith(("---", "+++")):
            continue
        lines.append(["@", line] if line.startswith("@@") else [line[:1], line[1:]])
    body: dict[str, Any] = {"diff": lines[:DIFF_LINES]}
    return body | ({"diff_more": len(lines) - DIFF_LINES} if len(lines) > DIFF_LINES else {})


# --- failures --------------------------------------------------------------------------------------------------------


def failure_of(state: CurrentState, node: int) -> dict[str, Any] | None:
    """What the last attempt of a job says, if it failed: error, traceback, place, and what it printed last."""
    from whyrun.snapshot.records import run_name

    record = state.record(node)
    if record is None or record.latest.ok:
        return None
    run = state.project.state.run(run_name(record.latest.run))
    if run.name not in state.failures:
        state.failures[run.name] = found = Failures()
        for event in run.events():
            found.add(event)
    told = state.failures[run.name].listed(state, run, [state.graph.job_id(node)])
    if told:
        return told[0]
    latest = record.latest
    error = f"{latest.error_type}: {latest.error}"
    return {"run": run_name(latest.run), "attempt": latest.number, "status": latest.status, "error": error}


class Failures:
    """The failed steps of a run, each with its last failure, as its events tell one after the other."""

    def __init__(self) -> None:
        self._attempts: dict[str, int] = {}
        self._found: dict[str, tuple[int | None, ev.StepFailed]] = {}

    def add(self, event: Any) -> None:
        kind = type(event)
        if kind is ev.StepStart:
            self._attempts[event.step_id] = event.attempt
        elif kind is ev.StepFailed:
            self._found.pop(event.step_id, None)
            self._found[event.step_id] = self._attempts.get(event.step_id), event
        elif kind is ev.StepComplete:
            self._found.pop(event.step_id, None)

    def listed(self, state: State, run: RunRef, steps: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Those of these steps, or the first ones, with what they printed last."""
        from whyrun.facts.show import failure_location, last_lines, step_logs

        failures = []
        for step in islice(self._found, FAILURES) if steps is None else steps:
            if step not in self._found:
                continue
            attempt, event = self._found[step]
            failure: dict[str, Any] = {
                "id": step, "run": run.name, "attempt": attempt, "status": event.status,
                "error_type": event.error_type, "error": event.error, "traceback": event.traceback,
                "place": failure_location(event.traceback, state.project.folder), "duration": event.duration,
                "will_retry": event.will_retry,
            }  # fmt: skip
            for path in step_logs(run.path, step):
                failure[path.stem] = last_lines(path, PRINTED)[0]
            failures.append(failure)
        return failures
