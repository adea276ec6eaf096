"""`whyrun explain`: every reason, for now, for what-if, and for the past."""

from __future__ import annotations

from pathlib import Path

from cli_lab import dedent, other_lines, pairs, timeless, tree, whyrun


def test_explain_tells_each_job_under_its_layer_with_all_reasons(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    assert whyrun(folder, "run", "-q").code == 0
    (folder / "words/b.txt").write_text("three\n")
    answer = whyrun(folder, "explain", "--set", "Mark=?", "--up", "1")
    assert (answer.code, answer.err) == (0, "")
    assert timeless(answer.out) == dedent("""
        pairs after r0001: 2 of 3 jobs to run, 1 deferred by --up 1
        layer 0
          Job:Shout[0]   INPUT_CHANGED   mark ← Input:Mark  "!" → "?"
          Job:Shout[1]   INPUT_CHANGED   mark ← Input:Mark  "!" → "?"
                         INPUT_CHANGED   text ← Input:Words[1]  27dd… → f693…
        deferred
          Job:Join       UPSTREAM_DIRTY  Job:Shout[0]
                         UPSTREAM_DIRTY  Job:Shout[1]
        """)


def test_a_published_file_that_was_edited_or_deleted_is_reported_with_the_way_to_keep_it(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    assert whyrun(folder, "run", "-q").code == 0
    (folder / "out/all.txt").write_text("my own\n")
    assert whyrun(folder, "explain").out == dedent("""
        pairs after r0001: none of 3 jobs to run, 1 reused from earlier runs, 2 up to date
        layer 1
          Job:Join   MISSING_OUTPUT  Artifact:Join.All  out/all.txt (changed)
                                     keep your version: whyrun adopt Artifact:Join.All out/all.txt
                     reuse           r0001
        """)
    (folder / "out/all.txt").unlink()
    assert whyrun(folder, "explain", "--target", "Job:Shout[0]").out == dedent("""
        pairs after r0001: none of 3 jobs to run, 1 deferred by --target Job:Shout[0], 2 up to date
        deferred
          Job:Join   MISSING_OUTPUT  Artifact:Join.All  out/all.txt (deleted)
                     reuse           r0001
        """)


def test_explain_json_has_the_same_jobs_as_the_plan_and_the_text_of_each_reason(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    assert whyrun(folder, "run", "-q").code == 0
    answer = whyrun(folder, "explain", "--json", "--force", "Job:Shout[1]")
    plan = whyrun(folder, "plan", "--json", "--force", "Job:Shout[1]").json
    assert answer.json == {
        "workflow": "pairs",
        "digest": plan["digest"],
        "log_position": plan["log_position"],
        "headline": "pairs after r0001: 2 of 3 jobs to run, 1 up to date",
        "options": {"up": None, "targets": [], "force": ["Job:Shout[1]"]},
        "totals": plan["totals"],
        "layers": [
            {
                "layer": 0,
                "jobs": [
                    {
                        "id": "Job:Shout[1]",
                        "action": "shell",
                        "layer": 0,
                        "reasons": [{"code": "FORCED", "by": "Job:Shout[1]", "text": "--force Job:Shout[1]"}],
                    }
                ],
            },
            {
                "layer": 1,
                "jobs": [
                    {
                        "id": "Job:Join",
                        "action": "shell",
                        "layer": 1,
                        "reasons": [{"code": "UPSTREAM_DIRTY", "job": "Job:Shout[1]", "text": "Job:Shout[1]"}],
                    }
                ],
            },
        ],
        "deferred": [],
        "inactive": [],
    }


def test_assumptions_are_named_first_and_touch_nothing(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    assert whyrun(folder, "run", "-q").code == 0
    logged = tree(folder / ".whyrun/pairs/runs")
    answer = whyrun(folder, "explain", "--assume", "Input:Words[1]=changed")
    assert other_lines(answer.out)[:4] == [
        "assuming Input:Words[1] changed",
        "pairs after r0001: 2 of 3 jobs to run, 1 up to date",
        "layer 0",
        "  Job:Shout[1]   INPUT_CHANGED   text ← Input:Words[1]  27dd… → 3070…",
    ]
    as_json = whyrun(folder, "explain", "--json", "--assume", "Input:Mark=?").json
    assert as_json["assuming"] == ['Input:Mark = "?" (now "!")']
    assert as_json["headline"] == "pairs after r0001: 3 of 3 jobs to run"
    assert whyrun(folder, "explain").out == "pairs after r0001: nothing to do, 3 of 3 jobs up to date\n"
    assert tree(folder / ".whyrun/pairs/runs") == logged


def test_the_explanation_of_a_past_run_is_that_of_its_plan(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    first = whyrun(folder, "explain").out
    assert whyrun(folder, "run", "-q").code == 0
    (folder / "words/a.txt").write_text("uno\n")
    second = timeless(whyrun(folder, "explain").out)
    assert whyrun(folder, "run", "-q").code == 0
    assert whyrun(folder, "explain", "--at", "r0001").out == first
    assert whyrun(folder, "explain", "--at", "r0002").out == second
