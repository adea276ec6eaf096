"""`whyrun show ID|RUN [FILE]`: the facts about one job, artifact, input or run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import project_options
from whyrun.cli.output import (
    LISTED,
    bytes_text,
    columns,
    complete_last_run,
    duration_text,
    local_time,
    page,
    print_json,
    print_lines,
    short,
    state_text,
    value_text,
)
from whyrun.errors import printable

if TYPE_CHECKING:
    from whyrun.facts.show import Facts
    from whyrun.project import Project

# --- facts as text -----------------------------------------------------------------------------------------------
#
# Renders facts as text for `whyrun show`: one name and value per line, and longer values as a block.


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
        case "held":
            return f"{value} by the budget"
        case "spent":
            from whyrun.money import totals_of

            return totals_of([value]).text()
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
            continue  # a reused, adopted or kept result has no attempt number
        if name == "adopted":
            yield from ((name if i == 0 else "", f"{id_} in {run}") for i, (id_, run) in enumerate(one.items()))
        elif name == "kept":
            yield name, printable(f"by {one['by']}: {one['because']} (made in {one['made_in']})")
        elif name == "logs":
            yield from ((name if i == 0 else "", path) for i, path in enumerate(one))
        else:
            yield name, short(one) if name == "fingerprint" else _plain(name, one)


def _reasons(value: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        yield from ((code, str(number)) for code, number in value.items())
    else:
        yield from ((reason["code"], reason.get("text", "")) for reason in value)


def _observed(value: list[Facts]) -> Iterator[tuple[str, ...]]:
    for one in value[:LISTED]:
        content = short(one["sha256"]) if "sha256" in one else one["kind"]
        makers = ", ".join(f"{maker} makes it" for maker in one.get("made_by", ()))
        yield printable(one["path"]), content, makers
    if len(value) > LISTED:
        yield f"… {len(value) - LISTED} more (`whyrun reads` lists them)", "", ""


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
    "observed": _observed,
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
    from whyrun.facts.show import id_facts, run_facts
    from whyrun.facts.subjects import is_run_name
    from whyrun.log.runs import run_in_short

    complete_last_run(project)
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
    from whyrun.facts.show import composition_facts

    summary = composition_facts(project, run)
    if as_json:
        print_json(summary)
    else:
        print_lines(composition_tree(summary).split("\n"))
