"""Problems of a first user: leaking file names, silently empty selections, code changes without a file name."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import pytest

from project_lab import Lab, reasons
from whyrun.errors import InvalidError
from whyrun.log.events import StepFailed

Make = Callable[..., Lab]

TWO_LOOPS = """
    workflow: grid
    loops: {a: {values: [x, y]}, b: {range: 0-1}}
    jobs:
      A:
        for: [a, b]
        uses: shell
        with: {run: 'echo "$me" > "$out_X"', me: "${{ a }}-${{ b }}"}
        outputs: {X: {type: text}}
      B:
        for: [a]
        uses: shell
        with: {all: "${{ jobs.A.outputs.X[a, :] }}", run: 'cat "${all[@]}" > "$out_Y"'}
        outputs: {Y: {type: text, path: "y/${{ a }}.txt"}}
"""


def test_selectors_in_the_wrong_order_are_refused_not_empty(project: Make) -> None:
    lab = project(TWO_LOOPS, {})
    lab.succeed()
    assert lab.read("y/x.txt") == "x-0\nx-1\n"
    lab.edit("workflow.yaml", "X[a, :]", "X[:, a]")
    with pytest.raises(InvalidError) as refused:
        lab.plan()
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.message, problem.hint) == (
        "INDEX_OUT_OF_RANGE",
        "`x` is not a value of `b`, the loop of `A` here (in `Job:B[x]`)",
        "its values are `0`, `1`; the order of the loops is `X[a, b]`",
    )


def test_a_selection_that_is_empty_by_exclusion_is_an_empty_list(project: Make) -> None:
    lab = project(TWO_LOOPS, {})
    lab.edit("workflow.yaml", "for: [a, b]", "for: [a, b]\n    exclude: [{a: x}]")
    lab.edit("workflow.yaml", 'cat "${all[@]}"', 'printf "%s\\n" "${#all[@]}"')
    lab.succeed()
    assert (lab.read("y/x.txt"), lab.read("y/y.txt")) == ("0\n", "2\n")


CODE = """
    workflow: code
    jobs:
      Make:
        uses: python
        with: {call: "main:make"}
        outputs: {Text: {type: text, path: out.txt}}
"""


def test_a_changed_file_of_an_action_is_named(project: Make) -> None:
    files = {"main.py": "import helper\ndef make():\n    return {'Text': helper.word()}\n"}
    lab = project(CODE, {**files, "helper.py": "def word():\n    return 'one'\n"})
    lab.succeed()
    lab.edit("helper.py", "one", "two")
    (reason,) = reasons(lab.plan())["Job:Make"]
    assert {key: reason[key] for key in ("code", "binding", "source", "files")} == {
        "code": "INPUT_CHANGED",
        "binding": "action",
        "source": "Input:Make.action",
        "files": ["helper.py"],
    }
    assert lab.succeed().executed == ["Job:Make"]
    lab.edit("main.py", "import helper\n", "")
    lab.edit("main.py", "helper.word()", "'three'")
    (reason,) = reasons(lab.plan())["Job:Make"]
    assert reason["files"] == ["helper.py", "main.py"]  # one is gone from the action, one changed


NAMES = """
    workflow: names
    inputs: {Tables: {type: "file[]", default: "data/*.csv"}}
    loops: {t: {each: inputs.Tables}}
    jobs:
      Look:
        for: [t]
        uses: python
        with: {call: "look:at", table: "${{ inputs.Tables[t] }}", all: "${{ inputs.Tables }}"}
        outputs: {Text: {type: text}}
"""


def test_a_step_does_not_see_the_name_of_a_file_because_it_does_not_count(project: Make) -> None:
    """Renaming an input changes nothing, so nothing may depend on the name: it would be stale."""
    look = "def at(table, all):\n    return {'Text': table.name + ' ' + ' '.join(p.name for p in all)}\n"
    lab = project(NAMES, {"data/first.csv": "1", "data/second.csv": "2", "look.py": look})
    lab.succeed()
    assert lab.content("Artifact:Look.Text[1]") == "table.csv all.0.csv all.1.csv"
    (lab.root / "data/second.csv").rename(lab.root / "data/zweite.csv")
    assert lab.plan().planned == []


def test_an_error_names_the_users_own_path(project: Make) -> None:
    look = "def at(table, all):\n    raise ValueError(f'cannot read {table}')\n"
    lab = project(NAMES, {"data/first.csv": "1", "look.py": look})
    (failed,) = lab.run().of(StepFailed)
    assert (failed.step_id, failed.error_type, failed.error) == (
        "Job:Look[0]",
        "ValueError",
        "cannot read data/first.csv",
    )


def test_a_result_reused_twice_still_names_the_run_that_made_it(project: Make) -> None:
    lab = project(CODE, {"main.py": "def make():\n    return {'Text': 'one'}\n"})
    lab.succeed()
    for _ in range(2):
        (lab.root / "out.txt").unlink()
        assert lab.succeed().reused == {"Job:Make": "r0001"}


def test_state_keeps_itself_out_of_git(project: Make) -> None:
    lab = project(CODE, {"main.py": "def make():\n    return {'Text': 'one'}\n"})
    lab.succeed()
    assert lab.read(".whyrun/.gitignore") == "*\n"


def test_code_edited_while_a_step_runs_fails_it(project: Make) -> None:
    """Lesson 16 for code: with the edit taken back later, the wrong result would look right for ever."""
    edit = "import pathlib\ndef make(at):\n    pathlib.Path(at, 'main.py').write_text('')\n    return {'Text': '1'}\n"
    lab = project(CODE, {"main.py": edit})
    lab.edit("workflow.yaml", '"main:make"', f'"main:make", at: "{lab.root}"')
    said = "the code of `python` was edited since the plan was made (`main.py`)"
    message = f"{said}: the result does not count; run again"
    (failed,) = lab.run().of(StepFailed)
    assert (failed.step_id, failed.error_type, failed.error) == ("Job:Make", "InputChangedDuringRun", message)
    assert not (lab.root / "out.txt").exists()


SUFFIX = """
    workflow: suffix
    jobs:
      A:
        uses: shell
        with: {run: 'basename "$out_F" | sed "s/.*[.]//" > "$out_F"'}
        outputs: {F: {type: file, path: out/x.csv}}
"""


def test_another_suffix_of_an_output_is_another_output(project: Make) -> None:
    lab = project(SUFFIX, {})
    lab.succeed()
    assert lab.read("out/x.csv") == "csv\n"
    lab.edit("workflow.yaml", "x.csv", "x.tsv")
    lab.write({"out/x.tsv": "csv\n"})  # the same bytes at the new place do not make it right
    assert reasons(lab.plan()) == {
        "Job:A": [
            {"code": "MISSING_OUTPUT", "artifact": "Artifact:A.F", "change": "retyped", "path": "out/x.tsv"},
        ]
    }
    assert lab.succeed().executed == ["Job:A"]
    assert lab.read("out/x.tsv") == "tsv\n"


def test_truncated_stored_bytes_count_as_missing(project: Make) -> None:
    lab = project(SUFFIX, {})
    lab.edit("workflow.yaml", ", path: out/x.csv", "")
    lab.succeed()
    blob = lab.blob(sha256(lab.content("Artifact:A.F").encode()).hexdigest())
    blob.chmod(0o644)
    blob.write_text("")
    assert reasons(lab.plan()) == {"Job:A": [{"code": "MISSING_OUTPUT", "artifact": "Artifact:A.F", "change": "lost"}]}
    assert lab.succeed().executed == ["Job:A"]


DETERMINISTIC = """
    workflow: twice
    jobs:
      A: {uses: shell, deterministic: true, with: {run: 'test ! -e FLAG; echo > "$out_F"'}, outputs: {F: {type: file}}}
"""


def test_a_newer_failure_with_the_same_fingerprint_prevents_reuse(project: Make) -> None:
    """The latest attempt with a fingerprint counts, whichever instance made it."""
    lab = project(DETERMINISTIC, {})
    flag = lab.root.parent / "flag"  # outside of the project: there it would be a read that counts
    lab.edit("workflow.yaml", "FLAG", str(flag))
    lab.succeed()
    text = lab.read("workflow.yaml")
    job = text[text.index("  A:") :]
    lab.write({"workflow.yaml": text + job.replace("  A:", "  B:")})
    flag.touch()
    assert lab.succeed().reused == {"Job:B": "r0001"}
    assert lab.run(force=["Job:B"]).failed == {"Job:B": ("FAILED", "CommandFailed")}
    lab.write({"workflow.yaml": text + job.replace("  A:", "  B:") + job.replace("  A:", "  C:")})
    flag.unlink()
    assert {j.id: j.reuse for j in lab.plan().planned} == {"Job:B": None, "Job:C": None}


def test_the_order_of_force_options_does_not_matter(project: Make) -> None:
    lab = project(TWO_LOOPS, {})
    lab.succeed()
    one, all_ = "Job:A[x][0]", "Job:A[*][*]"
    assert lab.plan(force=[one, all_]).to_bytes() == lab.plan(force=[all_, one, one]).to_bytes()


DAMAGED = """
    workflow: damaged
    jobs:
      A: {uses: shell, with: {run: 'echo right > "$out_F"'}, outputs: {F: {type: file}}}
      B:
        uses: shell
        with: {f: "${{ jobs.A.outputs.F }}", run: 'cp "$f" "$out_G"'}
        outputs: {G: {type: file, path: out.txt}}
"""


def test_a_step_never_consumes_bytes_other_than_the_recorded_ones(project: Make) -> None:
    lab = project(DAMAGED, {})
    lab.succeed()
    blob = lab.blob(sha256(b"right\n").hexdigest())
    blob.chmod(0o644)
    blob.write_bytes(b"wrong\n")  # of the same size: only reading it tells
    assert lab.run(force=["Job:B"]).failed == {"Job:B": ("FAILED", "StoreDamaged")}
    assert {job.id: job.headline for job in lab.plan().planned} == {
        "Job:A": "MISSING_OUTPUT",
        "Job:B": "RETRY_PREVIOUS_FAILURE",
    }
    lab.succeed()
    assert lab.read("out.txt") == "right\n"
