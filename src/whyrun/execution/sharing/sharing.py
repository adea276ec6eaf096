"""What a command has to do with the store that a project shares: ask it, take from it, give to it.

Nothing that goes wrong there ends a run, holds it up for long, or makes it skip what it should not: the user is told
once, and the work goes on without it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from whyrun.artifacts.shared_result import Refused, SharedResult
from whyrun.artifacts.shared_store import SharedStore
from whyrun.artifacts.shelf import ReadOnlyShelf, ShelfError, open_shelf
from whyrun.artifacts.store import Store
from whyrun.console.lines import count
from whyrun.errors import WhyrunError
from whyrun.execution.errands import Alive, Errand, Errands
from whyrun.execution.run_sharing import RunSharing, Traffic
from whyrun.planning.explain import printable
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.planning.shared import find_shared_results
from whyrun.snapshot.snapshot import PlanningSnapshot

ASKING = 8  # questions at a time
GIVING = 2  # results at a time
MANY = 100  # questions, of which it is told that they are asked
QUIETLY = 1.0  # seconds without a word, before the user is told what is waited for
Tell = Callable[[str], None]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds without a word after which the shared store is left alone."""

    answer: float = 10.0
    piece: float = 30.0


class Sharing:
    """One command's dealings with the shared store. Where there is none, there is no such object."""

    def __init__(self, address: str, project: Path, store: Store, tell: Tell, patience: Patience | None = None) -> None:
        self.address, self.store, self.tell = address, store, tell
        self.patience = patience or Patience()
        self._asking, self._giving = Errands(ASKING, "whyrun-asks"), Errands(GIVING, "whyrun-gives")
        self._offers: dict[int, tuple[SharedResult, Errand[SharedResult | None]]] = {}  # by number, not yet settled
        self._over: deque[int] = deque()  # those of them that are over, however that was
        self._known: dict[str, SharedResult | None] = {}  # what was said of the fingerprints that were asked for
        self._later: dict[str, tuple[str, Errand[SharedResult | None]]] = {}  # with the step that it is for
        self._come: deque[str] = deque()  # those of them that are answered
        self.traffic = Traffic()
        self._to_give = self._settled = 0  # results that others may have; those that they have now
        self._gives, self._told_of_beginning = True, False
        self._shared: SharedStore | None = None
        self._opened: SharedStore | None = None  # the same, also when it is left alone
        try:
            self._opened = self._shared = SharedStore(open_shelf(address, project), store)
        except ShelfError as problem:
            self._leave_alone(str(problem))

    # -- while planning --

    def plan(self, snapshot: PlanningSnapshot, options: PlanOptions) -> Plan:
        """The plan, with what others have of its results. Looks at what they say, and at none of their bytes."""
        find_shared_results(snapshot, self.ask)
        return compute_execution_plan(snapshot, options)

    def plan_to_run(self, snapshot: PlanningSnapshot, options: PlanOptions) -> Plan:
        """The same for a run: all that it takes from others is on this machine, and checked, before the plan holds."""
        plan = self.plan(snapshot, options)
        while wanted := [job for job in plan.planned if job.reuse is not None and job.reuse.shared is not None]:
            results = {job.id: job.reuse.shared for job in wanted if job.reuse is not None and job.reuse.shared}
            refused = self.fetch(results)
            if not refused:
                break
            snapshot.shared = {print_: found for print_, found in snapshot.shared.items() if print_ not in refused}
            plan = compute_execution_plan(snapshot, options)
        return plan

    def ask(self, fingerprints: Mapping[str, str]) -> dict[str, SharedResult]:
        """What there is for these, each with a step that has it."""
        shared = self._shared
        if shared is None:
            return {}

        def question(fingerprint: str) -> Callable[[Alive], SharedResult | None]:
            return lambda _: shared.find(fingerprint)

        errands = {fingerprint: self._asking.send(question(fingerprint)) for fingerprint in fingerprints}
        sent = list(errands.values())
        if not self._asking.wait(sent, self.patience.answer, QUIETLY) and len(sent) >= MANY:
            self.tell(f"asking the shared store {self.address} for {len(sent)} results …")
        if not self._asking.wait(sent, self.patience.answer):
            self._leave_alone(f"no answer for {self.patience.answer:g} s")
        found: dict[str, SharedResult] = {}
        for fingerprint, errand in errands.items():
            result = self._answer(errand, f"the result of {fingerprints[fingerprint]}")
            self._known[fingerprint] = result
            if result is not None:
                found[fingerprint] = result
        return found

    def fetch(self, results: Mapping[str, SharedResult]) -> set[str]:
        """Their bytes into the store of this machine. The fingerprints of those that could not be had."""
        shared = self._shared
        fingerprints = {result.fingerprint for result in results.values()}
        if shared is None:
            return fingerprints

        def errand_for(result: SharedResult) -> Callable[[Alive], bool]:
            def fetched(alive: Alive) -> bool:
                shared.fetch(result, alive)
                return True

            return fetched

        once = {result.fingerprint: (step, result) for step, result in results.items()}
        errands = {print_: self._asking.send(errand_for(result)) for print_, (_, result) in once.items()}
        if not self._asking.wait(list(errands.values()), self.patience.piece):
            self._leave_alone(f"no word for {self.patience.piece:g} s")
        refused = {
            print_ for print_, errand in errands.items() if not self._answer(errand, f"the result of {once[print_][0]}")
        }
        self._known.update(dict.fromkeys(refused))
        return refused

    def _answer(self, errand: Errand[Answer], what: str) -> Answer | None:
        if not errand.done:
            return None
        try:
            return errand.answer()
        except Refused as wrong:
            self.tell(f"the shared store has {what}, but it is refused: {wrong}; the step runs")
        except ShelfError as problem:
            self._leave_alone(str(problem))
        except (OSError, WhyrunError) as problem:  # of the disk here
            self._leave_alone(f"{type(problem).__name__}: {problem}")
        return None

    # -- while running --

    def of_run(self, snapshot: PlanningSnapshot, run: str) -> RunSharing:
        return RunSharing(self, snapshot, run)

    def ask_later(self, fingerprint: str, step: str) -> bool:
        """Ask for a result, and fetch it, beside the work; False where there is nothing to be had."""
        shared = self._shared
        if shared is None or (fingerprint in self._known and self._known[fingerprint] is None):
            return False
        known = self._known.get(fingerprint)  # one that the plan had no use for, or that is known only now

        def question(alive: Alive) -> SharedResult | None:
            result = known or shared.find(fingerprint)
            if result is not None:
                shared.fetch(result, alive)
            return result

        if fingerprint not in self._later:
            self._later[fingerprint] = step, self._asking.send(question, lambda: self._come.append(fingerprint))
        return True

    def answers(self) -> dict[str, SharedResult | None]:
        """What has come by now of what was asked for later; all of it, once nothing more is to be expected."""
        if self._asking.is_silent(self.patience.piece):
            self._leave_alone(f"no word for {self.patience.piece:g} s")
        come = [self._come.popleft() for _ in range(len(self._come))]
        if self._shared is None:
            come = list(self._later)
        over = {print_: self._later.pop(print_) for print_ in come}
        found = {print_: self._answer(errand, f"the result of {step}") for print_, (step, errand) in over.items()}
        self._known.update({print_: None for print_, result in found.items() if result is None})
        return found

    def offer(self, result: SharedResult) -> None:
        """Give a result to the others, beside the work."""
        self._to_give += 1
        shared = self._shared
        if shared is None or not self._gives:
            return
        number = self._to_give

        def give(alive: Alive) -> SharedResult | None:
            return shared.offer(_measured(result, self.store), alive)

        self._offers[number] = result, self._giving.send(give, lambda: self._over.append(number))
        self._tell_of_offers()

    def close(self) -> None:
        """Wait for what is still on its way, as long as it moves."""
        try:
            offered = [errand for _, errand in self._offers.values()]
            if not self._giving.wait(offered, min(QUIETLY, self.patience.piece)):
                left = count(sum(not errand.done for errand in offered), "result")
                self.tell(f"giving {left} to the shared store {self.address} …")
            moves = self._giving.wait(offered, self.patience.piece)
            self._tell_of_offers()
            if not moves:
                self._stop_giving(f"no word for {self.patience.piece:g} s")
        except KeyboardInterrupt:
            self._tell_of_offers()
            self._stop_giving("interrupted")
        finally:
            self._asking.close()
            self._giving.close()
            self.traffic.gave = 0 if self._opened is None else len(self._opened.given)
            self.traffic.not_given = self._to_give - self._settled

    def _tell_of_offers(self) -> None:
        failed: list[Exception] = []
        over = [self._over.popleft() for _ in range(len(self._over))]
        for result, errand in [self._offers.pop(number) for number in over if number in self._offers]:
            try:
                standing = errand.answer()
            except (ShelfError, OSError, WhyrunError) as problem:
                failed.append(problem)
                continue
            self._settled += 1
            if standing is not None:
                self.tell(_not_deterministic(result, standing))
        self._tell_of_beginning()
        if failed:
            kept = "may be read, but not written" if isinstance(failed[0], ReadOnlyShelf) else "takes nothing"
            self._stop_giving(f"it {kept}: {failed[0]}")

    def _tell_of_beginning(self) -> None:
        """Once in the life of a store: it may be that another was meant, or that its disk is not mounted."""
        beginning = None if self._opened is None else self._opened.shelf.beginning
        if beginning is None or self._told_of_beginning:
            return
        self._told_of_beginning = True
        made = "made the shared store" if beginning == "made" else "these are the first results in the shared store"
        self.tell(f"{made} {self.address}")

    def _stop_giving(self, why: str) -> None:
        """How many were not given is known at the end: see `Traffic`."""
        if self._gives:
            self.tell(f"results are not given to the shared store {self.address} ({why})")
        self._gives = False
        self._offers.clear()
        self._giving.close()

    def _leave_alone(self, why: str) -> None:
        if self._gives or self._shared is not None:
            self.tell(f"the shared store {self.address} cannot be used ({why}); going on without it")
        self._shared, self._gives = None, False
        self._asking.close()


def _measured(result: SharedResult, store: Store) -> SharedResult:
    """With the sizes of the stored bytes."""
    outputs = [
        output
        if output.value is not msgspec.UNSET
        else msgspec.structs.replace(output, stored=os.stat(store.open_path(output.sha256)).st_size)
        for output in result.outputs
    ]
    return msgspec.structs.replace(result, outputs=tuple(outputs))


def _not_deterministic(result: SharedResult, standing: SharedResult) -> str:
    differing = sorted(key for key, sha in result.content.items() if standing.content.get(key) != sha)
    return (
        f"{result.origin.step} made other bytes ({', '.join(differing)}) than the shared store has from "
        f"{printable(standing.origin.by) or 'somebody'}; is it really deterministic? The shared one stays"
    )
