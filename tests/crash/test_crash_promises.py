"""What somebody relies on outlasts a power cut, also where Whyrun itself has removed bytes that the log speaks of."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from crash_lab import Lab
from fault_hook import Fault
from fault_lab import Ended, FaultRunner

from whyrun.log import events as ev
from whyrun.log.sync_mark import Synced, last_synced

OWN = b"my only copy\n"


class PromiseLab(Lab):
    """An earlier result whose stored bytes have rotted, a file of the user's in the way, and a request to pay for."""

    def __init__(self, root: Path, runner: FaultRunner) -> None:
        super().__init__(root, "promise")
        self.runner = runner
        self.lock = root / ".whyrun" / "promise" / "lock"

    def whyrun(self, *argv: str, faults: tuple[Fault, ...] = ()) -> Ended:
        return self.runner.run(self.root, list(argv), faults)

    def rot(self) -> None:
        assert self.whyrun("run", "--target", "Job:Old").code == 0
        (old,) = [event for event in self.runs()[0].events() if isinstance(event, ev.ArtifactAvailable)]
        blob = Path(self.opened().store.path(old.sha256))
        blob.chmod(0o644)
        blob.write_bytes(b"olD\n")
        (self.root / "out" / "old.txt").unlink()

    def notes(self) -> list[str]:
        file = self.root / "notes.log"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def lab(tmp_path: Path, runner: FaultRunner) -> PromiseLab:
    lab = PromiseLab(tmp_path / "project", runner)
    lab.rot()
    (lab.root / "out" / "mine.txt").write_bytes(OWN)
    return lab


@pytest.mark.parametrize("lock_reaches_the_disk", [True, False])
def test_a_request_is_paid_once_and_a_saved_file_kept_though_damaged_bytes_were_removed_before_the_cut(
    lab: PromiseLab, lock_reaches_the_disk: bool
) -> None:
    cut = lab.whyrun("run")
    assert cut.code == -signal.SIGKILL
    assert "STORE_DAMAGED" in cut.err
    assert "its previous content is kept" in cut.err
    if not lock_reaches_the_disk:
        lab.lock.write_bytes(b"")
    for command in (("run",), ("gc", "--delete"), ("verify", "--replay", "all")):
        ended = lab.whyrun(*command)
        assert ended.code == 0, ended.err
    assert lab.notes() == ["paid", "went on"]
    made = {path.name: path.read_bytes() for path in (lab.root / "out").iterdir()}
    assert made == {"old.txt": b"old\n", "mine.txt": b"made\n", "paid.txt": b"number one\n"}
    displaced = [event for run in lab.runs() for event in run.events() if isinstance(event, ev.FileDisplaced)]
    assert [(one.path, lab.opened().store.read(one.sha256)) for one in displaced] == [("out/mine.txt", OWN)]
    (repaired,) = [event for run in lab.runs() for event in run.events() if isinstance(event, ev.LogRepaired)]
    assert (repaired.cut_bytes, repaired.interrupted) == (0, ["Job:Paid"])


def test_that_it_was_synced_is_synced_itself_before_anybody_relies_on_it(lab: PromiseLab) -> None:
    ended = lab.whyrun("run", faults=(Fault("lock.sync", 1, "before"),))
    assert (ended.code, len(ended.marks)) == (-signal.SIGKILL, 1)
    assert (lab.root / "out" / "mine.txt").read_bytes() == OWN, "not written over yet"
    (saved,) = [event for event in lab.runs()[-1].events() if isinstance(event, ev.FileDisplaced)]
    assert last_synced(lab.lock) == Synced("r0002", saved.seq)

    ended = lab.whyrun("run", faults=(Fault("lock.sync", 2, "before"),))
    assert (ended.code, len(ended.marks)) == (-signal.SIGKILL, 1)
    assert lab.notes() == ["paid"], "the step has not gone on"
    (request,) = [event for event in lab.runs()[-1].events() if isinstance(event, ev.RequestRecorded)]
    assert last_synced(lab.lock) == Synced("r0003", request.seq)


@pytest.mark.parametrize(("number", "code"), [(1, 1), (2, 3)])
def test_where_that_cannot_be_synced_the_step_or_the_run_fails_and_nothing_is_lost(
    lab: PromiseLab, number: int, code: int
) -> None:
    """1: the file of the user's stays, and its step is not published. 2: the step that waits for its word is ended."""
    ended = lab.whyrun("run", faults=(Fault("lock.sync", number, "EIO"),))
    assert (ended.code, len(ended.marks)) == (code, 1), ended.err
    assert "Input/output error" in ended.err
    assert "Traceback" not in ended.err
    assert ((lab.root / "out" / "mine.txt").read_bytes() == OWN) == (number == 1)
    assert "went on" not in lab.notes()
