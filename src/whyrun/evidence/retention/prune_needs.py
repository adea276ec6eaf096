"""Which runs are needed for the current state, and why; and the facts about a run that its tombstone keeps.

A run can be pruned only if no plan changes. The folded latest attempt and success of each step must stay the same.
Older results may be lost: that is the purpose of pruning. But no older result may become current again, as would happen
if the pruned run superseded a result of a kept run.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from whyrun.ids import output_of, site_of
from whyrun.log import events as ev
from whyrun.log.journal import FIRST_CHAIN, check_chain
from whyrun.log.lean_events import ArtifactAdopted, ArtifactAvailable, scan
from whyrun.log.outcomes import RunOutcome
from whyrun.log.runs import RunRef, log_without_start
from whyrun.log.tombstones import Adopted, CarriedInput, Displaced, PublishedSite, Tombstone
from whyrun.snapshot.records import Attempt, Records, StepRecord

# --- facts about a run -------------------------------------------------------------------------------------------
#
# What `prune` needs of a run: the facts that its tombstone keeps, and the steps and requests that it has.


Request = tuple[str, str, str]  # step, fingerprint, key


@dataclass(frozen=True, slots=True)
class RunFacts:
    run: RunRef
    start: ev.RunStart
    outcome: RunOutcome
    events: int
    chain: str
    inputs: tuple[CarriedInput, ...]
    displaced: tuple[Displaced, ...]
    adopted: tuple[Adopted, ...]
    published: dict[str, PublishedSite]  # by site
    steps: frozenset[str]
    requests: frozenset[Request]

    @property
    def state(self) -> Literal["succeeded", "failed", "interrupted"]:
        return self.outcome.end.state if self.outcome.end is not None else "interrupted"

    @property
    def has_results(self) -> bool:
        """Whether its results count. Those of a comparison count only with `--accept`."""
        return self.start.mode != "compare" or bool(self.start.options.get("accept"))

    def tombstone(self, pruned: str, published_by_kept: Collection[str] = ()) -> Tombstone:
        """`published_by_kept`: sites that kept runs have published, too. The tombstone leaves them out."""
        return Tombstone(
            run=self.run.name,
            mode=self.start.mode,
            state=self.state,
            started=self.start.ts,
            ended=self.outcome.last_ts,
            events=self.events,
            previous_chain=self.start.previous_chain,
            chain=self.chain,
            pruned=pruned,
            inputs=list(self.inputs),
            displaced=list(self.displaced),
            published=[one for site, one in sorted(self.published.items()) if site not in published_by_kept],
            adopted=list(self.adopted),
        )

    def check_log(self) -> None:
        """LOG_DAMAGED if the chain is broken: a damaged run is reported, not removed."""
        check_chain([self.run.events_path], self.start.previous_chain or FIRST_CHAIN)


def facts_of(run: RunRef) -> RunFacts:
    outcome = RunOutcome()
    inputs: list[CarriedInput] = []
    displaced: list[Displaced] = []
    adopted: list[Adopted] = []
    published: dict[str, PublishedSite] = {}
    steps: set[str] = set()
    requests: set[Request] = set()
    seq, chain = 0, ""
    try:
        for event in run.events():
            outcome.add(event)
            seq, chain = event.seq, event.chain
            step = getattr(event, "step_id", None)
            if step is not None:
                steps.add(step)
            if isinstance(event, ev.ArtifactAdopted) and output_of(event.artifact) is not None:  # skip leaves
                adopted.append(Adopted(event.artifact, event.sha256, event.type))
            match event:
                case ev.InputRecorded():
                    inputs.append(CarriedInput(event.id, event.sha256, event.size, event.value))
                case ev.FileDisplaced():
                    displaced.append(Displaced(event.path, event.sha256, event.section))
                case ev.ArtifactAvailable() | ev.ArtifactAdopted() if event.path is not None:
                    site = site_of(event.path, event.section)
                    published[site] = PublishedSite(event.artifact, site, event.sha256)
                case ev.RequestRecorded():
                    requests.add((event.step_id, event.fingerprint, event.key))
                case _:
                    pass  # the tombstone keeps nothing of it
    except FileNotFoundError:
        raise log_without_start(run) from None
    if outcome.start is None:
        raise log_without_start(run)
    return RunFacts(
        run, outcome.start, outcome, seq, chain, tuple(inputs), tuple(displaced), tuple(adopted), published,
        frozenset(steps), frozenset(requests),
    )  # fmt: skip


def published_sites(runs: Iterable[RunRef]) -> set[str]:
    """Every site that one of these runs has published."""
    return {
        site_of(event.path, event.section)
        for run in runs
        for events in scan(run.events_path)
        for event in events
        if isinstance(event, ArtifactAvailable | ArtifactAdopted) and event.path is not None
    }


def folder_size(folder: Path) -> int:
    """The size of its files. Links are not followed."""
    return sum(os.lstat(os.path.join(here, name)).st_size for here, _, names in os.walk(folder) for name in names)


# --- which runs are needed ---------------------------------------------------------------------------------------


_KINDS = {
    "attempt": "has the latest attempt of {}",
    "success": "has the latest success of {}",
    "adoption": "has the adoption of {}",
    "kept": "keeps the result of {}",
    "made": "made the result of {} that later runs reuse",
    "traced": "has the latest traced step of {}",
    "request": "recorded a request that the next attempt of {} resumes",
    "reuse": "the current plan reuses its result of {}",
    "superseded": "without it an older result of {} would count again",
    "state": "the current state of {} depends on it",
}


@dataclass
class Needs:
    """Run → why it is needed. `why` gives the first reason in the order of `_KINDS`."""

    _by_kind: dict[int, dict[str, dict[str, None]]] = field(default_factory=dict)
    _others: dict[int, str] = field(default_factory=dict)

    def add(self, run: int, kind: str, subject: str) -> None:
        self._by_kind.setdefault(run, {}).setdefault(kind, {})[subject] = None

    def add_reason(self, run: int, why: str) -> None:
        """A reason that does not depend on a step."""
        self._others.setdefault(run, why)

    def __contains__(self, run: int) -> bool:
        return run in self._by_kind or run in self._others

    def why(self, run: int) -> str:
        if run in self._others:
            return self._others[run]
        by_kind = self._by_kind[run]
        kind = next(kind for kind in _KINDS if kind in by_kind)
        subjects = sorted(by_kind[kind])
        more = f" and {len(subjects) - 1} more" if len(subjects) > 1 else ""
        return _KINDS[kind].format(f"{subjects[0]}{more}")


def add_latest(needs: Needs, records: Records) -> None:
    """Add the runs with the latest attempt, success or adoption of a step, or with a result that a later run reused."""
    for step, record in records.steps.items():
        needs.add(record.latest.run, "attempt", step)
        for attempt in {id(a): a for a in (record.latest, record.last_success()) if a is not None}.values():
            if attempt.ok:
                needs.add(attempt.run, "success", step)
            for artifact, (run, origin) in (attempt.apart or {}).items():
                needs.add(run, {"adopted": "adoption", "kept": "kept"}.get(origin, "made"), artifact)
            if attempt.made:
                needs.add(attempt.made, "made", step)
    for job, (run, reads) in records.observations.traced.items():
        if reads:  # else the next step of the job is traced again, which finds the same
            needs.add(run, "traced", f"Job:{job}")


def add_requests(needs: Needs, records: Records, requests: Mapping[int, Iterable[tuple[str, str, str]]]) -> None:
    """Add the runs with a request that the next attempt resumes. `requests`: run → its recorded requests."""
    for run, recorded in requests.items():
        for step, fingerprint, key in recorded:
            record = records.steps.get(step)
            if record is not None and key in (record.requests or {}).get(fingerprint, {}):
                needs.add(run, "request", step)


def add_lost(needs: Needs, before: Records, after: Records, steps: Mapping[int, frozenset[str]]) -> bool:
    """Compare the fold of all runs with the fold without the runs of `steps` (run → the steps in its log), and add the
    runs that make a difference. False: no plan can differ."""
    same = before.inputs == after.inputs and (before.run, before.seq) == (after.run, after.seq)
    for step, record in before.steps.items():
        left = after.steps.get(step)
        if left is None or _current(left) != _current(record):
            _keep_all_of(needs, step, steps)
            same = False
            continue
        now = {attempt.kind: attempt for attempt in record.attempts()}
        for attempt in left.attempts():
            same &= _is_latest(needs, step, attempt, now.get(attempt.kind), steps)
    # For a deterministic job, the latest attempt of its kind counts, of any step.
    latest = _latest_by_kind(before)
    for kind, (step, attempt) in _latest_by_kind(after).items():
        by = latest.get(kind)
        same &= _is_latest(needs, step, attempt, None if by is None else by[1], steps)
    return not same


def _current(record: StepRecord) -> tuple[object, ...]:
    return record.latest, record.last_success(), record.requests or None, record.remembered_by or None


def _is_latest(
    needs: Needs, step: str, left: Attempt, latest: Attempt | None, steps: Mapping[int, frozenset[str]]
) -> bool:
    """Whether a remaining result is still the latest of its kind. If not, add the run that superseded it, or the run
    that made the superseding result; if both are kept already, all runs with the step."""
    if left == latest:
        return True
    if latest is not None and latest.run in steps:
        needs.add(latest.run, "superseded", step)
    elif latest is not None and latest.made in steps:
        needs.add(latest.made, "made", step)
    else:
        _keep_all_of(needs, step, steps)
    return False


def _keep_all_of(needs: Needs, step: str, steps: Mapping[int, frozenset[str]]) -> None:
    for run, steps_of_run in steps.items():
        if step in steps_of_run:
            needs.add(run, "state", step)


def _latest_by_kind(records: Records) -> dict[tuple[str, int, int], tuple[str, Attempt]]:
    latest: dict[tuple[str, int, int], tuple[str, Attempt]] = {}
    for step, record in records.steps.items():
        for attempt in record.for_others():
            before = latest.get(attempt.kind)
            if before is None or (before[1].run, before[1].seq) < (attempt.run, attempt.seq):
                latest[attempt.kind] = (step, attempt)
    return latest
