"""SIGKILL for the host: what its running steps had printed and written is in the evidence that the repair completes."""

from __future__ import annotations

import os
import shutil
import signal
import textwrap
from pathlib import Path

import pytest
from crash_gate import until
from crash_lab import Lab
from fault_selection import SOAK

from project_lab import Heard
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.execution.run.preflight import complete_killed_run
from whyrun.log import events as ev
from whyrun.log.journal import utc_now
from whyrun.log.lock import RunLock
from whyrun.log.repair import repair

FLOW = """
    workflow: left
    inputs: {Gate: {type: string}}
    jobs:
      First:
        uses: shell
        with: {run: 'echo first > "$out_Text"'}
        outputs: {Text: {type: text, path: out/first.txt}}
      Wait:
        uses: python
        with: {call: "steps:wait", gate: "${{ inputs.Gate }}", text: "${{ jobs.First.outputs.Text }}"}
        outputs: {Text: {type: text, path: out/wait.txt}, Folder: {type: directory}}
"""

STEPS = """
    import os, sys, time
    from pathlib import Path


    def wait(gate, context, text=None):
        print("waiting")
        os.system("echo from a child >&2")
        Path("notes").mkdir()
        Path("notes/half.txt").write_text("half")
        context.output("Text").write_text("hal")
        (context.output("Folder") / "sub").mkdir(parents=True)
        (context.output("Folder") / "sub" / "a").write_text("a")
        Path(os.environ["TMPDIR"], "t").write_text("t")
        Path(gate + ".waits").touch()
        while not Path(gate).exists():
            time.sleep(0.01)
        context.output("Text").write_text("whole")


    def fail_then_wait(gate, context):
        if not Path(gate + ".failed").exists():
            Path(gate + ".failed").touch()
            print("one")
            Path("first").write_text("first")
            raise ValueError("not yet")
        print("two")
        Path("second").write_text("second")
        Path(gate + ".waits").touch()
        while not Path(gate).exists():
            time.sleep(0.01)
        context.output("Text").write_text("whole")


    def write_late(gate, context):
        here = Path.cwd()

        def late():
            while not Path(gate + ".ended").exists():
                time.sleep(0.01)
            (here / "late").write_text("late")
            Path(gate + ".late").touch()

        if os.fork() == 0:
            late()
            os._exit(0)
        while not Path(gate + ".waits").exists():  # the other step has another worker, which is in it now
            time.sleep(0.01)
        print("early")
        context.output("Text").write_text("done")


    def tell(gate, secret, context):
        print("the secret is", secret)
        Path("secret").write_text(secret)
        Path("harmless").write_text("harmless")
        Path(gate + ".waits").touch()
        while not Path(gate).exists():
            time.sleep(0.01)
        context.output("Text").write_text("whole")
"""

LEFT = {
    "stdout.log": "waiting\n",
    "stderr.log": "from a child\n",
    "scratch/work/notes/half.txt": "half",
    "scratch/out/Text.txt": "hal",
    "scratch/out/Folder/sub/a": "a",
    "scratch/tmp/t": "t",
}


class LeftLab(Lab):
    def __init__(self, root: Path, flow: str = FLOW) -> None:
        project = root / "project"
        if not project.exists():
            project.mkdir(parents=True)
            (project / "workflow.yaml").write_text(textwrap.dedent(flow))
            (project / "steps.py").write_text(textwrap.dedent(STEPS))
        super().__init__(project)
        self.gate = root / "gate"
        self.sets = (f"Gate={self.gate}",)

    def killed_while_waiting(self, starts: int = 1) -> None:
        """Killed when a step waits at the gate, and the log has told of so many beginnings (without `First`)."""
        host = self.start()
        until(Path(f"{self.gate}.waits").exists)
        until(lambda: len(self.starts()) == starts)
        host.kill()
        # The worker dies with its host, but not in the same moment: one that still lives when the gate opens would go
        # through it, end its step and tidy up after it.
        self.check_nobody_left()

    def starts(self) -> list[str]:
        events = [e for e in self.runs()[-1].events() if isinstance(e, ev.StepStart)]
        return [e.step_id for e in events if e.step_id != "Job:First"]

    def evidence(self, run: str = "r0001") -> dict[str, dict[str, str]]:
        """Step → path → content of all that stands in `steps/`."""
        steps = self.opened().state.runs_dir / run / "steps"
        return {folder.name: tree(folder) for folder in sorted(steps.iterdir())} if steps.exists() else {}


def tree(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def one_job(job: str, call: str, more: str = "") -> str:
    return f"""
    workflow: left
    inputs: {{Gate: {{type: string}}}}
    jobs:
      {job}:
        uses: python
        with: {{call: "steps:{call}", gate: "${{{{ inputs.Gate }}}}"{more}
        outputs: {{Text: {{type: text}}}}
"""


@pytest.fixture
def lab(tmp_path: Path) -> LeftLab:
    return LeftLab(tmp_path)


def test_the_repair_keeps_what_the_interrupted_step_left(lab: LeftLab) -> None:
    lab.killed_while_waiting()
    assert set(lab.evidence()) == {"First"}, "nothing is touched by those who only look"
    lab.plan()
    lab.gate.touch()
    lab.succeed()
    kept = lab.evidence()
    assert kept["Wait"] == LEFT
    assert set(kept["First"]) == {"script.sh"}
    assert set(lab.evidence("r0002")["Wait"]) == {"stdout.log", "stderr.log"}
    failed = [e for run in lab.runs() for e in run.events() if isinstance(e, ev.StepFailed)]
    assert [(e.step_id, e.status) for e in failed] == [("Job:Wait", "INTERRUPTED")]
    lab.check_nobody_left()
    lab.check_evidence()
    lab.check_replay()


def test_a_worker_that_cannot_hear_of_the_hosts_end_is_ended_before_anything_is_moved(lab: LeftLab) -> None:
    host = lab.start(fresh=True)
    until(Path(f"{lab.gate}.waits").exists)
    until(lambda: lab.starts() == ["Job:Wait"])
    workers = [int(line.split(":")[0]) for line in lab.processes() if "whyrun.execution.worker.main" in line]
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    host.kill()
    assert {pid for pid in workers if Path(f"/proc/{pid}").exists()} != set()
    lab.gate.touch()
    lab.succeed()
    assert lab.evidence()["Wait"] == LEFT
    lab.check_nobody_left()
    lab.check_evidence()


def test_an_adoption_that_comes_first_repairs_in_the_same_way(lab: LeftLab) -> None:
    lab.killed_while_waiting()
    (lab.root / "mine.txt").write_text("mine\n")
    adopt_file(lab.opened(), "Artifact:First.Text", lab.root / "mine.txt", Heard())
    assert lab.evidence()["Wait"] == LEFT
    lab.gate.touch()
    lab.succeed()
    assert lab.evidence()["Wait"] == LEFT
    lab.check_no_litter()


def test_a_killed_second_attempt_is_appended_and_its_files_take_the_place_of_the_firsts(tmp_path: Path) -> None:
    lab = LeftLab(tmp_path, one_job("Twice", "fail_then_wait", "}\n        retries: 1"))
    lab.killed_while_waiting(starts=2)
    assert lab.evidence() == {"Twice": {"stdout.log": "one\n", "scratch/work/first": "first"}}
    lab.gate.touch()
    lab.succeed()
    assert lab.evidence() == {"Twice": {"stdout.log": "one\ntwo\n", "scratch/work/second": "second"}}
    lab.check_evidence()


def test_of_a_step_with_secrets_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values died with the host, so nobody could take them out."""
    monkeypatch.setenv("API_KEY", "s3cr3t-value")
    more = ', secret: "${{ secrets.API_KEY }}"}\n        secrets: [API_KEY]'
    lab = LeftLab(tmp_path, one_job("Tell", "tell", more))
    lab.killed_while_waiting()
    lab.gate.touch()
    lab.succeed()
    assert lab.evidence() == {}
    lab.check_evidence()
    files = [path for path in (lab.root / ".whyrun").rglob("*") if path.is_file()]
    assert [path for path in files if b"s3cr3t-value" in path.read_bytes()] == []


def test_killed_between_two_attempts_the_evidence_is_as_the_failure_left_it(tmp_path: Path) -> None:
    lab = LeftLab(tmp_path, one_job("Twice", "fail_then_wait", "}\n        retries: {max: 1, backoff: 60s}"))
    host = lab.start()
    until(lambda: lab.runs() and any(isinstance(e, ev.StepFailed) for e in lab.runs()[-1].events()))
    host.kill()
    before = lab.evidence()
    assert before == {"Twice": {"stdout.log": "one\n", "scratch/work/first": "first"}}
    lab.gate.touch()
    lab.succeed()
    assert lab.evidence() == before
    repaired = [e for run in lab.runs() for e in run.events() if isinstance(e, ev.LogRepaired)]
    assert [e.interrupted for e in repaired] == [[]]
    lab.check_evidence()


def test_what_a_succeeded_step_wrote_late_is_no_evidence(tmp_path: Path) -> None:
    flow = (
        one_job("Early", "write_late", "}\n        isolation: shared")  # else its processes end with it
        + """
      Other:
        uses: python
        with: {call: "steps:wait", gate: "${{ inputs.Gate }}", text: other}
        outputs: {Text: {type: text}, Folder: {type: directory}}
"""
    )
    lab = LeftLab(tmp_path, flow)
    host = lab.start()
    until(Path(f"{lab.gate}.waits").exists)
    until(lambda: sorted(lab.starts()) == ["Job:Early", "Job:Other"])
    until(lambda: any(isinstance(e, ev.StepComplete) for e in lab.runs()[-1].events()))
    Path(f"{lab.gate}.ended").touch()
    until(Path(f"{lab.gate}.late").exists)
    late = list((lab.root / ".whyrun" / "tmp").rglob("late"))
    assert len(late) == 1, "it stands in the scratch folder of a worker that has nothing to do"
    host.kill()
    lab.check_nobody_left()  # else it might go through the gate
    lab.gate.touch()
    lab.succeed()
    assert lab.evidence() == {"Early": {"stdout.log": "early\n"}, "Other": LEFT}
    lab.check_evidence()


# --- killed again ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> LeftLab:
    """A run whose second attempt was killed: an older log and older files stand in the evidence already."""
    lab = LeftLab(tmp_path_factory.mktemp("killed"), one_job("Twice", "fail_then_wait", "}\n        retries: 1"))
    lab.killed_while_waiting(starts=2)
    lab.check_nobody_left()
    lab.gate.touch()
    return lab


def copy_of(lab: LeftLab, place: Path) -> LeftLab:
    shutil.copytree(lab.root, place / "project", symlinks=True)
    copy = LeftLab(place)
    copy.sets, copy.gate = lab.sets, lab.gate
    return copy


def completed(lab: LeftLab) -> bool:
    return (lab.runs()[0].path / "status.json").exists()


def test_a_second_kill_in_the_midst_of_the_repair_changes_nothing(killed: LeftLab, tmp_path: Path) -> None:
    """Before file operations of the repairing run, from the end of the log until it has completed the folder: before
    every third one by commit, before every one in a soak."""
    fine = 1 if SOAK else 3
    at, stride, inside = 1, 12, 0
    while True:
        lab = copy_of(killed, tmp_path / f"{at}-{stride}")
        assert lab.run(crash_at=at).code == -signal.SIGKILL
        if any(isinstance(e, ev.LogRepaired) for e in lab.runs()[0].events()):
            if stride > fine:
                at, stride = max(1, at - stride), fine
                continue
            inside += 1
        if completed(lab):
            break
        at += stride
        state, store = lab.opened().state, lab.opened().store
        with RunLock(state.lock_path, utc_now) as lock:
            repair(state, lock, utc_now, lambda run: complete_killed_run(run, store, state.scratch))  # noqa: B023
        assert completed(lab)
        assert lab.evidence() == {"Twice": {"stdout.log": "one\ntwo\n", "scratch/work/second": "second"}}, (at, stride)
        shutil.rmtree(lab.root)
    assert inside > 10 // fine, "the kills came while the folder was completed"
    lab.succeed()
    assert lab.evidence() == {"Twice": {"stdout.log": "one\ntwo\n", "scratch/work/second": "second"}}
    lab.check_evidence()
