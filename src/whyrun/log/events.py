"""Every event of the log, as a typed, versioned record.

A line reads `{"seq", "ts", "session", "event", …the record's fields…, "chain"}`. The journal fills in the first three
and the last; a new record leaves them at their defaults. A record that does not fit its type can neither be read
(`LOG_DAMAGED`) nor written (`check` raises). Version 1 of a record is written without `v`. Fields of newer versions
stay in the file, because no line is ever rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

import msgspec

from whyrun.artifacts.hashing import value_sha256
from whyrun.errors import WhyrunError, error
from whyrun.ids import Kind, artifact_id, parse_id, parse_id_of
from whyrun.lazy_regex import lazy_regex
from whyrun.log.reads import Observed, reads_problem

# name → [{"id", "sha256", "value"?}]; a list of more than 64 members is {"count", "digest", "blob"}: see
# `decoding.long_list`.
Bindings = dict[str, Any]

_DECIMAL = lazy_regex(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")

# The failure of a step that was open when its run ended, both before and after the repair records it.
INTERRUPTED_TYPE = "Interrupted"
INTERRUPTED_ERROR = "the run ended before this step did"
FailureStatus = Literal["FAILED", "TIMED_OUT", "INTERRUPTED"]
Success = Literal["EXECUTES", "IDENTICAL", "DIFFERENT"]  # the last two are results of comparing the outputs
NOT_PUBLISHED = "NotPublished"  # `error_type` of a step whose outputs are recorded, but not all published

DAMAGE_HINT = (
    "Whyrun guesses nothing from a damaged log: restore it from a copy; without one, move the run's folder and all "
    "later ones away, and their jobs run again"
)


class Event(msgspec.Struct, tag_field="event", omit_defaults=True, kw_only=True, gc=False):
    """The fields of all events. `seq` counts from 1 without gaps within a run, so it is also the line number."""

    seq: int = 0
    ts: str = ""
    session: str = ""
    chain: str = ""
    v: int = 1


class RunStart(Event, tag="run_start"):
    workflow: str
    workflow_sha256: str
    mode: Literal["run", "compare", "adopt", "decide"]
    options: dict[str, Any]
    backend: str
    engine_version: str
    host: str
    pid: int
    previous_chain: str

    def __post_init__(self) -> None:
        # The fold reads it (`lean_events.Options`): what it could not read must not be written.
        if type(self.options.get("accept", False)) is not bool:
            raise TypeError(f"`options.accept` is {self.options['accept']!r}, not true or false")


class InputRecorded(Event, tag="input_recorded"):
    id: str
    sha256: str
    size: int | None = None
    value: Any = msgspec.UNSET  # small values in full


class PlanComputed(Event, tag="plan_computed"):
    plan_sha256: str
    snapshot_sha256: str
    planned: int
    layers: int
    log_position: dict[str, Any] | None
    stage: int | None = None  # of a stage: its number in the run, and the job over whose results its loops go
    source: str | None = None


class ManifestMaterialized(Event, tag="manifest_materialized"):
    path: str
    size: int
    sha256: str


class CfgMaterialized(Event, tag="cfg_materialized"):
    path: str
    size: int
    sha256: str


class StepStart(Event, tag="step_start"):
    step_id: str
    driver: str
    attempt: int
    fingerprint: str
    bindings: Bindings | None = None  # always written; a start without it is LOG_INCOMPLETE


class ArtifactAvailable(Event, tag="artifact_available"):
    artifact: str
    step_id: str
    sha256: str
    size: int
    type: str
    suffix: str = ""  # ".png": of files; consumers see the file under a name with this suffix
    path: str | None = None  # where it is published, relative to the project
    section: str | None = None  # its key in the file at `path`, if outputs share that file
    value: Any = msgspec.UNSET  # leaves and value outputs, always
    reused_from: str | None = None


class StepComplete(Event, tag="step_complete"):
    step_id: str
    driver: str
    output_dir: str
    duration: float
    status: Success
    observed: Observed | None = None  # this and the next three are left out where nothing was observed: see `log.reads`
    traced: bool = False  # strace saw all its processes
    outside: list[str] = []  # paths outside the project that it read
    packages: dict[str, str] = {}  # distributions that it imported, with versions


class StepFailed(Event, tag="step_failed"):
    step_id: str
    driver: str
    error: str
    error_type: str
    traceback: str
    duration: float
    status: FailureStatus
    will_retry: bool
    observed: Observed | None = None
    traced: bool = False
    outside: list[str] = []
    packages: dict[str, str] = {}


class StepSkipped(Event, tag="step_skipped"):
    step_id: str
    why: Literal["condition_false", "source_inactive", "reused", "not_comparable", "budget"]
    fingerprint: str | None = None  # this and the next four: for `reused`
    bindings: Bindings | None = None
    from_run: str | None = None
    recorded_in: str | None = None  # the run whose record of that result holds now, if that is not `from_run`
    from_step: str | None = None
    shared: dict[str, Any] | None = None  # for `reused` from the shared store: the origin of the result
    reason: str | None = None  # for `not_comparable`: what has changed; for `source_inactive`: the source

    def __post_init__(self) -> None:
        # As for `RunStart`: see `lean_events.SharedOrigin`.
        if self.shared is not None and type(self.shared.get("duration", 0.0)) not in (int, float):
            raise TypeError(f"`shared.duration` is {self.shared['duration']!r}, not a number")


class StepBlocked(Event, tag="step_blocked"):
    step_id: str
    because: list[str]
    problem: str | None = None  # of `[?]`: why its instances could not be planned


class ConditionEvaluated(Event, tag="condition_evaluated"):
    step_id: str
    expression: str
    inputs: dict[str, Any]
    result: bool


class Task(Event, tag="task"):
    step_id: str
    status: str
    message: str
    details: Any = msgspec.UNSET


class RequestRecorded(Event, tag="request_recorded"):
    step_id: str
    fingerprint: str
    key: str
    value: Any


class CostRecorded(Event, tag="cost_recorded"):
    """Money that an attempt has spent. It is spent whatever becomes of the attempt."""

    step_id: str
    amount: str | None  # a decimal as text; None: nobody knows it, which is not 0
    currency: str
    item: str = ""  # what was bought, such as `gpt-5 output tokens`
    quantity: str | None = None  # how much of it, a decimal as text
    request: str | None = None  # of a step, the cost of an item for a request is recorded once in a workflow's log

    def __post_init__(self) -> None:
        # Sums are made of them, by the fold, too: see `lean_events.CostRecorded`.
        for name, number in (("amount", self.amount), ("quantity", self.quantity)):
            if number is not None and _DECIMAL.fullmatch(number) is None:
                raise TypeError(f"`{name}` is {number!r}, not a decimal")


class ArtifactAdopted(Event, tag="artifact_adopted"):
    artifact: str
    step_id: str
    sha256: str
    size: int
    type: str
    fingerprint: str
    bindings: Bindings | None = None
    by: str = ""
    value: Any = msgspec.UNSET
    suffix: str = ""
    path: str | None = None
    section: str | None = None
    observed: Observed | None = None  # undeclared reads and packages as they are now: it stands for them, too
    packages: dict[str, str] = {}


class ResultKept(Event, tag="result_kept"):
    """The outputs of the latest success stand for another fingerprint, too: the step was not executed.

    The `artifact_available` of all its outputs come before it. Without it they do not count.
    """

    step_id: str
    fingerprint: str  # what the outputs stand for from now on
    old_fingerprint: str  # what they stood for before
    from_run: str  # the run that executed or adopted them
    because: str
    by: str = ""
    bindings: Bindings | None = None
    observed: Observed | None = None  # undeclared reads and packages as they are now: it stands for them, too
    packages: dict[str, str] = {}


class FileDisplaced(Event, tag="file_displaced"):
    path: str
    sha256: str
    section: str | None = None  # only this section of the file


class Comparison(Event, tag="comparison"):
    artifact: str
    status: Literal["IDENTICAL", "DIFFERENT"]
    against: str  # the run whose version was compared
    summary: str
    details: list[str] = []  # the first differences, and notes
    more: int = 0  # differences beyond those
    adopted: bool = False  # that version was adopted, not made by a run of the job
    kept: bool = False  # that version was kept after a change: this comparison proves or refutes that it still holds
    step_id: str | None = None  # of an element of an array: its ID does not tell which of its indices are the job's


class StatusContractViolation(Event, tag="status_contract_violation"):
    step_id: str
    reason: str
    last_stderr: str


class LogRepaired(Event, tag="log_repaired"):
    cut_bytes: int
    cut_sha256: str
    interrupted: list[str]


class RunComplete(Event, tag="run_complete"):
    state: Literal["succeeded", "failed", "interrupted"]
    counts: dict[str, int]
    duration: float
    error: str | None = None  # of the run itself: its backend could not be prepared, or Whyrun could not go on
    exit_code: int | None = None  # of the command, where it does not follow from `state`: Whyrun could not go on


# What a decoder may raise for bytes that are no record. (For RecursionError see `decoding.decoded`.)
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)

AnyEvent = (
    RunStart
    | InputRecorded
    | PlanComputed
    | ManifestMaterialized
    | CfgMaterialized
    | StepStart
    | ArtifactAvailable
    | StepComplete
    | StepFailed
    | StepSkipped
    | StepBlocked
    | ConditionEvaluated
    | Task
    | RequestRecorded
    | CostRecorded
    | ArtifactAdopted
    | ResultKept
    | FileDisplaced
    | Comparison
    | StatusContractViolation
    | LogRepaired
    | RunComplete
)


# --- Are the IDs and values of events as they must be? ---------------------------------------------------------------


_ID_FIELDS: tuple[tuple[str, Kind | None], ...] = (
    ("step_id", "Job"),
    ("artifact", "Artifact"),
    ("id", "Input"),
    ("from_step", "Job"),
    ("source", "Job"),
)
_LIST_FIELDS = ("because", "interrupted")  # lists of steps

# Most IDs are names with whole numbers or plain words as indices; a match saves parsing them (20 times faster). An ID
# that does not match is parsed.
_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_INDEX = r"\[(?:0|[1-9][0-9]{0,15}|(?!(?i:inf|nan))[A-Za-z_][A-Za-z0-9_.+-]*)\]"
_SEGMENT = rf"{_NAME}(?:{_INDEX})*"
_PLAIN = lazy_regex(rf"(Input|Job|Artifact):(?:{_SEGMENT}/)*{_SEGMENT}(?:\.{_SEGMENT})*")

# "Job:Tale[2] Artifact:Tale.Story[2].Title": both canonical, and the artifact belongs to the job. The fold checks this
# for every artifact, so it is one match.
PLAIN_OWN = lazy_regex(
    rf"Job:((?:{_SEGMENT}/)*{_NAME})((?:{_INDEX})*) Artifact:\1\.{_NAME}\2(?:{_INDEX}|(?:\.{_SEGMENT})*)"
)


WithReads = StepComplete | StepFailed | ArtifactAdopted | ResultKept


def check_ids(event: Event, file: str) -> None:
    """Raise LOG_DAMAGED (of this file) unless every ID in the event is canonical and of its kind."""
    step, artifact = getattr(event, "step_id", None), getattr(event, "artifact", None)
    problems = [id_problem(text, kind) for text, kind in ids_of(event)]
    if step is not None and artifact is not None:
        problems.append(owner_problem(step, artifact))
    if isinstance(event, WithReads) and isinstance(event.observed, list):
        problems.append(reads_problem(event.observed))  # a long list is checked when its blob is read
    for problem in problems:
        if problem is not None:
            raise damaged_line(file, event.seq, problem)


def damaged_line(file: str, line: int, problem: str) -> WhyrunError:
    return error("LOG_DAMAGED", problem, file=file, line=line, hint=DAMAGE_HINT)


def ids_of(event: Event) -> Iterator[tuple[str, Kind | None]]:
    """Every ID in the event, with the kind that it must have (None: any)."""
    for name, kind in _ID_FIELDS:
        text = getattr(event, name, None)
        if text is not None:
            yield text, kind
    for name in _LIST_FIELDS:
        for text in getattr(event, name, ()):
            yield text, "Job"
    bindings: dict[str, Any] | None = getattr(event, "bindings", None)
    if bindings:
        for members in bindings.values():
            if isinstance(members, list):  # a long list is checked when its blob is read
                for member in members:
                    yield (member.get("id", "") if isinstance(member, dict) else str(member)), None
    condition_inputs: dict[str, Any] | None = getattr(event, "inputs", None)
    if condition_inputs:
        for text in condition_inputs:
            yield text, None


@lru_cache(maxsize=1 << 16)
def id_problem(text: str, kind: Kind | None) -> str | None:
    """What is wrong with an ID (of this kind; None: any), or None."""
    plain = _PLAIN.fullmatch(text)
    if plain is not None and (kind is None or plain.group(1) == kind):
        return None
    try:
        if kind is None:
            parse_id(text)
        else:
            parse_id_of(kind, text)
    except WhyrunError as wrong:
        return wrong.diagnostics[0].message
    return None


def owner_problem(step: str, artifact: str) -> str | None:
    """Why this cannot be an artifact of this step, or None."""
    if PLAIN_OWN.fullmatch(f"{step} {artifact}") is not None:
        return None
    problem = id_problem(step, "Job") or id_problem(artifact, "Artifact")
    if problem is not None:
        return problem
    job, segments = parse_id(step), parse_id(artifact).segments
    if len(job.segments) == 1 and len(segments) > 1:
        whole = artifact_id(job, segments[1].name)
        if artifact == whole or artifact.startswith(f"{whole}."):
            return None
        own = job.segments[0].indices
        if len(segments) == 2 and len(segments[1].indices) == len(own) + 1 and artifact.startswith(f"{whole}["):
            return None  # an element of an array
    return f"`{artifact}` is not an artifact of `{step}`"


def value_hash_problem(artifact: str, value: Any, sha256: Any) -> str | None:
    """Say what is wrong if a value in an event does not have the hash beside it, else None.

    Later steps receive the value, and their fingerprints use the hash, so the two must agree.
    """
    try:
        if value_sha256(value) == sha256:
            return None
    except RecursionError:
        return None  # older versions let steps make values that nest deeper than today's limit
    return f"the value of `{artifact}` does not have the recorded hash"
