"""`whyrun status [ID]... [FILE]`: the state of the jobs, and the current artifacts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import UNSET

from whyrun.cli.options import names_and_project
from whyrun.cli.output import bytes_text, columns, local_time, page, print_json, print_lines, value_text
from whyrun.cli.subjects import is_id
from whyrun.console.lines import count

if TYPE_CHECKING:
    from whyrun.evidence.queries.current import CurrentArtifact, StaleFile
    from whyrun.evidence.queries.run_list import Unfinished
    from whyrun.planning.plan import Plan
    from whyrun.project import Project
    from whyrun.snapshot.snapshot import PlanningSnapshot


@click.command(short_help="Show the state of the jobs and the current artifacts.")
@names_and_project(is_id, "[ID]... [FILE]")
@click.option("--all", "show_all", is_flag=True, help="List every artifact, not only the first 50.")
@click.option("--json", "as_json", is_flag=True, help="Print the state as JSON.")
def command(project: Project, names: tuple[str, ...], show_all: bool, as_json: bool) -> None:
    """Show the state of the jobs, changed inputs, current artifacts, and leftover published files.

    IDs of jobs or artifacts choose the listed artifacts; `*` stands for a name or index.

    \b
    Example:
      whyrun status
      whyrun status 'Job:Clip[*]' then-now.yaml
    """
    status = current_status(project, names)
    if as_json:
        print_json(status.to_json())
    else:
        print_lines(_lines(status, show_all))


@dataclass(frozen=True, slots=True)
class Status:
    snapshot: PlanningSnapshot
    plan: Plan
    jobs: dict[str, int]
    unfinished: Unfinished | None
    artifacts: list[CurrentArtifact]
    stale: list[StaleFile]

    def to_json(self) -> dict[str, Any]:
        return {
            "workflow": self.plan.workflow,
            "log_position": self.snapshot.log_position,
            "unfinished": self.unfinished.to_json() if self.unfinished is not None else None,
            "jobs": self.jobs,
            "plan": dict(self.plan.totals),
            "inputs_changed": self.snapshot.inputs_changed,
            "artifacts": [artifact.to_json() for artifact in self.artifacts],
            "stale_files": [file.to_json() for file in self.stale],
        }


def current_status(project: Project, patterns: tuple[str, ...]) -> Status:
    from whyrun.evidence.queries.current import current_artifacts, stale_files, while_running
    from whyrun.evidence.queries.run_list import unfinished_run
    from whyrun.planning.plan import compute_execution_plan, match_nodes

    project.config, project.graph, project.actions  # noqa: B018  # report all problems together
    # Look for a running run before reading the log: it may end in between.
    last, unfinished = project.state.runs()[-1:], unfinished_run(project.state)
    snapshot = project.snapshot()
    if project.state.runs()[-1:] != last:
        unfinished = unfinished_run(project.state)  # a run has begun in between
    plan = compute_execution_plan(snapshot)
    graph = snapshot.dependency_graph
    open_steps = _open_steps(snapshot, unfinished)
    running = [step for step in open_steps if step in graph.node_of]
    if unfinished is not None and unfinished.state == "running":
        unfinished = msgspec.structs.replace(unfinished, open_steps=tuple(open_steps))
    artifacts = list(current_artifacts(snapshot, plan))
    if unfinished is not None and running:
        artifacts = list(while_running(artifacts, unfinished.run, set(running)))
    if patterns:
        wanted = _wanted(patterns)
        for pattern in patterns:
            match_nodes(graph, pattern)  # raises if nothing matches
        artifacts = [a for a in artifacts if any(p.matches(a.id) or p.matches(a.job) for p in wanted)]
    runs, pruned = project.state.runs_and_tombstones()
    stale = stale_files(graph, plan, runs, project.observer().published, pruned)
    return Status(snapshot, plan, _job_counts(plan, len(running)), unfinished, artifacts, stale)


def _wanted(patterns: tuple[str, ...]) -> list[Any]:
    from whyrun.ids import IdPattern

    return [IdPattern(pattern) for pattern in patterns]


def _open_steps(snapshot: PlanningSnapshot, unfinished: Unfinished | None) -> list[str]:
    """The open steps of a run in progress, as of the snapshot: the log grows, and later other steps are open."""
    from whyrun.log.events import INTERRUPTED_ERROR
    from whyrun.snapshot.records import run_name

    if unfinished is None or unfinished.state != "running":
        return []
    latest = ((step, record.latest) for step, record in snapshot.records.steps.items())
    interrupted = ((step, one) for step, one in latest if one.error == INTERRUPTED_ERROR)
    return sorted(step for step, one in interrupted if run_name(one.run) == unfinished.run)


def _job_counts(plan: Plan, running: int) -> dict[str, int]:
    """Instances by the state of their latest attempt. Open steps of a run in progress are running, not failed."""
    counts = dict(plan.snapshot["jobs"])
    counts["running"] += running
    counts["failed"] -= running
    return counts


def _lines(status: Status, show_all: bool) -> Iterator[str]:
    from whyrun.planning.answers.explain import headline

    yield headline(status.plan)
    yield "jobs: " + ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in status.jobs.items() if number)
    if status.unfinished is not None:
        yield _unfinished(status.unfinished)
    if status.snapshot.inputs_changed:
        yield "inputs that changed since the last run"
        shown, rest = page(status.snapshot.inputs_changed, show_all)
        yield from (f"  {id_}" for id_ in shown)
        if rest is not None:
            yield rest
    headlines = {job.node: job.headline or "" for job in status.plan.jobs}
    node_of = status.snapshot.dependency_graph.node_of
    if status.artifacts:
        yield "artifacts"
        artifacts, rest = page(status.artifacts, show_all)
        yield from columns(_row(artifact, headlines.get(node_of[artifact.job], "")) for artifact in artifacts)
        if rest is not None:
            yield rest
    if status.stale:
        yield "leftover published files: keep them, or delete them yourself"
        files, rest = page(status.stale, show_all)
        yield from columns((f.path, _stale(f)) for f in files)
        if rest is not None:
            yield rest


def _row(artifact: CurrentArtifact, headline: str) -> tuple[str, ...]:
    state = f"{artifact.state} ({artifact.change})" if artifact.change is not None else artifact.state
    run = (artifact.run or "") + (f" {artifact.origin}" if artifact.origin else "")
    what = value_text(artifact.value, 40) if artifact.value is not UNSET else bytes_text(artifact.size)
    return artifact.id, state, run, what, artifact.path or "", "" if artifact.state == "running" else headline


def _stale(file: StaleFile) -> str:
    why = "its job is inactive" if file.why == "inactive" else "no job makes it any more"
    return f"{file.artifact} from {file.run}; {why}" + ("; edited since" if file.edited else "")


def _unfinished(run: Unfinished) -> str:
    steps = f", {count(len(run.open_steps), 'step')} open" if run.open_steps else ""
    if run.state == "interrupted":
        return f"{run.run} was interrupted{steps}; the next run repairs its log"
    by = run.holder
    who = f" by process {by.pid} on {by.host} since {local_time(by.started)}" if by is not None else ""
    return f"{run.run} is running{who}{steps}"
