"""Text that commands show: the data flow of a run, and its summary."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from whyrun.console.lines import count, seconds, size, why_no_value
from whyrun.errors import column_width, padded, printable
from whyrun.log.events import NOT_PUBLISHED
from whyrun.planning.answers.explain import about, logged_duration
from whyrun.planning.answers.listing import SHOWN
from whyrun.planning.plan import Plan
from whyrun.snapshot.snapshot import PlanningSnapshot

# --- composition summaries ---------------------------------------------------------------------------------------
#
# Draws the data flow of a run from `composition_summary.json`: datasets, steps, rows, decisions.


def composition_tree(summary: Mapping[str, Any]) -> str:
    return printable_lines(_lines(summary))


def printable_lines(lines: Iterator[str]) -> str:
    return "\n".join(printable(line).rstrip() for line in lines)


def _lines(summary: Mapping[str, Any]) -> Iterator[str]:
    plan = f", plan {summary['plan_id']}" if summary["plan_id"] else ""
    yield f"{summary['run']} {summary['state']}: {summary['composition_mode']}{plan}"
    yield "datasets"
    rows = [
        (
            f"Input:{dataset['dataset_key']}",
            dataset["role"] or "",
            dataset["path"] or "",
            _shape(dataset),
            ", ".join(_remarks(dataset)),
        )
        for dataset in summary["inputs_manifest"]
    ]
    yield from _table(rows)
    yield "steps"
    for step in summary["steps"]:
        yield from _step(step)
    if summary["decisions"]:
        yield "decisions"
        for decision in summary["decisions"]:
            yield f"  {_decision(decision)}"


def _remarks(dataset: Mapping[str, Any]) -> Iterator[str]:
    if dataset["filename"]:
        yield f"as `{dataset['filename']}`"
    if not dataset.get("used", True):
        yield "not used"


def _step(step: Mapping[str, Any]) -> Iterator[str]:
    took = f" in {seconds(step['duration'])}" if step["duration"] is not None and step["status"] == "completed" else ""
    source = f" from {step['from_run']}" if step.get("from_run") else ""
    yield f"  {step['step_id']}  {step['action']}  {step['status'].replace('_', ' ')}{took}{source}"
    if "error" in step:
        yield f"  │  {step['error'].splitlines()[0]}"
    if isinstance(step.get("because"), list):
        yield f"  │  because of {', '.join(step['because'])}"
    elif step.get("because"):
        because = step["because"]
        yield f"  │  because {because['source']} is absent" if "source" in because else "  │  its condition is false"
    shown = step["status"] in ("completed", "reused", "up_to_date", "failed", "timed_out", "interrupted")
    entries = [(f"{entry['name']} ←", entry["id"], _shape(entry)) for entry in step["bindings"]]
    made = [product for product in step["products"] if product["sha256"] is not None]
    entries += [("→", product["path"] or product["id"], _shape(product)) for product in made]
    lines = list(_table(entries, indent="")) if shown else []
    for number, line in enumerate(lines):
        yield f"  {'└─' if number == len(lines) - 1 else '├─'} {line}"


def _decision(decision: Mapping[str, Any]) -> str:
    source = f" (in {decision['from_run']})" if decision.get("from_run") else ""
    if decision["kind"] == "condition":
        condition = f"condition {decision['step_id']}: {decision['predicate']}"
        if decision["result"] is None:
            return f"{condition} was {decision['why']}"
        why = f"  ({decision['why']})" if decision["why"] else ""
        branches = f"took {_listed(decision['taken'])}, skipped {_listed(decision['not_taken'])}"
        return f"{condition} is {str(decision['result']).lower()}{why}: {branches}"
    rows = decision["rows"]
    if decision["kind"] == "merge":
        keys = decision["keys"]
        sides = [keys] if isinstance(keys, list) else [keys["primary"], keys["secondary"]]
        on = " = ".join(", ".join(side) for side in sides)
        expected = decision["cardinality"]["asked"]
        cardinality = f"{decision['cardinality']['found']}" + (f" (asked {expected})" if expected else "")
        keyless = [rows["null_key_left"], rows["null_key_right"]]
        without = f" ({keyless[0]} and {keyless[1]} without a key)" if any(keyless) else ""
        how = f"{decision['how']}, " if "how" in decision else ""
        if "out" not in rows:  # a user's own action merges: only the keys were checked
            out = "refused" if decision["refused"] else f"checked before the step{source}"
        else:
            out = f"{rows['out']} would be out: refused" if decision["refused"] else f"{rows['out']} out{source}"
        return (
            f"merge {decision['step_id']}: {decision['right']} into {decision['left']} on {on}, {how}{cardinality}: "
            f"{count(rows['left'], 'row')} and {count(rows['right'], 'row')}, {rows['matched_left']} matched, "
            f"{rows['unmatched_left']} and {rows['unmatched_right']} unmatched{without}, {out}"
        )
    into = " + ".join(f"{name} {number}" for name, number in rows["in"].items())
    gives = "→" if decision.get("operation") == "summarise" else "="  # the rows of a summary do not add up
    return f"{decision['kind']} {decision['step_id']}: {into} {gives} {count(rows['out'], 'row')}{source}"


def _shape(entry: Mapping[str, Any]) -> str:
    if entry["rows"] is None:
        return ""
    return f"{count(entry['rows'], 'row')} × {count(entry['columns'], 'column')}"


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(ids) or "nothing"


def _table(rows: Sequence[tuple[str, ...]], indent: str = "  ") -> Iterator[str]:
    widths = [column_width(column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield indent + "  ".join(padded(*cell) for cell in zip(row, widths, strict=True)).rstrip()


# --- runs ----------------------------------------------------------------------------------------------------------


LAST_LINES = 3  # of a long error, the summary shows the first line and these last ones


class Failure(msgspec.Struct, frozen=True):
    """A job that failed after all its attempts, for the summary."""

    step_id: str
    status: str
    error_type: str
    error: str
    place: str | None = None  # `weather.py:38`: the line of the project that raised the error
    note: str = ""  # how the sandbox may have caused it
    has_traceback: bool = False

    def to_json(self) -> dict[str, str]:
        always = {"id": self.step_id, "status": self.status, "error_type": self.error_type, "error": self.error}
        optional = {"place": self.place, "note": self.note}
        return always | {name: text for name, text in optional.items() if text}


_COUNTED = (
    ("completed", "executed"),
    ("reused", "reused"),
    ("inactive", "inactive"),
    ("failed", "failed"),
    ("timed_out", "timed out"),
    ("interrupted", "interrupted"),
    ("blocked", "blocked"),
    ("held", "held back by the budget"),
    ("not_started", "not started"),
    ("deferred", "deferred"),
    ("clean", "up to date"),
)


def saved_seconds(plan: Plan, snapshot: PlanningSnapshot, reused: Sequence[str] = ()) -> float:
    """The total logged duration of the jobs that were not executed: up-to-date jobs, and the `reused` ones."""
    busy = {job.id for job in plan.jobs}
    steps = snapshot.records.steps
    total = sum(logged_duration(steps.get(id_)) or 0.0 for id_ in reused)
    for table in snapshot.dependency_graph.tables:
        total += sum(logged_duration(steps.get(id_)) or 0.0 for id_ in table.job_ids() if id_ not in busy)
    return total


def _grouped(failures: Sequence[Failure]) -> list[tuple[Failure, int]]:
    """The first failure of each cause, and the number of others with the same cause.

    A shared file that accepts no sections fails every step that writes to it; a condition without a value fails every
    step that depends on it.
    """
    by_cause: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        cause = failure.error if failure.error_type == NOT_PUBLISHED else why_no_value(failure.error)
        cause = failure.step_id if cause is None else cause
        by_cause.setdefault((failure.error_type, cause), []).append(failure)
    return [(group[0], len(group) - 1) for group in by_cause.values()]


class SummaryFacts(msgspec.Struct, frozen=True):
    """What the summary of a run tells."""

    run: str
    state: str
    counts: Mapping[str, int]  # how the planned jobs ended
    totals: Mapping[str, int]  # all jobs, as the plan counts them
    statuses: Mapping[str, int]
    duration: float
    saved: float  # seconds that the jobs which were not executed took before
    usage: Mapping[str, Any]
    failures: Sequence[Failure]
    evidence: str  # the run folder
    spent: str = ""  # money, as text
    budget: str = ""  # as well
    spared: str = ""  # what the results cost that were not bought again
    shared: str = ""  # what the run uploaded to the shared store and downloaded from it


class NextCommands(msgspec.Struct, frozen=True):
    """The arguments in the commands that a summary proposes. Each may be empty."""

    workflow: str  # they find the same workflow and inputs, such as ` then-now.yaml --state DIR`
    repeat: str  # the options that repeat the run, such as ` --target Job:Montage`
    go_on: str = ""  # those without its budget


def run_summary(facts: SummaryFacts, commands: NextCommands) -> str:
    """The summary of a run: outcome, cost and saved time, failures, and the commands that show more."""
    # The plan knows some inactive jobs before the run, the run finds the others.
    all_counts = {**facts.counts, "inactive": facts.counts["inactive"] + facts.totals["inactive"]}
    all_counts.update(deferred=facts.totals["deferred"], clean=facts.totals["clean"])
    parts = [f"{all_counts[key]} {word}" for key, word in _COUNTED if all_counts[key]]
    savings = f"; saved ~{about(facts.saved)} by not running the rest again" if facts.saved >= 0.05 else ""
    lines = [f"{facts.run} {facts.state} in {seconds(facts.duration)}: {', '.join(parts)}{savings}"]
    if facts.statuses:
        lines.append(f"  {statuses_text(facts.statuses, all_counts)}")
    if facts.spent or facts.spared:
        spared = f"{'; ' if facts.spent else ''}saved {facts.spared} by not buying it again" if facts.spared else ""
        of_budget = f" of a budget of {facts.budget}" if facts.spent and facts.budget else ""
        lines.append(f"  {'spent ' if facts.spent else ''}{facts.spent}{of_budget}{spared}")
    lines.extend(usage_lines(facts.usage))
    lines.extend([f"  shared store: {facts.shared}"] if facts.shared else ())
    # An interrupted step is counted above, but it has no error to show.
    own = [failure for failure in facts.failures if failure.status != "INTERRUPTED"]
    groups = _grouped(own)
    for failure, alike in groups[:SHOWN]:
        first, *rest = failure.error.strip().split("\n")
        what = f"{failure.error_type}: {first}" if first else failure.error_type
        at = f"  ({failure.place})" if failure.place is not None else ""
        who = f"{failure.step_id} and {alike} more" if alike else failure.step_id
        lines.append(f"  {who}  {printable(what + at)}")
        lines.extend(f"    {printable(line)}" for line in rest[-LAST_LINES:])
        lines.extend([f"    {failure.note}"] if failure.note else ())
    if len(groups) > SHOWN:
        lines.append(f"  … and {len(groups) - SHOWN} more")
    if all_counts.get("held"):
        again = f"whyrun run{commands.workflow}{commands.go_on} --budget …"
        lines.append(f"  held back by the budget of {facts.budget}; to go on: {again}")
    if facts.state == "interrupted":
        lines.append(f"  interrupted; to continue: whyrun run{commands.workflow}{commands.repeat}")
    if own:
        step = shlex.quote(own[0].step_id)
        lines.append(f"  look closer: whyrun log {facts.run}{commands.workflow} --job {step}")
        lines.append(f"               whyrun why {step}{commands.workflow}")
    traced = any(failure.has_traceback for failure in own)
    lines.append(f"evidence: {facts.evidence}" + (" (tracebacks are in its whyrun.log)" if traced else ""))
    return "\n".join(lines)


def statuses_text(statuses: Mapping[str, int], counts: Mapping[str, int]) -> str:
    """`EXECUTES 3, SKIPS 4 (2 up to date, 2 blocked), FAILED 1, interrupted 2`: the lines by status.

    For people, an interrupted job is no failure: it is counted apart, although its line has the status FAILED.
    """
    names = dict(_COUNTED)
    texts = []
    for status, number in statuses.items():
        skipped = ("clean", "reused", "inactive", "blocked", "held") if status == "SKIPS" else ()
        parts = [f"{counts[key]} {names[key]}" for key in skipped if counts.get(key)]
        failed = number - (counts["interrupted"] if status == "FAILED" else 0)
        texts += [f"{status} {failed}" + (f" ({', '.join(parts)})" if parts else "")] if failed else []
    texts += [f"interrupted {counts['interrupted']}"] if counts["interrupted"] else []
    return ", ".join(texts)


def usage_lines(usage: Mapping[str, Any]) -> list[str]:
    if not usage["slowest"]:
        return []  # nothing was executed
    slowest = ", ".join(f"{each['id']} {seconds(each['seconds'])}" for each in usage["slowest"])
    step = usage["peak_memory_step"]  # None if no step ran long enough to be measured
    peak = f", peak memory {size(usage['peak_memory_bytes'])} ({step})" if step is not None else ""
    tasks = ", ".join(f"{status} {number}" for status, number in usage["tasks"].items())
    lines = [f"  cpu {seconds(usage['cpu_seconds'])}{peak}", f"  slowest: {slowest}"]
    return [f"  tasks of the actions: {tasks}", *lines] if tasks else lines


def expectation(estimate: float | None, peak: int | None, price: str = "") -> str:
    """The expected time and memory of a run, from logged steps; "not known yet" without such a log. `price`: what it
    would cost; empty if nothing says that it costs something."""
    time = f"~{about(estimate)}" if estimate is not None else "not known yet"
    memory = f"~{size(peak)}" if peak is not None else "not known yet"
    return f"expected time {time}, peak memory {memory}" + (f", price {price}" if price else "")
