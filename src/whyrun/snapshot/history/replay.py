"""The recorded snapshot: all that planning used beyond the log, so that a recorded plan can be computed again.

the log up to that run + this blob → the same snapshot → the same plan, byte for byte
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from whyrun.artifacts.hashing import canonical_json
from whyrun.artifacts.shared.result import SharedResult
from whyrun.errors import error
from whyrun.graph.expand import expand
from whyrun.graph.tables import Graph
from whyrun.snapshot.actions.connections import with_connections
from whyrun.snapshot.actions.output_hooks import with_sites
from whyrun.snapshot.build import build_planning_snapshot
from whyrun.snapshot.observations import KnownRead
from whyrun.snapshot.records import MadeOutput
from whyrun.snapshot.results import recorded_results
from whyrun.snapshot.snapshot import ActionFacts, BlobCheck, LogReader, PlanningSnapshot
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Type
from whyrun.workflow.parsing.parse import parse_workflow
from whyrun.workflow.values import Keys

VERSION = 1


def snapshot_blob(snapshot: PlanningSnapshot) -> bytes:
    """Sources, resolved inputs, action fingerprints, and all observations that differ from the log."""
    return canonical_json(_snapshot_json(snapshot))


_OF_FIRST = frozenset({"root", "sources", "inputs", "actions", "connected", "opened", "manifest"})


def stage_blob(snapshot: PlanningSnapshot, first: str) -> bytes:
    """What the snapshot of a stage has beside the first one of its run (`first`: its hash)."""
    own = {name: part for name, part in _snapshot_json(snapshot).items() if name not in _OF_FIRST}
    return canonical_json({**own, "first": first, "made": msgspec.to_builtins(dict(snapshot.made))})


def _snapshot_json(snapshot: PlanningSnapshot) -> dict[str, Any]:
    graph = snapshot.dependency_graph
    composition = graph.workflow.composition
    return {
        "version": VERSION,
        "root": graph.workflow.source,
        "sources": dict(graph.workflow.sources),
        "inputs": {id_: _input_json(value) for id_, value in graph.inputs.items()},
        "actions": {
            name: {
                "name": a.name,
                "sha256": a.sha256,
                "deterministic": a.deterministic,
                "files": dict(a.files),
                **({"uncounted": list(a.uncounted)} if a.uncounted else {}),
                **({"versions": dict(a.versions)} if a.versions else {}),
                **({"effectful": True} if a.effectful else {}),
            }
            for name, a in snapshot.actions.items()
        },
        "files": dict(snapshot.files),
        "lost": sorted(snapshot.lost),
        **({"running": snapshot.running} if snapshot.running is not None else {}),
        **({"reads": dict(snapshot.reads.present)} if snapshot.reads.present else {}),
        **({"names": dict(snapshot.reads.names)} if snapshot.reads.names else {}),
        **({"packages": dict(snapshot.reads.versions)} if snapshot.reads.versions else {}),
        **({"count_packages": True} if snapshot.reads.counts_packages else {}),
        **({"moving": True} if _moves(snapshot) else {}),
        **({"shared": _shared_json(snapshot.shared)} if snapshot.shared else {}),
        **({"asked": graph.asked} if graph.asked else {}),
        **(
            {"known": sorted({*graph.results.taken, *graph.results.refused})}
            if graph.results.taken or graph.results.refused
            else {}
        ),
        **({"connected": graph.connected} if graph.connected else {}),
        **({"opened": True} if _opens_texts(graph) else {}),
        **({"manifest": composition.manifest} if composition is not None and composition.manifest else {}),
    }


def snapshot_identity(snapshot: PlanningSnapshot) -> dict[str, Any]:
    """What a saved plan was made from: the hash of all of it, and the hash of each part, to name what changed.

    A plan's digest does not cover it: with an empty log, another `run:` text has the same plan. Results from a shared
    store are left out: those that count are in the plan.
    """
    graph = snapshot.dependency_graph
    parts = {
        "sources": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in graph.workflow.sources.items()},
        "inputs": {id_: value.sha256 for id_, value in graph.inputs.items()},
        "actions": {name: action.sha256 for name, action in snapshot.actions.items()},
    }
    whole = snapshot_blob(snapshot.with_shared({}))
    return {"snapshot_sha256": hashlib.sha256(whole).hexdigest(), "snapshot_parts": parts}


def replay_snapshot(blob: bytes, log: LogReader, *stages: bytes) -> PlanningSnapshot:
    """Rebuild the snapshot from its blob and the log as it was then. With the blob of a stage: the snapshot of that
    stage; with several, what all of them know."""
    data = json.loads(blob)
    made: dict[str, dict[str, MadeOutput] | None] = {}
    for stage in map(json.loads, stages):
        made |= msgspec.convert(stage["made"], dict[str, dict[str, MadeOutput] | None])
        data = {**data, **stage, **{name: _joined(data.get(name), stage.get(name)) for name in _OBSERVED}}
    if data["version"] != VERSION:
        raise error("STORE_DAMAGED", f"this snapshot has version {data['version']}", hint="use a newer whyrun")
    sources: Mapping[str, str] = data["sources"]
    if "manifest" in data:
        from whyrun.workflow.composition.plan_file.dataset_plan import parse_plan

        workflow = parse_plan(data["root"], data["manifest"], sources)
    else:
        workflow = parse_workflow(data["root"], lambda key: sources[key])
    # The output paths were checked before they were recorded: a replay publishes nothing.
    inputs = {id_: _input_value(value) for id_, value in data["inputs"].items()}
    graph = expand(workflow, inputs, recorded=recorded_results(log, data.get("known", ()), made))
    graph = with_sites(with_connections(graph, data.get("connected", {})), data.get("asked", {}))
    if "opened" not in data:  # also for runs of older versions, which recorded texts like other files
        tables = tuple(msgspec.structs.replace(table, only_paths=True) for table in graph.tables)
        graph = msgspec.structs.replace(graph, tables=tables)
    actions = {
        name: ActionFacts(
            a["name"],
            a["sha256"],
            a["deterministic"],
            a.get("files", {}),  # the first logs have none
            tuple(a.get("uncounted", ())),
            a.get("versions", {}),
            a.get("effectful", False),
        )
        for name, a in data["actions"].items()
    }
    running, moving = data.get("running"), data.get("moving", False)
    snapshot = build_planning_snapshot(graph, log, _Recorded(data), actions, running=running, made=made, moving=moving)
    return snapshot.with_shared(msgspec.convert(data.get("shared", {}), dict[str, SharedResult]))


# What a stage adds to: it sees all that the plans before it saw, and perhaps more.
_OBSERVED = ("files", "lost", "reads", "names", "packages", "known")


def _joined(before: Any, now: Any) -> Any:
    if isinstance(before or now, list):
        return sorted({*(before or ()), *(now or ())})
    return {**(before or {}), **(now or {})}


def _moves(snapshot: PlanningSnapshot) -> bool:
    """May results move from one instance of a job to another? Runs before this rule have plans without it."""
    return any(snapshot.reuse_scope(table) == "job" for table in snapshot.dependency_graph.tables)


def _opens_texts(graph: Graph) -> bool:
    """May some action receive the content of a consumed text?"""
    inputs = any(value.type.base == "text" for value in graph.inputs.values())
    return any(table.opens for table in graph.tables) and (
        inputs or any(spec.type in ("text", "text[]") for table in graph.tables for spec in table.artifacts)
    )


def _shared_json(shared: Mapping[str, SharedResult]) -> Any:
    """The results from the shared store, as they were found."""
    return msgspec.to_builtins(dict(shared))


class _Recorded:
    """Implements `Observer` with the recorded observations."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.files, self.lost = data["files"], frozenset(data["lost"])
        self.reads, self.packages = data.get("reads", {}), data.get("packages", {})
        self.names = data.get("names", {})
        self.counts_packages: bool = data.get("count_packages", False)

    def changed_files(self, paths: Sequence[str], sha256s: Sequence[str | None]) -> Mapping[str, str]:
        return {path: self.files[path] for path in paths if path in self.files}

    changed_sections = changed_files

    def lost_blobs(self, checks: Sequence[BlobCheck]) -> Iterable[str]:
        return [check.key for check in checks if check.key in self.lost]

    def contents(
        self, files: Sequence[str], others: Collection[str], folders: Mapping[str, tuple[str, Collection[str]]]
    ) -> Mapping[str, str]:
        return {key: self.reads[key] for key in (*files, *others, *folders) if key in self.reads}

    def name_changes(self, read: KnownRead, own: Collection[str], known: Collection[str]) -> Sequence[str]:
        return tuple(self.names.get(read.names_key, ()))

    def versions(self, packages: Collection[str]) -> Mapping[str, str | None]:
        return {name: self.packages[name] for name in packages if name in self.packages}


def _input_json(value: InputValue) -> dict[str, Any]:
    found: dict[str, Any] = {"type": [value.type.base, value.type.depth], "sha256": value.sha256}
    if value.elements is not None:
        found["elements"] = [_input_json(item) for item in value.elements]
        if value.keys is not None:
            found["keys"] = value.keys.order
    elif value.is_absent:
        pass  # the empty hash says so; where it would be concerns only the check of output paths
    elif value.path is not None:
        found["path"] = value.path
    else:
        found["value"] = value.value
    return found


def _input_value(data: Mapping[str, Any]) -> InputValue:
    type_ = Type(*data["type"])
    elements = None
    if "elements" in data:
        elements = tuple(_input_value(item) for item in data["elements"])
        value: Any = [item.value for item in elements]
    else:
        value = data.get("path", data.get("value"))
    keys = Keys(data["keys"]) if "keys" in data else None
    return InputValue(type_, value, data["sha256"], elements, data.get("path"), keys)
