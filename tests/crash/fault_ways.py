"""Ways to the fault points that an undisturbed command does not reach: something else goes wrong first.

A way is a scenario, with calls of its command that fail first (`leading`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fault_hook import Fault
from fault_lab import SCENARIOS, FaultLab, Scenario
from fault_selection import SOAK

KILLED = Fault("section.rename", 1, "after")  # Text and Tree are complete then, or nearly
DAYS = 2 * 86400  # seconds: older than what may still have a writer
COMPOSED = """\
workflow: fault
composition: {mode: sequential, roles: {Main: primary_dataset}}
inputs:
  Main: {type: dataset, default: main.csv}
jobs:
  Clean:
    uses: shell
    with: {run: 'cp "$primary_dataset" "$out_Data"', primary_dataset: "${{ inputs.Main }}"}
    outputs: {Data: {type: dataset, path: out/clean.csv}}
"""

ELSEWHERE = """\
workflow: fault
jobs:
  Twice:
    uses: python
    with: {call: "twice:go"}
    retries: 1
    outputs: {Text: {type: text, path: out/twice.txt}}
"""
TWICE = """\
from pathlib import Path

def go(context):
    print("once more")
    if context.recall("asked") is None:
        context.remember("asked", 1)
        Path("left.txt").write_text("half of it")
        raise RuntimeError("not yet")
    context.output("Text").write_text("a text")
"""


@dataclass(frozen=True)
class Way:
    point: str
    scenario: Scenario
    leading: tuple[Fault, ...] = ()
    role: str = "host"
    number: int = 1  # which call at the point fails
    needs: str | None = None  # a program

    def faults(self, name: str) -> list[Fault]:
        """By commit the ways take turns: a kill before the call, a call that fails, a kill after the call."""
        ways = ("before", "ENOSPC", "after")
        chosen = ways if SOAK else (ways[list(WAYS).index(name) % 3],)
        return [Fault(self.point, self.number, how, self.role) for how in chosen]


def last_run(lab: FaultLab) -> Path:
    return max((lab.root / ".whyrun" / "fault" / "runs").iterdir())


def links_without_events(lab: FaultLab) -> None:
    """As after a power cut: the links of a step exist, its events do not."""
    step = last_run(lab) / "artifacts" / "Last"
    step.mkdir(parents=True)
    (step / "Report.json").symlink_to("../../../../../store/00/11")


def another_link(lab: FaultLab) -> None:
    step = last_run(lab) / "artifacts" / "Text"
    step.mkdir(parents=True)
    (step / "Text.txt").symlink_to("../../../../../store/00/11")


def killed_completion(lab: FaultLab) -> None:
    """The repair of a killed run was killed as well, before its last file had its name."""
    killed = lab.whyrun("run", faults=(Fault("status.rename", 1, "before"),))
    assert killed.code == -9
    lab.check_nobody_left()
    assert list(last_run(lab).glob(".tmp-*"))


def torn_commands(lab: FaultLab) -> None:
    """As after a power cut: the last line is incomplete."""
    commands = last_run(lab) / "commands.jsonl"
    assert commands.stat().st_size > 10
    os.truncate(commands, commands.stat().st_size - 5)


def file_in_the_way(lab: FaultLab) -> None:
    """A file of the user is in the place of a folder that is needed."""
    (lab.root / "out" / "deep").write_text("no folder\n")


def half_written_tombstones(lab: FaultLab) -> None:
    assert lab.whyrun(*SCENARIOS["prune"].command, faults=(Fault("prune.rename", 1, "before"),)).code == -9
    lab.check_nobody_left()
    assert list((lab.root / ".whyrun" / "fault").glob(".tmp-*"))


def old_folder_in_the_store(lab: FaultLab) -> None:
    left = lab.root / ".whyrun" / "store" / "tmp" / "tmp-1-00000000-0"
    (left / "inside").mkdir(parents=True)
    (left / "inside" / "file").write_text("half")
    then = left.stat().st_mtime - DAYS
    os.utime(left, (then, then))


def composed(lab: FaultLab) -> None:
    (lab.root / "main.csv").write_text("id,x\n1,2\n")
    (lab.root / "workflow.yaml").write_text(COMPOSED)


def elsewhere(lab: FaultLab) -> None:
    (lab.root / "workflow.yaml").write_text(ELSEWHERE)
    (lab.root / "twice.py").write_text(TWICE)


RUN, PLAN, PRUNE = SCENARIOS["run"], SCENARIOS["plan"], SCENARIOS["prune"]
COMPOSED_RUN = Scenario(("run",), arrange=composed)
IN_A_SANDBOX = Scenario(("run", "--backend", "sandbox"), arrange=elsewhere)

WAYS = {
    "links that no event speaks of": Way(
        "artifact-link.remove", Scenario(("run",), killed=KILLED, arrange=links_without_events)
    ),
    "a link that leads elsewhere": Way("artifact-link.rename", Scenario(("run",), killed=KILLED, arrange=another_link)),
    "a long run": Way("artifact-link.start", Scenario(("run",), many=2)),
    "a killed draft": Way("draft.remove", Scenario(("run",), killed=Fault("draft.sync_filesystem", 1, "after"))),
    "a draft that fails": Way("draft.unlink", RUN, (Fault("draft.rename", 1, "EIO"),)),
    "an index that fails": Way("index.unlink", PLAN, (Fault("index.rename", 1, "EIO"),)),
    "tombstones that fail": Way("prune.unlink", PRUNE, (Fault("prune.rename", 1, "EIO"),)),
    "half-written tombstones": Way(
        "prune.unlink", Scenario(PRUNE.command, PRUNE.before, arrange=half_written_tombstones, word=PRUNE.word)
    ),
    "a publication that fails": Way("publish.unlink", RUN, (Fault("publish.rename", 1, "EIO"),)),
    "a file where a folder is needed": Way("publish.unlink", Scenario(("run",), arrange=file_in_the_way)),
    "commands that fail": Way("run.cut", RUN, (Fault("run.write", 1, "short"), Fault("run.write", 2, "EIO"))),
    "inputs of a composition": Way("run.link", COMPOSED_RUN),
    "the summary of a composition": Way("run.rename", COMPOSED_RUN),
    "torn commands": Way("run.rename", Scenario(("run",), killed=KILLED, arrange=torn_commands)),
    "a killed completion": Way("run.unlink", Scenario(("run",), killed=KILLED, arrange=killed_completion)),
    "a saved plan that fails": Way("saved.unlink", PLAN, (Fault("saved.rename", 1, "EIO"),)),
    "a section that fails": Way("section.unlink", RUN, (Fault("section.sync", 1, "EIO"),)),
    "a status that fails": Way("status.unlink", RUN, (Fault("status.rename", 1, "EIO"),)),
    "a result that is stored already": Way(
        "store.unlink",
        Scenario(("run",), (("run",),), files=(("steps.py", "range(600)", "range(0, 600)"),)),
        role="worker",
    ),
    "an old folder in the store": Way(
        "store.remove", Scenario(("run", "--set", "Word=two"), (("run",),), arrange=old_folder_in_the_store, word="two")
    ),
    # The first attempt leaves scratch/ and stdout.log, the second a longer stdout.log. The first blob in a folder takes
    # two calls, and the run stores one blob of its own before the output.
    "a sandbox: its output": Way("store.rename", IN_A_SANDBOX, number=4, needs="bwrap"),
    "a sandbox: the folder of the step": Way("step.mkdir", IN_A_SANDBOX, needs="bwrap"),
    "a sandbox: its log": Way("step.rename", IN_A_SANDBOX, number=2, needs="bwrap"),
    "a sandbox: its log, joined": Way("step.rename", IN_A_SANDBOX, number=3, needs="bwrap"),
}
