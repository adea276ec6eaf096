"""Forked programs are those that a real start gives: see tests/fork_server.py."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from parity_lab import BACKENDS, COMMAND, ENVIRONMENT, parity, ten_steps

import fork_server
from project_lab import Lab

FLOW = """
    workflow: w
    jobs:
      Look:
        uses: python
        with: {call: "look:around"}
        outputs: {Seen: {type: json}}
"""

LOOK = """
    import os, resource, signal, sys
    from pathlib import Path

    def around():
        main = sys.modules["__main__"]
        limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
        return {"Seen": {
            "environment": dict(os.environ), "argv": sys.argv, "path": sys.path, "cwd": os.getcwd(),
            "flags": str(sys.flags), "executable": sys.executable, "prefix": sys.prefix,
            "main": [main.__name__, main.__file__, main.__spec__.name, main.__package__],
            "whyrun": sorted(name for name in sys.modules if name.startswith("whyrun")),
            "umask": [os.umask(0o022), os.umask(0o022)][0],
            "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
            "leads": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
            "descriptors": {n: os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in ("0", "1", "2")},
            "inheritable": [n for n in range(3, 256) if Path(f"/proc/self/fd/{n}").exists() and os.get_inheritable(n)],
            "handlers": {s.name: str(signal.getsignal(s)).split(" at ")[0] for s in signal.valid_signals()
                         if isinstance(s, signal.Signals)},
            "streams": [[s.name, s.encoding, s.errors, s.line_buffering, s.write_through]
                        for s in (sys.stdin, sys.stdout, sys.stderr)],
            "shown environment": Path("/proc/self/environ").read_text().rstrip(chr(0)).split(chr(0)),
            "shown command": [w for w in Path("/proc/self/cmdline").read_text().split(chr(0)) if w][:4],
        }}
"""

# What the kernel says of the worker of Dask above the worker of a step. (`SigQ` counts those of the whole user.)
LOOK_ABOVE = """
    import os, re
    from pathlib import Path

    def around():
        above = Path(f"/proc/{os.getppid()}")
        while "spawn_main" not in (above / "cmdline").read_text():
            above = Path("/proc/" + (above / "stat").read_text().rpartition(")")[2].split()[1])
        status = dict(line.split(":", 1) for line in (above / "status").read_text().splitlines())
        environment = (above / "environ").read_text()  # a fork has room behind it
        return {"Seen": {
            "command": re.sub(r"=[0-9]+", "=N", (above / "cmdline").read_text()).rstrip(chr(0)).split(chr(0)),
            "environment": sorted(re.sub(r"(PARENT_PID)=[0-9]+", "=N", environment.rstrip(chr(0))).split(chr(0))),
            "status": {name: status[name].split() for name in ("Umask", "SigBlk", "SigIgn", "NoNewPrivs", "Seccomp")},
            "limits": (above / "limits").read_text(), "cwd": os.readlink(above / "cwd"),
            "streams": [os.readlink(above / "fd" / str(number)).split(":")[0] for number in range(3)],
        }}
"""


def seen(lab: Lab) -> dict[str, Any]:
    """What a step sees, without the names of this run and of its worker."""
    lab.succeed(force=["Job:Look"])
    text = json.dumps(lab.content("Artifact:Look.Seen"))
    found: dict[str, Any] = json.loads(re.sub(r"r\d{4}-\d+-\d+", "SCRATCH", text))
    return found


def test_a_step_in_a_forked_worker_sees_what_it_sees_in_a_started_one(project: Callable[..., Lab]) -> None:
    lab = project(FLOW, {"look.py": LOOK})
    forked = seen(lab)
    with fork_server.real_start():
        assert seen(lab) == forked


@pytest.mark.skipif(bool(BACKENDS["dask"].lacks), reason=str(BACKENDS["dask"].lacks))
def test_a_forked_worker_of_dask_is_like_a_started_one(project: Callable[..., Lab]) -> None:
    lab = project(FLOW, {"look.py": LOOK_ABOVE})

    def above() -> Any:
        words = ["run", "-q", "--jobs", "1", "--force", "Job:Look", *BACKENDS["dask"].words]
        done = fork_server.run_command(words, cwd=lab.root, env=ENVIRONMENT, timeout=300)
        assert done.returncode == 0, done.stderr
        return lab.content("Artifact:Look.Seen")

    forked = above()
    with fork_server.real_start():
        assert above() == forked


def test_forked_and_started_programs_leave_the_same_evidence(tmp_path: Path) -> None:
    forked = ten_steps(tmp_path / "forked", "local", "success")
    with fork_server.real_start():
        started = ten_steps(tmp_path / "started", "local", "success")
    assert parity(started, forked).differences == ()


@pytest.mark.parametrize("words", [["--version"], ["explain", "missing.yaml"], ["nonsense"], ["run", "--jobs", "x"]])
def test_a_forked_command_ends_as_a_started_one(tmp_path: Path, words: list[str]) -> None:
    def done() -> tuple[int, bytes, bytes]:
        ended = fork_server.run_command(words, cwd=tmp_path, env=ENVIRONMENT, timeout=300)
        return ended.returncode, ended.stdout, ended.stderr

    forked = done()
    with fork_server.real_start():
        assert done() == forked


@pytest.mark.real_start
def test_the_marker_gives_a_real_start(tmp_path: Path) -> None:
    process = subprocess.Popen([*COMMAND, "--version"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    parent = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1]
    assert process.wait() == 0
    assert int(parent) == os.getpid()
