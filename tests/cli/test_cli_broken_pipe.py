"""A closed pipe or a full disk behind stdout or stderr does not change the exit status."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_lab import COMMAND, QUIET_ENVIRONMENT, pairs, whyrun

FULL = (
    "error[DISK_FAILED]: No space left on device\n"
    "   hint: free some space: `whyrun gc` and `whyrun runs prune` show what can be removed; "
    "the recorded runs are safe\n"
)


@contextmanager
def pipe_without_reader() -> Iterator[int]:
    """What `| true` is, whoever of the two is quicker."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


@contextmanager
def full_disk() -> Iterator[int]:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def start(folder: Path, words: str, stdout: int, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *words.split()],
        cwd=folder,
        env=QUIET_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
    )


def ended(command: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status, and what was told on stderr."""
    _, told = command.communicate(timeout=300)
    return command.returncode, told or ""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, of which the second made something else."""
    folder = pairs(tmp_path_factory.mktemp("ran") / "pairs")
    assert whyrun(folder, "run", "-q").code == 0
    (folder / "words/a.txt").write_text("another\n")
    assert whyrun(folder, "run", "-q").code == 0
    return folder


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job fails, the log of the first run is damaged, and there is a workflow file that is none."""
    folder = pairs(tmp_path_factory.mktemp("wrong") / "pairs")
    (folder / "invalid.yaml").write_text("workflow: w\nnonsense: 1\n")
    assert whyrun(folder, "run", "-q").code == 0
    (folder / "words/a.txt").write_text("broken\n")
    assert whyrun(folder, "run", "-q", "--state", "other").code == 1
    log = folder / ".whyrun/pairs/runs/r0001/events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b"succeeded", b"succedeed")]))
    return folder


VERDICTS = {
    "run --state other --force Job:Shout[0]": 1,
    "compare --state other Job:Shout[1]": 0,
    "parity .whyrun/pairs/runs/r0001 other/pairs/runs/r0001": 3,
    "verify": 3,
    "validate invalid.yaml": 2,
    "validate nofile": 2,
    "plan nofile": 2,
    "actions nothing": 2,
    "nonsense": 2,
    "diff --state other r0001 r0009": 3,
}


@pytest.mark.parametrize("as_json", ["", " --json"])
@pytest.mark.parametrize("words", VERDICTS)
def test_a_reader_that_has_gone_never_changes_the_exit_status(wrong: Path, words: str, as_json: str) -> None:
    with pipe_without_reader() as pipe:
        talk = subprocess.DEVNULL if as_json else pipe  # `whyrun … 2>&1 | true`
        assert start(wrong, words + as_json, pipe, talk).wait(300) == VERDICTS[words]


def test_runs_that_differ_are_reported_by_the_exit_status_though_nobody_reads_how(ran: Path) -> None:
    with pipe_without_reader() as pipe:
        assert ended(start(ran, "parity r0001 r0002 --json", pipe)) == (
            1,
            "note: `r0002` did not start from an empty state; that alone makes plans and inputs differ\n",
        )


def test_what_was_asked_for_beside_the_output_is_done_though_nobody_reads_it(tmp_path: Path) -> None:
    folder = pairs(tmp_path / "pairs")
    with pipe_without_reader() as pipe:
        assert start(folder, "plan --json --save plan.json", pipe, pipe).wait(300) == 0
        assert start(folder, "run --plan plan.json --json", pipe, pipe).wait(300) == 0
    assert (folder / "out/all.txt").read_text() == "ONE\n!\nTWO\n!\n"


def test_printing_alone_ends_at_once_when_its_reader_has_gone(wrong: Path) -> None:
    """Later lines are not looked at: that the last one is damaged is found by who reads up to there."""
    log = wrong / ".whyrun/pairs/runs/r0001/events.jsonl"
    log.write_bytes(log.read_bytes() + b"nonsense\n")
    assert whyrun(wrong, "log", "r0001").code == 3
    with pipe_without_reader() as pipe:
        assert ended(start(wrong, "log r0001", pipe)) == (0, "")


def test_following_a_run_ends_before_it_when_the_reader_has_gone(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = f"{{uses: shell, with: {{run: 'until [ -e {gate} ]; do sleep 0.05; done'}}}}"
    (tmp_path / "workflow.yaml").write_text(f"workflow: w\njobs:\n  Wait: {wait}\n")
    run = start(tmp_path, "run", subprocess.DEVNULL)
    try:
        log = tmp_path / ".whyrun/w/runs/r0001/events.jsonl"
        deadline = time.monotonic() + 300
        while not (log.exists() and b"step_start" in log.read_bytes()):
            assert time.monotonic() < deadline
            assert run.poll() is None
            time.sleep(0.05)
        with pipe_without_reader() as pipe:
            assert ended(start(tmp_path, "log --follow", pipe)) == (0, "")
        assert run.poll() is None
    finally:
        gate.touch()
        run.communicate(timeout=300)
    assert run.returncode == 0


PRINTING = (
    "validate", "schema", "actions", "actions shell", "plan", "explain", "run --dry-run", "compare --dry-run",
    "status", "runs", "show Job:Join", "why Job:Join", "history Job:Join", "diff r0001 r0002", "verify", "log", "gc",
    "runs prune",
)  # fmt: skip


@pytest.mark.parametrize("as_json", ["", " --json"])
@pytest.mark.parametrize("words", PRINTING)
def test_output_that_a_full_disk_does_not_take_is_an_error_and_talk_is_none(
    ran: Path, words: str, as_json: str
) -> None:
    with full_disk() as full:
        assert ended(start(ran, words + as_json, full)) == (3, FULL)
        assert start(ran, words + as_json, subprocess.DEVNULL, full).wait(300) == 0


@pytest.mark.parametrize("words", ["init made", "connections --json", "init made-too --json", "--help", "plan --help"])
def test_output_that_needs_no_project_fails_on_a_full_disk_too(tmp_path: Path, words: str) -> None:
    with full_disk() as full:
        assert ended(start(tmp_path, words, full)) == (3, FULL)


@pytest.mark.parametrize("as_json", ["", " --json"])
def test_a_difference_between_runs_that_cannot_be_written_is_an_error(ran: Path, as_json: str) -> None:
    with full_disk() as full:
        assert ended(start(ran, f"parity r0001 r0002{as_json}", full)) == (3, FULL)
        assert start(ran, f"parity r0001 r0002{as_json}", subprocess.DEVNULL, full).wait(300) == 1


def test_a_run_whose_result_cannot_be_written_is_an_error_and_recorded(tmp_path: Path) -> None:
    folder = pairs(tmp_path / "pairs")
    with full_disk() as full:
        assert ended(start(folder, "run --json -q", full)) == (3, FULL)
    assert whyrun(folder, "run").err.startswith("pairs after r0001: nothing to do, 3 of 3 jobs up to date")


@pytest.mark.parametrize("words", ["plan nofile", "plan nofile --json", "validate nofile", "--nonsense", "nonsense"])
def test_a_refusal_keeps_its_exit_status_when_nothing_can_be_written(tmp_path: Path, words: str) -> None:
    with full_disk() as full:
        assert start(tmp_path, words, full, full).wait(300) == 2


@pytest.mark.parametrize(("words", "code"), [("plan --json", 0), ("status", 0), ("plan nofile --json", 2)])
def test_streams_that_the_shell_closed_take_everything(ran: Path, words: str, code: int) -> None:
    script = f"{' '.join(COMMAND)} {words} >&- 2>&-"
    done = subprocess.run(
        ["bash", "-c", script], cwd=ran, env=QUIET_ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code
