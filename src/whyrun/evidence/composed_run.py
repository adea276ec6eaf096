"""The folder of a run that composes datasets: its summary, and what each of its steps was given."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from whyrun.artifacts.durable import atomic_write
from whyrun.artifacts.hashing import canonical_json
from whyrun.artifacts.store import Store
from whyrun.evidence.composition import SUMMARY_FILE, Shape, composition_summary
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.log.journal import EVENTS_FILE, read_events

MARK = b'{"composition":'  # how the manifest of such a run begins: its keys are sorted


def complete_composition(folder: Path, store: Store) -> None:
    """Write `composition_summary.json` and `steps/<step>/inputs/`; for a repair the same as for the run itself."""
    with (folder / "manifest.yaml").open("rb") as file:
        if file.read(len(MARK)) != MARK:
            return
    section = json.loads((folder / "manifest.yaml").read_bytes())["composition"]
    events = list(read_events(folder / EVENTS_FILE))
    _link_inputs(folder, store, events)

    def count(sha256: str, suffix: str) -> Shape | None:
        from whyrun.actions.builtin.data.counting import counted_shape

        return counted_shape(Path(store.path(sha256)), suffix) if store.has(sha256) else None

    summary = composition_summary(folder.name, section, events, _previous(folder), count)
    atomic_write(folder / SUMMARY_FILE, canonical_json(summary) + b"\n")


def read_summary(folder: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((folder / SUMMARY_FILE).read_bytes())
    except FileNotFoundError:
        return None
    return found


def _previous(folder: Path) -> dict[str, Any] | None:
    """The newest summary of the runs before: it has what it took over from those before it."""
    earlier = sorted((run for run in folder.parent.iterdir() if run.name < folder.name), reverse=True)
    return next((found for run in earlier if (found := read_summary(run)) is not None), None)


def _link_inputs(folder: Path, store: Store, events: Iterable[ev.Event]) -> None:
    """What each step read, under its own name, as links into the store: the same every time."""
    for event in events:
        if not isinstance(event, ev.StepStart):
            continue
        place = folder / "steps" / file_name(event.step_id.removeprefix("Job:")) / "inputs"
        for name, source in _files(event.bindings or {}):
            blob = Path(store.path(source["sha256"]))
            if not blob.exists():
                continue  # a folder, or bytes that are lost: the summary has the hash
            place.mkdir(parents=True, exist_ok=True)
            link = place / f"{file_name(name)}{source['as'][1:]}"
            if not link.is_symlink():
                link.symlink_to(os.path.relpath(blob, place))


def _files(bindings: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for name, sources in bindings.items():
        many = isinstance(sources, list) and len(sources) > 1
        for number, source in enumerate(sources if isinstance(sources, list) else ()):
            if source.get("as", "v")[0] not in "va":
                yield f"{name}[{number}]" if many else name, source
