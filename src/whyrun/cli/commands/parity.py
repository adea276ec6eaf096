"""`whyrun parity RUN RUN [FILE]`: did two runs leave the same evidence?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.main import print_json
from whyrun.cli.subjects import is_run_name
from whyrun.cli.text import bytes_text, columns, duration_text, print_lines, short, value_text

if TYPE_CHECKING:
    from whyrun.evidence.parity_reading import RunEvidence
    from whyrun.evidence.parity_result import Difference, Note, Parity

_NOUNS = {"events": "event", "cfg": "cfg file", "artifacts": "artifact", "metrics": "count", "files": "file"}
_LONGEST = 300  # characters of a name
_HASH = re.compile(r"[0-9a-f]{64}")


@click.command(short_help="Prove that two runs left the same evidence, or say what differs.")
@click.argument("old", metavar="RUN")
@click.argument("new", metavar="RUN")
@click.argument("file", required=False, type=click.Path())
@click.option("--state", metavar="DIR", help="Where state lives, instead of .whyrun.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.pass_context
def command(context: click.Context, old: str, new: str, file: str | None, state: str | None, as_json: bool) -> None:
    """Compare the evidence of two runs, each made from an empty state: on two machines, or by two backends.

    Compared are: files present, manifest and cfg by their bytes, all events without when and where, row and count
    metrics, artifacts by content, and the status. Every difference is listed; the first is the headline. Durations,
    memory and what steps print are reported and not judged.

    RUN is `r0001` of the workflow, or the path of a run folder: two runs from empty states live in two states.

    Exit status: 0 equal; 1 something differs; 2 the words make no sense; 3 a run is unfinished or damaged.

    \b
    Example:
      whyrun run --state /tmp/here && whyrun run --state /tmp/there --backend sandbox
      whyrun parity /tmp/here/demo/runs/r0001 /tmp/there/demo/runs/r0001
      whyrun parity r0001 ../elsewhere/.whyrun/demo/runs/r0001 --json
    """
    from whyrun.evidence.parity import compare_runs
    from whyrun.evidence.parity_content import describe_difference

    _check_words((old, new), file, state)
    ours, theirs = _evidence(old, file, state), _evidence(new, file, state)
    found = compare_runs(ours, theirs, describe_difference)
    if as_json:
        print_json(found.to_json())
    else:
        print_lines(_lines(found))
    if not found.equal:
        _note_earlier_runs(ours, theirs)
    context.exit(0 if found.equal else 1)


def _check_words(runs: tuple[str, str], file: str | None, state: str | None) -> None:
    """A word that nobody would look at is a mistake."""
    from whyrun.errors import error

    given = [word for word in (f"`{file}`" if file else None, f"`--state {state}`" if state else None) if word]
    if given and not any(map(is_run_name, runs)):
        hint = "leave it out, or name a run of the workflow as `r0001`"
        raise error("USAGE", f"both runs are paths of folders, so {given[0]} says nothing", hint=hint)


def _evidence(word: str, file: str | None, state: str | None) -> RunEvidence:
    from whyrun.evidence.parity_reading import read_evidence, run_at
    from whyrun.snapshot.world import World

    if is_run_name(word):
        return read_evidence(word, World.open(file, state=state).state.run(word))
    return read_evidence(word, run_at(word))


def _note_earlier_runs(*sides: RunEvidence) -> None:
    """Plans and inputs of a later run tell of what was recorded before it."""
    from whyrun.log.journal import FIRST_CHAIN

    later = [f"`{side.name}`" for side in sides if side.start.previous_chain != FIRST_CHAIN]
    if later:
        why = "that alone makes plans and inputs differ"
        click.echo(f"note: {' and '.join(later)} did not start from an empty state; {why}", err=True)


def _lines(found: Parity) -> Iterator[str]:
    from whyrun.console.lines import count

    if found.headline is None:
        counts = ", ".join(count(ours, _NOUNS[kind]) for kind, (ours, _) in found.compared.items())
        yield f"{found.old} and {found.new} are equal: {counts}"
    else:
        yield f"{found.old} and {found.new} differ: {_words(found.headline)}"
        yield count(len(found.differences), "difference")
        for difference in found.differences:
            yield f"  {difference.kind:<8}  {_words(difference)}"
            yield from (f"            {detail}" for detail in difference.details[1:])
    if found.not_judged:
        yield "different, and not judged"
        yield from (f"  {_note(note)}" for note in found.not_judged)
    yield "measured, and not judged"
    yield from columns(_measured(*found.measured))


def _words(difference: Difference) -> str:
    from whyrun.artifacts.compare.result import shortened

    return f"{shortened(difference.name, _LONGEST)}: {_what(difference)}"


def _what(difference: Difference) -> str:
    from whyrun.evidence.parity_result import ABSENT

    old, new = difference.old, difference.new
    if old is ABSENT and new is ABSENT:
        return "missing in both"
    if not difference.field:
        return f"only in the first{_content(old)}" if new is ABSENT else f"only in the second{_content(new)}"
    if difference.details:
        return difference.details[0]
    return f"{difference.field} {_side(old)} → {_side(new)}"


def _content(value: Any) -> str:
    """What an event that the other run does not have says, as far as that is short."""
    shown = {name: one for name, one in value.items() if one not in (None, "")} if isinstance(value, dict) else {}
    told = [name for name in ("error_type", "error", "message", "why", "because", "reason", "status") if name in shown]
    return " (" + ", ".join(f"{name} {value_text(shown[name], 60)}" for name in told) + ")" if told else ""


def _side(value: Any) -> str:
    from whyrun.evidence.parity_result import ABSENT

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
