"""PLAN → words: `render_explain(plan)` and `explain_json(plan)`. Pure.

Explain decides nothing and looks nothing up: it writes down the reasons that the plan holds. So what is explained is
what is planned is what is executed. An estimate is no part of a plan; `estimate_seconds` makes one from the log.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, assert_never

from whyrun.artifacts.hashing import value_sha256
from whyrun.ids import parse_id_of, split_site
from whyrun.planning.listing import Listed, Listing, closing_line, listed, plan_blocks, summary_lines
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.planning.reasons import (
    Forced,
    InputChanged,
    MissingOutput,
    More,
    Reason,
    RetryPreviousFailure,
    UpstreamDirty,
    UpstreamFailed,
    reason_json,
)
from whyrun.snapshot.records import KEPT_OF_ERROR, StepRecord
from whyrun.snapshot.snapshot import PlanningSnapshot

LONGEST = 80  # characters of a small value
DIFFERENCES = 3  # within a value that are told
_NULL = value_sha256(None)
_ABSENT = object()
_CHANGES = {
    "deleted": "deleted",
    "changed": "changed",
    "unpublished": "not published there yet",
    "unreadable": "the file is no valid JSON object",
    "lost": "its stored bytes are gone",
    "retyped": "it was made with another type, suffix or `append`",  # the reason does not say which of them
    "disowned": "its action does not find its part in it",
}
_GIVEN: dict[tuple[str | None, str | None], str] = {
    ("f", "t"): "given as text, not as a file",
    ("t", "f"): "given as a file, not as text",
    ("a", "at"): "given as texts, not as files",
    ("at", "a"): "given as files, not as texts",
}

Line = tuple[str, str]  # (reason code or lower-case mark, particulars)


# --- text --------------------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """How the one who reads this asked for it, so that a command they are told does what it says when it is pasted."""

    words: str = ""  # the workflow, inputs and state, with a blank before each
    folder: str = ""  # of the project, seen from where they are, with a slash at its end


NOTHING_SAID = Asked()


def render_explain(
    plan: Plan,
    *,
    estimate: float | None = None,
    show_all: bool = False,
    listing: Listing | None = None,
    asked: Asked = NOTHING_SAID,
) -> str:
    """The plan and every reason, for people. `estimate`: seconds that the run may take."""
    listing = listing or Listing(show_all=show_all)
    found = listed(plan, listing)
    text = [headline(plan, estimate)]
    if found.summary:
        text += summary_lines(found)
    else:
        text += _reason_lines(found, asked)
    closing = closing_line(plan, listing, found)
    return "\n".join(text if closing is None else [*text, closing])


def _reason_lines(found: Listed, asked: Asked) -> Iterator[str]:
    told = [
        (block, [(job.id, job_lines(job, "--job ID --all", asked)) for job in block.jobs]) for block in found.blocks
    ]
    ids = max((len(id_) for _, shown in told for id_, _ in shown), default=0)
    codes = max((len(code) for _, shown in told for _, lines in shown for code, _ in lines if code), default=0)
    for block, shown in told:
        yield block.title
        for id_, lines in shown:
            for i, (code, particulars) in enumerate(lines):
                yield f"  {id_ if i == 0 else '':<{ids}}   {code:<{codes}}  {particulars}".rstrip()
        if block.total > len(shown):
            yield f"  … and {block.total - len(shown)} more (`--all` lists them)"


def headline(plan: Plan, estimate: float | None = None) -> str:
    """One line that accounts for every job: the numbers add up to all of them."""
    totals = plan.totals
    after = f"after {plan.log_position['run']}" if plan.log_position else "before its first run"
    parts: list[str] = []
    idle = not (totals["planned"] or totals["reused"] or totals["deferred"])
    if totals["planned"]:
        parts.append(f"{totals['planned']} of {_jobs(totals['jobs'])} to run")
    elif idle:
        parts += ["nothing to do", f"{totals['clean']} of {_jobs(totals['jobs'])} up to date"]
    else:
        # Not "nothing to do": there is something, it only needs no execution or is put off.
        parts.append(f"none of {_jobs(totals['jobs'])} to run")
    shared = sum(job.reuse.shared is not None for job in plan.planned if job.reuse is not None)
    if totals["reused"] > shared:
        parts.append(f"{totals['reused'] - shared} reused from earlier runs")
    if shared:
        parts.append(f"{shared} reused from the shared store")
    if totals["deferred"]:
        parts.append(f"{totals['deferred']} deferred by {_controls(plan)}")
    if totals["inactive"]:
        parts.append(f"{totals['inactive']} inactive")
    if totals["clean"] and not idle:
        parts.append(f"{totals['clean']} up to date")
    text = f"{plan.workflow} {after}: {', '.join(parts)}"
    return text if estimate is None or not totals["planned"] else f"{text}  (~{about(estimate)})"


class Fate(StrEnum):
    """What becomes of adopted versions that a planned job has."""

    EXECUTED = "is made anew"
    REUSED = "an earlier result takes its place"
    OPEN = "stays only if what comes from upstream is as before"


def fate_of_adopted(job: PlannedJob) -> Fate:
    if job.reuse is not None:
        return Fate.REUSED
    if any(isinstance(reason, InputChanged | Forced) or _is_declared_anew(reason) for reason in job.reasons):
        return Fate.EXECUTED
    return Fate.OPEN if any(isinstance(reason, UpstreamDirty) for reason in job.reasons) else Fate.EXECUTED


def _is_declared_anew(reason: Reason) -> bool:
    return isinstance(reason, MissingOutput) and reason.change == "retyped"


def job_lines(job: PlannedJob, shows_rest: str = "", asked: Asked = NOTHING_SAID) -> list[Line]:
    """All that the plan says of one job: its reasons in their order, then what else is known about its turn.
    `shows_rest`: the words that show the particulars which are only counted."""
    if job.state == "inactive":
        return [_inactive(job.because)]
    lines: list[Line] = []
    for reason in job.reasons:
        how = f" (`{shows_rest}` lists them)" if shows_rest and isinstance(reason, More) else ""
        lines.append((reason.code, particulars(reason, job.id) + how))
        if isinstance(reason, MissingOutput) and reason.change == "changed" and reason.path and reason.artifact:
            file = f"{asked.folder}{split_site(reason.path)[0]}"
            adopt = f"whyrun adopt {shlex.quote(reason.artifact)} {shlex.quote(file)}{asked.words}"
            lines.append(("", f"keep your version: {printable(adopt)}"))
    fate = fate_of_adopted(job)
    for artifact, run in job.replaces.items():
        waits = any(reason.code == UpstreamDirty.code for reason in job.reasons)
        then = " after the run" if waits else ""
        lines.append(("adopted", f"{artifact} is your version of {run}, and {fate}; to have it back{then}:"))
        lines.append(("", printable(f"whyrun restore {shlex.quote(artifact)} --from {run}{asked.words}")))
    if job.reuse is not None:
        lines.append(("reuse", job.reuse.told(job.id)))
    if job.conditional:
        lines.append(("conditional", "whether it runs is decided during the run"))
    return lines


def particulars(reason: Reason, job: str) -> str:
    """What one reason says beyond its code."""
    match reason:
        case RetryPreviousFailure():
            attempt = f" attempt {reason.attempt}" if reason.attempt else ""  # a reuse is none
            return printable(f"{reason.run}{attempt}: {reason.error_type}: {_whole_words(reason.error)}")
        case MissingOutput():
            return _missing(reason)
        case InputChanged():
            return _changed(reason, job)
        case UpstreamFailed():
            return reason.artifact
        case UpstreamDirty():
            return reason.job
        case Forced():
            return f"--force {reason.by}"
        case More():
            return f"… and {reason.more} more"
        case _:
            assert_never(reason)


def _whole_words(error: str) -> str:
    """The record of an attempt keeps the beginning of a long message: then it ends after a word, and says so."""
    return error if len(error) < KEPT_OF_ERROR else f"{error.rpartition(' ')[0] or error} …"


def _missing(reason: MissingOutput) -> str:
    if reason.artifact is None:
        return "it has not succeeded yet"
    if reason.change is None:
        return reason.artifact
    where = f"  {reason.path}" if reason.path else ""
    return printable(f"{reason.artifact}{where} ({_CHANGES.get(reason.change, reason.change)})")


def _changed(reason: InputChanged, job: str) -> str:
    if reason.problem is not None:
        return printable(f"{reason.binding} cannot be computed: {reason.problem}")
    own = f"Input:{parse_id_of('Job', job).path}."  # parameters and the action have IDs that name the slot already

    def named(source: str) -> str:
        return source if source.startswith(own) else f"{reason.binding} ← {source}"

    old, new = _shown(reason.old, reason.old_value), _shown(reason.new, reason.new_value)
    if reason.source is None and reason.old_source is None:
        if reason.old is None:
            return f"{reason.binding}  an empty list came or went"
        return f"{reason.binding}  {old} → another list"
    if reason.source is None:
        assert reason.old_source is not None
        return f"{named(reason.old_source)}  {old} (removed)"
    if reason.old is None:
        return f"{named(reason.source)}  {new} (added)"
    text = named(reason.source)
    if reason.old_source is not None and reason.old_source != reason.source:
        text += f" (was {reason.old_source})"
    if reason.old == reason.new:
        return f"{text}  {_form_change(reason.old_as, reason.new_as)}"
    files = f"  ({', '.join(reason.files)})" if reason.files else ""
    if reason.versions:
        return printable(f"{text}  {', '.join(reason.versions)}{files}")
    inside = _differences(reason.old_value, reason.new_value)
    return printable(f"{text}  {inside or f'{old} → {new}'}{files}")


def _form_change(old: str | None, new: str | None) -> str:
    """Of the same content: how it is given now. Only what a step sees of texts is told apart."""
    return _GIVEN.get((_handed(old), _handed(new)), "the same content in another place or form")


def _handed(form: str | None) -> str | None:
    """`t` of `t.txt` and `t.txt[]`; `at` of an array of texts: see `graph.fingerprint`."""
    return form and (form.removesuffix("[]") if form.startswith("a") else form[0])


def _shown(sha256: str | None, value: Any) -> str:
    """A small value itself, else its hash in short."""
    if value is not None or sha256 == _NULL:
        return _small(value)
    return f"{sha256[:4]}…" if sha256 else ""


def _small(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return printable(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def _differences(old: Any, new: Any) -> str:
    """Where two mappings or lists differ, if that says more than both of them side by side; else nothing."""
    if type(old) is not type(new) or not isinstance(old, dict | list):
        return ""
    found = list(_differing(old, new, ""))
    if not found or len(json.dumps([old, new])) <= LONGEST:
        return ""
    more = f", … ({len(found)} differences)" if len(found) > DIFFERENCES else ""
    return ", ".join(f"{path} {_told(a)} → {_told(b)}" for path, a, b in found[:DIFFERENCES]) + more


def _differing(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differing(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _differing(a, b, f"{path}[{i}]")
    elif old != new or type(old) is not type(new):
        yield path, old, new


def _told(value: Any) -> str:
    return "nothing" if value is _ABSENT else _small(value)


def _inactive(because: Mapping[str, Any]) -> Line:
    if "source" in because:
        return "source_inactive", f"{because['source']} is absent"
    values = ", ".join(f"{id_} = {_small(value)}" for id_, value in because["inputs"].items())
    return "condition_false", printable(f"{because['condition']}" + (f"  {values}" if values else ""))


def printable(text: str) -> str:
    """What others wrote (messages, paths, values) must not steer the reader's terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)


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
    """A duration as one says it: 0.3 s, 4 s, 12 min, 1 h 20 min."""
    if seconds < 0.95:
        return f"{max(seconds, 0.1):.1f} s"
    if seconds < 89.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


# --- JSON --------------------------------------------------------------------------------------------------------


def explain_json(plan: Plan, listing: Listing | None = None) -> dict[str, Any]:
    """The same for programs: each job under its block, each reason with its particulars and its text. With a `listing`
    that chooses jobs or a page, those alone, and how many were chosen."""
    listing = listing or Listing()
    body: dict[str, Any] = {
        "workflow": plan.workflow,
        "digest": plan.digest,
        "log_position": dict(plan.log_position) if plan.log_position is not None else None,
        "headline": headline(plan),
        "options": plan.options.to_json(),
        "totals": dict(plan.totals),
    }
    jobs: Sequence[PlannedJob] = plan.jobs
    if listing.chooses or listing.pages:
        found = listed(plan, listing)
        body |= {"chosen": found.chosen, "offset": listing.offset, "limit": listing.limit}
        jobs = [job for block in found.blocks for job in block.jobs]
    body |= {"layers": [], "deferred": [], "inactive": []}
    for title, members in plan_blocks(jobs):
        written = [_job_json(job) for job in members]
        if title in ("deferred", "inactive"):
            body[title] = written
        else:
            body["layers"].append({"layer": members[0].layer, "jobs": written})
    return body


def _job_json(job: PlannedJob) -> dict[str, Any]:
    found: dict[str, Any] = {"id": job.id, "action": job.action, "layer": job.layer}
    if job.state == "inactive":
        found["because"] = dict(job.because)
        return found
    if job.reuse is not None:
        found["reuse"] = job.reuse.run
    if job.conditional:
        found["conditional"] = True
    if job.replaces:
        found["replaces_adopted"] = dict(job.replaces)
    found["reasons"] = [{**reason_json(reason), "text": particulars(reason, job.id)} for reason in job.reasons]
    return found


# --- estimates ---------------------------------------------------------------------------------------------------


def logged_duration(record: StepRecord | None) -> float | None:
    """How long the job took when what it has now was executed, by itself or by a sister; None if it never was."""
    if record is None:
        return None
    for attempt in (record.latest, record.success, *reversed(list(record.attempts()))):
        if attempt is not None and attempt.ok and (attempt.duration or not attempt.origin):
            return attempt.duration
    return None


def expected_durations(plan: Plan, snapshot: PlanningSnapshot) -> dict[str, float | None]:
    """By planned job, in seconds: its own logged duration, else the mean of its sisters', else what its action expects,
    else None. Reuse is free."""
    graph = snapshot.dependency_graph
    sisters: dict[int, float | None] = {}

    def mean_of(number: int) -> float | None:
        if number not in sisters:
            jobs = graph.tables[number].job_ids()
            known = [d for job in jobs if (d := logged_duration(snapshot.records.steps.get(job))) is not None]
            sisters[number] = sum(known) / len(known) if known else None
        return sisters[number]

    found: dict[str, float | None] = {}
    never_ran: dict[int, str] = {}
    for job in plan.planned:
        if job.reuse is not None:
            found[job.id] = 0.0
            continue
        own = logged_duration(snapshot.records.steps.get(job.id))
        found[job.id] = own if own is not None else mean_of(graph.table_at(job.node)[0].number)
        if found[job.id] is None:
            never_ran[job.node] = job.id
    if never_ran and snapshot.estimator is not None:
        for node, seconds in snapshot.estimator(list(never_ran)).items():
            found[never_ran[node]] = seconds
    return found


def estimate_seconds(plan: Plan, durations: Mapping[str, float | None], workers: int) -> float | None:
    """The time the plan may take, as if layers waited for each other; None unless every job has been timed."""
    total = 0.0
    for layer in plan.layers:
        known: Sequence[float] = [d for job in layer if (d := durations.get(job)) is not None]
        if len(known) < len(layer):
            return None
        total += max(max(known), sum(known) / max(1, workers))
    return total
