"""`whyrun parity RUN RUN [FILE]`: check that two runs left the same evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import FILE_ARGUMENT, STATE_OPTION
from whyrun.cli.output import (
    bytes_text,
    columns,
    duration_text,
    print_json,
    print_lines,
    print_note,
    short,
    value_text,
)
from whyrun.facts.subjects import is_run_name

if TYPE_CHECKING:
    from whyrun.evidence.parity.fields import Difference, Note, Parity
    from whyrun.evidence.parity.reading import RunEvidence

_NOUNS = {
    "events": "event",
    "cfg": "cfg file",
    "commands": "command",
    "artifacts": "artifact",
    "metrics": "count",
    "files": "file",
}
_LONGEST = 300  # characters of a name
_HASH = re.compile(r"[0-9a-f]{64}")


@click.command(short_help="Check that two runs left the same evidence.")
@click.argument("old", metavar="RUN")
@click.argument("new", metavar="RUN")
@FILE_ARGUMENT
@STATE_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def command(context: click.Context, old: str, new: str, file: str | None, state: str | None, as_json: bool) -> None:
    """Compare the evidence of two runs that both started from an empty state: on two machines, or with two backends.

    This compares the list of files, the bytes of manifest and cfg files, all events without times and hosts, row and
    count metrics, the content of artifacts, and the status. All differences are listed; the first is the headline.
    Durations, memory and the output of steps are shown but do not count as differences.

    RUN is a run of the workflow, such as `r0001`, or the path of a run folder. Two runs from empty states are in two
    state folders, so at least one of them is a path.

    Exit status: 0 equal; 1 something differs; 2 the arguments are invalid; 3 a run is unfinished or damaged.

    \b
    Example:
      whyrun run --state /tmp/here && whyrun run --state /tmp/there --backend sandbox
      whyrun parity /tmp/here/demo/runs/r0001 /tmp/there/demo/runs/r0001
      whyrun parity r0001 ../elsewhere/.whyrun/demo/runs/r0001 --json
    """
    from whyrun.evidence.parity.parity import compare_runs, describe_difference

    _check_arguments((old, new), file, state)
    ours, theirs = _evidence(old, file, state), _evidence(new, file, state)
    found = compare_runs(ours, theirs, describe_difference)
    if as_json:
        print_json(found.to_json())
    else:
        print_lines(_lines(found))
    if not found.equal:
        _note_earlier_runs(ours, theirs)
    context.exit(0 if found.equal else 1)


def _check_arguments(runs: tuple[str, str], file: str | None, state: str | None) -> None:
    """Refuse FILE and `--state` if both runs are paths: they would have no effect."""
    from whyrun.errors import error

    given = [word for word in (f"`{file}`" if file else None, f"`--state {state}`" if state else None) if word]
    if given and not any(map(is_run_name, runs)):
        hint = "omit it, or name a run of the workflow, such as `r0001`"
        raise error("USAGE", f"both runs are paths of folders, so {given[0]} has no effect", hint=hint)


def _evidence(word: str, file: str | None, state: str | None) -> RunEvidence:
    from whyrun.evidence.parity.reading import read_evidence, run_at
    from whyrun.facts.plans import open_project

    if is_run_name(word):
        return read_evidence(word, open_project(file, state=state).state.run(word))
    return read_evidence(word, run_at(word))


def _note_earlier_runs(*sides: RunEvidence) -> None:
    """Print a note for runs that are not the first: their plans and inputs depend on earlier runs."""
    from whyrun.log.journal import FIRST_CHAIN

    later = [f"`{side.name}`" for side in sides if side.start.previous_chain != FIRST_CHAIN]
    if later:
        why = "that alone makes plans and inputs differ"
        print_note(f"{' and '.join(later)} did not start from an empty state; {why}")


def _lines(found: Parity) -> Iterator[str]:
    from whyrun.console.lines import count

    if found.headline is None:
        counts = ", ".join(count(ours, _NOUNS[kind]) for kind, (ours, _) in found.compared.items())
        yield f"{found.old} and {found.new} are equal: {counts}"
    else:
        yield f"{found.old} and {found.new} differ: {_difference(found.headline)}"
        yield count(len(found.differences), "difference")
        for difference in found.differences:
            yield f"  {difference.kind:<8}  {_difference(difference)}"
            yield from (f"            {detail}" for detail in difference.details[1:])
    if found.not_judged:
        yield "different, but not counted as differences"
        yield from (f"  {_note(note)}" for note in found.not_judged)
    yield "measured, but not compared"
    yield from columns(_measured(*found.measured))


def _difference(difference: Difference) -> str:
    from whyrun.artifacts.compare.result import shortened

    return f"{shortened(difference.name, _LONGEST)}: {_description(difference)}"


def _description(difference: Difference) -> str:
    from whyrun.evidence.parity.fields import ABSENT

    old, new = difference.old, difference.new
    if old is ABSENT and new is ABSENT:
        return "missing in both"
    if not difference.field:
        return f"only in the first{_content(old)}" if new is ABSENT else f"only in the second{_content(new)}"
    if difference.details:
        return difference.details[0]
    return f"{difference.field} {_side(old)} → {_side(new)}"


def _content(value: Any) -> str:
    """The main fields of an event that the other run does not have."""
    shown = {name: one for name, one in value.items() if one not in (None, "")} if isinstance(value, dict) else {}
    names = [name for name in ("error_type", "error", "message", "why", "because", "reason", "status") if name in shown]
    return " (" + ", ".join(f"{name} {value_text(shown[name], 60)}" for name in names) + ")" if names else ""


def _side(value: Any) -> str:
    from whyrun.evidence.parity.fields import ABSENT

    if isinstance(value, str) and _HASH.fullmatch(value):
        return short(value)
    return "none" if value is ABSENT else value_text(value, 80)


def _note(note: Note) -> str:
    from whyrun.artifacts.compare.result import shortened

    return f"{shortened(note.name, _LONGEST)}: {_side(note.old)} → {_side(note.new)} ({note.why})"


def _measured(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    shown: dict[str, Callable[[Any], str]] = {
        "backend": str,
        "duration": duration_text,
        "cpu_seconds": duration_text,
        "peak_memory_bytes": bytes_text,
    }
    for name, text in shown.items():
        title = name.removesuffix("_seconds").removesuffix("_bytes").replace("_", " ")
        yield title, f"{text(old[name])} → {text(new[name])}"
