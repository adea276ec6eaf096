"""`whyrun show ID|RUN [FILE]`: all that is known of one job, artifact, input or run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.facts import Facts, facts_lines
from whyrun.cli.main import print_json, words_of, world_options
from whyrun.cli.text import print_lines

if TYPE_CHECKING:
    from whyrun.cli.subjects import Subject
    from whyrun.planning.known import KnownState
    from whyrun.snapshot.world import World


@click.command(short_help="Show one job, artifact, input or run.")
@click.argument("id_", metavar="ID|RUN")
@click.option("--composition", is_flag=True, help="Of a run: how its datasets were composed, as a tree.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@world_options
def command(world: World, id_: str, composition: bool, as_json: bool) -> None:
    """Show all that is known of one job, artifact, input or run.

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
        show_composition(world, id_, as_json=as_json)
        return

    is_run = is_run_name(id_) or run_in_short(id_) is not None
    facts = run_facts(world, id_) if is_run else id_facts(world, id_)
    if as_json:
        print_json(facts)
    else:
        print_lines(facts_lines(facts))


def show_composition(world: World, run: str, *, as_json: bool) -> None:
    from whyrun.console.composition import composition_tree
    from whyrun.errors import error
    from whyrun.evidence.composed_run import SummaryDamaged, read_summary, why_no_summary

    folder = world.state.run(run).path
    try:
        summary = read_summary(folder)
    except SummaryDamaged as problem:
        raise error(
            "USAGE", str(problem), hint="the run's `events.jsonl` and `manifest.yaml` have what it told"
        ) from None
    if summary is None:
        message, hint = why_no_summary(folder)
        raise error("USAGE", message, hint=hint)
    if as_json:
        print_json(summary)
    else:
        print_lines(composition_tree(summary).split("\n"))


def id_facts(world: World, id_: str) -> Facts:
    from whyrun.cli.subjects import find_subject
    from whyrun.errors import error
    from whyrun.planning.known import KnownState
    from whyrun.planning.plan import compute_execution_plan

    if "*" in id_ and id_ not in world.graph.node_of and id_ not in world.graph.artifact_of:
        raise error("USAGE", f"`{id_}`: `show` tells of one", hint="`whyrun why` and `whyrun status` take a pattern")
    subject = find_subject(world.graph, id_)
    snapshot = world.snapshot()
    known = KnownState(snapshot, compute_execution_plan(snapshot))
    if subject.kind == "job":
        return job_facts(world, known, subject)
    if subject.kind == "artifact":
        return artifact_facts(world, known, subject)
    if subject.kind == "parameter":
        return parameter_facts(known, subject)
    return input_facts(world, known, subject)


# --- jobs --------------------------------------------------------------------------------------------------------


def job_facts(world: World, known: KnownState, subject: Subject) -> Facts:
    from whyrun.evidence.current import current_artifacts
    from whyrun.graph.layers import compute_layers
    from whyrun.planning.why import why_job

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
    facts["latest_attempt"] = _latest(world, known, subject.node)
    outputs = current_artifacts(known.snapshot, known.plan, [subject.node])
    facts["outputs"] = [artifact.to_json() for artifact in outputs]
    return facts


def _consumed(known: KnownState, node: int) -> tuple[Facts, Facts]:
    """What it would consume now: bindings by their sources, parameters by their values (None: not known yet)."""
    table, _ = known.graph.table_at(node)
    found = known.consumption(node)
    parameters: Facts = {}
    for slot in table.slots:
        if not slot.binding:
            entry = found.entries.get(slot.name)
            parameters[slot.name.removeprefix(".")] = None if entry is None or isinstance(entry, list) else entry.value
    return dict(found.shown), parameters


def _latest(world: World, known: KnownState, node: int) -> Facts | None:
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
        facts |= _broke(world, run_name(latest.run), known.graph.job_id(node))
    return facts


def _broke(world: World, run_name: str, step: str) -> Facts:
    """When and where a failed attempt broke, and where what it wrote and its traceback stand."""
    import shlex

    from whyrun.cli.failures import failure_place, step_logs
    from whyrun.console.render import relative
    from whyrun.log import events as ev

    facts: Facts = {}
    run = world.state.run(run_name)
    failures = [e for e in run.events() if isinstance(e, ev.StepFailed) and e.step_id == step]
    # The records that plans are made from keep durations of successes only. Nobody saw the end of what a repair ended.
    seen = failures and failures[-1].error != ev.INTERRUPTED_ERROR
    facts["duration"] = failures[-1].duration if seen else None
    place = failure_place(failures[-1].traceback, world.project) if failures else None
    if place is not None:
        facts["place"] = place
    logs = [relative(path) for path in step_logs(run.path, step)]
    if logs:
        facts["logs"] = logs
    facts["see"] = f"whyrun log {run_name}{words_of(world)} --job {shlex.quote(step)}"
    return facts


# --- artifacts ---------------------------------------------------------------------------------------------------


def artifact_facts(world: World, known: KnownState, subject: Subject) -> Facts:
    from whyrun.cli.history import find_history
    from whyrun.evidence.current import current_artifacts
    from whyrun.planning.why import direct_readers

    graph = known.graph
    at = graph.artifact_of[subject.id]
    current = current_artifacts(known.snapshot, known.plan, [subject.node])
    artifact = next(one for one in current if one.id == subject.id)
    facts: Facts = {"kind": "artifact", **artifact.to_json()}
    facts["versions"] = len({v.sha256 for entry in find_history(world, subject.id) for v in entry.outputs})
    facts["read_by"] = direct_readers(graph, at)
    return facts


# --- inputs ------------------------------------------------------------------------------------------------------


def input_facts(world: World, known: KnownState, subject: Subject) -> Facts:
    from whyrun.cli.why import readers_of_input

    value = subject.value
    assert value is not None
    facts: Facts = {"kind": "input", "id": subject.id, "type": str(value.type), "sha256": value.sha256}
    if value.elements is not None:
        facts["elements"] = len(value.elements)
    if value.path is not None:
        facts["path"] = value.path
        facts["size"] = _size(world, value.path)
    elif value.elements is None or not value.type.is_path:
        facts["value"] = value.value
    changed = known.snapshot.inputs_changed
    facts["changed"] = [c for c in changed if c == subject.id or c.startswith(f"{subject.id}[")]
    recorded = known.snapshot.records.inputs.get(subject.id)
    if recorded is not None and recorded.sha256 and recorded.sha256 != value.sha256:
        facts["recorded_sha256"] = recorded.sha256
    facts["read_by"] = [reader.job for reader in readers_of_input(world, known.graph, subject.id)]
    return facts


def _size(world: World, path: str) -> int | None:
    """Of a file; the size of a folder says little."""
    import os

    full = os.path.join(world.project, path)
    return os.path.getsize(full) if os.path.isfile(full) else None


def parameter_facts(known: KnownState, subject: Subject) -> Facts:
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


def run_facts(world: World, name: str) -> Facts:
    from whyrun.evidence.run_inputs import inputs_in_force
    from whyrun.evidence.run_list import running_run, summarize_run
    from whyrun.log import events as ev

    run = world.state.run(name)
    summary = summarize_run(run, running_run(world.state) == name)
    start = next((event for event in run.events() if isinstance(event, ev.RunStart)), None)
    facts: Facts = {"kind": "run", **summary.to_json()}
    if summary.told_state != summary.state:
        facts["outcome"] = summary.told_state
    if start is not None:
        facts |= {"options": start.options, "backend": start.backend, "host": start.host}
    runs, pruned = world.state.runs_and_tombstones()
    facts["inputs"] = [one.to_json() for one in inputs_in_force(runs, name, pruned)]
    facts["reasons"] = _headline_counts(run.path / "plan.json")
    files = sorted(entry for entry in run.path.iterdir())
    facts["files"] = {f.name + ("/" if f.is_dir() else ""): None if f.is_dir() else f.stat().st_size for f in files}
    return facts


def _headline_counts(path: Any) -> Facts:
    """First reason → how many planned jobs, from the plan as the run stored it."""
    import json

    counts: Facts = {}
    if path.exists():
        for job in json.loads(path.read_bytes()).get("jobs", []):
            if job["state"] == "planned" and job["reasons"]:
                code = job["reasons"][0]["code"]
                counts[code] = counts.get(code, 0) + 1
    return dict(sorted(counts.items()))
