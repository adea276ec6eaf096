"""`whyrun compare`: what is told, what is printed, how it ends; and the other commands afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cli_lab import COMMAND, QUIET_ENVIRONMENT, dedent, other_lines, pairs, step_lines, whyrun


@pytest.fixture
def done(tmp_path: Path) -> Path:
    """A project that has run."""
    folder = pairs(tmp_path)
    assert whyrun(folder, "run", "-q").code == 0
    return folder


def spell(folder: Path) -> None:
    """Another action of the same name, with the same parameters: the code of a function that it calls."""
    (folder / "spelling.py").write_text("def spelled(text):\n    return text.title()\n")


LIBRARY = """\
workflow: library
inputs:
  Words: {type: "text[]", default: "words/*.txt"}
loops:
  word: {each: inputs.Words}
jobs:
  Shout:
    for: [word]
    uses: python
    with: {call: "shout:shout", text: "${{ inputs.Words[word] }}"}
    outputs: {Loud: {type: text, path: "out/${{ word }}.txt"}}
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A project that has run, and whose jobs call a library: `spell` changes it."""
    folder = pairs(tmp_path)
    (folder / "workflow.yaml").write_text(LIBRARY)
    (folder / "spelling.py").write_text("def spelled(text):\n    return text.upper()\n")
    (folder / "shout.py").write_text(
        'from spelling import spelled\n\n\ndef shout(text: str):\n    return {"Loud": spelled(text)}\n'
    )
    assert whyrun(folder, "run", "-q").code == 0
    return folder


def test_nothing_differs(done: Path) -> None:
    answer = whyrun(done, "compare")
    assert (answer.code, answer.out) == (0, "")
    assert step_lines(answer.err) == [
        "TIME [shell] IDENTICAL Job:Join in T → outputs: out/all.txt (unchanged)",
        "TIME [shell] IDENTICAL Job:Shout[0] in T → outputs: Artifact:Shout.Loud[0] (unchanged)",
        "TIME [shell] IDENTICAL Job:Shout[1] in T → outputs: Artifact:Shout.Loud[1] (unchanged)",
    ]
    assert other_lines(answer.err) == [
        "3 jobs to execute again and compare",
        "r0002 found no difference in T: 3 identical",
        "  IDENTICAL 3",
        "  USAGE",
        "evidence: .whyrun/pairs/runs/r0002",
    ]


def test_a_changed_library(library: Path) -> None:
    spell(library)
    answer = whyrun(library, "compare", "Job:Shout[0]")
    assert answer.code == 1
    assert step_lines(answer.err) == ["TIME [python] DIFFERENT Job:Shout[0] in T → outputs: out/0.txt (1 line changed)"]
    assert other_lines(answer.err) == [
        "1 job to execute again and compare",
        "r0002 found differences in T: 1 different",
        "  DIFFERENT 1",
        "  USAGE",
        "  Artifact:Shout.Loud[0]  1 line changed (against r0001)",
        "    line 1: `ONE` → `One`",
        "  look closer: whyrun log r0002 --event comparison",
        "evidence: .whyrun/library/runs/r0002",
    ]
    assert (library / "out/0.txt").read_text() == "ONE\n"


def test_changed_parameters_are_not_comparable(done: Path) -> None:
    answer = whyrun(done, "compare", "--set", "Mark=?", "Job:Shout[*]")
    assert answer.code == 0
    assert step_lines(answer.err) == [
        'TIME [shell] SKIPS Job:Shout[0] → not comparable: mark ← Input:Mark "!" → "?"',
        'TIME [shell] SKIPS Job:Shout[1] → not comparable: mark ← Input:Mark "!" → "?"',
    ]
    assert other_lines(answer.err)[:2] == [
        "0 jobs to execute again and compare, 2 to skip",
        "r0002 could compare nothing in T: 2 not comparable",
    ]


def test_json(library: Path) -> None:
    spell(library)
    answer = whyrun(library, "compare", "--json", "--quiet")
    assert answer.code == 1
    assert step_lines(answer.err) == [
        "TIME [python] DIFFERENT Job:Shout[0] in T → outputs: out/0.txt (1 line changed)",
        "TIME [python] DIFFERENT Job:Shout[1] in T → outputs: out/1.txt (1 line changed)",
    ]
    found = answer.json
    assert found["artifacts"] == [
        {"artifact": "Artifact:Shout.Loud[0]", "status": "DIFFERENT", "against": "r0001", "summary": "1 line changed",
         "details": ["line 1: `ONE` → `One`"], "more": 0},
        {"artifact": "Artifact:Shout.Loud[1]", "status": "DIFFERENT", "against": "r0001", "summary": "1 line changed",
         "details": ["line 1: `TWO` → `Two`"], "more": 0},
    ]  # fmt: skip
    assert {k: found[k] for k in ("run", "state", "exit_code", "statuses", "skipped", "executed", "failed")} == {
        "run": "r0002",
        "state": "failed",
        "exit_code": 1,
        "statuses": {"DIFFERENT": 2},
        "skipped": {},
        "executed": [],
        "failed": [],
    }


def test_nothing_to_compare(tmp_path: Path) -> None:
    answer = whyrun(pairs(tmp_path), "compare")
    assert (answer.code, answer.out, answer.err) == (0, "", "nothing to compare: no job has a result\n")
    assert not (tmp_path / ".whyrun/pairs/runs").exists() or os.listdir(tmp_path / ".whyrun/pairs/runs") == []


def test_accept(library: Path) -> None:
    spell(library)
    assert whyrun(library, "compare", "--accept").code == 1
    assert (library / "out/1.txt").read_text() == "Two\n"
    assert whyrun(library, "plan").out == "library after r0002: nothing to do, 2 of 2 jobs up to date\n"
    assert whyrun(library, "compare", "--against", "r0001").code == 1
    assert whyrun(library, "compare").code == 0


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["Job:Nobody"], 2, "error[UNKNOWN_REFERENCE]: `Job:Nobody` names nothing in this workflow"),
        (["--against", "r0099"], 3, "error[RUN_UNKNOWN]"),
        (["one.yaml", "two.yaml"], 2, "error[USAGE]: `two.yaml` is one word too many"),
        (["--limit", "gpu=1"], 2, "error[USAGE]: `--limit gpu`: no job uses the resource `gpu`"),
    ],
)
def test_what_makes_no_sense(done: Path, words: list[str], code: int, told: str) -> None:
    answer = whyrun(done, "compare", *words)
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith(told)
    assert os.listdir(done / ".whyrun/pairs/runs") == ["r0001"]


def test_a_failure(done: Path) -> None:
    workflow = done / "workflow.yaml"
    workflow.write_text(
        workflow.read_text().replace('cat "${parts[@]}"', 'echo "no way" >&2; exit 7; cat "${parts[@]}"')
    )
    assert whyrun(done, "compare", "Job:Join").code == 0, "the script is a parameter: not comparable"
    workflow.write_text(dedent(LIBRARY))
    (done / "shout.py").write_text('def shout(text):\n    raise ValueError("no way")\n')
    answer = whyrun(done, "compare", "Job:Shout[0]", "--json")
    assert answer.code == 1
    assert answer.json["failed"][0]["error"] == "no way"
    assert "  Job:Shout[0]  ValueError: no way" in other_lines(answer.err)
    assert "  look closer: whyrun log r0001 --job 'Job:Shout[0]'" in other_lines(answer.err)


SLOW = """\
workflow: slow
loops: {n: {count: 3}}
jobs:
  J:
    for: [n]
    uses: python
    with: {call: "slow:wait", n: "${{ n }}"}
    outputs: {T: {type: text, path: "out/${{ n }}.txt"}}
"""


def test_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(SLOW)
    (tmp_path / "slow.py").write_text(
        dedent(
            """
            import time
            from pathlib import Path

            HERE = Path(__file__).parent

            def wait(n):
                (HERE / f"began-{n}").touch()
                while (HERE / "wait").exists():
                    time.sleep(0.02)
                return {"T": "x"}
            """
        )
    )
    assert whyrun(tmp_path, "run", "-q").code == 0
    before = whyrun(tmp_path, "plan", "--json").json["digest"]
    for file in tmp_path.glob("began-*"):
        file.unlink()
    (tmp_path / "wait").touch()
    process = subprocess.Popen(
        [*COMMAND, "compare", "--jobs", "1"], cwd=tmp_path, env=QUIET_ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob("began-*")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert step_lines(err) == ["TIME [python] FAILED Job:J[0] after T → interrupted"]
    assert other_lines(err) == [
        "3 jobs to execute again and compare",
        "r0002 was interrupted in T: 1 interrupted, 2 not started",
        "  USAGE",
        "evidence: .whyrun/slow/runs/r0002",
    ]
    status = whyrun(tmp_path, "runs", "--json").json["runs"][1]
    assert (status["state"], status["mode"], status["interrupted"]) == ("interrupted", "compare", 1)
    assert whyrun(tmp_path, "plan", "--json").json["digest"] == before


# --- afterwards --------------------------------------------------------------------------------------------------


def test_other_commands_know_of_it(library: Path) -> None:
    spell(library)
    whyrun(library, "compare", "-q", "--jobs", "1")
    runs = whyrun(library, "runs")
    assert re.search(r"r0002  failed +compare .* 2 planned, 2 completed, 2 different", runs.out)
    listed = whyrun(library, "runs", "--json").json["runs"]
    assert "different" not in listed[0]
    assert (listed[1]["mode"], listed[1]["identical"], listed[1]["different"]) == ("compare", 0, 2)
    assert listed[1]["error"] == "Artifact:Shout.Loud[0]: DIFFERENT: 1 line changed"
    history = whyrun(library, "history", "Job:Shout[0]", "--json").json["entries"]
    assert [(entry["run"], entry["status"], entry.get("mode")) for entry in history] == [
        ("r0001", "EXECUTES", None),
        ("r0002", "DIFFERENT", "compare"),
    ]
    log = whyrun(library, "log", "r0002", "--job", "Job:Shout[0]", "--status", "DIFFERENT").out
    assert [line.split()[2] for line in log.splitlines()] == ["comparison", "step_complete"]
    assert re.search(r"Artifact:Shout.Loud\[0\] +available  r0001", whyrun(library, "status").out)
    assert whyrun(library, "show", "r0002").code == 0
    assert whyrun(library, "diff", "r0001", "r0002").code == 0
    at = whyrun(library, "plan", "--at", "r0002")
    assert (at.code, at.err.splitlines()[0]) == (
        2,
        "error[USAGE]: r0002 is a run of mode `compare`: it has no plan",
    )
