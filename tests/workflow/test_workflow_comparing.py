"""Comparisons in `if:` that are impossible by their types are refused before anything runs."""

from __future__ import annotations

from itertools import product

import pytest

from whyrun.errors import InvalidError
from whyrun.workflow.expressions.functions import COMPARISON, ExpressionError, never_compares
from whyrun.workflow.parsing.parse import parse_workflow

HEAD = """\
workflow: demo
inputs:
  Topic: {type: string}
  Limit: {type: integer, default: 3}
  Share: {type: number, default: 0.5}
  On: {type: boolean, default: true}
  Grid: {type: "integer[]"}
  Any: {type: json}
loops:
  part: {count: 2}
jobs:
  Count:
    for: [part]
    uses: python
    outputs:
      Words: {type: integer}
      Report: {type: json, leaves: {Mood: string, Free: json}}
  J:
    uses: python
"""


def parsed(condition: str, key: str = "if") -> None:
    line = f"    if: ${{{{ {condition} }}}}\n" if key == "if" else f"    with: {{a: '${{{{ {condition} }}}}'}}\n"
    parse_workflow("w.yaml", {"w.yaml": HEAD + line}.__getitem__)


def refusal(condition: str) -> str:
    with pytest.raises(InvalidError) as caught:
        parsed(condition)
    (problem,) = caught.value.diagnostics
    assert problem.code == "WRONG_TYPE"
    return f"{problem.message}; {problem.hint}"


REFUSED = {
    "inputs.Topic > 3": "`>` cannot compare a string with a number; `inputs.Topic` is a string",
    "3 <= inputs.Topic": "`<=` cannot compare a number with a string; `inputs.Topic` is a string",
    "inputs.Limit == '3'": "`==` cannot compare a number with a string; `inputs.Limit` is a number",
    "inputs.Topic != -1": "`!=` cannot compare a string with a number; `inputs.Topic` is a string; `-1` is a number",
    "inputs.On == 'true'": "`==` cannot compare a boolean with a string; `inputs.On` is a boolean",
    "inputs.Share < inputs.Topic": (
        "`<` cannot compare a number with a string; `inputs.Share` is a number; `inputs.Topic` is a string"
    ),
    "inputs.Grid > 3": "`>` cannot compare a list with a number; `inputs.Grid` is a list",
    "jobs.Count.outputs.Words[:] > 3": (
        "`>` cannot compare a list with a number; `jobs.Count.outputs.Words[:]` is a list"
    ),
    "jobs.Count.outputs.Words[0] == 'many'": (
        "`==` cannot compare a number with a string; `jobs.Count.outputs.Words[0]` is a number"
    ),
    "jobs.Count.outputs.Report[0].Mood > 1": (
        "`>` cannot compare a string with a number; `jobs.Count.outputs.Report[0].Mood` is a string"
    ),
    "inputs.Limit < None": "`<` cannot compare a number with None; `inputs.Limit` is a number",
    "1 in inputs.Topic": "`in` cannot compare a number with a string; `inputs.Topic` is a string",
    "'a' not in inputs.Limit": "`not in` cannot compare a string with a number; `inputs.Limit` is a number",
    "1 < inputs.Limit < 'x'": "`<` cannot compare a number with a string; `inputs.Limit` is a number",
    "inputs.On and not (len(inputs.Grid) > 'x')": (
        "`>` cannot compare a number with a string; `len(inputs.Grid)` is a number"
    ),
    "str(inputs.Limit) > 3": "`>` cannot compare a string with a number; `str(inputs.Limit)` is a string",
    "1 == 'x'": "`==` cannot compare a number with a string; compare values of one kind",
}
ANSWERED = [
    "inputs.Topic > 'm'", "inputs.Limit > 0.5", "inputs.Share <= inputs.Limit", "inputs.On == 1", "inputs.On == True",
    "inputs.Topic == None", "None != inputs.Limit", "inputs.Any == 3", "inputs.Any > 'x'", "len(inputs.Grid) > 1",
    "inputs.Grid[0] > 3", "inputs.Grid == [1, 2]", "3 in inputs.Grid", "'a' in inputs.Topic", "inputs.Topic in ['a']",
    "jobs.Count.outputs.Report[0].Free < 3", "first(inputs.Any, inputs.Topic) == 3", "inputs.Limit + 1 > 3",
    "max(inputs.Grid) > 3", "int(inputs.Topic) > 3",
]  # fmt: skip


@pytest.mark.parametrize("condition", REFUSED)
def test_an_impossible_comparison_is_reported(condition: str) -> None:
    assert refusal(condition) == REFUSED[condition]


@pytest.mark.parametrize("condition", ANSWERED)
def test_a_comparison_that_may_have_an_answer_is_left_to_the_run(condition: str) -> None:
    parsed(condition)


def test_the_place_is_that_of_the_comparison() -> None:
    with pytest.raises(InvalidError) as caught:
        parsed("inputs.On and inputs.Topic > 3")
    assert str(caught.value) == (
        "error[WRONG_TYPE] w.yaml:20:27: `>` cannot compare a string with a number\n"
        "   20 |     if: ${{ inputs.On and inputs.Topic > 3 }}\n"
        "      |                           ^^^^^^^^^^^^^^^^\n"
        "   hint: `inputs.Topic` is a string"
    )


def test_outside_of_conditions_it_is_a_value_like_any_other() -> None:
    parsed("inputs.Topic == 3", key="with")


VALUES = {
    "a string": ["", "text"], "a number": [0, 1, -2.5], "a boolean": [True, False], "a list": [[], [1], ["x"]],
    "a map": [{}, {"x": 1}], "None": [None],
}  # fmt: skip


@pytest.mark.parametrize("op", COMPARISON)
def test_what_is_refused_has_no_answer_or_always_the_same(op: str) -> None:
    for left, right in product(VALUES, repeat=2):
        answers = set()
        for a, b in product(VALUES[left], VALUES[right]):
            try:
                answers.add(COMPARISON[op](a, b))
            except (ExpressionError, TypeError):
                pass
        if never_compares(op, left, right):
            assert answers <= ({False} if op == "Eq" else {True} if op == "NotEq" else set()), (left, right)
        else:
            assert answers, (left, right)
        assert not never_compares(op, left, None)
        assert not never_compares(op, None, right)
