"""Finish a run folder; for a run that composes datasets also its summary and the inputs of each step.

Start with `finish_run`. `status.json` comes last.
"""

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
from whyrun.evidence.composition.summary import SUMMARY_FILE, Shape, SummaryContext, composition_summary, given_sources
from whyrun.evidence.run_directory import RunDirectory, SeenEvents
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.log.decoding import read_long_list
from whyrun.log.journal import EVENTS_FILE, read_events

MARK = b'{"composition":'  # the manifest of such a run starts with it: keys are sorted


def finish_run(directory: RunDirectory, store: Store, seen: SeenEvents | None = None) -> dict[str, Any]:
    """Complete a run folder from its events and return its status; for a repair the same as for the run itself.

    `seen`: the events, folded while they were written. Without it they are read.
    """
    seen = directory.complete_files(store, seen)
    complete_composition(directory.path, store)
    return directory.write_status(seen.outcome)


def complete_composition(folder: Path, store: Store) -> None:
    """Write `composition_summary.json` and `steps/<step>/inputs/`. Other runs have neither."""
    with (folder / "manifest.yaml").open("rb") as file:
        if file.read(len(MARK)) != MARK:
            return
    section = json.loads((folder / "manifest.yaml").read_bytes())["composition"]
    events = list(read_events(folder / EVENTS_FILE))
    context = _StoreAndEarlierRuns(folder, store)
    _link_inputs(folder, section, events, context)
    summary = composition_summary(folder.name, section, events, context.previous(), context)
    atomic_write(folder / SUMMARY_FILE, canonical_json(summary) + b"\n", Area.RUN)


class _StoreAndEarlierRuns(SummaryContext):
    """The store, and the summaries of earlier runs."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder, self.store = folder, store
        self._read: dict[str, dict[str, Any] | None] = {}

    def count(self, sha256: str, suffix: str) -> Shape | None:
        from whyrun.actions.data.tables import count_rows_and_columns

        return count_rows_and_columns(Path(self.store.path(sha256)), suffix) if self.store.has(sha256) else None

    def members(self, wide: Mapping[str, Any]) -> list[Any]:
        try:
            return read_long_list(dict(wide), self.store.read)
        except StateError:
            return []  # the blob is lost or damaged; `verify` reports it

    def summary_of(self, run: str) -> dict[str, Any] | None:
        if run not in self._read:
            self._read[run] = self._summary(self.folder.parent / run)
        return self._read[run]

    def previous(self) -> dict[str, Any] | None:
        """The newest summary of an earlier run. It includes what that run reused from even earlier runs."""

        def order(run: Path) -> tuple[int, str]:
            return len(run.name), run.name  # r9999 comes before r10000

        own = order(self.folder)
        runs = sorted((run for run in self.folder.parent.iterdir() if order(run) < own), key=order, reverse=True)
        return next((summary for run in runs if (summary := self._summary(run)) is not None), None)

    def _summary(self, folder: Path) -> dict[str, Any] | None:
        """A damaged summary counts as missing, so that it does not stop later runs. The debug log notes it."""
        try:
            return read_summary(folder)
        except SummaryDamaged as problem:
            disk.append_line(Area.RUN, self.folder / "debug.log", f"composition: {problem}; nothing is taken from it")
            return None


def read_summary(folder: Path) -> dict[str, Any] | None:
    """None if there is none. Raises `SummaryDamaged` if it cannot be read or has another form."""
    try:
        text = (folder / SUMMARY_FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        msgspec.json.decode(text, type=_Summary)
        summary: dict[str, Any] = json.loads(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise SummaryDamaged(f"`{folder.name}/{SUMMARY_FILE}` is damaged: {problem}") from None
    return summary


def why_no_summary(folder: Path) -> tuple[str, str]:
    """For a run without a summary: (why, hint)."""
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
        return f"{folder.name} has not ended: it has no summary yet", hint
    hint = "name a run of a workflow with `composition:`, or of a dataset plan"
    return f"{folder.name} composes no datasets", hint


class SummaryDamaged(ValueError):
    """A summary that cannot be read. Its sources, the events and the manifest, are separate files."""


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
    """The fields that are read from an earlier summary."""

    run: str
    inputs_manifest: list[_Dataset]
    steps: list[_Step]
    decisions: list[_Decision]


def input_links(folder: Path, store: Store) -> Iterator[tuple[Path, str]]:
    """(link, hash) for each file that a step of this ended run read. Other runs are not read."""
    with (folder / "manifest.yaml").open("rb") as file:
        if file.read(len(MARK)) != MARK:
            return
        file.seek(0)
        section = json.loads(file.read())["composition"]
    yield from _input_links(folder, section, read_events(folder / EVENTS_FILE), _StoreAndEarlierRuns(folder, store))


def _input_links(
    folder: Path, section: Mapping[str, Any], events: Iterable[ev.Event], context: _StoreAndEarlierRuns
) -> Iterator[tuple[Path, str]]:
    for event in events:
        if not isinstance(event, ev.StepStart):
            continue
        inputs = folder / "steps" / file_name(event.step_id.removeprefix("Job:")) / "inputs"
        for slot, _, source in given_sources(event.bindings or {}, section, context):
            if source.get("as", "v") != "v":  # skip values
                yield inputs / f"{file_name(slot)}{source['as'][1:]}", source["sha256"]


def link_target(link: Path, blob: str) -> str:
    return os.path.relpath(blob, link.parent)


def _link_inputs(
    folder: Path, section: Mapping[str, Any], events: Iterable[ev.Event], context: _StoreAndEarlierRuns
) -> None:
    """Make the links into the store. Repeating it changes nothing."""
    for link, sha256 in _input_links(folder, section, events, context):
        if link.is_symlink() or not context.store.has(sha256):
            continue  # not in the store: a folder, or lost bytes. The summary has the hash
        disk.make_folders(Area.RUN, link.parent)
        disk.link(Area.RUN, link_target(link, context.store.path(sha256)), link)
