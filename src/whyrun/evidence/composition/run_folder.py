"""Finish a run folder; for a run that composes datasets also its summary and the inputs of each step.

Start with `finish_run`. `status.json` comes last.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from whyrun import disk
from whyrun.artifacts.durable import atomic_write
from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import StateError, WhyrunError
from whyrun.evidence.composition.conditions import ComposedEvents
from whyrun.evidence.composition.summary import (
    SUMMARY_FILE,
    ComposedRun,
    Shape,
    SummaryContext,
    composition_summary,
    given_sources,
)
from whyrun.evidence.run_directory import RunDirectory, SeenEvents
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.log.decoding import read_long_list
from whyrun.log.journal import EVENTS_FILE, read_events
from whyrun.planning.reuse import SHARED

MANIFEST_FILE = "manifest.yaml"
MARK = b'{"composition":'  # the manifest of such a run starts with it: keys are sorted


def finish_run(
    directory: RunDirectory, store: Store, seen: SeenEvents | None = None, *, has_files: bool = False
) -> dict[str, Any]:
    """Complete a run folder from its events and return its status; for a repair the same as for the run itself.

    `seen`: the events, folded while they were written. Without it they are read. `has_files`: `complete_files` was
    called, and no artifact has become available since.
    """
    if seen is None or not has_files:
        seen = directory.complete_files(store, seen)
    complete_composition(directory.path, store)
    return directory.write_status(seen.outcome)


def complete_composition(folder: Path, store: Store) -> None:
    """Write `composition_summary.json` and `steps/<step>/inputs/`. Other runs have neither."""
    if not composes(folder):
        return
    facts = RecordedFacts(folder.parent, store)
    run = facts.run(folder.name)
    if run is None:
        disk.append_line(Area.RUN, folder / "debug.log", f"composition: no summary: {facts.lost[folder.name]}")
        return
    _link_inputs(folder, run.section, facts)
    atomic_write(folder / SUMMARY_FILE, summary_bytes(run, facts), Area.RUN)


def summary_bytes(run: ComposedRun, facts: RecordedFacts) -> bytes:
    """The content of `composition_summary.json`."""
    return canonical_json(composition_summary(run, facts)) + b"\n"


class RecordedFacts(SummaryContext):
    """The facts of record that summaries are made from: manifests and events of runs, and the store.

    `lost`: runs whose facts were asked for and cannot be read, with the reason. `uncounted`: data that could not be
    counted. `unusable`: stored data that must not be read, because its bytes are damaged.
    """

    def __init__(self, runs: Path, store: Store, unusable: Container[str] = ()) -> None:
        self.runs, self.store, self.unusable = runs, store, unusable
        self.lost: dict[str, str] = {}
        self.uncounted: set[str] = set()
        self._runs: dict[str, ComposedRun | None] = {}
        self._counts: dict[tuple[str, str], Shape | None] = {}

    def count(self, sha256: str, suffix: str) -> Shape | None:
        from whyrun.actions.data.tables import count_rows_and_columns

        key = sha256, suffix
        if key not in self._counts:
            usable = self.store.has(sha256) and sha256 not in self.unusable
            self._counts[key] = count_rows_and_columns(Path(self.store.path(sha256)), suffix) if usable else None
        if self._counts[key] is None:
            self.uncounted.add(sha256)
        return self._counts[key]

    def members(self, wide: Mapping[str, Any]) -> list[Any]:
        try:
            return read_long_list(dict(wide), self.store.read)
        except StateError:
            return []  # the blob is lost or damaged; `verify` reports it

    def run(self, name: str) -> ComposedRun | None:
        if name not in self._runs:
            self._runs[name] = None
            if name != SHARED:
                try:
                    self._runs[name] = self._read(name)
                except (OSError, ValueError, KeyError, WhyrunError) as problem:
                    self.lost[name] = str(problem)
        return self._runs[name]

    def _read(self, name: str) -> ComposedRun | None:
        manifest = (self.runs / name / MANIFEST_FILE).read_bytes()
        seen = ComposedEvents()
        for event in read_events(self.runs / name / EVENTS_FILE):
            seen.add(event)
            if isinstance(event, ev.ManifestMaterialized) and event.sha256 != bytes_sha256(manifest):
                raise ValueError(f"`{name}/{MANIFEST_FILE}` is not the file that the log names")
        section = json.loads(manifest).get("composition")
        return ComposedRun(name, section, seen) if section is not None else None

    def runs_between(self, first: str, last: str) -> list[str]:
        def order(run: str) -> tuple[int, str]:
            return len(run), run  # r9999 comes before r10000

        names = (run.name for run in self.runs.iterdir())
        return sorted((name for name in names if order(first) < order(name) < order(last)), key=order, reverse=True)


def composes(folder: Path) -> bool:
    """Whether the manifest of a run is of one that composes datasets. Reads only its first bytes."""
    with (folder / MANIFEST_FILE).open("rb") as file:
        return file.read(len(MARK)) == MARK


def input_links(folder: Path, store: Store) -> Iterator[tuple[Path, str]]:
    """(link, hash) for each file that a step of this ended run read. Other runs are not read."""
    if composes(folder):
        section = json.loads((folder / MANIFEST_FILE).read_bytes())["composition"]
        yield from _input_links(folder, section, RecordedFacts(folder.parent, store))


def _input_links(folder: Path, section: Mapping[str, Any], facts: RecordedFacts) -> Iterator[tuple[Path, str]]:
    for event in read_events(folder / EVENTS_FILE):
        if not isinstance(event, ev.StepStart):
            continue
        inputs = folder / "steps" / file_name(event.step_id.removeprefix("Job:")) / "inputs"
        for slot, _, source in given_sources(event.bindings or {}, section, facts):
            if source.get("as", "v") != "v":  # skip values
                yield inputs / f"{file_name(slot)}{source['as'][1:]}", source["sha256"]


def link_target(link: Path, blob: str) -> str:
    return os.path.relpath(blob, link.parent)


def _link_inputs(folder: Path, section: Mapping[str, Any], facts: RecordedFacts) -> None:
    """Make the links into the store. Repeating it changes nothing."""
    for link, sha256 in _input_links(folder, section, facts):
        if link.is_symlink() or not facts.store.has(sha256):
            continue  # not in the store: a folder, or lost bytes. The summary has the hash
        disk.make_folders(Area.RUN, link.parent)
        disk.link(Area.RUN, link_target(link, facts.store.path(sha256)), link)
