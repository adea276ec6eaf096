"""The checks of the first three modes before forks were free, to hold the new ones to what was accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from whyrun.workflow.composition.shapes import ShapeStep
from whyrun.workflow.model import MERGE, PARALLEL, SEQUENTIAL


def _depths(counted: Collection[str], steps: Sequence[ShapeStep]) -> Mapping[str, int]:
    """For each step, how many of the counted steps are on the longest path to it."""
    direct = {step.id: sorted(step.waits | step.sources) for step in steps}
    depths: dict[str, int] = {}
    waiting = list(direct)
    while waiting:
        id_ = waiting[-1]
        missing = [other for other in direct[id_] if other not in depths and other in direct]
        if missing and id_ not in depths:
            waiting.extend(missing)
            continue
        waiting.pop()
        before = [depths[other] + (other in counted) for other in direct[id_] if other in depths]
        depths.setdefault(id_, max(before, default=0))
    return depths


def _chain(steps: Sequence[ShapeStep], every: Sequence[ShapeStep]) -> bool:
    depths = _depths({step.id for step in steps}, every)
    return len({depths[step.id] for step in steps}) == len(steps)


def _sequential(steps: Sequence[ShapeStep]) -> bool:
    datasets = {name for step in steps for name in step.datasets}
    return len(datasets) == 1 and not any(step.merges for step in steps) and _chain(steps, steps)


def _merge_then_sequential(steps: Sequence[ShapeStep]) -> bool:
    merging = [step for step in steps if step.merges]
    others = [step for step in steps if not step.merges]
    names = {step.id for step in merging}
    read = {source for step in merging for source in step.sources}
    if len([step for step in merging if step.id not in read]) != 1 or any(step.sources - names for step in merging):
        return False
    return not any(step.datasets or step.sources & read & names for step in others) and _chain(others, steps)


def _parallel(steps: Sequence[ShapeStep]) -> bool:
    read = {source for step in steps for source in step.sources}
    ends = [step for step in steps if step.id not in read]
    if len(ends) != 1:
        return False
    branches, shared = _branches(ends[0], steps)
    return branches >= 2 and not shared


def _branches(aggregate: ShapeStep, steps: Sequence[ShapeStep]) -> tuple[int, list[str]]:
    """The number of branches that end in this step, and the steps whose products several branches read."""
    sources = {step.id: step.sources for step in steps}

    def branch(end: str) -> set[str]:
        steps = {end}
        waiting = [end]
        while waiting:
            more = sources.get(waiting.pop(), frozenset()) - steps
            steps |= more
            waiting += more
        return steps

    ways = {end: branch(end) for end in aggregate.sources}
    # A step and its successor belong to one branch.
    ends = [end for end in ways if not any(end in way for other, way in ways.items() if other != end)]
    count = Counter(id_ for end in ends for id_ in ways[end])
    common = {id_ for id_, number in count.items() if number > 1}
    read_apart = {source for step in steps if step.id not in common for source in step.sources}
    return len(ends), sorted(common & read_apart)


ACCEPTED = {SEQUENTIAL: _sequential, MERGE: _merge_then_sequential, PARALLEL: _parallel}
