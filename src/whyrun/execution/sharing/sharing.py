"""One command's use of the shared store of a project: ask for results, fetch them, and offer new ones.

No error of the shared store ends a run, delays it for long, or makes it skip a step wrongly: the user gets one note,
and the run goes on without the store.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import msgspec

from whyrun.artifacts.shared.result import Refused, SharedResult
from whyrun.artifacts.shared.storage import ReadOnlyStorage, StorageError, open_storage
from whyrun.artifacts.shared.store import SharedStore
from whyrun.artifacts.store import Store
from whyrun.console.lines import count, listed
from whyrun.errors import WhyrunError, printable
from whyrun.planning.judge import with_shared_results
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.snapshot.snapshot import PlanningSnapshot

# --- Calls to a store that may be slow or never answer, made by a few daemon threads ---------------------------------

Answer = TypeVar("Answer")
Alive = Callable[[], None]  # reports that the other side still answers
Call = Callable[[Alive], Answer]


class BackgroundCall(Generic[Answer]):
    def __init__(self, call: Call[Answer], then: Callable[[], None] | None = None) -> None:
        self.call, self.then = call, then
        self.done = False
        self.problem: Exception | None = None
        self._answer: Answer | None = None

    def run(self, alive: Alive) -> None:
        try:
            self._answer = self.call(alive)
        except Exception as problem:
            self.problem = problem  # raised by `answer`

    def answer(self) -> Answer:
        if self.problem is not None:
            raise self.problem
        assert self.done, "an answer is read once the call is done"
        return self._answer  # type: ignore[return-value]  # None only where the call returns None


class BackgroundCalls:
    """A few threads that end with the process, even in the middle of a call."""

    def __init__(self, threads: int, name: str) -> None:
        self._most, self._name = threads, name
        self._queue: SimpleQueue[BackgroundCall[object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._condition = threading.Condition()
        self._last_sign = time.monotonic()  # when the other side last answered
        self._unfinished = 0
        self._open = True

    def start(self, call: Call[Answer], then: Callable[[], None] | None = None) -> BackgroundCall[Answer]:
        """`then` is called in the thread of the call, before anybody is notified that the call is done."""
        started = BackgroundCall(call, then)
        with self._condition:
            if not self._unfinished:
                self._last_sign = time.monotonic()
            self._unfinished += 1
        self._queue.put(started)  # type: ignore[arg-type]  # the queue does not care about the type of the answer
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return started

    def wait(self, calls: Sequence[BackgroundCall[Answer]], patience: float, at_most: float = math.inf) -> bool:
        """Wait until all are done. False: `patience` seconds passed without a sign of life, or `at_most` in all."""
        until = time.monotonic() + at_most
        with self._condition:
            for call in calls:  # every sign of life wakes us; calls that were done before are not checked again
                while not call.done:
                    left = min(self._last_sign + patience, until) - time.monotonic()
                    if left <= 0:
                        return False
                    self._condition.wait(left)
        return True

    def is_silent(self, patience: float) -> bool:
        """Whether calls are open and the other side has been silent for `patience` seconds."""
        with self._condition:
            return bool(self._unfinished) and time.monotonic() > self._last_sign + patience

    def close(self) -> None:
        """Queued calls do not start any more; running ones are left alone."""
        self._open = False
        for _ in self._threads:
            self._queue.put(None)

    def _alive(self) -> None:
        with self._condition:
            self._last_sign = time.monotonic()
            self._condition.notify_all()

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            if self._open:
                call.run(self._alive)
            with self._condition:
                call.done = True
                self._unfinished -= 1
                if call.then is not None:
                    call.then()
            self._alive()


# --- What a command asks of the store, takes from it and gives to it -------------------------------------------------

LOOKUPS_AT_A_TIME = 8
UPLOADS_AT_A_TIME = 2
MANY_LOOKUPS = 100  # from this number on, the user gets a note about them
QUIETLY = 1.0  # seconds to wait before the user gets a note
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds of silence after which the run goes on without the shared store."""

    answer: float = 10.0  # of a lookup
    piece: float = 30.0  # of a transfer: from one piece to the next


@dataclass(slots=True)
class SharingCounts:
    """How many results a run uploaded to the shared store and downloaded from it, for its summary.

    Results that the store had already are not counted as uploaded.
    """

    gave: int = 0
    took: int = 0
    not_given: int = 0
    used: bool = True  # whether any job of the workflow may be shared
    secret: tuple[str, ...] = ()  # jobs that are not shared only because they have a secret or a connection

    def summary(self) -> str:
        secret = f" (given a secret or a connection: {listed(list(self.secret))})" if self.secret else ""
        if not self.used:
            return f"not used, because no job of this workflow may be shared{secret}"
        left = f"; {self.not_given} not uploaded" if self.not_given else ""
        never = f"; never shared{secret}" if secret else ""
        return f"uploaded {count(self.gave, 'result')}, downloaded {self.took}{left}{never}"

    def to_json(self) -> dict[str, Any]:
        return {"gave": self.gave, "took": self.took, "not_given": self.not_given}


class Sharing:
    """The shared store as one command uses it. A project without a shared store has no such object."""

    def __init__(self, address: str, project: Path, store: Store, note: Note, patience: Patience | None = None) -> None:
        self.address, self.store, self.note = address, store, note
        self.patience = patience or Patience()
        self._lookups = BackgroundCalls(LOOKUPS_AT_A_TIME, "whyrun-asks")
        self._uploads = BackgroundCalls(UPLOADS_AT_A_TIME, "whyrun-gives")
        # By number: uploads whose end is not handled yet.
        self._offers: dict[int, tuple[SharedResult, BackgroundCall[SharedResult | None]]] = {}
        self._offers_done: deque[int] = deque()  # their numbers, successful or not
        self._known: dict[str, SharedResult | None] = {}  # by fingerprint: answers so far
        self._later: dict[str, tuple[str, BackgroundCall[SharedResult | None]]] = {}  # by fingerprint: step, lookup
        self._answered: deque[str] = deque()  # their fingerprints, once done
        self.counts = SharingCounts()
        self._offered = self._accepted = 0  # results to share; results that the store has now
        self._uploading, self._noted_creation = True, False
        self._shared: SharedStore | None = None  # None: not usable, or not any more
        self._opened: SharedStore | None = None  # the same, kept when the run goes on without it
        try:
            self._opened = self._shared = SharedStore(open_storage(address, project), store)
        except StorageError as problem:
            self._go_on_without(str(problem))

    # -- while planning --

    def plan(self, snapshot: PlanningSnapshot, options: PlanOptions) -> tuple[Plan, PlanningSnapshot]:
        """The plan and the snapshot, with results of the shared store. Reads only their records, not their bytes."""
        snapshot = with_shared_results(snapshot, self.ask)
        return compute_execution_plan(snapshot, options), snapshot

    def plan_to_run(self, snapshot: PlanningSnapshot, options: PlanOptions) -> tuple[Plan, PlanningSnapshot]:
        """The same for a run: every shared result of the plan is fetched and checked before the plan is final."""
        plan, snapshot = self.plan(snapshot, options)
        while wanted := [job for job in plan.planned if job.reuse is not None and job.reuse.shared is not None]:
            results = {job.id: job.reuse.shared for job in wanted if job.reuse is not None and job.reuse.shared}
            refused = self.fetch(results)
            if not refused:
                break
            fetched = {print_: result for print_, result in snapshot.shared.items() if print_ not in refused}
            snapshot = snapshot.with_shared(fetched)
            plan = compute_execution_plan(snapshot, options)
        return plan, snapshot

    def ask(self, fingerprints: Mapping[str, str]) -> dict[str, SharedResult]:
        """Look up results. `fingerprints`: each with the step that has it, for notes."""
        shared = self._shared
        if shared is None:
            return {}

        def question(fingerprint: str) -> Callable[[Alive], SharedResult | None]:
            return lambda _: shared.find(fingerprint)

        calls = {fingerprint: self._lookups.start(question(fingerprint)) for fingerprint in fingerprints}
        lookups = list(calls.values())
        if not self._lookups.wait(lookups, self.patience.answer, QUIETLY) and len(lookups) >= MANY_LOOKUPS:
            self.note(f"asking the shared store {self.address} for {len(lookups)} results …")
        if not self._lookups.wait(lookups, self.patience.answer):
            self._go_on_without(f"no answer for {self.patience.answer:g} s")
        results: dict[str, SharedResult] = {}
        for fingerprint, call in calls.items():
            result = self._answer(call, f"the result of {fingerprints[fingerprint]}")
            self._known[fingerprint] = result
            if result is not None:
                results[fingerprint] = result
        return results

    def fetch(self, results: Mapping[str, SharedResult]) -> set[str]:
        """Fetch the bytes of results into the store of this machine; returns the fingerprints of those that failed."""
        shared = self._shared
        fingerprints = {result.fingerprint for result in results.values()}
        if shared is None:
            return fingerprints

        def fetching(result: SharedResult) -> Callable[[Alive], bool]:
            def fetched(alive: Alive) -> bool:
                shared.fetch(result, alive)
                return True

            return fetched

        once = {result.fingerprint: (step, result) for step, result in results.items()}
        calls = {print_: self._lookups.start(fetching(result)) for print_, (_, result) in once.items()}
        if not self._lookups.wait(list(calls.values()), self.patience.piece):
            self._go_on_without(f"no answer for {self.patience.piece:g} s")
        refused = {
            print_ for print_, call in calls.items() if not self._answer(call, f"the result of {once[print_][0]}")
        }
        self._known.update(dict.fromkeys(refused))
        return refused

    def _answer(self, call: BackgroundCall[Answer], what: str) -> Answer | None:
        if not call.done:
            return None
        try:
            return call.answer()
        except Refused as wrong:
            self.note(f"the shared store has {what}, but it is refused: {wrong}; the step runs")
        except StorageError as problem:
            self._go_on_without(str(problem))
        except (OSError, WhyrunError) as problem:  # an error of the disk here
            self._go_on_without(f"{type(problem).__name__}: {problem}")
        return None

    # -- while running --

    def ask_later(self, fingerprint: str, step: str) -> bool:
        """Look up a result and fetch it in the background; False if it is known that there is none."""
        shared = self._shared
        if shared is None or (fingerprint in self._known and self._known[fingerprint] is None):
            return False
        known = self._known.get(fingerprint)  # a result that the plan did not use

        def question(alive: Alive) -> SharedResult | None:
            result = known or shared.find(fingerprint)
            if result is not None:
                shared.fetch(result, alive)
            return result

        if fingerprint not in self._later:
            self._later[fingerprint] = step, self._lookups.start(question, lambda: self._answered.append(fingerprint))
        return True

    def answers(self) -> dict[str, SharedResult | None]:
        """The answers to `ask_later` that have arrived; once the store cannot be used, an answer for every open one."""
        if self._lookups.is_silent(self.patience.piece):
            self._go_on_without(f"no answer for {self.patience.piece:g} s")
        arrived = [self._answered.popleft() for _ in range(len(self._answered))]
        if self._shared is None:
            arrived = list(self._later)
        lookups = {print_: self._later.pop(print_) for print_ in arrived}
        results = {print_: self._answer(call, f"the result of {step}") for print_, (step, call) in lookups.items()}
        self._known.update({print_: None for print_, result in results.items() if result is None})
        return results

    def offer(self, result: SharedResult) -> None:
        """Upload a result in the background."""
        self._offered += 1
        shared = self._shared
        if shared is None or not self._uploading:
            return
        number = self._offered

        def give(alive: Alive) -> SharedResult | None:
            return shared.offer(_measured(result, self.store), alive)

        self._offers[number] = result, self._uploads.start(give, lambda: self._offers_done.append(number))
        self._handle_offers()

    def close(self) -> None:
        """Wait for open uploads as long as they make progress."""
        try:
            offered = [call for _, call in self._offers.values()]
            if not self._uploads.wait(offered, min(QUIETLY, self.patience.piece)):
                left = count(sum(not call.done for call in offered), "result")
                self.note(f"uploading {left} to the shared store {self.address} …")
            progress = self._uploads.wait(offered, self.patience.piece)
            self._handle_offers()
            if not progress:
                self._stop_uploading(f"no answer for {self.patience.piece:g} s")
        except KeyboardInterrupt:
            self._handle_offers()
            self._stop_uploading("interrupted")
        finally:
            self._lookups.close()
            self._uploads.close()
            self.counts.gave = 0 if self._opened is None else len(self._opened.given)
            self.counts.not_given = self._offered - self._accepted

    def _handle_offers(self) -> None:
        """Handle uploads that are done: note results that differ, and stop after an error."""
        failed: list[Exception] = []
        done = [self._offers_done.popleft() for _ in range(len(self._offers_done))]
        for result, call in [self._offers.pop(number) for number in done if number in self._offers]:
            try:
                existing = call.answer()
            except (StorageError, OSError, WhyrunError) as problem:
                failed.append(problem)
                continue
            self._accepted += 1
            if existing is not None:
                self.note(_not_deterministic(result, existing))
        self._note_creation()
        if failed:
            kept = "may be read, but not written" if isinstance(failed[0], ReadOnlyStorage) else "cannot be written"
            self._stop_uploading(f"it {kept}: {failed[0]}")

    def _note_creation(self) -> None:
        """Once in the life of a store: the user may have meant another one, or its disk may not be mounted."""
        beginning = None if self._opened is None else self._opened.storage.beginning
        if beginning is None or self._noted_creation:
            return
        self._noted_creation = True
        made = "created the shared store" if beginning == "made" else "these are the first results in the shared store"
        self.note(f"{made} {self.address}")

    def _stop_uploading(self, why: str) -> None:
        """The number of results that were not uploaded is known at the end: see `SharingCounts`."""
        if self._uploading:
            self.note(f"results are not uploaded to the shared store {self.address} ({why})")
        self._uploading = False
        self._offers.clear()
        self._uploads.close()

    def _go_on_without(self, why: str) -> None:
        if self._uploading or self._shared is not None:
            self.note(f"the shared store {self.address} cannot be used ({why}); continuing without it")
        self._shared, self._uploading = None, False
        self._lookups.close()


def _measured(result: SharedResult, store: Store) -> SharedResult:
    """The result with the sizes of its blobs."""
    outputs = [
        output
        if output.value is not msgspec.UNSET
        else msgspec.structs.replace(output, stored=os.stat(store.open_path(output.sha256)).st_size)
        for output in result.outputs
    ]
    return msgspec.structs.replace(result, outputs=tuple(outputs))


def _not_deterministic(result: SharedResult, existing: SharedResult) -> str:
    differing = sorted(key for key, sha in result.content.items() if existing.content.get(key) != sha)
    return (
        f"{result.origin.step} gave different bytes ({', '.join(differing)}) than the shared store has from "
        f"{printable(existing.origin.by) or 'somebody'}; is it really deterministic? The shared one stays"
    )
