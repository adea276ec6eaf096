"""The folder of one run: which files must stand in it after any run, and how it is completed.

`create_run` makes it with the files that only the host of the run can know (`manifest.yaml`, `plan.json`, `source/`);
the run adds `cfg/`, commands, metrics and logs; `finish` folds the rest from the events, so that the repair of a killed
run writes the same as the run itself would have written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import atomic_write, clear_up, temp_name
from whyrun.artifacts.hashing import Tree, canonical_json
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError
from whyrun.evidence.composed_run import complete_composition
from whyrun.evidence.status import status_of
from whyrun.ids import file_name, output_of
from whyrun.log import events as ev
from whyrun.log.journal import EVENTS_FILE, read_events
from whyrun.log.outcomes import RunOutcome
from whyrun.log.runs import RunRef

# Made empty if nothing was written to them.
_MAY_BE_EMPTY = ("metrics.jsonl", "commands.jsonl", "whyrun.log", "debug.log")
FEW = 1000  # steps: below, a second thread is not worth starting
_SUFFIX_OF_TYPE = {"json": ".json", "text": ".txt"}
_encode_lines = msgspec.json.Encoder().encode_lines


class Metric(msgspec.Struct, frozen=True):
    """A line of `metrics.jsonl`."""

    ts: str
    session: str
    metric: str
    value: float
    unit: str
    step_id: str


class RunDirectory:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.events = self.path / EVENTS_FILE
        self.metrics = self.path / "metrics.jsonl"
        self.status = self.path / "status.json"
        self.manifest = self.path / "manifest.yaml"
        self.plan = self.path / "plan.json"
        self.commands = self.path / "commands.jsonl"
        self.log = self.path / "whyrun.log"
        self.debug_log = self.path / "debug.log"
        self.source = self.path / "source"
        self.cfg = self.path / "cfg"
        self.steps = self.path / "steps"
        self.artifacts = self.path / "artifacts"
        self._root = f"{self.path}/"
        self._cfg_made = False

    # --- while it runs -------------------------------------------------------------------------------------------

    def write_cfg(self, step_path: str, data: bytes) -> str:
        """Write what a step is started with (`step_path`: its ID without the kind); the path within the run folder."""
        if not self._cfg_made:
            disk.make_folders(Area.CFG, self.cfg)
            self._cfg_made = True
        relative = f"cfg/{file_name(step_path)}.json"
        path = f"{self._root}{relative}"
        try:
            descriptor = disk.open(Area.CFG, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            # Of an earlier attempt. The log has its hash: the same bytes are not written over, or a power cut could
            # take what was there for certain.
            with open(path, "rb") as file:
                if file.read() == data:
                    return relative
            descriptor = disk.open(Area.CFG, path, os.O_WRONLY | os.O_TRUNC)
        try:
            disk.write(Area.CFG, descriptor, data)
        finally:
            os.close(descriptor)
        return relative

    def step_dir(self, step_path: str) -> Path:
        """`steps/<step>/`; not created, because empty folders are not made."""
        return self.steps / file_name(step_path)

    def append_commands(self, commands: Iterable[Any]) -> None:
        """Add commands to `commands.jsonl`, in one write."""
        _append(self.commands, _encode_lines(commands))

    def append_metrics(self, metrics: Iterable[Metric]) -> None:
        _append(self.metrics, _encode_lines(metrics))

    # --- at the end ----------------------------------------------------------------------------------------------

    def finish(self, store: Store, seen: SeenEvents | None = None) -> dict[str, Any]:
        """Complete the folder from its events and return the status. `status.json` comes last: where it is, all is.

        `seen`: the events, folded while they were written; without it they are read.
        """
        if seen is None:
            seen = SeenEvents()
            for event in read_events(self.events):
                seen.add(event)
            self._remove_unborne(seen)
        self._ensure_files(seen.outcome)
        self.link_artifacts(store, seen.artifacts())
        complete_composition(self.path, store)
        status = status_of(seen.outcome)
        disk.sync_filesystem(Area.RUN, self.path)
        atomic_write(self.status, canonical_json(status) + b"\n", Area.STATUS, sync=True)
        return status

    def _remove_unborne(self, seen: SeenEvents) -> None:
        """Of a run that ended without a word: lines that a power cut tore, and links of steps whose events it took."""
        for path in (self.commands, self.metrics):
            data = path.read_bytes() if path.exists() else b""
            if b"\0" in data or data[-1:] not in (b"\n", b""):
                whole = [line for line in data.split(b"\n")[:-1] if line and b"\0" not in line]
                atomic_write(path, b"".join(line + b"\n" for line in whole), Area.RUN)
        succeeded = {file_name(artifact.step_path) for artifact in seen.artifacts()}
        for name in os.listdir(self.artifacts) if self.artifacts.exists() else ():
            if name not in succeeded:
                disk.remove(Area.ARTIFACT_LINK, self.artifacts / name)

    def missing_files(self, mode: str = "run") -> list[str]:
        """Which of the files that must exist do not. What stands under the name of a log must be a file."""
        names = [EVENTS_FILE, *_MAY_BE_EMPTY, "status.json", "manifest.yaml", "source"]
        if mode == "run":
            names.append("plan.json")
        return sorted(name for name in names if not self._is_there(name))

    def _is_there(self, name: str) -> bool:
        place = self.path / name
        if name in _MAY_BE_EMPTY:
            return place.is_file()
        return place.is_dir() if name == "source" else place.exists()

    def _ensure_files(self, outcome: RunOutcome) -> None:
        for entry in self.path.glob(".tmp-*"):
            disk.unlink(Area.RUN, entry)  # a completion was killed between writing a file and giving it its name
        for name in _MAY_BE_EMPTY:
            os.close(disk.open(Area.RUN, self.path / name, os.O_WRONLY | os.O_CREAT))
        disk.make_folders(Area.RUN, self.source)
        # `create_run` was given these. Where they are gone all the same, the files say so; nothing is made up.
        if not self.manifest.exists():
            atomic_write(self.manifest, canonical_json({"lost": "this run has no manifest"}) + b"\n", Area.RUN)
        if outcome.start is not None and outcome.start.mode == "run" and not self.plan.exists():
            atomic_write(self.plan, canonical_json({"lost": "this run has no stored plan"}) + b"\n", Area.RUN)

    def link_artifacts(self, store: Store, artifacts: Iterable[Artifact]) -> None:
        """`artifacts/<step>/<output>`: relative links into the store; a folder is a folder of links.

        By two threads, where there are many: it is all waiting for the file system.
        """
        by_step: dict[str, list[Artifact]] = {}
        for artifact in artifacts:
            by_step.setdefault(artifact.step_path, []).append(artifact)
        steps = list(by_step.values())
        if len(steps) < FEW:
            self.link_steps(store, steps)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(2) as pool:
            for half in [pool.submit(self.link_steps, store, steps[start::2]) for start in range(2)]:
                half.result()

    def link_steps(self, store: Store, steps: EndedSteps) -> None:
        """Also while a run goes on (`links.py`): so a long one has little left to do at its end."""
        up = self.way_to(store)
        made: set[str] = set()
        for artifact in (artifact for step in steps for artifact in step):
            folder = f"{self.artifacts}/{file_name(artifact.step_path)}"
            if folder not in made:
                disk.make_folders(Area.ARTIFACT_LINK, folder)
                made.add(folder)
            # Bytes that are lost or damaged are for `verify` to tell; then a single link shows which they were.
            tree = stored_tree(artifact, store)
            if tree is not None:
                self._make_tree(f"{folder}/{file_name(artifact.name)}", tree)
            for place, target in self.links_of(artifact, tree, up):
                _link(target, place, self.path)

    def way_to(self, store: Store) -> str:
        """From the folder of a step's links to the store."""
        return os.path.relpath(os.path.abspath(store.root), os.path.abspath(self.artifacts / "step"))

    def links_of(self, artifact: Artifact, tree: Tree | None, up: str) -> Iterator[tuple[str, str]]:
        """Where the links of an artifact stand, and where they lead; `tree`: what is in it, if it is a folder."""
        place = f"{self.artifacts}/{file_name(artifact.step_path)}/{file_name(artifact.name)}"
        if tree is None:
            yield place, _blob(up, artifact.sha256)
            return
        for file in tree.files:
            yield f"{place}/{file.path}", "../" * (file.path.count("/") + 1) + _blob(up, file.sha256)

    def _make_tree(self, place: str, tree: Tree) -> None:
        for folder in {"", *tree.empty_dirs, *(os.path.dirname(file.path) for file in tree.files)}:
            disk.make_folders(Area.ARTIFACT_LINK, os.path.join(place, folder))


class Artifact(msgspec.Struct, frozen=True):
    step_path: str
    name: str  # the output with its suffix
    sha256: str
    type: str


EndedSteps = list[list[Artifact]]  # the artifacts of steps that succeeded
_OF_ARTIFACTS = (ev.ArtifactAvailable, ev.ArtifactAdopted)


class SeenEvents:
    """What the evidence at the end needs of a run's events, folded one by one."""

    def __init__(self) -> None:
        self.outcome = RunOutcome()
        self._by_step: dict[str, dict[str, Artifact]] = {}
        self._ended: list[str] = []  # steps that succeeded

    def add(self, event: ev.Event) -> None:
        self.outcome.add(event)
        if isinstance(event, ev.StepStart):
            self._by_step.pop(event.step_id, None)  # a new attempt starts afresh
        elif isinstance(event, ev.StepComplete):
            self._ended.append(event.step_id)
        elif isinstance(event, _OF_ARTIFACTS):
            artifact = linked_artifact(event)
            if artifact is not None:
                self._by_step.setdefault(event.step_id, {})[artifact.name] = artifact

    @property
    def ended(self) -> int:
        """How many steps are complete and were not taken yet."""
        return len(self._ended)

    def take_ended(self) -> EndedSteps:
        """By step: those of steps that are complete. They are forgotten here."""
        ended, self._ended = self._ended, []
        return [list(self._by_step.pop(step, {}).values()) for step in ended]

    def artifacts(self) -> Iterator[Artifact]:
        """Those of steps that succeeded and were not taken yet: what a failed attempt left is not an output."""
        for step, artifacts in self._by_step.items():
            if self.outcome.steps.get(step) in ("completed", "skipped"):
                yield from artifacts.values()


def linked_artifact(event: ev.ArtifactAvailable | ev.ArtifactAdopted) -> Artifact | None:
    """What the run folder links to; None for a leaf, which is a value within the file of its output."""
    output = output_of(event.artifact)
    if output is None:
        return None
    # What was not published (a comparison) has a suffix all the same; a section has a mark instead of one.
    own = event.suffix if len(event.suffix) > 1 and event.type != "directory" else ""
    name = output + (suffix_of(event.type, event.path) or own)
    return Artifact(event.step_id.removeprefix("Job:"), name, event.sha256, event.type)


def stored_tree(artifact: Artifact, store: Store) -> Tree | None:
    """What is in a folder; None for a file, and where that cannot be read."""
    if artifact.type != "directory":
        return None
    try:
        return store.read_tree(artifact.sha256)
    except WhyrunError:
        return None


def suffix_of(type: str, path: str | None) -> str:
    """The suffix under which an output stands in the run folder."""
    if type == "directory":
        return ""
    if path is None:
        return _SUFFIX_OF_TYPE.get(type, "")
    name = path[path.rfind("/") + 1 :]
    dot = name.rfind(".")
    return name[dot:] if 0 < dot < len(name) - 1 else ""  # as `PurePosixPath` has it, which takes twenty times as long


def source_files(sources: Mapping[str, str | bytes]) -> dict[str, bytes]:
    """`source/<name>` → bytes. A path that leaves the project is flattened, so that nothing is written elsewhere."""
    files: dict[str, bytes] = {}
    for name, data in sources.items():
        parts = [part for part in PurePosixPath(name).parts if part not in ("/", ".")]
        relative = "/".join(parts) if ".." not in parts and not name.startswith("/") else file_name(name)
        files[f"source/{relative}"] = data.encode() if isinstance(data, str) else data
    return files


def complete_run(run: RunRef, store: Store) -> None:
    """For `repair`: write what the folder of a killed run lacks."""
    RunDirectory(run.path).finish(store)


def _append(path: Path, lines: bytes) -> None:
    if not lines:
        return
    descriptor = disk.open(Area.RUN, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        before = os.fstat(descriptor).st_size
        try:
            disk.write(Area.RUN, descriptor, lines)
        except OSError as failed:
            clear_up(failed, lambda: disk.cut(Area.RUN, descriptor, before))  # a full disk may take half of a line
            raise
    finally:
        os.close(descriptor)


def _blob(up: str, sha256: str) -> str:
    return f"{up}/{sha256[:2]}/{sha256[2:]}"


def _link(target: str, place: str, run: Path) -> None:
    """A link that may be there already, from a completion that was killed."""
    try:
        disk.link(Area.ARTIFACT_LINK, target, place)
    except FileExistsError:
        if os.path.islink(place) and os.readlink(place) == target:
            return
        temp = f"{run}/.{temp_name()}"  # where the next completion clears up, should this be killed
        disk.link(Area.ARTIFACT_LINK, target, temp)
        disk.rename(Area.ARTIFACT_LINK, temp, place)
