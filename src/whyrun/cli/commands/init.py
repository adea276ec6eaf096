"""`whyrun init [DIR]`: create a small workflow that runs as it is and shows the main features."""

from __future__ import annotations

import os
from pathlib import Path

import click

from whyrun.cli.starters import EXAMPLES

WORKFLOW = """\
# yaml-language-server: $schema=workflow.schema.json
# (the schema for your editor: whyrun schema > workflow.schema.json)
workflow: word-count
description: Count the words of some texts and report on them

inputs:
  Texts:    {type: "file[]", default: "texts/*.txt"}   # a file is compared by its content
  Greeting: {type: string, default: Hello}
  Enough:   {type: integer, default: 10}

loops:
  text: {each: inputs.Texts}                           # one instance per file: Job:Count[0], Job:Count[1], …

jobs:
  Count:
    for: [text]
    uses: python
    with:
      call: "words:count"                              # the function `count` of words.py
      text: ${{ inputs.Texts[text] }}
    outputs:
      Words: {type: json, leaves: {Total: integer}}    # a leaf: conditions can read it

  Report:
    uses: python
    with:
      call: "words:report"
      greeting: ${{ inputs.Greeting }}
      counts: ${{ jobs.Count.outputs.Words[:] }}       # fan-in: all instances, in order
    outputs:
      Text: {type: text, path: out/report.txt}         # published at this path

  Praise:
    for: [text]
    if: ${{ jobs.Count.outputs.Words[text].Total >= inputs.Enough }}
    uses: shell
    with:
      total: ${{ jobs.Count.outputs.Words[text].Total }}
      run: echo "a text of $total words" > "$out_Line"
    outputs:
      Line: {type: text, path: "out/praise-${{ text }}.txt"}
"""

MODULE = '''\
"""The functions that workflow.yaml calls. Change this file, and the jobs that call it run again."""

from pathlib import Path


def count(text: Path) -> dict:
    words = text.read_text(encoding="utf-8").split()
    return {"Words": {"Total": len(words), "Longest": max(words, key=len, default="")}}


def report(greeting: str, counts: list) -> dict:
    total = sum(words["Total"] for words in counts)
    return {"Text": f"{greeting}: {total} words in {len(counts)} texts\\n"}
'''

FILES = {
    "workflow.yaml": WORKFLOW,
    "words.py": MODULE,
    "texts/rain.txt": "The rain stays mainly on the plain, or so they say.\n",
    "texts/sun.txt": "The sun was out.\n",
}


@click.command("init")
@click.argument("words", metavar="[DIR]", nargs=-1)
@click.option(
    "--from", "from_commands", is_flag=True, help="Run these commands, and write a workflow from what they do."
)
@click.option("--example", type=click.Choice(list(EXAMPLES)), help="Create this larger example instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the names of the created files as JSON.")
def command(words: tuple[str, ...], from_commands: bool, example: str | None, as_json: bool) -> None:
    """Create a small workflow to start from: workflow.yaml, words.py and two texts.

    It runs as it is. Existing files are not overwritten.

    With --from, run commands of yours in this folder, in this order, and write the workflow.yaml that their reads and
    writes imply. What they made is recorded, so `whyrun run` has nothing to do. This needs strace.

    With --example, create a larger one, with a README.md of a few lines. It needs no network:

    \b
      wildcard  one job a sample: files named by a pattern, a sample sheet, a report
      media     a script decides segments; an imported workflow makes a picture and a voice of each
      study     files at computed paths, networks and seeds, fan-ins that know who is who

    \b
    Example:
      whyrun init
      whyrun init my-project
      whyrun init --example media film
      whyrun init --from 'python make_data.py' 'python train.py --depth 3'
    """
    from whyrun.errors import error

    if from_commands and example is not None:
        hint = "`--from` writes the workflow of your commands; `--example` creates one of ours"
        raise error("USAGE", "`--from` and `--example` do not go together", hint=hint)
    if from_commands:
        _from_commands(words, as_json=as_json)
        return
    if len(words) > 1:
        hint = "name one folder; or write `whyrun init --from` before commands"
        raise error("USAGE", f"`{words[1]}` is one argument too many", hint=hint)
    folder = words[0] if words else "."
    if example is None:
        then = "echo more words >> texts/sun.txt && whyrun explain"
        _create(folder, FILES, then, "whyrun init my-project", as_json=as_json)
        return
    from importlib import import_module

    files: dict[str, str] = import_module(f"whyrun.cli.starters.{example}").FILES
    elsewhere = f"whyrun init --example {example} my-project"
    _create(folder, files, "cat README.md         what to change next", elsewhere, as_json=as_json)


def _from_commands(commands: tuple[str, ...], *, as_json: bool) -> None:
    from whyrun.cli.output import print_json
    from whyrun.console.logger import WorkflowLogger
    from whyrun.errors import error
    from whyrun.execution.backends.registry import RunOptions
    from whyrun.execution.onboard import MadeAlready, job_names, trace_commands, workflow_text
    from whyrun.execution.run.session import run_workflow
    from whyrun.planning.plan import PlanOptions
    from whyrun.project import DEFAULT_FILE, Project

    project, file = Path.cwd(), Path(DEFAULT_FILE)
    if not commands:
        raise error(
            "USAGE", "`--from` needs commands", hint="whyrun init --from 'python make_data.py' 'python train.py'"
        )
    if file.exists():
        raise error("NAME_TAKEN", f"`{file}` exists already", hint="move it away, or change to another folder")
    traced = trace_commands(project, commands, project / ".whyrun", lambda line: click.echo(line, err=True))
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in project.name.lower()).strip("-")
    text = workflow_text(name if name[:1].isalpha() else f"w-{name}".rstrip("-"), traced)
    with file.open("x", encoding="utf-8") as opened:
        opened.write(text)
    backend = MadeAlready(dict(zip(job_names(traced), traced, strict=True)))
    result = run_workflow(
        Project.open(file), PlanOptions(), RunOptions(jobs=1), WorkflowLogger(quiet=True), backend=backend
    )
    if as_json:
        print_json({"folder": ".", "files": [str(file)], "run": result.run, "state": result.state})
    else:
        click.echo(f"created {file}; {result.run} recorded what the commands made")
        click.echo("next: look at it, then `whyrun run`, which has nothing to do until something changes")
    if result.exit_code:
        click.get_current_context().exit(result.exit_code)


def _create(folder: str, files: dict[str, str], then: str, elsewhere: str, *, as_json: bool) -> None:
    """`then`: the last line of what to do next. `elsewhere`: the command for another folder, if this one is taken."""
    from whyrun.cli.output import print_json
    from whyrun.errors import Diagnostic, InvalidError, error

    root = Path(folder)
    taken = [f"`{path}` exists already" for name in files if os.path.lexists(path := root / name)]
    folders = dict.fromkeys(above for name in files for above in (root / name).parents)
    taken += [f"`{path}` is no folder" for path in folders if os.path.lexists(path) and not path.is_dir()]
    if taken:
        hint = f"name another folder, such as `{elsewhere}`"
        raise InvalidError(Diagnostic("NAME_TAKEN", what, hint=hint) for what in taken)
    try:
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as problem:
        hint = "choose a folder that you may write to"
        raise error("FILE_MISSING", f"`{problem.filename}` cannot be created: {problem.strerror}", hint=hint) from None
    if as_json:
        print_json({"folder": str(root), "files": list(files)})
        return
    click.echo(f"created {', '.join(str(root / name) for name in files)}")
    click.echo("next:")
    if folder != ".":
        click.echo(f"  cd {folder}")
    click.echo("  whyrun explain        show what would run, and why")
    click.echo("  whyrun run            run it; a second run has nothing to do")
    click.echo(f"  {then}")
