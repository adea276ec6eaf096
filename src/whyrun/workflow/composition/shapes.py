"""The four modes: does the way that the steps are wired fit the one that was named? Pure.

It serves dataset plans (steps) and workflow files (job instances) alike. `auxiliary_data` may be bound anywhere and
is no part of the shape, so it is not among `datasets` and `sources` here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from whyrun.errors import Diagnostic
from whyrun.workflow.composition.model import CONDITIONAL, MERGE, PARALLEL, SEQUENTIAL
from whyrun.workflow.model import Place

Branch = tuple[tuple[str, bool], ...]  # the conditions that it hangs on, outermost first, and on which answer
CODE = "COMPOSITION_MODE_SHAPE"


@dataclass(frozen=True, slots=True)
class ShapeStep:
    id: str
    place: Place
    datasets: frozenset[str]  # that it reads
    sources: frozenset[str]  # steps whose products it reads
    joined: frozenset[str]  # those of them that it reads in a `first`
    waits: frozenset[str]  # steps that it comes after, for whatever reason
    merges: bool
    conditional: bool
    branch: Branch | None = ()  # None: not known (a workflow file has no lists of branches)


def shape_problems(mode: str, steps: Sequence[ShapeStep], first: Place) -> Iterator[Diagnostic]:
    """What does not fit. `first` is where to tell of something that is not there."""
    yield from _CHECKS[mode](steps, first)


def _told(place: Place, message: str, hint: str) -> Diagnostic:
    return place.diagnostic(CODE, message, hint)


# --- parts of several modes --------------------------------------------------------------------------------------


def _no_conditions(mode: str, steps: Sequence[ShapeStep]) -> Iterator[Diagnostic]:
    for step in steps:
        if step.conditional:
            message = f"`{step.id}` hangs on a condition, and `{mode}` has none"
            yield _told(step.place, message, f"remove the condition, or use `{CONDITIONAL}`")
        elif step.joined:
            message = f"`{step.id}` takes the first of several products, and in `{mode}` there are no branches to join"
            yield _told(step.place, message, f"bind one of them, or use `{CONDITIONAL}`")


def _chain(steps: Sequence[ShapeStep], every: Sequence[ShapeStep]) -> Iterator[Diagnostic]:
    """One after the other: in a chain each step comes after all that are before it."""
    before = _ancestors(every)
    ids = {step.id for step in steps}
    ordered = sorted(steps, key=lambda step: len(before[step.id] & ids))
    for earlier, later in pairwise(ordered):
        if earlier.id not in before[later.id]:
            message = f"`{earlier.id}` and `{later.id}` stand side by side, and a chain has one step after the other"
            yield _told(later.place, message, f"let `{later.id}` wait for `{earlier.id}`, or use `{PARALLEL}`")


def _ancestors(steps: Sequence[ShapeStep]) -> Mapping[str, frozenset[str]]:
    direct = {step.id: step.waits | step.sources for step in steps}
    found: dict[str, frozenset[str]] = {}
    for id_ in direct:
        seen: set[str] = set()
        waiting = list(direct[id_])
        while waiting:
            other = waiting.pop()
            if other not in seen:
                seen.add(other)
                waiting.extend(direct.get(other, ()))
        found[id_] = frozenset(seen)
    return found


def _names(ids: Collection[str]) -> str:
    return ", ".join(f"`{id_}`" for id_ in sorted(ids))


# --- the modes ---------------------------------------------------------------------------------------------------


def _sequential(steps: Sequence[ShapeStep], first: Place) -> Iterator[Diagnostic]:
    yield from _no_conditions(SEQUENTIAL, steps)
    for step in steps:
        if step.merges:
            message = f"`{step.id}` merges, and `{SEQUENTIAL}` has no merge"
            yield _told(step.place, message, f"use `{MERGE}`")
    start: str | None = None
    for step in steps:
        others = sorted(step.datasets - {start}) if start is not None else sorted(step.datasets)
        if start is None and others:
            start = others.pop(0)
        if others:
            message = f"`{step.id}` reads {_names(others)}, and `{SEQUENTIAL}` starts from one dataset, here `{start}`"
            yield _told(step.place, message, f"bind it as `auxiliary_data`, or merge first: `{MERGE}`")
    if start is None:
        yield _told(first, "no step reads a dataset", "bind one: `input:<dataset_key>`")
    yield from _chain(steps, steps)


def _merge_then_sequential(steps: Sequence[ShapeStep], first: Place) -> Iterator[Diagnostic]:
    yield from _no_conditions(MERGE, steps)
    merging = [step for step in steps if step.merges]
    others = [step for step in steps if not step.merges]
    if not merging:
        yield _told(first, f"no step merges or appends, and `{MERGE}` starts with one", f"use `{SEQUENTIAL}`")
        return
    names = {step.id for step in merging}
    for step in merging:
        if step.sources - names:
            message = f"`{step.id}` merges what {_names(step.sources - names)} made, and merges come first"
            yield _told(step.place, message, "merge datasets, or products of other merges")
    read = {source for step in merging for source in step.sources}
    ends = [step for step in merging if step.id not in read]
    for step in ends[1:]:
        message = f"the merges end in more than one dataset: `{ends[0].id}` and `{step.id}` are not put together"
        yield _told(step.place, message, f"merge the product of one with that of the other, or use `{PARALLEL}`")
    for step in others:
        if step.datasets:
            message = f"`{step.id}` reads {_names(step.datasets)} itself, and not what was merged"
            yield _told(step.place, message, "bind the product of the merge, or bind it as `auxiliary_data`")
        inner = step.sources & read & names
        if inner:
            message = f"`{step.id}` reads what {_names(inner)} made, which is merged further"
            yield _told(step.place, message, f"bind the product of {_names({end.id for end in ends})}")
    yield from _chain(others, steps)


def _parallel(steps: Sequence[ShapeStep], first: Place) -> Iterator[Diagnostic]:
    yield from _no_conditions(PARALLEL, steps)
    read = {source for step in steps for source in step.sources}
    ends = [step for step in steps if step.id not in read]
    if len(ends) != 1:
        where = ends[0].place if ends else first
        message = f"{_names([end.id for end in ends])} end side by side, and one aggregate step takes a product of each"
        yield _told(where, message, "add a step that binds a product of each branch, as a list")
        return
    aggregate = ends[0]
    branches = _components([step for step in steps if step is not aggregate])
    if len(branches) < 2:
        shared = [s.id for s in steps if sum(s.id in o.sources for o in steps if o is not aggregate) > 1]
        what = f"its branches share a product of {_names(shared)}" if shared else "there is only one branch before it"
        message = f"`{aggregate.id}` does not take the products of two or more branches: {what}"
        yield _told(aggregate.place, message, f"branches start from datasets; one alone is `{SEQUENTIAL}`")


def _components(steps: Sequence[ShapeStep]) -> list[set[str]]:
    """The steps that hang together by what they read of each other."""
    found: list[set[str]] = []
    for step in steps:
        group = {step.id, *(source for source in step.sources if any(source == other.id for other in steps))}
        apart = [other for other in found if not other & group]
        found = [*apart, group.union(*(other for other in found if other & group))]
    return found


def _conditional(steps: Sequence[ShapeStep], first: Place) -> Iterator[Diagnostic]:
    if not any(step.conditional for step in steps):
        hint = f"add a condition with a predicate and branches, or use `{SEQUENTIAL}`"
        yield _told(first, f"no step hangs on a condition, and `{CONDITIONAL}` needs one", hint)
    branches = {step.id: step.branch for step in steps}
    for step in steps:
        for source in sorted(step.sources - step.joined):
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
            yield _told(step.place, message, hint)


_CHECKS: Mapping[str, Callable[[Sequence[ShapeStep], Place], Iterator[Diagnostic]]] = {
    SEQUENTIAL: _sequential,
    MERGE: _merge_then_sequential,
    PARALLEL: _parallel,
    CONDITIONAL: _conditional,
}
