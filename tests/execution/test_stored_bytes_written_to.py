"""What is stored is read by many at once. Who writes into it costs all of them their results, also where it puts back
what was there: nobody knows what they have read. A step reaches large files only: of others it has a private copy."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from execution.worker_lab import Lab
from project_lab import Lab as Project
from project_lab import Ran
from whyrun.artifacts.store import Store
from whyrun.execution.protocol.messages import InputSpec
from whyrun.execution.worker.failure import StepError
from whyrun.execution.worker.materialize import InputGuard
from whyrun.log.events import StepFailed

RIGHT = b"right"
SHA = hashlib.sha256(RIGHT).hexdigest()

WORKFLOW = """
    workflow: w
    jobs:
      Make:
        uses: python
        with: {call: "code:make"}
        outputs: {T: {type: text}}
      Write:
        uses: python
        with: {call: "code:CULPRIT", text: "${{ jobs.Make.outputs.T }}"}
        outputs: {T: {type: text}}
      Read:
        uses: python
        with: {call: "code:read", text: "${{ jobs.Make.outputs.T }}"}
        outputs: {T: {type: text, path: out.txt}}
    """
# Each waits for the other, so that one reads between the two writes of the other.
CODE = """
    import os
    import time
    from pathlib import Path

    CLEAN = "clean" + " " * (1 << 20)

    def say(word):
        (Path(__file__).parent / word).touch()

    def hear(word):
        until = time.monotonic() + 300
        while not (Path(__file__).parent / word).exists():
            assert time.monotonic() < until, word
            time.sleep(0.01)

    def make():
        return {"T": CLEAN}

    def write_and_put_back(text):
        hear("reading")
        os.chmod(text, 0o644)
        text.write_text("spoilt")
        say("spoilt")
        hear("read")
        text.write_text(CLEAN)
        say("put back")
        return {"T": "done"}

    def write_and_fail(text):
        os.chmod(text, 0o644)
        text.write_text("spoilt")
        raise ValueError("something else")

    def read(text):
        say("reading")
        hear("spoilt")
        said = text.read_text()
        say("read")
        hear("put back")
        return {"T": said}
    """


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    lab.backend.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "store")
    found.put_bytes(RIGHT)
    return found


def watching(store: Store) -> InputGuard:
    guard = InputGuard(store.root)
    guard.begin()
    guard.blob("Artifact:A.X", store.path(SHA), SHA)
    return guard


def failure_of(guard: InputGuard) -> tuple[str, str]:
    with pytest.raises(StepError) as failed:
        guard.check_unchanged()
    return failed.value.kind, str(failed.value)


def failures(ran: Ran) -> dict[str, tuple[str, str]]:
    return {event.step_id: (event.error_type, event.error) for event in ran.of(StepFailed)}


def test_what_was_written_to_and_put_back_while_others_read_it_fails_all_of_them(
    project: Callable[..., Project],
) -> None:
    lab = project(WORKFLOW.replace("CULPRIT", "write_and_put_back"), {"code.py": CODE})
    ran = lab.run()
    said = "`Artifact:Make.T` was written to while the step ran; nobody may write into stored bytes; run again"
    assert failures(ran) == {
        "Job:Read": ("InputChangedDuringRun", said),
        "Job:Write": ("InputChangedDuringRun", said),
    }
    assert not (lab.root / "out.txt").exists()


def test_a_step_that_fails_says_that_its_input_was_written_to_beside_its_own_error(
    project: Callable[..., Project],
) -> None:
    """Else the one who wrote looks innocent: it fails of something else, and others of what it did."""
    alone, _, _ = WORKFLOW.replace("CULPRIT", "write_and_fail").partition("      Read:")  # which would remove the bytes
    (wrote,) = project(alone, {"code.py": CODE}).run().of(StepFailed)
    assert wrote.step_id == "Job:Write"
    assert (wrote.error_type, wrote.error) == ("ValueError", "something else")
    note = "\nAlso: `Artifact:Make.T` was written to while the step ran; nobody may write into stored bytes\n"
    assert wrote.traceback.endswith(f"ValueError: something else\n{note}")


def artifact(lab: Lab, data: bytes = RIGHT) -> dict[str, InputSpec]:
    return {"x": lab.artifact(data, "file")}


FAILS = """\
import os
def removes(x):
    os.unlink(x.resolve())
    raise ValueError("something else")
def fails(x=None):
    raise ValueError("something else")
def reads(x):
    return {"T": x.read_text()}
"""


@pytest.mark.parametrize("env", [{}, {"OWN": "process"}])
def test_a_step_that_fails_says_that_its_input_was_removed(lab: Lab, env: dict[str, str]) -> None:
    """As is done with bytes that another step has found damaged."""
    lab.file("m.py", FAILS)
    inputs = artifact(lab, RIGHT * (1 << 20))
    word = lab.one(lab.call("m:removes", with_={"x": {"$input": "x"}}, inputs=inputs, env=env))
    assert (word.error_type, word.error) == ("ValueError", "something else")
    note = "\nAlso: `Artifact:A.X` was removed while the step ran; nobody may write into stored bytes\n"
    assert word.traceback.endswith(f"ValueError: something else\n{note}")


def test_nothing_is_said_of_what_happened_to_the_inputs_of_an_earlier_step(lab: Lab) -> None:
    lab.file("m.py", FAILS)
    spec = artifact(lab)
    assert lab.one(lab.call("m:reads", {"T": "string"}, with_={"x": {"$input": "x"}}, inputs=spec)).error_type is None
    os.unlink(lab.store.path(SHA))
    for command in (
        lab.call("m:fails", step_id="Job:Fails"),
        lab.call("m:fails", step_id="Job:Lacks", with_={"x": {"$input": "nowhere"}}),
    ):
        assert "Also:" not in lab.one(command).traceback


def test_a_step_may_write_into_a_folder_that_it_was_given(lab: Lab) -> None:
    """It is a copy of its own, which was checked when it was made; what is stored is not reached through it."""
    lab.file("m.py", "def f(x):\n    (x / 'one').write_text('mine')\n    return {'T': (x / 'one').read_text()}\n")
    folder = lab.file("given/one", RIGHT).parent
    sha256, _ = lab.store.put_tree(folder)
    spec = InputSpec(id="Artifact:A.X", sha256=sha256, type="directory")
    word = lab.one(lab.call("m:f", {"T": "string"}, with_={"x": {"$input": "x"}}, inputs={"x": spec}))
    assert (word.error_type, word.outputs[0].value) == (None, "mine")
    assert lab.store.read(SHA) == RIGHT


def test_a_blob_that_was_replaced_may_have_been_read_while_it_was_damaged(store: Store, tmp_path: Path) -> None:
    guard = watching(store)
    (tmp_path / "again").write_bytes(RIGHT)
    os.rename(tmp_path / "again", store.path(SHA))
    said = "`Artifact:A.X` was replaced while the step ran; nobody may write into stored bytes; run again"
    assert failure_of(guard) == ("InputChangedDuringRun", said)
    assert store.read(SHA) == RIGHT


def test_a_blob_that_is_gone_fails_the_step_that_reads_it(store: Store) -> None:
    guard = watching(store)
    os.unlink(store.path(SHA))
    said = "`Artifact:A.X` was removed while the step ran; nobody may write into stored bytes; run again"
    assert failure_of(guard) == ("InputChangedDuringRun", said)


def test_another_mode_or_name_of_a_blob_is_no_write(store: Store, tmp_path: Path) -> None:
    guard = watching(store)
    os.chmod(store.path(SHA), 0o600)
    os.link(store.path(SHA), tmp_path / "another name")
    guard.check_unchanged()


def test_every_blob_with_other_bytes_is_removed_whatever_the_step_fails_of(store: Store) -> None:
    other = store.put_bytes(b"other")
    guard = watching(store)
    guard.blob("Artifact:A.Y", store.path(other), other)
    for sha in (SHA, other):
        os.chmod(store.path(sha), 0o644)
        Path(store.path(sha)).write_bytes(b"spoilt")
    said = "`Artifact:A.X` was written to while the step ran; nobody may write into stored bytes; run again"
    assert failure_of(guard) == ("InputChangedDuringRun", said)
    assert (store.has(SHA), store.has(other)) == (False, False)
