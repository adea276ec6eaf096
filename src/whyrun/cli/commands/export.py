"""`whyrun export FORMAT [RUN] [FILE]`: a run in the format of another tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import check_output_file, names_and_project
from whyrun.cli.output import complete_last_run, print_bytes, print_json
from whyrun.exports.registry import FORMATS
from whyrun.facts.subjects import is_run_name

if TYPE_CHECKING:
    from whyrun.exports.record import Rendered
    from whyrun.project import Project

_WIDTH = max(map(len, FORMATS)) + 2
_LIST = "\n".join(f"      {name:<{_WIDTH}}{row.what}" for name, row in FORMATS.items())


class _FormatChoice(click.Choice[str]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in FORMATS:
            from whyrun.errors import did_you_mean, error

            hint = did_you_mean(str(value), list(FORMATS)) or f"the formats are {', '.join(FORMATS)}"
            if is_run_name(str(value)):
                hint = f"the format comes first: `whyrun export junit {value}`"
            raise error("USAGE", f"there is no export format `{value}`", hint=hint)
        return str(value)

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"The formats are {', '.join(FORMATS)}"


@click.command(
    short_help="Write a run in the format of another tool.",
    help=f"""Write a run in the format of another tool; by default the last run.

    An export is made from the log, so it works for every past run, and it is the same bytes each time. A run that has
    not ended is marked as unfinished. There is no host, process number or absolute path in it. If a secret of the
    workflow is in it, nothing is written.

    \b
    Formats:
{_LIST}

    \b
    Example:
      whyrun export junit --verify -o results.xml
      whyrun export markdown r0002
      whyrun export github -o "$GITHUB_STEP_SUMMARY"
      whyrun export prometheus -o /var/lib/node-exporter/whyrun.prom
      whyrun export ro-crate r0002 -o study-r0002
    """,
)
@click.argument("format_", metavar="FORMAT", type=_FormatChoice(list(FORMATS)))
@names_and_project(is_run_name, "[RUN] [FILE]")
@click.option("--output", "-o", metavar="PATH", help="Write this file (or folder), instead of stdout (`-`).")
@click.option("--link", metavar="URL", help="Of markdown and github: where the report is.")
@click.option("--namespace", metavar="TEXT", help="Of openlineage, instead of `whyrun:WORKFLOW`.")
@click.option("--metadata-only", is_flag=True, help="Of ro-crate, without the bytes of inputs and artifacts.")
@click.option("--verify", is_flag=True, help="Of junit: also what `whyrun verify RUN` checks, as a suite.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written, or without -o the export, as JSON.")
def command(
    project: Project,
    names: tuple[str, ...],
    format_: str,
    output: str | None,
    link: str | None,
    namespace: str | None,
    metadata_only: bool,
    verify: bool,
    as_json: bool,
) -> None:
    from whyrun.errors import error
    from whyrun.exports.reading import RunSubject, chosen_run
    from whyrun.exports.registry import export

    if len(names) > 1:
        raise error("USAGE", "an export is of one run", hint=f"`whyrun export {format_} {names[0]}`")
    output = None if output == "-" else output
    if FORMATS[format_].is_folder and output is None:
        raise error("USAGE", f"`{format_}` is a folder", hint=f"name a new one: `whyrun export {format_} -o FOLDER`")
    if output is not None:
        check_output_file(project, "--output", output)
    complete_last_run(project)
    options: dict[str, Any] = {"link": link, "namespace": namespace, "metadata_only": metadata_only, "verify": verify}
    for name, value in options.items():
        if value not in (None, False) and name not in FORMATS[format_].options:
            option = f"--{name.replace('_', '-')}"
            takers = ", ".join(f"`{row.name}`" for row in FORMATS.values() if name in row.options)
            raise error("USAGE", f"`{option}` is nothing to `{format_}`", hint=f"it is an option of {takers}")
    options["link"], options["namespace"] = checked_link(link), checked_namespace(namespace)
    subject = RunSubject(project, chosen_run(project, names[0] if names else None), **options)
    rendered = export(subject, format_)
    if output is not None:
        write(output, rendered)
    if as_json:
        print_json({"format": format_, "run": subject.run.name, **_described(output, rendered)})
    elif output is None:
        print_bytes(rendered.data if rendered.printed is None else rendered.printed)
    else:
        print_bytes(rendered.said)


def checked_link(link: str | None) -> str:
    """A page, by its whole URL or relative to this one. USAGE for what a browser would execute."""
    from urllib.parse import urlsplit

    from whyrun.errors import error

    try:
        scheme = urlsplit(link or "").scheme
    except ValueError:
        scheme = "?"
    if link == "" or scheme not in ("", "http", "https"):
        raise error("USAGE", f"`--link {link}` is no address of a page", hint="write `https://…`")
    return link or ""


def checked_namespace(namespace: str | None) -> str:
    from whyrun.errors import error

    if namespace is not None and not namespace.strip():
        raise error("USAGE", "`--namespace` is empty", hint="name one, or leave the option out for `whyrun:WORKFLOW`")
    return namespace or ""


def _described(output: str | None, rendered: Rendered) -> dict[str, Any]:
    """Where the export is, or what it is: as text, or in base64."""
    import base64
    import os

    parts = rendered.folder.values()
    size = sum(len(part) if isinstance(part, bytes) else os.path.getsize(part) for part in parts) + len(rendered.data)
    if output is not None:
        return {"path": output, "size": size, "said": rendered.said.decode()}
    try:
        return {"size": size, "text": rendered.data.decode()}
    except UnicodeDecodeError:
        return {"size": size, "base64": base64.b64encode(rendered.data).decode()}


def write(output: str, rendered: Rendered) -> None:
    """One file at once, so that a collector never reads half of it. A folder must be new or empty."""
    import os
    import shutil
    from pathlib import Path

    from whyrun.artifacts.durable import write_output
    from whyrun.errors import error

    try:
        if not rendered.folder:
            if os.path.isdir(output):
                hint = f"name a file in it: `-o {os.path.join(output, 'FILE')}`"
                raise error("USAGE", f"`{output}` is a folder, and this export is one file", hint=hint)
            write_output(output, rendered.data, mode=0o644)
            return
        if os.path.isdir(output) and os.listdir(output):
            hint = "choose another folder with `-o`, or empty it first"
            raise error("USAGE", f"`{output}` is a folder that is not empty: nothing is written into it", hint=hint)
        if not os.path.isdir(output):
            os.mkdir(output)  # not the folders above it: a wrong path is told, as it is for a file
        for relative, data in rendered.folder.items():
            path = Path(output, relative)
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(data, bytes):
                write_output(path, data, mode=0o644)
            else:
                shutil.copyfile(data, path)
    except (FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError) as problem:
        raise error(
            "FILE_MISSING", f"`{output}` cannot be written: {problem.strerror}", hint="check the path"
        ) from None
