"""Checks whether the connections of steps fit their composition mode. Pure.

The steps are those of a dataset plan, or the job instances of a workflow file. `auxiliary_data` may be bound anywhere
and does not belong to the shape, so `datasets` and `sources` do not contain it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from whyrun.workflow.advice import Advice, bind_primary, give_primary_role
from whyrun.workflow.model import CONDITIONAL, MERGE, PARALLEL, SEQUENTIAL, Place

Branch = tuple[tuple[str, bool], ...]  # (condition, answer) that a step depends on, outermost first


class Join(NamedTuple):
    """One `first`."""

    steps: frozenset[str]  # the steps that make its candidates
    certain: bool  # whether a dataset is among them, which always exists


@dataclass(frozen=True, slots=True)
class ShapeStep:
    id: str
    place: Place
    datasets: frozenset[str]  # the datasets that it reads
    sources: frozenset[str]  # the steps that make the products it reads
    alone: frozenset[str]  # the sources that it also reads outside of a `first`
    joins: tuple[Join, ...]
    waits: frozenset[str]  # steps that it comes after, for any reason
    merges: bool
    conditional: bool
    branch: Branch | None = ()  # None: not known (a workflow file has no lists of branches)
    primary: frozenset[str] = frozenset()  # the datasets among them that are bound as the primary one
    auxiliary: frozenset[str] = frozenset()  # datasets that it reads as auxiliary data, beside the shape
    auxiliary_by_role: frozenset[str] = frozenset()  # those among them that have this role, whatever their binding


class ShapeProblem(NamedTuple):
    """One problem with the shape, for `COMPOSITION_MODE_SHAPE`."""

    place: Place
    message: str
    hint: str | Advice


def shape_problems(mode: str, steps: Sequence[ShapeStep], first: Place) -> Iterator[ShapeProblem]:
    """The problems with the shape. `first` is the place to report something that is missing."""
    problems = list(_CHECKS[mode](steps, first))
    # The hint suggests another mode only if the steps fit it.
    fitting = next((other for other, check in _CHECKS.items() if problems and not any(check(steps, first))), None)
    for problem in problems:
        if fitting and isinstance(problem.hint, str):
            problem = problem._replace(hint=f"use `{fitting}`, which fits as it is; or {problem.hint}")
        yield problem


# --- parts of several modes --------------------------------------------------------------------------------------


def _no_conditions(mode: str, steps: Sequence[ShapeStep]) -> Iterator[ShapeProblem]:
    for step in steps:
        if step.conditional:
            message = f"`{step.id}` depends on a condition, and `{mode}` has none"
            yield ShapeProblem(step.place, message, "remove the condition")
        elif step.joins:
            message = f"`{step.id}` takes the first of several products, and in `{mode}` there are no branches to join"
            yield ShapeProblem(step.place, message, "bind one of them")


def _chain(steps: Sequence[ShapeStep], every: Sequence[ShapeStep]) -> Iterator[ShapeProblem]:
    """The steps of a chain have different depths, because its longest path contains all of them."""
    depths = _depths({step.id for step in steps}, every)
    at: dict[int, ShapeStep] = {}
    for step in steps:
        other = at.setdefault(depths[step.id], step)
        if other is not step:
            message = f"`{other.id}` and `{step.id}` run side by side, and a chain has one step after the other"
            yield ShapeProblem(step.place, message, f"let `{step.id}` wait for `{other.id}`")


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


def _names(ids: Collection[str]) -> str:
    return ", ".join(f"`{id_}`" for id_ in sorted(ids))


# --- the modes ---------------------------------------------------------------------------------------------------


def _sequential(steps: Sequence[ShapeStep], first: Place) -> Iterator[ShapeProblem]:
    yield from _no_conditions(SEQUENTIAL, steps)
    for step in steps:
        if step.merges:
            message = f"`{step.id}` merges, and `{SEQUENTIAL}` has no merge"
            yield ShapeProblem(step.place, message, "remove the merge")
    start: str | None = None
    for step in steps:
        if start is None and step.datasets:
            start = min(step.primary or step.datasets)  # a hint must never make the primary dataset an auxiliary one
        others = sorted(step.datasets - {start})
        if others:
            message = f"`{step.id}` reads {_names(others)}, and `{SEQUENTIAL}` starts from one dataset, here `{start}`"
            yield ShapeProblem(step.place, message, f"bind {_names(others)} as `auxiliary_data`")
    if start is None:
        beside = sorted({name for step in steps for name in step.auxiliary})
        message = "no step reads a dataset"
        if beside:
            message += f" but as `auxiliary_data` ({_names(beside)}), and `{SEQUENTIAL}` starts from a primary one"
        by_role = beside and any(beside[0] in step.auxiliary_by_role for step in steps)
        hint = give_primary_role(beside[0]) if by_role else bind_primary(beside[0] if beside else None)
        yield ShapeProblem(first, message, hint)
    yield from _chain(steps, steps)


def _merge_then_sequential(steps: Sequence[ShapeStep], first: Place) -> Iterator[ShapeProblem]:
    yield from _no_conditions(MERGE, steps)
    merging = [step for step in steps if step.merges]
    others = [step for step in steps if not step.merges]
    if not merging:
        yield ShapeProblem(first, f"no step merges or appends, and `{MERGE}` starts with one", "add a step that does")
        return
    names = {step.id for step in merging}
    feeding: set[str] = set()  # reported with the merge that they feed, and only there
    for step in merging:
        feeding |= step.sources - names
        if step.sources - names:
            message = f"`{step.id}` merges what {_names(step.sources - names)} made, and merges come first"
            yield ShapeProblem(step.place, message, "merge datasets, or products of other merges")
    read = {source for step in merging for source in step.sources}
    ends = [step for step in merging if step.id not in read]
    for step in ends[1:]:
        message = f"the merges end in more than one dataset: `{ends[0].id}` and `{step.id}` are not merged"
        yield ShapeProblem(step.place, message, "merge the product of one with that of the other")
    for step in others:
        if step.id in feeding:
            continue
        if step.datasets:
            message = f"`{step.id}` reads {_names(step.datasets)} itself, and not the merged dataset"
            yield ShapeProblem(step.place, message, "bind the product of the merge, or bind it as `auxiliary_data`")
        inner = step.sources & read & names
        if inner:
            message = f"`{step.id}` reads what {_names(inner)} made, which is merged further"
            yield ShapeProblem(step.place, message, f"bind the product of {_names({end.id for end in ends})}")
    yield from _chain(others, steps)


def _parallel(steps: Sequence[ShapeStep], first: Place) -> Iterator[ShapeProblem]:
    yield from _no_conditions(PARALLEL, steps)
    read = {source for step in steps for source in step.sources}
    ends = [step for step in steps if step.id not in read]
    if len(ends) != 1:
        where = ends[0].place if ends else first
        names = [f"`{end.id}`" for end in ends]
        several = f"{', '.join(names[:-1])} and {names[-1]} are final steps" if ends else "there is no final step"
        message = f"{several}, and `{PARALLEL}` ends in one step that takes a product of each branch"
        yield ShapeProblem(where, message, "add a step that binds a product of each branch, as a list")
        return
    aggregate = ends[0]
    branches, shared = _branches(aggregate, steps)
    if shared or branches < 2:
        what = f"its branches share a product of {_names(shared)}" if shared else "there is only one branch before it"
        message = f"`{aggregate.id}` does not take the products of two or more branches: {what}"
        yield ShapeProblem(
            aggregate.place, message, "let branches start from datasets, and have nothing else in common"
        )


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


def _conditional(steps: Sequence[ShapeStep], first: Place) -> Iterator[ShapeProblem]:
    if not any(step.conditional for step in steps):
        hint = "add a condition with a predicate and branches"
        yield ShapeProblem(first, f"no step depends on a condition, and `{CONDITIONAL}` needs one", hint)
    branches = {step.id: step.branch for step in steps}
    for step in steps:
        for source in sorted(step.alone):
            theirs, own = branches.get(source, ()), step.branch
            if theirs is None or own is None or own[: len(theirs)] == theirs:
                continue
            condition, answer = next((c, a) for i, (c, a) in enumerate(theirs) if own[i : i + 1] != ((c, a),))
            if (condition, not answer) in own:
                message = f"`{step.id}` takes a product of `{source}`, which is in the other branch of `{condition}`"
                hint = "only one of the two ever runs: take it from a step before the condition"
            else:
                side = "true_steps" if answer else "false_steps"
                message = f"`{step.id}` takes a product of `{source}`, which runs only on one branch of `{condition}`"
                hint = f'join the branches with `{{"first": […]}}`, or list `{step.id}` in `{side}`'
            yield ShapeProblem(step.place, message, hint)
        # The same problem of two joins is reported once.
        yield from dict.fromkeys(problem for join in step.joins for problem in _half_joined(step, join, branches))


def _half_joined(step: ShapeStep, join: Join, branches: Mapping[str, Branch | None]) -> Iterator[ShapeProblem]:
    """Reports a `first` whose candidates are all in one branch of a condition: if the other runs, there is none."""
    own = step.branch
    sides: set[tuple[str, bool] | None] = {None} if join.certain else set()
    for candidate in join.steps:
        theirs = branches.get(candidate, ())
        if theirs is None or own is None:
            return
        sides.add(next((side for i, side in enumerate(theirs) if own[i : i + 1] != (side,)), None))
    if len(sides) == 1 and None not in sides:
        ((condition, answer),) = (side for side in sides if side is not None)
        where, other = ("true_steps", "false_steps") if answer else ("false_steps", "true_steps")
        message = f"`{step.id}` takes the first of products that all come from one branch of `{condition}`"
        yield ShapeProblem(step.place, message, f"add one of `{other}`, or list `{step.id}` in `{where}`")


_CHECKS: Mapping[str, Callable[[Sequence[ShapeStep], Place], Iterator[ShapeProblem]]] = {
    SEQUENTIAL: _sequential,
    MERGE: _merge_then_sequential,
    PARALLEL: _parallel,
    CONDITIONAL: _conditional,
}
