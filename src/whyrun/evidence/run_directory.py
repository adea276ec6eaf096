"""The layout of a run folder: file names, the files that a run adds, and the links to its artifacts.

`create_run` makes the folder with the files that only the host knows (`manifest.yaml`, `plan.json`, `source/`). The run
adds `cfg/`, commands, metrics and logs. `finish_run` (see `composition/run_folder.py`) completes it from the events
alone, so the repair of a killed run writes the same files as the run would have written.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import atomic_write, clear_up, temp_name
from whyrun.artifacts.hashing import Tree, canonical_json
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError
from whyrun.ids import file_name, output_of, parse_id, whole_of
from whyrun.log import events as ev
from whyrun.log.journal import EVENTS_FILE, STAGES_FILE, read_events
from whyrun.log.outcomes import RunOutcome, status_of
from whyrun.log.runs import RunRef
from whyrun.planning.plan import Plan, written_digest
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.arrays import Element, published_name

# Created empty if nothing was written to them.
_MAY_BE_EMPTY = ("metrics.jsonl", "commands.jsonl", "whyrun.log", "debug.log")
FEW = 1000  # steps; with fewer, a second thread does not pay
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
        self.stages = self.path / STAGES_FILE
        self.commands = self.path / "commands.jsonl"
        self.log = self.path / "whyrun.log"
        self.debug_log = self.path / "debug.log"
        self.source = self.path / "source"
        self.cfg = self.path / "cfg"
        self.steps = self.path / "steps"
        self.artifacts = self.path / "artifacts"
        self._root = f"{self.path}/"
        self._cfg_made = False
        self._torn: dict[Path, int] = {}  # file with half a line at its end → where that begins

    # --- while it runs -------------------------------------------------------------------------------------------

    def write_cfg(self, step_path: str, data: bytes) -> str:
        """Write the configuration of a step; return its path in the run folder. `step_path`: its ID without `Job:`."""
        if not self._cfg_made:
            disk.make_folders(Area.CFG, self.cfg)
            self._cfg_made = True
        relative = f"cfg/{file_name(step_path)}.json"
        path = f"{self._root}{relative}"
        try:
            descriptor = disk.open(Area.CFG, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            # From an earlier attempt. The log has its hash. Rewriting the same bytes could lose them in a power cut.
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
        """`steps/<step>/`; not created, because run folders have no empty folders."""
        return self.steps / file_name(step_path)

    def append_commands(self, commands: Iterable[Any]) -> None:
        """Append to `commands.jsonl` in one write."""
        self._append(self.commands, _encode_lines(commands))

    def append_stage(self, plan: bytes) -> None:
        """Append to `stages.jsonl` the plan of a stage: one line."""
        self._append(self.stages, plan)

    def plan_digests(self) -> list[str]:
        """Of the plan and of its stages, as the log has them."""
        found: list[str] = []
        for event in read_events(self.events):
            if isinstance(event, ev.PlanComputed):
                found.append(event.plan_sha256)
                if not self.stages.exists():
                    break  # the rest of the log may be long
        return found

    def stage_plans(self, digests: Collection[str]) -> list[dict[str, Any]]:
        """The plans of the stages that the log names with these digests: a changed file says nothing."""
        if not digests or not self.stages.exists():
            return []
        plans = []
        for line in self.stages.read_bytes().splitlines():
            with suppress(ValueError):
                plan = msgspec.json.decode(line, type=dict[str, Any])
                if plan.get("digest") == written_digest(plan) and plan["digest"].removeprefix("sha256:") in digests:
                    plans.append(plan)
        return plans

    def append_metrics(self, metrics: Iterable[Metric]) -> None:
        self._append(self.metrics, _encode_lines(metrics))

    def _append(self, path: Path, lines: bytes) -> None:
        if not lines:
            return
        descriptor = disk.open(Area.RUN, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            if path in self._torn:
                self._remove_torn(path, descriptor)
            before = os.fstat(descriptor).st_size
            try:
                disk.write(Area.RUN, descriptor, lines)
            except OSError as failed:
                self._torn[path] = before  # a full disk may take half a line, and may not allow to remove it now
                clear_up(failed, lambda: self._remove_torn(path, descriptor))
                raise
        finally:
            os.close(descriptor)

    def _remove_torn(self, path: Path, descriptor: int) -> None:
        disk.cut(Area.RUN, descriptor, self._torn[path])
        del self._torn[path]

    # --- at the end ----------------------------------------------------------------------------------------------

    def complete_files(self, store: Store, seen: SeenEvents | None = None) -> SeenEvents:
        """Write what a run folder lacks except `status.json`: empty logs, `source/`, the artifact links.

        `seen`: the events, folded while they were written. Without it they are read, and torn lines are removed.
        """
        if seen is None:
            seen = SeenEvents()
            for event in read_events(self.events):
                seen.add(event)
            self._remove_torn_evidence(seen)
        self._ensure_files(seen.outcome)
        self.link_artifacts(store, seen.artifacts())
        return seen

    def write_status(self, outcome: RunOutcome) -> dict[str, Any]:
        """Write `status.json`. It comes last: where it exists, the folder is complete, also after a power cut."""
        status = status_of(outcome)
        disk.sync_filesystem(Area.RUN, self.path)
        atomic_write(self.status, canonical_json(status) + b"\n", Area.STATUS, sync=True)
        return status

    def _remove_torn_evidence(self, seen: SeenEvents) -> None:
        """After a kill: remove half-written lines, and links of steps whose events a power cut took."""
        for path in (self.commands, self.metrics, self.stages):
            data = path.read_bytes() if path.exists() else b""
            if b"\0" in data or data[-1:] not in (b"\n", b""):
                complete = [line for line in data.split(b"\n")[:-1] if line and b"\0" not in line]
                atomic_write(path, b"".join(line + b"\n" for line in complete), Area.RUN)
        succeeded = {file_name(artifact.step_path) for artifact in seen.artifacts()}
        for name in os.listdir(self.artifacts) if self.artifacts.exists() else ():
            if name not in succeeded:
                disk.remove(Area.ARTIFACT_LINK, self.artifacts / name)

    def missing_files(self, mode: str = "run") -> list[str]:
        """Which of the required files are missing, or are not files."""
        names = [EVENTS_FILE, *_MAY_BE_EMPTY, "status.json", "manifest.yaml", "source"]
        if mode == "run":
            names.append("plan.json")
        return sorted(name for name in names if not self._exists(name))

    def _exists(self, name: str) -> bool:
        path = self.path / name
        if name in _MAY_BE_EMPTY:
            return path.is_file()
        return path.is_dir() if name == "source" else path.exists()

    def _ensure_files(self, outcome: RunOutcome) -> None:
        for entry in self.path.glob(".tmp-*"):
            disk.unlink(Area.RUN, entry)  # left by a completion that was killed before a rename
        for name in _MAY_BE_EMPTY:
            os.close(disk.open(Area.RUN, self.path / name, os.O_WRONLY | os.O_CREAT))
        disk.make_folders(Area.RUN, self.source)
        # `create_run` wrote these two. If they are lost, the new files say so instead of making something up.
        if not self.manifest.exists():
            atomic_write(self.manifest, canonical_json({"lost": "this run has no manifest"}) + b"\n", Area.RUN)
        if outcome.start is not None and outcome.start.mode == "run" and not self.plan.exists():
            atomic_write(self.plan, canonical_json({"lost": "this run has no stored plan"}) + b"\n", Area.RUN)

    def link_artifacts(self, store: Store, artifacts: Iterable[Artifact]) -> None:
        """Make `artifacts/<step>/<output>`: relative links into the store. A folder artifact becomes a folder of links.

        Many steps are linked by two threads, because almost all of the time is waiting for the file system.
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
        """Link the artifacts of these steps. Long runs do this while they go on: see `artifact_links.py`."""
        up = self.relative_store(store)
        made: set[str] = set()
        for artifact in (artifact for step in steps for artifact in step):
            folder = f"{self.artifacts}/{file_name(artifact.step_path)}"
            if folder not in made:
                disk.make_folders(Area.ARTIFACT_LINK, folder)
                made.add(folder)
            # `verify` reports lost or damaged bytes. A folder without a readable manifest gets one link with its hash.
            tree = stored_tree(artifact, store)
            if tree is not None:
                self._make_tree(f"{folder}/{file_name(artifact.name)}", tree)
            for path, target in self.links_of(artifact, tree, up):
                _link(target, path, self.path)

    def relative_store(self, store: Store) -> str:
        """The path of the store relative to `artifacts/<step>/`."""
        return os.path.relpath(os.path.abspath(store.root), os.path.abspath(self.artifacts / "step"))

    def links_of(self, artifact: Artifact, tree: Tree | None, up: str) -> Iterator[tuple[str, str]]:
        """(path, target) of each link of an artifact. `tree`: the files of a folder. `up`: see `relative_store`."""
        path = f"{self.artifacts}/{file_name(artifact.step_path)}/{file_name(artifact.name)}"
        if tree is None:
            yield path, _blob(up, artifact.sha256)
            return
        for file in tree.files:
            yield f"{path}/{file.path}", "../" * (file.path.count("/") + 1) + _blob(up, file.sha256)

    def _make_tree(self, top: str, tree: Tree) -> None:
        for folder in {"", *tree.empty_dirs, *(os.path.dirname(file.path) for file in tree.files)}:
            disk.make_folders(Area.ARTIFACT_LINK, os.path.join(top, folder))


class Artifact(msgspec.Struct, frozen=True):
    step_path: str
    name: str  # the output with its suffix
    sha256: str
    type: str


EndedSteps = list[list[Artifact]]  # the artifacts of each step that succeeded
_ARTIFACT_EVENTS = (ev.ArtifactAvailable, ev.ArtifactAdopted)


class SeenEvents:
    """A fold of the events of a run: its outcome, and the artifacts that still need links."""

    def __init__(self) -> None:
        self.outcome = RunOutcome()
        self._by_step: dict[str, dict[str, Artifact]] = {}
        self._ended: list[str] = []  # steps that succeeded

    def add(self, event: ev.Event) -> None:
        self.outcome.add(event)
        if isinstance(event, ev.StepStart):
            self._by_step.pop(event.step_id, None)  # a new attempt starts from nothing
        elif isinstance(event, ev.StepComplete):
            self._ended.append(event.step_id)
        elif isinstance(event, _ARTIFACT_EVENTS):
            artifact = linked_artifact(event)
            if artifact is not None:
                self._by_step.setdefault(event.step_id, {})[artifact.name] = artifact

    @property
    def ended(self) -> int:
        """The number of complete steps that `take_ended` has not returned yet."""
        return len(self._ended)

    def take_ended(self) -> EndedSteps:
        """The artifacts of each complete step; they are removed from this fold."""
        ended, self._ended = self._ended, []
        return [list(self._by_step.pop(step, {}).values()) for step in ended]

    def artifacts(self) -> Iterator[Artifact]:
        """Artifacts of successful steps that `take_ended` has not returned. Failed attempts have no outputs."""
        for step, artifacts in self._by_step.items():
            if self.outcome.steps.get(step) in ("completed", "skipped"):
                yield from artifacts.values()


def linked_artifact(event: ev.ArtifactAvailable | ev.ArtifactAdopted) -> Artifact | None:
    """The artifact as the run folder links to it; None for a leaf, which is a value inside its output's file."""
    output = output_of(event.artifact)
    if output is None:
        return None
    # Unpublished outputs (of a comparison) also have a suffix. A section has a one-character mark instead.
    own = event.suffix if len(event.suffix) > 1 and event.type != "directory" else ""
    key = parse_id(event.artifact).segments[1].indices[-1:] if whole_of(event.step_id, event.artifact) is None else ()
    if key:  # an element of an array: a file in a folder. Without an index, the artifact is not of this step: a forgery
        file = (event.path or "").rpartition("/")[2]
        name = f"{output}/{file or published_name(Element(key[0], '', 0, own), 'file[]')}"
    else:
        name = output + (suffix_of(event.type, event.path) or own or (".json" if event.type.endswith("[]") else ""))
    return Artifact(event.step_id.removeprefix("Job:"), name, event.sha256, event.type)


def stored_tree(artifact: Artifact, store: Store) -> Tree | None:
    """The files of a folder artifact; None for a file, and for a manifest that cannot be read."""
    if artifact.type != "directory":
        return None
    try:
        return store.read_tree(artifact.sha256)
    except WhyrunError:
        return None


def suffix_of(type: str, path: str | None) -> str:
    """The suffix of an output in the run folder."""
    if type == "directory":
        return ""
    if path is None:
        return _SUFFIX_OF_TYPE.get(type, "")
    name = path[path.rfind("/") + 1 :]
    dot = name.rfind(".")
    return name[dot:] if 0 < dot < len(name) - 1 else ""  # as `PurePosixPath.suffix`, but 20 times faster


def source_files(sources: Mapping[str, str | bytes]) -> dict[str, bytes]:
    """`source/<name>` → bytes. A path outside the project is flattened, so that it stays in the run folder."""
    files: dict[str, bytes] = {}
    for name, data in sources.items():
        parts = [part for part in PurePosixPath(name).parts if part not in ("/", ".")]
        relative = "/".join(parts) if ".." not in parts and not name.startswith("/") else file_name(name)
        files[f"source/{relative}"] = data.encode() if isinstance(data, str) else data
    return files


def _blob(up: str, sha256: str) -> str:
    return f"{up}/{sha256[:2]}/{sha256[2:]}"


def _link(target: str, path: str, run: Path) -> None:
    """Make a link. It may exist already if an earlier completion was killed."""
    try:
        disk.link(Area.ARTIFACT_LINK, target, path)
    except FileExistsError:
        if os.path.islink(path) and os.readlink(path) == target:
            return
        temp = f"{run}/.{temp_name()}"  # if this is killed, the next completion removes it
        disk.link(Area.ARTIFACT_LINK, target, temp)
        disk.rename(Area.ARTIFACT_LINK, temp, path)


# Memory peaks of steps, read from the `metrics.jsonl` of earlier runs. For estimates; planning never reads them.


_decode = msgspec.json.Decoder(Metric).decode


def logged_peaks(runs: Iterable[RunRef], steps: Collection[str]) -> dict[str, int]:
    """Step → its memory peak in bytes, from the latest run that measured it. `runs`: oldest first."""
    wanted = set(steps)
    peaks: dict[str, int] = {}
    for run in reversed(list(runs)):
        if len(peaks) == len(wanted):
            break
        path = RunDirectory(run.path).metrics
        if not path.exists():
            continue
        in_run: dict[str, int] = {}
        with path.open("rb") as file:
            for line in file:
                if b'"max_rss_bytes"' not in line or not line.endswith(b"\n"):
                    continue  # the last line of a killed run may be cut off
                metric = _decode(line)
                if metric.metric == "max_rss_bytes" and metric.step_id in wanted:
                    in_run[metric.step_id] = int(metric.value)
        peaks = {**in_run, **peaks}
    return peaks


def expected_peak(plan: Plan, snapshot: PlanningSnapshot, runs: Iterable[RunRef], workers: int) -> int | None:
    """The memory that the steps of a plan may need at once: the `workers` largest of the layer with the highest sum.

    A step that never ran is estimated as the largest instance of the same job. None if no instance ever ran.
    """
    graph = snapshot.dependency_graph
    jobs = [job for job in plan.planned if job.reuse is None]
    numbers = {graph.table_at(job.node)[0].number for job in jobs}
    logged = logged_peaks(runs, [id_ for number in numbers for id_ in graph.tables[number].job_ids()])
    largest: dict[int, int] = {}
    for id_, peak in logged.items():
        number = graph.table_at(graph.node_of[id_])[0].number
        largest[number] = max(peak, largest.get(number, 0))
    layers: dict[int, list[int]] = {}
    for job in jobs:
        expected = logged.get(job.id, largest.get(graph.table_at(job.node)[0].number))
        if expected is None:
            return None
        layers.setdefault(job.layer, []).append(expected)
    return max((sum(sorted(layer, reverse=True)[:workers]) for layer in layers.values()), default=None)
