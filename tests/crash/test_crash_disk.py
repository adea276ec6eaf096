"""A full disk, on a small file system of its own: the error is told, and with space again the next run completes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash_lab import TOPICS, Lab, Reference
from fault_selection import SOAK

from whyrun.log import events as ev

FULL = "No space left on device"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    ) if os.geteuid() == 0 else None  # fmt: skip
    if made is None or made.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {made.stderr.strip() if made else 'only root may'}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path, leave: int) -> Path:
    """A ballast file that leaves so many bytes free (in whole pages)."""
    ballast = place / "ballast"
    stats = os.statvfs(place)
    ballast.write_bytes(b"\0" * max(0, stats.f_bavail * stats.f_frsize - leave))
    return ballast


@pytest.mark.parametrize("pages", [0, 6, 12, 20, 30, 40, 55, 70, 90, 120, 160] if SOAK else [0, 20, 55, 120])
def test_a_disk_that_fills_up_loses_nothing_that_the_log_says(pages: int, small: Path, reference: Reference) -> None:
    lab = Lab(small / "project")
    lab.sets = (f"Topic={TOPICS[0]}",)
    ballast = fill(small, pages * 4096)
    ended = lab.run()
    # A step that found no space may not even have been able to say so: its stderr is a file on the same disk.
    failed = any(isinstance(e, ev.StepFailed) for run in lab.runs() for e in run.events())
    assert ended.code == 0 or failed or FULL in ended.err, ended.err
    lab.check_nobody_left()

    lab.plan()  # what can be read can be planned, although nothing can be written
    ballast.unlink()
    done = lab.completed()
    before = lab.plan()
    ended = lab.succeed()
    assert ended.result["plan_digest"] == before.digest
    if ended.result["run"] is not None:
        assert not lab.executed(lab.runs()[-1]).items() & done.items()
    assert lab.artifacts() == reference.artifacts[TOPICS[0]]
    assert lab.plan().planned == []
    lab.check_evidence()
    lab.check_replay()
