"""`whyrun why ID [FILE]`: why a job is or is not in the plan, back to the root cause."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec
from msgspec import UNSET

from whyrun.cli.options import project_options
from whyrun.cli.output import (
    LISTED,
    columns,
    note_narrow_patterns,
    note_running,
    page,
    print_json,
    print_lines,
    print_note,
    short,
    state_text,
    value_text,
)
from whyrun.errors import Exit, printable
from whyrun.facts.subjects import command_context

if TYPE_CHECKING:
    from whyrun.facts.plans import Planned
    from whyrun.facts.subjects import Subject
    from whyrun.planning.answers.explain import CommandContext
    from whyrun.planning.answers.why import PlanView, Why, WhyJob
    from whyrun.project import Project

MATCHES = 20  # answers for a pattern without --all; the rest is counted
DEEPEST = 12  # levels of indentation; deeper levels are not indented further
_STATES = {
    "planned": "is planned",
    "reused": "is in the plan; its result is reused",
    "open": "is open: how many it stands for is known once an earlier job has run",
    "deferred": "must run, but is deferred",
    "inactive": "is inactive",
    "clean": "is up to date",
}
_PAST = {
    "planned": "was planned",
    "reused": "was in the plan; its result was to be reused",
    "open": "was open: how many it stood for was not known yet",
    "deferred": "had to run, but was deferred",
    "inactive": "was inactive",
    "clean": "was up to date",
}


@click.command(short_help="Show why a job is, was, or is not in the plan.")
@click.argument("id_", metavar="ID")
@click.option("--at", metavar="RUN", help="Use the plan of this run, computed again from the log.")
@click.option("--all", "show_all", is_flag=True, help="Show everything.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show N matches; for an input, list N jobs.")
@click.option("--offset", type=click.IntRange(min=0), default=0, metavar="N", help="Skip the first N.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@project_options
def command(
    project: Project, id_: str, at: str | None, show_all: bool, limit: int | None, offset: int, as_json: bool
) -> None:
    """Show why a job is, was, or is not in the plan: reason by reason, back to the root cause.

    For an artifact, the answer is about its job. For an input, it lists the jobs that read it and the jobs that would
    run if it changed; jobs that are planned anyway are marked. `*` stands for a name or index; 20 matches are shown at
    a time. Long lists of similar jobs or reasons are cut and the rest is counted; --all shows all of them.

    A job that is up to date is compared again with its last success. If that finds a reason, it is printed as
    `contradiction`, and the exit status is 3: this is a bug in whyrun.

    \b
    Example:
      whyrun why Job:Montage
      whyrun why 'Artifact:Clip.Frame[1]' --at r0002
      whyrun why 'Job:Clip[*]' --limit 50 --offset 100
      whyrun why Job:Montage --all
      whyrun why Input:Topic
    """
    from whyrun.facts.plans import planned
    from whyrun.facts.subjects import find_subjects
    from whyrun.facts.why import why_head
    from whyrun.planning.answers.why import PlanView
    from whyrun.planning.plan import PlanOptions

    if at is None:
        note_running(project)
    found = planned(project, PlanOptions(), at=at, tell=print_note)
    subjects = find_subjects(found.snapshot.dependency_graph, id_, found.snapshot.records)
    note_narrow_patterns(found.snapshot.dependency_graph, [id_])
    known = PlanView(found.snapshot, found.plan)
    head = why_head(found, id_, at)
    is_pattern = subjects[0].id != id_
    chosen = subjects
    rows = Rows(None if show_all else LISTED)
    if is_pattern:
        chosen = subjects[offset:] if show_all and limit is None else subjects[offset : offset + (limit or MATCHES)]
    elif limit is not None or offset:
        rows = Rows(limit or rows.most, offset)
    answers = [_answer(project, found, known, subject, at, rows) for subject in chosen]
    left_out = max(0, len(subjects) - offset - len(answers)) if is_pattern else 0
    if not as_json:
        if not chosen:
            print_lines([f"`{id_}` has only {len(subjects)} matches"])
        for i, (_, lines) in enumerate(answers):
            print_lines(lines if i == 0 else ["", *lines])
        if left_out:
            print_lines(["", f"… {left_out} more match `{id_}` (`--offset {offset + len(answers)}` continues)"])
    elif not is_pattern:
        print_json({**head, **answers[0][0]})
    else:
        bodies = [{"id": subject.id, **body} for subject, (body, _) in zip(chosen, answers, strict=True)]
        print_json({**head, "answers": bodies, "more": left_out})
    if any("contradiction" in job for body, _ in answers for job in body.get("jobs", ())):
        click.get_current_context().exit(Exit.STATE)


class Rows(NamedTuple):
    """Which rows of a list are shown: `most` rows (None: all of them) after the first `offset`."""

    most: int | None
    offset: int = 0

    def page(self, rows: Sequence[Any]) -> tuple[Sequence[Any], str | None]:
        """The rows to show, and a line that counts the others."""
        if not self.offset:
            return page(rows, self.most is None, self.most or 0)
        shown = rows[self.offset : None if self.most is None else self.offset + self.most]
        if not shown:
            return shown, f"  there are only {len(rows)}"
        rest = len(rows) - self.offset - len(shown)
        return shown, f"  … {rest} more (`--offset {self.offset + len(shown)}` continues)" if rest else None


def _answer(
    project: Project, found: Planned, known: PlanView, subject: Subject, at: str | None, rows: Rows
) -> tuple[dict[str, Any], Iterable[str]]:
    """The answer for one subject, as JSON and as text lines."""
    from whyrun.facts.why import input_answer, why_body, why_node

    if subject.kind == "input":
        answer = input_answer(project, found, known, subject, at)
        return answer, _input_lines(subject.id, answer, at, rows)
    why = why_node(project, known, subject.node, whole=rows.most is None)
    return why_body(why), why_lines(why, subject, at, known, command_context(project))


# --- jobs and artifacts ------------------------------------------------------------------------------------------


def why_lines(why: Why, subject: Subject, at: str | None, known: PlanView, context: CommandContext) -> Iterator[str]:
    if subject.kind != "job":
        relation = "is made by" if subject.kind == "artifact" else "belongs to"
        yield f"{subject.id} {relation} {why.jobs[0].id}"
    position = known.snapshot.log_position
    when = f"in the plan of {at}" if at else f"after {position['run']}" if position else "before the first run"
    for job in why.jobs:
        indent = min(job.depth, DEEPEST) * 2
        lead = " " * indent + ("" if job.depth == 0 else "because ")
        state = (_PAST if at else _STATES)[job.state]
        layer = f" (layer {job.layer})" if job.layer is not None and job.state != "inactive" else ""
        alike = f", and {job.alike} more like it (`--all` shows them)" if job.alike else ""
        yield f"{lead}{job.id} {state}{layer}{', ' + when if job.depth == 0 else ''}{alike}"
        yield from columns(_job_rows(job, known, context), indent + 2)
    if why.more:
        yield f"… {why.more} more jobs upstream (`--all` shows them)"
    if why.hidden:
        yield "root causes among these"
        yield from columns(_root_rows(why.hidden, known, context))
    elif len(why.roots) == 1 and not why.is_chain:  # the tree above has it, but does not show which job it is
        yield f"root cause: {why.roots[0].id}"


def _root_rows(roots: Sequence[WhyJob], known: PlanView, context: CommandContext) -> Iterator[tuple[str, ...]]:
    for root in roots:
        for i, row in enumerate(_job_rows(root, known, context)):
            yield (root.id if i == 0 else "", *row)


def _job_rows(job: WhyJob, known: PlanView, context: CommandContext) -> Iterator[tuple[str, ...]]:
    from whyrun.planning.answers.explain import job_lines, kept_lines

    for source in job.exists_by:
        yield "exists", f"because {source}"
    if job.state == "clean":
        yield from _clean_rows(job)
        return
    # `WhyJob` can have more reasons than the plan lists: `--all` completes those of the first job.
    planned = msgspec.structs.replace(known.jobs[job.node], reasons=job.reasons)
    yield from job_lines(planned, "--all" if job.depth == 0 else "", context)
    yield from kept_lines(planned, context)
    for artifact, success in job.made:
        verb = "made" if success.how == "executed" else success.how
        yield "", f"{artifact} was {verb} in {success.run}"


def _clean_rows(job: WhyJob) -> Iterator[tuple[str, ...]]:
    assert job.last_success is not None
    how = {
        "executed": "it succeeded in", "reused": "its result was reused in", "adopted": "its result was adopted in",
        "kept": "its result was kept, without running, in",
    }  # fmt: skip
    since = f"{how[job.last_success.how]} {job.last_success.run}"
    if job.last_success.kept is not None:
        since += printable(" by {}: {}".format(*job.last_success.kept))
    since += "".join(f", {artifact} was adopted in {run}" for artifact, run in job.last_success.adopted.items())
    yield "last success", since if job.contradiction else f"{since}; nothing that it consumes has changed"
    own = f"Input:{job.id.removeprefix('Job:')}."  # these IDs contain the name of the parameter already
    for one in job.compared:
        what = value_text(one.value) if one.value is not UNSET else short(one.sha256)
        what = str(one.value) if one.name == "observed" and not one.sha256 else what
        word = "differs" if one.differs else "same"
        yield word, f"{one.id}  {what}" if one.id.startswith(own) else f"{one.name} ← {one.id}  {what}"
    if job.compared_more:
        yield "", f"… and {job.compared_more} more" + (" (`--all` lists them)" if job.depth == 0 else "")
    for reason in job.contradiction:
        yield "contradiction", f"{reason.code}  {reason.text(job.id)}"
    if job.contradiction:
        trace = f"whyrun explain --trace {shlex.quote(job.id)}"
        yield "", f"a job with a reason is not up to date: a bug in Whyrun; please report what `{trace}` prints"


# --- inputs ------------------------------------------------------------------------------------------------------


def _input_lines(id_: str, answer: dict[str, Any], at: str | None, rows: Rows) -> Iterator[str]:
    verb = "had changed" if at else "has changed"
    if answer["changed"]:
        yield f"{id_} {verb} since the run before" if at else f"{id_} {verb} since the last run"
        if answer["changed"] != [id_]:
            shown, rest = rows.page(answer["changed"])
            yield from (f"  {element}" for element in shown)
            if rest is not None:
                yield rest
    else:
        yield f"{id_} {'had' if at else 'has'} not changed"
    readers = answer["readers"]
    only_conditions = bool(readers) and all("condition_only" in r for r in readers)
    if only_conditions:
        yield "only these conditions read it; its value decides whether the jobs run"
    else:
        yield "read by" if readers else "no job reads it"
    shown, rest = rows.page(readers)
    yield from columns(_reader_row(r, only_conditions) for r in shown)
    if rest is not None:
        yield rest
    would_run = answer.get("would_run")
    if would_run and all("anyway" in each for each in would_run):
        yield "all jobs that would run if it changed are planned anyway"  # as before the first run
    elif would_run:
        price = f"  ({answer['price']})" if "price" in answer else ""
        yield f"if it changed, these would run{' too' if answer['changed'] else ''}{price}"
        shown, rest = rows.page(would_run)
        yield from columns((r["job"], r["reason"], "planned anyway" if "anyway" in r else "") for r in shown)
        if rest is not None:
            yield rest


def _reader_row(reader: dict[str, Any], only_conditions: bool) -> tuple[str, ...]:
    state = state_text(reader["state"])
    if "condition_only" in reader and not only_conditions:
        state += " (only its condition reads it)"
    return reader["job"], state, reader.get("reason", ""), reader.get("text", "")
