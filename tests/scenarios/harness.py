"""A scenario: a folder with a project, a log and what must be planned from them.

    workflow.yaml, input files, code     the project as it is now
    runs/r0001/events.jsonl …            the log
    blobs/                               the long lists that the log refers to
    scenario.json                        why it is here, and the options of the plan
    plan.json explain.txt explain.json   what is expected; `pytest --update-scenarios` rewrites them

Nothing is looked for on disk but these: the observer says that every artifact is still there, unless a test says
otherwise. So a scenario is planned from its log alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from whyrun.log import events as ev
from whyrun.log.journal import FIRST_CHAIN, Journal, read_events
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.project import Project
from whyrun.snapshot.build import build_planning_snapshot
from whyrun.snapshot.snapshot import BlobCheck, PlanningSnapshot

FOLDER = Path(__file__).parent
EXPECTED = ("plan.json", "explain.txt", "explain.json")
NOT_PROJECT = ("runs", "blobs", "scenario.json", *EXPECTED)


def names() -> list[str]:
    return sorted(path.parent.name for path in FOLDER.glob("*/scenario.json"))


class Seen:
    """An observer that has only these deviations to report."""

    counts_packages = False

    def __init__(self, files: Mapping[str, str], lost: Iterable[str]) -> None:
        self.files, self.lost = dict(files), set(lost)

    def changed_files(self, paths: Sequence[str], sha256s: Sequence[str]) -> Mapping[str, str]:
        return {path: self.files[path] for path in paths if path in self.files}

    def lost_blobs(self, checks: Sequence[BlobCheck]) -> Iterable[str]:
        return [check.key for check in checks if check.sha256 in self.lost]


class Scenario:
    """A copy of a scenario's folder that a test may change."""

    def __init__(self, name: str, root: Path) -> None:
        self.name, self.root = name, root
        self.source = FOLDER / name
        self.facts: dict[str, Any] = json.loads((self.source / "scenario.json").read_bytes())
        self.files: dict[str, str] = {}
        self.lost: set[str] = set()
        self.sets: list[str] = []

    @classmethod
    def load(cls, name: str, root: Path) -> Scenario:
        """The project, without its log: nothing ran yet."""
        found = cls(name, root)
        shutil.copytree(found.source, root, ignore=lambda folder, entries: set(entries) & set(NOT_PROJECT))
        return found

    @property
    def state(self) -> Path:
        return self.root / ".whyrun"

    # -- the story --

    def after_success(self) -> Scenario:
        """With the log of the folder."""
        return self.with_log()

    def with_log(self) -> Scenario:
        opened = Project.open(self.root / "workflow.yaml")
        if (self.source / "runs").is_dir():  # git keeps no empty folder
            shutil.copytree(self.source / "runs", opened.state.runs_dir)
        for blob in (self.source / "blobs").glob("*"):
            opened.store.put_bytes(blob.read_bytes())
        return self

    def with_changed(self, id_: str, value: str | None = None) -> Scenario:
        """The content of a file input (or of one element) edited, or another value given."""
        opened = Project.open(self.root / "workflow.yaml", sets=self.sets)
        if value is not None:
            self.sets.append(f"{id_.removeprefix('Input:')}={value}")
            return self
        name, _, rest = id_.partition("[")
        found = opened.inputs[name]
        if rest:
            assert found.elements is not None
            found = found.elements[int(rest.removesuffix("]"))]
        assert found.path is not None
        path = self.root / found.path
        path.write_bytes(path.read_bytes() + b", changed")
        return self

    def with_edit(self, name: str, old: str, new: str) -> Scenario:
        path = self.root / name
        text = path.read_text()
        assert text.count(old) == 1, (old, text.count(old))
        path.write_text(text.replace(old, new))
        return self

    def with_published(self, path: str, change: str) -> Scenario:
        """The published file was `deleted` or `changed`."""
        self.files[path] = change
        return self

    def with_lost(self, sha256: str) -> Scenario:
        self.lost.add(sha256)
        return self

    # -- the answers --

    @property
    def opened(self) -> Project:
        return Project.open(self.root / "workflow.yaml", sets=self.sets, state=str(self.state))

    def snapshot(self) -> PlanningSnapshot:
        opened = self.opened
        return build_planning_snapshot(opened.graph, opened.history(), Seen(self.files, self.lost), opened.actions)

    def plan(self, **options: Any) -> Plan:
        return compute_execution_plan(self.snapshot(), plan_options(options))


def plan_options(options: Mapping[str, Any]) -> PlanOptions:
    return PlanOptions(options.get("up"), tuple(options.get("targets", ())), tuple(options.get("force", ())))


# --- logs --------------------------------------------------------------------------------------------------------


def read_logs(runs: Path) -> dict[str, list[ev.AnyEvent]]:
    return {folder.name: list(read_events(folder / "events.jsonl", folder.name)) for folder in sorted(runs.glob("r*"))}


def write_logs(runs: Path, logs: Mapping[str, Sequence[ev.AnyEvent]], *, keep_times: bool = True) -> None:
    """Events as logs again: numbered and chained anew, by the real journal."""
    import msgspec

    from whyrun.log.journal import utc_now

    chain = FIRST_CHAIN
    for name, events in logs.items():
        folder = runs / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "events.jsonl").unlink(missing_ok=True)
        if not any(isinstance(event, ev.RunComplete) for event in events):
            (folder / "status.json").unlink(missing_ok=True)  # a run that was killed has none
        journal = Journal.create(folder, name, chain, utc_now)
        for number, event in enumerate(events):
            fixed = f"2026-01-01T00:{int(name[1:]):02d}:{number // 50:02d}.{number % 50:02d}0000Z"
            ts = event.ts if keep_times else fixed
            if isinstance(event, ev.RunStart):
                event = msgspec.structs.replace(event, previous_chain=chain)
            journal.append(msgspec.structs.replace(event, seq=0, ts="", session="", chain=""), ts)
        journal.sync()
        chain = journal.chain
        journal.close()
