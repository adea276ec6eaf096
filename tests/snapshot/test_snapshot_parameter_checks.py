"""Values that inputs and loops give, and types of what is bound, against the typed parameters of actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from project_lab import Lab
from whyrun.actions.problem import Bound, Problem
from whyrun.graph.tables import Known
from whyrun.project import Project
from whyrun.snapshot.actions.parameter_checks import Misfit, known_term

Make = Callable[..., Lab]
HEAD = """\
workflow: w
inputs:
  N: {type: integer, default: 99}
  Few: {type: integer, default: 3}
  S: {type: string, default: x}
  Url: {type: string, default: "http://a"}
  Doc: {type: json, default: {max: 99, deep: [1, {a: 7}]}}
  Many: {type: "integer[]", default: [1, 60, 70, 2]}
  File: {type: file, default: a.txt}
  Ok: {type: integer, default: 4}
  Empty: {type: json, default: {}}
  Text: {type: text, default: a.txt}
loops: {i: {count: 3}, m: {each: inputs.Many}, none: {count: 0}, w: {values: [ax, by]}}
jobs:
  G: {uses: http/json, with: {url: "http://a", redirects: "${{ inputs.Ok }}"}, outputs: {Answer: {type: json}}}
  H: {uses: http/json, with: {url: "http://a"}, outputs: {Answer: {type: json}}}
  T: {uses: shell, with: {run: "true"}, outputs: {O: {type: text}}}
  U: {uses: shell, with: {run: "true"}, outputs: {O: {type: integer}}}
  V: {for: [i], uses: shell, with: {run: "true"}, outputs: {O: {type: text}}}
  W: {if: "${{ inputs.N > 1 }}", uses: shell, with: {run: "true"}, outputs: {O: {type: integer}}}
  X: {if: "${{ inputs.N > 1 }}", uses: shell, with: {run: "true"}, outputs: {O: {type: text}}}
"""
INPUTS = "N: 77\nFew: 3\n"  # the second is the default


def lab_of(project: Make, block: str, loop: str = "") -> Lab:
    job = f"  Z: {{{loop}uses: http/json, secrets: [K], with: {{{block}}}, outputs: {{Answer: {{type: json}}}}}}\n"
    return project(HEAD + job, {"a.txt": "a", "in.yaml": INPUTS})


def messages_and_hints(opened: Project) -> list[tuple[str, str | None]]:
    """Message and hint of all that does not fit, besides what is written wrongly."""
    first = opened.parameter_problems(opened.graph)
    assert opened.parameter_problems(opened.graph) == first
    assert {(problem.code, problem.line) for problem in first} <= {("INVALID_PARAMETER", 22)}
    return [(p.message, None if p.hint is None else p.hint.replace(str(opened.file.parent), "")) for p in first]


def of(expression: str) -> str:
    return f"'${{{{ {expression} }}}}'"


URL = "url: 'http://a'"
RANGE = "it takes an integer ≥ 0 and ≤ 50"
HTTP = "it takes an address that starts with `http://` or `https://`"
FROM_N = "the value comes from `Input:N` (its default, /workflow.yaml:3): correct it there"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (f"redirects: {of('inputs.Few')}", []),
        (f"redirects: {of('inputs.N')}", [(f"`redirects` is 99; {RANGE}", FROM_N)]),
        (f"redirects: {of('inputs.N + inputs.Few')}",
         [(f"`redirects` is 102; {RANGE}",
           "the value comes from `Input:N` (its default, /workflow.yaml:3) and `Input:Few` (its default, "
           "/workflow.yaml:4): correct it there, or `redirects`")]),
        (f"expect: [200, {of('inputs.N')}, {of('inputs.Few')}]",
         [("`expect[1]` is 99; it takes an integer ≥ 100 and ≤ 599", FROM_N)]),
        (f"retries: {of('inputs.Doc')}",
         [("`retries` has no `deep`",
           "known: `max`, `backoff`, `limit`, `on`; the value comes from `Input:Doc` (its default, /workflow.yaml:7): "
           "correct it there")]),
        (f"retries: {{max: 3, mx: {of('inputs.N')}}}",
         [("`retries` has no `mx`", "did you mean `max`? known: `max`, `backoff`, `limit`, `on`")]),
        (f"query: {{deep: 1, dee: {of('inputs.Few')}, deeper: [{of('inputs.S')}, {of('inputs.Doc')}]}}",
         [('`query.deeper[1]` is {"max": 99, "deep": [1, {"a": 7}]}; it takes a text or an integer or a number or true '
           "or false or null",
           "the value comes from `Input:Doc` (its default, /workflow.yaml:7): correct it there")]),
        (f"query: {of('inputs.Doc')}",
         [('`query.deep[1]` is {"a": 7}; it takes a text or an integer or a number or true or false or null',
           "the value comes from `Input:Doc` (its default, /workflow.yaml:7): correct it there")]),
        (f"redirects: 99, method: {of('inputs.S')}",
         [('`method` is "x"; it takes one of "DELETE", "GET", "PATCH", "POST", "PUT" or null',
           "the value comes from `Input:S` (its default, /workflow.yaml:5): correct it there")]),
        (f"json: {of('inputs.S')}, body: x",
         [("use either `json` or `body`: a request has one body", "see `whyrun actions` for what it takes")]),
        (f"headers: {{A: {of('secrets.K')}, B: {of('inputs.S')}}}, redirects: {of('inputs.N')}",
         [(f"`redirects` is 99; {RANGE}", FROM_N)]),
        (f"retries: {{max: {of('inputs.S')}, limit: {of('inputs.N')}}}",
         [('`retries.max` is "x"; it takes an integer ≥ 0 and ≤ 1000',
           "the value comes from `Input:S` (its default, /workflow.yaml:5): correct it there")]),
    ],
)  # fmt: skip
def test_values_of_inputs_are_checked_and_corrected_where_they_come_from(
    project: Make, block: str, expected: list[tuple[str, str | None]]
) -> None:
    assert messages_and_hints(lab_of(project, f"{URL}, {block}").opened()) == expected


def test_every_parameter_is_told_and_a_missing_one_by_whoever_reads_the_block(project: Make) -> None:
    lab = lab_of(project, "url: 'a ${{ inputs.S }} ${{ inputs.N }} ${{ inputs.S }}', redirects: '${{ inputs.N }}'")
    assert messages_and_hints(lab.opened()) == [
        (f"`redirects` is 99; {RANGE}", FROM_N),
        (
            f'`url` is "a x 99 x"; {HTTP}',
            "the value comes from `Input:S` (its default, /workflow.yaml:5) and `Input:N` (its default, "
            "/workflow.yaml:3): correct it there, or `url`",
        ),
    ]
    assert (
        messages_and_hints(lab_of(project, "redirects: '${{ inputs.Few }}', unknown: '${{ inputs.N }}'").opened()) == []
    )


@pytest.mark.parametrize(
    ("loop", "value", "expected"),
    [
        ("i", "i * 30", (60, "(in `Job:Z[2]`)", None)),
        ("i", "i * 60", (60, "(in `Job:Z[1]`, and in 1 more instance)", None)),
        ("i", "i + 60", (60, "(in `Job:Z[0]`, and in 2 more instances)", None)),
        ("i", "inputs.N + i", (99, "(in `Job:Z[0]`, and in 2 more instances)", None)),
        ("i", "inputs.N", (99, "(in `Job:Z[0]`, and in 2 more instances)", FROM_N)),
        ("m", "inputs.Many[m]", (60, "(in `Job:Z[1]`, and in 1 more instance)", FROM_N.replace("N`", "Many`"))),
        ("i", "inputs.Few + i", None),
        ("none", "inputs.N", None),
        ("none", "none", None),
    ],
)
def test_a_mistake_of_many_instances_is_told_once_with_the_first_of_them(
    project: Make, loop: str, value: str, expected: tuple[int, str, str | None] | None
) -> None:
    found = messages_and_hints(lab_of(project, f"{URL}, redirects: {of(value)}", f"for: [{loop}], ").opened())
    if expected is None:
        assert found == []
    else:
        number, where, origin = expected
        hint = "correct `redirects:`" if origin is None else origin.replace(":3)", ":8)" if loop == "m" else ":3)")
        assert found == [(f"`redirects` is {number}; {RANGE} {where}", hint)]


def test_an_instance_counts_once_however_often_it_has_the_mistake(project: Make) -> None:
    lab = lab_of(project, f"{URL}, expect: [200, {of('i')}, {of('i + 1')}]", "for: [i], ")
    assert messages_and_hints(lab.opened()) == [
        (
            "`expect[1]` is 0; it takes an integer ≥ 100 and ≤ 599 (in `Job:Z[0]`, and in 2 more instances)",
            "correct `expect[1]`",
        )
    ]


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("jobs.T.outputs.O", "text"), ("jobs.U.outputs.O", None), ("jobs.V.outputs.O[:]", "text[]"),
        ("jobs.V.outputs.O[1]", "text"), ("inputs.File", "file"), ("jobs.U.outputs.O + 1", None),
        ("first(jobs.W.outputs.O, jobs.U.outputs.O)", None), ("first(jobs.X.outputs.O, jobs.T.outputs.O)", "text"),
        ("first(jobs.X.outputs.O, jobs.U.outputs.O)", None), ("first(jobs.X.outputs.O, inputs.File)", None),
        ("first(jobs.X.outputs.O, inputs.Text)", "text"),
    ],
)  # fmt: skip
def test_what_is_bound_is_checked_by_its_type_if_there_is_one(project: Make, value: str, type_: str | None) -> None:
    expected = (f"`redirects` is bound to something of type `{type_}`; {RANGE}", "bind a value of that type")
    assert messages_and_hints(lab_of(project, f"{URL}, redirects: {of(value)}").opened()) == (
        [] if type_ is None else [expected]
    )


def test_of_secrets_and_connections_nothing_is_known_wherever_they_stand(project: Make) -> None:
    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shown(member) for key, member in value.items()}
        if isinstance(value, list):
            return [shown(member) for member in value]
        return "unknown" if isinstance(value, Bound) else value

    graph = lab_of(project, URL).opened().graph
    value = {"a": {"$secret": "K"}, "b": [1, {"$connection": "db"}, [2]], "c": {"d": {"$secret": "K"}}, "e": {"f": 3}}
    assert shown(known_term(graph, Known(value, ""))) == {
        "a": "unknown",
        "b": [1, "unknown", [2]],
        "c": {"d": "unknown"},
        "e": {"f": 3},
    }


def test_many_mistakes_stand_in_one_order(project: Make) -> None:
    names = ["max_bytes", "method", "redirects", "result", "timeout", "url"]
    block = ", ".join(f"{name}: {of('inputs.Many')}" for name in reversed(names))
    assert [message.split("`")[1] for message, _ in messages_and_hints(lab_of(project, block).opened())] == names


def test_a_variable_of_the_environment_is_no_parameter(project: Make) -> None:
    block = f"{URL}, redirects: {of('inputs.Few')}, headers: {{A: {of('inputs.S')}}}"
    lab = lab_of(project, block, f"env: {{redirects: {of('inputs.S')}, headers: {of('inputs.S')}}}, ")
    assert messages_and_hints(lab.opened()) == []


def test_each_missing_part_of_a_record_is_told(project: Make) -> None:
    found = messages_and_hints(lab_of(project, f"{URL}, poll: {of('inputs.Empty')}").opened())
    assert [message for message, _ in found] == ["`poll` needs `id`", "`poll` needs `url`", "`poll` needs `until`"]
    written = messages_and_hints(lab_of(project, f"{URL}, poll: {{url: {of('inputs.Url')}, id: /id}}").opened())
    assert [(message, "comes from" in (hint or "")) for message, hint in written] == [("`poll` needs `until`", False)]


@pytest.mark.parametrize(
    ("loop", "block", "expected"),
    [
        ("", "redirects: '${{ 60 + 39 }}'", [(f"`redirects` is 99; {RANGE}", "correct `redirects:`")]),
        ("for: [i], ", "json: '${{ inputs.Ok }}', method: '${{ inputs.S }} ${{ i }}'",
         [('`method` is "x 0"; it takes one of "DELETE", "GET", "PATCH", "POST", "PUT" or null (in `Job:Z[0]`, and in '
           "2 more instances)", "correct `method:`")]),
        ("for: [w], ", "method: '${{ w }}'",
         [('`method` is "ax"; it takes one of "DELETE", "GET", "PATCH", "POST", "PUT" or null (in `Job:Z[ax]`, and in '
           "1 more instance)", "correct `method:`")]),
        ("", "json: 1, body: x", []),
        ("", "retries: {max: x, limit: '${{ jobs.U.outputs.O + 1 }}'}",
         [('`retries.max` is "x"; it takes an integer ≥ 0 and ≤ 1000', "correct `retries.max`")]),
        ("", "expect: [99, '${{ jobs.U.outputs.O + 1 }}']",
         [("`expect[0]` is 99; it takes an integer ≥ 100 and ≤ 599", "correct `expect[0]`")]),
        ("", "expect: [200, '${{ jobs.U.outputs.O + 1 }}']", []),
    ],
)  # fmt: skip
def test_what_is_no_value_of_an_input_is_corrected_in_the_job(
    project: Make, loop: str, block: str, expected: list[tuple[str, str | None]]
) -> None:
    """Or told with the job, where it is all written there."""
    assert messages_and_hints(lab_of(project, f"{URL}, {block}", loop).opened()) == expected


@pytest.mark.parametrize(
    ("hint", "expected"),
    [(None, "from there"), ("correct `x:`", "from there"), ("known: `y`", "known: `y`; from there")],
)
def test_where_a_value_comes_from_is_a_hint(project: Make, hint: str | None, expected: str) -> None:
    table = lab_of(project, URL).opened().graph.tables[0]
    assert Misfit(table, 0, Problem("x", "no", hint), 0, "from there").diagnostic().hint == expected
    assert Misfit(table, 0, Problem("x", "no", hint), 0, None).diagnostic().hint == hint


def test_it_is_told_how_an_input_came_to_its_value(project: Make) -> None:
    lab = lab_of(project, f"{URL}, redirects: {of('inputs.N')}")

    def how(**given: Any) -> str:
        ((_, hint),) = messages_and_hints(Project.open(lab.file, **given))
        assert hint is not None
        return hint.partition("(")[2].partition(")")[0].replace(str(lab.root), "")

    file = lab.root / "in.yaml"
    assert how() == "its default, /workflow.yaml:3"
    assert how(sets=["N=88"]) == "given by `--set`"
    assert how(inputs=file) == "given in `/in.yaml`"
    assert how(given={"N": 55}) == "given by the caller"
    assert how(inputs=file, given={"N": 55}) == "given by the caller"
    assert how(inputs=file, given={"N": 55}, sets=["N=88"]) == "given by `--set`"
    assert how(inputs=file, sets=["Few=4"]) == "given in `/in.yaml`"
    lab.write({"in.yaml": "Few: 3"})
    assert how(inputs=file) == "its default, /workflow.yaml:3"


def test_of_an_import_it_is_not_told_where_the_value_comes_from(project: Make) -> None:
    """Its inputs are what the importing file gives it."""
    lab = lab_of(project, f"{URL}, redirects: {of('inputs.N')}")
    lab.write({"outer.yaml": "workflow: o\nimports: {Sub: {workflow: workflow.yaml}}\njobs: {}\n"})
    opened = Project.open(lab.root / "outer.yaml")
    assert messages_and_hints(opened) == [(f"`redirects` is 99; {RANGE}", "correct `redirects:`")]


@pytest.mark.parametrize(
    ("good", "bad", "loop", "sets"),
    [
        (f"redirects: {of('inputs.Few')}", None, "", "Few=60"),
        (f"redirects: {of('inputs.Few')}", f"redirects: {of('inputs.N')}", "", ""),
        (f"redirects: {of('i * 10')}", f"redirects: {of('i * 30')}", "i", ""),
        (f"redirects: {of('inputs.Few + i')}", None, "i", "Few=49"),
        (f"redirects: {of('inputs.Few')}", None, "i", "Few=60"),
        (f"json: {of('inputs.S')}", f"json: {of('inputs.S')}, body: x", "", ""),
        (f"json: {of('inputs.S')}, method: POST", f"json: {of('inputs.S')}, method: GET", "", ""),
        (f"redirects: {of('jobs.U.outputs.O')}", f"redirects: {of('jobs.T.outputs.O')}", "", ""),
        (f"redirects: {of('first(jobs.W.outputs.O, jobs.U.outputs.O)')}",
         f"redirects: {of('first(jobs.X.outputs.O, jobs.T.outputs.O)')}", "", ""),
        (f"expect: [{of('inputs.N + 101')}, 100]", f"expect: [100, {of('inputs.N')}]", "", ""),
        (f"redirects: {of('inputs.Few')}, max_bytes: {of('inputs.N')}",
         f"redirects: {of('inputs.N')}, max_bytes: {of('inputs.Few')}", "", ""),
    ],
)  # fmt: skip
def test_what_fitted_once_is_looked_at_again_when_anything_is_other(
    project: Make, good: str, bad: str | None, loop: str, sets: str
) -> None:
    """That something fits is kept between plans."""
    head = f"for: [{loop}], " if loop else ""
    lab = lab_of(project, f"{URL}, {good}", head)
    first = lab.opened()
    assert messages_and_hints(first) == []
    text = lab.read("workflow.yaml")
    for written, other_inputs, wrong in ((bad or good, [sets] if sets else [], 1), (good, [], 0)):
        lab.write({"workflow.yaml": text.replace(good, written)})
        opened = lab.opened(other_inputs)
        opened.inspector = first.inspector
        assert len(messages_and_hints(opened)) == wrong
