"""The past: attempts of a job, versions of an artifact, what differs between two runs, and the events of a log."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.json_values import value_text

if TYPE_CHECKING:
    from whyrun.artifacts.compare.result import CompareSettings, Comparison
    from whyrun.artifacts.store import Store
    from whyrun.evidence.queries.diff import RunDiff, RunSide
    from whyrun.evidence.queries.history import HistoryEntry, RunSummary
    from whyrun.log.events import RunComplete
    from whyrun.log.runs import RunRef
    from whyrun.log.tombstones import Tombstone
    from whyrun.project import Project
    from whyrun.snapshot.records import Output


# --- what the events of a log say -------------------------------------------------------------------------------------
# their names, their steps, how a step ended, and their details on one line.


_HEAD = ("seq", "ts", "session", "event", "chain", "step_id", "v")
# These would make a line too long; `--json` has them.
_LONG = frozenset({"bindings", "traceback", "previous_chain", "fingerprint", "plan_sha256", "snapshot_sha256"})


def event_names() -> list[str]:
    from typing import get_args

    from whyrun.log.events import AnyEvent

    return sorted(str(kind.__struct_config__.tag) for kind in get_args(AnyEvent))


def step_of(fields: dict[str, Any]) -> str:
    """The step of an event. A comparison has only the artifact; its ID names the step."""
    if fields["event"] != "comparison" or fields.get("step_id") is not None:
        return str(fields.get("step_id", ""))
    from whyrun.ids import job_of

    return job_of(fields["artifact"])


def status_of(fields: dict[str, Any]) -> str | None:
    """The final status of a step or task; None for other events."""
    match fields["event"]:
        case "step_complete" | "step_failed" | "comparison" | "task":
            return str(fields["status"])
        case "step_skipped" | "step_blocked":
            return "SKIPS"
    return None


def event_details(fields: dict[str, Any]) -> str:
    """The particulars of an event on one line, without its time, name and step."""
    details = []
    for name, value in fields.items():
        if name in _HEAD or name in _LONG or value in (None, "", [], {}):
            continue
        if name in ("sha256", "cut_sha256", "workflow_sha256"):
            value = f"{value[:8]}…"
        details.append(f"{name}={value if isinstance(value, str) and ' ' not in value else value_text(value)}")
    return " ".join(details)


# --- history ----------------------------------------------------------------------------------------------------------


def runs_json(project: Project) -> dict[str, Any]:
    """The runs of a workflow as `whyrun runs --json` prints them."""
    from whyrun.evidence.queries.history import list_runs

    runs, pruned = list_runs(project.state), project.state.tombstones()
    body: dict[str, Any] = {"workflow": project.state.workflow, "runs": [run.to_json() for run in runs]}
    return {**body, "pruned": [tombstone_json(stone) for stone in pruned]} if pruned else body


READ_AT_ONCE = 4 << 20  # bytes of a log that is read for a line in a list; of a longer one, its beginning and its end


def recent_runs(project: Project, most: int, through: str | None = None) -> dict[str, Any]:
    """The last runs (up to the run `through`), and how many there are in all.

    Of a run with a long log only what its first and its last line say: `planned` and `reused` are None."""
    from whyrun.errors import StateError
    from whyrun.log.lock import running_run

    running = running_run(project.state)
    kept, stones = project.state.runs_and_tombstones()
    if through is not None:
        kept = [run for run in kept if run.number <= int(through[1:])]
        stones = [stone for stone in stones if stone.number <= int(through[1:])]
    runs = []
    for run in kept[-most:]:
        try:
            runs.append(_listed(run, run.name == running and through is None))
        except StateError as refused:
            if refused.diagnostics[0].code != "RUN_PRUNED":
                raise  # RUN_PRUNED: it was pruned after the runs were listed
    return {"runs": runs, "pruned": [tombstone_json(stone) for stone in stones], "total": len(kept)}


def _listed(run: RunRef, is_running: bool) -> dict[str, Any]:
    from whyrun.evidence.queries.history import run_end, summarize_run

    size = run.status().st_size
    end = run_end(run)
    if size > READ_AT_ONCE:
        return _brief(run, end, is_running)
    return summarize_run(run, is_running).to_json() if end is None else _ended(run, size).to_json()


@lru_cache(maxsize=1024)  # a viewer lists the same runs again and again
def _ended(run: RunRef, size: int) -> RunSummary:
    from whyrun.evidence.queries.history import summarize_run

    del size  # of another log, if the state was deleted meanwhile
    return summarize_run(run, False)


def _brief(run: RunRef, end: RunComplete | None, is_running: bool) -> dict[str, Any]:
    from whyrun.evidence.queries.history import RunSummary
    from whyrun.log.events import RunStart

    start = next(iter(run.events()))
    assert isinstance(start, RunStart), "the log has been folded"
    counts, state = (end.counts, end.state) if end else (dict[str, int](), "running" if is_running else "interrupted")
    ended, duration, problem = (end.ts, end.duration, end.error) if end else (None, None, None)
    summary = RunSummary(
        run.name, state, start.mode, start.ts, ended, duration, 0, counts.get("completed", 0), 0,
        counts.get("skipped", 0), counts.get("failed", 0) + counts.get("timed_out", 0), counts.get("blocked", 0),
        counts.get("interrupted", 0), problem,
    )  # fmt: skip
    return {**summary.to_json(), "planned": None, "reused": None}


def tombstone_json(stone: Tombstone) -> dict[str, Any]:
    names = ("run", "mode", "state", "started", "ended", "events", "chain", "pruned")
    return {name: getattr(stone, name) for name in names}


def find_history(project: Project, id_: str) -> list[HistoryEntry]:
    """The entries for an ID or pattern; UNKNOWN_REFERENCE if neither the log nor the workflow has it."""
    from whyrun.errors import error
    from whyrun.evidence.queries.history import artifact_versions, job_history
    from whyrun.log.lock import running_run
    from whyrun.planning.id_matching import match_nodes, read_pattern

    pattern = read_pattern(id_, project.settled_graph)
    if id_.startswith("Input:"):
        raise error("USAGE", f"`{id_}`: inputs have no attempts", hint="write `Job:…` or `Artifact:…`")
    runs, running = project.state.runs(), running_run(project.state)
    if id_.startswith("Job:"):
        entries = list(job_history(runs, pattern.matches, running))
    else:
        entries = list(artifact_versions(job_history(runs, _is_producer(id_), running), pattern.matches))
    if not entries:
        match_nodes(project.settled_graph(), id_)  # raises if the workflow does not have it either
    return entries


def find_histories(project: Project, artifacts: Collection[str]) -> dict[str, list[HistoryEntry]]:
    """What `find_history` says of each of these artifacts; the log is read once."""
    from whyrun.evidence.queries.history import job_history
    from whyrun.log.lock import running_run

    found: dict[str, list[HistoryEntry]] = {artifact: [] for artifact in artifacts}
    for entry in job_history(project.state.runs(), _is_producer(*artifacts), running_run(project.state)):
        for version in entry.outputs if entry.succeeded else ():
            if version.artifact in found:
                found[version.artifact].append(replace(entry, outputs=[version]))
    return found


def _is_producer(*artifacts: str) -> Callable[[str], bool]:
    """A test whether a step can have made one of these, by the name of its job. A pattern admits every step."""
    from whyrun.ids import parse_id, without_indices

    if any("*" in artifact for artifact in artifacts):
        return lambda step: True
    jobs = {f"Job:{parse_id(artifact).job}" for artifact in artifacts}
    return lambda step: without_indices(step) in jobs  # parsing 100,000 IDs takes longer than reading the log


def difference(project: Project, old: str, new: str) -> RunDiff:
    from whyrun.evidence.queries.diff import changed_jobs, diff_runs

    sides = _side(project, old), _side(project, new)
    jobs = changed_jobs(*sides)
    before, after = (replace(side, parameters=_parameters(project, side, jobs)) for side in sides)
    return diff_runs(before, after)


def _parameters(project: Project, side: RunSide, jobs: Collection[str]) -> dict[str, Any]:
    """The parameters that these jobs consumed, as far as their runs are still there: ID → hash, and small value."""
    log = project.history(through=project.state.run(side.run).number)
    there = {run.number for run in log.runs}
    attempts = {job: side.records.steps[job].latest for job in jobs}
    consumed = log.consumed(attempt for attempt in attempts.values() if attempt.run in there)
    parameters: dict[str, Any] = {}
    for job, attempt in attempts.items():
        own = f"Input:{job.removeprefix('Job:')}."
        for entries in consumed.get((attempt.run, attempt.seq), {}).values():
            for entry in entries if isinstance(entries, list) else ():
                if entry["id"].startswith(own) and not entry["id"].endswith(".action"):
                    small = {"value": entry["value"]} if "value" in entry else {}
                    parameters[entry["id"]] = {"sha256": entry["sha256"], **small}
    return parameters


def content_differences(project: Project, diff: RunDiff) -> dict[str, Comparison]:
    """By artifact that both runs have with another hash: what differs in the stored bytes, compared as `whyrun compare`
    compares them. Values are in the difference itself."""
    from whyrun.artifacts.compare.result import CompareSettings

    changed = [
        d.id
        for d in diff.artifacts
        if all(side and "sha256" in side and "value" not in side for side in (d.old, d.new))
    ]
    outputs = [_outputs_after(project, run, changed) for run in (diff.old, diff.new)]
    settings: dict[str, CompareSettings] = {}
    for table in project.graph.tables:
        for a, spec in enumerate(table.artifacts):
            declared = table.decl.outputs[spec.output].compare
            if not spec.is_leaf and declared is not None:
                own = CompareSettings(declared.keys, declared.tolerance)
                settings |= dict.fromkeys(table.artifact_ids(a), own)
    return {
        id_: _compare_stored(project, outputs[0][id_], outputs[1][id_], settings.get(id_, CompareSettings()))
        for id_ in changed
    }


def _outputs_after(project: Project, run: str, wanted: Collection[str]) -> dict[str, Output]:
    records = project.history(through=project.state.run(run).number).records
    names = set(wanted)
    return {
        output.id: output
        for record in records.steps.values()
        if record.latest.ok
        for output in record.latest.outputs
        if output.id in names
    }


def _compare_stored(project: Project, old: Output, new: Output, settings: CompareSettings) -> Comparison:
    from whyrun.artifacts.compare.files import compare_files, compare_trees
    from whyrun.artifacts.compare.result import Comparison

    if old.type != new.type:
        return Comparison(False, f"{old.type} before, {new.type} now")
    store = project.store
    lost = [side for side, output in (("old", old), ("new", new)) if not _is_stored(store, output)]
    if lost:
        return Comparison(False, f"not compared: the {' and the '.join(lost)} bytes are no longer stored")

    def locate(sha256: str) -> Path:
        store.check(sha256)  # comparing damaged bytes would only describe the damage
        return Path(store.path(sha256))

    if new.type == "directory":
        return compare_trees(store.read_tree(old.sha256), store.read_tree(new.sha256), locate, settings)
    return compare_files(locate(old.sha256), locate(new.sha256), new.type, new.suffix, settings)


def _is_stored(store: Store, output: Output) -> bool:
    return store.has_tree(output.sha256) if output.type == "directory" else store.has(output.sha256, output.size)


def _side(project: Project, name: str) -> RunSide:
    from whyrun.evidence.queries.diff import RunSide
    from whyrun.facts.plans import plan_of_run
    from whyrun.log import events as ev

    run = project.state.run(name)
    log = project.history(through=run.number)
    records, last_pruned = log.records, log.last_pruned
    first = next(iter(run.events()), None)
    if isinstance(first, ev.RunStart) and first.mode != "run":
        return RunSide(name, None, {}, records, last_pruned=last_pruned)
    planned = plan_of_run(project, name)
    # A job is inactive by the plan, or by a condition that the run evaluated.
    inactive = {job.id for job in planned.plan.jobs if job.state == "inactive"}
    inactive |= {e.step_id for e in run.events() if isinstance(e, ev.StepSkipped) and e.why not in ("reused", "budget")}
    return RunSide(name, planned.plan, planned.snapshot.actions, records, frozenset(inactive), last_pruned)
