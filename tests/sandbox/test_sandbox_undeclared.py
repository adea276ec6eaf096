"""An undeclared file does not exist in the sandbox, unless the log knows that the job reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from project_lab import Lab
from whyrun.execution.backends.sandbox.backend import sandbox_backend, why_unavailable
from whyrun.log import events as ev

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason="bubblewrap cannot be used here")

WORKFLOW = """
    workflow: undeclared
    inputs: {Table: {type: file, default: data/table.csv}}
    jobs:
      Reads:
        uses: python
        code: [notes/*.txt]
        with: {call: "work:reads", table: "${{ inputs.Table }}", also: %s}
        outputs: {Seen: {type: json}}
"""
WORK = """
    from pathlib import Path

    import helper

    HERE = Path(__file__).parent

    def reads(table, also):
        found = {name: (HERE / name).read_text() for name in also}
        return {"Seen": {"table": table.read_text(), "helper": helper.WORD, **found}}
"""


def lab_with(tmp_path: Path, also: str) -> Lab:
    return Lab(tmp_path).write(
        {
            "workflow.yaml": WORKFLOW % also,
            "work.py": WORK,
            "helper.py": "WORD = 'imported'\n",
            "data/table.csv": "a\n1\n",
            "data/other.csv": "b\n2\n",
            "notes/one.txt": "declared as code",
        }
    )


def test_declared_inputs_modules_and_files_under_code_are_there(tmp_path: Path) -> None:
    lab = lab_with(tmp_path, "[notes/one.txt]")
    lab.succeed(backend=sandbox_backend())
    seen = {"table": "a\n1\n", "helper": "imported", "notes/one.txt": "declared as code"}
    assert lab.content("Artifact:Reads.Seen") == seen


@pytest.mark.parametrize("name", ["data/other.csv", "data/table.csv", "workflow.yaml"])
def test_a_file_that_nobody_declares_is_not(tmp_path: Path, name: str) -> None:
    lab = lab_with(tmp_path, f"[{name}]")
    ran = lab.run(backend=sandbox_backend())
    (failed,) = ran.of(ev.StepFailed)
    assert (failed.error_type, failed.error) == ("FileNotFoundError", f"[Errno 2] No such file or directory: '{name}'")
    if name == "data/table.csv":  # which is declared, and read by another path than the step was given
        return
    assert [read.path for read in failed.observed] == [name]  # it was absent, and from now on it is known
    lab.succeed(backend=sandbox_backend())
    assert lab.plan().planned == []


def test_what_a_local_run_was_seen_to_read_is_there(tmp_path: Path) -> None:
    listing = """
        from pathlib import Path
        import helper

        def reads(table, also):
            return {"Seen": sorted(path.name for path in (Path(__file__).parent / "data").glob("*.csv"))}
    """
    lab = lab_with(tmp_path, "[]").write({"work.py": listing})
    local = lab.succeed()
    inside = lab.succeed(force=["Job:Reads"], backend=sandbox_backend())
    assert lab.content("Artifact:Reads.Seen") == ["other.csv", "table.csv"]
    assert local.of(ev.StepComplete)[0].observed == inside.of(ev.StepComplete)[0].observed != []
    assert lab.plan().planned == []
