"""`whyrun show ID|RUN [FILE]`: the facts about one job, artifact, input or run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import project_options
from whyrun.cli.output import (
    bytes_text,
    columns,
    command_arguments,
    duration_text,
    failure_location,
    local_time,
    page,
    print_json,
    print_lines,
    short,
    state_text,
    step_logs,
    value_text,
)

if TYPE_CHECKING:
    from whyrun.cli.subjects import Subject
    from whyrun.planning.answers.why import PlanView
    from whyrun.project import Project

# --- facts as text -----------------------------------------------------------------------------------------------
#
# Renders facts as text for `whyrun show`: one name and value per line, and longer values as a block.


Facts = dict[str, Any]


def facts_lines(facts: Facts) -> Iterator[str]:
    """The lines for any kind of facts: the ID first, then simple values, then blocks."""
    yield f"{facts.get('id', facts.get('run'))}  ({facts['kind']})"
    yield from columns(_plain_rows(facts))
    for name, value in facts.items():
        rows = list(_BLOCKS[name](value)) if name in _BLOCKS and value else []
        if rows:
            yield f"  {name.replace('_', ' ')}"
            shown, rest = page(rows, False)
            yield from columns(shown, 4)
            if rest is not None:
                yield rest


def _plain_rows(facts: Facts) -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if name in ("kind", "id", *_BLOCKS) or value is None or (name == "run" and facts["kind"] == "run"):
            continue
        yield name.replace("_", " "), _plain(name, value)


def _plain(name: str, value: Any) -> str:
    match name:
        case "sha256" | "action_sha256" | "recorded_sha256":
            return str(value)
        case "size":
            return bytes_text(value)
        case "duration":
            return duration_text(value)
        case "started" | "ended":
            return local_time(value)
        case "value":
            return value_text(value, 1000)
        case "state" | "job_state":
            return state_text(value)
    return value if isinstance(value, str) else value_text(value)


def _items(value: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, one in value.items():
        yield name, one if isinstance(one, str) else value_text(one)


def _given_options(value: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The options of a run that differ from the default: None, an empty list or False."""
    yield from _items({name: one for name, one in value.items() if one})


def _values(value: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    yield from ((name, value_text(one)) for name, one in value.items())


def _files(value: Mapping[str, int | None]) -> Iterator[tuple[str, ...]]:
    for name, size in value.items():
        yield name, bytes_text(size)


def _attempt(value: Facts) -> Iterator[tuple[str, ...]]:
    for name, one in value.items():
        if one is None or (name == "attempt" and one == 0):
            continue  # a reused or adopted result has no attempt number
        if name == "adopted":
            yield from ((name if i == 0 else "", f"{id_} in {run}") for i, (id_, run) in enumerate(one.items()))
        elif name == "logs":
            yield from ((name if i == 0 else "", path) for i, path in enumerate(one))
        else:
            yield name, short(one) if name == "fingerprint" else _plain(name, one)


def _reasons(value: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        yield from ((code, str(number)) for code, number in value.items())
    else:
        yield from ((reason["code"], reason.get("text", "")) for reason in value)


def _outputs(value: list[Facts]) -> Iterator[tuple[str, ...]]:
    for one in value:
        what = value_text(one["value"], 40) if "value" in one else bytes_text(one.get("size"))
        run = " ".join(filter(None, (one.get("run"), one.get("origin"))))
        yield one["id"], one["state"], run, what, one.get("path", "")


def _inputs(value: list[Facts]) -> Iterator[tuple[str, ...]]:
    for one in value:
        content = f"{short(one['sha256'])}  {bytes_text(one.get('size'))}".rstrip()
        yield one["id"], value_text(one["value"], 60) if "value" in one else content, f"since {one['run']}"


def _each(value: list[str]) -> Iterator[tuple[str, ...]]:
    yield from ((one,) for one in value)


_BLOCKS: Mapping[str, Any] = {
    "reasons": _reasons,
    "because": _items,
    "bindings": _items,
    "parameters": _values,
    "latest_attempt": _attempt,
    "outputs": _outputs,
    "changed": _each,
    "read_by": _each,
    "options": _given_options,
    "inputs": _inputs,
    "files": _files,
}


# --- the command -------------------------------------------------------------------------------------------------


@click.command(short_help="Show one job, artifact, input or run.")
@click.argument("id_", metavar="ID|RUN")
@click.option("--composition", is_flag=True, help="For a run: show how its datasets were composed, as a tree.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@project_options
def command(project: Project, id_: str, composition: bool, as_json: bool) -> None:
    """Show everything that is known about one job, artifact, input or run.

    \b
    Example:
      whyrun show Job:Montage
      whyrun show 'Artifact:ThenImage.Image[0]'
      whyrun show 'Input:ThenImage[0].with.caption'
      whyrun show r0002
      whyrun show --composition r0002 plan.json --manifest inputs/manifest.json
    """
    from whyrun.cli.subjects import is_run_name
    from whyrun.log.runs import run_in_short

    if composition:
        show_composition(project, id_, as_json=as_json)
        return

    is_run = is_run_name(id_) or run_in_short(id_) is not None
    facts = run_facts(project, id_) if is_run else id_facts(project, id_)
    if as_json:
        print_json(facts)
    else:
        print_lines(facts_lines(facts))


def show_composition(project: Project, run: str, *, as_json: bool) -> None:
    from whyrun.console.render import composition_tree
    from whyrun.errors import error
    from whyrun.evidence.composition.run_folder import SummaryDamaged, read_summary, why_no_summary

    folder = project.state.run(run).path
    try:
        summary = read_summary(folder)
    except SummaryDamaged as problem:
        raise error("USAGE", str(problem), hint="see the run's `events.jsonl` and `manifest.yaml`") from None
    if summary is None:
        message, hint = why_no_summary(folder)
        raise error("USAGE", message, hint=hint)
    if as_json:
        print_json(summary)
    else:
        print_lines(composition_tree(summary).split("\n"))


def id_facts(project: Project, id_: str) -> Facts:
    from whyrun.cli.subjects import find_subject
    from whyrun.errors import error
    from whyrun.planning.answers.why import PlanView
    from whyrun.planning.plan import compute_execution_plan

    if "*" in id_ and id_ not in project.graph.node_of and id_ not in project.graph.artifact_of:
        raise error(
            "USAGE",
            f"`{id_}`: `show` takes one ID, not a pattern",
            hint="`whyrun why` and `whyrun status` take a pattern",
        )
    subject = find_subject(project.graph, id_)
    snapshot = project.snapshot()
    known = PlanView(snapshot, compute_execution_plan(snapshot))
    if subject.kind == "job":
        return job_facts(project, known, subject)
    if subject.kind == "artifact":
        return artifact_facts(project, known, subject)
    if subject.kind == "parameter":
        return parameter_facts(known, subject)
    return input_facts(project, known, subject)


# --- jobs --------------------------------------------------------------------------------------------------------


def job_facts(project: Project, known: PlanView, subject: Subject) -> Facts:
    from whyrun.evidence.queries.current import current_artifacts
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
    facts["latest_attempt"] = _latest_attempt(project, known, subject.node)
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


def _latest_attempt(project: Project, known: PlanView, node: int) -> Facts | None:
    from whyrun.snapshot.records import run_name

    record = known.snapshot.record(node)
    if record is None:
        return None
    latest = record.latest
    facts: Facts = {
        "run": run_name(latest.run),
        "attempt": latest.number,
        "status": latest.origin or ("succeeded" if latest.ok else latest.status),
        "duration": 0.0 if latest.origin else latest.duration,
        "fingerprint": latest.fingerprint,
    }
    if latest.adopted:
        facts["adopted"] = {artifact: run_name(run) for artifact, run in sorted(latest.adopted.items())}
    if not latest.ok:
        facts["error"] = f"{latest.error_type}: {latest.error}"
        facts |= _failure_facts(project, run_name(latest.run), known.graph.job_id(node))
    return facts


def _failure_facts(project: Project, run_name: str, step: str) -> Facts:
    """How long a failed attempt took, where in the code it failed, its logs, and the command that shows them."""
    import shlex

    from whyrun.console.paths import relative
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
    logs = [relative(path) for path in step_logs(run.path, step)]
    if logs:
        facts["logs"] = logs
    facts["see"] = f"whyrun log {run_name}{command_arguments(project)} --job {shlex.quote(step)}"
    return facts


# --- artifacts ---------------------------------------------------------------------------------------------------


def artifact_facts(project: Project, known: PlanView, subject: Subject) -> Facts:
    from whyrun.cli.commands.history import find_history
    from whyrun.evidence.queries.current import current_artifacts
    from whyrun.planning.answers.why import direct_readers

    graph = known.graph
    at = graph.artifact_of[subject.id]
    current = current_artifacts(known.snapshot, known.plan, [subject.node])
    artifact = next(one for one in current if one.id == subject.id)
    facts: Facts = {"kind": "artifact", **artifact.to_json()}
    facts["versions"] = len({v.sha256 for entry in find_history(project, subject.id) for v in entry.outputs})
    facts["read_by"] = direct_readers(graph, at)
    return facts


# --- inputs ------------------------------------------------------------------------------------------------------


def input_facts(project: Project, known: PlanView, subject: Subject) -> Facts:
    from whyrun.cli.commands.why import readers_of_input

    value = subject.value
    assert value is not None
    facts: Facts = {"kind": "input", "id": subject.id, "type": str(value.type), "sha256": value.sha256}
    if value.elements is not None:
        facts["elements"] = len(value.elements)
    if value.path is not None:
        facts["path"] = value.path
        facts["size"] = _size(project, value.path)
    elif value.elements is None or not value.type.is_path:
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


def run_facts(project: Project, name: str) -> Facts:
    from whyrun.evidence.queries.history import inputs_in_force
    from whyrun.evidence.queries.run_list import summarize_run
    from whyrun.log import events as ev
    from whyrun.log.lock import running_run

    run = project.state.run(name)
    summary = summarize_run(run, running_run(project.state) == name)
    start = next((event for event in run.events() if isinstance(event, ev.RunStart)), None)
    facts: Facts = {"kind": "run", **summary.to_json()}
    if summary.outcome != summary.state:
        facts["outcome"] = summary.outcome
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
