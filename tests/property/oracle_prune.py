"""One story in which runs are pruned and the store is cleared between runs. No plan may change by that.

After every prune, for several ways of planning: the plan is the same to the byte, with the derived index and without.
What stays is sound (`verify`), and the story goes on as before (oracle_project says what is checked).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from oracle_backend import Faults
from oracle_counts import Counts
from oracle_generate import Dice, chance, mutate, new_faults, new_options, pick
from oracle_project import Lab
from oracle_story import Unusable, new_lab, run_all

from whyrun.evidence.retention.gc import collect, collectable
from whyrun.evidence.retention.prune import Selection, prunable, prune
from whyrun.evidence.verify.verify import verify
from whyrun.log.journal import utc_now
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.reader import History


def everything_first(lab: Lab) -> PlanOptions:
    """The first layer by force; without any instance there is none."""
    return PlanOptions(force=("layer:0",) if lab.opened().graph.size else ())


def plans(lab: Lab, options: list[PlanOptions]) -> list[bytes]:
    return [compute_execution_plan(lab.opened().snapshot(), one).to_bytes() for one in options]


def indexed_plan(lab: Lab, options: PlanOptions) -> bytes:
    """With an index of whatever has ended, which as short a log would not get."""
    opened = lab.opened()
    history = History(opened.state, opened.store.read, worth_indexing=1)
    return compute_execution_plan(opened.snapshot(history), options).to_bytes()


def selected(dice: Dice, lab: Lab) -> Selection:
    runs = lab.opened().state.runs()
    if chance(dice, 2):
        return Selection(keep=dice.number(1, 3))
    return Selection(names=tuple(run.name for run in runs if chance(dice, 2)) or (runs[0].name,))


def prune_some(dice: Dice, lab: Lab, record: list[str]) -> None:
    """Prune what may go, and clear the store perhaps."""
    state = lab.opened().state
    if not state.runs():
        return
    if chance(dice, 2):
        indexed_plan(lab, PlanOptions())  # so that an index of the time before is there
    options = [PlanOptions(), new_options(dice, lab.flow), everything_first(lab)]
    before = plans(lab, options)
    wrong = damage(lab)
    asked = selected(dice, lab)
    kept_before = [run.name for run in state.runs()]
    foreseen = prunable(lab.opened(), asked, utc_now)
    assert [run.name for run in state.runs()] == kept_before, "a look changes nothing"
    done = prune(lab.opened(), asked, utc_now)
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
    lab.counts.pruned += len(gone)


def damage(lab: Lab) -> set[str | None]:
    """What is wrong with the evidence: stories delete blobs, too."""
    return {problem.stored or problem.what for problem in verify(lab.opened().state, lab.project, _not_asked).problems}


def _not_asked(run: str) -> None:
    raise AssertionError("no plan is to be computed again")


def tell_pruning(dice: Dice, project: Path, record: list[str], steps: int = 6) -> Counts:
    try:
        lab = new_lab(dice, project)
    except Unusable:
        return Counts()
    for _ in range(dice.number(2, steps)):
        for _ in range(dice.number(0, 2)):
            record.append(mutate(dice, lab))
        # Layer 0 anew, and so all that follows from it: else some old run would hold something for ever.
        options = pick(dice, [PlanOptions(), everything_first(lab), new_options(dice, lab.flow)])
        faults = new_faults(dice, lab.flow) if chance(dice, 3) else Faults()
        record.append(f"run: {options} {faults}")
        lab.run(options, faults)
        if chance(dice, 2):
            record.append(mutate(dice, lab))
            prune_some(dice, lab, record)
    run_all(lab, record)
    prune_some(dice, lab, record)
    lab.check_truth()
    lab.check_caches()
    return lab.counts
