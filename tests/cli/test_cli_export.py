"""`whyrun export`: the command line around the formats."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

from cli_lab import dedent, pairs, whyrun


def test_a_run_as_a_file_or_on_stdout(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    whyrun(folder, "run", "-q")
    (folder / "words/a.txt").write_text("broken\n")
    assert whyrun(folder, "run", "-q").code == 1
    printed = whyrun(folder, "export", "junit")
    assert (printed.code, printed.err) == (0, "")
    written = whyrun(folder, "export", "junit", "r0002", "workflow.yaml", "-o", "results.xml")
    assert (written.code, written.out, (folder / "results.xml").read_text()) == (0, "", printed.out)
    assert stat.S_IMODE((folder / "results.xml").stat().st_mode) == 0o644
    assert whyrun(folder, "export", "junit", "-o", "-").out == printed.out
    assert not (folder / "-").exists()
    said = whyrun(folder, "export", "github", "-o", "summary.md")
    first = said.out.splitlines()[0]
    assert first.startswith("::error title=Job%3AShout[0] failed::CommandFailed: exit status 3: it is broken%0A")
    summary = (folder / "summary.md").read_text()
    assert summary.startswith("## `pairs` r0002: failed\n")
    told = whyrun(folder, "export", "markdown", "r0002", "--json").json
    assert told == {"format": "markdown", "run": "r0002", "size": len(summary.encode()), "text": summary}


def test_mistakes_are_told(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    whyrun(folder, "run", "-q")
    (folder / "new").mkdir()
    (folder / "steps.txt").touch()
    formats = "junit, markdown, github, chrome-trace, prometheus, openlineage, ro-crate, otel"
    for words, code, message in (
        (["junitt"], 2, "error[USAGE]: there is no export format `junitt`\n   hint: did you mean `junit`?"),
        (["junit", "--namespace", "x"], 2, dedent("""
            error[USAGE]: `--namespace` is nothing to `junit`
               hint: it is an option of `openlineage`""")),
        (["r0001"], 2, dedent("""
            error[USAGE]: there is no export format `r0001`
               hint: the format comes first: `whyrun export junit r0001`""")),
        ([], 2, dedent(f"""
            error[USAGE]: missing argument `FORMAT`. The formats are {formats}
               hint: usage: `whyrun export [OPTIONS] FORMAT [RUN] [FILE]`; see `whyrun export --help`""")),
        (["markdown", "--link", "javascript:alert(1)"], 2, dedent("""
            error[USAGE]: `--link javascript:alert(1)` is no address of a page
               hint: write `https://…`""")),
        (["openlineage", "--namespace", ""], 2, dedent("""
            error[USAGE]: `--namespace` is empty
               hint: name one, or leave the option out for `whyrun:WORKFLOW`""")),
        (["junit", "-o", "new"], 2, dedent("""
            error[USAGE]: `new` is a folder, and this export is one file
               hint: name a file in it: `-o new/FILE`""")),
        (["ro-crate", "-o", "no/crate"], 2, dedent("""
            error[FILE_MISSING]: `no/crate` cannot be written: No such file or directory
               hint: check the path""")),
        (["ro-crate", "-o", "steps.txt"], 2, dedent("""
            error[FILE_MISSING]: `steps.txt` cannot be written: File exists
               hint: check the path""")),
        (["junit", "r9"], 3, "error[RUN_UNKNOWN]: there is no run `r9` of `pairs`\n   hint: the latest is `r0001`"),
        (["junit", "-o", "no/results.xml"], 2, dedent("""
            error[FILE_MISSING]: `no/results.xml` cannot be written: No such file or directory
               hint: check the path""")),
        (["junit", "-o", "words/a.txt"], 2, dedent("""
            error[USAGE]: `--output words/a.txt`: this is an input (`words/a.txt`)
               hint: choose a file that is used for nothing else""")),
    ):  # fmt: skip
        answer = whyrun(folder, "export", *words)
        assert (answer.code, answer.out, answer.err) == (code, "", f"{message}\n")


def test_a_folder_is_new_or_empty(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    whyrun(folder, "run", "-q")
    refused = whyrun(folder, "export", "ro-crate")
    assert (refused.code, refused.err) == (2, dedent("""
        error[USAGE]: `ro-crate` is a folder
           hint: name a new one: `whyrun export ro-crate -o FOLDER`
        """))  # fmt: skip
    told = whyrun(folder, "export", "ro-crate", "-o", "crate", "--json").json
    assert told["size"] == sum(path.stat().st_size for path in (folder / "crate").rglob("*") if path.is_file())
    refused = whyrun(folder, "export", "ro-crate", "-o", "crate")
    assert (refused.code, refused.err) == (2, dedent("""
        error[USAGE]: `crate` is a folder that is not empty: nothing is written into it
           hint: choose another folder with `-o`, or empty it first
        """))  # fmt: skip


def test_a_run_does_not_fail_with_the_receiver_of_its_trace(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    refused = whyrun(folder, "run", "--otel", "localhost:4318")
    assert (refused.code, refused.err) == (2, dedent("""
        error[USAGE]: `--otel localhost:4318` is no URL of a receiver
           hint: write `http://localhost:4318`
        """))  # fmt: skip
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody_listens.getsockname()[1]}"
        ran = whyrun(folder, "run", "-q", "--otel", url)
    assert ran.code == 0
    assert f"4 of 4 spans were not sent to {url}/v1/traces: " in ran.err
    assert "; `whyrun export otel` has them all" in ran.err


def test_a_past_run_is_exported_although_the_workflow_is_invalid_by_now(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    whyrun(folder, "run", "-q")
    before = whyrun(folder, "export", "markdown")
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(text.replace('default: "!"', "").replace("uses: shell", "uses: gone/away"))
    assert whyrun(folder, "export", "markdown") == before
