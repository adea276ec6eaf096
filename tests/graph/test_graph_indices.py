"""An index has one spelling: `1` and `1.0` are equal in Python, and two names here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import ECHO, Lab
from whyrun.errors import InvalidError

Make = Callable[..., Lab]
Said = list[tuple[str, int | None, str]]

LOOPS = """
    workflow: w
    inputs: {Values: {type: "number[]", default: [1, 2]}}
    loops: {x: {values: inputs.Values}, y: {values: [1.0, 2.0]}}
    jobs:
      A:
        for: [x]
        uses: shell
        with: {n: "${{ x }}", run: 'echo "$n" > "$out_T"'}
        outputs: {T: {type: text}}
"""


def refused(lab: Lab, *sets: str) -> Said:
    with pytest.raises(InvalidError) as caught:
        lab.plan(sets=sets)
    return [(d.code, d.line, d.message) for d in caught.value.diagnostics]


def with_job(more: str) -> str:
    return LOOPS + "".join(f"      {line}\n" for line in more.strip("\n").splitlines())


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ("[1, 1.0]", "the equal values `1` and `1.0`"),
        ("[2.0, 3, 2]", "the equal values `2.0` and `2`"),
        ("[0.0, -0.0]", "the equal values `0.0` and `-0.0`"),
        ("[1.5, 1.5]", "the value `1.5` twice"),
    ],
)
def test_values_of_a_loop_that_are_equal_are_refused(project: Make, values: str, what: str) -> None:
    lab = project(LOOPS)
    assert refused(lab, f"Values={values}") == [("NAME_TAKEN", 4, f"loop `x` has {what}")]


def test_a_boolean_is_no_value_of_a_loop(project: Make) -> None:
    lab = project(LOOPS)
    (said,) = refused(lab, "Values=[1, true]")
    assert said[0] == "INPUT_TYPE"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("jobs.A.outputs.T[2.0]", "`[2.0]` is not an index of `A`: write `[2]`"),
        ("jobs.Both.outputs.T[2.0, :]", "`[2.0]` is not an index of `Both`: write `[2]`"),
        ("jobs.Both.outputs.T[:, 1]", "`[1]` is not an index of `Both`: write `[1.0]`"),
        ("jobs.Both.outputs.T[2.0, 1.0]", "`[2.0][1.0]` is not an index of `Both`: write `[2][1.0]`"),
        ("first(jobs.A.outputs.T[2.0], jobs.A.outputs.T[1])", "`[2.0]` is not an index of `A`: write `[2]`"),
    ],
)
def test_an_index_is_written_as_the_loop_has_it(project: Make, reference: str, said: str) -> None:
    job = f"""
Both:
  for: [x, y]
  uses: shell
  with: {{run: 'true'}}
  outputs: {{T: {{type: text}}}}
Fine:
  uses: shell
  with: {{a: "${{{{ jobs.A.outputs.T[2] }}}}", b: "${{{{ jobs.Both.outputs.T[2, :] }}}}", run: 'true'}}
  outputs: {{T: {{type: text}}}}
Wrong:
  uses: shell
  with: {{a: "${{{{ {reference} }}}}", run: 'true'}}
  outputs: {{T: {{type: text}}}}
"""
    assert refused(project(with_job(job))) == [("INDEX_FORMAT_INVALID", 22, said)]


def test_jobs_of_different_loops_are_not_aligned_by_equal_numbers(project: Make) -> None:
    job = """
Wrong:
  for: [y]
  uses: shell
  with: {a: "${{ jobs.A.outputs.T[y] }}", run: 'true'}
  outputs: {T: {type: text}}
"""
    assert refused(project(with_job(job))) == [
        ("INDEX_FORMAT_INVALID", 14, "`[1.0]` is not an index of `A`: write `[1]` (in `Job:Wrong[1.0]`)")
    ]


def test_a_leaf_is_referred_to_as_it_is_declared(project: Make) -> None:
    job = """
Story:
  uses: shell
  with: {run: 'true'}
  outputs: {S: {type: json, leaves: {"Part[0].Good": boolean}}}
Wrong:
  if: ${{ jobs.Story.outputs.S.Part[0.0].Good }}
  uses: shell
  with: {run: 'true'}
  outputs: {T: {type: text}}
"""
    ((code, line, message),) = refused(project(with_job(job)))
    assert (code, line) == ("INDEX_OUT_OF_RANGE", 16)
    assert message == "`Job:Story` declares no leaf `S.Part[0.0].Good`"


def test_combinations_name_an_index_as_the_loop_does(project: Make) -> None:
    job = """
Both:
  for: [x, y]
  exclude: [{x: 1.0}]
  include: [{x: 3, y: 4}, {x: 3, y: 2}, {x: 3.0, y: 5.0}]
  uses: shell
  with: {run: 'true'}
  outputs: {T: {type: text}}
"""
    assert refused(project(with_job(job))) == [
        ("INDEX_FORMAT_INVALID", 13, "`1.0` is not an index of loop `x`: write `1`"),
        ("INDEX_FORMAT_INVALID", 14, "`2` is not an index of loop `y`: write `2.0`"),
        ("INDEX_FORMAT_INVALID", 14, "`3.0` is not an index of loop `x`: write `3`"),
    ]


def test_whole_numbers_and_decimals_in_one_loop_get_each_its_own(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Values: {type: "number[]", default: [1, 1.5, -2.0, 0]}}
        loops: {x: {values: inputs.Values}}
        jobs:
          A:
            for: [x]
            uses: shell
            with: {n: "${{ x }}", run: 'echo "$n" > "$out_T"'}
            outputs: {T: {type: text}}
          B:
            for: [x]
            exclude: [{x: 0}]
            uses: python
            with: {call: "echo:received", mine: "${{ jobs.A.outputs.T[x] }}", next: "${{ jobs.A.outputs.T[x+1] }}"}
            outputs: {Got: {type: json}}
          C:
            uses: python
            with: {call: "echo:received", one: "${{ jobs.A.outputs.T[-2.0] }}", all: "${{ jobs.A.outputs.T[:] }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO},
    )
    lab.succeed()
    texts = ["file:1\n", "file:1.5\n", "file:-2.0\n", "file:0\n"]
    assert {name: lab.content(f"Artifact:B.Got[{name}]") for name in ("1", "1.5", "-2.0")} == {
        name: {"mine": texts[i], "next": texts[i + 1]} for i, name in enumerate(("1", "1.5", "-2.0"))
    }
    assert lab.content("Artifact:C.Got") == {"one": "file:-2.0\n", "all": texts}
