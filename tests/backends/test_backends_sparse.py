"""Sparse files: a step can create a file of a terabyte that holds almost nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from project_lab import Lab
from whyrun.connections.redact import Redactor
from whyrun.execution.backends.dask.backend import DaskBackend
from whyrun.execution.files.safe_files import append

LARGE = 1 << 40
SECRET = "correct-horse-battery"


def room(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_what_is_appended_keeps_its_holes(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"before")
    with open(tmp_path / "more", "wb") as file:
        for place, data in ((0, b"first"), (8 << 20, b"middle"), ((20 << 20) + 7, b"last")):
            file.seek(place)
            file.write(data)
        file.truncate(30 << 20)
    with open(tmp_path / "log", "r+b") as log, open(tmp_path / "more", "rb") as more:
        log.seek(0, os.SEEK_END)
        append(more, log)
    assert (tmp_path / "log").read_bytes() == b"before" + (tmp_path / "more").read_bytes()
    assert room(tmp_path / "log") < 1 << 20


@pytest.mark.parametrize("content", [b"", b"short", bytes(range(256)) * 10_000])
def test_what_has_no_holes_is_appended_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "more").write_bytes(content)
    with open(tmp_path / "log", "wb") as log, open(tmp_path / "more", "rb") as more:
        append(more, log)
        append(more, log)
    assert (tmp_path / "log").read_bytes() == content * 2


def test_secrets_are_taken_out_of_every_part(tmp_path: Path) -> None:
    redactor = Redactor({"TOKEN": SECRET})
    with open(tmp_path / "more", "wb") as file:
        file.write(f"a {SECRET} b".encode())
        file.seek(8 << 20)
        file.write(f"c {SECRET} d".encode())
    with open(tmp_path / "log", "wb") as log, open(tmp_path / "more", "rb") as more:
        append(more, log, redactor.copy)
    content = (tmp_path / "log").read_bytes()
    assert content.strip(b"\0").startswith(b"a *** b\0")
    assert content.endswith(b"\0c *** d")
    assert room(tmp_path / "log") < 1 << 20


WORKFLOW = """
    workflow: sparse
    jobs:
      Sparse:
        uses: python
        secrets: [TOKEN]
        retries: {max: 1, backoff: 10ms}
        with: {call: "work:sparse", token: "${{ secrets.TOKEN }}"}
        outputs: {Never: {type: text}}
"""
CODE = f"""
    import os
    import stat

    def sparse(token):
        print("the token is", token, flush=True)
        if stat.S_ISREG(os.fstat(1).st_mode):  # what a step with secrets prints goes through a pipe
            os.truncate(1, {LARGE})
        print("and after it", token, flush=True)
        with open("file", "wb") as file:
            file.truncate({LARGE})
        raise ValueError("enough")
"""


@pytest.mark.parametrize("backend", ["local", "dask"])
@pytest.mark.parametrize("secretly", [True, False])
def test_a_log_of_a_terabyte_that_is_empty_takes_no_room(
    backend: str, secretly: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    workflow = WORKFLOW if secretly else WORKFLOW.replace("secrets: [TOKEN]", "").replace("${{ secrets.TOKEN }}", "***")
    lab = Lab(tmp_path / "project").write({"workflow.yaml": workflow, "work.py": CODE})
    ran = lab.run(backend=DaskBackend() if backend == "dask" else None)
    assert (ran.exit_code, ran.failed) == (1, {"Job:Sparse": ("FAILED", "ValueError")})
    assert ran.folder is not None
    log = ran.folder / "steps" / "Sparse" / "stdout.log"
    assert room(log) < 1 << 20
    assert (ran.folder / "steps" / "Sparse" / "scratch" / "work" / "file").stat().st_size == LARGE
    if secretly:
        assert log.read_bytes() == b"the token is ***\nand after it ***\n" * 2
        return
    with open(log, "rb") as file:
        start = file.read(100)
        file.seek(-100, os.SEEK_END)
        end = file.read()
    assert start.rstrip(b"\0") == b"the token is ***\n"
    assert end.lstrip(b"\0") == b"and after it ***\n"
    assert abs(log.stat().st_size - 2 * LARGE) < 1 << 10
