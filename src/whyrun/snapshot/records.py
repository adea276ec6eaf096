"""The result of folding a log: records of steps, attempts, outputs and inputs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import msgspec

from whyrun.log.events import NOT_PUBLISHED
from whyrun.snapshot.observations import Observations

# Failures that say nothing about the fingerprint: an earlier success with the same fingerprint may still be reused.
UNSETTLED = frozenset({"INTERRUPTED", "InputChangedDuringRun"})

# How outputs came to be that count for their own instance only: no run made them from what they stand for.
OWN_ONLY = frozenset({"adopted", "kept"})

KEPT_OF_ERROR = 200  # characters of an error message


class Output(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One artifact as an attempt recorded it."""

    id: str
    sha256: str
    size: int
    type: str
    path: str | None = None  # where it was published: see `site_of`
    held: tuple[Any, ...] = ()  # (value,) for leaves and value outputs: UNSET does not survive in an array
    suffix: str = ""

    @property
    def value(self) -> Any:
        return self.held[0] if self.held else msgspec.UNSET

    @property
    def bytes_key(self) -> str:
        """The key of its bytes, which are in the store or in this output's own published file.

        An output with the same content and another path may have lost its bytes or not.
        """
        return self.sha256 if self.path is None else f"{self.sha256} {self.path}"


class Attempt(msgspec.Struct, array_like=True, gc=False):
    """One execution of one job instance; or a reuse, an adoption or a kept result, which count as successes."""

    run: int
    seq: int  # the line that holds its bindings
    number: int
    fingerprint: str
    ok: bool = False
    outputs: tuple[Output, ...] = ()
    duration: float = 0.0  # of a reuse: that of the reused result
    status: str = ""  # FAILED TIMED_OUT INTERRUPTED
    error_type: str = ""
    error: str = ""
    origin: str = ""  # "reused", "adopted", "kept"
    made: int = 0  # the run that executed or adopted it, if that is not `run`
    apart: dict[str, tuple[int, str]] | None = None  # outputs with another source than the attempt: see `source_of`
    kept: tuple[str, str] | None = None  # who kept the result, and why
    reads: int = 0  # what it read undeclared, and the packages that it imported: numbers of `Observations`
    packages: int = 0
    costs: dict[str, str] | None = None  # what its result cost, by currency: see `money.Totals.to_record`
    maker: str = ""  # the step that made the result, if that is another instance

    @property
    def made_in(self) -> int:
        return self.made or self.run

    def result(self, step: str) -> tuple[int, str]:
        """Which result this attempt of a step has: the run and the step that made it. A result that moved from one
        instance to another is the same result."""
        return self.made_in, self.maker or step

    @property
    def kind(self) -> tuple[str, int, int]:
        """What its result depends on. Of several attempts of one kind, the latest counts."""
        return self.fingerprint, self.reads, self.packages

    def source_of(self, artifact: str) -> tuple[int, str]:
        """The run that an output comes from, and how: "" for executed, "reused", "adopted", "kept".

        Adopted bytes stay adopted when they are reused. An adoption does not change the other outputs of its job.
        """
        return (self.apart or {}).get(artifact) or (self.run, self.origin)

    @property
    def adopted(self) -> dict[str, int]:
        """The adopted outputs, each with the run of mode `adopt`."""
        return {artifact: run for artifact, (run, origin) in self.own_sources.items() if origin == "adopted"}

    @property
    def own_sources(self) -> dict[str, tuple[int, str]]:
        """The adopted and the kept outputs, each with its source."""
        found = {artifact: source for artifact, source in (self.apart or {}).items() if source[1] in OWN_ONLY}
        if self.origin in OWN_ONLY:
            others = (output.id for output in self.outputs if output.id not in (self.apart or {}))
            found |= dict.fromkeys(others, (self.run, self.origin))
        return found

    @property
    def is_own_only(self) -> bool:
        """Whether no other instance may reuse it."""
        return self.origin in OWN_ONLY or bool(self.own_sources)

    @property
    def has_result(self) -> bool:
        """Can its outputs be reused?

        Also those of a step that failed only because it could not be published: its bytes are recorded and stored. (A
        step that itself raises an error of that name has recorded no outputs.)
        """
        return self.ok or (self.error_type == NOT_PUBLISHED and bool(self.outputs))

    @property
    def settled(self) -> bool:
        return self.ok or not (self.status in UNSETTLED or self.error_type in UNSETTLED)


class StepRecord(msgspec.Struct, array_like=True, gc=False):
    """All that the log says of one job instance.

    `success` is the last success, if that is not the latest attempt. `settled` holds the latest settled attempt of
    every kind, oldest first, if that is not just the latest attempt. Nearly all instances have neither.
    """

    latest: Attempt
    success: Attempt | None = None
    settled: list[Attempt] | None = None
    requests: dict[str, dict[str, Any]] | None = None  # fingerprint → key → value, until a success clears it
    remembered_by: dict[str, str] | None = None  # key → the fingerprint that remembered it last, until its success
    unadopted: list[Attempt] | None = None  # those that adoptions and kept results have replaced: see `for_others`

    def remembered_elsewhere(self, fingerprint: str) -> dict[str, Any]:
        """By key: values that attempts with other fingerprints remembered after the last attempt with this one."""
        last, requests = self.remembered_by or {}, self.requests or {}
        return {key: requests[by][key] for key, by in last.items() if by != fingerprint}

    def last_success(self) -> Attempt | None:
        return self.latest if self.latest.ok else self.success

    def by_fingerprint(self, fingerprint: str, holds: Callable[[Attempt], bool] = lambda _: True) -> Attempt | None:
        """The latest settled attempt with this fingerprint; of those for which `holds` is true."""
        if self.settled is None:
            latest = self.latest
            return latest if latest.settled and latest.fingerprint == fingerprint and holds(latest) else None
        for attempt in reversed(self.settled):
            if attempt.fingerprint == fingerprint and holds(attempt):
                return attempt
        return None

    def attempts(self) -> Sequence[Attempt]:
        """The latest settled attempt of every kind."""
        if self.settled is not None:
            return self.settled
        return (self.latest,) if self.latest.settled else ()

    @property
    def has_past(self) -> bool:
        """Whether it has more results than its present one, or one of another instance."""
        return self.settled is not None or bool(self.latest.maker) or self.success is not None

    def for_others(self) -> list[Attempt]:
        """The attempts that other instances may reuse: not adopted or kept ones, but those that these have replaced."""
        return [*(attempt for attempt in self.attempts() if not attempt.is_own_only), *(self.unadopted or ())]

    def unadopted_after(self, attempt: Attempt) -> list[Attempt] | None:
        """The value of `unadopted` once this attempt is the latest of its kind."""
        if not self.unadopted and not attempt.is_own_only:
            return None
        kept, of_same = list[Attempt](), list[Attempt]()
        for one in self.unadopted or ():
            (of_same if one.kind == attempt.kind else kept).append(one)
        if attempt.is_own_only:
            before = self.by_fingerprint(attempt.fingerprint, lambda one: one.kind == attempt.kind)
            kept += of_same if before is None or before.is_own_only else [before]
        return kept or None


class MadeOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """An artifact that a step of the run has made before a stage was planned."""

    sha256: str
    type: str
    value: Any = msgspec.UNSET


# What a stage knows of the run: job ID → its artifacts by ID; None: it is inactive.
MadeInRun = Mapping[str, Mapping[str, MadeOutput] | None]


class InputRecord(msgspec.Struct, array_like=True, gc=False, frozen=True):
    sha256: str
    held: tuple[Any, ...] = ()

    @property
    def value(self) -> Any:
        return self.held[0] if self.held else msgspec.UNSET


class Records(msgspec.Struct, gc=False):
    """The fold of a log up to a position."""

    steps: MutableMapping[str, StepRecord] = msgspec.field(default_factory=dict)
    inputs: dict[str, InputRecord] = {}
    inputs_of: int = 0  # the last run that recorded what inputs it found
    run: int = 0  # the last run folded, and its last event: the log position
    seq: int = 0
    open: frozenset[str] = frozenset()  # steps without an end in that run: it is going on, or it was killed
    observations: Observations = msgspec.field(default_factory=Observations)


def run_name(number: int) -> str:
    return f"r{number:04d}"
