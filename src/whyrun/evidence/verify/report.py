"""The result of `verify`: every problem with its file and line, what was checked, and notes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

KEPT = 1000  # problems; a missing store has as many problems as there are artifacts, and memory is limited

# log: a line, or the chain; run: a whole run, or a required file of a run folder; file: a file of a run folder whose
# hash is in the log; link: a link into the store; status: `status.json`; artifact, blob: bytes of the store;
# plan: a replay
Kind = Literal["log", "run", "file", "link", "status", "artifact", "blob", "plan"]

# The cheapest repair for each kind. Most damage is in evidence that no plan needs.
NOT_WHOLE = (
    "a missing file of a run folder: restore it from a copy; without one, delete the run's `status.json`, and the next "
    "run creates an empty file. No job runs again"
)
SOURCE_GONE = (
    "a workflow file below `source/`: restore it from a copy. No job and no plan needs it (the run's snapshot in the "
    "store has its text): without a copy it is reported until the run is pruned, and nothing else is affected"
)
PLAN_AGAIN = "`plan.json`: `whyrun plan --at RUN --json` prints it again, to the byte, for that run"
SUMMARY_AGAIN = (
    "`composition_summary.json` is derived from the log: nothing is lost. Delete it and the `status.json` of that run: "
    "the next `whyrun run` makes both again. No job runs again, and `whyrun show --composition` does not read it"
)
COMMANDS_GONE = (
    "`commands.jsonl`: restore it from a copy. No command of Whyrun reads it and no job needs it: without a copy it is "
    "reported until the run is pruned (`whyrun runs prune`), and nothing else is affected"
)
METRICS_GONE = (
    "`metrics.jsonl`: restore it from a copy. No job needs it: without a copy it is reported until the run is pruned "
    "(`whyrun runs prune`), and estimates of memory are taken from other runs"
)
MORE_AFTER_THE_END = "bytes after the end of a log: cut them off, for example with `truncate`; no event is lost"

_LOG = (
    "a damaged log, or a missing run: restore it from a copy; without one, move the run's folder and all later "
    "ones away, and their jobs run again"
)
_HINTS: dict[Kind, str] = {
    "log": _LOG,
    "run": _LOG,
    "file": (
        "`manifest.yaml` and `cfg/`: restore them from a copy. They cannot be made again, and no job needs them: "
        "without a copy it is reported until the run is pruned (`whyrun runs prune`), and nothing else is affected"
    ),
    "status": "`status.json`: delete it, and the next run writes it again from the log. No job runs again",
    "artifact": (
        "artifacts: restore the blob from a copy; without one, delete it if it has other bytes: the next run takes the "
        "published file, or runs the job again"
    ),
    "blob": (
        "snapshots, long lists and saved files: restore the blob from a copy. It cannot be made again, and no job "
        "needs it: without a copy, that past plan or file cannot be shown, and nothing else is affected"
    ),
    "plan": (
        "a plan that cannot be reproduced: no job runs again for it. `plan.json` has the recorded plan; the version of "
        "whyrun that recorded it may still compute it"
    ),
}


@dataclass(frozen=True, slots=True)
class VerifyProblem:
    """One difference from what was recorded. `event`: the event in line `line` of the log `file`."""

    kind: Kind
    run: str
    file: str
    what: str
    line: int | None = None
    event: str | None = None
    subject: str | None = None  # the ID of an artifact or job
    expected: str | None = None
    found: str | None = None
    stored: str | None = None  # the path of the blob
    hint: str | None = None  # instead of the hint of its kind

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None and name != "hint"}


@dataclass(slots=True)
class Findings:
    """Collects problems: the first `KEPT` are kept, the others are only counted."""

    problems: list[VerifyProblem] = field(default_factory=list)
    count: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, problem: VerifyProblem) -> None:
        self.count += 1
        if len(self.problems) < KEPT:
            self.problems.append(problem)

    def has_blob(self, path: str | None) -> bool:
        return path is not None and any(problem.stored == path for problem in self.problems)

    def has_line(self, run: str, line: int | None) -> bool:
        return any((problem.kind, problem.run, problem.line) == ("log", run, line) for problem in self.problems)

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass(slots=True)
class Checked:
    """How much was checked."""

    runs: int = 0
    events: int = 0
    blobs: int = 0  # of the store, read and hashed, each once
    bytes: int = 0
    files: int = 0  # of run folders, read and hashed
    plans: int = 0  # recomputed
    pruned: int = 0  # tombstones of pruned runs

    def to_json(self) -> dict[str, int]:
        record = asdict(self)
        return record if self.pruned else {name: number for name, number in record.items() if name != "pruned"}


@dataclass(frozen=True, slots=True)
class Verification:
    workflow: str
    chain: str | None  # the last link: a copy of it elsewhere proves later that the end of the log was not cut off
    checked: Checked
    problems: tuple[VerifyProblem, ...]
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


def hints_for(problems: Iterable[VerifyProblem]) -> list[str]:
    """The hints for these problems, without repetitions, in their order."""
    return list(dict.fromkeys(problem.hint or _HINTS[problem.kind] for problem in problems))
