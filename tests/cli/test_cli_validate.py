"""`whyrun validate`: reports all problems together, as text and as JSON."""

from __future__ import annotations

import re
from pathlib import Path

from cli_lab import Answer, dedent, pairs, tree
from cli_lab import whyrun as run_whyrun


def whyrun(folder: Path, *words: str) -> Answer:
    """Of the actions that there are, the nearest: which others are built in is told elsewhere."""
    answer = run_whyrun(folder, *words)
    return Answer(answer.code, answer.out, re.sub(r"(nearest first: `\S+?`), .*", r"\1, …", answer.err))


def test_a_valid_workflow_is_reported_in_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    before = tree(folder)
    answer = whyrun(folder, "validate", "workflow.yaml")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "workflow.yaml: `pairs` is valid: 2 jobs, 3 instances, 2 inputs\n"
    assert whyrun(folder, "validate", "--json").json == {"ok": True, "diagnostics": []}
    assert tree(folder) == before


def test_all_mistakes_of_a_file_come_at_once_with_their_places(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    text = (folder / "workflow.yaml").read_text()
    text = text.replace("inputs.Mark", "inputs.Mrak").replace("outputs.Loud[:]", "outputs.Lout[:]")
    (folder / "workflow.yaml").write_text(text)
    answer = whyrun(folder, "validate")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == dedent("""
        error[UNKNOWN_REFERENCE] workflow.yaml:13:24: the workflow has no input `Mrak`
           13 |       mark: ${{ inputs.Mrak }}
              |                        ^^^^
           hint: did you mean `Mark`?
        error[UNKNOWN_REFERENCE] workflow.yaml:21:37: job `Shout` has no output `Lout`
           21 |       parts: ${{ jobs.Shout.outputs.Lout[:] }}
              |                                     ^^^^
           hint: did you mean `Loud`?
        workflow.yaml: 2 problems
        """)
    as_json = whyrun(folder, "validate", "--json")
    assert as_json.code == 2
    assert as_json.json == {
        "ok": False,
        "diagnostics": [
            {
                "code": "UNKNOWN_REFERENCE",
                "severity": "error",
                "message": "the workflow has no input `Mrak`",
                "file": "workflow.yaml",
                "line": 13,
                "column": 24,
                "hint": "did you mean `Mark`?",
            },
            {
                "code": "UNKNOWN_REFERENCE",
                "severity": "error",
                "message": "job `Shout` has no output `Lout`",
                "file": "workflow.yaml",
                "line": 21,
                "column": 37,
                "hint": "did you mean `Loud`?",
            },
        ],
    }


def test_a_missing_input_does_not_hide_what_is_wrong_with_the_actions(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    text = (folder / "workflow.yaml").read_text()
    text = text.replace('default: "!"', "required: true").replace("uses: shell", "uses: shel", 1)
    (folder / "workflow.yaml").write_text(text)
    answer = whyrun(folder, "validate", "--json")
    assert answer.code == 2
    assert [(d["code"], d["line"]) for d in answer.json["diagnostics"]] == [("INPUT_MISSING", 4), ("INVALID_USES", 10)]
    given = whyrun(folder, "validate", "--json", "--set", "Mark=?")
    assert [(d["code"], d["line"]) for d in given.json["diagnostics"]] == [("INVALID_USES", 10)]


def project(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(dedent(text))
    return folder


def test_a_mistake_in_the_file_does_not_hide_what_is_wrong_with_the_actions(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        steps_py="def count(table): ...\n",
        workflow_yaml="""
        workflow: demo
        inputs:
          N: {type: int}
          Topic: {type: string, default: cinema}
        imports:
          Part: {workflow: part.yaml}
        jobs:
          Misspelt:
            uses: pyhton
          Misplaced:
            uses: shell
            run: echo hello
          Unknown:
            uses: python
            with:
              call: "steps:count"
              table: ${{ inputs.Topik }}
              tabel: 3
          Code:
            uses: shell
            with: {run: "true"}
            code: [none/*.sh]
        """,
        part_yaml="""
        workflow: part
        jobs:
          Inner: {uses: shel, with: {run: "true"}, outputs: {O: {type: fil}}}
        """,
    )
    expected = dedent("""
        error[WRONG_TYPE] workflow.yaml:3:13: there is no type `int`
            3 |   N: {type: int}
              |             ^^^
           hint: write `integer`
        error[INVALID_USES] workflow.yaml:9:11: there is no action `pyhton`
            9 |     uses: pyhton
              |           ^^^^^^
           hint: available, nearest first: `python`, …
        error[UNKNOWN_KEY] workflow.yaml:12:5: job `Misplaced` has no key `run`
           12 |     run: echo hello
              |     ^^^
           hint: `run` belongs under `with:`
        error[UNKNOWN_REFERENCE] workflow.yaml:17:25: the workflow has no input `Topik`
           17 |       table: ${{ inputs.Topik }}
              |                         ^^^^^
           hint: did you mean `Topic`?
        error[INVALID_PARAMETER] workflow.yaml:18:7: `steps:count` has no parameter `tabel`
           18 |       tabel: 3
              |       ^^^^^
           hint: did you mean `table`?
        error[FILE_MISSING] workflow.yaml:22:12: `code: none/*.sh` matches no file
           22 |     code: [none/*.sh]
              |            ^^^^^^^^^
           hint: patterns are relative to the project folder; `**/*.py` also looks into subfolders
        error[INVALID_USES] part.yaml:3:17: there is no action `shel`
            3 |   Inner: {uses: shel, with: {run: "true"}, outputs: {O: {type: fil}}}
              |                 ^^^^
           hint: available, nearest first: `shell`, …
        error[WRONG_TYPE] part.yaml:3:64: there is no type `fil`
            3 |   Inner: {uses: shel, with: {run: "true"}, outputs: {O: {type: fil}}}
              |                                                                ^^^
           hint: did you mean `file`?
        """)
    answer = whyrun(folder, "validate")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == expected + "workflow.yaml: 8 problems\n"
    assert whyrun(folder, "plan").err == expected  # any command says as much


def test_a_missing_input_does_not_hide_what_can_be_told_without_it(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        w_yaml="""
        workflow: demo
        inputs:
          Topic: {type: string}
          Files: {type: "file[]", default: data/*.csv}
          One: {type: file, default: data/*.csv}
        loops:
          f: {each: inputs.Files}
          n: {count: 2}
        imports:
          Part: {workflow: part.yaml, with: {Topic: "${{ inputs.Topic }}"}}
        jobs:
          A:
            uses: shell
            with: {run: "true"}
            outputs:
              O:
                type: file
                path: x
          B:
            for: [n]
            uses: shell
            with: {run: "true"}
            outputs:
              O:
                type: file
                path: x
          C: {uses: shell, with: {run: "true", d: "${{ jobs.D.outputs.O }}"}, outputs: {O: {type: file}}}
          D: {uses: shell, with: {run: "true", c: "${{ jobs.C.outputs.O }}"}, outputs: {O: {type: file}}}
          Each:
            for: [f]
            uses: shell
            with: {run: "true", topic: "about ${{ inputs.Topic }}"}
            outputs: {O: {type: file, path: "out/${{ inputs.Topic }}"}}
          After:
            uses: shell
            with: {run: "true", first: "${{ jobs.Each.outputs.O[0] }}", inner: "${{ jobs.Part.Inner.outputs.O }}"}
          Last: {uses: shel, needs: [After]}
        """,
        part_yaml="""
        workflow: part
        inputs: {Topic: {type: string}}
        jobs:
          Inner: {uses: shell, with: {run: "true", t: "${{ inputs.Topic + 1 }}"}, outputs: {O: {type: file}}}
        """,
    )
    answer = whyrun(folder, "validate", "w.yaml")
    assert (answer.code, answer.out) == (2, "")
    expected = dedent("""
        error[INPUT_MISSING] w.yaml:3:3: the input `Topic` (string) has no value
            3 |   Topic: {type: string}
              |   ^^^^^
           hint: give it with `--set Topic=…` or in a file with `--inputs FILE.yaml`
        error[INPUT_MISSING] w.yaml:4:3: `Input:Files`: no file matches `data/*.csv`
            4 |   Files: {type: "file[]", default: data/*.csv}
              |   ^^^^^
           hint: looked in the project folder: that of `whyrun.toml`, else of the workflow file
        error[INPUT_MISSING] w.yaml:5:3: `Input:One`: there is no file `data/*.csv`
            5 |   One: {type: file, default: data/*.csv}
              |   ^^^
           hint: a pattern needs an array: `file[]`
        error[DUPLICATE_OUTPUT_PATH] w.yaml:26:15: `x` would be written by both `Artifact:A.O` and `Artifact:B.O[0]`
           26 |         path: x
              |               ^
           hint: give each output a path of its own
        error[CYCLE] w.yaml:27:3: these depend on each other in a cycle: Job:C ← Job:D ← Job:C
           27 |   C: {uses: shell, with: {run: "true", d: "${{ jobs.D.outputs.O }}"}, outputs: {O: {type: file}}}
              |   ^
           hint: break it: no instance can wait for itself; `[loop-1]` takes the one before
        error[INVALID_USES] w.yaml:37:16: there is no action `shel`
           37 |   Last: {uses: shel, needs: [After]}
              |                ^^^^
           hint: available, nearest first: `shell`, …
        """)
    assert answer.err == expected + "w.yaml: 6 problems\n"
    err = whyrun(folder, "run", "w.yaml").err
    line, *others = err[: err.index("error[")].splitlines()
    refused = err[err.index("error[") :]
    # A status line for the action, and one for each of the other problems.
    assert [other[20:47] for other in others] == ["[whyrun] INVALID_PARAMETER "] * 5
    assert (line[20:75], refused) == ("[shel] INVALID_USES shel → Available: [shell, sqlite/lo", expected)


def test_all_instances_at_one_path_are_reported_at_the_path(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        w_yaml="""
        workflow: demo
        loops: {n: {count: 2}}
        jobs:
          B:
            for: [n]
            uses: shell
            with: {run: "true"}
            outputs: {O: {type: file, path: x}}
        """,
    )
    assert whyrun(folder, "validate", "w.yaml").err == dedent("""
        error[DUPLICATE_OUTPUT_PATH] w.yaml:8:37: `x` would be written by both `Artifact:B.O[0]` and `Artifact:B.O[1]`
            8 |     outputs: {O: {type: file, path: x}}
              |                                     ^
           hint: put each loop variable into the path, such as `${{ n }}`
        w.yaml: 1 problem
        """)


def test_a_file_that_is_not_there_is_an_error_with_a_hint(tmp_path: Path) -> None:
    answer = whyrun(tmp_path, "validate", "nope.yaml")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == dedent("""
        error[FILE_MISSING]: there is no workflow file `nope.yaml`
           hint: name the file, or make one with `whyrun init`
        """)
    assert whyrun(tmp_path, "validate", "nope.yaml", "--json").json == {
        "ok": False,
        "diagnostics": [
            {
                "code": "FILE_MISSING",
                "severity": "error",
                "message": "there is no workflow file `nope.yaml`",
                "file": None,
                "line": None,
                "column": None,
                "hint": "name the file, or make one with `whyrun init`",
            }
        ],
    }


LOOPS = """\
workflow: loops
inputs: {Many: {type: integer, default: 99999999}}
loops:
  counted: {count: 99999999}
  given: {count: inputs.Many}
  long: {range: 0-999999999999}
  reversed: {range: 5-3}
  listed: {range: [7, -2]}
  words: {range: a-b}
  name: {values: [a, ../../b]}
jobs:
  A:
    for: [name]
    <<: {env: {X: y}}
    uses: shell
    with: {run: 'echo > "$out_O"'}
    outputs: {O: {type: text, path: "out/${{ name }}.txt"}}
"""
FEWER = "a workflow has up to 5000000 job instances: let one job do more of the work"


def test_a_loop_that_is_too_long_or_reversed_and_a_path_of_one_say_so_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(LOOPS)
    problems = whyrun(tmp_path, "validate", "--json").json["diagnostics"]
    assert {(problem["code"], problem["message"], problem["hint"]) for problem in problems} == {
        ("WRONG_TYPE", "loop `counted` is too long: it has 99999999 values", FEWER),
        ("WRONG_TYPE", "loop `given` is too long: it has 99999999 values", FEWER),
        ("WRONG_TYPE", "loop `long` is too long: it has 1000000000000 values", FEWER),
        ("WRONG_TYPE", "`range` of loop `reversed` ends before it begins", "write `3-5`; both ends count"),
        ("WRONG_TYPE", "`range` of loop `listed` ends before it begins", "write `[-2, 7]`; both ends count"),
        (
            "WRONG_TYPE",
            "`range` of loop `words` is not a range of whole numbers",
            "write `0-24` or `[0, 24]`; both ends count",
        ),
        ("UNKNOWN_KEY", "job `A` has no key `<<`", "merge keys are not read: write the keys out"),
        (
            "PATH_OUTSIDE",
            '`out/../../b.txt` of `Job:A["../../b"]`: it leaves the project folder',
            "the path must lie in the project folder: use another value, or leave it out of the path",
        ),
    }
