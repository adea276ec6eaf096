"""Issue 17, 21: limits of the system ended a run with a traceback: `EMFILE` with 160 workers, `EFBIG`, `ENOTCONN`."""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from project_lab import Lab
from whyrun.cli import main as command

Make = Callable[..., Lab]

WORKFLOW = """
    workflow: w
    loops: {n: {count: 40}}
    jobs:
      S:
        for: [n]
        uses: shell
        with: {run: 'echo "$n" > "$out_X"', n: "${{ n }}"}
        outputs: {X: {type: text}}
"""


def run_with(lab: Lab, limit: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`whyrun run` by a shell with this limit."""
    script = f'ulimit {limit} && exec "$@"'
    return subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-m", "whyrun.cli.main", "run", "--quiet", *words],
        cwd=lab.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_soft_limit_of_open_files_is_raised_as_far_as_the_workers_need(project: Make) -> None:
    lab = project(WORKFLOW)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = max(map(int, os.listdir("/proc/self/fd"))) + 70
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))
    try:
        lab.succeed(jobs=40)
        assert low < resource.getrlimit(resource.RLIMIT_NOFILE)[0] < low + 40 * 10
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_too_few_open_files_for_the_workers_are_refused_and_the_hint_works(project: Make) -> None:
    lab = project(WORKFLOW)
    refused = run_with(lab, "-n 160", "--jobs", "160")
    assert refused.returncode == 2
    said = re.fullmatch(
        r"error\[BACKEND_UNAVAILABLE\]: 40 workers need up to (\d+) open files, and this process may have 160\n"
        r"   hint: run with `--jobs (\d+)`, or raise the limit: `ulimit -n (\d+)`\n",
        refused.stderr,
    )
    assert said is not None, refused.stderr
    assert said[1] == said[3]
    assert lab.runs() == []
    done = run_with(lab, "-n 160", "--jobs", said[2])
    assert (done.returncode, done.stderr) == (0, "")


def test_a_limit_of_the_size_of_files_is_an_error_with_a_hint(project: Make) -> None:
    lab = project(WORKFLOW)
    refused = run_with(lab, "-f 1")
    assert refused.returncode == 3
    assert refused.stderr.startswith("error[DISK_FAILED]: `")
    assert refused.stderr.endswith(
        ": File too large\n   hint: the file system or `ulimit -f` allows no larger files: raise the limit; "
        "the recorded runs are safe\n"
    )


@pytest.mark.parametrize("number", ["ENOTCONN", "ESTALE", "EMFILE", "ENFILE", "EFBIG", "EAGAIN", "ENOMEM"])
def test_what_the_system_refuses_is_no_bug_of_whyrun(
    number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as a file system of a server that is gone, which no test can mount everywhere."""
    code = getattr(errno, number)

    def fail(*arguments: object, **named: object) -> None:
        raise OSError(code, os.strerror(code), str(tmp_path / "workflow.yaml"))

    monkeypatch.setattr(command.cli, "main", fail)
    with pytest.raises(SystemExit) as ended:
        command.main(["plan"])
    assert ended.value.code == 3
    said = capsys.readouterr().err
    assert said.startswith(f"error[DISK_FAILED]: `{tmp_path}/workflow.yaml`: {os.strerror(code)}\n   hint: ")
    assert "Traceback" not in said
