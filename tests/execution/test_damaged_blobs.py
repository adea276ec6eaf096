"""Stored bytes that are not what the log says: whoever meets them fails and removes them, and the next run is sound.

It is the store of the host that is wrong, wherever the step ran and whatever it got a copy of.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from project_lab import Lab
from whyrun.execution.backends.base import Backend
from whyrun.execution.backends.sandbox.backend import sandbox_backend

Make = Callable[..., Lab]
Place = Callable[[], Backend | None]

WORKFLOW = """
    workflow: damaged
    loops: {i: {count: 2}}
    jobs:
      A:
        for: [i]
        uses: python
        with: {call: "steps:make", type: "TYPE", i: "${{ i }}"}
        outputs: {X: {type: TYPE}}
      B:
        uses: python
        with: {call: "steps:use", given: "${{ jobs.A.outputs.X[:] }}"}
        outputs: {N: {type: text, path: out.txt}}
"""
STEPS = """\
from pathlib import Path

def make(type, i, context):
    target = context.output("X")
    if type == "directory":
        target.mkdir(exist_ok=True)
        target = target / "inside.txt"
    target.write_text(f'{{"made": {i}}}')

def use(given, context):
    context.output("N").write_text(" ".join(type(one).__name__ for one in given))
"""
MADE = b'{"made": 1}'


def local() -> None:
    return None


@pytest.fixture(params=["local", "sandbox"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "sandbox" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return local if request.param == "local" else sandbox_backend


def damage(lab: Lab, data: bytes) -> Path:
    """The blob with this content gets another of the same size: only reading it tells."""
    (found,) = [path for path in lab.store.glob("??/*") if path.read_bytes() == data]
    found.chmod(0o644)
    found.write_bytes(data[:-1] + b"?")
    return found


@pytest.mark.parametrize("type_", ["file", "text", "json", "directory"])
def test_what_a_step_was_to_read_is_removed_and_made_again(project: Make, type_: str, place: Place) -> None:
    lab = project(WORKFLOW.replace("TYPE", type_), {"steps.py": STEPS})
    lab.succeed()
    blob = damage(lab, MADE)
    ran = lab.run(force=["Job:B"], backend=place())
    assert ran.failed == {"Job:B": ("FAILED", "StoreDamaged")}
    assert ran.executed == []
    assert not blob.exists()
    assert {job.id: job.headline for job in lab.plan().planned} == {
        "Job:A[1]": "MISSING_OUTPUT",
        "Job:B": "RETRY_PREVIOUS_FAILURE",
    }
    assert lab.succeed(backend=place()).executed == ["Job:A[1]", "Job:B"]
    assert blob.read_bytes() == MADE
    assert lab.plan().planned == []


def test_the_manifest_of_a_folder(project: Make) -> None:
    lab = project(WORKFLOW.replace("TYPE", "directory"), {"steps.py": STEPS})
    lab.succeed()
    manifest = lab.blob(lab.snapshot().records.steps["Job:A[1]"].latest.outputs[0].sha256)
    damage(lab, manifest.read_bytes())
    assert {job.id: job.headline for job in lab.plan().planned} == {
        "Job:A[1]": "MISSING_OUTPUT",  # a plan reads it
        "Job:B": "UPSTREAM_DIRTY",
    }
    assert lab.succeed(force=["Job:B"]).executed == ["Job:A[1]", "Job:B"]
    assert lab.plan().planned == []


PUBLISHED = """
    workflow: damaged
    inputs: {Word: {type: string, default: one}}
    jobs:
      A:
        uses: shell
        with: {word: "${{ inputs.Word }}", run: 'echo "$word" > "$out_T"'}
        outputs: {T: {type: text, path: out/t.txt}}
"""


def test_what_is_reused_and_damaged_is_never_published_and_made_again_by_the_next_run(project: Make) -> None:
    lab = project(PUBLISHED, {})
    lab.succeed()
    lab.succeed(sets=["Word=two"])
    damage(lab, b"one\n")
    ran = lab.run()
    assert ran.failed == {"Job:A": ("FAILED", "NotPublished")}
    (failed,) = [event for event in ran.events if type(event).__name__ == "StepFailed"]
    was, found = (sha256(data).hexdigest() for data in (b"one\n", b"one?"))
    told = f"STORE_DAMAGED: the stored blob {was} has other bytes (sha256 {found})"
    again = "such bytes are removed, and the next run takes them from elsewhere or makes them again"
    assert failed.error == f"`out/t.txt` could not be written: {told}; {again}"
    assert lab.read("out/t.txt") == "two\n"
    assert lab.succeed().executed == ["Job:A"]
    assert lab.read("out/t.txt") == "one\n"
    assert lab.plan().planned == []


def test_what_was_deleted_and_is_damaged_in_the_store(project: Make) -> None:
    lab = project(PUBLISHED, {})
    lab.succeed()
    damage(lab, b"one\n")
    (lab.root / "out" / "t.txt").unlink()
    assert lab.run().failed == {"Job:A": ("FAILED", "NotPublished")}
    assert lab.succeed().executed == ["Job:A"]
    assert lab.read("out/t.txt") == "one\n"


def test_a_published_file_that_is_right_is_as_good_as_the_stored_one(project: Make) -> None:
    """It costs the run that meets the damage, and nothing is executed again that was sound."""
    lab = project(PUBLISHED.replace("jobs:", "jobs:\n" + READS), {})
    lab.succeed()
    blob = damage(lab, b"one\n")
    assert lab.run(force=["Job:B"]).failed == {"Job:B": ("FAILED", "StoreDamaged")}
    assert lab.succeed().executed == ["Job:B"]
    assert blob.read_bytes() == b"one\n"


READS = """      B:
        uses: shell
        with: {t: "${{ jobs.A.outputs.T }}", run: 'cp "$t" "$out_U"'}
        outputs: {U: {type: text}}"""
