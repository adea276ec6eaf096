"""`whyrun validate`: everything that is wrong, at once, for people and programs."""

from __future__ import annotations

from pathlib import Path

from cli_lab import dedent, pairs, tree, whyrun


def test_a_valid_workflow_is_told_in_one_line_and_nothing_is_written(tmp_path: Path) -> None:
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
