"""`whyrun init`: the created workflow runs as it is."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from cli_lab import dedent, other_lines, step_lines, tree, whyrun

from project_lab import Lab
from whyrun.cli.commands.init import FILES
from whyrun.execution.reads.strace_eye import StraceEye


def test_init_says_what_it_made_and_what_comes_next(tmp_path: Path) -> None:
    answer = whyrun(tmp_path, "init", "mine")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == dedent("""
        created mine/workflow.yaml, mine/words.py, mine/texts/rain.txt, mine/texts/sun.txt
        next:
          cd mine
          whyrun explain        show what would run, and why
          whyrun run            run it; a second run has nothing to do
          echo more words >> texts/sun.txt && whyrun explain
        """)
    assert tree(tmp_path / "mine") == {name: text.encode() for name, text in sorted(FILES.items())}


def test_what_init_makes_is_valid_runs_and_then_has_nothing_to_do(tmp_path: Path) -> None:
    assert whyrun(tmp_path, "init").code == 0
    assert whyrun(tmp_path, "validate").out == ("workflow.yaml: `word-count` is valid: 3 jobs, 5 instances, 3 inputs\n")
    first = whyrun(tmp_path, "run")
    assert (first.code, first.out) == (0, "")
    assert step_lines(first.err) == [
        "TIME [python] EXECUTES Job:Count[0] in T → inputs: texts/rain.txt (52B) "
        "→ outputs: Artifact:Count.Words[0] (31B)",
        "TIME [python] EXECUTES Job:Count[1] in T → inputs: texts/sun.txt (17B) "
        "→ outputs: Artifact:Count.Words[1] (28B)",
        "TIME [python] EXECUTES Job:Report in T → inputs: Artifact:Count.Words[0] (31B), Artifact:Count.Words[1] (28B)"
        " → outputs: out/report.txt (27B)",
        "TIME [shell] EXECUTES Job:Praise[0] in T → outputs: out/praise-0.txt (19B)",
        "TIME [shell] SKIPS Job:Praise[1] → condition is false",
    ]
    assert other_lines(first.err) == [
        "word-count before its first run: 5 of 5 jobs to run",
        "r0001 succeeded in T: 4 executed, 1 inactive",
        "  EXECUTES 4, SKIPS 1 (1 inactive)",
        "  USAGE",
        "evidence: .whyrun/word-count/runs/r0001",
    ]
    assert (tmp_path / "out/report.txt").read_text() == "Hello: 15 words in 2 texts\n"
    second = whyrun(tmp_path, "run")
    assert (second.code, second.out) == (0, "")
    assert second.err == "word-count after r0001: nothing to do, 4 of 5 jobs up to date, 1 inactive\n"


def test_init_writes_over_nothing_and_makes_nothing_if_one_file_is_there(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text("mine\n")
    answer = whyrun(tmp_path, "init")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == dedent("""
        error[NAME_TAKEN]: `words.py` exists already
           hint: name another folder, such as `whyrun init my-project`
        """)
    assert tree(tmp_path) == {"words.py": b"mine\n"}


@pytest.mark.parametrize(
    ("taken", "folder", "what"),
    [
        ("README.md", ".", "`README.md` exists already"),
        ("f", "f", "`f` is no folder"),
        ("f", "f/g", "`f` is no folder"),
    ],
)
def test_an_example_that_has_no_room_names_its_own_command(tmp_path: Path, taken: str, folder: str, what: str) -> None:
    (tmp_path / taken).write_text("mine\n")
    answer = whyrun(tmp_path, "init", "--example", "media", folder)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == dedent(f"""
        error[NAME_TAKEN]: {what}
           hint: name another folder, such as `whyrun init --example media my-project`
        """)
    assert tree(tmp_path) == {taken: b"mine\n"}


# --- from commands -----------------------------------------------------------------------------------------------

SCRIPTS = {
    "make.py": "import helper\nopen('clean.csv', 'w').write(open('data/raw.csv').read().upper() + helper.WORD)\n",
    "train.py": "import sys\nprint(sys.argv[1], open('clean.csv').read(), file=open('out/model.txt', 'w'))\n",
    "helper.py": "WORD = 'one'\n",
    "data/raw.csv": "a,b\n",
    "out/notes.md": "mine\n",
}
PYTHON = shlex.quote(sys.executable)
IMPLIED = f"""\
workflow: my-study
defaults: {{workdir: project}}
inputs:
  RawCsv: {{type: file, default: data/raw.csv}}
jobs:
  Make:
    uses: shell
    with:
      run: "{PYTHON} make.py"
      file_raw_csv: ${{{{ inputs.RawCsv }}}}
    code: [helper.py, make.py]
    outputs:
      CleanCsv: {{type: file, path: clean.csv}}
  Train:
    uses: shell
    with:
      run: "{PYTHON} train.py 3"
      file_clean_csv: ${{{{ jobs.Make.outputs.CleanCsv }}}}
    code: [train.py]
    outputs:
      ModelTxt: {{type: text, path: out/model.txt}}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    problem = StraceEye(tmp_path, str(tmp_path)).why_not()
    if problem:
        pytest.skip(problem)
    folder = tmp_path / "My study"
    for name, text in SCRIPTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_commands_become_the_workflow_that_they_imply_and_have_run(study: Path) -> None:
    answer = whyrun(study, "init", "--from", f"{PYTHON} make.py", f"{PYTHON} train.py 3")
    assert (answer.code, answer.err) == (0, f"$ {PYTHON} make.py\n$ {PYTHON} train.py 3\n")
    assert answer.out.startswith("created workflow.yaml; r0001 recorded what the commands made\n")
    text = (study / "workflow.yaml").read_text()
    assert "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#")) == IMPLIED
    lab = Lab(study)
    assert lab.plan().planned == []
    # Of another length: Python takes a `.pyc` file for a source of the same size and second.
    (study / "helper.py").write_text("WORD = 'second'\n")
    assert [job.id for job in lab.plan().planned] == ["Job:Make", "Job:Train"]
    ran = lab.succeed()
    assert (study / "out/model.txt").read_text() == "3 A,B\nsecond\n"
    assert lab.plan().planned == []
    assert [note for note in ran.heard.notes if "bind it" in note] == []  # it is bound, and read by its path
    edits = {
        "data/raw.csv": ("a,b\n", "c,d\n", ["Job:Make", "Job:Train"]),
        "make.py": (".upper()", ".lower()", ["Job:Make", "Job:Train"]),
        "train.py": ("sys.argv[1]", "sys.argv[1] * 2", ["Job:Train"]),
        "workflow.yaml": ("train.py 3", "train.py 4", ["Job:Train"]),
    }
    for name, (old, new, planned) in edits.items():
        lab.edit(name, old, new)
        assert [job.id for job in lab.plan().planned] == planned, name
        lab.edit(name, new, old)
    assert lab.plan().planned == []


def test_commands_that_fail_or_write_the_same_file_leave_no_workflow(study: Path) -> None:
    def problem(*commands: str) -> str:
        answer = whyrun(study, "init", "--from", *commands)
        assert answer.code == 2
        return next(line for line in answer.err.splitlines() if line.startswith("error["))

    assert problem("echo x > clean.csv", "exit 3") == "error[USAGE]: `exit 3` ended with status 3"
    same = "error[USAGE]: `echo y > a.txt` writes `a.txt`, as an earlier command does"
    assert problem("echo x > a.txt", "echo y > a.txt") == same
    assert problem() == "error[USAGE]: `--from` needs commands"
    assert not (study / "workflow.yaml").exists()
    (study / "workflow.yaml").write_text("")
    assert problem("true") == "error[NAME_TAKEN]: `workflow.yaml` exists already"
