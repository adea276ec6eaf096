"""Issue 20: expressions over inputs in `count:` and `range:` of loops."""

from __future__ import annotations

from collections.abc import Callable

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from project_lab import Lab
from whyrun.workflow.parsing.parse import workflow_schema

Make = Callable[..., Lab]

TEXT = """\
workflow: w
inputs:
  N: {{type: integer, default: 2}}
  Rate: {{type: number, default: 1.5}}
  Files: {{type: "file[]", default: [a, b, c]}}
loops: {{x: {loop}}}
jobs:
  J: {{for: [x], uses: shell, with: {{run: 'true'}}, outputs: {{T: {{type: integer}}}}}}
"""
FILES = {"a": "", "b": "", "c": ""}


@pytest.mark.parametrize(
    ("loop", "indices"),
    [
        ('{count: "${{ inputs.N + 1 }}"}', [0, 1, 2]),
        ('{count: "${{ inputs.N }}"}', [0, 1]),
        ('{count: "${{ len(inputs.Files) - 2 }}"}', [0]),
        ('{count: "${{ 0 * inputs.N }}"}', []),
        ('{range: "5-${{ inputs.N * 3 }}"}', [5, 6]),
        ('{range: "${{ inputs.N }}-${{ inputs.N + 1 }}"}', [2, 3]),
        ('{range: [3, "${{ inputs.N + 2 }}"]}', [3, 4]),
        ('{range: ["${{ inputs.N }}", 2]}', [2]),
        ('{range: [0, "${{ inputs.N - 3 }}"]}', []),
    ],
)
def test_loops_take_expressions_over_inputs(project: Make, loop: str, indices: list[int]) -> None:
    lab = project(TEXT.format(loop=loop), FILES)
    assert list(lab.opened().graph.node_of) == [f"Job:J[{index}]" for index in indices]
    file = {"workflow": "w", "loops": {"x": {"count": "${{ inputs.N + 1 }}"}, "y": {"range": [0, "${{ inputs.N }}"]}}}
    assert jsonschema.Draft202012Validator(workflow_schema()).is_valid({**file, "jobs": {}})


def test_another_value_leaves_the_other_instances_alone(project: Make) -> None:
    lab = project(
        TEXT.format(loop='{count: "${{ inputs.N + 1 }}"}').replace("run: 'true'", "run: 'echo 1 > $out_T'"), FILES
    )
    lab.succeed()
    assert lab.plan(sets=["N=3"]).headlines() == {"Job:J[3]": "MISSING_OUTPUT"}


@pytest.mark.parametrize(
    ("loop", "message", "hint"),
    [
        ('{count: "${{ inputs.Rate }}"}', "`count` of loop `x` is 1.5, not a whole number from 0", None),
        ('{count: "${{ inputs.N - 3 }}"}', "`count` of loop `x` is -1, not a whole number from 0", None),
        (
            '{count: "1${{ inputs.N }}"}', "`count` of loop `x` is not one whole expression",
            "write `${{ inputs.N + 1 }}`",
        ),
        (
            '{range: [0, "${{ inputs.Rate }}"]}',
            "`range` of loop `x` is from 0 to 1.5, not two whole numbers in order",
            "both ends count: `0-4` is 0, 1, 2, 3 and 4",
        ),
        (
            '{range: "${{ inputs.N }}"}', "`range` of loop `x` is not a range of whole numbers",
            'write `0-${{ inputs.Last }}` or `[0, "${{ inputs.Last }}"]`; both ends count',
        ),
        (
            '{range: "a-${{ inputs.N }}"}', "`range` of loop `x` is `a-2`, not two whole numbers in order",
            "both ends count: `0-4` is 0, 1, 2, 3 and 4",
        ),
        ('{range: [0, "${{ inputs.N * 10 ** 8 }}"]}', "loop `x` is too long: it has 200000001 values", "a workflow has "
         "up to 5000000 job instances: let one job do more of the work"),
        ('{count: "${{ inputs.M }}"}', "the workflow has no input `M`", "known: `N`, `Rate`, `Files`"),
        ('{count: "${{ jobs.J.outputs.T[0] }}"}', "the source of loop `x` cannot contain `${{ }}`",
         "write `jobs.J.outputs.T[0]`"),
        ('{count: "${{ x }}"}', "the loop `x` depends on itself",
         "a loop may use inputs, and loops that do not use it"),
    ],
)  # fmt: skip
def test_what_is_no_number_is_refused(project: Make, loop: str, message: str, hint: str | None) -> None:
    (only,) = project(TEXT.format(loop=loop), FILES).opened().problems
    assert (only.message, only.hint) == (message, hint)
    assert only.line == 6
