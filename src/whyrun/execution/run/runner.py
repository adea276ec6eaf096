"""PLAN → EVENTS: the runner executes exactly the plan it is given, and records the evidence.

One thread, one loop: examine the ready steps, submit them to the backend, handle the messages that come back. The
decisions (is a step active, what does it consume, can an earlier result be reused) are made by the same pure functions
that made the plan. The states of the steps change by the table in `scheduler`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import UNSET

from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.execution.backends.base import Backend
from whyrun.execution.backends.registry import capabilities_of
from whyrun.execution.dispatch.dispatch import ActiveStep, Dispatcher, PreparedStep, Recalled, RememberedRequests
from whyrun.execution.dispatch.reusable_results import ReusableResults
from whyrun.execution.dispatch.watch import UNDECLARED, Watch
from whyrun.execution.protocol.messages import (
    THROTTLED,
    CostReported,
    EarlierVersion,
    Message,
    MetricReported,
    RequestRemembered,
    StepBegan,
    StepFinished,
    StepLost,
    StepReturns,
    TaskReported,
)
from whyrun.execution.recording.publisher import Publisher
from whyrun.execution.recording.step_lines import StepFailure
from whyrun.execution.recording.totals import RunCounts, Usage
from whyrun.execution.run.rates import Rates
from whyrun.execution.run.scheduler import COUNTED, FAILURES, Retries, Scheduler
from whyrun.execution.run.shared_results import RunSharing
from whyrun.execution.run.spending import Spending
from whyrun.execution.run.stages import Stages, Work, forced_in
from whyrun.execution.run.step_outcomes import FinishedStep, PendingSections, StepOutcomes, StepResults, edited_code
from whyrun.execution.run.termination import Policy, Termination
from whyrun.execution.worker.failure import STORE_DAMAGED
from whyrun.graph.tables import JobTable
from whyrun.log import events as ev
from whyrun.planning.consume import Consumption
from whyrun.planning.judge import Judge
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.planning.reasons import why_executed
from whyrun.planning.reuse import Reuse
from whyrun.snapshot.snapshot import PlanningSnapshot

TURN = 0.1  # seconds that a turn of the loop waits for messages at most


class Runner:
    gated = True  # a step waits for the planned steps whose results it consumes

    def __init__(
        self,
        work: Work,
        policy: Policy,
        backend: Backend,
        publisher: Publisher,
        sharing: RunSharing | None = None,
        stages: Stages | None = None,
    ) -> None:
        self.policy, self.backend, self.sharing, self.stages = policy, backend, sharing, stages
        self.work, self.recorder = work, publisher.recorder
        self.look_at(work.snapshot, work.plan)
        rates = Rates(policy.rates or {}, time.monotonic)
        self.scheduler = Scheduler(self.graph, work.plan, policy.limits, rates, gated=self.gated)
        self.states, self.retries = self.scheduler.states, Retries()
        self.results = StepResults(work.snapshot, work.plan, self.states)
        self.judge = Judge(work.snapshot, {})
        self.reusable = ReusableResults(work.snapshot, publisher)
        self.reusable.announce_sections(work.plan)
        self.reusable.restore_planned(work.plan)
        self.watch = Watch.of(work.snapshot, work.plan, publisher, policy.watch)
        self.dispatcher = Dispatcher(work.snapshot, backend, self.reusable, work.secrets, self.from_run, self.watch)
        self.requests = RememberedRequests(work.snapshot, forced_in(work.plan))
        self.outcomes = self.make_outcomes(publisher)
        self.pending_sections = PendingSections(self.graph, publisher)
        self.active: dict[str, ActiveStep] = {}  # by step ID: at the backend
        timed = any(table.decl.timeout is not None for table in self.graph.tables)
        self.termination = Termination(backend, self.active, policy.grace, timed=timed)
        self.usage = Usage()
        self.spending = Spending(work, policy.budget, publisher, self.usage)
        self.edits = 0  # jobs with edited code whose queued steps have been failed

    def look_at(self, snapshot: PlanningSnapshot, plan: Plan) -> None:
        """The plan that is executed; a stage adds to it."""
        self.work = replace(self.work, snapshot=snapshot, plan=plan)
        self.graph = snapshot.dependency_graph
        self.jobs: dict[int, PlannedJob] = {job.node: job for job in plan.planned}
        self.no_reuse = {job.node for job in plan.planned if why_executed(job.reasons) is not None}

    # -- what a comparison does otherwise --

    def make_outcomes(self, publisher: Publisher) -> StepOutcomes:
        return StepOutcomes(self.work.snapshot, publisher, self.backend.name)

    def from_run(self, node: int) -> str | None:
        return self.results.from_run(node)

    def recall(self, step: PreparedStep) -> Recalled:
        return self.requests.recall(step)

    def versions_to_compare(self, node: int) -> Mapping[str, EarlierVersion]:
        del node
        return {}

    @property
    def counts(self) -> RunCounts:
        return RunCounts(**self.ended_counts())

    def ended_counts(self) -> dict[str, int]:
        """By field of `RunCounts`: how the planned steps ended."""
        totals = self.states.totals
        of_loops = sum(self.states[node] == "waiting" for node in self.scheduler.open)  # nobody knows how many they are
        not_started = len(self.states) - self.states.ended - of_loops
        return {**{state: totals[state] for state in COUNTED}, "not_started": not_started}

    # -- the loop --

    def run(self) -> None:
        try:
            while self.turn():
                pass
        finally:
            for node, failed_as in list(self.retries.not_retried(self.states)):
                self.scheduler.move(node, failed_as)

    def turn(self) -> bool:
        """One round; False when nothing is left to do."""
        self.work.code.poll()
        if self.work.code.edits > self.edits:
            self.edits = self.work.code.edits
            self.fail_queued_edited()
        if not self.termination.ordered:
            self.start_ready()
        if self.termination.interrupts and not self.termination.ordered:
            self.stop()
        waits = self.retries or self.scheduler.awaits_rate or (self.sharing is not None and self.sharing.waits)
        if not self.active and not self.pending_sections and (self.termination.ordered or not waits):
            self.recorder.sync()
            return False
        self.recorder.flush()
        # Deadlines are judged by the time before the messages are read: this process may have been suspended for long,
        # and the message that a step has ended may be waiting.
        as_of = time.monotonic()
        self.handle(self.backend.messages(self.longest_wait()))
        self.termination.enforce_deadlines(as_of)
        self.recorder.flush()
        self.recorder.link_ended()
        self.recorder.sync_if_due()
        running = [step for step, active in self.active.items() if active.began is not None]
        self.recorder.reporter.progress(self.states.ended, running)
        return True

    def longest_wait(self) -> float:
        """Seconds that this turn may wait for messages."""
        if self.pending_sections:
            return min(TURN, self.pending_sections.seconds_left()) if self.active else 0.0
        if self.retries and not self.active:
            return min(TURN, self.retries.seconds_left(time.monotonic()))
        return TURN

    def start_ready(self) -> None:
        for failed in self.retries.due(time.monotonic()):
            self.scheduler.move(failed, "backoff_over")
        for answered in self.sharing.receive(self.reusable) if self.sharing is not None else ():
            self.scheduler.move(answered, "answer")
        room = self.backend.room()
        while room > 0 and not self.termination.ordered:
            node = self.scheduler.take()
            if node is None:
                return
            if self.examine(node):
                room -= 1

    # -- one step --

    def examine(self, node: int) -> bool:
        """Decide what happens to a step whose sources have ended; True if it was submitted to the backend."""
        table, position = self.graph.table_at(node)
        if node in self.scheduler.open and self.stages is not None:
            self.stages.examine(self, node, table, position)
            return False
        consumed = self.results.consumer.consume(table, position)
        pending = {self.graph.node(at) for at in consumed.pending} if consumed.waits else set()
        early = self.scheduler.awaits_needs(table) or not all(self.states.has_ended(source) for source in pending)
        if early and not consumed.inactive:
            return False  # an undecided `first`: it is examined again when its next gate opens
        job = self.jobs[node]
        examined_before = node in self.retries.attempts or (self.sharing is not None and self.sharing.has_asked(node))
        if job.conditional and consumed.decision is not None and not examined_before:
            self.outcomes.condition(table, job.id, consumed)
        if consumed.inactive:
            self.outcomes.inactive(table, position, consumed)
            self.scheduler.move(node, "deactivate")
            return False
        if because := pending | self.results.failed_needs(table):
            self.outcomes.blocked(table, position, [self.graph.job_id(source) for source in sorted(because)])
            self.scheduler.move(node, "block")
            return False
        if consumed.problems:
            self.fail_unresolved(node, table, position, consumed)
            return False
        fingerprint = self.judge.fingerprint(table, position, consumed)
        step = PreparedStep(job.id, node, table, position, consumed, fingerprint)
        if node not in self.no_reuse and node not in self.retries.attempts:
            reuse = self.reusable.find(node, table, position, fingerprint, consumed)
            if reuse is not None:
                self.reuse(step, reuse)
                return False
            if self.sharing is not None and self.sharing.asks(step):
                self.scheduler.move(node, "ask")
                return False
        return self.submit(step)

    def fail_unresolved(self, node: int, table: JobTable, position: int, consumed: Consumption) -> None:
        """A parameter or condition has no value: the step fails before its action is called."""
        slot, what = next(iter(consumed.problems.items()))
        bindings = self.outcomes.bindings(table, position, consumed)
        fingerprint = bytes_sha256(canonical_json(["unresolved", bindings, consumed.problems]))
        name = "the condition" if slot == "if" else f"`{slot.removeprefix('.')}`"
        failure = StepFailure("FAILED", "ExpressionError", f"{name} cannot be computed: {what}", "", 0.0)
        self.fail_unstarted(PreparedStep(self.jobs[node].id, node, table, position, consumed, fingerprint), failure)

    def fail_unstarted(self, step: PreparedStep, failure: StepFailure) -> None:
        """Record an attempt that fails although its action was never called."""
        bindings = self.outcomes.bindings(step.table, step.position, step.consumed)
        attempt = self.retries.attempts.get(step.node, 0) + 1
        active = ActiveStep(step, attempt, bindings, step.table.decl.uses, None)
        self.outcomes.began(active)
        self.fail(active, failure, final=True)

    def reuse(self, step: PreparedStep, reuse: Reuse) -> None:
        made = self.outcomes.reused(step, reuse)
        if made is None:
            self.scheduler.move(step.node, "fail")
            self.stop_if_fail_fast()
            return
        if self.scheduler.is_awaited(step.node):
            self.results.add(step.node, made)
        if reuse.shared is not None and self.sharing is not None:
            self.sharing.count_taken()
        self.scheduler.move(step.node, "reuse")

    def submit(self, step: PreparedStep) -> bool:
        """Submit a step to the backend; False if its code was edited, so that its result would not count."""
        code = self.work.code
        if (edited := code.edited_file(step.table.name)) is not None:
            self.fail_edited(step, edited)
            return False
        if not self.spending.allows(step.id):
            self.scheduler.move(step.node, self.retries.last_failure(step.node) or self.outcomes.held(step))
            return False
        attempt = self.retries.attempts[step.node] = self.retries.attempts.get(step.node, 0) + 1
        compare = self.versions_to_compare(step.node)
        active = self.dispatcher.dispatch(step, attempt, self.recall(step), compare)
        self.active[step.id] = active
        if capabilities_of(self.backend.name).runs_on_host_files(step.table.decl.sandbox.required):
            # Elsewhere a step reads a copy of the planned code that nobody edits, so its result always counts.
            active.code = code.versions(step.table.name)
        self.scheduler.move(step.node, "submit")
        return True

    def fail_edited(self, step: PreparedStep, edited: str) -> None:
        action = self.work.snapshot.actions[step.table.name].name
        self.fail_unstarted(step, edited_code(action, edited, "it was not started", 0.0))

    def fail_queued_edited(self) -> None:
        """Code was edited: fail the steps that still wait in the backend's queue and whose results would not count."""
        code = self.work.code
        edited = {name: file for name in self.work.snapshot.actions if (file := code.edited_file(name)) is not None}
        queued = {step for step, a in self.active.items() if a.began is None and a.table.name in edited}
        for active in self.take_back(queued):
            self.fail_edited(active.step, edited[active.table.name])

    def take_back(self, queued: set[str]) -> Iterator[ActiveStep]:
        """From the backend, those of these steps that have not begun."""
        for command in self.backend.unqueue(queued) if queued else ():
            active = self.active.pop(command.step_id)
            self.spending.ended(active.id)
            self.retries.attempts[active.node] -= 1  # the next attempt takes this number
            yield active

    # -- messages of the backend --

    def handle(self, messages: Sequence[Message]) -> None:
        finished: list[FinishedStep] = []
        self.work.code.refresh()
        for message in messages:
            active = self.active.get(message.step_id)
            if active is None:
                self.recorder.debug(f"a message for a step that is not running: {message!r:.200}")
                continue
            self.handle_one(active, message, finished)
        at_once = not self.active or self.termination.ordered
        if not (ready := self.pending_sections.release(finished, at_once=at_once)):
            return
        self.recorder.flush()  # `artifact_available` is written before anything is published
        for active, message in ready:
            failure = self.outcomes.completed(active, message)
            if failure is not None:
                self.results.drop(active.node)
                self.fail(active, failure, final=True)  # executing it again would not help, and may cost money
            else:
                self.scheduler.move(active.node, "complete")
                if self.sharing is not None:
                    self.sharing.give(active, message)

    def handle_one(self, active: ActiveStep, message: Message, finished: list[FinishedStep]) -> None:
        match message:
            case StepBegan():
                active.began, active.began_at = time.monotonic(), message.ts
                self.begin(active, message.ts)
                if self.termination.ordered:
                    self.termination.order_late(active.id)
            case TaskReported():
                details = UNSET if message.details is None else message.details
                task = ev.Task(step_id=active.id, status=message.status, message=message.message, details=details)
                self.recorder.event(task, ts=message.ts)
                self.outcomes.lines.task(active.action, message)
                self.usage.tasks[message.status] += 1
            case MetricReported():
                self.recorder.metric(active.id, message.metric, message.value, message.unit, message.ts)
                if message.metric == "progress":
                    self.recorder.reporter.step_progress(active.id, message.value)
                elif message.metric == THROTTLED:
                    self.scheduler.throttle(active.node, message.value, self.recorder.reporter.note)
            case RequestRemembered():
                self.remember(active, message)
            case CostReported():
                self.spending.record(message)
                for queued in self.take_back(self.spending.exceeding(self.active.values())):
                    self.scheduler.move(queued.node, "withdraw")  # the budget is asked again
                self.backend.acknowledge(message.step_id, message.key)  # last: its worker may begin the next one then
            case StepReturns():
                active.timeout = None  # output transfer is not counted in the timeout
            case StepFinished():
                self.leave_backend(active)
                self.step_finished(active, message, finished)
            case StepLost():
                self.leave_backend(active)
                self.step_lost(active, message)

    def begin(self, active: ActiveStep, ts: str | None = None) -> None:
        self.scheduler.move(active.node, "begin")
        self.outcomes.began(active, ts)

    def remember(self, active: ActiveStep, message: RequestRemembered) -> None:
        step, fingerprint, key, value = message.step_id, active.step.fingerprint, message.key, message.value
        event = ev.RequestRecorded(step_id=step, fingerprint=fingerprint, key=key, value=value)
        self.recorder.event(event, ts=message.ts)
        self.recorder.sync(for_good=True)  # before the step waits for the answer that it pays for
        self.requests.remember(message.step_id, fingerprint, message.key, message.value)
        self.backend.acknowledge(message.step_id, message.key)

    def leave_backend(self, active: ActiveStep) -> None:
        """The backend is done with the step."""
        del self.active[active.id]
        self.spending.ended(active.id)
        if active.began is None:  # its worker died before `StepBegan` arrived: that was an attempt, too
            self.begin(active)

    def step_finished(self, active: ActiveStep, message: StepFinished, finished: list[FinishedStep]) -> None:
        (code := self.work.code).loaded(message.loaded)
        edited = code.edited_while_running(active.table.name, active.code) if active.code is not None else None
        self.termination.judge_timeout(active, message)
        message = self.watch.ended(active, message)
        self.recorder.metrics(active.id, message.metrics, message.ts)
        self.usage.add(active.id, message.metrics)
        if active.killed_for is not None:
            # We ended it, whatever it reports. A step that stops early on `context.cancelled` may call half of its
            # work a result.
            self.fail(active, self.outcomes.killed(active, message.duration, message.traceback))
        elif message.error_type is not None:
            if message.error_type == STORE_DAMAGED:
                self.reusable.drop_damaged(active.step.consumed, self.versions_to_compare(active.node))
            failure = StepFailure("FAILED", message.error_type, message.error, message.traceback, message.duration)
            self.fail(active, failure, final=message.error_type == UNDECLARED)
        elif edited is not None:
            failure = edited_code(active.action, edited, "the result does not count", message.duration)
            self.fail(active, failure, final=True)  # nor would the result of another attempt
        else:
            made = self.outcomes.outputs(active, message)
            if self.scheduler.is_awaited(active.node):
                self.results.add(active.node, made)
            self.scheduler.move(active.node, "finish")
            self.recorder.reporter.step_took(active.id, message.duration)
            finished.append((active, message))

    def step_lost(self, active: ActiveStep, message: StepLost) -> None:
        metrics = {"step_duration_ms": round(message.duration * 1000, 3), **message.metrics}
        self.recorder.metrics(active.id, metrics, message.ts)
        self.usage.add(active.id, metrics)
        killed = self.outcomes.killed(active, message.duration, "") if active.killed_for is not None else None
        self.fail(active, killed or self.outcomes.lost(message))

    def fail(self, active: ActiveStep, failure: StepFailure, *, final: bool = False) -> None:
        """Record the failure of an attempt, and retry the step unless it is `final`."""
        retries = active.table.decl.retries
        final = final or failure.status == "INTERRUPTED" or self.termination.ordered
        will_retry = not final and active.attempt <= retries.max
        self.outcomes.failed(active, failure, will_retry)
        if will_retry:
            backoff = retries.backoff * 2 ** (active.attempt - 1)
            self.retries.delay(active.node, failure.status, time.monotonic() + backoff)
            self.scheduler.move(active.node, "retry")
            return
        self.scheduler.move(active.node, FAILURES[failure.status])
        if failure.status != "INTERRUPTED":
            self.stop_if_fail_fast()

    # -- stopping --

    def stop_if_fail_fast(self) -> None:
        if self.policy.fail_fast and not self.termination.ordered:
            self.stop()

    def stop(self) -> None:
        """Start no more steps, and ask the running ones to end."""
        self.retries.cancel()
        for command in self.backend.withdraw():
            if (active := self.active.pop(command.step_id, None)) is not None:
                self.scheduler.move(active.node, "withdraw")
        if (waiting := self.termination.waiting_note()) is not None:
            self.recorder.reporter.note(waiting)
        self.termination.order()

    def interrupt(self) -> None:
        self.termination.interrupt()
