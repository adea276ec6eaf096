"""Projects whose commands run in forked processes with faults, and the checks that must hold afterwards."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from crash_fork_server import FORK_SERVER, clean_environment
from crash_lab import FILES, PATIENCE, Lab, made_once
from fault_hook import Fault

from whyrun.disk import points
from whyrun.log import events as ev

ATTEMPTS = 5  # for a fault whose point had fewer calls than the time before


@dataclass(frozen=True)
class Ended:
    code: int  # negative: the signal that ended it
    out: str
    err: str
    hits: Counter[tuple[str, str]]  # (role, point)
    marks: tuple[str, ...] = ()  # of the faults that were performed


class FaultRunner:
    """Runs commands in forked processes, with faults."""

    def __init__(self) -> None:
        self.armed = True  # else calls are counted, and no fault is performed

    def run(
        self,
        cwd: Path,
        argv: list[str],
        faults: tuple[Fault, ...] = (),
        record: Path | None = None,
        many: int | None = None,
    ) -> Ended:
        """`many`: from so many ended steps on, a process of its own links their artifacts."""
        beside = cwd.parent
        out, err, hits = (beside / f"said.{name}" for name in ("out", "err", "hits"))
        for old in (hits, *beside.glob("said.mark.*")):
            old.unlink(missing_ok=True)
        arguments = {
            "argv": argv, "hits": str(record or hits), "faults": [asdict(fault) for fault in faults],
            "mark": str(beside / "said.mark"), "armed": self.armed, "record": record is not None, "many": many,
        }  # fmt: skip
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = FORK_SERVER.start(
                "command",
                arguments,
                command=["whyrun", *argv],
                cwd=cwd,
                env=clean_environment(),
                stdout=stdout.fileno(),
                stderr=stderr.fileno(),
            )
        code = process.wait(PATIENCE)
        lines = hits.read_text().splitlines() if record is None and hits.exists() else []
        counted = Counter((role, point) for role, point, _ in (line.split(" ") for line in lines))
        marks = tuple(mark.read_text() for mark in sorted(beside.glob("said.mark.*")))
        return Ended(code, out.read_text(), err.read_text(), counted, marks)


class FaultLab(Lab):
    """The `fault` project: a text, a folder, two sections of one file, and the jobs that consume them."""

    def __init__(self, root: Path, runner: FaultRunner) -> None:
        if not root.exists():
            shutil.copytree(FILES / "fault", root)
            (root / "many").mkdir()
            for number in range(65):
                (root / "many" / f"{number:02}.txt").write_text(f"{number}\n")
            (root / "out").mkdir()
            (root / "out" / "text.txt").write_text("a text of the user's own\n")
            (root / "out" / "shared.json").write_text('{"mine": {"kept": 1.50}, "Left": "the user\'s, too"}\n')
        super().__init__(root, "fault")
        self.runner = runner
        self.many: int | None = None

    def with_sets(self, sets: tuple[str, ...]) -> FaultLab:
        self.sets = sets
        return self

    def whyrun(self, *argv: str, faults: tuple[Fault, ...] = ()) -> Ended:
        return self.runner.run(self.root, list(argv), faults, many=self.many)

    def done(self, *argv: str) -> Ended:
        ended = self.whyrun(*argv)
        well = (0, 1) if argv[0] == "compare" else (0,)  # 1: it found differences
        assert ended.code in well, (argv, ended.code, ended.out, ended.err)
        return ended

    def processes(self) -> list[str]:
        """Also those in a folder of this project: a command shows no path in its command line."""
        return super().processes() + [f"{name} in {cwd}" for name, cwd in working_folders() if self.owns(cwd)]

    def owns(self, path: str) -> bool:
        return f"{path}/".startswith(f"{self.root}/")

    def paid(self) -> Counter[str]:
        return Counter((self.root / "paid.log").read_text().splitlines())

    def final(self) -> dict[str, Any]:
        """The results that must be the same with and without a fault."""
        return {
            "artifacts": self.artifacts(),
            "planned": [job.id for job in self.plan().planned],
            "displaced": self.displaced(),
        }

    def displaced(self) -> set[tuple[str, str | None, bytes]]:
        """The saved files and sections of the user, with their bytes."""
        opened = self.opened()
        runs, stones = opened.state.runs_and_tombstones()
        saved = [event for run in runs for event in run.events() if isinstance(event, ev.FileDisplaced)]
        of_pruned = [one for stone in stones for one in stone.displaced]
        return {(one.path, one.section, opened.store.read(one.sha256)) for one in (*saved, *of_pruned)}


def working_folders() -> list[tuple[str, str]]:
    """(Process, its working folder)."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                found.append((name, os.readlink(f"/proc/{name}/cwd").removesuffix(" (deleted)")))
            except OSError:
                continue  # it has ended
    return found


@dataclass(frozen=True)
class Scenario:
    """A command to disturb. `before`: the commands that ran in the project earlier."""

    command: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    files: tuple[tuple[str, str, str], ...] = ()  # (file, old text, new text): edits after that
    killed: Fault | None = None  # a run that was killed before the command, which repairs it
    executes_again: bool = False  # the command is meant to execute steps again
    word: str | None = None  # the setting of the last run
    shared: bool = False  # another project ran before and shares its results through a folder
    arrange: Callable[[FaultLab], None] | None = None  # another change to the project before the command
    many: int | None = None  # see `FaultRunner.run`

    @property
    def settings(self) -> tuple[str, ...]:
        return ("--set", f"Word={self.word}") if self.word else ()


WORDS = (("run",), ("run", "--set", "Word=two"), ("run", "--set", "Word=three"))
SCENARIOS = {
    "run": Scenario(("run",)),
    "change": Scenario(("run", "--set", "Word=two"), before=(("run",),), word="two"),
    "adopt": Scenario(("adopt", "Artifact:Text.Text", "mine.txt"), before=(("run",),)),
    "restore": Scenario(
        ("restore", "Artifact:Tree.Tree", "--from", "r0001", "--set", "Word=two"),
        before=(("run",), ("run", "--set", "Word=two")),
        word="two",
    ),
    "compare": Scenario(
        ("compare", "--accept", "Job:Text", "Job:Left"),
        before=(("run",),),
        files=(("steps.py", "range(600)", "range(500)"),),
        executes_again=True,
    ),
    "repair": Scenario(("run",), killed=Fault("section.rename", 1, "after")),
    "torn": Scenario(
        ("run", "--set", "Word=two"),
        before=(("run",),),
        killed=Fault("log.write", 9, "short then kill"),
        word="two",
    ),
    "plan": Scenario(("plan", "--save", "saved.json"), before=(("run",),)),
    "prune": Scenario(("runs", "prune", "--keep", "1", "--delete", "--set", "Word=three"), before=WORDS, word="three"),
    "gc": Scenario(
        ("gc", "--delete"),
        before=(*WORDS, ("runs", "prune", "--keep", "1", "--delete", "--set", "Word=three")),
        word="three",
    ),
}
DETERMINISTIC = tuple(
    ("workflow.yaml", f"  {job}:\n    uses: python\n", f"  {job}:\n    uses: python\n    deterministic: true\n")
    for job in ("Text", "Left")
)
# Only for power cuts: results of others are stored by the same calls as results of steps.
SHARED = Scenario(("run",), files=DETERMINISTIC, shared=True)


@dataclass(frozen=True)
class Course:
    """A scenario up to its command, kept as a folder, and the results of the undisturbed command."""

    scenario: Scenario
    prepared: Path
    hits: Counter[tuple[str, str]]
    final: dict[str, Any]


def prepared(scenario: Scenario, root: Path, runner: FaultRunner) -> FaultLab:
    """A project in which everything before the command has run."""
    lab = FaultLab(root, runner)
    (lab.root / "mine.txt").write_text("my own text\n")
    for words in scenario.before:
        lab.done(*words)
    edit(lab, scenario)
    if scenario.shared:
        settings = f"store = {json.dumps(str(root.parent / 'kept'))}\n"
        other = FaultLab(root.with_name(f"{root.name}-of-another"), runner)
        edit(other, scenario)
        for each in (lab, other):
            (each.root / "whyrun.toml").write_text(settings)
        other.done("run")
    if scenario.killed is not None:
        killed = lab.whyrun("run", *scenario.settings, faults=(scenario.killed,))
        assert (killed.code, killed.marks) == (-9, (str(scenario.killed),))
        lab.check_nobody_left()
    if scenario.arrange is not None:
        scenario.arrange(lab)
    return lab


def edit(lab: FaultLab, scenario: Scenario) -> None:
    for name, old, new in scenario.files:
        file = lab.root / name
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))


def course(scenario: Scenario, folder: Path, runner: FaultRunner) -> Course:
    lab = prepared(scenario, folder / "prepared", runner)
    undisturbed = copy_of(lab, folder / "undisturbed")
    undisturbed.sets, undisturbed.many = tuple(scenario.settings[1:]), scenario.many
    ended = undisturbed.done(*scenario.command)
    assert {name for _, name in ended.hits} <= set(points()), "a point that the table does not have"
    undisturbed.done("run", *scenario.settings)
    return Course(scenario, lab.root, ended.hits, undisturbed.final())


def copy_of(lab: FaultLab, root: Path) -> FaultLab:
    shutil.copytree(lab.root, root, symlinks=True)
    return FaultLab(root, lab.runner)


def check_killed(fault: Fault, ended: Ended) -> None:
    """A killed host ends by the signal. A killed worker is reported, or another one gets its step."""
    assert fault.how in ("before", "after")
    well = (-signal.SIGKILL,) if fault.role == "host" else (0, 1)
    assert ended.code in well, (fault, ended.code, ended.err)


def check_told(lab: FaultLab, fault: Fault, ended: Ended) -> None:
    """Exit status 0: the call was not essential. 1: a step failed, and its event says why. 3: the command failed."""
    assert ended.code in (0, 1, 3), (fault, ended.err)
    assert "Traceback" not in ended.err, (fault, ended.err)
    assert "inside whyrun" not in ended.err, (fault, ended.err)
    if fault.how == "short":
        assert ended.code in (0, 1), (fault, ended.err)  # the rest is simply written next
        return
    reason = os.strerror(getattr(errno, fault.how))
    if ended.code == 3:
        assert "error[" in ended.err, (fault, ended.err)
        assert reason in ended.err, (fault, ended.err)
    elif ended.code == 1 and not ("found differences" in ended.err and "FAILED" not in ended.err):
        failed = [e for run in lab.runs() for e in run.events() if isinstance(e, ev.StepFailed)]
        assert reason in "".join(e.error for e in failed) + ended.err, (fault, ended.err)


def check_afterwards(lab: FaultLab, course: Course, ended: Ended) -> None:
    """After a disturbed command the next ones repair, report it, and reach the results of the undisturbed command."""
    scenario = course.scenario
    lab.sets = tuple(scenario.settings[1:])
    unfinished = [run.name for run in lab.runs() if not isinstance(lab.events(run)[-1], ev.RunComplete)]
    done = lab.completed()
    told = {
        word for line in ended.err.splitlines() if " EXECUTES Job:" in line for word in line.split() if "Job:" in word
    }
    assert told <= done.keys(), "reported complete, but not in the log"
    planned = lab.plan()
    number = len(lab.runs())
    again = lab.done(*scenario.command)
    if unfinished:
        assert unfinished == [lab.runs()[number - 1].name]
        repaired = again if scenario.command[0] in ("run", "compare", "adopt", "restore") else lab.done("runs")
        assert "its log was repaired" in repaired.err
    executed = {step: found for run in lab.runs()[number:] for step, found in lab.executed(run).items()}
    if scenario.command != ("run", *scenario.settings):
        lab.done("run", *scenario.settings)
    if not scenario.executes_again:
        assert not executed.items() & done.items(), "complete in the log, and executed again"
    if scenario.command[0] == "run":
        assert executed.keys() <= {job.id for job in planned.planned}
    assert lab.final() == course.final
    lab.done("verify", "--replay", "all", *scenario.settings)
    lab.check_no_litter()


class Courses:
    """The courses of one test run. The first process that needs one prepares it for all processes."""

    def __init__(self, folder: Path, runner: FaultRunner) -> None:
        self.folder, self.runner = folder, runner
        self._courses: dict[Scenario, Course] = {}

    def of(self, scenario: Scenario) -> Course:
        if scenario not in self._courses:
            name = sha256(pickle.dumps(scenario)).hexdigest()[:16]
            self._courses[scenario] = made_once(
                self.folder / name, lambda folder: course(scenario, folder, self.runner)
            )
        return self._courses[scenario]

    def lab(self, scenario: Scenario, root: Path) -> FaultLab:
        """A project that is ready for the command of a scenario."""
        shutil.copytree(self.of(scenario).prepared, root, symlinks=True)
        lab = FaultLab(root, self.runner)
        lab.many = scenario.many
        return lab

    def disturbed(
        self, scenario: Scenario, folder: Path, fault: Fault, leading: tuple[Fault, ...] = ()
    ) -> tuple[FaultLab, Ended]:
        """The command of a scenario with a fault that was performed; `leading`: faults that must come first.

        The number of calls at a point depends a little on timing. Where there were fewer calls than in the undisturbed
        command, the last one of them is tried next.
        """
        for attempt in range(ATTEMPTS):
            lab = self.lab(scenario, folder / str(attempt) / "project")
            ended = lab.whyrun(*scenario.command, faults=(*leading, fault))
            lab.check_nobody_left()
            if str(fault) in ended.marks:
                assert ended.marks == tuple(map(str, (*leading, fault)))
                return lab, ended
            fault = replace(fault, number=max(1, ended.hits[fault.role, fault.point]))
        raise AssertionError(f"{fault} was not done, and the command ended with {ended.code}: {ended.err}")
