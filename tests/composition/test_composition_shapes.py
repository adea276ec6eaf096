"""Forks are free; a mode says where lines meet. The examples of the contract, and what was accepted before still is."""

from __future__ import annotations

import random

import pytest
from oracle_shapes import ACCEPTED

from whyrun.workflow.composition.shapes import Join, ShapeProblem, ShapeStep, shape_problems
from whyrun.workflow.model import CONDITIONAL, MERGE, PARALLEL, SEQUENTIAL, Place

HERE = Place("plan.json", 1, 1, 1, "")
DATASETS = {"main", "controls", "extra"}


def steps_of(text: str) -> list[ShapeStep]:
    """`L! = main A` is a merge, `fig* = ols` makes a figure, `b ? = m` runs if `c` is true, `n : = m` if it is false,
    `out = (b|n)` takes the first of both, `tab = a >b` also waits for `b`."""
    steps = []
    for line in filter(None, (part.strip() for part in text.split(";"))):
        left, _, right = line.partition(" =")
        name = left.split()[0].rstrip("!*")
        words = right.split()
        joins = [Join(frozenset(word.strip("()").split("|")), False) for word in words if word.startswith("(")]
        alone = frozenset(w for w in words if w[0] not in "(>" and w not in DATASETS)
        datasets = frozenset(word for word in words if word in DATASETS)
        sources = alone.union(*(join.steps for join in joins))
        side = {"?": True, ":": False}.get(left.split()[-1])
        steps.append(
            ShapeStep(
                name, HERE, datasets, sources, alone, tuple(joins),
                waits=sources | {word[1:] for word in words if word[0] == ">"},
                merges="!" in left, conditional=side is not None,
                branch=() if side is None else (("c", side),), primary=datasets, shows="*" in left,
            )
        )  # fmt: skip
    return steps


def problems(mode: str, text: str) -> list[ShapeProblem]:
    return list(shape_problems(mode, steps_of(text), HERE))


FITS = [
    (SEQUENTIAL, "clean = main; ols = clean; fe = clean"),
    (SEQUENTIAL, "clean = main; fit = clean; predict = clean fit"),
    (SEQUENTIAL, "clean = main; ols = clean; fe = clean; paper* = ols fe"),
    (SEQUENTIAL, "clean = main; fit = clean main"),
    (MERGE, "a = main; b = controls; L! = a b; ols = L; fe = L; iv = L; fig* = ols"),
    (MERGE, "M! = main controls; clean = M; L! = clean extra; fit = L"),
    (MERGE, "L! = main; fit = L"),
    (MERGE, "L! = main controls; fit = L; paper* = fit L"),
    (MERGE, "code =; L! = main controls; fit = L code"),
    (PARALLEL, "split = main; s = split; l = split; A = s l"),
    (PARALLEL, "M! = main controls; a = M; b = M; c = M; A = a b c; plot* = A"),
    (PARALLEL, "a = main; b = extra; A* = a b"),
    (PARALLEL, "a = main; b = extra; A! = a b"),
    (CONDITIONAL, "m! = main controls; diagnose = m; b ? = m; n : = m; out = (b|n); text* = out"),
    (CONDITIONAL, "d = main; b ? = d; n : = d; out = (b|n)"),
    (CONDITIONAL, "d = main; x ? = d; y ? = d; tab ? = x y; n : = d; out* = (tab|n)"),
]


@pytest.mark.parametrize(("mode", "text"), FITS)
def test_it_fits(mode: str, text: str) -> None:
    assert problems(mode, text) == []


@pytest.mark.parametrize(
    ("mode", "text", "message", "fitting"),
    [
        (SEQUENTIAL, "clean = main; fit = clean controls",
         "`controls` is a second dataset; `sequential` starts from one, `main`", None),
        (SEQUENTIAL, "m! = main", "`m` merges, and `sequential` has no merge", MERGE),
        (SEQUENTIAL, "clean = main; ols = clean; fe = clean; tab = ols fe",
         "`tab` puts `fe` and `ols` together; `sequential` has one line, which may fork", PARALLEL),
        (MERGE, "L! = main controls; fit = main",
         "`fit` neither feeds the last merge `L` nor reads what comes of it", None),
        (MERGE, "a! = main controls; b! = main extra",
         "the merges end in more than one dataset: `a` and `b`", None),
        (MERGE, "L! = main controls; ols = L; fe = L; tab = ols fe",
         "`tab` puts `fe` and `ols` together; this mode does that in merges only", PARALLEL),
        (MERGE, "t = main extra; L! = t controls",
         "`t` puts `extra` and `main` together; this mode does that in merges only", None),
        (MERGE, "clean = main", "no step merges or appends, and `merge_then_sequential` needs one", SEQUENTIAL),
        (PARALLEL, "a = main; b = main; c = main; A = a b", "`c` does not reach `A`", None),
        (PARALLEL, "a = main; b = extra; A = a b; B = a b", "`A` does not reach `B`", None),
        (PARALLEL, "a = main; A = a", "no step takes products of two or more branches, and `parallel_then_aggregate` "
         "brings them together in one step", SEQUENTIAL),
        (PARALLEL, "a = main; b = extra; A! = a b; fit = A", "`A` merges the branches, and steps follow; in "
         "`parallel_then_aggregate` such a merge is the last step", MERGE),
        (CONDITIONAL, "a = main; b = a", "no step depends on a condition, and `conditional` needs one", SEQUENTIAL),
        (CONDITIONAL, "d = main; b ? = d; n : = d; out = b",
         "`out` takes a product of `b`, which runs only on one branch of `c`", None),
        (CONDITIONAL, "d = main; b ? = d extra; n : = d; out = (b|n)",
         "if `c` is true, what runs fits no mode; as `sequential`: `extra` is a second dataset; `sequential` starts "
         "from one, `main`", None),
    ],
)  # fmt: skip
def test_it_does_not_fit_and_the_hint_says_which_mode_would(
    mode: str, text: str, message: str, fitting: str | None
) -> None:
    found = problems(mode, text)
    assert [problem.message for problem in found] == [message]
    hint = str(found[0].hint)
    assert hint.startswith("use `") == (fitting is not None)
    assert fitting is None or hint.startswith(f"use `{fitting}`, which fits as it is; or ")
    assert fitting is None or problems(fitting, text) == []


def test_everything_that_was_accepted_still_is() -> None:
    chosen, accepted = random.Random(23), 0
    for _ in range(6000):
        steps: list[ShapeStep] = []
        for number in range(chosen.randint(1, 6)):
            before = [step.id for step in steps]
            sources = frozenset(chosen.sample(before, min(len(before), chosen.choice((0, 1, 1, 1, 2, 3)))))
            datasets = frozenset(chosen.sample(sorted(DATASETS), chosen.choice((0, 0, 1) if sources else (0, 1, 1, 2))))
            waits = sources.union(chosen.sample(before, min(len(before), chosen.choice((0, 0, 1)))))
            merges, shows = chosen.random() < 0.3, chosen.random() < 0.25
            steps.append(
                ShapeStep(f"s{number}", HERE, datasets, sources, sources, (), waits, merges, False, shows=shows)
            )
        for mode, was_accepted in ACCEPTED.items():
            if was_accepted(steps):
                accepted += 1
                assert list(shape_problems(mode, steps, HERE)) == []
    assert accepted > 1000
