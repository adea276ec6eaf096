"""Arguments that no file system or text can hold, and misspelt ones: a message and exit 2, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_lab import whyrun


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([b"plan", b"x" * 300 + b".yaml"], "error[FILE_MISSING]: `" + "x" * 60 + "…`: File name too long"),
        ([b"plan", b"--set", b"Topic=\xff"], "error[USAGE]: 'Topic=\\udcff' is not UTF-8 text"),
        ([b"explan"], "error[USAGE]"),
    ],
)
def test_words_that_cannot_be_are_refused(tmp_path: Path, words: list[bytes], message: str) -> None:
    command = [sys.executable.encode(), b"-m", b"whyrun.cli.main", *words]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert ended.returncode == 2
    assert ended.stdout == b""
    assert ended.stderr.decode().startswith(message)
    assert "Traceback" not in ended.stderr.decode()


STEPS = """\
workflow: steps
loops: {i: {count: 12}}
jobs:
  Step:
    for: [i]
    uses: shell
    with: {run: 'echo 1 > "$out_O"'}
    outputs: {O: {type: text}}
"""


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("plan --job Job:Stp[*]", "error[UNKNOWN_REFERENCE]: `Job:Stp[*]` names nothing in this workflow",
         "did you mean `Job:Step[*]`?"),
        ("why Artifact:Step.P[*]", "error[UNKNOWN_REFERENCE]: `Artifact:Step.P[*]` names nothing in this workflow",
         "did you mean `Artifact:Step.O[*]`?"),
        ("gc --keep 3", "error[USAGE]: `whyrun gc` has no option `--keep`",
         "usage: `whyrun gc [OPTIONS] [FILE]`; see `whyrun gc --help`"),
        ("gc --hlep", "error[USAGE]: `whyrun gc` has no option `--hlep`", "did you mean `--help`?"),
        ("gc --dry-run", "error[USAGE]: `whyrun gc` has no option `--dry-run`",
         "without `--delete` the command only shows what it would remove"),
        ("runs prune --dry-run", "error[USAGE]: `whyrun runs prune` has no option `--dry-run`",
         "without `--delete` the command only shows what it would remove"),
        ("runs prun", "error[USAGE]: `prun` is neither a file nor a command", "did you mean `prune`?"),
        ("verify --replay r2", "error[USAGE]: invalid value for `--replay`: `r2` is not `all`",
         "usage: `whyrun verify [OPTIONS] [RUN] [FILE]`; see `whyrun verify --help`"),
    ],
)  # fmt: skip
def test_what_is_misspelt_gets_the_right_word_as_a_hint(tmp_path: Path, words: str, message: str, hint: str) -> None:
    (tmp_path / "workflow.yaml").write_text(STEPS)
    answer = whyrun(tmp_path, *words.split())
    assert (answer.code, answer.out, answer.err.splitlines()) == (2, "", [message, f"   hint: {hint}"])


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("once")
    (folder / "workflow.yaml").write_text("workflow: once\njobs:\n  A: {uses: shell, with: {run: 'true'}}\n")
    assert whyrun(folder, "run", "-q").code == 0
    return folder


@pytest.mark.parametrize(
    "words",
    ["verify {}", "log {}", "runs prune {}", "show {}", "diff {} r0001", "compare --against {}", "plan --at {}"],
)
def test_a_run_that_there_is_not_is_the_same_error_everywhere_and_no_hint_at_another(
    run_once: Path, words: str
) -> None:
    for wrong, hint in (("r77", "the latest is `r0001`"), ("r1", "did you mean `r0001`?")):
        answer = whyrun(run_once, *words.format(wrong).split())
        assert (answer.code, answer.out, answer.err.splitlines()) == (
            3,
            "",
            [f"error[RUN_UNKNOWN]: there is no run `{wrong}` of `once`", f"   hint: {hint}"],
        )


def test_a_word_that_looks_like_a_run_is_the_file_of_that_name_if_there_is_one(run_once: Path) -> None:
    (run_once / "77").write_text((run_once / "workflow.yaml").read_text())
    answer = whyrun(run_once, "verify", "77")
    assert (answer.code, answer.out.partition(":")[0], answer.err) == (0, "once is sound", "")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["plan", "--json", "--bogus"], "USAGE", "`whyrun plan` has no option `--bogus`"),
        (["plan", "--json", "x" * 300], "FILE_MISSING", f"`{'x' * 60}…`: File name too long"),
    ],
)
def test_also_such_a_refusal_is_a_document_where_one_is_asked_for(
    tmp_path: Path, words: list[str], code: str, message: str
) -> None:
    answer = whyrun(tmp_path, *words)
    (said,) = json.loads(answer.out)["diagnostics"]
    assert (answer.code, said["code"], said["message"]) == (2, code, message)


def test_a_file_with_the_name_of_a_command_or_a_run_is_that_file(tmp_path: Path) -> None:
    for name in ("prun", "r2"):
        (tmp_path / name).write_text(STEPS)
    assert whyrun(tmp_path, "runs", "prun").out == "steps has not run yet\n"
    assert whyrun(tmp_path, "runs", "prune", "r2").out == "steps has not run yet\n"


def test_replay_needs_no_word(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(STEPS)
    assert whyrun(tmp_path, "run", "-q").code == 0
    answer = whyrun(tmp_path, "verify", "--replay", "--json")
    assert (answer.code, answer.json["checked"]["plans"]) == (0, 1)
    assert answer.json == whyrun(tmp_path, "verify", "--replay", "all", "--json").json
