"""`whyrun explain --trace`: one job, by its exact ID, as text and as JSON."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from cli_lab import dedent, whyrun
from question_lab import plain, run, tale

from whyrun.planning.reasons import CODES


def columns(text: str) -> str:
    """Columns are as wide as the longest code, so the blanks between them are no part of what a test compares."""
    return re.sub(r"(?<=\S) {3,}", "   ", dedent(text))


def found_reasons(trace: str) -> str:
    """The trace without the reasons that were not found: `tests/planning` has them all."""
    return columns(re.sub(r"^ +planning/judge +[A-Z_]+ +no: .*\n", "", trace, flags=re.MULTILINE))


def test_the_trace_of_one_job_as_text_and_as_json(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("uno\n")
    answer = whyrun(folder, "explain", "--trace", "Job:Echo[0]")
    assert (answer.code, answer.err) == (0, "")
    assert found_reasons(plain(answer.out)) == columns(r"""
        Job:Echo[0]
          snapshot/history     latest attempt           r0001 attempt 1: succeeded (executed)
          snapshot/history     last success             r0001 attempt 1 (executed)
          snapshot/observing   inputs                   it reads no input of the workflow
          snapshot/observing   outputs                  as r0001 attempt 1 recorded them
          snapshot/suspects    not a suspect            its fingerprint is the recorded one, and its outputs are available
          planning/consume     action                   shell  HASH…, as consumed
          planning/consume     loud                     not known yet: it waits for a job upstream
          planning/consume     run                      Input:Echo[0].with.run "cat \"$loud\" \"$loud\" > \"$out_Text\"", as consumed
          planning/judge       UPSTREAM_DIRTY           Job:Shout[0]
          planning/reuse       not considered           what it would consume is not known yet; the run decides
          planning/plan        layer                    2
          planning/plan        verdict                  planned: it will be executed
        """)  # noqa: E501  # lines as they are printed
    body = whyrun(folder, "explain", "--trace", "Job:Echo[0]", "--json").json
    assert (body["job"], body["state"], body["contradiction"]) == ("Job:Echo[0]", "planned", False)
    lines = [columns(f"  {each['module']}   {each['subject']}   {each['text']}\n") for each in body["lines"]]
    assert lines == [columns(f"{line}\n") for line in answer.out.splitlines()[1:]]
    assert [each["subject"] for each in body["lines"] if each["module"] == "planning/judge"] == list(CODES)


def test_the_trace_of_an_earlier_run_and_of_an_assumption(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    then = whyrun(folder, "explain", "--at", "r0001", "--trace", "Job:Script").out.splitlines()
    assert then[1] == "  snapshot/history     latest attempt           none: it never ran"
    assumed = whyrun(folder, "explain", "--assume", "Input:Mark=?", "--trace", "Job:Script").out.splitlines()
    assert assumed[:2] == ['assuming Input:Mark = "?" (now "!")', "Job:Script"]
    assert assumed[-1].endswith("planned: it will be executed")


WRONG_SKIP = """\
import sys
import whyrun.snapshot.build as build
from whyrun.cli.main import main
build.find_suspects = lambda *_: []  # a bug: nothing is ever judged
main(sys.argv[1:])
"""


def test_a_contradiction_ends_with_the_exit_status_of_a_bug(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)

    def with_bug(*words: str) -> tuple[int, list[str]]:
        done = subprocess.run(
            [sys.executable, "-c", WRONG_SKIP, *words, "--set", "Mark=?"], cwd=folder, capture_output=True, check=False
        )
        assert done.stderr == b""
        return done.returncode, plain(done.stdout.decode()).splitlines()

    code, lines = with_bug("explain", "--trace", "Job:Script")
    assert code == 3
    assert lines[-1].split()[:2] == ["planning/plan", "contradiction"]
    assert with_bug("explain", "--trace", "Job:Script", "--json")[0] == 3
    code, lines = with_bug("why", "Job:Script")
    assert code == 3
    assert [line for line in lines if "run  " not in line and ".run " not in line] == [
        "Job:Script is up to date, after r0001",
        "  last success   it succeeded in r0001",
        '  same           Input:Script.action  "shell"',
        '  differs        mark ← Input:Mark  "?"',
        '  contradiction  INPUT_CHANGED  mark ← Input:Mark  "!" → "?"',
        "                 a job with a reason is not up to date: a bug in Whyrun; please report what "
        "`whyrun explain --trace Job:Script` prints",
    ]
    assert with_bug("why", "Job:Script", "--json")[0] == 3


def test_the_id_is_exact_and_the_trace_is_of_one_job(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    for words, message in (
        (["Job:Echo"], "error[UNKNOWN_REFERENCE]: `Job:Echo` names nothing in this workflow"),
        (["Job:Echo[*]"], "error[USAGE]: `Job:Echo[*]`: `--trace` takes one ID, not a pattern"),
        (["Artifact:Join.All"], "error[NAME_INVALID]: "),
        (["Job:Join", "--job", "Job:Join"], "error[USAGE]: `--trace` shows one job"),
        (["Job:Join", "--all"], "error[USAGE]: `--trace` shows one job"),
    ):
        answer = whyrun(folder, "explain", "--trace", *words)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(message), answer.err
