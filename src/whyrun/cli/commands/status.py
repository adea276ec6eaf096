"""`whyrun status [ID]... [FILE]`: where things stand, and the list of current artifacts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET

from whyrun.cli.main import print_json
from whyrun.cli.subjects import KINDS, words_and_world
from whyrun.cli.text import bytes_text, columns, local_time, page, print_lines, value_text
from whyrun.console.lines import count

if TYPE_CHECKING:
    from whyrun.evidence.current import CurrentArtifact, StaleFile
    from whyrun.evidence.run_list import Unfinished
    from whyrun.planning.plan import Plan
    from whyrun.snapshot.snapshot import PlanningSnapshot
    from whyrun.snapshot.world import World


@click.command(short_help="Show the state of jobs and the current artifacts.")
@words_and_world(lambda word: word.startswith(KINDS), "[ID]... [FILE]")
@click.option("--all", "show_all", is_flag=True, help="List every artifact, however many.")
@click.option("--json", "as_json", is_flag=True, help="Print the state as JSON.")
def command(world: World, words: tuple[str, ...], show_all: bool, as_json: bool) -> None:
    """Show where things stand: jobs, inputs that changed, current artifacts, leftover published files.

    IDs of jobs or artifacts choose what is listed; `*` stands for a whole name or index.

    \b
    Example:
      whyrun status
      whyrun status 'Job:Clip[*]' then-now.yaml
    """
    found = look(world, words)
    if as_json:
        print_json(found.to_json())
    else:
        print_lines(_lines(found, show_all))


@dataclass(frozen=True, slots=True)
class State:
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


def look(world: World, patterns: tuple[str, ...]) -> State:
    from whyrun.evidence.current import current_artifacts, stale_files, while_running
    from whyrun.evidence.run_list import unfinished_run
    from whyrun.planning.plan import compute_execution_plan, match_nodes

    world.config, world.graph, world.actions  # noqa: B018  # all that is invalid is told at once
    # Before the log is read: a run that ends in between was running when the snapshot was taken.
    last, unfinished = world.state.runs()[-1:], unfinished_run(world.state)
    snapshot = world.snapshot()
    if world.state.runs()[-1:] != last:
        unfinished = unfinished_run(world.state)  # one has begun in between
    plan = compute_execution_plan(snapshot)
    graph = snapshot.dependency_graph
    open_steps = _open_steps(snapshot, unfinished)
    running = [step for step in open_steps if step in graph.node_of]
    if unfinished is not None and unfinished.state == "running":
        unfinished = replace(unfinished, open_steps=tuple(open_steps))
    artifacts = list(current_artifacts(snapshot, plan))
    if unfinished is not None and running:
        artifacts = list(while_running(artifacts, unfinished.run, set(running)))
    if patterns:
        wanted = _wanted(patterns)
        for pattern in patterns:
            match_nodes(graph, pattern)  # one that names nothing is an error
        artifacts = [a for a in artifacts if any(p.matches(a.id) or p.matches(a.job) for p in wanted)]
    runs, pruned = world.state.runs_and_tombstones()
    stale = stale_files(graph, plan, runs, world.observer().published, pruned)
    return State(snapshot, plan, _job_counts(plan, len(running)), unfinished, artifacts, stale)


def _wanted(patterns: tuple[str, ...]) -> list[Any]:
    from whyrun.ids import IdPattern

    return [IdPattern(pattern) for pattern in patterns]


def _open_steps(snapshot: PlanningSnapshot, unfinished: Unfinished | None) -> list[str]:
    """Of a run that goes on, as of the snapshot: the log grows, and what is open later are other steps."""
    from whyrun.log.events import INTERRUPTED_ERROR
    from whyrun.snapshot.records import run_name

    if unfinished is None or unfinished.state != "running":
        return []
    latest = ((step, record.latest) for step, record in snapshot.records.steps.items())
    interrupted = ((step, one) for step, one in latest if one.error == INTERRUPTED_ERROR)
    return sorted(step for step, one in interrupted if run_name(one.run) == unfinished.run)


def _job_counts(plan: Plan, running: int) -> dict[str, int]:
    """The latest attempt of every instance. Open steps of a run that goes on are running, not interrupted."""
    counts = dict(plan.snapshot["jobs"])
    counts["running"] += running
    counts["failed"] -= running
    return counts


def _lines(found: State, show_all: bool) -> Iterator[str]:
    from whyrun.planning.explain import headline

    yield headline(found.plan)
    yield "jobs: " + ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in found.jobs.items() if number)
    if found.unfinished is not None:
        yield _unfinished(found.unfinished)
    if found.snapshot.inputs_changed:
        yield "inputs that changed since the last run"
        shown, rest = page(found.snapshot.inputs_changed, show_all)
        yield from (f"  {id_}" for id_ in shown)
        if rest is not None:
            yield rest
    headlines = {job.node: job.headline or "" for job in found.plan.jobs}
    node_of = found.snapshot.dependency_graph.node_of
    if found.artifacts:
        yield "artifacts"
        artifacts, rest = page(found.artifacts, show_all)
        yield from columns(_row(artifact, headlines.get(node_of[artifact.job], "")) for artifact in artifacts)
        if rest is not None:
            yield rest
    if found.stale:
        yield "published once and still there, though no job makes it now: keep it, or delete it yourself"
        files, rest = page(found.stale, show_all)
        yield from columns((f.path, _stale(f)) for f in files)
        if rest is not None:
            yield rest


def _row(artifact: CurrentArtifact, headline: str) -> tuple[str, ...]:
    state = f"{artifact.state} ({artifact.change})" if artifact.change is not None else artifact.state
    run = (artifact.run or "") + (f" {artifact.origin}" if artifact.origin else "")
    what = value_text(artifact.value, 40) if artifact.value is not UNSET else bytes_text(artifact.size)
    return artifact.id, state, run, what, artifact.path or "", "" if artifact.state == "running" else headline


def _stale(file: StaleFile) -> str:
    why = "its job is inactive now" if file.why == "inactive" else "no job of the workflow makes it any more"
    return f"{file.artifact} of {file.run}; {why}" + ("; edited since" if file.edited else "")


def _unfinished(found: Unfinished) -> str:
    steps = f", {count(len(found.open_steps), 'step')} open" if found.open_steps else ""
    if found.state == "interrupted":
        return f"{found.run} was interrupted{steps}; the next run repairs its log"
    by = found.holder
    who = f" by process {by.pid} on {by.host} since {local_time(by.started)}" if by is not None else ""
    return f"{found.run} is running{who}{steps}"
