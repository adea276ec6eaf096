"""`whyrun init`: the created workflow runs as it is."""

from __future__ import annotations

from pathlib import Path

from cli_lab import dedent, other_lines, step_lines, tree, whyrun

from whyrun.cli.commands.init import FILES


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
