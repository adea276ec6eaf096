"""A group shares a project: the state follows the umask and the folder's group, and scratch folders stay private."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fork_server import run_command
from project_lab import Lab
from whyrun.artifacts.store import Store
from whyrun.cli.main import main
from whyrun.execution.run.preflight import complete_killed_run

FLOW = """
workflow: w
inputs: {Folder: {type: directory, default: given}}
jobs:
  Make:
    uses: shell
    with:
      folder: "${{ inputs.Folder }}"
      run: |
        stat -c %a .. > "$out_Mode"
        mkdir "$out_Tree"; cp "$folder/x" "$out_Tree/x"
        echo '{}' > "$out_Json"; echo printed
    outputs: {Mode: {type: text, path: mode.txt}, Tree: {type: directory, path: tree}, Json: {type: json, path: j.json}}
  Fail: {uses: shell, with: {run: 'echo half > left; echo printed; exit 1'}, outputs: {T: {type: text}}}
  Then: {uses: shell, needs: [Make], with: {run: 'echo printed > "$out_T"; echo printed'}, outputs: {T: {type: text}}}
"""
GROUP = 61234  # of nobody
NOBODY = 65534
STEPS = ("Make", "Fail", "Then")  # more than workers: the logs of a worker's second step are files that it made anew
EVIDENCE = ("events.jsonl", "steps/Fail/scratch/work/left", *(f"steps/{job}/stdout.log" for job in STEPS))
SEALED = 0o444  # stored bytes are never written again


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def run(folder: Path, mask: int) -> None:
    with umask(mask):
        (folder / "given").mkdir()
        (folder / "given/x").write_text("x\n")
        (folder / "workflow.yaml").write_text(FLOW)
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        for words, code in (
            (["run", "-q", "--jobs", "2", "--log-file", "told.log"], 1),
            (["plan", "--save", "p.json"], 0),
            (["compare", "-q", "Job:Make"], 0),
        ):
            done = run_command(words, cwd=folder, env=environment, timeout=300)
            assert done.returncode == code, done.stderr


def modes(folder: Path) -> dict[str, int]:
    """Of all files and folders, without links: relative path → permissions."""
    found = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        if not stat.S_ISLNK(status.st_mode):
            found[str(path.relative_to(folder))] = stat.S_IMODE(status.st_mode)
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to a group that it is not in")
def test_members_of_a_group_can_all_run_a_shared_project(tmp_path: Path) -> None:
    os.chown(tmp_path, -1, GROUP)
    tmp_path.chmod(0o2775)
    run(tmp_path, 0o002)
    found = modes(tmp_path)
    assert found.keys() >= {"told.log", *(f".whyrun/w/runs/r0001/{name}" for name in EVIDENCE)}
    assert [path for path, mode in found.items() if not mode & stat.S_IWGRP and mode != SEALED] == []
    assert {path.lstat().st_gid for path in tmp_path.rglob("*")} == {GROUP}
    assert (tmp_path / "mode.txt").read_text() == "2700\n"


def test_a_private_umask_keeps_the_state_private(tmp_path: Path) -> None:
    run(tmp_path, 0o077)
    assert {path: oct(mode) for path, mode in modes(tmp_path).items() if mode & 0o077} == {}
    assert (tmp_path / "mode.txt").read_text() == "700\n"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder in which any user may write; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_what_the_killed_run_of_another_member_left_stops_nobody(open_folder: Path) -> None:
    """Its scratch folder is closed to all others, who could not run until its owner had given a command."""
    lab = Lab(open_folder)
    with umask(0):
        lab.write({"workflow.yaml": FLOW.replace("Fail:", "Last:").replace("exit 1", "touch $out_T"), "given/x": "x"})
        lab.succeed()
        state = lab.opened().state
        (run,) = state.runs()
        (status := run.path / "status.json").unlink()
        theirs = state.scratch / f"{run.name}-1-1"
        (theirs / "work").mkdir(parents=True)
        theirs.chmod(0o700 if os.geteuid() == 0 else 0)
        if os.geteuid() == 0:
            os.seteuid(NOBODY)
        try:
            complete_killed_run(run, Store(state.store), state.scratch)
        finally:
            if os.getuid() == 0:
                os.seteuid(0)
    assert status.exists()
    told = f"{theirs.name}: what its steps left could not be kept: the folder belongs to another user\n"
    assert (run.path / "debug.log").read_text().endswith(told)
    theirs.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_member_with_another_umask_is_named_with_what_to_do(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(open_folder)
    lab.write({"workflow.yaml": FLOW, "given/x": "x"})
    lab.run()
    lock = lab.opened().state.lock_path
    for path in (open_folder, *open_folder.rglob("*")):
        os.chown(path, 0, GROUP, follow_symlinks=False)
    monkeypatch.chdir(open_folder)
    os.setegid(GROUP)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(SystemExit) as ended:
            main(["run", "--quiet"])
    finally:
        os.seteuid(0)
        os.setegid(0)
    assert ended.value.code == 3
    assert capsys.readouterr().err == (
        f"error[DISK_FAILED]: `{lock}`: Permission denied\n"
        "   hint: it belongs to `root`. Where a group shares a project, every member sets `umask 002` before a run; "
        "`chmod -R g+rwX .whyrun` by `root` opens what is there. The recorded runs are safe\n"
    )
