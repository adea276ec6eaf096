"""Pipes, sockets and devices at published paths: detected, reported, and never read."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from project_lab import Heard, Lab
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.errors import InvalidError
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.log import events as ev

WORKFLOW = """
    workflow: demo
    jobs:
      A:
        uses: shell
        with: {run: 'echo one > "$out_T"'}
        outputs: {T: {type: text, path: out/t.txt}}
    """


def test_a_pipe_at_a_published_path_is_a_changed_output(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({"workflow.yaml": WORKFLOW})
    lab.succeed()
    (tmp_path / "out/t.txt").unlink()
    os.mkfifo(tmp_path / "out/t.txt")
    plan = lab.plan()
    assert plan.headlines() == {"Job:A": "MISSING_OUTPUT"}
    assert getattr(plan.planned[0].reasons[0], "change", None) == "changed"
    ran = lab.run()  # it is not ours to take away: said so, and the result is kept
    assert (ran.exit_code, [error for _, error in ran.failed.values()]) == (1, ["NotPublished"])
    assert stat.S_ISFIFO((tmp_path / "out/t.txt").stat().st_mode)


FOLDER = """
    workflow: demo
    jobs:
      A:
        uses: shell
        with: {run: 'mkdir "$out_F"; echo one > "$out_F/t.txt"'}
        outputs: {F: {type: directory, path: out/f}}
    """


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda folder: (folder / "l").symlink_to("nowhere"), "FILE_MISSING: the link `out/f/l` leads nowhere"),
        (lambda folder: (folder / "l").symlink_to("../.."), "PATH_OUTSIDE: the link `out/f/l` leads out of its folder"),
        (lambda folder: (folder / "l").symlink_to("."), "CYCLE: the link `out/f/l` leads back to a folder above it"),
        (lambda folder: os.mkfifo(folder / "l"), "INPUT_TYPE: `out/f/l` is neither a file nor a folder"),
        (lambda folder: Path(os.fsdecode(b"%b/\xff" % os.fsencode(folder))).touch(), "NAME_INVALID: the name of "),
    ],
    ids=["a link that leads nowhere", "a link that leads out", "a circle", "a pipe", "a name that is no text"],
)
def test_a_published_folder_that_holds_what_no_artifact_can_is_a_changed_output(
    tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    """It stops no plan. But it cannot be saved either, so it is not written over."""
    lab = Lab(tmp_path).write({"workflow.yaml": FOLDER})
    lab.succeed()
    spoil(tmp_path / "out/f")
    before = sorted(os.listdir(tmp_path / "out/f"))
    (reason,) = lab.plan().planned[0].reasons
    assert (reason.code, getattr(reason, "change", None)) == ("MISSING_OUTPUT", "changed")
    ran = lab.run()
    (failed,) = [e for e in ran.events if isinstance(e, ev.StepFailed)]
    assert failed.error_type == "NotPublished"
    assert failed.error.startswith(f"`out/f` could not be written: {why}")
    assert sorted(os.listdir(tmp_path / "out/f")) == before
    shutil.rmtree(tmp_path / "out/f")
    assert lab.run().exit_code == 0
    assert (tmp_path / "out/f/t.txt").read_text() == "one\n"


def test_a_link_that_leads_to_itself_is_a_changed_output(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({"workflow.yaml": WORKFLOW})
    lab.succeed()
    (tmp_path / "out/t.txt").unlink()
    (tmp_path / "out/t.txt").symlink_to("t.txt")
    (reason,) = lab.plan().planned[0].reasons
    assert (reason.code, getattr(reason, "change", None)) == ("MISSING_OUTPUT", "changed")
    assert lab.run().exit_code == 0  # what is displaced is the link
    assert (tmp_path / "out/t.txt").read_text() == "one\n"


TWO = """
    workflow: demo
    jobs:
      A:
        uses: shell
        with: {run: 'mkdir "$out_F"; echo one > "$out_F/t.txt"; echo two > "$out_T"'}
        outputs: {F: {type: directory, path: out/f}, T: {type: text, path: out/t.txt}}
    """


def test_adopting_beside_what_cannot_be_written_over(tmp_path: Path) -> None:
    """What was adopted is recorded and counts: so it is said. And a spoilt folder beside it stands in nobody's way."""
    lab = Lab(tmp_path).write({"workflow.yaml": TWO, "mine.txt": "mine\n", "mine/t.txt": "mine\n"})
    lab.succeed()
    (tmp_path / "out/f/l").symlink_to("nowhere")
    adopt_file(lab.opened(), "Artifact:A.T", tmp_path / "mine.txt", Heard())
    assert (tmp_path / "out/t.txt").read_text() == "mine\n"
    with pytest.raises(InvalidError) as problem:
        adopt_file(lab.opened(), "Artifact:A.F", tmp_path / "mine", Heard())
    (told,) = problem.value.diagnostics
    assert told.code == "FILE_MISSING"
    assert told.message.startswith("`Artifact:A.F` is recorded, but cannot be published: the link ")
    assert told.hint == "remove the link, or restore its target; `whyrun run` publishes it then"
    (tmp_path / "out/f/l").unlink()
    assert lab.run().exit_code == 0
    assert (tmp_path / "out/f/t.txt").read_text() == "mine\n"


SHARED = """
    workflow: demo
    jobs:
      A:
        uses: shell
        with: {run: 'echo one > "$out_T"'}
        outputs: {T: {type: text, path: out/t.txt}}
      B:
        uses: shell
        with: {run: 'echo 1 > "$out_M"'}
        outputs: {M: {type: json, path: out/m.json, append: true}}
    """


def test_lost_bytes_are_not_waited_for_at_a_pipe(tmp_path: Path) -> None:
    """Nobody ever writes into it: reading it back from there would hang, deaf to every signal but the last."""
    lab = Lab(tmp_path).write({"workflow.yaml": SHARED})
    lab.succeed()
    for content in (b"one\n", b"1"):
        lab.blob(bytes_sha256(content)).unlink()
    for name in ("t.txt", "m.json"):
        (tmp_path / "out" / name).unlink()
        os.mkfifo(tmp_path / "out" / name)
    freed: list[Path] = []
    watchdog = threading.Timer(20.0, lambda: freed.extend(map(_write_nothing, (tmp_path / "out").iterdir())))
    watchdog.start()
    ran = lab.run()
    watchdog.cancel()
    assert not freed
    assert {step: error for step, (_, error) in ran.failed.items()} == {
        "Job:A": "NotPublished",
        "Job:B": "NotPublished",
    }
    failures = [e for e in ran.events if isinstance(e, ev.StepFailed)]
    assert sorted(e.error for e in failures) == [
        "SECTION_FILE_INVALID: `out/m.json` cannot take a section: it is not a file; correct it or move it away, and "
        "the next run publishes the result",
        "`out/t.txt` could not be written: WRONG_TYPE: `out/t.txt` is neither a file nor a folder, so it cannot be "
        "saved before it is overwritten (move it away, then run again); the result is kept, and the "
        "next run publishes it",
    ]
    assert not [e.traceback for e in failures if str(tmp_path) in e.traceback]


def _write_nothing(pipe: Path) -> Path:
    """Whoever waits for this pipe goes on."""
    os.close(os.open(pipe, os.O_RDWR))
    return pipe
