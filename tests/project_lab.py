"""A real project in a temporary folder, run by the real engine: `Lab`, made by the fixture `project` of conftest.

Nothing of ours is replaced. Every run that goes through `Lab.run` is also checked against its plan: what was planned is
what was executed, reused, skipped by condition, blocked or not started, and nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

from whyrun.console.lines import LogLevel, TaskLine
from whyrun.execution.backends.base import Backend
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.run.session import RunResult, run_workflow
from whyrun.log import events as ev
from whyrun.log.journal import STAGES_FILE
from whyrun.log.lock import holder_and_state
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.planning.reasons import reason_json
from whyrun.project import Project
from whyrun.snapshot.snapshot import PlanningSnapshot

Files = Mapping[str, str | bytes | None]

# Settings with which strace watches no step.
NOT_TRACED: Files = {"whyrun.toml": 'trace = "never"\n'}

# Seconds after which a test gives up on what must come; it never waits so long for what does come, on any machine.
PATIENCE = 300.0
# Seconds between SIGTERM and SIGKILL that nobody waits for: what ends within them was not waited for. So it is proved
# without a look at the clock.
ENDLESS = 3600.0


def is_held(lock: Path) -> bool:
    """Does some process hold the lock now?"""
    return holder_and_state(lock)[0]


class Heard:
    """A reporter that keeps what the user would have been told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.levels: list[LogLevel] = []  # of each line: the lowest level that shows it
        self.notes: list[str] = []
        self.stages: list[str] = []

    def started(self, run: str, total: int) -> None:
        pass

    def tell(self, lines: list[TaskLine]) -> None:
        self.lines.extend((line.status.value, line.render()) for line in lines)
        self.levels.extend(line.shown_from for line in lines)

    def progress(self, ended: int, running: list[str]) -> None:
        pass

    def planned(self, steps: list[str], text: str) -> None:
        self.stages.append(text)

    def step_progress(self, step: str, fraction: float) -> None:
        pass

    def step_took(self, step: str, seconds: float) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)

    def debug(self, text: str) -> None:
        pass

    def finish(self) -> None:
        pass


@dataclass
class Ran:
    """A run that has ended, with its evidence."""

    result: RunResult
    heard: Heard
    folder: Path | None
    events: list[ev.AnyEvent] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return self.result.exit_code

    @property
    def plan(self) -> Plan:
        return self.result.plan

    @property
    def executed(self) -> list[str]:
        """Steps that completed, in the order of their IDs."""
        return sorted(e.step_id for e in self.events if isinstance(e, ev.StepComplete))

    @property
    def reused(self) -> dict[str, str | None]:
        """Step → the run it was reused from. (Where that could not be published, the step has failed.)"""
        taken = [e for e in self.events if isinstance(e, ev.StepSkipped) and e.why == "reused"]
        return {e.step_id: e.from_run for e in taken if e.step_id not in self.failed}

    @property
    def inactive(self) -> dict[str, str]:
        return {
            e.step_id: e.why for e in self.events if isinstance(e, ev.StepSkipped) and e.why not in ("reused", "budget")
        }

    @property
    def held(self) -> list[str]:
        return [e.step_id for e in self.events if isinstance(e, ev.StepSkipped) and e.why == "budget"]

    @property
    def failed(self) -> dict[str, tuple[str, str]]:
        """Step → status and error type, where its latest attempt failed. (A retry may have been called off.)"""
        latest: dict[str, ev.AnyEvent] = {}
        for event in self.events:
            if isinstance(event, ev.StepStart | ev.StepComplete | ev.StepFailed):
                latest[event.step_id] = event
        return {s: (e.status, e.error_type) for s, e in latest.items() if isinstance(e, ev.StepFailed)}

    @property
    def blocked(self) -> dict[str, list[str]]:
        return {e.step_id: e.because for e in self.events if isinstance(e, ev.StepBlocked)}

    @property
    def starts(self) -> list[tuple[str, int]]:
        return [(e.step_id, e.attempt) for e in self.events if isinstance(e, ev.StepStart)]

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind)]

    def cfg(self, step: str) -> dict[str, Any]:
        assert self.folder is not None
        return json.loads((self.folder / "cfg" / f"{step.replace('[', '%5B').replace(']', '%5D')}.json").read_bytes())

    def status(self) -> dict[str, Any]:
        assert self.folder is not None
        return json.loads((self.folder / "status.json").read_bytes())


class Lab:
    """One project folder: write files, plan, run, look at what happened."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "workflow.yaml"

    # -- files --

    def write(self, files: Files) -> Lab:
        """Each path with its content; None deletes it."""
        for name, content in files.items():
            path = self.root / name
            if content is None:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            data = content if isinstance(content, bytes) else textwrap.dedent(content).encode()
            path.write_bytes(data)
        return self

    def edit(self, name: str, old: str, new: str) -> Lab:
        """Replace one text that must occur exactly once."""
        path = self.root / name
        text = path.read_text()
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {name}"
        path.write_text(text.replace(old, new))
        return self

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    # -- planning --

    def opened(self, sets: Sequence[str] = ()) -> Project:
        return Project.open(self.file, sets=sets)

    def snapshot(self, sets: Sequence[str] = ()) -> PlanningSnapshot:
        return self.opened(sets).snapshot()

    def plan(
        self,
        *,
        up: int | None = None,
        targets: Sequence[str] = (),
        force: Sequence[str] = (),
        sets: Sequence[str] = (),
    ) -> Plan:
        snapshot = self.opened(sets).snapshot(force=force)
        return compute_execution_plan(snapshot, PlanOptions(up, tuple(targets), tuple(force)))

    # -- running --

    def run(
        self,
        *,
        up: int | None = None,
        targets: Sequence[str] = (),
        force: Sequence[str] = (),
        sets: Sequence[str] = (),
        jobs: int = 2,
        fail_fast: bool = False,
        limits: Mapping[str, float] | None = None,
        grace: float = ENDLESS,
        budget: str | None = None,
        backend: Backend | None = None,
    ) -> Ran:
        heard = Heard()
        opened = self.opened(sets)
        result = run_workflow(
            opened,
            PlanOptions(up, tuple(targets), tuple(force)),
            RunOptions(jobs=jobs, fail_fast=fail_fast, limits=limits, budget=budget, grace=grace),
            heard,
            backend=backend,
        )
        ran = Ran(result, heard, None)
        if result.run is not None:
            ran.folder = self.run_folder(result.run)
            ran.events = self.events(result.run)
            check_run_is_its_plan(ran)
        return ran

    def succeed(self, **options: Any) -> Ran:
        ran = self.run(**options)
        assert ran.exit_code == 0, [line for line in ran.heard.lines if line[0] == "FAILED"]
        return ran

    def runs(self) -> list[str]:
        return [run.name for run in self.opened().state.runs()]

    def run_folder(self, run: str) -> Path:
        return self.opened().state.runs_dir / run

    def events(self, run: str) -> list[ev.AnyEvent]:
        return list(self.opened().state.run(run).events())

    def content(self, artifact: str) -> Any:
        """What an available artifact holds: a value, parsed JSON, or the text of a file."""
        snapshot = self.snapshot()
        found = snapshot.available_artifacts[artifact]
        output = snapshot.output(snapshot.dependency_graph.artifact_of[artifact])
        if output.value is not msgspec.UNSET:
            return output.value
        data = self.opened().store.read(found.sha256)
        return json.loads(data) if found.type == "json" else data.decode()

    @property
    def store(self) -> Path:
        return self.root / ".whyrun" / "store"

    def blob(self, sha256: str) -> Path:
        return self.store / sha256[:2] / sha256[2:]


def check_run_is_its_plan(ran: Ran) -> None:
    """planned = executed ∪ reused ∪ condition-skipped ∪ failed ∪ blocked ∪ not started, exactly; and counts agree."""
    assert ran.folder is not None
    plan = ran.plan
    written = json.loads((ran.folder / "plan.json").read_bytes())
    assert written == plan.to_json()
    plans = [written, *check_stages(ran)]
    planned: set[str] = set()
    for each in plans:
        own = {job["id"] for job in each["jobs"] if job["state"] == "planned"}
        assert own == {id_ for layer in each["layers"] for id_ in layer}
        assert len(own) == each["totals"]["planned"] + each["totals"]["reused"]
        assert not own & planned, "two plans of a run have the same job"
        planned |= own
    ends = [*ran.executed, *ran.reused, *ran.inactive, *ran.failed, *ran.blocked, *ran.held]
    assert len(ends) == len(set(ends)), "a step ended twice"
    # An entry `[?]` whose source has no result ends itself; else its instances are planned.
    planned |= {job["id"] for each in plans for job in each["jobs"] if job["state"] == "open" and job["id"] in ends}
    not_started = planned - set(ends)
    assert set(ends) <= planned
    assert {step for step, _ in ran.starts} <= set(ends)
    counts = ran.result.counts
    assert len(not_started) == counts.not_started
    statuses = [status for status, _ in ran.failed.values()]
    assert (counts.completed, counts.reused, counts.inactive, counts.blocked) == (
        len(ran.executed), len(ran.reused), len(ran.inactive), len(ran.blocked),
    )  # fmt: skip
    assert (counts.failed, counts.timed_out, counts.interrupted) == tuple(
        statuses.count(s) for s in ("FAILED", "TIMED_OUT", "INTERRUPTED")
    )
    every = [job for each in plans for job in each["jobs"] if job["state"] == "planned"]
    certain = {job["id"] for job in every if "reuse" in job}
    unpublished = {step for step, (_, kind) in ran.failed.items() if kind == ev.NOT_PUBLISHED}
    taken = set(ran.reused) | unpublished - {step for step, _ in ran.starts}
    assert certain - not_started - set(ran.blocked) <= taken, "certain reuse was executed"
    recorded = ran.of(ev.PlanComputed)
    assert [("sha256:" + e.plan_sha256, e.planned, e.layers) for e in recorded] == [
        (each["digest"], sum(map(len, each["layers"])), len(each["layers"])) for each in plans
    ]
    assert written["digest"] == plan.digest
    conditional = {job["id"] for job in every if job.get("conditional")}
    assert {e.step_id for e in ran.of(ev.ConditionEvaluated)} <= conditional


def check_stages(ran: Ran) -> list[dict[str, Any]]:
    """The plans of the stages as they are written, checked against those that the run returned and recorded."""
    assert ran.folder is not None
    file = ran.folder / STAGES_FILE
    stages = [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []
    assert [stage.pop("stage") for stage in stages] == list(range(1, len(stages) + 1))
    assert stages == [stage.to_json() for stage in ran.result.stages]
    recorded = [e for e in ran.of(ev.PlanComputed) if e.stage is not None]
    assert [(e.stage, e.source) for e in recorded] == [(n, stage["source"]) for n, stage in enumerate(stages, 1)]
    assert bool(stages) == file.exists()
    return stages


# --- what a plan says, in short ----------------------------------------------------------------------------------


def codes(plan: Plan) -> dict[str, list[str]]:
    """Planned job → all its reason codes, in order."""
    return {job.id: [reason.code for reason in job.reasons] for job in plan.planned}


def reasons(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """Planned and deferred job → its reasons in full."""
    return {job.id: [reason_json(reason) for reason in job.reasons] for job in plan.jobs if job.state != "inactive"}


def states(plan: Plan) -> dict[str, str]:
    """Job that is not clean → its state."""
    return {job.id: job.state for job in plan.jobs}


# --- an action that tells what it received -----------------------------------------------------------------------

ECHO = """
from pathlib import Path


def show(value):
    if isinstance(value, Path):
        return "file:" + value.read_text() if value.is_file() else "folder:" + " ".join(
            sorted(str(p.relative_to(value)) + "=" + p.read_text() for p in value.rglob("*") if p.is_file())
        )
    if isinstance(value, list):
        return [show(member) for member in value]
    if isinstance(value, dict):
        return {key: show(member) for key, member in value.items()}
    return value


def received(**given):
    return {"Got": {name: show(value) for name, value in given.items()}}
"""


# --- steps that meet ---------------------------------------------------------------------------------------------

# As many as the file `expected` says wait for each other, so that they are there at once on any machine; and then a
# little. Each tells when it began and ended, in nanoseconds.
MEET = """
    import time
    from pathlib import Path

    HERE = Path(__file__).parent

    def meet(me):
        began, expected = time.time_ns(), int((HERE / "expected").read_text())
        (HERE / f"began-{me}").touch()
        deadline = time.monotonic() + 300
        while len(list(HERE.glob("began-*"))) < expected:
            assert time.monotonic() < deadline, "the others did not come"
            time.sleep(0.01)
        time.sleep(0.1)
        return {"T": f"{began} {time.time_ns()}"}
"""


# --- a job that pays for a request before it waits for the answer ------------------------------------------------

PAID = """
    workflow: w
    inputs: {Prompt: {type: string, default: a cat}}
    jobs:
      Ask:
        uses: python
        retries: {max: 1, backoff: 10ms}
        with: {call: "paid:ask", prompt: "${{ inputs.Prompt }}"}
        outputs: {Answer: {type: json}}
"""

PAID_CODE = """
    import time
    from pathlib import Path

    HERE = Path(__file__).parent

    def ask(prompt, context):
        request = context.recall("request")
        if request is None:
            orders = HERE / "orders"
            number = len(orders.read_text().splitlines()) + 1 if orders.exists() else 1
            with orders.open("a") as file:
                file.write(prompt + chr(10))
            request = f"req-{number}"
            context.remember("request", request)
            (HERE / "submitted").write_text(request)
            while not (HERE / "answer").exists():
                time.sleep(0.02)
        if (HERE / "fail-once").exists():
            (HERE / "fail-once").unlink()
            raise RuntimeError("the connection broke")
        return {"Answer": {"request": request}}
"""


# --- a run in a process of its own -------------------------------------------------------------------------------


class Process:
    """A run that can be interrupted or killed. `grace`: what a step has to end between SIGTERM and SIGKILL."""

    def __init__(self, lab: Lab, *force: str, grace: float = ENDLESS) -> None:
        here = Path(__file__).parent
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parent / "src")])}
        command = [sys.executable, str(here / "run_in_process.py"), str(lab.file), str(grace), *force]
        self.lab = lab
        # Not a pipe: a process that held its other end by mistake would keep `end` waiting.
        self._told = file_of(self)
        self.process = subprocess.Popen(command, env=environment, stdout=self._told)

    def wait_for_file(self, name: str, seconds: float = PATIENCE) -> None:
        """Wait until a step has written this file into the project."""
        deadline = time.monotonic() + seconds
        while not (self.lab.root / name).exists():
            assert self.process.poll() is None, "the run ended too early"
            assert time.monotonic() < deadline, f"{name} did not come"
            time.sleep(0.01)

    def wait_for_start(self, step: str) -> None:
        """Wait until the log says that this step has begun, which is a moment after it has."""
        wait_until(
            lambda: step in [e.step_id for e in self.lab.events(self.lab.runs()[-1]) if isinstance(e, ev.StepStart)]
        )

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = PATIENCE) -> tuple[int, str]:
        """(exit status, what was told)."""
        try:
            code = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end\n{written(self._told)}\n{states_of(self.process.pid)}") from None
        return code, written(self._told)


def file_of(owner: object) -> IO[bytes]:
    """A file that is closed when its owner is gone."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    weakref.finalize(owner, file.close)
    return file


def written(file: IO[bytes]) -> str:
    """What a process has written so far, without moving the place at which it writes."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()


def states_of(process: int, indent: str = "") -> str:
    """What a process and all its descendants wait for, for the message of a test that fails once in a thousand runs."""
    folder = Path(f"/proc/{process}")
    try:
        status = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line)
        told = [
            f"{name} {status[name].strip()}" for name in ("State", "Threads", "SigPnd", "ShdPnd", "SigBlk", "SigCgt")
        ]
        told += [(folder / name).read_text().strip() for name in ("wchan", "syscall")]
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        children = [int(child) for tasks in (folder / "task").glob("*/children") for child in tasks.read_text().split()]
    except OSError as gone:
        return f"{indent}{process}: {gone.strerror}"
    lines = [f"{indent}{process} {command:.100}", f"{indent}  {', '.join(told)}"]
    return "\n".join(lines + [states_of(child, indent + "    ") for child in children])


def processes_with(text: str) -> list[int]:
    """Living processes whose command line holds this text."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if text.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue  # it has ended meanwhile
    return found


def has_ended(pid: int) -> bool:
    """Nobody may have looked at its end yet, but it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except (FileNotFoundError, ProcessLookupError):  # before the file was opened, or before it was read
        return True


def wait_until(holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
