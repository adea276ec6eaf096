"""`workdir: project`: scripts that know nothing of Whyrun run where they are, and their outputs are collected there."""

from __future__ import annotations

from pathlib import Path

import pytest

from project_lab import Lab, reasons
from whyrun.execution.backends.sandbox.backend import sandbox_backend, why_unavailable
from whyrun.execution.files.scratch import JOURNAL, displace, put_back
from whyrun.execution.reads.strace_eye import StraceEye
from whyrun.log import events as ev

WORKFLOW = """
workflow: as-they-are
inputs: {Table: {type: file, default: data/x.csv}}
defaults: {workdir: project}
jobs:
  Make:
    uses: python
    with: {script: make.py, table: "${{ inputs.Table }}"}
    outputs: {Y: {type: file, path: results/y.csv}}
  Sum:
    uses: shell
    with: {y: "${{ jobs.Make.outputs.Y }}", run: 'cat results/y.csv > results/sum.txt; echo x > results/left.txt'}
    outputs: {Text: {type: text, path: results/sum.txt}}
"""
MAKE = """
import pathlib

import helper

assert not pathlib.Path("results/y.csv").exists()
text = pathlib.Path("data/x.csv").read_text() + helper.WORD
pathlib.Path("results/y.csv").write_text(text)
"""
FILES = {"workflow.yaml": WORKFLOW, "make.py": MAKE, "helper.py": "WORD = 'one'\n", "data/x.csv": "a,b\n"}


def one_job(script: str, more: str = "") -> str:
    return f"""
workflow: one
jobs:
  Job:
    uses: shell
    workdir: project
    {more}
    with:
      run: |
        {script}
    outputs: {{Y: {{type: text, path: results/y.txt}}}}
"""


def test_scripts_read_and_write_by_their_own_paths(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write(FILES)
    first = lab.succeed()
    assert lab.read("results/sum.txt") == "a,b\none"
    assert lab.plan().planned == []
    lab.write({"helper.py": "WORD = 'two'\n"})
    assert sorted(reasons(lab.plan())) == ["Job:Make", "Job:Sum"]
    lab.succeed()
    assert lab.read("results/sum.txt") == "a,b\ntwo"
    assert first.of(ev.FileDisplaced) == []
    if not StraceEye(tmp_path, str(tmp_path)).why_not():
        assert "Job:Sum writes results/left.txt, which no output declares" in first.heard.notes


def test_the_folder_counts_and_built_in_actions_have_none(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({"workflow.yaml": one_job('echo y > "$out_Y"'), "a.txt": "a"})
    lab.succeed()
    lab.edit("workflow.yaml", "workdir: project", "workdir: scratch")
    assert list(reasons(lab.plan())) == ["Job:Job"]
    copy = "{uses: file/copy, workdir: project, with: {source: '${{ inputs.A }}'}, outputs: {copy: {type: file}}}"
    inputs = "inputs: {A: {type: file, default: a.txt}}"
    other = Lab(tmp_path).write({"other.yaml": f"workflow: other\n{inputs}\njobs:\n  Copy: {copy}\n"})
    other.file = tmp_path / "other.yaml"
    before = other.snapshot().actions["Copy"].sha256
    other.edit("other.yaml", "workdir: project, ", "")
    assert other.snapshot().actions["Copy"].sha256 == before


def test_what_stood_there_is_kept_and_never_collected(tmp_path: Path) -> None:
    files = {"workflow.yaml": one_job("test ! -e results/y.txt"), "results/y.txt": "mine\n"}
    lab = Lab(tmp_path).write(files)
    failed = lab.run()
    assert failed.failed == {"Job:Job": ("FAILED", "MissingOutput")}
    assert lab.read("results/y.txt") == "mine\n"
    lab.edit("workflow.yaml", "test ! -e", "echo new >")
    ran = lab.succeed()
    assert lab.read("results/y.txt") == "new\n"
    (displaced,) = ran.of(ev.FileDisplaced)
    assert (displaced.path, lab.blob(displaced.sha256).read_text()) == ("results/y.txt", "mine\n")


ENDS = {
    "fails": ("exit 3", "", ("FAILED", "CommandFailed")),
    "takes too long": ("sleep 600", "timeout: 1s", ("TIMED_OUT", "TimedOut")),
    "kills its worker": ("kill -9 $PPID; sleep 600", "", ("FAILED", "WorkerDied")),
}


@pytest.mark.parametrize("how", ENDS)
def test_after_a_failure_all_is_as_before_and_the_partial_file_is_evidence(tmp_path: Path, how: str) -> None:
    script, more, expected = ENDS[how]
    lab = Lab(tmp_path).write(
        {"workflow.yaml": one_job("echo first > results/y.txt"), "whyrun.toml": 'trace = "never"'}
    )
    lab.succeed()
    lab.write({"workflow.yaml": one_job(f"echo half > results/y.txt; {script}", more)})
    failed = lab.run(jobs=1)
    assert failed.failed == {"Job:Job": expected}
    assert lab.read("results/y.txt") == "first\n"
    assert failed.folder is not None
    assert (failed.folder / "steps/Job/scratch/work/results/y.txt").read_text() == "half\n"


@pytest.mark.skipif(why_unavailable() is not None, reason="bubblewrap cannot be used here")
def test_in_a_sandbox_it_is_a_copy(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({**FILES, "whyrun.toml": 'trace = "never"'})
    lab.succeed(backend=sandbox_backend())
    assert lab.read("results/sum.txt") == "a,b\none"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".whyrun", "data", "helper.py", "make.py", "results", "whyrun.toml", "workflow.yaml",
    ]  # fmt: skip


def test_a_container_does_not_see_the_project(tmp_path: Path) -> None:
    more = f'container: {{image: "debian@sha256:{"a" * 64}"}}'
    lab = Lab(tmp_path).write({"workflow.yaml": one_job("true", more)})
    (one,) = lab.opened().problems
    assert (one.code, one.message) == ("INVALID_USES", "a container sees its inputs and not the project folder")


@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_putting_aside_can_be_interrupted_anywhere(tmp_path: Path, renamed: int) -> None:
    """`renamed`: how many files were put aside, or put back, when the kill came."""
    scratch = tmp_path / "scratch"
    lab = Lab(tmp_path / "project").write({"a.txt": "a", "b.txt": "b"})
    scratch.mkdir()
    displace(scratch, lab.root, ["a.txt", "b.txt", "new/c.txt"])
    for number, name in [(1, "b.txt"), (0, "a.txt")][: 2 - renamed]:
        (scratch / "displaced" / str(number)).rename(lab.root / name)
    lab.write({"new/c.txt": "partial"})
    put_back(scratch)
    put_back(scratch)
    assert (lab.read("a.txt"), lab.read("b.txt")) == ("a", "b")
    assert not (lab.root / "new/c.txt").exists()
    assert (scratch / "work/new/c.txt").read_text() == "partial"
    assert not (scratch / JOURNAL).exists()


BOUND = """
workflow: bound
inputs: {Raw: {type: file, default: data/raw.csv}}
defaults: {workdir: project, uses: python}
jobs:
  Clean:
    uses: shell
    with:
      raw: ${{ inputs.Raw }}
      run: |
        cp data/raw.csv results/clean.csv
        printf 2 > results/rows.json
        mkdir -p "$out_Parts"
        for name in a b; do printf "$name" > "$out_Parts/$name.txt"; done
    outputs:
      Table: {type: file, path: results/clean.csv}
      Rows: {type: integer, path: results/rows.json}
      Parts: {type: "file[]", path: results/parts}
  Fit:
    with:
      script: fit.py
      table: ${{ jobs.Clean.outputs.Table }}
      rows: ${{ jobs.Clean.outputs.Rows }}
      part: ${{ jobs.Clean.outputs.Parts['b'] }}
    outputs: {Model: {type: text, path: results/model.txt}}
"""
FIT = """
import pathlib
paths = ("results/clean.csv", "results/rows.json", "results/parts/b.txt")
pathlib.Path("results/model.txt").write_text("".join(pathlib.Path(path).read_text() for path in paths))
"""


def test_what_a_step_binds_is_declared_also_by_its_published_path(tmp_path: Path) -> None:
    files = {"fit.py": FIT, "data/raw.csv": "r", "results/.keep": "", "whyrun.toml": "strict = true"}
    lab = Lab(tmp_path).write({"workflow.yaml": BOUND, **files})
    ran = lab.succeed()
    assert lab.read("results/model.txt") == "r2b"
    assert [event.observed for event in ran.of(ev.StepComplete)] == [None, None]
    assert lab.plan().planned == []


@pytest.mark.parametrize("undeclared", ["results/parts/a.txt", "data/raw.csv"])
def test_another_element_and_an_input_of_another_job_are_not_declared(tmp_path: Path, undeclared: str) -> None:
    files = {"data/raw.csv": "r", "results/.keep": "", "whyrun.toml": "strict = true"}
    lab = Lab(tmp_path).write({"workflow.yaml": BOUND, **files})
    lab.write({"fit.py": FIT.replace("results/parts/b.txt", undeclared)})
    (failed,) = lab.run().of(ev.StepFailed)
    assert (failed.step_id, failed.error_type, failed.error) == (
        "Job:Fit",
        "UndeclaredRead",
        f"`{undeclared}` was read, and nothing declares it: write `code: [{undeclared}]` in `Job:Fit`",
    )
