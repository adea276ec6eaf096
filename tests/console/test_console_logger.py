"""`WorkflowLogger` by itself: all its places at once, from many threads and processes; progress and its words."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import re
import shlex
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import pytest

from whyrun import LogLevel, TaskStatus, WorkflowLogger
from whyrun.console.lines import TaskLine, seconds, size
from whyrun.console.progress import EqualWork, PlainProgress, Progress, Weights
from whyrun.errors import WhyrunError

NOON = datetime(2026, 6, 23, 12, 3, 23)


def test_the_line_format_to_the_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ten examples of the format."""
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("results").mkdir()
    Path("data/asia.csv").write_bytes(b"x" * 1_200_000)
    Path("results/graph.xml").write_bytes(b"x" * 800_000)
    lines: list[str] = []
    logger = WorkflowLogger(terminal=False, capture=lines, clock=lambda: NOON)
    task, files = ("causal-discovery", "learn graph"), {"inputs": {"data": "data/asia.csv"}}
    graph = "results/graph.xml"
    logger.log_task(task[0], TaskStatus.EXECUTES, task[1], runtime=2.3, outputs=graph, **files)
    logger.log_task(task[0], "WOULD_EXECUTE", task[1], runtime=2.1, outputs="new.xml (estimated)",
                    job_info="INPUT_CHANGED Input:learn.with.alpha", **files)  # fmt: skip
    logger.log_task(task[0], "SKIPS", task[1], outputs=f"{graph} (exists, 0.8MB)")
    logger.log_task(task[0], "WOULD_SKIP", task[1], outputs=f"{graph} (exists, 0.8MB)")
    logger.log_task(task[0], "IDENTICAL", task[1], runtime=2.4, outputs=f"{graph} (unchanged)")
    logger.log_task(task[0], "DIFFERENT", task[1], runtime=2.3, outputs=f"{graph} (5 edge changes)")
    logger.log_task("unknown-action", "INVALID_USES", "unknown-action", job_info="Available: [causal-discovery]")
    logger.log_task(task[0], "INVALID_PARAMETER", task[1], job_info="missing required: data_path, invalid: alpha=-0.1")
    logger.log_task(task[0], "FAILED", task[1], runtime=1.2, job_info="FileNotFoundError: data/missing.csv")
    logger.log_task(task[0], "TIMED_OUT", task[1], runtime=300, job_info="timeout: 300s")
    head = "2026-06-23 12:03:23 [causal-discovery]"
    assert lines == [
        f"{head} EXECUTES learn graph in 2.3s → inputs: data/asia.csv (1.2MB) → outputs: results/graph.xml (800.0KB)",
        f"{head} WOULD_EXECUTE learn graph in ~2.1s → inputs: data/asia.csv (1.2MB) → outputs: new.xml (estimated)"
        " → INPUT_CHANGED Input:learn.with.alpha",
        f"{head} SKIPS learn graph → outputs: results/graph.xml (exists, 0.8MB)",
        f"{head} WOULD_SKIP learn graph → outputs: results/graph.xml (exists, 0.8MB)",
        f"{head} IDENTICAL learn graph in 2.4s → outputs: results/graph.xml (unchanged)",
        f"{head} DIFFERENT learn graph in 2.3s → outputs: results/graph.xml (5 edge changes)",
        "2026-06-23 12:03:23 [unknown-action] INVALID_USES unknown-action → Available: [causal-discovery]",
        f"{head} INVALID_PARAMETER learn graph → missing required: data_path, invalid: alpha=-0.1",
        f"{head} FAILED learn graph after 1.2s → FileNotFoundError: data/missing.csv",
        f"{head} TIMED_OUT learn graph after 300s → timeout: 300s",
    ]
    assert logger.counts == dict.fromkeys(TaskStatus, 1)


def test_terminal_file_and_list_at_once(tmp_path: Path) -> None:
    stream, lines, file = io.StringIO(), list[str](), tmp_path / "run.log"
    logger = WorkflowLogger(True, file, LogLevel.SUMMARY, capture=lines, stream=stream, clock=lambda: NOON)
    logger.log_task("a", "EXECUTES", "one")
    logger.line(TaskLine(NOON, "a", TaskStatus.SKIPS, "two", LogLevel.ALL))  # above the level
    logger.note("three")
    logger.debug("four")
    logger.say("five\nsix", "bold")
    assert lines == ["2026-06-23 12:03:23 [a] EXECUTES one", "note: three", "five", "six"]
    assert stream.getvalue() == "".join(f"{line}\n" for line in lines)
    assert file.read_text().splitlines() == [lines[0], *(f"2026-06-23 12:03:23 {line}" for line in lines[1:])]


def test_many_lines_are_one_write() -> None:
    class Writes(io.StringIO):
        def __init__(self) -> None:
            super().__init__()
            self.writes: list[str] = []

        def write(self, text: str) -> int:
            self.writes.append(text)
            return len(text)

    stream = Writes()
    logger = WorkflowLogger(True, None, LogLevel.SUMMARY, stream=stream, clock=lambda: NOON)
    lines = [TaskLine(NOON, "a", TaskStatus.EXECUTES, text) for text in ("one", "two")]
    logger.tell([*lines, TaskLine(NOON, "a", TaskStatus.SKIPS, "three", LogLevel.ALL)])
    logger.tell([])
    head = "2026-06-23 12:03:23 [a] EXECUTES"
    assert stream.writes == [f"{head} one\n{head} two\n"]


def test_a_terminal_that_does_not_wait_loses_nothing() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    heard: list[bytes] = []

    def listen() -> None:
        while piece := os.read(reading, 1000):
            heard.append(piece)

    listener = threading.Thread(target=listen)
    lines = [TaskLine(NOON, "a", TaskStatus.EXECUTES, f"line {number}") for number in range(5000)]
    with open(writing, "w", encoding="utf-8") as stream:
        logger = WorkflowLogger(True, None, LogLevel.SUMMARY, stream=stream, clock=lambda: NOON)
        threading.Timer(0.1, listener.start).start()  # until then the pipe runs full
        logger.tell(lines)
        logger.note("the end")
    listener.join()
    os.close(reading)
    expected = [line.render() for line in lines]
    assert b"".join(heard).decode().splitlines() == [*expected, "note: the end"]


def test_an_unknown_status_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"'DONE' is not a task status; the statuses are EXECUTES, WOULD_EXECUTE,"):
        WorkflowLogger(terminal=False).log_task("a", "DONE", "one")


def test_a_file_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WhyrunError, match="cannot be written: No such file or directory"):
        WorkflowLogger(terminal=False, log_file=tmp_path / "no/log")


def test_threads_lose_and_tear_no_line(tmp_path: Path) -> None:
    lines: list[str] = []
    logger = WorkflowLogger(terminal=False, log_file=tmp_path / "log", capture=lines)

    def speak(number: int) -> None:
        for i in range(200):
            logger.log_task(f"t{number}", "EXECUTES", f"task {i}")

    threads = [threading.Thread(target=speak, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = (tmp_path / "log").read_text().splitlines()
    assert written == lines
    assert sorted(re.sub(r"^.{19} ", "", line) for line in written) == sorted(
        f"[t{n}] EXECUTES task {i}" for n in range(8) for i in range(200)
    )


def _fail_often(path: str, number: int) -> None:
    logger = WorkflowLogger(terminal=False, log_file=path)
    for i in range(50):
        trace = "".join(f"{number}.{i} line {k}\n" for k in range(3))
        logger.line(TaskLine(NOON, f"p{number}", TaskStatus.FAILED, f"task {i}", traceback=trace))


def test_processes_share_a_file_and_every_line_number_is_right(tmp_path: Path) -> None:
    path = tmp_path / "shared.log"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fail_often, args=(str(path), n)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    lines = path.read_text().splitlines()
    assert len(lines) == 3 * 50 * 4
    failed = [line for line in lines if "FAILED" in line]
    assert len(failed) == 150
    for line in failed:
        found = re.search(r"\[p(\d)\] FAILED task (\d+) \(see log line (\d+)\)$", line)
        assert found is not None
        number, task, at = found.groups()
        assert lines[int(at) - 1] == f"    {number}.{task} line 0"


def test_progress_of_a_program_is_told_in_plain_lines() -> None:
    now, told = [0.0], list[str]()
    plain = PlainProgress(Progress("r0003", 80, 2, EqualWork(80, 400.0)), told.append, clock=lambda: now[0])
    plain.update(1, ["Job:learn[asia][0]"])
    now[0] = 31.0
    plain.update(12, ["Job:learn[asia][7]", "Job:learn[asia][8]", "Job:draw"])
    now[0] = 45.0
    plain.update(13, [])
    now[0] = 61.5
    plain.update(79, [])
    assert told == [
        "progress: r0003 12/80, ~3 min left, running Job:learn[asia][7], Job:learn[asia][8], … (3 in all)",
        "progress: r0003 79/80, ~5 s left",
    ]


def test_what_a_step_says_of_itself_goes_before_the_clock() -> None:
    now = [0.0]
    weights = Weights({"Job:Long": 10.0, "Job:Short": 1.0}, clock=lambda: now[0])
    assert weights.done(0, ["Job:Long"]) == 0.0
    now[0] = 9.0
    assert weights.done(0, ["Job:Long"]) == 9.0
    weights.at("Job:Long", 0.25)
    assert weights.done(0, ["Job:Long"]) == 2.5
    weights.at("Job:Long", 7.0)  # nonsense from an action is cut
    assert weights.done(0, ["Job:Long"]) == 10.0


def test_the_interface_for_programs_needs_no_run() -> None:
    stream = io.StringIO()
    logger = WorkflowLogger(stream=stream)
    logger.start_progress(3, 12.0)
    for done in range(3):
        logger.update_progress(done, f"job {done}")
    logger.finish_progress()
    logger.finish_progress()
    logger.log_task("a", "EXECUTES", "after")
    assert stream.getvalue().endswith("[a] EXECUTES after\n")


@pytest.mark.parametrize(
    ("duration", "text"),
    [(0.004, "0.00s"), (0.04, "0.04s"), (2.34, "2.3s"), (99.9, "99.9s"), (300, "300s"), (599.7, "10m 00s"),
     (659.4, "10m 59s"), (3599.6, "1h 00m"), (7325, "2h 02m")],
)  # fmt: skip
def test_durations(duration: float, text: str) -> None:
    assert seconds(duration) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0B"), (999, "999B"), (1200, "1.2KB"), (3_400_000, "3.4MB")])
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize("path", ["/dev/stderr", "/dev/full"])
def test_a_log_file_that_is_a_pipe_or_full_does_not_break_off_a_run(path: str) -> None:
    """A pipe cannot be read back, a device may be without end, a disk may be full: the run is not about the log."""
    program = [
        "from whyrun.console.lines import TaskStatus",
        "from whyrun.console.logger import WorkflowLogger",
        f"logger = WorkflowLogger(True, {path!r})",
        "logger.log_task('a', TaskStatus.EXECUTES, 'one')",
        "logger.log_task('a', TaskStatus.EXECUTES, 'two')",
    ]
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(program)], capture_output=True, text=True, timeout=300, check=True
    )
    told = [line.partition("] ")[2] or line for line in ended.stderr.splitlines()]
    full = "note: logging to `/dev/full` stopped: No space left on device; the run continues"
    twice = ["EXECUTES one"] * 2 + ["EXECUTES two"] * 2
    assert told == (twice if path == "/dev/stderr" else [full, "EXECUTES one", "EXECUTES two"])


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_talk_that_nobody_can_hear_does_not_break_off_a_run(tmp_path: Path, redirection: str) -> None:
    job = """{uses: shell, with: {run: 'echo a > "$out_O"'}, outputs: {O: {type: text, path: a.txt}}}"""
    (tmp_path / "workflow.yaml").write_text(f"workflow: w\njobs:\n  A: {job}\n")
    command = f"{shlex.quote(sys.executable)} -m whyrun.cli.main run --json {redirection}"
    ended = subprocess.run(
        command, shell=True, cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=300, check=False
    )
    assert (ended.returncode, json.loads(ended.stdout)["state"]) == (0, "succeeded")
    assert (tmp_path / "a.txt").read_text() == "a\n"


def test_a_dry_run_that_cannot_be_written_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("workflow: w\njobs:\n  A: {uses: shell, with: {run: 'true'}}\n")
    command = f"{shlex.quote(sys.executable)} -m whyrun.cli.main run --dry-run >/dev/full"
    ended = subprocess.run(
        command, shell=True, cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=300, check=False
    )
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (3, "error[DISK_FAILED]: No space left on device")
