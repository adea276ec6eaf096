"""The folder of a run that composes datasets: its summary, and what each of its steps was given."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import atomic_write
from whyrun.artifacts.hashing import canonical_json
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import StateError
from whyrun.evidence.composition import SUMMARY_FILE, Beside, Shape, composition_summary, given_sources
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.log.journal import EVENTS_FILE, read_events
from whyrun.log.wide import read_wide

MARK = b'{"composition":'  # how the manifest of such a run begins: its keys are sorted


def complete_composition(folder: Path, store: Store) -> None:
    """Write `composition_summary.json` and `steps/<step>/inputs/`; for a repair the same as for the run itself."""
    with (folder / "manifest.yaml").open("rb") as file:
        if file.read(len(MARK)) != MARK:
            return
    section = json.loads((folder / "manifest.yaml").read_bytes())["composition"]
    events = list(read_events(folder / EVENTS_FILE))
    around = _Around(folder, store)
    _link_inputs(folder, section, events, around)
    summary = composition_summary(folder.name, section, events, around.previous(), around)
    atomic_write(folder / SUMMARY_FILE, canonical_json(summary) + b"\n", Area.RUN)


class _Around(Beside):
    """The store, and the runs before this one."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder, self.store = folder, store
        self._read: dict[str, dict[str, Any] | None] = {}

    def count(self, sha256: str, suffix: str) -> Shape | None:
        from whyrun.actions.builtin.data.counting import counted_shape

        return counted_shape(Path(self.store.path(sha256)), suffix) if self.store.has(sha256) else None

    def members(self, wide: Mapping[str, Any]) -> list[Any]:
        try:
            return read_wide(dict(wide), self.store.read)
        except StateError:
            return []  # the blob is lost or damaged: `verify` tells of it, and nothing is made up here

    def told(self, run: str) -> dict[str, Any] | None:
        if run not in self._read:
            self._read[run] = self._summary(self.folder.parent / run)
        return self._read[run]

    def previous(self) -> dict[str, Any] | None:
        """The newest summary of the runs before: it has what it took over from those before it."""

        def order(run: Path) -> tuple[int, str]:
            return len(run.name), run.name  # r9999 comes before r10000

        own = order(self.folder)
        runs = sorted((run for run in self.folder.parent.iterdir() if order(run) < own), key=order, reverse=True)
        return next((found for run in runs if (found := self._summary(run)) is not None), None)

    def _summary(self, folder: Path) -> dict[str, Any] | None:
        """A damaged one is none: it stops no run that comes after it, and the debug log tells."""
        try:
            return read_summary(folder)
        except SummaryDamaged as problem:
            disk.append_line(Area.RUN, self.folder / "debug.log", f"composition: {problem}; nothing is taken from it")
            return None


def read_summary(folder: Path) -> dict[str, Any] | None:
    """None where there is none. `SummaryDamaged` where it cannot be read, or is none by its form."""
    try:
        text = (folder / SUMMARY_FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        msgspec.json.decode(text, type=_Summary)
        found: dict[str, Any] = json.loads(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise SummaryDamaged(f"`{folder.name}/{SUMMARY_FILE}` is damaged: {problem}") from None
    return found


def why_no_summary(folder: Path) -> tuple[str, str]:
    """Of a run without one: what it is instead, and what to do."""
    started: ev.RunStart | None = None
    ended = False
    for event in read_events(folder / EVENTS_FILE):
        if isinstance(event, ev.RunStart):
            started = event
        ended = ended or isinstance(event, ev.RunComplete)
    if started is not None and started.mode != "run":
        return f"{folder.name} is a run of mode `{started.mode}`: it composes no datasets", "name a run that made them"
    if not ended:
        hint = "its summary is written when it ends; if it was killed, by the next `whyrun run`"
        return f"{folder.name} has not come to an end: it has no summary yet", hint
    hint = "name a run of a workflow with `composition:`, or of a dataset plan"
    return f"{folder.name} composes no datasets", hint


class SummaryDamaged(ValueError):
    """A summary that is none. What it told is told no more; the events and the manifest it was made of are there."""


class _Counted(TypedDict):
    sha256: str | None
    rows: int | None
    columns: int | None


class _Step(TypedDict):
    step_id: str
    status: str
    bindings: list[_Counted]
    products: list[_Counted]


class _Decision(TypedDict):
    kind: str
    step_id: str


class _Dataset(TypedDict):
    fingerprint: str | None
    rows: int | None
    columns: int | None


class _Summary(TypedDict):
    """What is read of an earlier one."""

    run: str
    inputs_manifest: list[_Dataset]
    steps: list[_Step]
    decisions: list[_Decision]


def input_links(folder: Path, store: Store) -> Iterator[tuple[Path, str]]:
    """Of a run that has ended: what each step read, under its own name, and its hash. Nothing of other runs."""
    with (folder / "manifest.yaml").open("rb") as file:
        if file.read(len(MARK)) != MARK:
            return
        file.seek(0)
        section = json.loads(file.read())["composition"]
    yield from _input_links(folder, section, read_events(folder / EVENTS_FILE), _Around(folder, store))


def _input_links(
    folder: Path, section: Mapping[str, Any], events: Iterable[ev.Event], around: _Around
) -> Iterator[tuple[Path, str]]:
    for event in events:
        if not isinstance(event, ev.StepStart):
            continue
        place = folder / "steps" / file_name(event.step_id.removeprefix("Job:")) / "inputs"
        for slot, _, source in given_sources(event.bindings or {}, section, around):
            if source.get("as", "v") != "v":  # else it is a value
                yield place / f"{file_name(slot)}{source['as'][1:]}", source["sha256"]


def link_target(link: Path, blob: str) -> str:
    return os.path.relpath(blob, link.parent)


def _link_inputs(folder: Path, section: Mapping[str, Any], events: Iterable[ev.Event], around: _Around) -> None:
    """Links into the store: the same every time."""
    for link, sha256 in _input_links(folder, section, events, around):
        if link.is_symlink() or not around.store.has(sha256):
            continue  # not there: a folder, or bytes that are lost. The summary has the hash
        disk.make_folders(Area.RUN, link.parent)
        disk.link(Area.RUN, link_target(link, around.store.path(sha256)), link)
