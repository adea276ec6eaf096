"""Checks of what events contain: canonical IDs, and small values with their hashes. A mismatch is LOG_DAMAGED. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from whyrun.artifacts.hashing import value_sha256
from whyrun.errors import WhyrunError, error
from whyrun.ids import Kind, artifact_id, parse_id, parse_id_of
from whyrun.lazy_regex import lazy_regex
from whyrun.log.events import DAMAGE_HINT, Event

_ID_FIELDS: tuple[tuple[str, Kind | None], ...] = (
    ("step_id", "Job"),
    ("artifact", "Artifact"),
    ("id", "Input"),
    ("from_step", "Job"),
)
_LIST_FIELDS = ("because", "interrupted")  # lists of steps

# Most IDs are names with whole numbers or plain words as indices; a match saves parsing them (20 times faster). An ID
# that does not match is parsed.
_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_INDEX = r"\[(?:0|[1-9][0-9]{0,15}|(?!(?i:inf|nan))[A-Za-z_][A-Za-z0-9_.+-]*)\]"
_SEGMENT = rf"{_NAME}(?:{_INDEX})*"
_PLAIN = lazy_regex(rf"(Input|Job|Artifact):(?:{_NAME}/)*{_SEGMENT}(?:\.{_SEGMENT})*")

# "Job:Tale[2] Artifact:Tale.Story[2].Title": both canonical, and the artifact belongs to the job. The fold checks this
# for every artifact, so it is one match.
PLAIN_OWN = lazy_regex(rf"Job:((?:{_NAME}/)*{_NAME})((?:{_INDEX})*) Artifact:\1\.{_NAME}\2(?:\.{_SEGMENT})*")


def check_ids(event: Event, file: str) -> None:
    """Raise LOG_DAMAGED (of this file) unless every ID in the event is canonical and of its kind."""
    step, artifact = getattr(event, "step_id", None), getattr(event, "artifact", None)
    problems = [id_problem(text, kind) for text, kind in ids_of(event)]
    if step is not None and artifact is not None:
        problems.append(owner_problem(step, artifact))
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
