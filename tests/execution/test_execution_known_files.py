"""A file that the host has just hashed is not read again by a worker beside it; and every change is still seen."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from worker_lab import PATIENCE, Lab

from project_lab import Lab as Project
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.artifacts.stat_cache.rows import is_settled, signature_of
from whyrun.execution.backends.base import HostServices
from whyrun.execution.backends.local.backend import LocalBackend
from whyrun.execution.bundle.bundle import bundle_project
from whyrun.execution.dispatch.step_builder import known_files
from whyrun.execution.protocol.messages import ExecStep, InputSource, InputSpec
from whyrun.execution.worker.failure import StepError
from whyrun.execution.worker.materialize import AFTER, InputGuard

LARGE = b"0123456789abcdef" * (1 << 16)  # a megabyte: from there on it is worth while
OTHER = LARGE[:-1] + b"!"
CHANGED = "`x.bin` (Input:X) does not have the planned content, or was written to meanwhile"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def settle(path: Path) -> None:
    """Wait until a look at the file can be relied on."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = path.stat()
        # With a margin: the clock of the file system may seem to be behind by as long as it takes to look at it.
        if is_settled(found.st_mtime_ns, found.st_ctime_ns, time.time_ns() - 300_000_000):
            return
        time.sleep(0.005)
    raise AssertionError(f"{path} does not settle")


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    settle(path)
    return path


def command(*sources: InputSource | list[InputSource]) -> ExecStep:
    inputs = {f"i{number}": source for number, source in enumerate(sources)}
    return ExecStep("Job:S", "python", "cfg/S.json", "0" * 64, 1, inputs)


def source(path: str | None, data: bytes) -> InputSource:
    return InputSource("Input:X", sha(data), path=path)


# --- what the host tells -----------------------------------------------------------------------------------------


def test_the_host_tells_of_large_files_whose_content_it_knows(tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    project = tmp_path / "project"
    project.mkdir()
    files = {"x.bin": LARGE, "y.bin": OTHER, "small.bin": LARGE[:-1], "edited.bin": LARGE}
    for name, data in files.items():
        written(project / name, data)
    written(outside, LARGE)
    cache = StatCache.load(tmp_path / "stat-cache")
    cache.sha256_in(str(project), ["x.bin", "y.bin", "small.bin", "edited.bin", str(outside), "../outside.bin"])
    asked = command(
        source("x.bin", LARGE),
        [source("y.bin", OTHER), source(str(outside), LARGE), source("../outside.bin", LARGE)],
        source("small.bin", LARGE[:-1]),  # read as fast as it is spoken of
        source("edited.bin", OTHER),  # the step is to read something else
        source("unknown.bin", LARGE),
        source(None, LARGE),  # of the store
    )
    expected = {
        "x.bin": signature_of((project / "x.bin").stat()),
        "y.bin": signature_of((project / "y.bin").stat()),
        str(outside): signature_of(outside.stat()),
        "../outside.bin": signature_of(outside.stat()),
    }
    assert known_files(cache, project, asked) == expected
    cache.save()
    assert known_files(StatCache.load(tmp_path / "stat-cache"), project, asked) == expected


def test_the_host_says_nothing_of_a_file_that_it_hashed_right_after_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(LARGE)
    written_at = max(path.stat().st_mtime_ns, path.stat().st_ctime_ns)
    cache = StatCache.load(tmp_path / "stat-cache", lambda: written_at + 1)
    assert cache.sha256_in(str(tmp_path), ["x.bin"]) == [sha(LARGE)]
    assert known_files(cache, tmp_path, command(source("x.bin", LARGE))) == {}


# --- what the worker makes of it ---------------------------------------------------------------------------------


class Guarded:
    """A guard that was told what the file looks like now. `claimed` is what the step is to read."""

    def __init__(self, folder: Path, claimed: bytes = LARGE) -> None:
        self.path = written(folder / "x.bin", LARGE)
        self.spec = InputSpec(id="Input:X", sha256=sha(claimed), type="file", path="x.bin")
        self.guard = InputGuard(folder)
        self.guard.trust({"x.bin": signature_of(self.path.stat())})
        self.guard.begin()

    def begin(self) -> None:
        assert self.guard.project_file(self.spec) == self.path

    def refusal_at_start(self) -> str:
        with pytest.raises(StepError) as refused:
            self.guard.project_file(self.spec)
        return str(refused.value)

    def refusal_at_end(self) -> str:
        with pytest.raises(StepError) as refused:
            self.guard.check_unchanged()
        return str(refused.value)


def edit(path: Path) -> None:
    path.write_bytes(OTHER)


def edit_and_restore_the_time(path: Path) -> None:
    before = path.stat()
    path.write_bytes(OTHER)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)


def replace_by_rename(path: Path) -> None:
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(OTHER)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(path)


def nothing(_: Path) -> None:
    """The change alone."""


CHANGES = (edit, edit_and_restore_the_time, replace_by_rename)
Change = Callable[[Path], None]


def test_a_file_that_looks_as_the_host_saw_it_is_not_read_again(tmp_path: Path) -> None:
    lab = Guarded(tmp_path, claimed=OTHER)  # a wrong word of the host's, so that reading would show
    lab.begin()
    lab.guard.check_unchanged()
    lab.guard = InputGuard(tmp_path)
    assert lab.refusal_at_start() == f"{CHANGED}; run again"


@pytest.mark.parametrize("wait", [settle, nothing])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_before_the_step_is_seen(tmp_path: Path, change: Change, wait: Change) -> None:
    lab = Guarded(tmp_path)
    change(lab.path)
    wait(lab.path)
    assert lab.refusal_at_start() == f"{CHANGED}; run again"


@pytest.mark.parametrize("wait", [settle, nothing])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_during_the_step_is_seen(tmp_path: Path, change: Change, wait: Change) -> None:
    lab = Guarded(tmp_path)
    lab.begin()
    change(lab.path)
    wait(lab.path)
    assert lab.refusal_at_end() == f"{CHANGED}; {AFTER}"


def test_a_file_that_was_deleted_is_missing_and_one_deleted_meanwhile_has_changed(tmp_path: Path) -> None:
    lab = Guarded(tmp_path)
    lab.begin()
    lab.path.unlink()
    assert lab.refusal_at_end() == f"{CHANGED}; {AFTER}"
    assert lab.refusal_at_start() == "`Input:X`: `x.bin` does not exist"


def test_the_same_content_under_another_signature_is_read_and_taken(tmp_path: Path) -> None:
    lab = Guarded(tmp_path)
    lab.path.with_name("other").write_bytes(LARGE)
    lab.path.with_name("other").rename(lab.path)
    lab.begin()
    os.chmod(lab.path, 0o600)
    lab.guard.check_unchanged()


def test_a_file_that_was_only_touched_meanwhile_may_have_been_another_in_between(tmp_path: Path) -> None:
    lab = Guarded(tmp_path)
    lab.begin()
    os.utime(lab.path)
    assert lab.refusal_at_end() == f"{CHANGED}; {AFTER}"


def test_a_look_that_comes_too_early_is_not_relied_on(tmp_path: Path) -> None:
    """Whatever the host says: a file of the future may be written to once more within the same tick."""
    lab = Guarded(tmp_path, claimed=OTHER)
    future = time.time_ns() + 3600 * 10**9 + 1
    os.utime(lab.path, ns=(future, future))
    lab.guard.trust({"x.bin": signature_of(lab.path.stat())})
    assert lab.refusal_at_start() == f"{CHANGED}; run again"


def test_what_was_told_for_one_step_does_not_hold_for_the_next(tmp_path: Path) -> None:
    """Told of a file, then of another content of it: the second step reads what is there."""
    lab = Guarded(tmp_path)
    lab.begin()
    edit(lab.path)
    settle(lab.path)
    lab.guard.trust({})
    lab.guard.begin()
    assert lab.refusal_at_start() == f"{CHANGED}; run again"


# --- from the one to the other -----------------------------------------------------------------------------------

READ = "def f(x):\n    return {'n': len(x.read_bytes())}\n"


@pytest.mark.parametrize("secrets", [None, {"Key": "a-secret-value"}])
def test_the_word_reaches_the_worker_and_a_process_of_the_steps_own(
    tmp_path: Path, secrets: dict[str, str] | None
) -> None:
    lab = Lab(tmp_path)
    lab.backend.close()
    path = written(lab.project / "x.bin", LARGE)
    told = {"x.bin": signature_of(path.stat())}
    lab.backend = LocalBackend()
    host = HostServices(partial(bundle_project, lab.project), print, known_files=lambda _: told)
    lab.backend.open(replace(lab.session, host=host))
    try:
        lab.file("m.py", READ)
        spec = InputSpec(id="Input:X", sha256=sha(OTHER), type="file", path="x.bin")  # reading it would show
        with_, more = {"x": {"$input": "x"}}, {"secrets": ["Key"]} if secrets else {}
        ask = lab.call("m:f", {"n": "integer"}, with_=with_, inputs={"x": spec}, **more)
        (output,) = lab.one(ask, secrets).outputs
        assert output.value == len(LARGE)
        told.clear()
        edit_and_restore_the_time(path)
        write_back = lab.call("m:f", {"n": "integer"}, with_=with_, inputs={"x": replace_sha(spec, LARGE)}, **more)
        assert lab.failure(write_back, secrets) == ("InputChangedDuringRun", f"{CHANGED}; run again")
    finally:
        lab.backend.close()


def replace_sha(spec: InputSpec, data: bytes) -> InputSpec:
    return InputSpec(id=spec.id, sha256=sha(data), type=spec.type, path=spec.path)


WORKFLOW = """
    workflow: w
    inputs: {X: {type: file, default: x.bin}}
    jobs:
      A:
        uses: python
        with: {call: "code:spoil"}
        outputs: {T: {type: text}}
      B:
        needs: [A]
        uses: python
        with: {call: "code:read", x: "${{ inputs.X }}"}
        outputs: {N: {type: integer}}
    """
CODE = """
    import os
    from pathlib import Path

    def spoil():
        path = Path(__file__).parent / "x.bin"
        if (path.parent / "spoil").exists():
            before = path.stat()
            with path.open("r+b") as file:
                file.write(b"!")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return {"T": "done"}

    def read(x):
        return {"N": x.read_bytes().count(b"!")}
    """


def test_in_a_run_a_large_input_that_was_edited_under_its_old_time_fails_the_step(
    project: Callable[..., Project],
) -> None:
    lab = project(WORKFLOW, {"code.py": CODE})
    written(lab.root / "x.bin", LARGE)
    lab.succeed()
    assert lab.content("Artifact:B.N") == 0
    run = lab.run_folder("r0001")
    told = str((lab.root / "x.bin").stat().st_mtime_ns)
    kept = [run / "commands.jsonl", run / "events.jsonl", *run.glob("cfg/*.json")]
    assert [path.name for path in kept if told in path.read_text()] == []
    lab.write({"spoil": ""})
    ran = lab.run(force=["Job:A", "Job:B"])
    assert ran.failed == {"Job:B": ("FAILED", "InputChangedDuringRun")}
    (lab.root / "spoil").unlink()
    lab.succeed()
    assert lab.content("Artifact:B.N") == 1
