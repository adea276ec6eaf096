"""Projects whose commands run in forked processes, with a fault point armed in one of them; and what must hold then."""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from crash_lab import FILES, PATIENCE, Lab
from fault_hook import Fault

from whyrun.disk import points
from whyrun.log import events as ev

NURSERY = Path(__file__).parent / "fault_nursery.py"
ATTEMPTS = 5  # at a fault whose point was not come to as often as the time before


@dataclass(frozen=True)
class Ended:
    code: int  # negative: the signal that ended it
    out: str
    err: str
    hits: Counter[tuple[str, str]]  # (role, point)
    marks: tuple[str, ...] = ()  # of the faults that were asked for and have been done


class Nursery:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(NURSERY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.armed = True  # else points are counted, and no fault is done

    def run(
        self,
        cwd: Path,
        argv: list[str],
        faults: tuple[Fault, ...] = (),
        record: Path | None = None,
        many: int | None = None,
    ) -> Ended:
        """`many`: so many ended steps are many, and their artifacts are linked by a process of its own."""
        beside = cwd.parent
        files = {name: str(beside / f"said.{name}") for name in ("out", "err", "hits", "mark")}
        for old in (Path(files["hits"]), *beside.glob("said.mark.*")):
            old.unlink(missing_ok=True)
        if record is not None:
            files["hits"] = str(record)
        asked = {"cwd": str(cwd), "argv": argv, "faults": [asdict(fault) for fault in faults], "record": bool(record)}
        asked |= {"armed": self.armed, "many": many, **files}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert readable, f"{argv} with {faults} does not end"
        code = json.loads(self.process.stdout.readline())
        counted = record is None and Path(files["hits"]).exists()
        lines = Path(files["hits"]).read_text().splitlines() if counted else []
        hits = Counter((role, point) for role, point, _ in (line.split(" ") for line in lines))
        marks = tuple(mark.read_text() for mark in sorted(beside.glob("said.mark.*")))
        return Ended(code, Path(files["out"]).read_text(), Path(files["err"]).read_text(), hits, marks)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


class FaultLab(Lab):
    """The `fault` project: a text, a folder, two sections of one file, and who consumes them."""

    def __init__(self, root: Path, nursery: Nursery) -> None:
        if not root.exists():
            shutil.copytree(FILES / "fault", root)
            (root / "many").mkdir()
            for number in range(65):
                (root / "many" / f"{number:02}.txt").write_text(f"{number}\n")
            (root / "out").mkdir()
            (root / "out" / "text.txt").write_text("a text of the user's own\n")
            (root / "out" / "shared.json").write_text('{"mine": {"kept": 1.50}, "Left": "the user\'s, too"}\n')
        super().__init__(root, "fault")
        self.nursery = nursery
        self.many: int | None = None

    def with_sets(self, sets: tuple[str, ...]) -> FaultLab:
        self.sets = sets
        return self

    def whyrun(self, *argv: str, faults: tuple[Fault, ...] = ()) -> Ended:
        return self.nursery.run(self.root, list(argv), faults, many=self.many)

    def done(self, *argv: str) -> Ended:
        ended = self.whyrun(*argv)
        well = (0, 1) if argv[0] == "compare" else (0,)  # 1: it found differences
        assert ended.code in well, (argv, ended.code, ended.err)
        return ended

    def processes(self) -> list[str]:
        """Also those that were forked, which have the command line and the environment of the nursery."""
        return super().processes() + [f"{name} in {cwd}" for name, cwd in working_folders() if self.owns(cwd)]

    def owns(self, path: str) -> bool:
        return f"{path}/".startswith(f"{self.root}/")

    def paid(self) -> Counter[str]:
        return Counter((self.root / "paid.log").read_text().splitlines())

    def final(self) -> dict[str, Any]:
        """What an undisturbed course leaves, as far as it may not depend on the disturbance."""
        return {
            "artifacts": self.artifacts(),
            "planned": [job.id for job in self.plan().planned],
            "displaced": self.displaced(),
        }

    def displaced(self) -> set[tuple[str, str | None, bytes]]:
        """What of the user's own was saved, with its bytes."""
        world = self.world()
        runs, stones = world.state.runs_and_tombstones()
        saved = [event for run in runs for event in run.events() if isinstance(event, ev.FileDisplaced)]
        of_pruned = [one for stone in stones for one in stone.displaced]
        return {(one.path, one.section, world.store.read(one.sha256)) for one in (*saved, *of_pruned)}


def working_folders() -> list[tuple[str, str]]:
    """Process → where it is."""
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
    """A command to disturb. `before`: what was done in the project until then."""

    command: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    files: tuple[tuple[str, str, str], ...] = ()  # (file, old text, new text): edits after that
    killed: Fault | None = None  # a run that was killed before the command: what it left is what the command repairs
    executes_again: bool = False  # what the command is for
    word: str | None = None  # the setting that holds at its end
    shared: bool = False  # another project has run before, and shares its results through a folder
    arrange: Callable[[FaultLab], None] | None = None  # what else has happened to the project
    many: int | None = None  # see `Nursery.run`

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
# Only for power cuts: what comes from others is stored by the same calls as what steps make.
SHARED = Scenario(("run",), files=DETERMINISTIC, shared=True)


@dataclass(frozen=True)
class Course:
    """A scenario up to its command, kept as a folder; and what its undisturbed course leaves."""

    scenario: Scenario
    prepared: Path
    hits: Counter[tuple[str, str]]
    final: dict[str, Any]


def prepared(scenario: Scenario, root: Path, nursery: Nursery) -> FaultLab:
    """A project in which all is done that comes before the command."""
    lab = FaultLab(root, nursery)
    (lab.root / "mine.txt").write_text("my own text\n")
    for words in scenario.before:
        lab.done(*words)
    edit(lab, scenario)
    if scenario.shared:
        settings = f"store = {json.dumps(str(root.parent / 'kept'))}\n"
        other = FaultLab(root.with_name(f"{root.name}-of-another"), nursery)
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


def course(scenario: Scenario, folder: Path, nursery: Nursery) -> Course:
    lab = prepared(scenario, folder / "prepared", nursery)
    undisturbed = copy_of(lab, folder / "undisturbed")
    undisturbed.sets, undisturbed.many = tuple(scenario.settings[1:]), scenario.many
    ended = undisturbed.done(*scenario.command)
    assert {name for _, name in ended.hits} <= set(points()), "a point that the table does not have"
    undisturbed.done("run", *scenario.settings)
    return Course(scenario, lab.root, ended.hits, undisturbed.final())


def copy_of(lab: FaultLab, root: Path) -> FaultLab:
    shutil.copytree(lab.root, root, symlinks=True)
    return FaultLab(root, lab.nursery)


def check_killed(fault: Fault, ended: Ended) -> None:
    """A host ends with the kill. One whose worker was killed says that, or has given the step to another."""
    assert fault.how in ("before", "after")
    well = (-signal.SIGKILL,) if fault.role == "host" else (0, 1)
    assert ended.code in well, (fault, ended.code, ended.err)


def check_told(lab: FaultLab, fault: Fault, ended: Ended) -> None:
    """0: what failed can be done without. 1: a step failed, and its event has the reason. 3: the whole command did."""
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
    """After a command that was disturbed: the next ones open, repair, say so, and come to where all would have been."""
    scenario = course.scenario
    lab.sets = tuple(scenario.settings[1:])
    unfinished = [run.name for run in lab.runs() if not isinstance(lab.events(run)[-1], ev.RunComplete)]
    done = lab.completed()
    told = {
        word for line in ended.err.splitlines() if " EXECUTES Job:" in line for word in line.split() if "Job:" in word
    }
    assert told <= done.keys(), "reported complete, and not in the log"
    planned = lab.plan()
    number = len(lab.runs())
    again = lab.done(*scenario.command)
    if unfinished:
        assert unfinished == [lab.runs()[number - 1].name]
        repaired = again if scenario.command[0] in ("run", "compare", "adopt", "restore") else lab.done("runs")
        assert "its log was repaired" in repaired.err
    executed = {step: found for run in lab.runs()[number:] for step, found in lab.executed(run).items()}
    lab.done("run", *scenario.settings)
    if not scenario.executes_again:
        assert not executed.items() & done.items(), "complete in the log, and executed again"
    if scenario.command[0] == "run":
        assert executed.keys() <= {job.id for job in planned.planned}
    assert lab.final() == course.final
    lab.done("verify", "--replay", "all", *scenario.settings)
    lab.check_no_litter()


class Courses:
    """The courses of this test process, each prepared when it is first asked for."""

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        self.folder, self.nursery = folder, nursery
        self._courses: dict[Scenario, Course] = {}
        self._numbers = count()

    def of(self, scenario: Scenario) -> Course:
        if scenario not in self._courses:
            self._courses[scenario] = course(scenario, self.folder / str(next(self._numbers)), self.nursery)
        return self._courses[scenario]

    def lab(self, scenario: Scenario, root: Path) -> FaultLab:
        """A project in which the command of a scenario comes next."""
        shutil.copytree(self.of(scenario).prepared, root, symlinks=True)
        lab = FaultLab(root, self.nursery)
        lab.many = scenario.many
        return lab

    def disturbed(
        self, scenario: Scenario, folder: Path, fault: Fault, leading: tuple[Fault, ...] = ()
    ) -> tuple[FaultLab, Ended]:
        """The command of a scenario with a fault that has been done; `leading`: others, without which its point is not
        come to.

        How often a point is come to depends a little on timing: where it was less than in the undisturbed course, the
        last time of those is tried next.
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
