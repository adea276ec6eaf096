"""`whyrun compare`: its output and exit status, and other commands afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from cli_lab import COMMAND, QUIET_ENVIRONMENT, dedent, other_lines, pairs, step_lines, timeless, tree, whyrun

from project_lab import wait_until


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
        "r0002 compared nothing in T: 2 not comparable",
    ]
    # An exit status of 0 alone would read as if nothing differed: it is said even to who wants to hear little.
    quiet = whyrun(done, "compare", "--set", "Mark=?", "Job:Shout[*]", "-q")
    assert (quiet.code, quiet.err) == (
        0,
        'note: nothing was compared: 2 jobs skipped, such as Job:Shout[0] (mark ← Input:Mark "!" → "?")\n',
    )


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
    assert whyrun(library, "compare", "-q").code == 1
    answer = whyrun(library, "compare", "--accept")
    assert answer.code == 1
    assert step_lines(answer.err) == [
        "TIME [python] DIFFERENT Job:Shout[0] in T → outputs: out/0.txt (1 line changed) → accepted",
        "TIME [python] DIFFERENT Job:Shout[1] in T → outputs: out/1.txt (1 line changed) → accepted",
    ]
    assert other_lines(answer.err)[:4] == [
        "2 jobs to execute again and compare",
        "r0003 found differences in T: 2 different",
        "  accepted: 2 results are now the latest",
        "  DIFFERENT 2",
    ]
    runs = whyrun(library, "runs").out.splitlines()
    assert [line.split()[:3] for line in runs[1:]] == [
        ["r0003", "accepted", "compare"],
        ["r0002", "differences", "compare"],
        ["r0001", "succeeded", "run"],
    ]
    assert [run.get("accepted") for run in whyrun(library, "runs", "--json").json["runs"]] == [None, False, True]
    history = whyrun(library, "history", "Job:Shout[0]").out
    assert re.findall(r"(r\d{4}) .*?(EXECUTES|DIFFERENT \([a-z, ]+\))", history) == [
        ("r0001", "EXECUTES"),
        ("r0002", "DIFFERENT (compare)"),
        ("r0003", "DIFFERENT (compare, accepted)"),
    ]
    entries = whyrun(library, "history", "Job:Shout[0]", "--json").json["entries"]
    assert [entry.get("accepted") for entry in entries] == [None, False, True]
    assert (library / "out/1.txt").read_text() == "Two\n"
    assert whyrun(library, "plan").out == "library after r0003: nothing to do, 2 of 2 jobs up to date\n"
    assert whyrun(library, "compare", "--against", "r0001").code == 1
    assert whyrun(library, "compare").code == 0


def test_changed_code_with_the_same_results_can_be_made_up_to_date(library: Path) -> None:
    tidied = (library / "spelling.py").read_text() + "\n\ndef unused():\n    return None\n"
    (library / "spelling.py").write_text(tidied)
    answer = whyrun(library, "compare", "-q")
    assert answer.code == 0
    assert answer.err == (
        "note: the code of 2 jobs has changed, but the results are the same; to make them up to date, execute them "
        "once more with `whyrun compare --accept` or `whyrun run`\n"
    )
    accepted = whyrun(library, "compare", "--accept", "--json")
    assert accepted.json["accepted"] == ["Job:Shout[0]", "Job:Shout[1]"]
    assert "  accepted: 2 results are now the latest" in other_lines(accepted.err)
    assert whyrun(library, "plan").out == "library after r0003: nothing to do, 2 of 2 jobs up to date\n"
    again = whyrun(library, "compare", "-q", "--json")
    assert (again.err, again.json["accepted"], again.json["outdated"]) == ("", [], [])


def test_a_dry_run_lists_what_would_be_executed(library: Path) -> None:
    spell(library)
    (library / "words/b.txt").write_text("three\n")
    before = tree(library)
    answer = whyrun(library, "compare", "--dry-run")
    assert (answer.code, answer.err) == (0, "dry run: nothing was executed or recorded\n")
    assert re.sub(r"\b[0-9a-f]{4}…", "HASH…", timeless(answer.out)).splitlines() == [
        "1 job to execute again and compare, 1 to skip",
        "TIME [python] WOULD_EXECUTE Job:Shout[0] in T → to compare with r0001",
        "TIME [python] WOULD_SKIP Job:Shout[1] → not comparable: text ← Input:Words[1] HASH… → HASH…",
    ]
    found = whyrun(library, "compare", "--dry-run", "--json", "Job:Shout[0]").json
    assert isinstance(found.pop("estimate_seconds"), float)
    job = {"id": "Job:Shout[0]", "status": "WOULD_EXECUTE", "why": "to compare with r0001"}
    assert found == {"dry_run": True, "jobs": [job]}
    changed = {path for path, data in tree(library).items() if before.get(path) != data}
    assert {path for path in changed if not path.endswith("stat-cache")} == set()
    assert whyrun(library, "compare", "--dry-run", "Job:Nobody").code == 2


def test_a_version_that_was_adopted(library: Path) -> None:
    (library / "out/0.txt").write_text("MINE\n")
    assert whyrun(library, "adopt", "Artifact:Shout.Loud[0]", "out/0.txt").code == 0
    told = "to compare with r0002, adopted"
    assert whyrun(library, "compare", "--dry-run", "--json", "Job:Shout[0]").json["jobs"][0]["why"] == told
    answer = whyrun(library, "compare", "Job:Shout[0]", "--json")
    assert answer.code == 1
    assert step_lines(answer.err) == [
        "TIME [python] DIFFERENT Job:Shout[0] in T → outputs: out/0.txt (1 line changed, adopted before)"
    ]
    assert "  Artifact:Shout.Loud[0]  1 line changed (against r0002, adopted)" in other_lines(answer.err)
    (artifact,) = answer.json["artifacts"]
    assert (artifact["against"], artifact["adopted"]) == ("r0002", True)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["Job:Nobody"], 2, "error[UNKNOWN_REFERENCE]: `Job:Nobody` names nothing in this workflow"),
        (["--against", "r0099"], 3, "error[RUN_UNKNOWN]"),
        (["one.yaml", "two.yaml"], 2, "error[USAGE]: `two.yaml` is one argument too many"),
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
    folder = tmp_path / "project"  # what the steps wait for lies outside of it: else it would be an undeclared read
    folder.mkdir()
    (folder / "workflow.yaml").write_text(SLOW)
    (folder / "slow.py").write_text(
        dedent(
            """
            import time
            from pathlib import Path

            HERE = Path(__file__).parent.parent

            def wait(n):
                (HERE / f"began-{n}").touch()
                while (HERE / "wait").exists():
                    time.sleep(0.02)
                return {"T": "x"}
            """
        )
    )
    assert whyrun(folder, "run", "-q").code == 0
    before = whyrun(folder, "plan", "--json").json["digest"]
    for file in tmp_path.glob("began-*"):
        file.unlink()
    (tmp_path / "wait").touch()
    process = subprocess.Popen(
        [*COMMAND, "compare", "--jobs", "1"], cwd=folder, env=QUIET_ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    log = folder / ".whyrun/slow/runs/r0002/events.jsonl"
    wait_until(lambda: list(tmp_path.glob("began-*")) != [] and '"step_start"' in log.read_text())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert step_lines(err) == ["TIME [python] FAILED Job:J[0] after T → interrupted"]
    assert other_lines(err) == [
        "3 jobs to execute again and compare",
        "note: stopping: waiting for 1 step, 10 s at most; Ctrl-C again ends it now",
        "r0002 was interrupted in T: 1 interrupted, 2 not started",
        "  USAGE",
        "evidence: .whyrun/slow/runs/r0002",
    ]
    status = whyrun(folder, "runs", "--json").json["runs"][1]
    assert (status["state"], status["mode"], status["interrupted"]) == ("interrupted", "compare", 1)
    assert whyrun(folder, "plan", "--json").json["digest"] == before


# --- afterwards --------------------------------------------------------------------------------------------------


def test_other_commands_know_of_it(library: Path) -> None:
    spell(library)
    whyrun(library, "compare", "-q", "--jobs", "1")
    runs = whyrun(library, "runs")
    assert re.search(r"r0002  differences  compare .* 2 planned, 2 completed, 2 different", runs.out)
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
