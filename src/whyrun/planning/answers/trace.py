"""`explain --trace`: how planning reached the verdict on one job instance, step by step, module by module. Pure.

The trace calls the functions that planning calls and shows what they return. It also judges an instance that planning
left out because it was no suspect. If the judge then disagrees with the plan, planning skipped the job wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from whyrun.errors import column_width, padded, printable
from whyrun.graph.fingerprint import counts, group_token, recorded_token
from whyrun.graph.tables import InputAt, sources_of
from whyrun.planning.answers.explain import inactive_line
from whyrun.planning.answers.listing import status_of
from whyrun.planning.answers.why import last_success
from whyrun.planning.consume import Entry, Members, is_small
from whyrun.planning.input_changes import changed_observations, compare_entries, short_content, short_value
from whyrun.planning.judge import Verdict
from whyrun.planning.plan import Judged, Plan, PlannedJob, judge_instances
from whyrun.planning.reason_base import Case
from whyrun.planning.reasons import KINDS, bounded
from whyrun.snapshot.records import run_name
from whyrun.snapshot.snapshot import Consumed, PlanningSnapshot, leaf_inputs
from whyrun.snapshot.suspects import SuspectCheck, check_suspect

HISTORY, OBSERVING, SUSPECTS = "snapshot/history", "snapshot/observing", "snapshot/suspects"
READS = "snapshot/reads"
CONSUME, JUDGE, REUSE, PLAN = "planning/consume", "planning/judge", "planning/reuse", "planning/plan"
_VERDICTS = {
    "planned": "it will be executed",
    "open": "it stands for all instances of a loop that is not known yet",
    "deferred": "it has a reason, but the options leave it out of this run",
    "inactive": "it is not executed, and its outputs are absent",
    "clean": "it is up to date",
}


class TraceLine(NamedTuple):
    module: str  # the module or package that decided
    subject: str  # a slot, a file, a reason code, an option, …
    text: str


@dataclass(frozen=True, slots=True)
class Trace:
    job: str
    state: str  # planned reused deferred inactive clean
    lines: tuple[TraceLine, ...]
    contradiction: bool  # the judge, asked again, disagrees with the plan

    def to_json(self) -> dict[str, Any]:
        lines = [line._asdict() for line in self.lines]
        return {"job": self.job, "state": self.state, "contradiction": self.contradiction, "lines": lines}

    def render(self) -> str:
        modules = max(len(line.module) for line in self.lines)
        subjects = column_width(line.subject for line in self.lines)
        rows = (f"{line.module:<{modules}}   {padded(line.subject, subjects)}   {line.text}" for line in self.lines)
        return "\n".join([self.job, *(f"  {row}".rstrip() for row in rows)])


def trace_job(snapshot: PlanningSnapshot, plan: Plan, node: int, consumed: Consumed | None) -> Trace:
    """`consumed`: what the last success of the instance consumed, None without one. It comes apart from the snapshot,
    which has it only for suspects and for instances downstream of one."""
    record = snapshot.record(node)
    success = record.last_success() if record is not None else None
    if success is not None and consumed is not None:
        snapshot = replace(snapshot, consumed={**snapshot.consumed, (success.run, success.seq): consumed})
    judged = judge_instances(snapshot, plan.options)
    judge = judged.judge
    case = judge.case(node, judge.consumer.consume(*snapshot.dependency_graph.table_at(node)))
    verdict = judge.judge(node)
    planned = next((job for job in plan.jobs if job.node == node), None)
    state = "clean" if planned is None else status_of(planned)
    contradiction = (verdict.state == "clean") != (state == "clean")
    lines = [
        *_history_lines(case),
        *_input_lines(case),
        *_output_lines(case),
        *_read_lines(case),
        _suspect_line(case, check_suspect(snapshot, node), consumed),
        *_consume_lines(case, consumed),
        *_judge_lines(case, judged, verdict),
        *_reuse_lines(case, judged, verdict),
        *_control_lines(case, judged, plan),
        TraceLine(PLAN, "verdict", _verdict_text(planned, state)),
    ]
    if contradiction:
        text = f"the plan says {state}, but the judge says {verdict.state}: a bug in Whyrun; please report this trace"
        lines.append(TraceLine(PLAN, "contradiction", text))
    return Trace(snapshot.dependency_graph.job_id(node), state, tuple(lines), contradiction)


def _verdict_text(planned: PlannedJob | None, state: str) -> str:
    if planned is not None and planned.state == "planned" and planned.reuse is not None:
        return f"reused: the result of {planned.reuse.describe(planned.id)} is taken"
    conditional = "; its condition is decided during the run" if planned is not None and planned.conditional else ""
    return f"{state}: {_VERDICTS[state]}{conditional}"


# --- the snapshot ------------------------------------------------------------------------------------------------


def _history_lines(case: Case) -> Iterator[TraceLine]:
    if case.record is None:
        yield TraceLine(HISTORY, "latest attempt", "none: it never ran")
        return
    latest, success = case.record.latest, case.record.last_success()
    how = latest.origin or "executed"
    end = f"succeeded ({how})" if latest.ok else f"{latest.status or 'FAILED'}: {latest.error_type}: {latest.error}"
    end = "running" if case.snapshot.is_running(case.node) else end
    yield TraceLine(HISTORY, "latest attempt", printable(f"{_attempt(latest.run, latest.number)}: {end}"))
    if success is None:
        yield TraceLine(HISTORY, "last success", "none")
    else:
        made = last_success(success)
        text = f"{made.run}{f' attempt {made.attempt}' if made.attempt else ''} ({made.how})"
        text += printable(", by {}: {}".format(*made.kept)) if made.kept is not None else ""
        yield TraceLine(HISTORY, "last success", text)


def _attempt(run: int, number: int) -> str:
    return run_name(run) + (f" attempt {number}" if number else "")  # a reuse has no number


def _input_lines(case: Case) -> Iterator[TraceLine]:
    """Inputs of the workflow that the instance reads and that differ from the last run's."""
    records = case.snapshot.records
    terms = (column.at(case.position) for _, column in case.table.operand_columns())
    read = {source.id: source.value for term in terms for source in sources_of(term) if isinstance(source, InputAt)}
    if not records.inputs_of or not read:
        why = "the log has no earlier inputs" if read else "it reads no input of the workflow"
        yield TraceLine(OBSERVING, "inputs", why)
        return
    run, same = run_name(records.inputs_of), 0
    for id_, value in leaf_inputs(read):
        before = records.inputs.get(id_)
        if before is not None and before.sha256 == value.sha256:
            same += 1
            continue
        old = "no value" if before is None else short_content(before.sha256, _small(before.value))
        new = short_content(value.sha256, None if value.type.is_path else _small(value.value))
        yield TraceLine(OBSERVING, id_, f"{old} → {new} since {run}")
    if same:
        yield TraceLine(OBSERVING, "inputs", f"{same} as {run} recorded {'it' if same == 1 else 'them'}")


def _output_lines(case: Case) -> Iterator[TraceLine]:
    """Outputs that the latest attempt recorded and that are no longer so on disk or in the store."""
    latest = case.record.latest if case.record is not None else None
    if latest is None or not latest.ok:
        why = _without_success(case)
        yield TraceLine(OBSERVING, "outputs", f"not looked for: {why}")
        return
    files, lost, differs = case.snapshot.files, case.snapshot.lost, False
    for a, spec in enumerate(case.table.artifacts):
        paths = None if spec.is_leaf else case.table.output_of(a).paths
        if paths is not None and paths[case.position] in files:
            path = paths[case.position]
            differs = True
            yield TraceLine(OBSERVING, case.table.artifact_id(a, case.position), printable(f"{path}: {files[path]}"))
    for output in latest.outputs:
        if output.value is UNSET and output.bytes_key in lost:
            differs = True
            yield TraceLine(OBSERVING, output.id, "its stored bytes are gone")
    if not differs:
        yield TraceLine(
            OBSERVING, "outputs", f"as {_attempt(latest.run, latest.number)} recorded them" if latest else ""
        )


def _read_lines(case: Case) -> Iterator[TraceLine]:
    """Undeclared reads and packages of the last success that find something else now."""
    success = case.record.last_success() if case.record is not None else None
    if success is None or not (success.reads or success.packages):
        return
    changes = list(changed_observations(case, success))
    for change in changes:
        yield TraceLine(READS, change.binding, change.text(case.table.job_id(case.position)).partition(" ← ")[2])
    reads = case.snapshot.reads.observations.reads_of(success.reads)
    same = len(reads) - sum(change.read != "package" for change in changes)
    if same:
        found = "found them" if same > 1 else "found it"
        attempt = _attempt(success.run, success.number)
        yield TraceLine(READS, "observed", f"{same} undeclared read{'s' if same > 1 else ''} as {attempt} {found}")


def _without_success(case: Case) -> str:
    if case.record is None:
        return "it never ran"
    return "it is running" if case.snapshot.is_running(case.node) else "its latest attempt did not succeed"


def _suspect_line(case: Case, check: SuspectCheck, consumed: Consumed | None) -> TraceLine:
    causes = list(_suspect_causes(case, check, consumed))
    if check.is_suspect:
        text = "; ".join(causes) or "although nothing that was compared differs"
        return TraceLine(SUSPECTS, "suspect", text)
    text = "its fingerprint is the recorded one, and its outputs are available"
    return TraceLine(SUSPECTS, "not a suspect", f"although {'; '.join(causes)}" if causes else text)


def _suspect_causes(case: Case, check: SuspectCheck, consumed: Consumed | None) -> Iterator[str]:
    if check.has_condition:
        yield "it has a condition"
    success = case.record.last_success() if case.record is not None else None
    for binding in dict.fromkeys(change.binding for change in changed_observations(case, success)) if success else ():
        yield "what it read undeclared has changed" if binding == "observed" else "packages that it imported changed"
    if check.recorded is None:
        yield _without_success(case)
    for name in (name for name, now in check.tokens.items() if now is None):
        yield f"`{name}` is not known from the log alone"
    for artifact in check.missing if check.recorded is not None else ():
        yield f"{artifact} is not available"
    if None not in (check.recorded, check.current) and check.recorded != check.current:
        differing = list(_differing_columns(case, check, consumed or {}))
        yield f"its fingerprint differs from the recorded one, by {', '.join(differing) or 'the declared outputs'}"


def _differing_columns(case: Case, check: SuspectCheck, consumed: Consumed) -> Iterator[str]:
    if (consumed.get(".action") or [{}])[0].get("sha256") != case.snapshot.actions[case.table.name].sha256:
        yield "the action"
    uncounted = case.snapshot.actions[case.table.name].uncounted
    for name in sorted({*check.tokens, *consumed} - {".action"}):
        if counts(name, uncounted) and check.tokens.get(name) != _recorded_token(consumed.get(name)):
            yield f"`{name}`"


def _recorded_token(entries: Any) -> str | None:
    """The token of a slot as the log recorded it. None: nothing was recorded, or a wide list by its digest alone."""
    if entries is None or isinstance(entries, Mapping):
        return None
    tokens = [recorded_token(entry) for entry in entries]
    return tokens[0] if len(entries) == 1 and not entries[0].get("listed") else group_token(tokens)


# --- planning ----------------------------------------------------------------------------------------------------


def _consume_lines(case: Case, consumed: Consumed | None) -> Iterator[TraceLine]:
    consumption, action = case.consumption, case.snapshot.actions[case.table.name]
    if consumption.inactive_by is not None:
        yield TraceLine(CONSUME, "absent", consumption.inactive_by)
    if consumption.undecided:
        yield TraceLine(CONSUME, "if", "not known yet")
    elif consumption.decision is not None:
        inputs = ", ".join(f"{id_} = {short_value(value)}" for id_, value in consumption.decision.inputs.items())
        yield TraceLine(CONSUME, "if", f"{str(consumption.decision.result).lower()}: {inputs}".removesuffix(": "))
    before = consumed or {}
    was = (before.get(".action") or [{}])[0].get("sha256")
    now = short_content(action.sha256, None)
    same = was == action.sha256
    yield TraceLine(CONSUME, "action", f"{action.name}  {_then_and_now(consumed, same, short_content(was, None), now)}")
    names = {*before, *consumption.entries, *consumption.unknown, *consumption.problems} - {".action", "if"}
    for name in sorted(names):
        text = _slot_text(case, consumed, name)
        note = "" if counts(name, action.uncounted) else "  (does not count)"
        yield TraceLine(CONSUME, name.removeprefix("."), printable(f"{text}{note}"))


def _slot_text(case: Case, consumed: Consumed | None, name: str) -> str:
    consumption = case.consumption
    if name in consumption.problems:
        return f"cannot be computed: {consumption.problems[name]}"
    if name in consumption.unknown:
        return "not known yet: it waits for a job upstream"
    now, before = consumption.entries.get(name), (consumed or {}).get(name)
    same = not compare_entries(name, before, now)
    return _then_and_now(consumed, same, _recorded_text(before), _entry_text(now))


def _then_and_now(consumed: Consumed | None, same: bool, then: str, now: str) -> str:
    if consumed is None:
        return now  # nothing to compare with
    return f"{now}, as consumed" if same else f"{then or 'nothing'} → {now or 'nothing'}"


def _entry_text(entry: Entry | Members | None) -> str:
    if entry is None:
        return ""
    if isinstance(entry, Members):
        return f"{len(entry)} members {short_content(entry.token[1:], None)}"
    return f"{entry.id} {short_content(entry.sha256, _small(entry.value))}"


def _recorded_text(entries: Any) -> str:
    if entries is None:
        return ""
    if isinstance(entries, Mapping):
        return f"{entries['count']} members"
    if len(entries) == 1 and not entries[0].get("listed"):
        return f"{entries[0]['id']} {short_content(entries[0]['sha256'], entries[0].get('value'))}"
    return f"{len(entries)} members {short_content((_recorded_token(entries) or '')[1:], None)}"


def _small(value: Any) -> Any:
    return value if value is not UNSET and is_small(value) else None


def _judge_lines(case: Case, judged: Judged, verdict: Verdict) -> Iterator[TraceLine]:
    if case.node not in judged.judge.verdicts:
        why = "it is not a suspect, and nothing upstream changed; asked now, the judge says:"
        yield TraceLine(JUDGE, "not asked", why)
    if verdict.state == "inactive":
        yield TraceLine(JUDGE, *inactive_line(verdict.because))
        return
    job = case.table.job_id(case.position)
    for kind in KINDS:
        particulars = bounded(kind.code, kind.find(case))
        if not particulars:
            yield TraceLine(JUDGE, kind.code, f"no: {kind.why_none(case)}")
        for reason in particulars:
            yield TraceLine(JUDGE, kind.code, reason.text(job))


def _reuse_lines(case: Case, judged: Judged, verdict: Verdict) -> Iterator[TraceLine]:
    if verdict.state != "dirty":
        yield TraceLine(REUSE, "not asked", f"the instance is {verdict.state}")
        return
    blocked = judged.judge.why_no_reuse(case, verdict.reasons)
    if blocked is not None:
        yield TraceLine(REUSE, "not considered", blocked)
        return
    any_candidate = False
    for candidate in judged.judge.reuse_candidates(case):
        any_candidate = True
        if candidate.reuse is not None:
            yield TraceLine(REUSE, candidate.source, "taken: it has the fingerprint, and all outputs are available")
            return
        yield TraceLine(REUSE, candidate.source, f"rejected: {candidate.rejected}")
    if not any_candidate:
        yield TraceLine(REUSE, "no candidate", "no earlier result has the fingerprint")


def _control_lines(case: Case, judged: Judged, plan: Plan) -> Iterator[TraceLine]:
    options = plan.options
    if judged.layers:
        yield TraceLine(PLAN, "layer", str(judged.layers[case.node]))
    if options.force:
        yield TraceLine(PLAN, "--force", case.forced_by or "does not name it")
    if judged.wanted is not None:
        needed = case.node in judged.wanted
        yield TraceLine(PLAN, "--target", "needs it" if needed else "does not need it")
    if judged.up_layers is not None:
        yield TraceLine(PLAN, f"--up {options.up}", f"runs {_layers(sorted(judged.up_layers))}")


def _layers(numbers: Sequence[int]) -> str:
    return f"layer{'s' if len(numbers) != 1 else ''} {', '.join(map(str, numbers))}" if numbers else "no layer"
