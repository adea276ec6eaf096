"""`whyrun actions [NAME]`: list the actions that jobs can use, or show one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from whyrun.cli.output import print_json
from whyrun.errors import Exit

if TYPE_CHECKING:
    from whyrun.actions.description import ParameterInfo
    from whyrun.actions.registry.catalogue import CatalogueEntry


@click.command("actions")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the actions as JSON.")
def command(name: str | None, as_json: bool) -> None:
    """List the actions that jobs can use, or show one: its parameters, its outputs and an example.

    The list has the built-in actions, the actions of the project's `actions/` folder, and those of installed plugins.
    A broken action is listed with its error; it stops only workflows that use it. Showing a broken action exits
    with 2.

    \b
    Example:
      whyrun actions
      whyrun actions shell
      whyrun actions --json
    """
    from whyrun.actions.registry.catalogue import catalogue, catalogue_entry
    from whyrun.log.runs import project_dir_for
    from whyrun.project import DEFAULT_FILE

    found = catalogue(project_dir_for(os.path.abspath(DEFAULT_FILE)), name)
    if name is not None:
        action = catalogue_entry(name, found)
        print_json(action.to_json(details=True)) if as_json else click.echo(details(action))
        if action.error is not None:
            click.get_current_context().exit(Exit.INVALID)
    elif as_json:
        print_json({"actions": [action.to_json(details=False) for action in found]})
    else:
        click.echo(overview(found))


def overview(actions: list[CatalogueEntry]) -> str:
    rows = [
        (a.name, a.version or "-", _origin(a), f"error: {a.error}" if a.error is not None else a.summary)
        for a in actions
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(f"{text:<{width}}" for text, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    )


def details(action: CatalogueEntry) -> str:
    from whyrun.actions.registry.catalogue import example_of

    lines = [" ".join(filter(None, [action.name, action.version, f"({_origin(action)})"]))]
    if action.summary:
        lines.append(f"  {action.summary}")
    if action.error is not None:
        lines.append(f"  error: {action.error}")
    known = action.description
    if known is None:
        return "\n".join(lines)
    lines.append("parameters")
    if known.parameters is None:
        lines.append("  not declared: the action takes any parameters")
    rows = list(_parameter_rows(known.parameters or (), "  "))
    width = max((len(name) for name, _ in rows), default=0)
    lines += [f"{name:<{width}}  {text}" for name, text in rows]
    if known.parameters == []:
        lines.append("  none")
    if known.open_ended:
        lines.append("  …  any others")
    lines.append("outputs")
    if known.outputs is None:
        lines.append("  the outputs that the job declares")
    else:
        width = max((len(name) for name in known.outputs), default=0)
        lines += [f"  {name:<{width}}  {type_}" for name, type_ in known.outputs.items()] or ["  none"]
    lines.append("example")
    lines += [f"  {line}" for line in example_of(action).splitlines()]
    return "\n".join(lines)


def _parameter_rows(parameters: Sequence[ParameterInfo], indent: str) -> Iterator[tuple[str, str]]:
    """Each parameter, and below it, indented, the fields of a nested record."""
    for p in parameters:
        more = ["required"] if p.required else [f"default {p.default}"] if p.default else []
        yield indent + p.name, "; ".join([p.type, *more, *([p.description] if p.description else [])])
        yield from _parameter_rows(p.fields, f"{indent}  ")


def _origin(action: CatalogueEntry) -> str:
    return action.source or "built in"
