"""Fast reading of logs for the fold: only the fields that it needs, a few megabytes at a time.

It reads the same lines as `journal.read_events`, into leaner records: bindings stay undecoded until a command asks why
something changed. Bytes after the last newline are ignored (a torn tail, which the next run repairs); a broken line
anywhere else is `LOG_DAMAGED`.
"""

# Without `from __future__ import annotations`: msgspec reads the annotations of the structs, and has to compile those
# that are text, which takes three times as long.

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from whyrun.errors import WhyrunError, error
from whyrun.log.decoding import decoded
from whyrun.log.events import DAMAGE_HINT, UNREADABLE
from whyrun.log.journal import read_blocks

MARK = 64 << 10

NOTHING = msgspec.Raw(b"")  # no bindings, no reads


class Lean(msgspec.Struct, tag_field="event", gc=False, kw_only=True):
    seq: int
    session: str


class Options(msgspec.Struct, gc=False, frozen=True):
    accept: bool = False


class RunStart(Lean, tag="run_start"):
    mode: Literal["run", "compare", "adopt", "decide"]
    options: Options = Options()
    workflow_sha256: str = ""


class InputRecorded(Lean, tag="input_recorded"):
    id: str
    sha256: str
    value: Any = msgspec.UNSET


class StepStart(Lean, tag="step_start"):
    step_id: str
    attempt: int
    fingerprint: str
    bindings: msgspec.Raw = NOTHING


class ArtifactAvailable(Lean, tag="artifact_available"):
    artifact: str
    step_id: str
    sha256: str
    size: int
    type: str
    suffix: str = ""
    path: str | None = None
    section: str | None = None
    value: Any = msgspec.UNSET


class StepComplete(Lean, tag="step_complete"):
    step_id: str
    duration: float
    observed: msgspec.Raw = NOTHING
    traced: bool = False
    packages: msgspec.Raw = NOTHING


class StepFailed(Lean, tag="step_failed"):
    step_id: str
    error: str
    error_type: str
    status: Literal["FAILED", "TIMED_OUT", "INTERRUPTED"]
    observed: msgspec.Raw = NOTHING
    traced: bool = False
    packages: msgspec.Raw = NOTHING


class SharedOrigin(msgspec.Struct, gc=False):
    duration: float = 0.0


class StepSkipped(Lean, tag="step_skipped"):
    step_id: str
    why: Literal["condition_false", "source_inactive", "reused", "not_comparable", "budget"]
    fingerprint: str | None = None
    bindings: msgspec.Raw = NOTHING
    from_run: str | None = None
    recorded_in: str | None = None
    from_step: str | None = None
    shared: SharedOrigin | None = None


class ArtifactAdopted(Lean, tag="artifact_adopted"):
    artifact: str
    step_id: str
    sha256: str
    size: int
    type: str
    fingerprint: str
    suffix: str = ""
    path: str | None = None
    section: str | None = None
    value: Any = msgspec.UNSET
    bindings: msgspec.Raw = NOTHING
    observed: msgspec.Raw = NOTHING
    packages: msgspec.Raw = NOTHING


class ResultKept(Lean, tag="result_kept"):
    step_id: str
    fingerprint: str
    old_fingerprint: str
    from_run: str
    because: str
    by: str = ""
    bindings: msgspec.Raw = NOTHING
    observed: msgspec.Raw = NOTHING
    packages: msgspec.Raw = NOTHING


class RequestRecorded(Lean, tag="request_recorded"):
    step_id: str
    fingerprint: str
    key: str
    value: Any


class CostRecorded(Lean, tag="cost_recorded"):
    step_id: str
    amount: str | None
    currency: str


class RunComplete(Lean, tag="run_complete"):
    state: Literal["succeeded", "failed", "interrupted"]


class PlanComputed(Lean, tag="plan_computed"):
    source: str | None = None


class ManifestMaterialized(Lean, tag="manifest_materialized"): ...


class CfgMaterialized(Lean, tag="cfg_materialized"): ...


class StepBlocked(Lean, tag="step_blocked"):
    step_id: str
    because: list[str]


class ConditionEvaluated(Lean, tag="condition_evaluated"):
    step_id: str
    inputs: dict[str, msgspec.Raw]


class Task(Lean, tag="task"):
    step_id: str


class FileDisplaced(Lean, tag="file_displaced"): ...


class Comparison(Lean, tag="comparison"):
    artifact: str


class StatusContractViolation(Lean, tag="status_contract_violation"):
    step_id: str


class LogRepaired(Lean, tag="log_repaired"):
    interrupted: list[str]


LeanEvent = (
    RunStart
    | InputRecorded
    | StepStart
    | ArtifactAvailable
    | StepComplete
    | StepFailed
    | StepSkipped
    | ArtifactAdopted
    | ResultKept
    | RequestRecorded
    | CostRecorded
    | RunComplete
    | PlanComputed
    | ManifestMaterialized
    | CfgMaterialized
    | StepBlocked
    | ConditionEvaluated
    | Task
    | FileDisplaced
    | Comparison
    | StatusContractViolation
    | LogRepaired
)


@cache  # made late: it takes a while, and many commands do not need it
def _decoder() -> msgspec.json.Decoder[LeanEvent]:
    return msgspec.json.Decoder(LeanEvent)


def scan(path: Path) -> Iterator[list[LeanEvent]]:
    """The events of one run, a chunk at a time."""
    first_line = 1
    for lines in read_blocks(path):
        try:
            events = decoded(_decoder().decode_lines, lines)
        except UNREADABLE:
            raise _damaged(path, lines, first_line) from None
        if len(events) != lines.count(b"\n"):
            raise _damaged(path, lines, first_line)  # an empty line, which `decode_lines` skips
        first_line += len(events)
        yield events


def line_marks(path: Path) -> "array[int]":
    """The number of lines that end before each `MARK`th byte, to find a line without reading all before it."""
    marks = array("Q", [0])
    with path.open("rb") as file:
        while part := file.read(MARK):
            marks.append(marks[-1] + part.count(b"\n"))
    return marks


def read_lines(path: Path, numbers: set[int], marks: Sequence[int] = ()) -> dict[int, bytes]:
    """Several lines of one log. `marks` come from `line_marks` of the same file."""
    if len(numbers) * 2 < len(marks):
        with path.open("rb") as file:
            return {number: line for number in sorted(numbers) if (line := _marked_line(file, number, marks))}
    last = max(numbers, default=0)
    found: dict[int, bytes] = {}
    with path.open("rb") as file:
        for at, line in enumerate(file, 1):
            if at in numbers:
                found[at] = line
            if at >= last:
                break
    return found


def _marked_line(file: BinaryIO, number: int, marks: Sequence[int]) -> bytes:
    """The line begins after the previous one, which ends after the last mark with a lower count."""
    part = max(0, bisect_left(marks, number - 1) - 1)
    file.seek(part * MARK)
    for _ in range(number - 1 - marks[part]):
        file.readline()
    return file.readline()


def _damaged(path: Path, lines: bytes, first_line: int) -> WhyrunError:
    for offset, line in enumerate(lines[:-1].split(b"\n")):
        try:
            decoded(_decoder().decode, line)
        except UNREADABLE as problem:
            return damaged(path, first_line + offset, str(problem) if line else "it is empty")
    return damaged(path, first_line, "one of the lines from here on is broken")


def damaged(path: Path, line: int, why: str) -> WhyrunError:
    return error("LOG_DAMAGED", f"this line is not an event: {why}", file=str(path), line=line, hint=DAMAGE_HINT)
