"""`whyrun runs`: what each run was to do and how it ended."""

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
        r0004  succeeded  adopt  TIME  0.0s  1 planned, 1 completed
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
                "error": "Job:Shout[0]: CommandFailed: exit status 3\nit is broken",
            }
        ],
    }  # fmt: skip
