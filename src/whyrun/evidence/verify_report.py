"""What verifying found: every problem with its place, what was checked, and what is worth knowing. [pure]"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

KEPT = 1000  # problems: a store that is gone would else fill the memory with as many records as there are artifacts

# log: a line, or the chain; run: a whole run, or what a run folder must hold; file: a file of a run folder that the log
# has the hash of; status: `status.json`; artifact, blob: bytes of the store; plan: a replay
Kind = Literal["log", "run", "file", "status", "artifact", "blob", "plan"]


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

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


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
