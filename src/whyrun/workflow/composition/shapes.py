"""Checks whether the connections of steps fit their composition mode. Pure.

The steps are those of a dataset plan, or the job instances of a workflow file. Forks are free; a mode says where lines
meet. `auxiliary_data` may be bound anywhere and does not belong to the shape, so `datasets` and `sources` do not
contain it. An exhibit, a figure or report that no step reads, may read any products and end anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import NamedTuple

from whyrun.workflow.advice import Advice, bind_primary, give_primary_role
from whyrun.workflow.model import CONDITIONAL, MERGE, PARALLEL, SEQUENTIAL, Place

Branch = tuple[tuple[str, bool], ...]  # (condition, answer) that a step depends on, outermost first
_MOST_CONDITIONS = 8  # of which every outcome is checked


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
    shows: bool = False  # it makes only figures or reports


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


class _Lines:
    """What comes from what."""

    def __init__(self, steps: Sequence[ShapeStep]) -> None:
        self.steps = {step.id: step for step in steps}
        read = {source for step in steps for source in step.sources}
        exhibits = {s.id for s in steps if s.shows and s.sources and not s.datasets and s.id not in read}
        self.core = [step for step in steps if step.id not in exhibits]
        self.by_data = _before({step.id: step.sources for step in steps})
        self.by_order = _before({step.id: step.sources | step.waits for step in steps})
        # Lines that start from auxiliary data alone belong to no shape.
        self.beside = {s.id for s in steps if not any(self.steps[id_].datasets for id_ in (s.id, *self._known(s.id)))}

    def _known(self, id_: str) -> list[str]:
        return [other for other in self.by_data[id_] if other in self.steps]

    def apart(self, ids: Collection[str], before: Mapping[str, set[str]]) -> tuple[str, str] | None:
        """The first two of these steps of which none comes from the other."""
        for one, other in combinations(sorted(ids), 2):
            if one not in before.get(other, ()) and other not in before.get(one, ()):
                return one, other
        return None


def _before(direct: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """For each step, all steps that it comes from."""
    before: dict[str, set[str]] = {}
    waiting = list(direct)
    while waiting:
        id_ = waiting[-1]
        missing = [other for other in direct[id_] if other in direct and other not in before]
        if missing and id_ not in before:
            waiting.extend(missing)
            continue
        waiting.pop()
        before.setdefault(id_, set(direct[id_]).union(*(before.get(other, ()) for other in direct[id_])))
    return before


def _no_conditions(mode: str, steps: Sequence[ShapeStep]) -> Iterator[ShapeProblem]:
    for step in steps:
        if step.conditional:
            message = f"`{step.id}` depends on a condition, and `{mode}` has none"
            yield ShapeProblem(step.place, message, "remove the condition")
        elif step.joins:
            message = f"`{step.id}` takes the first of several products, and in `{mode}` there are no branches to join"
            yield ShapeProblem(step.place, message, "bind one of them")


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
        for other in sorted(step.datasets - {start}):
            message = f"`{other}` is a second dataset; `{SEQUENTIAL}` starts from one, `{start}`"
            yield ShapeProblem(step.place, message, f"bind `{other}` as `auxiliary_data`")
    if start is None:
        yield _without_dataset(steps, first)
    lines = _Lines(steps)
    for step in lines.core:
        pair = lines.apart(step.sources - lines.beside, lines.by_order)
        if pair is not None and not step.merges:
            message = (
                f"`{step.id}` puts `{pair[0]}` and `{pair[1]}` together; `{SEQUENTIAL}` has one line, which may fork"
            )
            yield ShapeProblem(step.place, message, f"make `{step.id}` a figure or a report that no step reads")


def _without_dataset(steps: Sequence[ShapeStep], first: Place) -> ShapeProblem:
    beside = sorted({name for step in steps for name in step.auxiliary})
    message = "no step reads a dataset"
    if beside:
        message += f" but as `auxiliary_data` ({_names(beside)}), and `{SEQUENTIAL}` starts from a primary one"
    by_role = beside and any(beside[0] in step.auxiliary_by_role for step in steps)
    hint = give_primary_role(beside[0]) if by_role else bind_primary(beside[0] if beside else None)
    return ShapeProblem(first, message, hint)


def _merge_then_sequential(steps: Sequence[ShapeStep], first: Place) -> Iterator[ShapeProblem]:
    yield from _no_conditions(MERGE, steps)
    lines = _Lines(steps)
    merging = [step for step in steps if step.merges]
    if not merging:
        yield ShapeProblem(first, f"no step merges or appends, and `{MERGE}` needs one", "add a step that does")
        return
    feeding = {id_ for step in merging for id_ in lines.by_data[step.id]}
    ends = [step for step in merging if step.id not in feeding]
    for step in ends[1:]:
        message = f"the merges end in more than one dataset: `{ends[0].id}` and `{step.id}`"
        yield ShapeProblem(step.place, message, "merge the product of one with that of the other")
    if len(ends) > 1:
        return
    last = ends[0]
    for step in lines.core:
        if step is last or step.id in lines.beside:
            continue
        if step.id not in lines.by_data[last.id] and last.id not in lines.by_data[step.id]:
            message = f"`{step.id}` neither feeds the last merge `{last.id}` nor reads what comes of it"
            hint = f"bind the product of `{last.id}`, or let `{last.id}` merge what `{step.id}` makes"
            yield ShapeProblem(step.place, message, hint)
        elif not step.merges:
            yield from _together(step, lines, last)


def _together(step: ShapeStep, lines: _Lines, last: ShapeStep) -> Iterator[ShapeProblem]:
    """Only merges put sources together. A dataset is in line with what comes from it."""
    sources = step.sources - lines.beside
    pair = lines.apart(sources, lines.by_order)
    for name in sorted(step.datasets) if pair is None else ():
        others = sorted(step.datasets - {name})
        apart = [id_ for id_ in sorted(sources) if not _comes_from(id_, name, lines)]
        if others or apart:
            pair = name, (others or apart)[0]
            break
    if pair is not None:
        message = f"`{step.id}` puts `{pair[0]}` and `{pair[1]}` together; this mode does that in merges only"
        hint = f"merge them in `{last.id}`, or bind one of them as `auxiliary_data`"
        yield ShapeProblem(step.place, message, hint)


def _comes_from(step: str, dataset: str, lines: _Lines) -> bool:
    every = {step, *lines.by_order.get(step, ())}
    return any(dataset in lines.steps[id_].datasets for id_ in every if id_ in lines.steps)


def _parallel(steps: Sequence[ShapeStep], first: Place) -> Iterator[ShapeProblem]:
    yield from _no_conditions(PARALLEL, steps)
    lines = _Lines(steps)
    found = [step for step in steps if lines.apart(step.sources, lines.by_data) is not None]
    if not found:
        message = f"no step takes products of two or more branches, and `{PARALLEL}` brings them together in one step"
        yield ShapeProblem(first, message, "add a step that binds a product of each branch, as a list")
        return
    strays = {step.id: [other for other in lines.core if _is_stray(other, step, lines)] for step in found}
    # A step that everything reaches. Else that with the fewest that do not: of two, the later one.
    aggregate = min(reversed(found), key=lambda step: (len(strays[step.id]), step.merges and _is_read(step, steps)))
    for step in strays[aggregate.id]:
        message = f"`{step.id}` does not reach `{aggregate.id}`"
        hint = f"bind a product of it in `{aggregate.id}`, or of `{aggregate.id}` in it"
        yield ShapeProblem(step.place, message, hint)
    if aggregate.merges and _is_read(aggregate, steps):
        message = (
            f"`{aggregate.id}` merges the branches, and steps follow; in `{PARALLEL}` such a merge is the last step"
        )
        yield ShapeProblem(aggregate.place, message, "use `data/aggregate`, or remove the steps after it")


def _is_stray(step: ShapeStep, aggregate: ShapeStep, lines: _Lines) -> bool:
    before = lines.by_data
    return step is not aggregate and step.id not in before[aggregate.id] and aggregate.id not in before[step.id]


def _is_read(step: ShapeStep, steps: Sequence[ShapeStep]) -> bool:
    return any(step.id in other.sources for other in steps)


# --- conditional -------------------------------------------------------------------------------------------------


def _conditional(steps: Sequence[ShapeStep], first: Place) -> Iterator[ShapeProblem]:
    if not any(step.conditional for step in steps):
        hint = "add a condition with a predicate and branches"
        yield ShapeProblem(first, f"no step depends on a condition, and `{CONDITIONAL}` needs one", hint)
        return
    problems = list(_branch_problems(steps))
    yield from problems
    if not problems and all(step.branch is not None for step in steps):
        yield from _outcome_problems(steps, first)


def _branch_problems(steps: Sequence[ShapeStep]) -> Iterator[ShapeProblem]:
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


def _outcome_problems(steps: Sequence[ShapeStep], first: Place) -> Iterator[ShapeProblem]:
    """Whatever the conditions answer, what runs fits another mode. Reports the first outcome in which it does not."""
    conditions = list(dict.fromkeys(condition for step in steps for condition, _ in step.branch or ()))
    if len(conditions) > _MOST_CONDITIONS:
        return
    for answers in product((True, False), repeat=len(conditions)):
        outcome = dict(zip(conditions, answers, strict=True))
        running = _running(steps, outcome)
        checked = {mode: list(check(running, first)) for mode, check in _UNCONDITIONAL.items()}
        if running and all(checked.values()):
            mode, problems = min(checked.items(), key=lambda found: len(found[1]))
            said = " and ".join(f"`{name}` is {str(answer).lower()}" for name, answer in outcome.items())
            message = f"if {said}, what runs fits no mode; as `{mode}`: {problems[0].message}"
            yield ShapeProblem(problems[0].place, message, problems[0].hint)
            return


def _running(steps: Sequence[ShapeStep], outcome: Mapping[str, bool]) -> list[ShapeStep]:
    runs = {s.id for s in steps if all(outcome[condition] is answer for condition, answer in s.branch or ())}
    running = []
    for step in steps:
        if step.id in runs:
            # A `first` is one source.
            joined = {min(join.steps & runs) for join in step.joins if join.steps & runs}
            sources = frozenset((step.alone & runs) | joined)
            waits = step.waits & runs
            running.append(replace(step, sources=sources, waits=waits, joins=(), conditional=False, branch=()))
    return running


_Check = Callable[[Sequence[ShapeStep], Place], Iterator[ShapeProblem]]
_UNCONDITIONAL: Mapping[str, _Check] = {
    SEQUENTIAL: _sequential,
    MERGE: _merge_then_sequential,
    PARALLEL: _parallel,
}
_CHECKS: Mapping[str, _Check] = {**_UNCONDITIONAL, CONDITIONAL: _conditional}
