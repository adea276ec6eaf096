"""What `prune` needs of a run: the facts that its tombstone keeps, and the steps and requests that it has."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from whyrun.ids import output_of, site_of
from whyrun.log import events as ev
from whyrun.log.journal import FIRST_CHAIN, check_chain
from whyrun.log.lean_events import ArtifactAdopted, ArtifactAvailable, scan
from whyrun.log.outcomes import RunOutcome
from whyrun.log.runs import RunRef, log_without_start
from whyrun.log.tombstones import Adopted, CarriedInput, Displaced, PublishedSite, Tombstone

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
    return sum(os.lstat(os.path.join(place, name)).st_size for place, _, names in os.walk(folder) for name in names)
