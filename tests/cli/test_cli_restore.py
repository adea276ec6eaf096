"""`whyrun restore` on the command line."""

from __future__ import annotations

from pathlib import Path

from cli_lab import dedent, whyrun
from question_lab import plain, run, tale


def test_an_earlier_version_is_put_in_place(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("uno\n")
    run(folder)
    answer = whyrun(folder, "restore", "Artifact:Join.All", "--from", "r0001")
    assert (answer.code, answer.err) == (0, "")
    assert plain(answer.out) == "r0003 restored (from r0001) Artifact:Join.All  HASH…  8B → out/all.txt\n"
    assert (folder / "out/all.txt").read_text() == "ONE\nONE\n"
    headline = whyrun(folder, "plan").out.splitlines()[0]
    assert headline == "tale after r0003: nothing to do, 4 of 6 jobs up to date, 2 inactive"
    found = whyrun(folder, "restore", "Artifact:Join.All", "--from", "r0002", "--json").json
    assert (found["run"], found["path"], found["displaced"]) == ("r0004", "out/all.txt", [])
    assert (folder / "out/all.txt").read_text() == "UNO\nUNO\n"


def test_what_cannot_be_restored(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder, "--up", "1")
    run(folder)
    answer = whyrun(folder, "restore", "Artifact:Join.All", "--from", "r0001")
    assert (answer.code, answer.err) == (2, dedent("""
        error[NOT_ADOPTABLE]: `Artifact:Join.All` cannot be put in place: it was not available after r0001
           hint: `whyrun history Artifact:Join.All` lists its versions
        """))  # fmt: skip
    assert whyrun(folder, "restore", "Artifact:Join.All", "--from", "r0009").code == 3
    assert whyrun(folder, "restore", "Artifact:Join.All").code == 2
