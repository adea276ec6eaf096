"""EVENTS → RECORDS: folds the events of runs into one record per job instance. Pure.

The records are small, array-like structs, so that the index can hold 100,000 of them and load in a tenth of a second.
`RunFold.feed` handles the frequent events, `RunFold.rare` all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from whyrun.errors import WhyrunError, error
from whyrun.ids import Kind, output_of, site_of
from whyrun.log import lean_events as scan
from whyrun.log.events import (
    DAMAGE_HINT,
    INTERRUPTED_ERROR,
    INTERRUPTED_TYPE,
    NOT_PUBLISHED,
    PLAIN_OWN,
    UNREADABLE,
    damaged_line,
    id_problem,
    owner_problem,
    value_hash_problem,
)
from whyrun.log.lean_events import NOTHING, ArtifactAvailable, CfgMaterialized, StepComplete, StepStart
from whyrun.snapshot.history.fold_costs import CostsFold
from whyrun.snapshot.history.fold_moves import move_result
from whyrun.snapshot.history.fold_reads import GetBlob, ReadsFold, WithReads, no_blobs
from whyrun.snapshot.records import KEPT_OF_ERROR, Attempt, InputRecord, Output, Records, StepRecord, run_name


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return () if value is msgspec.UNSET else (value,)


def _set_failure(attempt: Attempt, status: str, error_type: str, message: str) -> None:
    attempt.status, attempt.error_type = status, error_type
    attempt.error = message.split("\n", 1)[0][:KEPT_OF_ERROR]


class _Reuse(msgspec.Struct, frozen=True):
    """A reused result, whose outputs follow its event in the log."""

    attempt: Attempt
    expected_outputs: int
    success_before: Attempt | None
    outputs: list[Output] = []


class RunFold:
    """Folds the events of one run into the records. The caller folds the runs in their order."""

    def __init__(self, records: Records, run: int, file: str, get_blob: GetBlob = no_blobs) -> None:
        self.records = records
        self.reads = ReadsFold(records, run, get_blob)
        self.run = run
        self.name = run_name(run)
        self.file = file
        self.seq = 0
        self.mode = ""
        self.accepts = False
        self.complete = False
        self.open: dict[str, tuple[Attempt, list[Output]]] = {}
        self.reused: dict[str, _Reuse] = {}
        self.reusing: _Reuse | None = None  # its outputs are not set in its attempt yet
        self.costs = CostsFold()
        self.adopting: dict[str, list[Output]] = {}  # leaves whose artifact has not come yet
        self.adopted: set[str] = set()  # steps
        self.keeping: dict[str, list[Output]] = {}  # outputs whose `result_kept` has not come yet

    @property
    def counts(self) -> bool:
        """Does this run change records? One that only compares does not, but it is checked as strictly."""
        return self.mode != "compare" or self.accepts

    def feed(self, events: Iterable[scan.LeanEvent]) -> None:
        seq, name = self.seq, self.name
        open_, is_own, executed = self.open, PLAIN_OWN.fullmatch, self.reads.steps
        for event in events:
            seq += 1
            if event.seq != seq or event.session != name:
                raise error(
                    "LOG_DAMAGED",
                    f"line {seq} should be event {seq} of {name}, and is event {event.seq} of {event.session}",
                    file=self.file,
                    line=seq,
                    hint=DAMAGE_HINT,
                )
            if type(event) is ArtifactAvailable:
                step = event.step_id
                if is_own(f"{step} {event.artifact}") is None:
                    self.check_owner(step, event.artifact, seq)
                held = () if event.value is msgspec.UNSET else self.checked_value(event, seq)
                site = event.path if event.section is None else site_of(event.path or "", event.section)
                output = Output(event.artifact, event.sha256, event.size, event.type, site, held, event.suffix)
                entry = open_.get(step)
                if entry is not None:
                    entry[1].append(output)
                else:
                    self.add_to_reuse(step, output, seq)
            elif type(event) is StepStart:
                if bytes(event.bindings)[:2] != b'{"':
                    self.check_bindings(event.bindings, f"the `step_start` of `{event.step_id}`", seq)
                if event.step_id in open_:
                    raise self.incomplete(
                        seq, f"`{event.step_id}` starts again, and no event says how its start before ended"
                    )
                open_[event.step_id] = (Attempt(self.run, seq, event.attempt, event.fingerprint), [])
            elif type(event) is StepComplete:
                entry = open_.pop(event.step_id, None)
                if entry is None:
                    raise self.incomplete(seq, f"`{event.step_id}` completed without a `step_start`")
                attempt = entry[0]
                attempt.ok = True
                attempt.outputs = tuple(entry[1])
                attempt.duration = event.duration
                if event.observed is NOTHING and event.packages is NOTHING and not event.traced:
                    executed.append(event.step_id)
                else:
                    self.observe(event, attempt, seq)
                self.end_attempt(event.step_id, attempt)
            elif type(event) is not CfgMaterialized:
                self.rare(event, seq)
        self.finish_reuse()
        self.seq = seq

    def rare(self, event: scan.LeanEvent, seq: int) -> None:
        if isinstance(event, scan.RunStart):
            if seq != 1:
                raise self.damaged(seq, "a run starts twice")
            self.mode, self.accepts = event.mode, event.options.accept
            return
        if not self.mode:
            raise self.incomplete(seq, "the log has no `run_start`")
        if isinstance(event, scan.RunComplete):
            self.complete = True
        elif isinstance(event, scan.StepFailed):
            self.check_ids(seq, "Job", event.step_id)
            self.failed(event, seq)
        elif isinstance(event, scan.StepSkipped):
            self.check_ids(seq, "Job", event.step_id)
            if event.why == "reused":
                self.reuse(event, seq)
        elif isinstance(event, scan.ArtifactAdopted):
            self.check_owner(event.step_id, event.artifact, seq)
            self.adopt(event, seq)
        elif isinstance(event, scan.ResultKept):
            self.check_ids(seq, "Job", event.step_id)
            self.keep(event, seq)
        elif isinstance(event, scan.InputRecorded):
            self.check_ids(seq, "Input", event.id)
            if self.counts:
                self.records.inputs[event.id] = InputRecord(event.sha256, _as_tuple(event.value))
        elif isinstance(event, scan.RequestRecorded):
            self.check_ids(seq, "Job", event.step_id)
            self.remember(event)
        elif isinstance(event, scan.CostRecorded):
            self.check_ids(seq, "Job", event.step_id)
            self.costs.add(event)
        elif isinstance(event, scan.PlanComputed):
            self.check_ids(seq, "Job", *([event.source] if event.source is not None else ()))
        elif isinstance(event, scan.StepBlocked):
            self.check_ids(seq, "Job", event.step_id, *event.because)
        elif isinstance(event, scan.ConditionEvaluated):
            self.check_ids(seq, "Job", event.step_id)
            self.check_ids(seq, None, *event.inputs)
        elif isinstance(event, scan.Task | scan.StatusContractViolation):
            self.check_ids(seq, "Job", event.step_id)
        elif isinstance(event, scan.LogRepaired):
            self.check_ids(seq, "Job", *event.interrupted)
        elif isinstance(event, scan.Comparison):
            self.check_ids(seq, "Artifact", event.artifact)

    def finish(self) -> None:
        """The end of the run's file. Steps that are still open are recorded as interrupted, whether repaired or not.

        Whether the run is going on, so that they are running, is not in the log: see `PlanningSnapshot.running`.
        """
        if not self.mode:
            raise self.incomplete(1, "the log has no `run_start`")
        if self.open and self.complete:
            step = next(iter(self.open))
            raise self.incomplete(self.seq, f"`{step}` started, the run ended, and no event says how the step ended")
        for step, (attempt, _) in self.open.items():
            self.fail(step, attempt, "INTERRUPTED", INTERRUPTED_TYPE, INTERRUPTED_ERROR)
        if self.counts:
            self.reads.finish()
        self.records.run, self.records.seq = self.run, self.seq
        self.records.open = frozenset(self.open) if self.mode != "compare" else frozenset()
        if self.mode != "compare":
            self.records.inputs_of = self.run

    def failed(self, event: scan.StepFailed, seq: int) -> None:
        self.finish_reuse()
        entry = self.open.pop(event.step_id, None)
        if entry is not None:
            attempt, outputs = entry
            if event.error_type == NOT_PUBLISHED:
                attempt.outputs = tuple(outputs)
            self.observe(event, attempt, seq)
            self.fail(event.step_id, attempt, event.status, event.error_type, event.error)
            return
        reuse = self.reused.pop(event.step_id, None)
        if reuse is None or event.error_type != NOT_PUBLISHED:
            raise self.incomplete(seq, f"`{event.step_id}` failed without a `step_start`")
        # Its `step_skipped` made it the latest success. Now it is none, but its recorded outputs can still be reused.
        _set_failure(reuse.attempt, event.status, event.error_type, event.error)
        reuse.attempt.ok = False
        record = self.records.steps.get(event.step_id)
        if record is not None and record.latest is reuse.attempt:
            record.success = reuse.success_before

    def fail(self, step: str, attempt: Attempt, status: str, error_type: str, message: str) -> None:
        _set_failure(attempt, status, error_type, message)
        if self.mode == "compare" and not attempt.has_result:
            return  # `--accept` takes new results only; without one the earlier record stays
        self.end_attempt(step, attempt)

    def end_attempt(self, step: str, attempt: Attempt, *, whole: bool = True) -> None:
        """An attempt has ended: it is the latest now, and if `whole` the one to reuse."""
        if not self.counts:
            return
        self.finish_reuse()
        steps = self.records.steps
        record = steps.get(step)
        self.costs.ended(step, attempt, record)
        if record is None:
            steps[step] = StepRecord(attempt, settled=None if whole else [])
            return
        before = record.latest
        settled = record.settled
        if settled is None:
            settled = [before] if before.settled else []
        if attempt.settled and whole:
            if record.unadopted or attempt.origin:
                record.unadopted = record.unadopted_after(attempt)
            settled = [a for a in settled if a.kind != attempt.kind]
            settled.append(attempt)
        if not attempt.ok and before.ok:
            record.success = before
        elif attempt.ok:
            record.success = None
            if record.requests:
                record.requests.pop(attempt.fingerprint, None)
                last = record.remembered_by or {}
                record.remembered_by = {key: by for key, by in last.items() if by != attempt.fingerprint}
        record.latest = attempt
        record.settled = None if settled == [attempt] else settled

    # -- reuse, adoption and kept results --

    def reuse(self, event: scan.StepSkipped, seq: int) -> None:
        """A reuse counts as a success at once; the events of its outputs follow.

        A kill may come between these events. So the reuse replaces the earlier result only once it has as many outputs.
        Until then the earlier result can be reused again: nothing is paid twice, and adopted bytes are not lost. This
        holds before and after a repair, which adds nothing to a reuse.
        """
        if event.fingerprint is None:
            raise self.incomplete(seq, f"the reuse of `{event.step_id}` has no fingerprint")
        self.check_bindings(event.bindings, f"the reuse of `{event.step_id}`", seq)
        # Several results may have the fingerprint: their steps read other versions of undeclared files.
        made = self.run_number(event.from_run, seq) if event.from_run is not None else 0
        recorded = made if event.recorded_in is None else self.run_number(event.recorded_in, seq)
        own = self.attempt_with(event.step_id, event.fingerprint, made, recorded)
        source = own if event.shared is None else None  # a result from the shared store is never an adopted one
        if event.from_step is not None and event.from_step != event.step_id:
            self.check_ids(seq, "Job", event.from_step)
            source = self.attempt_for_others(event.from_step, event.fingerprint, made)
        attempt = Attempt(self.run, seq, 0, event.fingerprint, ok=True, origin="reused")
        if source is not None:
            attempt.reads, attempt.packages = source.reads, source.packages
            move_result(source, event.from_step or event.step_id, attempt, event.step_id)
        attempt.made = made  # the run that executed it, however often it was reused since
        if event.shared is not None:
            attempt.duration = event.shared.duration
        elif source is not None:
            attempt.duration, attempt.costs = source.duration, source.costs  # for estimates: it may replace the source
        expected_outputs = max((len(a.outputs) for a in (own, source) if a is not None and a.has_result), default=0)
        record = self.records.steps.get(event.step_id)
        success_before = record.last_success() if record is not None else None
        self.reused[event.step_id] = _Reuse(attempt, expected_outputs, success_before)
        self.end_attempt(event.step_id, attempt, whole=not expected_outputs)

    def add_to_reuse(self, step: str, output: Output, seq: int) -> None:
        reuse = self.reused.get(step)
        if reuse is None and self.mode == "decide":
            self.keeping.setdefault(step, []).append(output)
            return
        if reuse is None:
            raise self.incomplete(seq, f"`{output.id}` has no `step_start` of its step before it")
        if self.reusing is not reuse:
            self.finish_reuse()
            self.reusing = reuse
        reuse.outputs.append(output)
        attempt, record = reuse.attempt, self.records.steps.get(step)
        if len(reuse.outputs) == reuse.expected_outputs and record is not None and record.latest is attempt:
            record.unadopted = record.unadopted_after(attempt)
            others = [a for a in record.attempts() if a.kind != attempt.kind]
            record.settled = [*others, attempt] if others else None

    def finish_reuse(self) -> None:
        """Set the outputs of a reuse in its attempt, before that is read. All at once: there may be thousands."""
        if self.reusing is not None:
            self.reusing.attempt.outputs = tuple(self.reusing.outputs)
            self.reusing = None

    def attempt_with(
        self, step: str, fingerprint: str, made: int = 0, recorded: int = 0, reads: int | None = None
    ) -> Attempt | None:
        """The latest with this fingerprint; of several, the one that this run made, or that read this.

        A kept result has the same maker as the one that it replaced. So the run that recorded it says more.
        """
        self.finish_reuse()
        record = self.records.steps.get(step)
        if record is None:
            return None
        if reads is not None:
            return record.by_fingerprint(fingerprint, lambda one: one.reads == reads)
        return (
            record.by_fingerprint(fingerprint, lambda one: one.made_in == made and one.run == recorded)
            or record.by_fingerprint(fingerprint, lambda one: one.made_in == made)
            or record.by_fingerprint(fingerprint)
        )

    def attempt_for_others(self, step: str, fingerprint: str, made: int) -> Attempt | None:
        """The attempt that another step has reused: of an adopted or kept one, that which it replaced; unless the
        result has moved to another instance of its job, as it is."""
        self.finish_reuse()
        record = self.records.steps.get(step)
        found = [one for one in record.for_others() if one.fingerprint == fingerprint] if record is not None else []
        every = [*(record.attempts() if record is not None else ()), *found]
        made_then = (one for one in reversed(every) if one.made_in == made and one.fingerprint == fingerprint)
        return next(made_then, found[-1] if found else None)

    def adopt(self, event: scan.ArtifactAdopted, seq: int) -> None:
        """The events of an artifact's leaves come first; the event of the artifact itself completes the adoption.

        A kill may come between them. Leaves without their artifact do not count, before and after a repair. (In logs of
        the first versions the leaves come after the artifact.)
        """
        step = event.step_id
        self.check_bindings(event.bindings, f"the adoption of `{event.artifact}`", seq)
        held = () if event.value is msgspec.UNSET else self.checked_value(event, seq)
        site = event.path if event.section is None else site_of(event.path or "", event.section)
        output = Output(event.artifact, event.sha256, event.size, event.type, site, held, event.suffix)
        if output_of(event.artifact) is None and step not in self.adopted:
            self.adopting.setdefault(step, []).append(output)
            return
        self.adopted.add(step)
        reads, packages = self.observed(event, seq)
        base = self.attempt_with(step, event.fingerprint, reads=reads)
        recorded = base.outputs if base is not None and base.has_result else ()
        taken = (output, *self.adopting.pop(step, ()))
        attempt = Attempt(self.run, seq, 0, event.fingerprint, ok=True, origin="adopted", reads=reads)
        attempt.packages = packages
        attempt.outputs = tuple({o.id: o for o in (*recorded, *taken)}.values())
        if base is not None:
            others = {o.id for o in recorded} - {o.id for o in taken}
            attempt.apart = {artifact: base.source_of(artifact) for artifact in sorted(others)} or None
        self.end_attempt(step, attempt)

    def keep(self, event: scan.ResultKept, seq: int) -> None:
        """The events of the outputs come first; this one completes them. A kill may come between them: then the result
        is not kept."""
        self.check_bindings(event.bindings, f"the kept result of `{event.step_id}`", seq)
        base = self.attempt_with(event.step_id, event.old_fingerprint, self.run_number(event.from_run, seq))
        attempt = Attempt(self.run, seq, 0, event.fingerprint, ok=True, origin="kept")
        attempt.made, attempt.kept = self.run_number(event.from_run, seq), (event.by, event.because)
        attempt.reads, attempt.packages = self.observed(event, seq)
        attempt.outputs = tuple(self.keeping.pop(event.step_id, ()))
        if base is not None:
            attempt.duration, attempt.costs = base.duration, base.costs
            attempt.apart = {artifact: (run, "adopted") for artifact, run in base.adopted.items()} or None
        self.end_attempt(event.step_id, attempt)

    def remember(self, event: scan.RequestRecorded) -> None:
        if not self.counts:
            return
        record = self.records.steps.get(event.step_id)
        if record is None:
            # The step is open and has no record yet. Make one as if the attempt were interrupted; the end of the step
            # replaces that attempt, and the request stays.
            entry = self.open.get(event.step_id)
            if entry is None:
                raise self.incomplete(event.seq, f"`{event.step_id}` remembered a request without a `step_start`")
            placeholder = Attempt(self.run, entry[0].seq, entry[0].number, entry[0].fingerprint, status="INTERRUPTED")
            placeholder.error_type, placeholder.error = INTERRUPTED_TYPE, INTERRUPTED_ERROR
            record = self.records.steps[event.step_id] = StepRecord(placeholder)
        if record.requests is None:
            record.requests = {}
        record.requests.setdefault(event.fingerprint, {})[event.key] = event.value
        record.remembered_by = {**(record.remembered_by or {}), event.key: event.fingerprint}

    def run_number(self, name: str, line: int) -> int:
        if not name[1:].isdecimal() or run_name(int(name[1:])) != name:
            raise self.damaged(line, f"`{name}` is not a run")
        return int(name[1:])

    # -- checks --

    def observe(self, event: StepComplete | scan.StepFailed, attempt: Attempt, seq: int) -> None:
        attempt.reads, attempt.packages = self.observed(event, seq)
        if self.counts:
            self.reads.ended(event.step_id, attempt, traced=event.traced)

    def observed(self, event: WithReads, seq: int) -> tuple[int, int]:
        """The numbers of its reads and of its packages."""
        try:
            return self.reads.numbers(event)
        except (ValueError, *UNREADABLE) as wrong:
            raise self.damaged(seq, f"what was observed of `{event.step_id}` cannot be read: {wrong}") from None

    def check_ids(self, line: int, kind: Kind | None, *ids: str) -> None:
        for text in ids:
            problem = id_problem(text, kind)
            if problem is not None:
                raise self.damaged(line, problem)

    def check_owner(self, step: str, artifact: str, line: int) -> None:
        problem = owner_problem(step, artifact)
        if problem is not None:
            raise self.damaged(line, problem)

    def check_bindings(self, bindings: msgspec.Raw, whose: str, line: int) -> None:
        """Bindings must be an object; their members are checked when they are read."""
        text = bytes(bindings)
        if text in (b"", b"null", b"{}"):
            raise self.incomplete(line, f"{whose} has no bindings")
        if text[:1] != b"{":
            raise self.damaged(line, f"the bindings of {whose} are not an object")

    def damaged(self, line: int, what: str) -> WhyrunError:
        return damaged_line(self.file, line, what)

    def checked_value(self, event: scan.ArtifactAvailable | scan.ArtifactAdopted, line: int) -> tuple[Any]:
        """The value in an event, checked against its hash: LOG_DAMAGED if they do not agree."""
        problem = value_hash_problem(event.artifact, event.value, event.sha256)
        if problem is not None:
            raise self.damaged(line, problem)
        return (event.value,)

    def incomplete(self, line: int, what: str) -> WhyrunError:
        return error("LOG_INCOMPLETE", what, file=self.file, line=line, hint=DAMAGE_HINT)
