"""What verifying found: every problem with its place, what was checked, and what is worth knowing. [pure]"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

KEPT = 1000  # problems: a store that is gone would else fill the memory with as many records as there are artifacts

# log: a line, or the chain; run: a whole run, or what a run folder must hold; file: a file of a run folder that the log
# has the hash of; link: one of a run folder into the store; status: `status.json`; artifact, blob: bytes of the store;
# plan: a replay
Kind = Literal["log", "run", "file", "link", "status", "artifact", "blob", "plan"]

# What to do about each: what costs least. Most of what may be damaged is evidence that no plan rests on.
NOT_WHOLE = (
    "a file of a run folder that is not there: restore it from a copy; without one, delete the run's `status.json`, "
    "and the next run puts an empty one in its place. No job runs again"
)
SOURCE_GONE = (
    "a workflow file below `source/`: restore it from a copy. No job and no plan needs it (the run's snapshot in the "
    "store has its text): without a copy it is told until the run is pruned, and nothing else comes of it"
)
PLAN_AGAIN = "`plan.json`: `whyrun plan --at RUN --json` prints it again, to the byte, for that run"
MORE_AFTER_THE_END = "bytes after the end of a log: cut them off, for example with `truncate`; no event is lost"

_LOG = (
    "a damaged log, or a run that is gone: restore it from a copy; without one, move the run's folder and all later "
    "ones away, and their jobs run again"
)
_HINTS: dict[Kind, str] = {
    "log": _LOG,
    "run": _LOG,
    "file": (
        "`manifest.yaml` and `cfg/`: restore them from a copy. Nothing can make them again, and no job needs them: "
        "without a copy it is told until the run is pruned (`whyrun runs prune`), and nothing else comes of it"
    ),
    "status": "`status.json`: delete it, and the next run writes it again from the log. No job runs again",
    "artifact": (
        "artifacts: restore the blob from a copy; without one, delete it if it has other bytes, and what needs it "
        "takes the published file, or its job runs again"
    ),
    "blob": (
        "snapshots, long lists and saved files: restore the blob from a copy. Nothing can make it again, and no job "
        "needs it: without a copy, that plan or file of the past cannot be shown, and nothing else comes of it"
    ),
    "plan": (
        "a plan that does not come out again: no job runs again for it. `plan.json` has the recorded one; the version "
        "of whyrun that recorded it may compute it still"
    ),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it was recorded. `event` is what the line `line` of the log `file` tells."""

    kind: Kind
    run: str
    file: str
    what: str
    line: int | None = None
    event: str | None = None
    subject: str | None = None  # the ID of an artifact or job
    expected: str | None = None
    found: str | None = None
    stored: str | None = None  # the blob that has these bytes, or should have
    hint: str | None = None  # what to do, where that is another thing than for others of its kind

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None and name != "hint"}


@dataclass(slots=True)
class Findings:
    """Collects problems, the first `KEPT` of them in full and the others by number."""

    problems: list[Problem] = field(default_factory=list)
    count: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, problem: Problem) -> None:
        self.count += 1
        if len(self.problems) < KEPT:
            self.problems.append(problem)

    def tell_of_blob(self, path: str | None) -> bool:
        return path is not None and any(problem.stored == path for problem in self.problems)

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass(slots=True)
class Checked:
    """How much was looked at."""

    runs: int = 0
    events: int = 0
    blobs: int = 0  # of the store, each once, their bytes read
    bytes: int = 0
    files: int = 0  # of run folders, their bytes read
    plans: int = 0  # computed again
    pruned: int = 0  # runs of which a tombstone is left

    def to_json(self) -> dict[str, int]:
        found = asdict(self)
        return found if self.pruned else {name: number for name, number in found.items() if name != "pruned"}


@dataclass(frozen=True, slots=True)
class Verification:
    workflow: str
    chain: str | None  # the last link: whoever keeps it elsewhere can tell whether the end of a log was cut off
    checked: Checked
    problems: tuple[Problem, ...]
    count: int
    notes: tuple[str, ...]

    @property
    def sound(self) -> bool:
        return not self.count

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.sound,
            "workflow": self.workflow,
            "chain": self.chain,
            "checked": self.checked.to_json(),
            "problem_count": self.count,
            "problems": [problem.to_json() for problem in self.problems],
            "notes": list(self.notes),
        }


def hints_for(problems: Iterable[Problem]) -> list[str]:
    """Each once, in the order of the problems."""
    return list(dict.fromkeys(problem.hint or _HINTS[problem.kind] for problem in problems))
