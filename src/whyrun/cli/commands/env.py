"""`whyrun env [list|sync|gc] [FILE]`: the environments of a workflow's jobs: list them, make them, remove old ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import STATE_OPTION
from whyrun.cli.output import bytes_text, columns, print_json, print_lines
from whyrun.errors import error

if TYPE_CHECKING:
    from whyrun.environments.making import Present
    from whyrun.execution.dispatch.environments import Needed
    from whyrun.project import Project

LIST, SYNC, GC = "list", "sync", "gc"


@click.command(short_help="List the environments of jobs, make them, or remove old ones.")
@click.argument("words", nargs=-1, metavar="[list|sync|gc] [FILE]")
@click.option("--delete", is_flag=True, help="With `gc`: remove them. Without this option they are only listed.")
@click.option("--json", "as_json", is_flag=True, help="Print the environments as JSON.")
@STATE_OPTION
def command(words: tuple[str, ...], delete: bool, as_json: bool, state: str | None) -> None:
    """List the environments of jobs, make them, or remove old ones.

    A job with `environment: {python: requirements.txt}` runs in a virtual environment, which the first run that needs
    it makes. `sync` makes all of them now, and looks again what the tags of container images stand for. `gc` finds
    environments whose file is gone or locks something else now; with --delete it removes them, and no run may be in
    progress.

    \b
    Example:
      whyrun env
      whyrun env sync
      whyrun env gc --delete
    """
    from whyrun.execution.dispatch.environments import make_environments, needed_environments, resolve_tags
    from whyrun.facts.plans import open_project

    action, *rest = words if words[:1] and words[0] in (LIST, SYNC, GC) else (LIST, *words)
    if len(rest) > 1 or (delete and action != GC):
        what = "`--delete` belongs to `gc`" if delete else f"`{rest[1]}` is one argument too many"
        raise error("USAGE", what, hint="write `whyrun env [list|sync|gc] [FILE]`, or `whyrun env gc --delete`")
    project = open_project(rest[0] if rest else None, state=state)
    if action == GC:
        _collect(project, delete=delete, as_json=as_json)
        return
    if action == SYNC:
        resolve_tags(project, _tell, again=True)
    needed = needed_environments(project, range(project.graph.size))
    if action == SYNC:
        make_environments(project, needed, _tell)
    _list(project, needed, as_json=as_json)


def _tell(note: str) -> None:
    click.echo(note, err=True)


def _list(project: Project, needed: Needed, *, as_json: bool) -> None:
    from whyrun.console.lines import count, listed
    from whyrun.environments.making import environment_folder, present_environments
    from whyrun.execution.dispatch.environments import images_of

    made = {one.folder: one for one in present_environments(project.state.environments)}
    found: list[dict[str, Any]] = []
    for sha256, (environment, jobs) in needed.items():
        present = made.get(environment_folder(project.state.environments, sha256))
        found.append(
            {
                "lock": environment.lock,
                "sha256": sha256,
                "jobs": jobs,
                "packages": dict(environment.packages),
                "folder": None if present is None else present.folder.name,
                "bytes": None if present is None else present.bytes,
            }
        )
    images = images_of(project)
    if as_json:
        shown = [{"image": image, "reference": one.reference, "jobs": jobs} for image, (one, jobs) in images.items()]
        print_json({"environments": found, "images": shown})
        return
    if not found and not images:
        click.echo("no job has an `environment:` or a `container:`", err=True)
    rows = [
        (
            one["lock"],
            count(len(one["packages"]), "package"),
            "not made" if one["bytes"] is None else bytes_text(one["bytes"]),
            listed(one["jobs"]),
        )
        for one in found
    ]
    rows += [(image, "container", _digest(one.reference), listed(jobs)) for image, (one, jobs) in images.items()]
    print_lines(columns(rows))


def _digest(reference: str | None) -> str:
    return "not resolved" if reference is None else f"{reference[reference.find('sha256:') :][:19]}…"


def _collect(project: Project, *, delete: bool, as_json: bool) -> None:
    from whyrun.environments.making import remove_environments, unused_environments
    from whyrun.evidence.retention.gc import workflows_of
    from whyrun.log.lock import running_run

    environments = project.state.environments
    running = [state.workflow for state in workflows_of(project.state_dir) if running_run(state) is not None]
    unused = unused_environments(environments, project.folder)
    sizes = [one.bytes for one in unused]
    if delete and unused:
        if running:
            raise error("LOCKED", f"{running[0]} is running, and may need them", hint="repeat this when it has ended")
        remove_environments(environments, unused)
    if as_json:
        listed = [{"folder": one.folder.name, "bytes": size} for one, size in zip(unused, sizes, strict=True)]
        print_json({"unused": listed, "deleted": delete})
    else:
        print_lines(_lines(unused, sizes, delete))


def _lines(unused: list[Present], sizes: list[int], delete: bool) -> Iterator[str]:
    from whyrun.console.lines import count

    if not unused:
        yield "nothing to remove: every environment is that of its file"
        return
    amount = f"{count(len(unused), 'environment')} ({bytes_text(sum(sizes))})"
    yield f"removed {amount}" if delete else f"{amount} can be removed"
    names = [one.folder.name if one.made is None else one.made.lock for one in unused]
    yield from columns((name, bytes_text(size)) for name, size in zip(names, sizes, strict=True))
    if not delete:
        yield "hint: `--delete` removes them"
