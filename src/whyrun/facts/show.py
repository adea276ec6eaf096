"""The facts about one job, artifact, input or run, as JSON: `whyrun show` prints them, the viewer shows them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.facts.subjects import command_arguments
from whyrun.lazy_regex import lazy_regex

if TYPE_CHECKING:
    from whyrun.evidence.queries.history import HistoryEntry
    from whyrun.facts.subjects import Subject
    from whyrun.log.events import AnyEvent
    from whyrun.planning.answers.why import PlanView
    from whyrun.project import Project
    from whyrun.snapshot.records import StepRecord

Facts = dict[str, Any]
_TRACEBACK_FRAME = lazy_regex(r'^[ |]*File "(?P<file>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
_INSTALLED = ("site-packages", "dist-packages")
MOST_KEYS = 20  # of an array that names its elements
LOG_TAIL_LINES = 20  # of each log of a failed step
_LOG_TAIL_BYTES = 65536  # enough for these lines; a log can have gigabytes


def id_facts(project: Project, id_: str) -> Facts:
    from whyrun.errors import error
    from whyrun.facts.subjects import find_subject
    from whyrun.planning.answers.why import PlanView
    from whyrun.planning.plan import compute_execution_plan
    from whyrun.snapshot.results import is_over_results

    graph = project.settled_graph()
    if "*" in id_ and id_ not in graph.node_of and id_ not in graph.artifact_of:
        raise error(
            "USAGE",
            f"`{id_}`: `show` takes one ID, not a pattern",
            hint="`whyrun why` and `whyrun status` take a pattern",
        )
    if not is_over_results(project.workflow):
        find_subject(graph, id_)  # before the log is read: an unknown ID is the more useful error
    snapshot = project.snapshot()
    find_subject(snapshot.dependency_graph, id_, records=snapshot.records)
    return known_facts(project, PlanView(snapshot, compute_execution_plan(snapshot)), id_)


def known_facts(project: Project, known: PlanView, id_: str, history: Sequence[HistoryEntry] | None = None) -> Facts:
    """The facts about one ID, as this plan and its snapshot have them. `history`: of an artifact, if it was read."""
    from whyrun.facts.subjects import find_subject

    subject = find_subject(known.graph, id_)
    if subject.kind == "job":
        return job_facts(project, known, subject)
    if subject.kind == "artifact":
        return artifact_facts(project, known, subject, history)
    if subject.kind == "parameter":
        return parameter_facts(known, subject)
    return input_facts(project, known, subject)


# --- jobs --------------------------------------------------------------------------------------------------------


def job_facts(project: Project, known: PlanView, subject: Subject) -> Facts:
    from whyrun.evidence.queries.current import current_artifacts
    from whyrun.evidence.queries.reads import instance_reads
    from whyrun.graph.layers import compute_layers
    from whyrun.planning.answers.why import why_job

    graph = known.graph
    table, _ = graph.table_at(subject.node)
    action = known.snapshot.actions[table.name]
    facts: Facts = {
        "kind": "job",
        "id": subject.id,
        "action": action.name,
        "action_sha256": action.sha256,
        "layer": compute_layers(graph)[subject.node],
    }
    if table.condition is not None:
        facts["if"] = table.condition.expression.text
    if table.needs:
        facts["needs"] = [f"Job:{graph.tables[number].name}" for number in table.needs]
    why = why_job(known, subject.node).jobs[0].to_json()
    facts["state"] = why["state"]
    for key in ("reasons", "because", "reuse"):
        if key in why:
            facts[key] = why[key]
    if known.jobs.get(subject.node) is None or known.jobs[subject.node].state != "inactive":
        facts["bindings"], facts["parameters"] = _consumed(known, subject.node)
    if observed := instance_reads(known.snapshot, subject.node):
        facts["observed"] = observed
    record, is_running = known.snapshot.record(subject.node), known.snapshot.is_running(subject.node)
    facts["latest_attempt"] = latest_attempt(project, subject.id, record, is_running=is_running)
    outputs = current_artifacts(known.snapshot, known.plan, [subject.node])
    facts["outputs"] = [artifact.to_json() for artifact in outputs]
    return facts


def _consumed(known: PlanView, node: int) -> tuple[Facts, Facts]:
    """What the job would consume now: the sources of bindings, and the values of parameters (None: not known yet)."""
    table, _ = known.graph.table_at(node)
    consumption = known.consumption(node)
    parameters: Facts = {}
    for slot in table.slots:
        if not slot.binding:
            entry = consumption.entries.get(slot.name)
            parameters[slot.name.removeprefix(".")] = None if entry is None or isinstance(entry, list) else entry.value
    return dict(consumption.shown), parameters


def latest_attempt(project: Project, job: str, record: StepRecord | None, *, is_running: bool = False) -> Facts | None:
    """The last attempt of a job, as the log has it."""
    from whyrun.snapshot.records import run_name

    if record is None:
        return None
    latest, running = record.latest, is_running
    facts: Facts = {
        "run": run_name(latest.run),
        "attempt": latest.number,
        "status": latest.origin or ("succeeded" if latest.ok else "running" if running else latest.status),
        "duration": None if running else 0.0 if latest.origin else latest.duration,
        "fingerprint": latest.fingerprint,
    }
    if latest.costs:
        from whyrun.evidence.queries.costs import totals_json
        from whyrun.money import totals_of

        facts |= totals_json(totals_of([latest.costs]))
    if latest.kept is not None:
        by, because = latest.kept
        facts["kept"] = {"by": by, "because": because, "made_in": run_name(latest.made_in)}
    if latest.adopted:
        facts["adopted"] = {artifact: run_name(run) for artifact, run in sorted(latest.adopted.items())}
    if not latest.ok and not running:
        facts["error"] = f"{latest.error_type}: {latest.error}"
        facts |= _failure_facts(project, run_name(latest.run), job)
    elif "logs" in (printed := _log_facts(project, run_name(latest.run), job, " --output")):
        facts |= printed
    return facts


def _log_facts(project: Project, run: str, step: str, options: str = "") -> Facts:
    """The logs of a step, if it printed something, and the command that shows them."""
    import shlex

    from whyrun.console.files import relative

    logs = [relative(path) for path in step_logs(project.state.runs_dir / run, step)]
    see = f"whyrun log {run}{command_arguments(project)} --job {shlex.quote(step)}{options}"
    return {"logs": logs, "see": see} if logs else {"see": see}


def _failure_facts(project: Project, run_name: str, step: str) -> Facts:
    """How long a failed attempt took, where in the code it failed, its logs, and the command that shows them."""
    from whyrun.log import events as ev

    facts: Facts = {}
    run = project.state.run(run_name)
    failures = [e for e in run.events() if isinstance(e, ev.StepFailed) and e.step_id == step]
    # Planning records have durations of successes only, so read the log. A step that a repair ended has no duration.
    has_end = failures and failures[-1].error != ev.INTERRUPTED_ERROR
    facts["duration"] = failures[-1].duration if has_end else None
    location = failure_location(failures[-1].traceback, project.folder) if failures else None
    if location is not None:
        facts["place"] = location
    return facts | _log_facts(project, run_name, step)


def failure_location(traceback: str, project: str | os.PathLike[str]) -> str | None:
    """`weather.py:38`: the last frame of the traceback in the project's own code; None if there is none."""
    location = None
    for frame in _TRACEBACK_FRAME.finditer(traceback):
        path = frame["file"]
        if os.path.isabs(path):
            path = os.path.relpath(path, os.path.abspath(project))
        if not path.startswith(("..", "<")) and not any(part in _INSTALLED for part in path.split(os.sep)):
            location = f"{path}:{frame['line']}"
    return location


def step_logs(run_folder: Path, step: str) -> list[Path]:
    """The existing log files of a step; a step that prints nothing has none."""
    from whyrun.ids import file_name

    folder = run_folder / "steps" / file_name(step.removeprefix("Job:"))
    return [path for path in (folder / "stdout.log", folder / "stderr.log") if path.is_file()]


def last_lines(path: Path, lines: int = LOG_TAIL_LINES) -> tuple[list[str], bool]:
    """The last lines of a file, and whether it has more."""
    with path.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - _LOG_TAIL_BYTES))
        found = file.read().decode(errors="replace").splitlines()
    return found[-lines:], len(found) > lines or length > _LOG_TAIL_BYTES


# --- artifacts ---------------------------------------------------------------------------------------------------


def artifact_facts(
    project: Project, known: PlanView, subject: Subject, history: Sequence[HistoryEntry] | None = None
) -> Facts:
    from whyrun.evidence.queries.current import current_artifact
    from whyrun.facts.history import find_history
    from whyrun.planning.answers.why import direct_readers

    graph = known.graph
    at = graph.artifact_of[subject.id]
    artifact = current_artifact(known.snapshot, known.plan, subject.node, subject.id)
    facts: Facts = {"kind": "artifact", **artifact.to_json()}
    history = find_history(project, subject.id) if history is None else history
    facts["versions"] = len({version.sha256 for entry in history for version in entry.outputs})
    facts["read_by"] = direct_readers(graph, at)
    return facts


# --- inputs ------------------------------------------------------------------------------------------------------


def input_facts(project: Project, known: PlanView, subject: Subject) -> Facts:
    from whyrun.facts.why import readers_of_input

    value = subject.value
    assert value is not None
    facts: Facts = {"kind": "input", "id": subject.id, "type": str(value.type), "sha256": value.sha256}
    if value.is_absent:
        facts = {"kind": "input", "id": subject.id, "type": str(value.type), "absent": True}
    elif value.elements is not None:
        facts["elements"] = len(value.elements)
    if value.keys is not None:
        facts["keys"] = list(value.keys.order[:MOST_KEYS])
    if value.path is not None:
        facts["path"] = value.path
        facts["size"] = _size(project, value.path)
    elif not value.is_absent and (value.elements is None or not value.type.is_path):
        facts["value"] = value.value
    changed = known.snapshot.inputs_changed
    facts["changed"] = [c for c in changed if c == subject.id or c.startswith(f"{subject.id}[")]
    recorded = known.snapshot.records.inputs.get(subject.id)
    if recorded is not None and recorded.sha256 and recorded.sha256 != value.sha256:
        facts["recorded_sha256"] = recorded.sha256
    facts["read_by"] = [reader.job for reader in readers_of_input(project, known.graph, subject.id)]
    return facts


def _size(project: Project, path: str) -> int | None:
    """The size of a file; None for a folder."""
    import os

    full = os.path.join(project.folder, path)
    return os.path.getsize(full) if os.path.isfile(full) else None


def parameter_facts(known: PlanView, subject: Subject) -> Facts:
    table, position = known.graph.table_at(subject.node)
    facts: Facts = {"kind": "parameter", "id": subject.id, "job": table.job_id(position)}
    if subject.slot is None:
        action = known.snapshot.actions[table.name]
        return {**facts, "value": action.name, "sha256": action.sha256}
    entry = known.consumption(subject.node).entries.get(subject.slot.name)
    if entry is None or isinstance(entry, list):
        return {**facts, "known": False}
    return {**facts, "value": entry.value, "sha256": entry.sha256}


# --- runs --------------------------------------------------------------------------------------------------------


def run_facts(project: Project, name: str, also: Callable[[AnyEvent], None] | None = None) -> Facts:
    """`also`: gets every event of the run as well, so that a long log is read once."""
    from whyrun.evidence.queries.costs import spent_in, totals_json
    from whyrun.evidence.queries.history import inputs_in_force, summarize_run
    from whyrun.log import events as ev
    from whyrun.log.lock import running_run

    run = project.state.run(name)
    summary = summarize_run(run, running_run(project.state) == name, also)
    start = next((event for event in run.events() if isinstance(event, ev.RunStart)), None)
    facts: Facts = {"kind": "run", **summary.to_json()}
    if summary.outcome != summary.state:
        facts["outcome"] = summary.outcome
    spent = spent_in(run)
    facts |= totals_json(spent) if spent else {}
    if start is not None:
        facts |= {"options": start.options, "backend": start.backend, "host": start.host}
    runs, pruned = project.state.runs_and_tombstones()
    facts["inputs"] = [one.to_json() for one in inputs_in_force(runs, name, pruned)]
    facts["reasons"] = _headline_counts(run.path / "plan.json")
    files = sorted(entry for entry in run.path.iterdir())
    facts["files"] = {f.name + ("/" if f.is_dir() else ""): None if f.is_dir() else f.stat().st_size for f in files}
    return facts


def _headline_counts(path: Any) -> Facts:
    """First reason → number of planned jobs, from the stored plan of the run."""
    import json

    counts: Facts = {}
    if path.exists():
        for job in json.loads(path.read_bytes()).get("jobs", []):
            if job["state"] == "planned" and job["reasons"]:
                code = job["reasons"][0]["code"]
                counts[code] = counts.get(code, 0) + 1
    return dict(sorted(counts.items()))


def composition_facts(project: Project, run: str) -> Facts:
    """How the datasets of a run were composed. It is made anew from the log: `composition_summary.json` may be changed
    or missing."""
    import json

    from whyrun.errors import error
    from whyrun.evidence.composition.run_folder import RecordedFacts, summary_bytes
    from whyrun.log.lock import running_run

    name = project.state.run(run).path.name
    if name == running_run(project.state):
        raise error("USAGE", f"{name} has not ended: it has no summary yet", hint="wait until it ends")
    facts = RecordedFacts(project.state.runs_dir, project.store)
    composed = facts.run(name)
    if composed is None:
        message, hint = (
            f"{name} composes no datasets",
            "name a run of a workflow with `composition:`, or of a dataset plan",
        )
        if name in facts.lost:
            message, hint = f"the facts of {name} are damaged: {facts.lost[name]}", "`whyrun verify` shows all damage"
        raise error("USAGE", message, hint=hint)
    summary: Facts = json.loads(summary_bytes(composed, facts))
    return summary
