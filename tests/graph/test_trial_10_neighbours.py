"""Issue 17, number 10. `[x+n]` and `[x-n]` move in the order of what is indexed, whatever the consumer's loop is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import ECHO, Lab
from whyrun.errors import InvalidError

Make = Callable[..., Lab]

HEAD = """\
workflow: w
inputs:
  Prompts: {type: "string[]", default: [p0, p1, p2]}
  Grid: {type: "integer[][]", default: [[1, 2, 3], [4]]}
  Two: {type: "string[]", default: [b, c]}
loops:
  clip: {count: 2}
  scene: {count: 6}
  even: {values: [0, 2]}
  net: {values: [a, b, c]}
  backward: {values: [c, b, a]}
  some: {values: [b, d]}
  decimal: {values: [1.0]}
jobs:
  Clip:
    for: [clip]
    uses: shell
    with: {run: 'true'}
    outputs: {V: {type: integer}}
  Scene:
    for: [scene]
    exclude: [{scene: 2}]
    include: [{scene: 99}]
    uses: shell
    with: {run: 'true'}
    outputs: {V: {type: integer}, S: {type: json, leaves: {"P[net].G": string, "Q[7].G": string, "Q[9].G": string}}}
  Net:
    for: [net]
    uses: shell
    with: {run: 'true'}
    outputs: {V: {type: integer}}
"""


def job(loop: str, reference: str, without: str = "") -> str:
    return (
        f"{HEAD}  J:\n    for: [{loop}]\n    exclude: [{without}]\n    uses: python\n"
        f"    with: {{call: 'echo:received', x: '${{{{ {reference} }}}}'}}\n"
        "    outputs: {T: {type: json}}\n"
    )


def bound(lab: Lab, text: str) -> dict[str, str]:
    """Instance of `J` → the ID that it binds."""
    lab.write({"workflow.yaml": text})
    graph = lab.opened().graph
    table = graph.tables[next(i for i, table in enumerate(graph.tables) if table.name == "J")]
    (column,) = [slot.column for slot in table.slots if slot.name == "x"]
    terms = {table.path(p).removeprefix("J"): column.at(p) for p in range(len(table))}
    return {
        text: ", ".join(map(graph.source_id, term.candidates)) if hasattr(term, "candidates") else graph.source_id(term)
        for text, term in terms.items()
    }


@pytest.mark.parametrize(
    ("loop", "reference", "found"),
    [
        # The array is longer than the loop, and shorter, and the loop has gaps.
        ("clip", "inputs.Prompts[clip+1]", {"[0]": "Input:Prompts[1]", "[1]": "Input:Prompts[2]"}),
        ("even", "inputs.Grid[0][even]", {"[0]": "Input:Grid[0][0]", "[2]": "Input:Grid[0][2]"}),
        ("even", "first(inputs.Prompts[even-1], inputs.Two[0])", {"[0]": "Input:Two[0]", "[2]": "Input:Prompts[1]"}),
        ("clip", "first(inputs.Grid[clip][clip+1], inputs.Two)", {"[0]": "Input:Grid[0][1]", "[1]": "Input:Two"}),
        ("clip", "first(inputs.Grid[clip+1][0], inputs.Two)", {"[0]": "Input:Grid[1][0]", "[1]": "Input:Two"}),
        # From beyond the end of what is indexed, back into it.
        (
            "scene",
            "first(jobs.Clip.outputs.V[scene-1], inputs.Prompts[scene-3], inputs.Two)",
            {
                "[0]": "Input:Two",
                "[1]": "Artifact:Clip.V[0]",
                "[2]": "Artifact:Clip.V[1]",
                "[3]": "Input:Prompts[0]",
                "[4]": "Input:Prompts[1]",
                "[5]": "Input:Prompts[2]",
            },
        ),
        # The job that is indexed has its own loop: longer, or in another order.
        ("clip", "jobs.Scene.outputs.V[clip+3]", {"[0]": "Artifact:Scene.V[3]", "[1]": "Artifact:Scene.V[4]"}),
        ("even", "jobs.Scene.outputs.V[even+1]", {"[0]": "Artifact:Scene.V[1]", "[2]": "Artifact:Scene.V[3]"}),
        (
            "backward",
            "first(jobs.Net.outputs.V[backward+1], jobs.Net.outputs.V[\"a\"])",
            {"[c]": "Artifact:Net.V[a]", "[b]": "Artifact:Net.V[c]", "[a]": "Artifact:Net.V[b]"},
        ),
        # An index that has no place there has no neighbours, and an excluded one is none.
        (
            "some",
            "first(jobs.Net.outputs.V[some-1], inputs.Two)",
            {"[b]": "Artifact:Net.V[a]", "[d]": "Input:Two"},
        ),
        (
            "clip",
            "first(jobs.Scene.outputs.V[clip+1], inputs.Two)",
            {"[0]": "Artifact:Scene.V[1]", "[1]": "Input:Two"},
        ),
        # Leaves: those over a loop in its order, those with fixed indices in the order of their declaration.
        (
            "backward",
            "first(jobs.Scene.outputs.S[0].P[backward+1].G, inputs.Two)",
            {"[c]": "Input:Two", "[b]": "Artifact:Scene.S[0].P[c].G", "[a]": "Artifact:Scene.S[0].P[b].G"},
        ),
    ],
)  # fmt: skip
def test_a_neighbour_is_judged_by_what_is_indexed(
    project: Make, loop: str, reference: str, found: dict[str, str]
) -> None:
    assert bound(project(HEAD, {"echo.py": ECHO}), job(loop, reference)) == found


def refused(lab: Lab, text: str) -> tuple[str, str, str | None]:
    lab.write({"workflow.yaml": text})
    with pytest.raises(InvalidError) as caught:
        lab.opened().graph  # noqa: B018  # it is made when it is asked for
    (said,) = caught.value.diagnostics
    return said.code, said.message, said.hint


@pytest.mark.parametrize(
    ("loop", "reference", "code", "message"),
    [
        ("scene", "inputs.Prompts[scene+1]", "INDEX_OUT_OF_RANGE",
         "`[scene+1]` is out of range: `scene` is `2`, and `Input:Prompts` goes from 0 to 2 (in `Job:J[2]`)"),
        ("clip", "jobs.Clip.outputs.V[clip-1]", "INDEX_OUT_OF_RANGE",
         "`[clip-1]` is out of range: `clip` is `0`, and the loop `clip` of `Clip` goes from 0 to 1 (in `Job:J[0]`)"),
        ("some", "jobs.Net.outputs.V[some-1]", "INDEX_OUT_OF_RANGE",
         "`[some-1]` is out of range: `some` is `d`, and the loop `net` of `Net` has the values `a`, `b`, `c`"
         " (in `Job:J[d]`)"),
        ("clip", "jobs.Scene.outputs.V[clip+1]", "INDEX_OUT_OF_RANGE",
         "`[clip+1]` is out of range: `clip` is `1`, and `Job:Scene[2]` does not exist (in `Job:J[1]`)"),
    ],
)  # fmt: skip
def test_out_of_range_says_what_is_indexed_and_its_hint_binds_no_other_element(
    project: Make, loop: str, reference: str, code: str, message: str
) -> None:
    lab = project(HEAD, {"echo.py": ECHO})
    said = refused(lab, job(loop, reference))
    assert said[:2] == (code, message)
    assert said[2] == f"an instance without this neighbour must name what it takes instead: `first({reference}, …)`"
    followed = bound(lab, job(loop, f"first({reference}, inputs.Two)"))
    edges = [instance for instance, id_ in followed.items() if id_ == "Input:Two"]
    assert message.endswith(f"(in `Job:J{edges[0]}`)")
    # All others bind what they bind without `first`.
    others = job(loop, reference, ", ".join(f"{{{loop}: {edge[1:-1]}}}" for edge in edges))
    assert bound(lab, others) == {instance: id_ for instance, id_ in followed.items() if instance not in edges}


@pytest.mark.parametrize(
    ("loop", "reference", "message"),
    [
        ("net", "first(jobs.Clip.outputs.V[net+1], inputs.Two)",
         "`[net+1]` has no place there: `net` is `a`, and the loop `clip` of `Clip` goes from 0 to 1 (in `Job:J[a]`)"),
        ("decimal", "first(jobs.Clip.outputs.V[decimal-1], inputs.Two)",
         "`[decimal-1]` has no place there: `decimal` is `1.0`, and the loop `clip` of `Clip` goes from 0 to 1"),
    ],
)  # fmt: skip
def test_an_index_of_another_kind_is_refused_also_in_first(
    project: Make, loop: str, reference: str, message: str
) -> None:
    code, said, _ = refused(project(HEAD, {"echo.py": ECHO}), job(loop, reference))
    assert (code, said) == ("INDEX_FORMAT_INVALID", message)
