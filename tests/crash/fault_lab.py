"""Projects whose commands run in forked processes, with a fault point armed in one of them; and what must hold then."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crash_lab import FILES, PATIENCE, Lab
from fault_hook import Fault

from whyrun.disk import points
from whyrun.log import events as ev

NURSERY = Path(__file__).parent / "fault_nursery.py"


@dataclass(frozen=True)
class Ended:
    code: int  # negative: the signal that ended it
    out: str
    err: str
    hits: Counter[tuple[str, str]]  # (role, point)


class Nursery:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(NURSERY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, cwd: Path, argv: list[str], fault: Fault | None = None, record: Path | None = None) -> Ended:
        beside = cwd.parent
        files = {name: str(beside / f"said.{name}") for name in ("out", "err", "hits")}
        Path(files["hits"]).unlink(missing_ok=True)
        if record is not None:
            files["hits"] = str(record)
        asked = {"cwd": str(cwd), "argv": argv, "fault": asdict(fault) if fault else None, "record": bool(record)}
        asked |= files
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert readable, f"{argv} with {fault} does not end"
        code = json.loads(self.process.stdout.readline())
        counted = record is None and Path(files["hits"]).exists()
        lines = Path(files["hits"]).read_text().splitlines() if counted else []
        hits = Counter((role, point) for role, _, point in (line.partition(" ") for line in lines))
        return Ended(code, Path(files["out"]).read_text(), Path(files["err"]).read_text(), hits)

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

    def with_sets(self, sets: tuple[str, ...]) -> FaultLab:
        self.sets = sets
        return self

    def whyrun(self, *argv: str, fault: Fault | None = None) -> Ended:
        return self.nursery.run(self.root, list(argv), fault)

    def done(self, *argv: str) -> Ended:
        ended = self.whyrun(*argv)
        well = (0, 1) if argv[0] == "compare" else (0,)  # 1: it found differences
        assert ended.code in well, (argv, ended.code, ended.err)
        return ended

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
        assert lab.whyrun("run", *scenario.settings, fault=scenario.killed).code == -9
        lab.check_nobody_left()
    return lab


def edit(lab: FaultLab, scenario: Scenario) -> None:
    for name, old, new in scenario.files:
        file = lab.root / name
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))


def course(scenario: Scenario, folder: Path, nursery: Nursery) -> Course:
    lab = prepared(scenario, folder / "prepared", nursery)
    undisturbed = copy_of(lab, folder / "undisturbed")
    undisturbed.sets = tuple(scenario.settings[1:])
    ended = undisturbed.done(*scenario.command)
    assert {name for _, name in ended.hits} <= set(points()), "a point that the table does not have"
    undisturbed.done("run", *scenario.settings)
    return Course(scenario, lab.root, ended.hits, undisturbed.final())


def copy_of(lab: FaultLab, root: Path) -> FaultLab:
    shutil.copytree(lab.root, root, symlinks=True)
    return FaultLab(root, lab.nursery)


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
        self._courses: dict[str, Course] = {}

    def of(self, name: str) -> Course:
        if name not in self._courses:
            self._courses[name] = course(SCENARIOS[name], self.folder / name, self.nursery)
        return self._courses[name]

    def lab(self, name: str, root: Path) -> FaultLab:
        """A project in which the command of a scenario comes next."""
        shutil.copytree(self.of(name).prepared, root, symlinks=True)
        return FaultLab(root, self.nursery)
