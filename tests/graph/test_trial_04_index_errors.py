"""Issue 17, number 4. An element that does not exist is one clear error wherever it is read, never a traceback."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import ECHO, Lab
from whyrun.errors import InvalidError

Make = Callable[..., Lab]

Said = tuple[str, int | None, str, str | None]

HEAD = """\
workflow: w
inputs:
  Names: {type: "string[]", default: [one]}
  Opt: {type: "string[]", required: false}
  Grid: {type: "integer[][]", default: [[1, 2]]}
  OptGrid: {type: "integer[][]", required: false}
  Topic: {type: string, default: t}
loops: {c: {count: 2}, w: {values: [x, y]}}
jobs:
  A:
    for: [c]
    uses: shell
    with: {run: 'true'}
    outputs: {V: {type: string}, S: {type: json, leaves: {"P[c].G": string}}}
  J:
    for: [c, w]
    uses: shell
"""

# Where a reference is read; `@` stands for it.
READ_PATHS = {
    "with": "    with: {a: '${{ @ }}', run: 'true'}",
    "list": "    with: {a: [1, '${{ @ }}'], run: 'true'}",
    "map": "    with: {a: {b: '${{ @ }}'}, run: 'true'}",
    "formatted string": "    with: {a: 'x ${{ @ }}', run: 'true'}",
    "expression": "    with: {a: '${{ str(@) }}', run: 'true'}",
    "list in an expression": "    with: {a: '${{ [@] }}', run: 'true'}",
    "env": "    env: {A: '${{ @ }}'}\n    with: {run: 'true'}",
    "formatted env": "    env: {A: 'x ${{ @ }}'}\n    with: {run: 'true'}",
    "env that is read again": "    env: {A: '${{ @ }}'}\n    with: {b: '${{ str(env.A) }}', run: 'true'}",
    "if": "    if: ${{ @ }}\n    with: {run: 'true'}",
    "comparison in if": "    if: ${{ 'x' in [@] }}\n    with: {run: 'true'}",
    "first": "    with: {a: '${{ first(@, inputs.Topic) }}', run: 'true'}",
    "exists": "    if: ${{ exists(@) }}\n    with: {run: 'true'}",
    "path": "    with: {run: 'true'}\n    outputs: {T: {type: text, path: 'o/${{ @ }}.txt'}}",
}

# Reference → its code, message and hint.
NOT_THERE = {
    "inputs.Names[1]": (
        "INDEX_OUT_OF_RANGE",
        "`Input:Names[1]`: there is no element 1: the array has 1 (in `Job:J[0][x]`)",
        "elements are counted from 0: the last one is `[0]`",
    ),
    "inputs.Names[c]": (
        "INDEX_OUT_OF_RANGE",
        "`Input:Names[1]`: there is no element 1: the array has 1 (in `Job:J[1][x]`)",
        "declare the loop as `c: {each: inputs.Names}`, or give the array more elements",
    ),
    "inputs.Grid[0][c+1]": (
        "INDEX_OUT_OF_RANGE",
        "`[c+1]` is out of range: `c` is `1`, and `Input:Grid[0]` goes from 0 to 1 (in `Job:J[1][x]`)",
        "an instance without this neighbour must name what it takes instead: `first(inputs.Grid[0][c+1], …)`",
    ),
    "inputs.Names[c-1]": (
        "INDEX_OUT_OF_RANGE",
        "`[c-1]` is out of range: `c` is `0`, and `Input:Names` goes from 0 to 0 (in `Job:J[0][x]`)",
        "an instance without this neighbour must name what it takes instead: `first(inputs.Names[c-1], …)`",
    ),
    "inputs.Grid[5][0]": (
        "INDEX_OUT_OF_RANGE",
        "`Input:Grid[5][0]`: there is no element 5: the array has 1 (in `Job:J[0][x]`)",
        "elements are counted from 0: the last one is `[0]`",
    ),
    "inputs.Opt[0]": (
        "INDEX_PARENT_MISSING",
        "`Input:Opt[0]`: the array was not given, so it has no elements (in `Job:J[0][x]`)",
        "give it with `--set Opt=…`, or declare a `default:`",
    ),
    "inputs.Opt[c-1]": (
        "INDEX_PARENT_MISSING",
        "`Input:Opt[-1]`: the array was not given, so it has no elements (in `Job:J[0][x]`)",
        "give it with `--set Opt=…`, or declare a `default:`",
    ),
    "inputs.OptGrid[0][c]": (
        "INDEX_PARENT_MISSING",
        "`Input:OptGrid[0][0]`: the array was not given, so it has no elements (in `Job:J[0][x]`)",
        "give it with `--set OptGrid=…`, or declare a `default:`",
    ),
    "inputs.Names[w]": (
        "INDEX_FORMAT_INVALID",
        "`Input:Names[x]`: 'x' is not an index: elements are counted from 0 (in `Job:J[0][x]`)",
        "a loop over the positions is declared as `w: {each: inputs.Names}`; the value itself is `${{ w }}`",
    ),
    "jobs.A.outputs.V[c+1]": (
        "INDEX_OUT_OF_RANGE",
        "`[c+1]` is out of range: `c` is `1`, and the loop `c` of `A` goes from 0 to 1 (in `Job:J[1][x]`)",
        "an instance without this neighbour must name what it takes instead: `first(jobs.A.outputs.V[c+1], …)`",
    ),
}
ONLY_OUTSIDE = ("first", "exists")  # there, a neighbour out of range is absent
ONLY_INPUTS = ("path", "env that is read again")


def refused(lab: Lab) -> list[Said]:
    with pytest.raises(InvalidError) as caught:
        lab.plan()
    return [(d.code, d.line, d.message, d.hint) for d in caught.value.diagnostics]


@pytest.mark.parametrize("reference", NOT_THERE)
def test_an_element_that_is_not_there_is_one_error_on_every_read_path(project: Make, reference: str) -> None:
    code, message, hint = NOT_THERE[reference]
    lab = project(HEAD)
    wrong = {}
    for name, body in READ_PATHS.items():
        if (name in ONLY_OUTSIDE and "neighbour" in hint) or (name in ONLY_INPUTS and "jobs." in reference):
            continue
        text = HEAD + body.replace("@", reference)
        text += "\n" if "outputs:" in body else "\n    outputs: {T: {type: text}}\n"
        lab.write({"workflow.yaml": text})
        line = next(n for n, line in enumerate(text.splitlines(), 1) if reference in line)
        said = refused(lab)
        if said != [(code, line, message, hint)]:
            wrong[name] = said
    assert wrong == {}


def test_an_index_where_no_array_is_declared_is_refused(project: Make) -> None:
    text = HEAD + "    env: {A: '${{ inputs.Topic[0] }}'}\n    with: {run: 'true'}\n    outputs: {T: {type: text}}\n"
    assert refused(project(text)) == [
        (
            "INDEX_PARENT_NOT_ARRAY",
            18,
            "the input `Topic` has type `string`: there is no array to select from here",
            "remove the index, or declare an array type",
        )
    ]


def test_an_import_says_where_a_missing_array_is_given(project: Make) -> None:
    lab = project(
        """
        workflow: w
        imports: {Part: {workflow: ./part.yaml}}
        jobs:
          Z:
            uses: shell
            with: {run: 'true'}
            outputs: {T: {type: text}}
        """,
        {
            "part.yaml": """
                workflow: part
                inputs: {Opt: {type: "string[]", required: false}}
                jobs:
                  J:
                    uses: shell
                    env: {A: "${{ inputs.Opt[0] }}"}
                    with: {run: 'true'}
                    outputs: {T: {type: text}}
                """
        },
    )
    ((code, _, message, hint),) = refused(lab)
    assert (code, message) == (
        "INDEX_PARENT_MISSING",
        "`Input:Part/Opt[0]`: the array was not given, so it has no elements",
    )
    assert hint == "give it in `with:` of the import `Part`, or declare a `default:`"


def test_an_instance_for_which_no_candidate_is_there_is_inactive_wherever_it_reads_it(project: Make) -> None:
    head = """\
workflow: w
inputs: {Names: {type: "string[]", default: [a, b]}}
loops: {c: {count: 3}}
jobs:
  J:
    for: [c]
    uses: python
    outputs: {Got: {type: json}}
"""
    reads = {
        "binding": "    with: {call: 'echo:received', n: '${{ @ }}'}",
        "formatted": "    with: {call: 'echo:received', n: 'x ${{ @ }}'}",
        "env": "    env: {N: '${{ @ }}'}\n    with: {call: 'echo:received'}",
        "if": "    if: ${{ lower(@) != '' }}\n    with: {call: 'echo:received'}",
    }
    lab = project(head + reads["binding"], {"echo.py": ECHO})
    for body in reads.values():
        lab.write({"workflow.yaml": head + body.replace("@", "first(inputs.Names[c+1])") + "\n"})
        assert [job.state for job in lab.plan().jobs] == ["planned", "inactive", "inactive"]
    path = "    with: {call: 'echo:received'}\n".join([head, ""]).replace(
        "json}", "json, path: 'out/${{ c }}${{ first(inputs.Names[c+1]) }}.json'}"
    )
    lab.write({"workflow.yaml": path})
    assert refused(lab) == [
        (
            "INDEX_OUT_OF_RANGE",
            8,
            "no candidate of `first(…)` is there for `Job:J[1]`",
            "end the list with one that is always there",
        )
    ]


def test_a_variable_that_only_the_run_knows_is_not_read_in_an_expression(project: Make) -> None:
    text = HEAD + "    env: {A: '${{ jobs.A.outputs.V[c] }}'}\n    with: {b: '${{ env.A }}', run: 'true'}\n"
    text += "    outputs: {T: {type: text}}\n"
    assert refused(project(text)) == [
        (
            "EXPRESSION_FORBIDDEN",
            19,
            "`env.A` cannot be read in an expression: it is not known before the run",
            "write here what `env: {A: …}` holds",
        )
    ]
    followed = project(text.replace("${{ env.A }}", "${{ jobs.A.outputs.V[c] }}"))
    assert len(followed.plan().jobs) == 6


def test_a_mistake_in_every_instance_is_told_once(project: Make) -> None:
    text = HEAD + "    with: {b: '${{ int(inputs.Topic) + c }}', run: 'true'}\n    outputs: {T: {type: text}}\n"
    ((code, line, message, _),) = refused(project(text))
    assert (code, line) == ("WRONG_TYPE", 18)
    assert message.endswith("(in `Job:J[0][x]`)")
