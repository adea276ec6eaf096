"""PLAN → EVENTS: executes exactly the plan it is given, and leaves the evidence.

One thread, one loop: look at what is ready, hand it to the backend, record what comes back. The decisions (is it
active, what does it consume, can an earlier result be taken) are made by the same pure functions that made the plan.
"""

from __future__ import annotations

import heapq
import os
import signal
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import UNSET, to_builtins

from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.artifacts.publish import publish
from whyrun.artifacts.stat_cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.console.lines import listed, seconds, size
from whyrun.errors import WhyrunError
from whyrun.execution.commands import (
    Backend,
    ExecStep,
    Message,
    MetricReported,
    RequestRemembered,
    StepBegan,
    StepFinished,
    StepLost,
    TaskReported,
)
from whyrun.execution.prepare import input_sources, recorded_bindings, step_cfg
from whyrun.execution.recorder import Recorder
from whyrun.execution.scheduler import Scheduler
from whyrun.graph.graph import ArtifactAt, JobTable
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.planning.consume import Consumer, Consumption, Look, Pending, Seen
from whyrun.planning.dirty import Judge, Reuse, reusable, successes_by_fingerprint
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.planning.reasons import Forced
from whyrun.snapshot.fold import run_name
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.model import VALUE_TYPES

Ended = Literal["completed", "reused", "inactive", "failed", "blocked"]
GRACE = 10.0  # seconds between SIGTERM and SIGKILL
TURN = 0.1  # seconds that a turn of the loop waits for messages at most


@dataclass(slots=True)
class _Active:
    """A step that was handed to the backend."""

    node: int
    attempt: int
    fingerprint: str
    bindings: dict[str, Any]
    action: str
    timeout: float | None
    began: float | None = None  # monotonic
    killed_for: str | None = None  # TIMED_OUT INTERRUPTED


@dataclass(slots=True)
class RunCounts:
    completed: int = 0
    reused: int = 0
    inactive: int = 0
    failed: int = 0
    timed_out: int = 0
    interrupted: int = 0
    blocked: int = 0
    not_started: int = 0


@dataclass(slots=True)
class _Finished:
    """A step whose outputs are in the store, to be recorded and published with the others of this turn."""

    active: _Active
    message: StepFinished
    published: list[tuple[str, str]] = field(default_factory=list)


class Runner:
    def __init__(
        self,
        *,
        snapshot: PlanningSnapshot,
        plan: Plan,
        backend: Backend,
        recorder: Recorder,
        store: Store,
        cache: StatCache,
        project: str,
        limits: Mapping[str, float],
        secrets: Mapping[str, str],
        fail_fast: bool,
        ours: Ours,
    ) -> None:
        self.snapshot, self.plan, self.backend, self.recorder = snapshot, plan, backend, recorder
        self.graph = snapshot.dependency_graph
        self.store, self.cache, self.project = store, cache, project
        self.secrets, self.fail_fast, self.ours = secrets, fail_fast, ours
        self.scheduler = Scheduler(self.graph, plan, limits)
        self.consumer = Consumer(self.graph, self.look)
        self.judge = Judge(snapshot, {})
        self.jobs: dict[int, PlannedJob] = {job.node: job for job in plan.planned}
        self.inactive = {job.node for job in plan.jobs if job.state == "inactive"}
        self.forced = {job.node for job in plan.planned if any(isinstance(r, Forced) for r in job.reasons)}
        self.ended: dict[int, Ended] = {}
        self.made: dict[int, dict[str, Seen]] = {}
        self.attempts: dict[int, int] = {}
        self.active: dict[str, _Active] = {}
        self.delayed: list[tuple[float, int]] = []  # retries that wait for their backoff
        self.remembered: dict[tuple[str, str], dict[str, Any]] = {}
        self.counts = RunCounts()
        self.failed_any = False
        self.interrupts = 0
        self.stopping: float | None = None  # monotonic time of the order to stop
        self._killed_all = False
        self._others: dict[str, Any] | None = None

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
        if node in self.jobs:
            return None
        record = self.snapshot.record(node)
        return run_name(record.latest.run) if record is not None else None

    # -- the loop --

    def run(self) -> None:
        try:
            while self.turn():
                pass
        finally:
            self.counts.not_started = len(self.jobs) - len(self.ended)

    def turn(self) -> bool:
        """One round; False when nothing is left to do."""
        if self.stopping is None:
            self.start_ready()
        self.enforce_deadlines()
        if not self.active and (self.stopping is not None or not self.delayed):
            self.recorder.sync()
            return False
        self.recorder.flush()
        messages = self.backend.messages(self.patience())
        self.handle(messages)
        self.recorder.flush()
        self.recorder.sync_if_due()
        running = [step for step, a in self.active.items() if a.began is not None]
        self.recorder.reporter.progress(len(self.ended), running)
        return True

    def patience(self) -> float:
        if self.delayed and not self.active:
            return max(0.0, min(TURN, self.delayed[0][0] - time.monotonic()))
        return TURN

    def start_ready(self) -> None:
        now = time.monotonic()
        while self.delayed and self.delayed[0][0] <= now:
            self.scheduler.again(heapq.heappop(self.delayed)[1])
        room = self.backend.room()
        while room > 0 and self.stopping is None:
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
        waiting = [n for at in found.pending if (n := self.graph.node(at)) not in self.ended]
        if waiting and not found.inactive:
            return False  # an undecided `first`: its next gate brings it back
        job = self.jobs[node]
        step = job.id
        if job.conditional and found.decision is not None and node not in self.attempts:
            assert table.condition is not None
            self.recorder.event(
                ev.ConditionEvaluated(
                    step_id=step,
                    expression=table.condition.expression.text,
                    inputs=found.decision.inputs,
                    result=found.decision.result,
                )
            )
        if found.inactive:
            self.skip_inactive(node, step, table, found)
            return False
        because = sorted({self.graph.node(at) for at in found.pending} | self.failed_needs(table))
        if because:
            self.block(node, step, table, [self.graph.job_id(n) for n in because])
            return False
        if found.problems:
            self.fail_unstarted(node, step, table, position, found)
            return False
        fingerprint = found.fingerprint(self.judge.prefix(table, position), table.slots)
        if node not in self.forced and node not in self.attempts:
            reuse = self.earlier(node, table, position, fingerprint)
            if reuse is not None:
                self.take_earlier(node, table, position, found, fingerprint, reuse)
                return False
        self.submit(node, table, position, found, fingerprint)
        return True

    def earlier(self, node: int, table: JobTable, position: int, fingerprint: str) -> Reuse | None:
        """An earlier result to take; its bytes are looked for now, and fetched back from published files."""
        record, others = self.snapshot.record(node), self.others(table)
        own = record.by_fingerprint(fingerprint) if record is not None else None
        other = others.get(fingerprint)
        lost: set[str] = set()
        for attempt in (own, other[1] if other is not None else None):
            for output in attempt.outputs if attempt is not None and attempt.ok else ():
                if output.value is not UNSET:
                    continue
                there = self.store.has_tree if output.type == "directory" else self.store.has
                if not there(output.sha256) and output.path is not None:
                    self.store.restore_from(f"{self.project}/{output.path}", output.sha256)
                if not there(output.sha256):
                    lost.add(output.sha256)
        return reusable(table, position, record, fingerprint, others, lost)

    def others(self, table: JobTable) -> Mapping[str, Any]:
        if not self.snapshot.actions[table.name].deterministic:
            return {}
        if self._others is None:
            self._others = successes_by_fingerprint(self.snapshot.records.steps)
        return self._others

    def failed_needs(self, table: JobTable) -> set[int]:
        found: set[int] = set()
        for number in table.needs:
            needed = self.graph.tables[number]
            for node in range(needed.base, needed.base + len(needed)):
                if self.ended.get(node) in ("failed", "blocked"):
                    found.add(node)
        return found

    def end(self, node: int, how: Ended) -> None:
        self.ended[node] = how
        self.scheduler.ended(node)

    def skip_inactive(self, node: int, step: str, table: JobTable, found: Consumption) -> None:
        condition = found.inactive_by is None
        self.recorder.event(ev.StepSkipped(step_id=step, why="condition_false" if condition else "source_inactive"))
        why = "condition is false" if condition else f"source is inactive: {found.inactive_by}"
        self.recorder.status(table.decl.uses, "SKIPS", f"{step} → {why}")
        self.counts.inactive += 1
        self.end(node, "inactive")

    def block(self, node: int, step: str, table: JobTable, because: list[str]) -> None:
        self.recorder.event(ev.StepBlocked(step_id=step, because=because))
        self.recorder.status(table.decl.uses, "SKIPS", f"{step} → blocked by {listed(because)}")
        self.counts.blocked += 1
        self.end(node, "blocked")

    def fail_unstarted(self, node: int, step: str, table: JobTable, position: int, found: Consumption) -> None:
        """A parameter or condition that has no value: the step fails before its action is called."""
        slot, problem = next(iter(found.problems.items()))
        action = self.snapshot.actions[table.name]
        bindings = recorded_bindings(table, position, found, action, self.store.put_bytes)
        name = "the condition" if slot == "if" else f"`{slot.removeprefix('.')}`"
        fingerprint = bytes_sha256(canonical_json(["unresolved", bindings, found.problems]))
        self.recorder.event(
            ev.StepStart(step_id=step, driver=action.name, attempt=1, fingerprint=fingerprint, bindings=bindings)
        )
        failed = _Active(node, 1, fingerprint, bindings, action.name, None)
        self.failure(failed, "FAILED", "ExpressionError", f"{name} cannot be computed: {problem}", "", 0.0, final=True)

    def take_earlier(
        self, node: int, table: JobTable, position: int, found: Consumption, fingerprint: str, reuse: Reuse
    ) -> None:
        step = table.job_id(position)
        action = self.snapshot.actions[table.name]
        self.recorder.event(
            ev.StepSkipped(
                step_id=step,
                why="reused",
                fingerprint=fingerprint,
                bindings=recorded_bindings(table, position, found, action, self.store.put_bytes),
                from_run=reuse.run,
                from_step=reuse.step,
            )
        )
        made: dict[str, Seen] = {}
        to_publish: list[tuple[str, str, str]] = []
        for a, spec in enumerate(table.artifacts):
            output = reuse.outputs[spec.key_at(position)]
            path = self.published_path(table, a, position)
            self.recorder.event(
                ev.ArtifactAvailable(
                    artifact=table.artifact_id(a, position),
                    step_id=step,
                    sha256=output.sha256,
                    size=output.size,
                    type=output.type,
                    path=path,
                    value=output.value,
                    reused_from=reuse.run,
                )
            )
            made[spec.key_at(position)] = Seen(output.sha256, output.value)
            if path is not None:
                to_publish.append((path, output.sha256, output.type))
        self.recorder.flush()
        for path, sha256, type_ in to_publish:
            try:
                self.publish(path, sha256, type_)
            except (WhyrunError, OSError) as problem:
                # The result stands in the log and the store; only its copy is not where the user wants it. The next
                # plan sees that, says so and tries again.
                self.counts.failed += 1
                self.failed_any = True
                self.recorder.status(action.name, "FAILED", f"{step} → {type(problem).__name__}: {_first_line(problem)}")
                self.end(node, "failed")
                return
        self.made[node] = made
        source = "" if reuse.step == step else f" ({reuse.step})"
        self.recorder.status(action.name, "SKIPS", f"{step} → reused from {reuse.run}{source}")
        self.counts.reused += 1
        self.end(node, "reused")

    def submit(self, node: int, table: JobTable, position: int, found: Consumption, fingerprint: str) -> None:
        step = table.job_id(position)
        action = self.snapshot.actions[table.name]
        attempt = self.attempts.get(node, 0) + 1
        self.attempts[node] = attempt
        self.restore_lost_inputs(found)
        data = canonical_json(to_builtins(step_cfg(self.graph, table, position, found, action)))
        path = self.recorder.directory.write_cfg(table.path(position), data)
        sha256 = bytes_sha256(data)
        if attempt == 1:
            self.recorder.event(ev.CfgMaterialized(path=path, size=len(data), sha256=sha256))
        command = ExecStep(
            step_id=step,
            driver=action.name,
            cfg_path=path,
            cfg_sha256=sha256,
            attempt=attempt,
            inputs=input_sources(self.graph, table, found, self.from_run),
            recalled=self.recalled(node, step, fingerprint, attempt),
        )
        self.recorder.command(command)
        bindings = recorded_bindings(table, position, found, action, self.store.put_bytes)
        self.active[step] = _Active(node, attempt, fingerprint, bindings, action.name, table.decl.timeout)
        self.scheduler.occupy(node)
        secrets = {name: self.secrets[name] for name in table.decl.secrets}
        self.backend.submit(command, secrets)

    def recalled(self, node: int, step: str, fingerprint: str, attempt: int) -> dict[str, Any]:
        """What earlier attempts with this fingerprint remembered; a forced step's first attempt asks anew."""
        found: dict[str, Any] = {}
        if not (node in self.forced and attempt == 1):
            record = self.snapshot.record(node)
            if record is not None and record.requests and node not in self.forced:
                found.update(record.requests.get(fingerprint, {}))
            found.update(self.remembered.get((step, fingerprint), {}))
        return found

    def restore_lost_inputs(self, found: Consumption) -> None:
        """An artifact whose stored bytes are gone, but whose published file is still right, goes back to the store."""
        for entry in found.entries.values():
            for one in entry if isinstance(entry, list) else (entry,):
                at = one.source
                if not isinstance(at, ArtifactAt) or one.value is not UNSET or self.store.has(one.sha256):
                    continue
                path = self.published_path(self.graph.tables[at.table], at.artifact, at.position)
                if path is not None:
                    self.store.restore_from(f"{self.project}/{path}", one.sha256)

    def published_path(self, table: JobTable, artifact: int, position: int) -> str | None:
        if table.artifacts[artifact].is_leaf:
            return None
        paths = table.output_of(artifact).paths
        return None if paths is None else paths[position]

    # -- what comes back --

    def handle(self, messages: Any) -> None:
        finished: list[_Finished] = []
        for message in messages:
            active = self.active.get(message.step_id)
            if active is None:
                self.recorder.debug(f"a message for a step that is not running: {message!r:.200}")
                continue
            done = self.handle_one(active, message)
            if done is not None:
                finished.append(done)
        if not finished:
            return
        self.recorder.flush()  # `artifact_available` is written before anything is published
        for done in finished:
            self.complete(done)

    def handle_one(self, active: _Active, message: Message) -> _Finished | None:
        step = message.step_id
        match message:
            case StepBegan():
                active.began = time.monotonic()
                self.recorder.event(
                    ev.StepStart(
                        step_id=step,
                        driver=active.action,
                        attempt=active.attempt,
                        fingerprint=active.fingerprint,
                        bindings=active.bindings,
                    ),
                    ts=message.ts,
                )
            case TaskReported():
                details = UNSET if message.details is None else message.details
                self.recorder.event(
                    ev.Task(step_id=step, status=message.status, message=message.message, details=details), ts=message.ts
                )
            case MetricReported():
                self.recorder.metric(step, message.metric, message.value, message.unit, message.ts)
            case RequestRemembered():
                self.recorder.event(
                    ev.RequestRecorded(
                        step_id=step, fingerprint=active.fingerprint, key=message.key, value=message.value
                    ),
                    ts=message.ts,
                )
                self.recorder.sync()  # before the step goes on to wait for what it paid for
                self.remembered.setdefault((step, active.fingerprint), {})[message.key] = message.value
                self.backend.acknowledge(step, message.key)
            case StepFinished():
                self.leave(active, step)
                self.recorder.metrics(step, message.metrics, message.ts)
                if active.killed_for is not None and message.error_type is not None:
                    # It answered the signal with an error of its own: the order to end it is what happened.
                    self.killed(active, message.duration, message.traceback)
                elif message.error_type is not None:
                    self.failure(
                        active, "FAILED", message.error_type, message.error, message.traceback, message.duration
                    )
                else:
                    self.record_outputs(active, message)
                    return _Finished(active, message)
            case StepLost():
                self.leave(active, step)
                if active.killed_for is not None:
                    self.killed(active, message.duration, "")
                else:
                    self.recorder.event(
                        ev.StatusContractViolation(
                            step_id=step, reason=message.reason, last_stderr=message.last_stderr
                        )
                    )
                    tail = f"\n{message.last_stderr}" if message.last_stderr else ""
                    self.failure(active, "FAILED", "WorkerDied", message.reason, message.reason + tail, message.duration)
        return None

    def leave(self, active: _Active, step: str) -> None:
        del self.active[step]
        self.scheduler.release(active.node)
        if active.began is None:
            # The backend lost it before its word of beginning came: it still was an attempt.
            self.recorder.event(
                ev.StepStart(
                    step_id=step,
                    driver=active.action,
                    attempt=active.attempt,
                    fingerprint=active.fingerprint,
                    bindings=active.bindings,
                )
            )

    def record_outputs(self, active: _Active, message: StepFinished) -> None:
        table, position = self.graph.table_at(active.node)
        numbers = {spec.key_at(position): a for a, spec in enumerate(table.artifacts)}
        made: dict[str, Seen] = {}
        for output in sorted(message.outputs, key=lambda o: numbers[o.key]):
            a = numbers[output.key]
            made[output.key] = Seen(output.sha256, output.value)
            self.recorder.event(
                ev.ArtifactAvailable(
                    artifact=table.artifact_id(a, position),
                    step_id=message.step_id,
                    sha256=output.sha256,
                    size=output.size,
                    type=output.type,
                    path=self.published_path(table, a, position),
                    value=output.value,
                ),
                ts=message.ts,
            )
        self.made[active.node] = made

    def complete(self, done: _Finished) -> None:
        active, message = done.active, done.message
        table, position = self.graph.table_at(active.node)
        numbers = {spec.key_at(position): a for a, spec in enumerate(table.artifacts)}
        shown = []
        try:
            for output in message.outputs:
                path = self.published_path(table, numbers[output.key], position)
                if path is not None:
                    self.publish(path, output.sha256, output.type)
                    shown.append(f"{path} ({size(output.size)})")
        except (WhyrunError, OSError) as problem:
            del self.made[active.node]
            text = "".join(traceback.format_exception(problem))
            self.failure(active, "FAILED", type(problem).__name__, _first_line(problem), text, message.duration)
            return
        step = message.step_id
        self.recorder.event(
            ev.StepComplete(
                step_id=step,
                driver=active.action,
                output_dir=f"artifacts/{file_name(table.path(position))}",
                duration=round(message.duration, 6),
                status="EXECUTES",
            )
        )
        where = f" → outputs: {listed(shown)}" if shown else ""
        self.recorder.status(active.action, "EXECUTES", f"{step} in {seconds(message.duration)}{where}")
        self.counts.completed += 1
        self.end(active.node, "completed")

    def publish(self, path: str, sha256: str, type_: str) -> None:
        result = publish(self.store, self.project, path, sha256, lambda found: self.ours(path, found), type_)
        for displaced in result.displaced:
            self.recorder.event(ev.FileDisplaced(path=displaced.path, sha256=displaced.sha256))
            self.recorder.reporter.note(
                f"`{displaced.path}` was not written by this workflow; its content is kept as {displaced.sha256[:12]}… "
                f"in the store"
            )
        self.ours.add(path, sha256)
        if result.file is not None:
            self.cache.note(f"{self.project}/{path}", result.file)

    # -- what goes wrong --

    def killed(self, active: _Active, duration: float, text: str) -> None:
        table, position = self.graph.table_at(active.node)
        if active.killed_for == "TIMED_OUT":
            limit = seconds(active.timeout or 0.0)
            scratch = f"steps/{file_name(table.path(position))}/scratch"
            message = f"timeout: {limit}, partial outputs may exist: {scratch}"
            self.failure(active, "TIMED_OUT", "TimedOut", message, text, duration)
        else:
            self.failure(active, "INTERRUPTED", "Interrupted", "interrupted", text, duration, final=True)

    def failure(
        self,
        active: _Active,
        status: Literal["FAILED", "TIMED_OUT", "INTERRUPTED"],
        error_type: str,
        message: str,
        text: str,
        duration: float,
        *,
        final: bool = False,
    ) -> None:
        table, position = self.graph.table_at(active.node)
        step = table.job_id(position)
        retries = table.decl.retries
        again = not final and self.stopping is None and active.attempt <= retries.max
        self.recorder.event(
            ev.StepFailed(
                step_id=step,
                driver=active.action,
                error=message,
                error_type=error_type,
                traceback=text,
                duration=round(duration, 6),
                status=status,
                will_retry=again,
            )
        )
        if text:
            self.recorder.debug(f"{step} attempt {active.attempt}: {error_type}\n{text}")
        self.tell_failure(active, step, status, error_type, message, duration, again)
        if again:
            wait = retries.backoff * 2 ** (active.attempt - 1)
            heapq.heappush(self.delayed, (time.monotonic() + wait, active.node))
            return
        if status == "INTERRUPTED":
            self.counts.interrupted += 1
        else:
            self.failed_any = True
            if status == "TIMED_OUT":
                self.counts.timed_out += 1
            else:
                self.counts.failed += 1
        self.end(active.node, "failed")
        if self.fail_fast and self.stopping is None and status != "INTERRUPTED":
            self.stop()

    def tell_failure(
        self, active: _Active, step: str, status: str, error_type: str, message: str, duration: float, again: bool
    ) -> None:
        head = message.split("\n", 1)[0]
        retry = f" (attempt {active.attempt}, will retry)" if again else ""
        if status == "TIMED_OUT":
            text = f"{step} after {seconds(duration)} → {head}{retry}"
        elif status == "INTERRUPTED":
            status, text = "FAILED", f"{step} after {seconds(duration)} → interrupted"
        else:
            text = f"{step} after {seconds(duration)} → {error_type}: {head}{retry}"
        self.recorder.status(active.action, status, text)

    # -- stopping --

    def enforce_deadlines(self) -> None:
        if self.interrupts and self.stopping is None:
            self.stop()
        now = time.monotonic()
        if self.stopping is not None and not self._killed_all and (self.interrupts > 1 or now > self.stopping + GRACE):
            self._killed_all = True
            for step in list(self.active):
                self.backend.signal(step, signal.SIGKILL)
        for step, active in self.active.items():
            late = active.timeout is not None and active.began is not None and now > active.began + active.timeout
            if late and active.killed_for is None:
                active.killed_for = "TIMED_OUT"
                self.backend.signal(step, signal.SIGKILL)

    def stop(self) -> None:
        """Start nothing more; ask what runs to end."""
        self.stopping = time.monotonic()
        self.delayed.clear()
        for command in self.backend.withdraw():
            active = self.active.pop(command.step_id, None)
            if active is not None:
                self.scheduler.release(active.node)
        for step, active in self.active.items():
            active.killed_for = active.killed_for or "INTERRUPTED"
            self.backend.signal(step, signal.SIGTERM)

    def interrupt(self) -> None:
        """From a signal handler: once for a graceful end, twice for one at once."""
        self.interrupts += 1
        descriptor = self.backend.wakeup_fd()
        if descriptor is not None:
            try:
                os.write(descriptor, b"\0")
            except BlockingIOError:
                pass  # full of wake-ups already: it will wake


class Ours:
    """Which content the log holds for a published path: a file with any of it is ours to write over."""

    def __init__(self, recorded: Any) -> None:
        self._load = recorded
        self._known: dict[str, set[str]] | None = None
        self._new: dict[str, set[str]] = {}

    def __call__(self, path: str, sha256: str) -> bool:
        if sha256 in self._new.get(path, ()):
            return True
        if self._known is None:
            self._known = self._load()
        return sha256 in self._known.get(path, ())

    def add(self, path: str, sha256: str) -> None:
        self._new.setdefault(path, set()).add(sha256)


def _first_line(problem: BaseException) -> str:
    if isinstance(problem, WhyrunError):
        return problem.diagnostics[0].message
    return str(problem).split("\n", 1)[0]
