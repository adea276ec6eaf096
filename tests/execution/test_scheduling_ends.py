"""Steps that the host ends: timeouts, --fail-fast and Ctrl-C; other steps are not affected."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec import structs

from project_lab import ENDLESS, Lab, Process, codes, processes_with, wait_until
from whyrun.evidence.run_directory import RunDirectory
from whyrun.execution.backends.local.backend import LocalBackend
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.protocol.messages import ExecStep, Message, StepFinished
from whyrun.log import events as ev

Make = Callable[..., Lab]

# A tree that does not want to end: SIGTERM ignored at every level (what is ignored stays so in a child), one branch in
# a session of its own, one orphaned. All that is asserted of it is done within milliseconds, long before the timeout.
TREE = """
    import os, signal, subprocess, time
    from pathlib import Path

    HERE = Path(__file__).parent

    def tree(mark, context):
        context.output("Text").write_text("half")
        Path("notes.txt").write_text("in the work folder")
        (HERE / "began").write_text(str(os.getpid()))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", mark])
        subprocess.Popen(["sleep", mark], start_new_session=True)
        subprocess.run(["sh", "-c", f"sleep {mark} &"], start_new_session=True, check=True)
        signal.signal(signal.SIGTERM, lambda *_: (HERE / "asked").touch())
        (HERE / "grown").touch()
        while True:
            time.sleep(600)

    def quick(n):
        return {"Text": f"quick {n}"}
"""
JOBS = """
    workflow: w
    loops: {n: {count: 5}}
    jobs:
      Tree:
        uses: python
        timeout: 6s
        with: {call: "steps:tree", mark: "MARK"}
        outputs: {Text: {type: text, path: out/tree.txt}}
      Next:
        for: [n]
        uses: python
        with: {call: "steps:quick", n: "${{ n }}"}
        outputs: {Text: {type: text, path: "out/${{ n }}.txt"}}
"""


def evidence_is_complete(run: Path) -> bool:
    return RunDirectory(run).missing_files() == []


@pytest.fixture
def mark(tmp_path: Path) -> str:
    """Seconds to sleep that only the processes of this test have in their command line."""
    return f"600.{int(sha256(str(tmp_path).encode()).hexdigest(), 16) % 10**15:015}"


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_process_tree_that_ignores_sigterm_is_gone_after_a_timeout_and_the_next_jobs_are_unaffected(
    project: Make, mark: str, jobs: int
) -> None:
    lab = project(JOBS.replace("MARK", mark), {"steps.py": TREE})
    ran = lab.run(jobs=jobs)
    assert (lab.root / "grown").exists(), "there was a tree to be ended"
    assert not (lab.root / "asked").exists(), "a timeout asks nobody, and so waits for nobody"
    worker = int(lab.read("began"))
    wait_until(lambda: processes_with(mark) == [] and not Path(f"/proc/{worker}").exists())
    assert ran.exit_code == 1
    assert ran.failed == {"Job:Tree": ("TIMED_OUT", "TimedOut")}
    assert ran.executed == [f"Job:Next[{n}]" for n in range(5)]
    assert [lab.read(f"out/{n}.txt") for n in range(5)] == [f"quick {n}" for n in range(5)]


def test_partial_files_of_a_timed_out_step_are_no_artifacts_and_their_folder_is_printed(
    project: Make, mark: str
) -> None:
    lab = project(JOBS.replace("MARK", mark), {"steps.py": TREE})
    ran = lab.run(targets=["Job:Tree"])
    (failed,) = ran.of(ev.StepFailed)
    assert failed.error == "timeout: 6s, partial outputs may exist: steps/Tree/scratch"
    assert ran.folder is not None
    scratch = ran.folder / "steps/Tree/scratch"
    kept = {p.relative_to(scratch).as_posix(): p.read_text() for p in scratch.rglob("*.txt")}
    assert sorted(kept.values()) == ["half", "in the work folder"]
    assert ran.of(ev.ArtifactAvailable) == []
    assert not (lab.root / "out/tree.txt").exists()
    assert not lab.blob(sha256(b"half").hexdigest()).exists()
    assert codes(lab.plan(targets=["Job:Tree"])) == {"Job:Tree": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}
    assert evidence_is_complete(ran.folder)


class LongQueue(LocalBackend):
    """A step stands in its queue for longer than it may take, then begins and ends at once."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.opens = seconds, 0.0
        self.kept: list[Message] = []

    def messages(self, timeout: float) -> Sequence[Message]:
        news = super().messages(timeout)
        if news and not self.kept:
            self.opens = time.monotonic() + self.seconds
        self.kept += news
        if time.monotonic() < self.opens or not any(isinstance(message, StepFinished) for message in self.kept):
            return []
        told, self.kept = self.kept, []
        return [with_duration(message, 0.01) for message in told]


def with_duration(message: Message, seconds: float) -> Message:
    """As if the step had taken that long by its own clock, however busy this machine is."""
    return structs.replace(message, duration=seconds) if isinstance(message, StepFinished) else message


def test_a_timeout_counts_from_the_beginning_of_the_step_not_from_its_place_in_the_queue(project: Make) -> None:
    lab = project(
        """
        workflow: w
        loops: {n: {count: 2}}
        jobs:
          Wait:
            for: [n]
            uses: shell
            timeout: 100ms
            with: {n: "${{ n }}", run: 'printf "$n" > "$out_Text"'}
            outputs: {Text: {type: text}}
        """
    )
    ran = lab.succeed(jobs=1, backend=LongQueue(0.5))
    assert ran.executed == [f"Job:Wait[{n}]" for n in range(2)]


LIMIT = 0.2  # seconds


class HeldUp(LocalBackend):
    """The host is held up, for longer than the step may take, from when the step has begun until it has ended.
    `unheard`: and when it goes on, it hears of the end only after it has ordered it."""

    def __init__(self, took: float, unheard: bool) -> None:
        super().__init__()
        self.took, self.unheard = took, unheard
        self.kept: list[Message] = []
        self.begun = self.was_held_up = False
        self.signals: list[tuple[str, int]] = []

    def room(self) -> int:
        if self.begun and not self.was_held_up:
            self.was_held_up = True
            deadline = time.monotonic() + 300
            while time.monotonic() < deadline and not any(isinstance(word, StepFinished) for word in self.kept):
                self.kept += super().messages(0.1)
            time.sleep(2 * LIMIT)
        return super().room()

    def messages(self, timeout: float) -> Sequence[Message]:
        if not self.begun:
            heard = super().messages(timeout)
            self.begun = bool(heard)
            self.kept += heard[1:]
            return heard[:1]
        if self.unheard and not self.signals:
            return []
        told, self.kept = self.kept, []
        return [with_duration(message, self.took) for message in told]

    def signal(self, step_id: str, signum: int) -> None:
        self.signals.append((step_id, signum))
        super().signal(step_id, signum)


@pytest.mark.parametrize("unheard", [False, True], ids=["heard before the order", "heard after the order"])
@pytest.mark.parametrize(
    ("took", "failed"),
    [(LIMIT, {}), (LIMIT * 1.01, {"Job:Pays": ("TIMED_OUT", "TimedOut")})],
    ids=["in time", "too late"],
)
def test_the_clock_of_the_worker_judges_the_timeout_if_the_host_was_suspended(
    project: Make, took: float, failed: dict[str, tuple[str, str]], unheard: bool
) -> None:
    lab = project(
        f"""
        workflow: w
        jobs:
          Pays:
            uses: python
            timeout: {LIMIT * 1000:g}ms
            with: {{call: "steps:pay"}}
            outputs: {{Text: {{type: text, path: paid.txt}}}}
        """,
        {"steps.py": "def pay():\n    return {'Text': 'paid'}\n"},
    )
    backend = HeldUp(took, unheard)
    ran = lab.run(jobs=1, backend=backend)
    assert ran.failed == failed
    assert [event.error for event in ran.of(ev.StepFailed)] == ["timeout: 0.2s" for _ in failed]
    assert ran.executed == ([] if failed else ["Job:Pays"])
    assert [path.read_text() for path in lab.root.glob("paid.txt")] == ([] if failed else ["paid"])
    assert backend.signals == ([("Job:Pays", signal.SIGKILL)] if unheard else [])


# --- fail fast ---------------------------------------------------------------------------------------------------

FAIL_FAST = """
    workflow: w
    jobs:
      Long:
        uses: python
        with: {call: "steps:long"}
        outputs: {Text: {type: text}}
      Bad:
        uses: python
        retries: {max: 1, backoff: 10ms}
        with: {call: "steps:bad"}
        outputs: {Text: {type: text}}
      Later:
        uses: python
        with: {call: "steps:later", t: "${{ jobs.Long.outputs.Text }}"}
        outputs: {Text: {type: text}}
"""
FAILING = """
    import time
    from pathlib import Path

    HERE = Path(__file__).parent

    def long():
        (HERE / "began").touch()
        try:
            time.sleep(60)
        finally:
            (HERE / "ended").touch()

    def bad():
        while not (HERE / "began").exists():
            time.sleep(0.01)
        raise RuntimeError("bad")

    def later(t):
        return {"Text": t.read_text()}
"""


def test_fail_fast_ends_running_steps_after_the_final_failure_and_exits_1(project: Make) -> None:
    lab = project(FAIL_FAST, {"steps.py": FAILING})
    ran = lab.run(jobs=2, fail_fast=True, grace=ENDLESS)  # a step that heeds SIGTERM is not waited for
    assert (lab.root / "ended").exists(), "it was asked to end before it was made to"
    assert ran.exit_code == 1, "nobody pressed Ctrl-C"
    assert ran.failed == {"Job:Bad": ("FAILED", "RuntimeError"), "Job:Long": ("INTERRUPTED", "Interrupted")}
    assert [(e.step_id, e.will_retry) for e in ran.of(ev.StepFailed)] == [
        ("Job:Bad", True), ("Job:Bad", False), ("Job:Long", False),
    ]  # fmt: skip
    assert ran.result.counts.not_started == 1
    (end,) = ran.of(ev.RunComplete)
    assert end.state == "failed"
    assert ran.folder is not None
    assert evidence_is_complete(ran.folder)
    assert codes(lab.plan()) == {
        "Job:Long": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"],
        "Job:Bad": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"],
        "Job:Later": ["MISSING_OUTPUT", "UPSTREAM_FAILED", "UPSTREAM_DIRTY"],
    }


class LateWord(LocalBackend):
    """That `Job:Long` has begun is heard only after everyone was told to end."""

    def __init__(self) -> None:
        super().__init__()
        self.stopping = False
        self.kept: list[Message] = []

    def withdraw(self) -> list[ExecStep]:
        self.stopping = True
        return super().withdraw()

    def messages(self, timeout: float) -> Sequence[Message]:
        heard = [*self.kept, *super().messages(timeout)]
        self.kept = [] if self.stopping else [message for message in heard if message.step_id == "Job:Long"]
        return [message for message in heard if message not in self.kept]

    def signal(self, step_id: str, signum: int) -> None:
        if self.kept == []:
            super().signal(step_id, signum)


def test_a_step_whose_begin_message_arrives_late_is_ended_as_well(project: Make) -> None:
    lab = project(
        FAIL_FAST, {"steps.py": FAILING.replace("sleep(60)", "sleep(60)\n            (HERE / 'slept').touch()")}
    )
    ran = lab.run(jobs=2, fail_fast=True, backend=LateWord())
    assert not (lab.root / "slept").exists(), "it was not waited for"
    assert ran.failed == {"Job:Bad": ("FAILED", "RuntimeError"), "Job:Long": ("INTERRUPTED", "Interrupted")}
    assert ran.result.counts.not_started == 1


def test_without_fail_fast_the_rest_runs(project: Make) -> None:
    lab = project(FAIL_FAST, {"steps.py": FAILING.replace("time.sleep(60)", "return {'Text': 'long'}")})
    ran = lab.run(jobs=2)
    assert (ran.exit_code, ran.executed) == (1, ["Job:Later", "Job:Long"])


# --- ctrl-c ------------------------------------------------------------------------------------------------------

STUBBORN = """
    workflow: w
    jobs:
      Long:
        uses: python
        retries: {max: 5, backoff: 10ms}
        with: {call: "steps:long"}
        outputs: {Text: {type: text}}
"""
IGNORING = """
    import signal, time
    from pathlib import Path

    def long():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (Path(__file__).parent / "began").touch()
        time.sleep(600)
"""


def last_run(lab: Lab) -> tuple[list[ev.StepStart], list[ev.StepFailed], ev.RunComplete]:
    events = lab.events(lab.runs()[-1])
    (end,) = [e for e in events if isinstance(e, ev.RunComplete)]
    return (
        [e for e in events if isinstance(e, ev.StepStart)],
        [e for e in events if isinstance(e, ev.StepFailed)],
        end,
    )


def test_ctrl_c_gives_a_step_that_ignores_it_its_time_then_kills_and_never_retries(project: Make) -> None:
    assert RunOptions().grace == 10
    lab = project(STUBBORN, {"steps.py": IGNORING})
    run = Process(lab, grace=1.5)
    run.wait_for_file("began")
    began = time.monotonic()
    run.signal(signal.SIGINT)
    code, _ = run.end()
    assert code == 130
    assert time.monotonic() - began > 1.5
    starts, failures, end = last_run(lab)
    assert [(e.step_id, e.attempt) for e in starts] == [("Job:Long", 1)]
    assert [(e.status, e.will_retry) for e in failures] == [("INTERRUPTED", False)]
    assert end.state == "interrupted"
    assert evidence_is_complete(lab.run_folder("r0001"))


@pytest.mark.parametrize("isolation", ["process", "shared"])
def test_ctrl_c_ends_a_step_that_has_lost_the_signal(project: Make, isolation: str) -> None:
    # As Python does, until a `sleep` is over that begins after the signal and before the call of its handler.
    lab = project(
        STUBBORN.replace("uses: python", f"uses: python\n        isolation: {isolation}"),
        {"steps.py": """
            import signal, time
            from pathlib import Path

            def long():
                handler = signal.getsignal(signal.SIGTERM)
                signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, handler))
                (Path(__file__).parent / "began").touch()
                time.sleep(600)
            """},
    )  # fmt: skip
    run = Process(lab)
    run.wait_for_file("began")
    run.signal(signal.SIGINT)
    code, _ = run.end()
    assert code == 130
    _, failures, end = last_run(lab)
    assert [(e.status, e.will_retry) for e in failures] == [("INTERRUPTED", False)]
    assert (end.state, end.counts["interrupted"]) == ("interrupted", 1)


def test_ctrl_c_during_a_backoff_ends_the_run_at_once_and_the_failure_counts(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          Bad:
            uses: shell
            retries: {max: 3, backoff: 1h}
            with: {run: 'touch MARKED; exit 7'}
            outputs: {Text: {type: text}}
        """
    )
    lab.edit("workflow.yaml", "MARKED", str(lab.root / "began"))
    run = Process(lab)
    run.wait_for_file("began")
    wait_until(lambda: "step_failed" in (lab.run_folder("r0001") / "events.jsonl").read_text())
    run.signal(signal.SIGINT)
    code, _ = run.end()  # long before the retry of an hour later
    assert code == 130
    starts, failures, end = last_run(lab)
    assert [e.attempt for e in starts] == [1]
    assert [(e.status, e.error_type) for e in failures] == [("FAILED", "CommandFailed")]
    assert (end.state, end.counts["failed"]) == ("interrupted", 1)
    assert evidence_is_complete(lab.run_folder("r0001"))
    assert codes(lab.plan()) == {"Job:Bad": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}


def test_ctrl_c_starts_nothing_more(project: Make) -> None:
    lab = project(
        """
        workflow: w
        loops: {n: {count: 50}}
        jobs:
          Step:
            for: [n]
            uses: python
            with: {call: "steps:go", n: "${{ n }}"}
            outputs: {N: {type: integer}}
        """,
        {"steps.py": """
            import time
            from pathlib import Path

            def go(n):
                (Path(__file__).parent / f"began-{n}").touch()
                if n >= 3:
                    time.sleep(600)
                return {"N": n}
            """},
    )  # fmt: skip

    def begun() -> set[int]:
        return {int(name.removeprefix("began-")) for name in os.listdir(lab.root) if name.startswith("began-")}

    run = Process(lab)
    wait_until(lambda: len(begun() - {0, 1, 2}) == 2)
    run.signal(signal.SIGINT)
    code, _ = run.end()
    assert code == 130
    starts, failures, end = last_run(lab)
    assert begun() == {int(e.step_id.removeprefix("Job:Step[").removesuffix("]")) for e in starts}
    assert len(begun() - {0, 1, 2}) == 2, "two at a time, and from the fourth on they do not end by themselves"
    assert {e.status for e in failures} == {"INTERRUPTED"}
    done = end.counts["completed"] + end.counts["interrupted"]
    assert done == len(starts)
    assert len(lab.plan().planned) == 50 - end.counts["completed"]
