"""`whyrun runs`: the planned steps and the outcome of each run."""

from __future__ import annotations

import re
from pathlib import Path

from cli_lab import dedent, whyrun
from question_lab import plain, run, tale


def test_runs_are_listed_the_latest_first(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    assert whyrun(folder, "runs").out == "tale has not run yet\n"
    run(folder)
    (folder / "words/a.txt").write_text("broken\n")
    run(folder, code=1)
    (folder / "words/a.txt").write_text("one\n")
    run(folder)
    (folder / "out/all.txt").write_text("mine\n")
    assert whyrun(folder, "adopt", "Artifact:Join.All", "out/all.txt").code == 0
    answer = whyrun(folder, "runs")
    assert (answer.code, answer.err) == (0, "")
    assert re.sub(" {2,}", "  ", plain(answer.out)) == dedent("""
        run  state  mode  started  took  steps
        r0004  succeeded  adopt  TIME  0.0s  1 adopted
        r0003  succeeded  run  TIME  0.0s  1 planned, 1 reused
        r0002  failed  run  TIME  0.0s  3 planned, 1 failed, 2 blocked
        r0001  succeeded  run  TIME  0.0s  6 planned, 4 completed, 2 skipped
        """)
    header, *rows = answer.out.splitlines()
    assert {row[header.index("steps") - 2 : header.index("steps")] for row in rows} == {"  "}  # columns are aligned


def test_a_run_as_json(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    (folder / "words/a.txt").write_text("broken\n")
    run(folder, code=1)
    found = whyrun(folder, "runs", "--json").json
    (only,) = found["runs"]
    assert only.pop("started") < only.pop("ended")
    assert only.pop("duration") > 0
    assert found == {
        "workflow": "tale",
        "runs": [
            {
                "run": "r0001", "state": "failed", "mode": "run", "planned": 6, "completed": 1, "reused": 0,
                "skipped": 2, "failed": 1, "blocked": 2, "interrupted": 0,
                "error": "Job:Shout[0]: CommandFailed: exit status 3: it is broken",
            }
        ],
    }  # fmt: skip


def test_a_result_that_could_not_be_put_in_place_was_not_reused(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("""\
workflow: w
jobs:
  A: {uses: shell, with: {run: 'echo 1 > "$out_S"'}, outputs: {S: {type: json, path: all.json, append: true}}}
""")
    run(tmp_path)
    (tmp_path / "all.json").write_text("no json")
    run(tmp_path, code=1)
    latest = whyrun(tmp_path, "runs", "--json").json["runs"][-1]
    counted = {name: latest[name] for name in ("run", "planned", "completed", "reused", "skipped", "failed", "blocked")}
    assert counted == {
        "run": "r0002", "planned": 1, "completed": 0, "reused": 0, "skipped": 0, "failed": 1, "blocked": 0,
    }  # fmt: skip


def test_a_comparison_that_is_pruned_is_called_as_in_the_list_and_takes_no_result_away(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("""\
workflow: w
inputs: {X: {type: string, default: a}}
jobs:
  A: {uses: shell, with: {x: "${{ inputs.X }}", run: 'date +%N > "$out_T"'}, outputs: {T: {type: text}}}
""")
    run(tmp_path)
    assert whyrun(tmp_path, "compare", "-q").code == 1
    run(tmp_path, "--set", "X=b")
    (row,) = [line for line in whyrun(tmp_path, "runs").out.splitlines() if line.startswith("r0002")]
    assert row.split()[1:3] == ["differences", "compare"]
    found = whyrun(tmp_path, "runs", "prune", "r0002", "--set", "X=b")
    first, second, last = found.out.splitlines()
    assert first.startswith("w: 1 run of 3 can be pruned")
    assert second.split()[:3] == ["r0002", "differences", "compare"]
    assert last.startswith("hint: `--delete` removes them")
    assert whyrun(tmp_path, "runs", "prune", "r0002", "--json", "--set", "X=b").json["jobs"] == []


def test_the_last_run_that_is_gone_is_reported_before_anything_is_paid_for_again(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / ".whyrun/tale/runs/r0001").rename(tmp_path / "away")
    note = (
        "note: r0001 is missing, but the lock names it as the last run: its results count as missing. Restore it "
        "from a copy; or continue without it: the next run takes its number"
    )
    for words in (["plan"], ["explain"], ["run", "--dry-run"], ["run"]):
        assert note in whyrun(folder, *words).err.splitlines(), words
    assert note not in whyrun(folder, "plan").err.splitlines()
