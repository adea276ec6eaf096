"""Random stories in which runs are pruned and the store is cleared between runs: no plan shows that they are gone.

After every prune, for several ways of planning: the plan is the same to the byte, with the derived index and without.
What stays is sound (`verify`), and the story goes on as if nothing had happened (see lab_world for what is checked).
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest
from lab_backend import Faults
from lab_generate import Dice, RandomDice, chance, mutate, new_faults, new_options, pick
from lab_story import Unusable, new_lab
from lab_world import Lab

from whyrun.evidence.gc import collect, collectable
from whyrun.evidence.prune import Selection, prunable, prune
from whyrun.evidence.verify import verify
from whyrun.log.journal import utc_now
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history import History

SOAK = bool(os.environ.get("WHYRUN_SOAK"))
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


def plans(lab: Lab, options: list[PlanOptions]) -> list[bytes]:
    return [compute_execution_plan(lab.world().snapshot(), one).to_bytes() for one in options]


def indexed_plan(lab: Lab, options: PlanOptions) -> bytes:
    """With an index of whatever has ended, which as short a log would not get."""
    world = lab.world()
    history = History(world.state, world.store.read, worth_indexing=1)
    return compute_execution_plan(world.snapshot(history), options).to_bytes()


def selected(dice: Dice, lab: Lab) -> Selection:
    runs = lab.world().state.runs()
    if chance(dice, 2):
        return Selection(keep=dice.number(1, 3))
    return Selection(names=tuple(run.name for run in runs if chance(dice, 2)) or (runs[0].name,))


def prune_some(dice: Dice, lab: Lab, record: list[str]) -> int:
    """Prune what may go; how many did."""
    state = lab.world().state
    if not state.runs():
        return 0
    if chance(dice, 2):
        indexed_plan(lab, PlanOptions())  # so that an index of the time before is there
    options = [PlanOptions(), new_options(dice, lab.flow), PlanOptions(force=("layer:0",))]
    before = plans(lab, options)
    wrong = damage(lab)
    asked = selected(dice, lab)
    kept_before = [run.name for run in state.runs()]
    foreseen = prunable(lab.world(), asked, utc_now)
    assert [run.name for run in state.runs()] == kept_before, "a look changes nothing"
    done = prune(lab.world(), asked, utc_now)
    record.append(f"prune {asked}: {[run.run for run in done.pruned]}, kept {done.kept}")
    assert (done.pruned, done.kept) == (foreseen.pruned, foreseen.kept)
    gone = {run.run for run in done.pruned}
    assert [run.name for run in state.runs()] == [name for name in kept_before if name not in gone]
    assert gone <= {stone.run for stone in state.tombstones()}
    assert plans(lab, options) == before
    if chance(dice, 2):
        for _ in range(2):
            assert indexed_plan(lab, options[0]) == before[0]
        shutil.rmtree(state.index_dir, ignore_errors=True)
        assert indexed_plan(lab, options[0]) == before[0]
    if chance(dice, 2):
        collect(state.state_dir, utc_now)
        assert collectable(state.state_dir).removed.count == 0
        assert plans(lab, options) == before
    assert damage(lab) <= wrong, "nothing is missing that was there"
    return len(gone)


def damage(lab: Lab) -> set[str | None]:
    """What is wrong with the evidence: stories delete blobs, too."""
    return {problem.stored or problem.what for problem in verify(lab.world().state, lab.project, _not_asked).problems}


def _not_asked(run: str) -> None:
    raise AssertionError("no plan is to be computed again")


def tell(dice: Dice, project: Path, record: list[str], steps: int) -> int:
    try:
        lab = new_lab(dice, project)
    except Unusable:
        return 0
    pruned = 0
    for _ in range(dice.number(2, steps)):
        for _ in range(dice.number(0, 2)):
            record.append(mutate(dice, lab))
        # Layer 0 anew, and so all that follows from it: else some old run would hold something for ever.
        options = pick(dice, [PlanOptions(), PlanOptions(force=("layer:0",)), new_options(dice, lab.flow)])
        faults = new_faults(dice, lab.flow) if chance(dice, 3) else Faults()
        record.append(f"run: {options} {faults}")
        lab.run(options, faults)
        if chance(dice, 2):
            record.append(mutate(dice, lab))
            pruned += prune_some(dice, lab, record)
    lab.run()
    pruned += prune_some(dice, lab, record)
    lab.check_truth()
    lab.check_caches()
    return pruned


@pytest.mark.parametrize("part", range(4))
def test_no_plan_shows_that_runs_were_pruned(part: int) -> None:
    first = random.SystemRandom().randrange(10**9) if SOAK else part * 1000
    pruned = 0
    for number in range(first, first + (500 if SOAK else 6)):
        record: list[str] = [f"seed {number}"]
        with tempfile.TemporaryDirectory(prefix="lab-", dir=MEMORY) as folder:
            try:
                pruned += tell(RandomDice(number), Path(folder), record, steps=6)
            except BaseException as failed:
                failed.add_note("\n".join(record))
                raise
    assert pruned > 2, "stories in which nothing is ever pruned prove nothing"
