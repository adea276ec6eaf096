"""Writes the generated parts of the docs: tables in language.md, planning.md and errors.md, the help in cli.md.

    python docs/generate.py          write them
    python docs/generate.py --check  say which are not current, and fail

A generated part is between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from whyrun.artifacts.compare.files import COMPARERS
from whyrun.cli.commands.runs import RunsCommand
from whyrun.cli.main import COMMANDS, cli
from whyrun.disk import TABLE
from whyrun.errors import CODES, Exit
from whyrun.evidence.parity.fields import DECLARED
from whyrun.planning.reasons import KINDS
from whyrun.workflow.fields import Key
from whyrun.workflow.parsing.file import WORKFLOW_KEYS
from whyrun.workflow.parsing.job_keys import JOB_KEYS

DOCS = Path(__file__).resolve().parent
PART = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->\n)", re.DOTALL)
EXITS = {
    Exit.OK: "all well; also: there was nothing to do",
    Exit.FAILED: "a job failed or timed out",
    Exit.INVALID: "the workflow, its inputs or the command line are invalid; nothing ran",
    Exit.STATE: "the state does not allow it: locked, damaged, incomplete, stale",
    Exit.INTERRUPTED: "interrupted",
}


def exits() -> str:
    return "| exit status | means |\n|---|---|\n" + "".join(f"| {int(e)} | {text} |\n" for e, text in EXITS.items())


def codes() -> str:
    rows = "".join(
        f"| `{name}` | {code.meaning} | {int(code.exit)} | {code.found_by} |\n" for name, code in CODES.items()
    )
    return f"| code | meaning | exit status | found by |\n|---|---|---|---|\n{rows}"


def help_pages() -> str:
    """The help of every command, as it prints itself."""
    parts = []
    for name, (_, summary) in COMMANDS.items():
        parent = click.Context(cli, info_name="whyrun", terminal_width=100, **cli.context_settings)
        command = cli.get_command(parent, name)
        assert command is not None
        parts.append(help_page(name, summary, command, parent))
        for word in command.list_commands() if isinstance(command, RunsCommand) else ():
            below = command.get_command(word)
            parts.append(help_page(f"{name} {word}", f"{below.short_help}", below, parent))
    return "\n" + "\n".join(parts) + "\n"


def help_page(name: str, summary: str, command: click.Command, parent: click.Context) -> str:
    text = command.get_help(click.Context(command, info_name=name, parent=parent))
    mark = "<!-- checked: tests/docs/test_docs_generated.py -->"
    return f"## whyrun {name}\n\n{summary}\n\n{mark}\n```\n{text}\n```\n"


def parity_events() -> str:
    """Which fields of each event count when two runs are compared, and why the others do not."""
    rows = "| event | about | compared | left out |\n|---|---|---|---|\n"
    for type_, declared in DECLARED.items():
        left: dict[str, list[str]] = {}
        for name, why in declared.left_out.items():
            left.setdefault(why, []).append(name)
        said = "; ".join(f"{code(names)}: {why}" for why, names in left.items())
        cells = (code([str(type_.__struct_config__.tag)]), code(declared.named_by), code(declared.compared), said)
        rows += "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"
    return rows


def code(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def fault_points() -> str:
    """Every point at which state is written, by what it is about."""
    rows = "| point | what it writes |\n|---|---|\n"
    for area, (meaning, operations) in TABLE.items():
        rows += f"| {code(f'{area}.{operation}' for operation in operations)} | {meaning} |\n"
    return rows


def meaning(key: Key) -> str:
    return f"{key.meaning} {key.details}".strip()


def workflow_keys() -> str:
    return "| key | meaning |\n|---|---|\n" + "".join(f"| `{key.name}` | {meaning(key)} |\n" for key in WORKFLOW_KEYS)


def job_keys() -> str:
    rows = "| key | meaning | a change re-runs the job |\n|---|---|---|\n"
    for key in JOB_KEYS:
        reruns = key.reruns or ("yes" if key.in_fingerprint else "no")
        rows += f"| `{key.name}` | {meaning(key)} | {reruns} |\n"
    return rows


def comparers() -> str:
    """How contents are compared. Folders have no row in the table of comparers: each of their files has one."""
    rows = [
        f"| {row.content} | {row.identical_if} | {row.reported} | {code(row.settings)} |" for row in COMPARERS.values()
    ]
    folders = "folders | all files are identical, each by its own kind | files changed, added, removed"
    table = "\n".join([*rows, f"| {folders} | those of the files |"]).replace("|  |", "| |")
    return f"| content | identical if | reported | settings |\n|---|---|---|---|\n{table}\n"


def reasons() -> str:
    """In the order in which a plan lists them."""
    return "| reason | when |\n|---|---|\n" + "".join(f"| `{kind.code}` | {kind.when} |\n" for kind in KINDS)


PARTS: dict[str, Callable[[], str]] = {
    "codes": codes,
    "comparers": comparers,
    "exits": exits,
    "fault-points": fault_points,
    "help": help_pages,
    "job-keys": job_keys,
    "parity-events": parity_events,
    "reasons": reasons,
    "workflow-keys": workflow_keys,
}


def generated(text: str) -> str:
    return PART.sub(lambda found: found[1] + PARTS[found[2]]() + found[3], text)


def main() -> None:
    stale = []
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        current = generated(text)
        if current != text:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(current, encoding="utf-8")
    if stale:
        print(("not current: " if "--check" in sys.argv else "written: ") + ", ".join(stale))
    sys.exit(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    main()
