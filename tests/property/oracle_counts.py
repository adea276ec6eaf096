"""What was tried, counted while stories are told: a soak says with numbers what it has seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from oracle_judge import Judge, Try

from whyrun.planning.plan import Plan


@dataclass
class Counts:
    """A false skip, or a step executed though an earlier run has the very same, fails its story at once. What is
    left to count is what was executed for a reason and, as one can see only afterwards, changed nothing."""

    plans: int = 0
    verdicts: int = 0  # instances whose state and every reason were compared with the judge's
    runs: int = 0
    truths: int = 0  # times that everything was compared with running it all from nothing
    executed: int = 0
    reused: int = 0
    pruned: int = 0  # runs
    rebuilt: int = 0  # artifacts compared with those of a clean rebuild
    in_vain: Counter[str] = field(default_factory=Counter)  # reasons → executions that made what was there

    def add(self, other: Counts) -> None:
        for name in ("plans", "verdicts", "runs", "truths", "executed", "reused", "pruned", "rebuilt"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.in_vain.update(other.in_vain)

    def count_run(self, run: str, plan: Plan, before: Judge, after: Iterable[Try], lost: set[Any]) -> None:
        """`lost`: outputs whose bytes were nowhere to be had when the run began."""
        self.runs += 1
        reasons = {job.id: " + ".join(dict.fromkeys(r.code for r in job.reasons)) for job in plan.planned}
        for one in after:
            if one.run != run:
                continue
            self.executed += one.kind == "executed"
            self.reused += one.kind == "reused"
            if one.kind == "executed" and one.ok and _the_same(one, before.latest(one.step), lost):
                self.in_vain[reasons[one.step]] += 1


def _the_same(one: Try, earlier: Try | None, lost: set[Any]) -> bool:
    if earlier is None or not earlier.ok or one.outputs.keys() != earlier.outputs.keys():
        return False
    return all(
        event["sha256"] == earlier.outputs[id_]["sha256"] and (earlier.run, earlier.seq, id_) not in lost
        for id_, event in one.outputs.items()
    )
