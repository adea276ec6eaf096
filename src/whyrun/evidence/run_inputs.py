"""The input values that were in force in a run: each as it was recorded last, by that run or by an earlier one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from whyrun.log import events as ev
from whyrun.log.runs import RunRef, log_without_start
from whyrun.log.tombstones import Tombstone


@dataclass(frozen=True, slots=True)
class InputInForce:
    """`run`: the one that found it so first. The value of a file is its content: it has a hash and a size here."""

    id: str
    run: str
    sha256: str
    size: int | None = None
    value: Any = UNSET

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id, "run": self.run, "sha256": self.sha256}
        if self.size is not None:
            found["size"] = self.size
        return found if self.value is UNSET else {**found, "value": self.value}


def inputs_in_force(runs: Iterable[RunRef], name: str, pruned: Iterable[Tombstone] = ()) -> list[InputInForce]:
    """By ID. Runs record what has changed since the run before; those that only compare record no inputs."""
    found: dict[str, InputInForce] = {}
    there: list[RunRef | Tombstone] = [*runs, *pruned]
    for run in sorted(there, key=lambda one: one.number):
        if isinstance(run, Tombstone):
            for one in run.inputs:
                found[one.id] = InputInForce(one.id, run.run, one.sha256, one.size, one.value)
            continue
        try:
            for event in run.events():
                if isinstance(event, ev.InputRecorded):
                    found[event.id] = InputInForce(event.id, run.name, event.sha256, event.size, event.value)
                elif not isinstance(event, ev.RunStart):
                    break  # inputs come first
        except FileNotFoundError:
            raise log_without_start(run) from None
        if run.name == name:
            break
    return [found[id_] for id_ in sorted(found) if found[id_].sha256]  # without a hash: it was gone by then
