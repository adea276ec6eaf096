"""Every released log can be read for ever: an archive of each version, made by `story.py` when it was released.

Issue 17, number 21: logs of early versions ended `plan --at`, `diff` and `verify RUN` in a traceback.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from fork_server import run_command
from whyrun import __version__

HERE = Path(__file__).parent
RELEASED = sorted(path.name.removesuffix(".tar.gz") for path in HERE.glob("[0-9]*.tar.gz"))
READ = [
    "runs", "status", "plan", "explain", "log", "log r0003", "show r0001", "show r0008", "show Artifact:Count.Facts",
    "show Job:Book", "history Job:Greet", "history Artifact:Greet.Text", "why Job:Greet", "why Job:Greet --at r0008",
    "explain --at r0004", "diff r0001 r0004", "diff r0004 r0008", "parity r0001 r0004", "gc", "runs prune --keep 3",
    "compare --dry-run", "run --dry-run", "verify", "verify r0003",
]  # fmt: skip
READ_SHORT = ["runs", "status", "plan", "show r0003", "history Job:Say", "verify"]


@dataclass(frozen=True)
class Read:
    code: int
    out: str
    err: str


class Story:
    def __init__(self, root: Path, version: str) -> None:
        with tarfile.open(HERE / f"{version}.tar.gz") as archive:
            archive.extractall(root, filter="tar")
        self.root = root / "story"

    def read(self, command: str, *more: str) -> Read:
        done = run_command([*command.split(), *more], cwd=self.root, env={"PATH": "/usr/bin:/bin"}, timeout=300)
        return Read(done.returncode, done.stdout.decode(), done.stderr.decode())

    def plans(self) -> dict[str, bytes]:
        """The recorded plan of each run that has one."""
        return {
            file.parent.name: file.read_bytes() for file in sorted(self.root.glob(".whyrun/story/runs/*/plan.json"))
        }


@pytest.fixture(scope="module", params=RELEASED)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("story"), request.param)


def test_this_version_has_its_archive_when_it_is_released() -> None:
    assert __version__ in RELEASED, "before a release: python tests/versions/story.py"


def test_every_command_reads_the_log(story: Story) -> None:
    for command in READ:
        answer = story.read(command)
        differs = command.startswith("parity")  # two runs of one state
        assert answer.code == (1 if differs else 0), f"{command}: {answer}"
    for command in READ_SHORT:
        answer = story.read(f"{command} short.yaml --set Topic=c")
        assert answer.code == 0, f"{command} short.yaml: {answer}"


def test_the_evidence_is_sound_and_every_recorded_plan_is_computed_again_to_the_byte(story: Story) -> None:
    verified = json.loads(story.read("verify --replay all --json").out)
    plans = story.plans()
    assert (verified["ok"], verified["checked"]["plans"]) == (True, len(plans))
    for run, plan in plans.items():
        assert story.read(f"plan --at {run} --json").out.encode() == plan


def test_the_log_is_continued(tmp_path: Path) -> None:
    """A run of this version after those of the first: nothing is written anew, and the chain holds."""
    story = Story(tmp_path, RELEASED[0])
    logs = {path: path.read_bytes() for path in story.root.rglob("events.jsonl")}
    assert story.read("run --quiet --target Job:Book --force Job:Book").code == 0
    assert {path: path.read_bytes() for path in logs} == logs
    assert story.read("verify").code == 0


def test_logs_of_development_versions_are_read_and_what_is_not_is_told(tmp_path: Path) -> None:
    """Written days before the first release: the events are read. Recorded plans had reasons of another form; a plan
    that cannot be computed again is told, with the file that has it."""
    story = Story(tmp_path, "before-0.1.0")
    for command in ("runs", "status", "plan", "log", "show r0001", "history Job:Show", "verify", "plan --at r0001"):
        answer = story.read(command)
        assert answer.code == 0, f"{command}: {answer}"
    recorded = story.root / ".whyrun/early/runs/r0003/plan.json"
    for command in ("plan --at r0003", "explain --at r0003", "diff r0001 r0003", "why Job:Show --at r0003"):
        answer = story.read(command)
        assert answer.code == 3, f"{command}: {answer}"
        first, hint = answer.err.splitlines()
        assert "the plan of r0003 is not reproduced" in first
        assert hint == (
            "   hint: the log before r0003 was changed, or whyrun planned otherwise when it was recorded (by version "
            f"0.1.0): `{recorded}` has the recorded plan"
        )
    answer = story.read("verify r0003")
    assert (answer.code, answer.out.count("is not reproduced"), "Traceback" in answer.err) == (3, 1, False)
