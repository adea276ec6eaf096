"""`whyrun lineage ID [FILE]`: where a result comes from, back to inputs, parameters and code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import project_options
from whyrun.cli.output import print_json, print_lines, short, value_text

if TYPE_CHECKING:
    from whyrun.project import Project

SHOWN = 40  # hops without --all
MEMBERS = 8  # members of one binding without --all
DEEPEST = 12  # levels of indentation; deeper levels are not indented further


@click.command(short_help="Show where a result comes from, back to its inputs.")
@click.argument("id_", metavar="ID")
@click.option("--at", metavar="RUN", help="As it was after this run.")
@click.option("--all", "show_all", is_flag=True, help="Show every hop.")
@click.option("--json", "as_json", is_flag=True, help="Print all hops as JSON.")
@project_options
def command(project: Project, id_: str, at: str | None, show_all: bool, as_json: bool) -> None:
    """Show where a result comes from: which run made it, with which action, from which versions of what.

    The answer is read from the log alone, so it stays true when files, inputs or the workflow change later. Every line
    has the hash of the content. Results that were adopted or kept name who did
    it.

    \b
    Example:
      whyrun lineage Artifact:Montage.Picture
      whyrun lineage 'Artifact:Script.Story.Segments[0].HasTransition'
      whyrun lineage Job:Montage --at r0002
    """
    from whyrun.facts.lineage import lineage

    facts = lineage(project, id_, at)
    if as_json:
        print_json({"workflow": project.workflow.name, **facts})
    else:
        print_lines(_lines(facts, show_all))


def _lines(facts: dict[str, Any], show_all: bool) -> Iterator[str]:
    hops = facts["hops"]
    made = {(hop["id"], hop["sha256"]): hop for hop in hops if "sha256" in hop}
    shown: set[tuple[str, str]] = set()
    stack: list[tuple[int, str, dict[str, Any]]] = [(0, "", hops[0])]
    count = 0
    while stack:
        depth, name, thing = stack.pop()
        lead = "  " * min(depth, DEEPEST)
        if "…" in thing:
            yield f"{lead}… and {thing['…']} more (`--all` shows them)"
            continue
        label = f"{name} ← " if name else ""
        if "job" not in thing:
            yield f"{lead}{label}{_given(thing, facts)}"
            continue
        version = thing["id"], thing.get("sha256", "")
        if version in shown:
            yield f"{lead}{label}{_title(thing)}  (above)"
            continue
        if not show_all and count >= SHOWN:
            rest = len(hops) - count
            yield f"… {rest} more results upstream (`--all` shows them)"
            return
        shown.add(version)
        count += 1
        yield f"{lead}{label}{_title(thing)}  {_made(thing)}"
        below = [(depth + 1, read["name"], made.get((read["id"], read["sha256"]), read)) for read in thing["reads"]]
        below += [(depth + 1, "observed", read) for read in thing.get("observed", ())]
        stack += reversed(below if show_all else list(_first_members(below)))


def _first_members(rows: list[tuple[int, str, dict[str, Any]]]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The rows, with only the first members of each long binding."""
    names = [name for _, name, _ in rows]
    for i, (depth, name, thing) in enumerate(rows):
        at = i - names.index(name)
        if at < MEMBERS:
            yield depth, name, thing
        elif at == MEMBERS:
            yield depth, name, {"…": names.count(name) - MEMBERS}


def _title(hop: dict[str, Any]) -> str:
    return f"{hop['id']}  {short(hop['sha256'])}" if "sha256" in hop else hop["id"]


def _made(hop: dict[str, Any]) -> str:
    by = f" by {hop['by']}" if "by" in hop else ""
    if hop["how"] == "adopted":
        return f"adopted{by} in {hop['run']}"
    if hop["how"] == "kept":
        from whyrun.errors import printable

        why = printable(f": {hop['because']}") if "because" in hop else ""
        return f"made in {hop['run']}, kept{by} in {hop['recorded']['run']}{why}"
    maker = "" if hop["kind"] == "job" else f" by {hop['job']}"
    action = hop.get("action", {})
    code = f" ({action['name']} {short(action['sha256'])})" if "name" in action else ""
    if hop["how"] == "shared":
        return f"from the shared store{by}, recorded in {hop['recorded']['run']}"
    again = f", reused in {hop['recorded']['run']}" if hop["how"] == "reused" else ""
    return f"made{maker} in {hop['run']}{again}{code}"


def _given(read: dict[str, Any], facts: dict[str, Any]) -> str:
    """An input, a parameter, an undeclared file, or an artifact that the log no longer explains."""
    if "path" in read:
        return f"{read['path']}  {short(read['sha256']) if 'sha256' in read else read['kind']}"
    if not read["id"]:
        return f"{read['count']} results  {short(read['sha256'])} (their list is lost)"
    if "value" in read:
        return f"{read['id']} = {value_text(read['value'])}"
    lost = "  (the run that made it was pruned)" if read["id"].startswith("Artifact:") else ""
    return f"{read['id']}  {short(read['sha256'])}{lost}"
