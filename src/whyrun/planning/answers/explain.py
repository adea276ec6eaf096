"""PLAN → text and JSON: `render_explain(plan)`, its short form `render_plan(plan)`, and `explain_json(plan)`. Pure.

Explain decides nothing and looks nothing up: it writes the reasons that the plan contains. So it explains exactly what
a run executes. Estimates are not part of a plan; `estimate_seconds` computes one from logged durations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from whyrun.errors import column_width, padded, printable
from whyrun.ids import split_site, whole_of
from whyrun.planning.answers.listing import Listed, Listing, closing_line, listed, plan_blocks, summary_lines
from whyrun.planning.input_changes import short_value
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.planning.reasons import MissingOutput, More, UpstreamDirty, reason_json
from whyrun.snapshot.records import StepRecord
from whyrun.snapshot.snapshot import PlanningSnapshot

if TYPE_CHECKING:
    from whyrun.planning.answers.prices import Prices

Line = tuple[str, str]  # (reason code or lower-case mark, text)


# --- text --------------------------------------------------------------------------------------------------------


class CommandContext(msgspec.Struct, frozen=True):
    """The options of the present command, so that commands in hints work when the user pastes them."""

    words: str = ""  # the workflow, inputs and state, with a blank before each
    folder: str = ""  # the project folder relative to the working directory, with a slash at its end


NO_CONTEXT = CommandContext()


def render_explain(
    plan: Plan,
    *,
    estimate: float | None = None,
    show_all: bool = False,
    listing: Listing | None = None,
    context: CommandContext = NO_CONTEXT,
    prices: Prices | None = None,
) -> str:
    """The plan with every reason, as text. `estimate`: the expected duration of the run in seconds. `prices`: what it
    would cost."""
    listing = listing or Listing(show_all=show_all)
    shown_jobs = listed(plan, listing)
    text = [headline(plan, estimate, prices)]
    if shown_jobs.summary:
        text += summary_lines(shown_jobs)
    else:
        text += _reason_lines(shown_jobs, context, prices)
    closing = closing_line(plan, listing, shown_jobs)
    return "\n".join(text if closing is None else [*text, closing])


def _reason_lines(shown_jobs: Listed, context: CommandContext, prices: Prices | None) -> Iterator[str]:
    def lines_of(job: PlannedJob) -> list[Line]:
        price = prices.of_job(job.id) if prices is not None else None
        return job_lines(job, "--job ID --all", context) + ([("price", price)] if price is not None else [])

    blocks = [(block, [(job.id, lines_of(job)) for job in block.jobs]) for block in shown_jobs.blocks]
    ids = column_width(id_ for _, shown in blocks for id_, _ in shown)
    codes = max((len(code) for _, shown in blocks for _, lines in shown for code, _ in lines if code), default=0)
    for block, shown in blocks:
        yield block.title
        for id_, lines in shown:
            for i, (code, particulars) in enumerate(lines):
                yield f"  {padded(id_ if i == 0 else '', ids)}   {code:<{codes}}  {particulars}".rstrip()
        if block.total > len(shown):
            yield f"  … and {block.total - len(shown)} more (`--all` lists them)"


def headline(plan: Plan, estimate: float | None = None, prices: Prices | None = None) -> str:
    """One line that counts every job once."""
    totals = plan.totals
    running = sum(job.is_running for job in plan.jobs)
    when = "during" if running else "after"
    after = f"{when} {plan.log_position['run']}" if plan.log_position else "before its first run"
    parts: list[str] = []
    idle = not (totals["planned"] or totals["reused"] or totals["deferred"] or totals.get("open"))
    if totals["planned"]:
        now = f", {running} running" if running else ""
        parts.append(f"{totals['planned']} of {_jobs(totals['jobs'])} to run{now}")
    elif idle:
        parts += ["nothing to do", f"{totals['clean']} of {_jobs(totals['jobs'])} up to date"]
    else:
        # Not "nothing to do": jobs are reused or deferred.
        parts.append(f"none of {_jobs(totals['jobs'])} to run")
    shared = sum(job.reuse.shared is not None for job in plan.planned if job.reuse is not None)
    if totals["reused"] > shared:
        parts.append(f"{totals['reused'] - shared} reused from earlier runs")
    if shared:
        parts.append(f"{shared} reused from the shared store")
    if totals.get("open"):
        parts.append(f"{totals['open']} open until their loops are known")
    if totals["deferred"]:
        parts.append(f"{totals['deferred']} deferred by {_controls(plan)}")
    if totals["inactive"]:
        parts.append(f"{totals['inactive']} inactive")
    if totals["clean"] and not idle:
        parts.append(f"{totals['clean']} up to date")
    text = f"{plan.workflow} {after}: {', '.join(parts)}"
    known = [f"~{about(estimate)}"] if estimate is not None else []
    known += [prices.text()] if prices is not None else []
    return f"{text}  ({', '.join(known)})" if known and totals["planned"] else text


class Fate(StrEnum):
    """What happens to the adopted outputs of a planned job."""

    EXECUTED = "is made again"
    REUSED = "is replaced by an earlier result"
    OPEN = "stays only if the results upstream do not change"


def fate_of_adopted(job: PlannedJob) -> Fate:
    if job.reuse is not None:
        return Fate.REUSED
    if any(not isinstance(reason, More) and reason.outdates_result for reason in job.reasons):
        return Fate.EXECUTED
    return Fate.OPEN if any(isinstance(reason, UpstreamDirty) for reason in job.reasons) else Fate.EXECUTED


def job_lines(job: PlannedJob, shows_rest: str = "", context: CommandContext = NO_CONTEXT) -> list[Line]:
    """Everything that the plan says about one job: its reasons, then adopted outputs, reuse and condition.
    `shows_rest`: the options that list the particulars that are only counted."""
    if job.state == "inactive":
        return [inactive_line(job.because)]
    import shlex  # imported late: a plan with nothing to do has no commands in it

    lines: list[Line] = []
    for reason in job.reasons:
        rest = f" (`{shows_rest}` lists them)" if shows_rest and isinstance(reason, More) else ""
        lines.append((reason.code, reason.text(job.id) + rest))
        if not isinstance(reason, MissingOutput) or not reason.edited_path or not reason.artifact:
            continue
        if whole_of(job.id, reason.artifact) is not None:  # elements of arrays cannot be adopted
            file = f"{context.folder}{split_site(reason.edited_path)[0]}"
            adopt = f"whyrun adopt {shlex.quote(reason.artifact)} {shlex.quote(file)}{context.words}"
            lines.append(("", f"keep your version: {printable(adopt)}"))
    fate = fate_of_adopted(job)
    for artifact, run in job.replaces.items():
        waits = any(reason.code == UpstreamDirty.code for reason in job.reasons)
        then = " after the run" if waits else ""
        lines.append(("adopted", f"{artifact} is your version of {run}, and {fate}; to have it back{then}:"))
        lines.append(("", printable(f"whyrun restore {shlex.quote(artifact)} --from {run}{context.words}")))
    if job.reuse is not None:
        lines.append(("reuse", job.reuse.describe(job.id)))
    if job.conditional:
        lines.append(("conditional", "whether it runs is decided during the run"))
    return lines


def kept_lines(job: PlannedJob, context: CommandContext = NO_CONTEXT) -> list[Line]:
    """The result that a job had before it failed with the same inputs, and the command that takes it again.

    Not among `job_lines`: the plan does not take it. `why` shows these lines, `explain` and `plan` make a note of them.
    """
    if not job.restorable:
        return []
    import shlex

    (artifact, run), *more = job.restorable.items()
    what = f"{artifact} (and {len(more)} more)" if more else artifact
    command = printable(f"whyrun restore {shlex.quote(artifact)} --from {run}{context.words}")
    return [("kept", f"{what} of {run}; to use it again instead of running the job:"), ("", command)]


def inactive_line(because: Mapping[str, Any]) -> Line:
    if "source" in because:
        return "source_inactive", f"{because['source']} is absent"
    values = ", ".join(f"{id_} = {short_value(value)}" for id_, value in because["inputs"].items())
    return "condition_false", printable(f"{because['condition']}" + (f"  {values}" if values else ""))


def _jobs(number: int) -> str:
    return f"{number} job" if number == 1 else f"{number} jobs"


def _controls(plan: Plan) -> str:
    options = plan.options
    controls = []
    if options.targets:
        controls.append("--target " + (options.targets[0] if len(options.targets) == 1 else "…"))
    if options.up is not None:
        controls.append(f"--up {options.up}")
    return " and ".join(controls)


def about(seconds: float) -> str:
    """A rounded duration: 0.3 s, 4 s, 12 min, 1 h 20 min."""
    if seconds < 0.95:
        return f"{max(seconds, 0.1):.1f} s"
    if seconds < 89.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


# --- JSON --------------------------------------------------------------------------------------------------------


def explain_json(plan: Plan, listing: Listing | None = None, prices: Prices | None = None) -> dict[str, Any]:
    """The same as JSON: each job under its block, each reason with its fields and its text. With a `listing` that
    chooses jobs or a page, only those, and how many were chosen."""
    listing = listing or Listing()
    body: dict[str, Any] = {
        "workflow": plan.workflow,
        "digest": plan.digest,
        "log_position": dict(plan.log_position) if plan.log_position is not None else None,
        "headline": headline(plan),
        "options": plan.options.to_json(),
        "totals": dict(plan.totals),
        **({"prices": prices.to_json()} if prices is not None else {}),
    }
    jobs: Sequence[PlannedJob] = plan.jobs
    if listing.chooses or listing.pages:
        shown_jobs = listed(plan, listing)
        body |= {"chosen": shown_jobs.chosen, "offset": listing.offset, "limit": listing.limit}
        jobs = [job for block in shown_jobs.blocks for job in block.jobs]
    body |= {"layers": [], "deferred": [], "inactive": []}
    for title, members in plan_blocks(jobs):
        written = [{**job_json(job), **(prices.job_json(job.id) if prices is not None else {})} for job in members]
        if title in ("open", "deferred", "inactive"):
            body[title] = written
        else:
            body["layers"].append({"layer": members[0].layer, "jobs": written})
    return body


def job_json(job: PlannedJob) -> dict[str, Any]:
    """One job of the plan, as `explain --json` has it."""
    body: dict[str, Any] = {"id": job.id, "action": job.action, "layer": job.layer}
    if job.state == "inactive":
        body["because"] = dict(job.because)
        return body
    if job.reuse is not None:
        body["reuse"] = job.reuse.written(job.id)
    if job.conditional:
        body["conditional"] = True
    if job.replaces:
        body["replaces_adopted"] = dict(job.replaces)
    if job.restorable:
        body["restorable"] = dict(job.restorable)
    body["reasons"] = [{**reason_json(reason), "text": reason.text(job.id)} for reason in job.reasons]
    return body


# --- estimates ---------------------------------------------------------------------------------------------------


def logged_duration(record: StepRecord | None) -> float | None:
    """The duration of the execution that made the present result, by this or another instance; None without one."""
    if record is None:
        return None
    for attempt in (record.latest, record.success, *reversed(list(record.attempts()))):
        if attempt is not None and attempt.ok and (attempt.duration or not attempt.origin):
            return attempt.duration
    return None


def expected_durations(plan: Plan, snapshot: PlanningSnapshot) -> dict[str, float | None]:
    """Seconds by planned job: its own logged duration, else the mean of the other instances, else the estimate of its
    action, else None. Reuse takes no time."""
    graph = snapshot.dependency_graph
    others: dict[int, float | None] = {}

    def mean_of(number: int) -> float | None:
        if number not in others:
            jobs = graph.tables[number].job_ids()
            known = [d for job in jobs if (d := logged_duration(snapshot.records.steps.get(job))) is not None]
            others[number] = sum(known) / len(known) if known else None
        return others[number]

    durations: dict[str, float | None] = {}
    never_ran: dict[int, str] = {}
    for job in plan.planned:
        if job.reuse is not None:
            durations[job.id] = 0.0
            continue
        own = logged_duration(snapshot.records.steps.get(job.id))
        durations[job.id] = own if own is not None else mean_of(graph.table_at(job.node)[0].number)
        if durations[job.id] is None:
            never_ran[job.node] = job.id
    if never_ran and snapshot.estimator is not None:
        for node, seconds in snapshot.estimator(list(never_ran)).items():
            durations[never_ran[node]] = seconds
    return durations


def estimate_seconds(plan: Plan, durations: Mapping[str, float | None], workers: int) -> float | None:
    """The expected duration of the plan if each layer waits for the one before; None unless every job has one."""
    total = 0.0
    for layer in plan.layers:
        known: Sequence[float] = [d for job in layer if (d := durations.get(job)) is not None]
        if len(known) < len(layer):
            return None
        total += max(max(known), sum(known) / max(1, workers))
    return total


# --- The short form, for plan ----------------------------------------------------------------------------------------


def render_plan(
    plan: Plan,
    *,
    estimate: float | None = None,
    show_all: bool = False,
    listing: Listing | None = None,
    prices: Prices | None = None,
) -> str:
    """The short form: each job under its layer with its first reason. `explain` shows all reasons."""
    listing = listing or Listing(show_all=show_all)
    jobs = listed(plan, listing)
    text = [headline(plan, estimate, prices), *(summary_lines(jobs) if jobs.summary else _short_lines(jobs, prices))]
    closing = closing_line(plan, listing, jobs)
    return "\n".join(text if closing is None else [*text, closing])


def _short_lines(listed_jobs: Listed, prices: Prices | None) -> Iterator[str]:
    width = column_width(job.id for block in listed_jobs.blocks for job in block.jobs)
    for block in listed_jobs.blocks:
        yield block.title
        for job in block.jobs:
            yield f"  {padded(job.id, width)}   {_short(job, prices)}".rstrip()
        if block.total > len(block.jobs):
            yield f"  … and {block.total - len(block.jobs)} more (`--all` lists them)"


def _short(job: PlannedJob, prices: Prices | None) -> str:
    if job.state == "inactive":
        return job_lines(job)[0][0]
    marks = []
    others = sum(reason.more if isinstance(reason, More) else 1 for reason in job.reasons) - 1
    if others:
        marks.append(f"+{others}")
    if job.reuse is not None:
        marks.append(f"reuse {job.reuse.written(job.id)}")
    if job.conditional:
        marks.append("conditional")
    price = prices.of_job(job.id, source=False) if prices is not None else None
    marks += [price] if price is not None else []
    return f"{job.headline}" + (f" ({', '.join(marks)})" if marks else "")
