"""What commands show: the short form of a plan, a dry run, the summary of a run; and colour where it is welcome."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from whyrun.console.lines import BAD, seconds, size, why_no_value
from whyrun.log.events import NOT_PUBLISHED
from whyrun.planning.explain import about, headline, job_lines, logged_duration, printable
from whyrun.planning.listing import SHOWN, Listed, Listing, closing_line, listed, summary_lines
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.planning.reasons import CODES, More
from whyrun.snapshot.snapshot import PlanningSnapshot

LAST_LINES = 3  # of an error of many lines, after its first: for a script the end of what it said

# ANSI: enough for a few words, so that no library is loaded for it.
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATUS_STYLES: dict[str, str] = {
    "EXECUTES": "green",
    "IDENTICAL": "green",
    "WOULD_EXECUTE": "yellow",
    "SKIPS": "dim",
    "WOULD_SKIP": "dim",
    **dict.fromkeys(BAD, "red"),
}
_CODE_STYLES = {code: "red" if "FAIL" in code else "yellow" for code in CODES}
_CODE = re.compile(r"(?<= )(" + "|".join(CODES) + r")(?= |$)")


@dataclass(frozen=True, slots=True)
class Paint:
    """Colour, if `on`. Only for a terminal, and not where NO_COLOR or TERM=dumb ask for none."""

    on: bool

    @classmethod
    def for_stream(cls, stream: IO[str], environment: Mapping[str, str]) -> Paint:
        plain = environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
        return cls(stream.isatty() and not plain)

    def styled(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.on else text

    def status_line(self, text: str, status: str) -> str:
        style = _STATUS_STYLES.get(status)
        if not self.on or style is None:
            return text
        return text.replace(f"] {status} ", f"] {self.styled(status, style)} ", 1)

    def explained(self, text: str) -> str:
        """The text of `explain` or `plan`: headline, titles and the first code of each line stand out."""
        if not self.on:
            return text
        lines = text.split("\n")
        out = [self.styled(lines[0], "bold")]
        for line in lines[1:]:
            if line and not line.startswith(" "):
                out.append(self.styled(line, "cyan"))
            else:
                out.append(_CODE.sub(lambda m: self.styled(m.group(), _CODE_STYLES[m.group()]), line, count=1))
        return "\n".join(out)


# --- plans -------------------------------------------------------------------------------------------------------


def render_plan(
    plan: Plan, *, estimate: float | None = None, show_all: bool = False, listing: Listing | None = None
) -> str:
    """The short form: each job under its layer with its first reason. `explain` has them all."""
    listing = listing or Listing(show_all=show_all)
    found = listed(plan, listing)
    text = [headline(plan, estimate), *(summary_lines(found) if found.summary else _short_lines(found))]
    closing = closing_line(plan, listing, found)
    return "\n".join(text if closing is None else [*text, closing])


def _short_lines(found: Listed) -> Iterator[str]:
    width = max((len(job.id) for block in found.blocks for job in block.jobs), default=0)
    for block in found.blocks:
        yield block.title
        for job in block.jobs:
            yield f"  {job.id:<{width}}   {_short(job)}".rstrip()
        if block.total > len(block.jobs):
            yield f"  … and {block.total - len(block.jobs)} more (`--all` lists them)"


def _short(job: PlannedJob) -> str:
    if job.state == "inactive":
        return job_lines(job)[0][0]
    marks = []
    others = sum(reason.more if isinstance(reason, More) else 1 for reason in job.reasons) - 1
    if others:
        marks.append(f"+{others}")
    if job.reuse is not None:
        marks.append(f"reuse {job.reuse.run}")
    if job.conditional:
        marks.append("conditional")
    return f"{job.headline}" + (f" ({', '.join(marks)})" if marks else "")


# --- runs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that failed for good, for the summary."""

    step_id: str
    status: str
    error_type: str
    error: str
    place: str | None = None  # `weather.py:38`: where in the project it broke
    note: str = ""  # what its sandbox may have to do with it
    has_traceback: bool = False

    def to_json(self) -> dict[str, str]:
        found = {"id": self.step_id, "status": self.status, "error_type": self.error_type, "error": self.error}
        more = {"place": self.place, "note": self.note}
        return found | {name: text for name, text in more.items() if text}


_COUNTED = (
    ("completed", "executed"),
    ("reused", "reused"),
    ("inactive", "inactive"),
    ("failed", "failed"),
    ("timed_out", "timed out"),
    ("interrupted", "interrupted"),
    ("blocked", "blocked"),
    ("not_started", "not started"),
    ("deferred", "deferred"),
    ("clean", "up to date"),
)


def saved_seconds(plan: Plan, snapshot: PlanningSnapshot, reused: Sequence[str] = ()) -> float:
    """The logged durations of what did not have to be executed: up-to-date jobs, and these."""
    busy = {job.id for job in plan.jobs}
    steps = snapshot.records.steps
    total = sum(logged_duration(steps.get(id_)) or 0.0 for id_ in reused)
    for table in snapshot.dependency_graph.tables:
        total += sum(logged_duration(steps.get(id_)) or 0.0 for id_ in table.job_ids() if id_ not in busy)
    return total


def _each_once(failures: Sequence[Failure]) -> list[tuple[Failure, int]]:
    """Each with how many more there are like it: one shared file that takes no section fails a step for each, and so
    does one condition that has no value."""
    found: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        same = failure.error if failure.error_type == NOT_PUBLISHED else why_no_value(failure.error)
        same = failure.step_id if same is None else same
        found.setdefault((failure.error_type, same), []).append(failure)
    return [(alike[0], len(alike) - 1) for alike in found.values()]


def run_summary(
    run: str,
    state: str,
    counts: Mapping[str, int],
    totals: Mapping[str, int],
    statuses: Mapping[str, int],
    duration: float,
    saved: float,
    usage: Mapping[str, Any],
    failures: Sequence[Failure],
    evidence: str,
    place: str,
    options: str = "",
    shared: str = "",
) -> str:
    """What happened, what it cost and spared, what failed and where to look.

    `place` is what further commands need to find the same workflow and inputs: ` then-now.yaml --state DIR`, or
    nothing; `options` what another run needs to be the same: ` --target Job:Montage`; `shared` what was given to the
    shared store and taken from it.
    """
    everyone = {**counts, "inactive": counts["inactive"] + totals["inactive"]}  # found during the run, or before
    everyone.update(deferred=totals["deferred"], clean=totals["clean"])
    parts = [f"{everyone[key]} {word}" for key, word in _COUNTED if everyone[key]]
    spared = f"; saved ~{about(saved)} by not running the rest again" if saved >= 0.05 else ""
    lines = [f"{run} {state} in {seconds(duration)}: {', '.join(parts)}{spared}"]
    if statuses:
        lines.append(f"  {_statuses_text(statuses, everyone)}")
    lines.extend(usage_lines(usage))
    lines.extend([f"  shared store: {shared}"] if shared else ())
    # What was interrupted did nothing wrong: it is counted, and there is nothing to look at.
    own = [failure for failure in failures if failure.status != "INTERRUPTED"]
    told = _each_once(own)
    for failure, alike in told[:SHOWN]:
        first, *rest = failure.error.strip().split("\n")
        what = f"{failure.error_type}: {first}" if first else failure.error_type
        at = f"  ({failure.place})" if failure.place is not None else ""
        who = f"{failure.step_id} and {alike} more" if alike else failure.step_id
        lines.append(f"  {who}  {printable(what + at)}")
        lines.extend(f"    {printable(line)}" for line in rest[-LAST_LINES:])
        lines.extend([f"    {failure.note}"] if failure.note else ())
    if len(told) > SHOWN:
        lines.append(f"  … and {len(told) - SHOWN} more")
    if state == "interrupted":
        lines.append(f"  interrupted; run again to go on: whyrun run{place}{options}")
    if own:
        step = shlex.quote(own[0].step_id)
        lines.append(f"  look closer: whyrun log {run}{place} --job {step}")
        lines.append(f"               whyrun why {step}{place}")
    traced = any(failure.has_traceback for failure in own)
    lines.append(f"evidence: {evidence}" + (" (tracebacks stand in its whyrun.log)" if traced else ""))
    return "\n".join(lines)


def _statuses_text(statuses: Mapping[str, int], counts: Mapping[str, int]) -> str:
    """`EXECUTES 3, SKIPS 4 (2 up to date, 2 blocked), FAILED 1`: as in the lines, and what is counted apart."""
    apart = {"SKIPS": ("clean", "reused", "inactive", "blocked"), "FAILED": ("interrupted",)}
    words = dict(_COUNTED)
    found = []
    for status, number in statuses.items():
        parts = [f"{counts[key]} {words[key]}" for key in apart.get(status, ()) if counts[key]]
        found.append(f"{status} {number}" + (f" ({', '.join(parts)})" if parts else ""))
    return ", ".join(found)


def usage_lines(usage: Mapping[str, Any]) -> list[str]:
    if not usage["slowest"]:
        return []  # nothing was executed
    slowest = ", ".join(f"{each['id']} {seconds(each['seconds'])}" for each in usage["slowest"])
    step = usage["peak_memory_step"]  # None where no step came so far as to be measured
    peak = f", peak memory {size(usage['peak_memory_bytes'])} ({step})" if step is not None else ""
    return [f"  cpu {seconds(usage['cpu_seconds'])}{peak}", f"  slowest: {slowest}"]


def expectation(estimate: float | None, peak: int | None) -> str:
    """What a run may cost, from what was logged; said also where it is not known."""
    time = f"~{about(estimate)}" if estimate is not None else "not known yet"
    memory = f"~{size(peak)}" if peak is not None else "not known yet"
    return f"expected time {time}, peak memory {memory}"


def relative(path: str | os.PathLike[str]) -> str:
    """As seen from the working folder, where it lies below it."""
    full = os.path.abspath(path)
    near = os.path.relpath(full)
    return full if near.split(os.sep)[0] == os.pardir else near
