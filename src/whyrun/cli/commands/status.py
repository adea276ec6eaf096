"""`whyrun status [ID]... [FILE]`: the state of the jobs, and the current artifacts."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from whyrun.cli.options import names_and_project
from whyrun.cli.output import (
    bytes_text,
    columns,
    complete_last_run,
    local_time,
    note_narrow_patterns,
    page,
    print_json,
    print_lines,
    print_note,
    value_text,
)
from whyrun.console.lines import count
from whyrun.facts.subjects import is_id

if TYPE_CHECKING:
    from whyrun.evidence.queries.current import CurrentArtifact, StaleFile
    from whyrun.evidence.queries.history import Unfinished
    from whyrun.facts.status import Status
    from whyrun.project import Project


@click.command(short_help="Show the state of the jobs and the current artifacts.")
@names_and_project(is_id, "[ID]... [FILE]")
@click.option("--all", "show_all", is_flag=True, help="List every artifact, not only the first 50.")
@click.option("--json", "as_json", is_flag=True, help="Print the state as JSON.")
def command(project: Project, names: tuple[str, ...], show_all: bool, as_json: bool) -> None:
    """Show the state of the jobs, changed inputs, current artifacts, and leftover published files.

    IDs of jobs or artifacts choose the listed artifacts, changed inputs and leftover files; `*` stands for a name or
    index.

    \b
    Example:
      whyrun status
      whyrun status 'Job:Clip[*]' then-now.yaml
    """
    from whyrun.facts.status import current_status

    project.graph  # noqa: B018  # problems of the workflow are reported first
    complete_last_run(project)
    status = current_status(project, names)
    note_narrow_patterns(status.snapshot.dependency_graph, names)
    if as_json:
        print_json(status.to_json())
    else:
        print_lines(_lines(status, show_all))
        if not (project.sets or project.inputs_file) and (back := _back_at_default(status)):
            print_note(
                f"{', '.join(back[:3])}{', …' if len(back) > 3 else ''}: the last run had another value; `--set` and "
                "`--inputs` apply to one command, so give them again, or change the default"
            )


def _back_at_default(status: Status) -> list[str]:
    """Values that a run was given on the command line, and that this command was not."""
    graph = status.snapshot.dependency_graph
    return [
        id_
        for id_ in status.inputs_changed
        if (decl := graph.workflow.inputs.get(id_.removeprefix("Input:"))) is not None
        and not decl.type.is_path
        and id_ in graph.inputs
        and graph.inputs[id_].value == decl.default
    ]


def _changed(status: Status, id_: str) -> tuple[str, str]:
    """An input with its old and its new value, where both are small."""
    record, now = status.snapshot.records.inputs.get(id_), status.snapshot.dependency_graph.inputs.get(id_)
    if record is None or now is None or record.value is UNSET or now.type.is_path:
        return id_, ""
    return id_, f"{value_text(record.value, 40)} → {value_text(now.value, 40)}"


def _lines(status: Status, show_all: bool) -> Iterator[str]:
    from whyrun.planning.answers.explain import headline

    yield headline(status.plan)
    interrupted = _interrupted(status)
    jobs = {**status.jobs, "failed": status.jobs["failed"] - len(interrupted), "interrupted": len(interrupted)}
    yield "jobs: " + ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in jobs.items() if number)
    if status.unfinished is not None:
        yield _unfinished(status.unfinished)
    if status.inputs_changed:
        yield "inputs that changed since the last run"
        shown, rest = page(status.inputs_changed, show_all)
        yield from columns(_changed(status, id_) for id_ in shown)
        if rest is not None:
            yield rest
    headlines = {job.node: job.headline or "" for job in status.plan.jobs}
    node_of = status.snapshot.dependency_graph.node_of
    if status.artifacts:
        yield "artifacts"
        artifacts, rest = page(status.artifacts, show_all)
        yield from columns(
            _row(artifact, headlines.get(node_of[artifact.job], ""), interrupted) for artifact in artifacts
        )
        if rest is not None:
            yield rest
    if status.stale:
        yield "leftover published files: keep them, or delete them yourself"
        files, rest = page(status.stale, show_all)
        yield from columns((f.path, _stale(f)) for f in files)
        if rest is not None:
            yield rest


def _interrupted(status: Status) -> set[str]:
    """Jobs whose latest attempt was interrupted. JSON counts them as failed; for people they are not."""
    graph, running = status.snapshot.dependency_graph, status.snapshot.running_steps
    latest = ((step, record.latest) for step, record in status.snapshot.records.steps.items())
    return {
        step for step, one in latest if one.status == "INTERRUPTED" and step in graph.node_of and step not in running
    }


def _row(artifact: CurrentArtifact, headline: str, interrupted: Container[str]) -> tuple[str, ...]:
    state = f"{artifact.state} ({artifact.change})" if artifact.change is not None else str(artifact.state)
    if state == "failed" and artifact.job in interrupted:
        state = "interrupted"
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
