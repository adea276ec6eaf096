"""PLAN → EVENTS: executes exactly the plan it is given, and leaves the evidence.

One thread, one loop: look at what is ready, hand it to the backend, record what comes back. The decisions (is it
active, what does it consume, can an earlier result be taken) are made by the same pure functions that made the plan.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import UNSET

from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.execution.code_guard import CodeGuard, edited_code
from whyrun.execution.commands import (
    Backend,
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
from whyrun.execution.counts import RunCounts
from whyrun.execution.earlier import EarlierResults
from whyrun.execution.endings import Active, Endings, Problem
from whyrun.execution.failure import STORE_DAMAGED
from whyrun.execution.handing import Handing, Recalled, Requests
from whyrun.execution.held import HeldSteps
from whyrun.execution.publisher import Publisher
from whyrun.execution.recorder import Recorder
from whyrun.execution.run_secrets import RunSecrets
from whyrun.execution.run_sharing import RunSharing
from whyrun.execution.scheduler import Scheduler
from whyrun.execution.stopping import Stopping
from whyrun.execution.usage import Usage
from whyrun.graph.graph import ArtifactAt, JobTable
from whyrun.log import events as ev
from whyrun.planning.consume import Consumer, Consumption, Look, Pending, Seen
from whyrun.planning.dirty import Judge
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.planning.reasons import Forced
from whyrun.planning.reuse import Reuse
from whyrun.snapshot.records import run_name
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.model import VALUE_TYPES

Ended = Literal["completed", "reused", "inactive", "failed", "blocked"]
TURN = 0.1  # seconds that a turn of the loop waits for messages at most


class Runner:
    gated = True  # a step waits for the planned steps whose results it consumes

    def __init__(
        self,
        *,
        snapshot: PlanningSnapshot,
        plan: Plan,
        backend: Backend,
        recorder: Recorder,
        publisher: Publisher,
        code: CodeGuard,
        limits: Mapping[str, float],
        secrets: RunSecrets,
        fail_fast: bool,
        grace: float,
        sharing: RunSharing | None = None,
    ) -> None:
        self.snapshot, self.backend, self.recorder = snapshot, backend, recorder
        self.graph = snapshot.dependency_graph
        self.code, self.sharing = code, sharing
        self.fail_fast = fail_fast
        self.endings = Endings(snapshot, recorder, publisher, backend.name)
        self.earlier = EarlierResults(snapshot, publisher)
        self.earlier.announce_sections(plan)
        self.earlier.fetch_back(plan)
        self.handing = Handing(snapshot, backend, recorder, self.earlier, secrets, self.from_run)
        self.held = HeldSteps(self.graph, publisher)
        self.scheduler = Scheduler(self.graph, plan, limits, gated=self.gated)
        self.consumer = Consumer(self.graph, self.look, lambda at: self.graph.node(at) in self.ended)
        self.judge = Judge(snapshot, {})
        self.jobs: dict[int, PlannedJob] = {job.node: job for job in plan.planned}
        self.inactive = {job.node for job in plan.jobs if job.state == "inactive"}
        self.forced = {job.node for job in plan.planned if any(isinstance(r, Forced) for r in job.reasons)}
        self.ended: dict[int, Ended] = {}
        self.made: dict[int, dict[str, Seen]] = {}  # what steps still to come may read
        self.failed_of: dict[int, set[int]] = {}  # table that is needed → its steps that failed
        self.attempts: dict[int, int] = {}
        self.active: dict[str, Active] = {}
        self.delayed: list[tuple[float, int]] = []  # retries that wait for their backoff
        self.to_retry: dict[int, str] = {}  # node → the status of its latest failure that was to be retried
        self.requests = Requests(snapshot, self.forced)
        self.counts = RunCounts()
        self.to_compare: Mapping[int, dict[str, EarlierVersion]] = {}  # node → output → the version to compare with
        self.usage = Usage()
        self.edits = 0  # of code, that were found and acted upon
        timed = any(table.decl.timeout is not None for table in self.graph.tables)
        self.stopping = Stopping(backend, self.active, grace, timed=timed)

    # -- what is known --

    def look(self, at: ArtifactAt) -> Look:
        node = self.graph.node(at)
        if node in self.jobs:
            ended = self.ended.get(node)
            if ended in ("completed", "reused"):
                return self.made[node][self.graph.tables[at.table].artifacts[at.artifact].key_at(at.position)]
            if ended == "inactive":
                return None
            return Pending(maybe=ended is None)  # a failed candidate of `first` is failed, not absent
        if node in self.inactive:
            return None
        sha = self.snapshot.shas[at.table][at.artifact][at.position]
        assert sha is not None, "an instance outside the plan is clean or inactive"
        spec = self.graph.tables[at.table].artifacts[at.artifact]
        return Seen(sha, self.snapshot.output(at).value if spec.is_leaf or spec.type in VALUE_TYPES else UNSET)

    def from_run(self, node: int) -> str | None:
        """The run that made a node's artifacts; None: this one."""
        record = self.snapshot.record(node) if node not in self.jobs else None
        return run_name(record.latest.run) if record is not None else None

    # -- the loop --

    def run(self) -> None:
        try:
            while self.turn():
                pass
        finally:
            self.end_unretried()
            self.counts.not_started = len(self.jobs) - len(self.ended)

    def end_unretried(self) -> None:
        """A failure whose retry was called off, because the run stops, is how the step ended."""
        for node, status in self.to_retry.items():
            if node not in self.ended:
                self.ended[node] = "failed"
                self.counts.add_failure(status)

    def turn(self) -> bool:
        """One round; False when nothing is left to do."""
        self.code.look()
        if self.code.edits > self.edits:
            self.edits = self.code.edits
            self.fail_waiting()
        if not self.stopping.ordered:
            self.start_ready()
        if self.interrupts and not self.stopping.ordered:
            self.stop()
        waits = self.delayed or (self.sharing is not None and self.sharing.waits)
        if not self.active and not self.held and (self.stopping.ordered or not waits):
            self.recorder.sync()
            return False
        self.recorder.flush()
        # A step is overdue by the time before what was said is heard: this process may have been held up for long, and
        # the step may be done since.
        as_of = time.monotonic()
        self.handle(self.backend.messages(self.patience()))
        self.stopping.enforce_deadlines(as_of)
        self.recorder.flush()
        self.recorder.link_ended()
        self.recorder.sync_if_due()
        self.recorder.reporter.progress(len(self.ended), [s for s, a in self.active.items() if a.began is not None])
        return True

    def patience(self) -> float:
        if self.held:
            return min(TURN, self.held.seconds_left()) if self.active else 0.0
        if self.delayed and not self.active:
            return max(0.0, min(TURN, self.delayed[0][0] - time.monotonic()))
        return TURN

    def start_ready(self) -> None:
        now = time.monotonic()
        while self.delayed and self.delayed[0][0] <= now:
            self.scheduler.again(heapq.heappop(self.delayed)[1])
        for answered in self.sharing.answered() if self.sharing is not None else ():
            self.scheduler.again(answered)
        room = self.backend.room()
        while room > 0 and not self.stopping.ordered:
            node = self.scheduler.take()
            if node is None:
                return
            if self.examine(node):
                room -= 1

    # -- one step --

    def examine(self, node: int) -> bool:
        """Decide what becomes of a step whose sources have ended; True if it was handed to the backend."""
        table, position = self.graph.table_at(node)
        found = self.consumer.consume(table, position)
        pending = {self.graph.node(at) for at in found.pending} if found.waits else set()
        early = self.scheduler.awaits_needs(table) or not pending <= self.ended.keys()
        if early and not found.inactive:
            return False  # an undecided `first`: its next gate brings it back
        job = self.jobs[node]
        seen = node in self.attempts or (self.sharing is not None and self.sharing.has_asked(node))
        if job.conditional and found.decision is not None and not seen:
            self.endings.condition(table, job.id, found)
        if found.inactive:
            self.endings.inactive(table, position, found)
            self.counts.inactive += 1
            self.end(node, "inactive")
            return False
        if because := pending | self.failed_needs(table):
            self.endings.blocked(table, position, [self.graph.job_id(n) for n in sorted(because)])
            self.counts.blocked += 1
            self.end(node, "blocked")
            return False
        if found.problems:
            self.fail_unresolved(node, table, position, found)
            return False
        fingerprint = self.judge.fingerprint(table, position, found)
        if node not in self.forced and node not in self.attempts:
            reuse = self.earlier.find(node, table, position, fingerprint)
            if reuse is not None:
                self.take_earlier(node, table, position, found, fingerprint, reuse)
                return False
            if self.sharing is not None and self.sharing.asks(node, table, fingerprint):
                return False  # the answer brings it back
        return self.submit(node, table, position, found, fingerprint)

    def end(self, node: int, how: Ended) -> None:
        self.ended[node] = how
        self.scheduler.ended(node)

    def failed_needs(self, table: JobTable) -> set[int]:
        """All that is needed has ended by now, so it is gone through once for all who need it."""
        for number in table.needs:
            if number not in self.failed_of:
                needed = self.graph.tables[number]
                nodes = range(needed.base, needed.base + len(needed))
                self.failed_of[number] = {node for node in nodes if self.ended.get(node) in ("failed", "blocked")}
        return {node for number in table.needs for node in self.failed_of[number]}

    def fail_unresolved(self, node: int, table: JobTable, position: int, found: Consumption) -> None:
        """A parameter or condition that has no value: the step fails before its action is called."""
        slot, what = next(iter(found.problems.items()))
        bindings = self.endings.bindings(table, position, found)
        fingerprint = bytes_sha256(canonical_json(["unresolved", bindings, found.problems]))
        name = "the condition" if slot == "if" else f"`{slot.removeprefix('.')}`"
        problem = Problem("FAILED", "ExpressionError", f"{name} cannot be computed: {what}", "", 0.0)
        self.fail_unstarted(node, table, position, found, fingerprint, problem)

    def fail_unstarted(
        self, node: int, table: JobTable, position: int, found: Consumption, fingerprint: str, problem: Problem
    ) -> None:
        step, bindings = self.jobs[node].id, self.endings.bindings(table, position, found)
        attempt = self.attempts.get(node, 0) + 1
        active = Active(step, node, table, position, attempt, fingerprint, bindings, table.decl.uses, None)
        self.endings.began(active, step)
        self.failure(active, problem, final=True)

    def take_earlier(
        self, node: int, table: JobTable, position: int, found: Consumption, fingerprint: str, reuse: Reuse
    ) -> None:
        made = self.endings.reused(table, position, found, fingerprint, reuse)
        if made is None:
            self.counts.failed += 1
            self.end(node, "failed")
            if self.fail_fast and not self.stopping.ordered:
                self.stop()
            return
        if self.scheduler.is_awaited(node):
            self.made[node] = made
        self.counts.reused += 1
        if reuse.shared is not None and self.sharing is not None:
            self.sharing.took()
        self.end(node, "reused")

    def submit(self, node: int, table: JobTable, position: int, found: Consumption, fingerprint: str) -> bool:
        """Hand it to the backend; False if its result would not count, so that nothing is paid for it."""
        if (edited := self.code.changed(table.name)) is not None:
            self.fail_edited(node, table, position, found, fingerprint, edited)
            return False
        step = self.jobs[node].id  # one object for all who remember it: there may be many steps
        attempt = self.attempts[node] = self.attempts.get(node, 0) + 1
        recalled, compare = self.recalled(node, step, fingerprint), self.to_compare.get(node, {})
        self.active[step] = self.handing.hand(
            step, table, position, found, fingerprint, attempt, self.endings, recalled, compare
        )
        if self.backend.name == "local" and not table.decl.sandbox.required:
            # Elsewhere it reads a copy of what was planned with, which nobody edits: what was begun there counts.
            self.active[step].code = self.code.versions(table.name)
        self.scheduler.occupy(node)
        return True

    def fail_edited(
        self, node: int, table: JobTable, position: int, found: Consumption, fingerprint: str, edited: str
    ) -> None:
        problem = edited_code(self.snapshot.actions[table.name].name, edited, "it was not started", 0.0)
        self.fail_unstarted(node, table, position, found, fingerprint, problem)

    def fail_waiting(self) -> None:
        """Code was edited: of what waits at the backend, that is not to be paid for whose result would not count."""
        edited = {name: file for name in self.snapshot.actions if (file := self.code.changed(name)) is not None}
        waiting = {step for step, a in self.active.items() if a.began is None and a.table.name in edited}
        for command in self.backend.unqueue(waiting):
            a = self.active.pop(command.step_id)
            self.scheduler.release(a.node)
            self.attempts[a.node] -= 1
            assert a.consumed is not None
            self.fail_edited(a.node, a.table, a.position, a.consumed, a.fingerprint, edited[a.table.name])

    def recalled(self, node: int, step: str, fingerprint: str) -> Recalled:
        return self.requests.recalled(node, step, fingerprint)

    # -- what comes back --

    def handle(self, messages: Sequence[Message]) -> None:
        finished: list[tuple[Active, StepFinished]] = []
        self.code.look_again()
        for message in messages:
            active = self.active.get(message.step_id)
            if active is None:
                self.recorder.debug(f"a message for a step that is not running: {message!r:.200}")
                continue
            self.handle_one(active, message, finished)
        finished = self.held.released(finished, at_once=not self.active or self.stopping.ordered)
        if not finished:
            return
        self.recorder.flush()  # `artifact_available` is written before anything is published
        for active, message in finished:
            problem = self.endings.completed(active, message)
            if problem is not None:
                self.made.pop(active.node, None)
                self.failure(active, problem, final=True)  # executing it again would not help, and may cost
            else:
                self.counts.completed += 1
                self.end(active.node, "completed")
                if self.sharing is not None:
                    self.sharing.give(active, message)

    def handle_one(self, active: Active, message: Message, finished: list[tuple[Active, StepFinished]]) -> None:
        step = active.step
        match message:
            case StepBegan():
                active.began = time.monotonic()
                self.endings.began(active, step, message.ts)
                if self.stopping.ordered:
                    self.stopping.order_late(step)
            case TaskReported():
                details = UNSET if message.details is None else message.details
                task = ev.Task(step_id=step, status=message.status, message=message.message, details=details)
                self.recorder.event(task, ts=message.ts)
                self.endings.lines.task(active.action, message)
            case MetricReported():
                self.recorder.metric(step, message.metric, message.value, message.unit, message.ts)
                if message.metric == "progress":
                    self.recorder.reporter.step_progress(step, message.value)
            case RequestRemembered():
                self.remember(active, message)
            case StepReturns():
                active.timeout = None  # the way back is no time of the step
            case StepFinished():
                self.leave(active, step)
                self.code.loaded(message.loaded)
                edited = self.code.ended(active.table.name, active.code) if active.code is not None else None
                self.stopping.judge(active, message)
                self.recorder.metrics(step, message.metrics, message.ts)
                self.usage.add(step, message.metrics)
                if active.killed_for is not None:
                    # Whatever it answers to the signal, what happened is the order to end it. A step that stops early
                    # and calls its half a result (`context.cancelled`) must not be taken at its word.
                    self.failure(active, self.endings.killed(active, message.duration, message.traceback))
                elif message.error_type is None and edited is not None:
                    problem = edited_code(active.action, edited, "the result does not count", message.duration)
                    self.failure(active, problem, final=True)  # nor would that of another attempt
                elif message.error_type is None:
                    made = self.endings.outputs(active, message)
                    if self.scheduler.is_awaited(active.node):
                        self.made[active.node] = made
                    finished.append((active, message))
                else:
                    if message.error_type == STORE_DAMAGED:
                        self.earlier.drop_damaged(active.consumed, self.to_compare.get(active.node, {}))
                    what = (message.error_type, message.error, message.traceback)
                    self.failure(active, Problem("FAILED", *what, message.duration))
            case StepLost():
                self.leave(active, step)
                known = {"step_duration_ms": round(message.duration * 1000, 3)}  # the rest went with its process
                self.recorder.metrics(step, known, message.ts)
                self.usage.add(step, known)
                if active.killed_for is not None:
                    self.failure(active, self.endings.killed(active, message.duration, ""))
                else:
                    self.failure(active, self.endings.lost(message))

    def remember(self, active: Active, message: RequestRemembered) -> None:
        self.recorder.event(
            ev.RequestRecorded(
                step_id=message.step_id, fingerprint=active.fingerprint, key=message.key, value=message.value
            ),
            ts=message.ts,
        )
        self.recorder.sync(for_good=True)  # before the step goes on to wait for what it paid for
        self.requests.remember(message.step_id, active.fingerprint, message.key, message.value)
        self.backend.acknowledge(message.step_id, message.key)

    def leave(self, active: Active, step: str) -> None:
        """The backend is done with it."""
        del self.active[step]
        self.scheduler.release(active.node)
        if active.began is None:  # lost before its word of beginning came: it still was an attempt
            self.endings.began(active, step)

    def failure(self, active: Active, problem: Problem, *, final: bool = False) -> None:
        retries = active.table.decl.retries
        final = final or problem.status == "INTERRUPTED" or self.stopping.ordered
        again = not final and active.attempt <= retries.max
        self.endings.failed(active, problem, again)
        if again:
            wait = retries.backoff * 2 ** (active.attempt - 1)
            heapq.heappush(self.delayed, (time.monotonic() + wait, active.node))
            self.to_retry[active.node] = problem.status
            return
        self.counts.add_failure(problem.status)
        self.end(active.node, "failed")
        if self.fail_fast and not self.stopping.ordered and problem.status != "INTERRUPTED":
            self.stop()

    # -- stopping --

    def stop(self) -> None:
        """Start nothing more; ask what runs to end."""
        self.delayed.clear()
        for command in self.backend.withdraw():
            active = self.active.pop(command.step_id, None)
            if active is not None:
                self.scheduler.release(active.node)
        waiting = self.stopping.waiting()
        if waiting is not None:
            self.recorder.reporter.note(waiting)
        self.stopping.order()

    @property
    def interrupts(self) -> int:
        return self.stopping.interrupts

    def interrupt(self) -> None:
        self.stopping.interrupt()
