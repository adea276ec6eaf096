"""View 3: artifacts and what is in them. Bytes are named by hash, and only hashes that the log names are given away."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from whyrun.facts.previews import ACTIVE, beginning_of, folder_preview, kind_of, preview
from whyrun.workflow.arrays import is_array

if TYPE_CHECKING:
    from whyrun.evidence.queries.current import CurrentArtifact
    from whyrun.graph.tables import JobTable
    from whyrun.log.runs import RunRef
    from whyrun.project import Project
    from whyrun.viewer.current import CurrentState, Params, State
    from whyrun.workflow.inputs import InputValue

PAGE = 100


# --- what the log names ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Named:
    """A content that the log names."""

    sha256: str
    size: int | None
    type: str
    suffix: str


class NamedContents:
    """Hash → what the log says of it, for all runs that are kept. The log of a run is read when it is first needed."""

    def __init__(self) -> None:
        self._found: dict[bytes, tuple[int | None, str, str]] = {}
        self._read: dict[str, int] = {}  # run → size of its log when it was read
        self._lock = threading.Lock()

    def find(self, project: Project, sha256: str) -> Named | None:
        with self._lock:
            key = bytes.fromhex(sha256)
            if key not in self._found:
                self._read_new(project)
            found = self._found.get(key)
        return None if found is None else Named(sha256, *found)

    def _read_new(self, project: Project) -> None:
        for run in project.state.runs():
            try:
                size = run.status().st_size
            except FileNotFoundError:
                continue  # pruned meanwhile
            if self._read.get(run.name) != size:
                self._read_run(run)
                self._read[run.name] = size

    def _read_run(self, run: RunRef) -> None:
        from whyrun.log import events as ev

        for event in run.events():
            if isinstance(event, ev.ArtifactAvailable | ev.ArtifactAdopted):
                self._found[bytes.fromhex(event.sha256)] = event.size, event.type, event.suffix
            elif isinstance(event, ev.InputRecorded) and event.sha256:
                self._found.setdefault(bytes.fromhex(event.sha256), (event.size, "file", ""))


# --- descriptions ----------------------------------------------------------------------------------------------------


def described(state: CurrentState, table: JobTable, artifact: int, position: int) -> dict[str, Any]:
    """One current artifact as a row: its state, and what a page needs to show it."""
    return next(described_parts(state, table, artifact, position))


def described_parts(state: CurrentState, table: JobTable, artifact: int, position: int) -> Iterator[dict[str, Any]]:
    """The same; after an array also its elements."""
    whole = table.artifact_id(artifact, position)
    has_parts = is_array(table.artifacts[artifact].type)
    for one in artifacts_of(state, [table.base + position]):
        if one.id == whole or (has_parts and one.id.startswith(f"{whole}[")):
            yield artifact_row(state, one)


def artifacts_of(state: CurrentState, nodes: Sequence[int]) -> Iterator[CurrentArtifact]:
    """The artifacts of these instances, in a report of a run as they were at its end."""
    from whyrun.evidence.queries.current import current_artifacts

    found = current_artifacts(state.found.snapshot, state.found.plan, nodes)
    return found if state.at is None else (_as_of(state, artifact) for artifact in found)


def artifact_row(state: CurrentState, artifact: CurrentArtifact) -> dict[str, Any]:
    row = artifact.to_json()
    if artifact.sha256 is None:
        return row | {"kind": kind_of(artifact.type, suffix_of(state, artifact.id))[0]}
    if "value" in row:
        return row | {"kind": "value"}
    return row | content(state, artifact.sha256, artifact.type, suffix_of(state, artifact.id))


def _as_of(state: CurrentState, artifact: CurrentArtifact) -> CurrentArtifact:
    """The artifact as the log has it at the end of the run of a report."""
    from dataclasses import replace

    from whyrun.snapshot.records import run_name

    record = state.records.steps.get(artifact.job)
    if record is None or artifact.job_state == "inactive":
        return replace(artifact, state="inactive" if artifact.job_state == "inactive" else "missing", run=None)
    latest = record.latest
    output = next((one for one in latest.outputs if one.id == artifact.id), None)
    if not latest.ok or output is None:
        return replace(artifact, state="missing" if latest.ok else "failed", run=run_name(latest.run), sha256=None)
    number, how = latest.source_of(artifact.id)
    return replace(
        artifact, state="available", run=run_name(number), sha256=output.sha256, size=output.size, change=None,
        origin=how or None, value=output.value,
    )  # fmt: skip


def content(state: State, sha256: str, type_: str, suffix: str, size: int | None = None) -> dict[str, Any]:
    """What a page needs to show stored bytes: the kind, and the address if they are still there."""
    store = state.project.store
    path = store.path(sha256)
    has = store.has(sha256)
    kind, media_type = kind_of(type_, suffix, beginning_of(path) if has and not suffix else None)
    body: dict[str, Any] = {"kind": kind, "media_type": media_type, "sha256": sha256}
    if size is not None:
        body["size"] = size
    return body | ({"href": f"blob/{sha256}"} if has else {"kept": False})


def suffix_of(state: CurrentState, id_: str) -> str:
    at = state.graph.artifact_of.get(id_)
    if at is None:
        return ""
    table = state.graph.tables[at.table]
    if table.artifacts[at.artifact].is_leaf:
        return ""
    record = state.record(state.graph.node(at))
    output = None if record is None else next((one for one in record.latest.outputs if one.id == id_), None)
    return output.suffix if output is not None and output.suffix else table.output_of(at.artifact).suffix


def input_content(state: CurrentState, id_: str, value: InputValue) -> dict[str, Any]:
    """An input file as it is now. It is served only while it has the observed content."""
    path = value.path
    body: dict[str, Any] = {"sha256": value.sha256}
    if path is None:
        return {**body, "kind": "value", "value": value.value}
    full = os.path.join(state.project.folder, path)
    kind, media_type = kind_of(value.type.base, os.path.splitext(path)[1], beginning_of(full))
    if value.type.base == "directory" or not os.path.isfile(full):
        return {**body, "kind": kind, "path": path}
    href = f"input?id={quote(id_, safe='')}"
    return {**body, "kind": kind, "media_type": media_type, "path": path, "size": os.path.getsize(full), "href": href}


# --- views -----------------------------------------------------------------------------------------------------------


def artifacts_view(state: CurrentState, params: Params) -> dict[str, Any]:
    """A page of the declared artifacts, chosen by job, kind, state and text."""
    chosen, kinds = [], Counter[str]()
    wanted = {name: params.maybe(name) for name in ("job", "state", "q", "leaves")}
    kind = params.maybe("kind")
    for at in _artifacts(state, wanted):
        table = state.graph.tables[at[0]]
        own = kind_of(table.artifacts[at[1]].type, _declared_suffix(table, at[1]))[0]
        kinds[own] += 1
        if kind is None or own == kind:
            chosen.append(at)
    page = params.number("page", 0)
    shown = chosen[page * PAGE : (page + 1) * PAGE]
    rows = [row for t, a, p in shown for row in described_parts(state, state.graph.tables[t], a, p)]
    if wanted["state"] is not None:
        rows = [row for row in rows if row["state"] == wanted["state"]]
    return {
        "command": state.command_now("status", "--all"),
        "page": page,
        "pages": -(-len(chosen) // PAGE),
        "total": len(chosen),
        "kinds": dict(kinds),
        "rows": rows,
    }


def _declared_suffix(table: JobTable, artifact: int) -> str:
    return "" if table.artifacts[artifact].is_leaf else table.output_of(artifact).suffix


def _artifacts(state: CurrentState, wanted: dict[str, str | None]) -> Iterator[tuple[int, int, int]]:
    text = (wanted["q"] or "").lower()
    for table in state.graph.tables:
        if wanted["job"] not in (None, table.name):
            continue
        for a, spec in enumerate(table.artifacts):
            if spec.is_leaf and wanted["leaves"] is None:
                continue
            for position in range(len(table)):
                if not text or text in table.artifact_id(a, position).lower():
                    yield table.number, a, position


def artifact_view(state: CurrentState, params: Params) -> dict[str, Any]:
    """One artifact: the facts, a preview, and every version that the log has."""
    from whyrun.facts.show import known_facts

    id_ = params.one("id")
    history = state.history_of(id_) if id_.startswith("Artifact:") else []
    facts = known_facts(state.project, state.known, id_, history) if state.at is None else _facts_as_of(state, id_)
    body: dict[str, Any] = {"command": state.command_now("show", id_), "id": id_, "facts": facts}
    if facts["kind"] != "artifact":
        return body
    suffix = suffix_of(state, id_)
    if "value" in facts:
        body["preview"] = {"kind": "value", "value": facts["value"], "sha256": facts["sha256"]}
    elif facts.get("sha256"):
        body["preview"] = preview_of(state, Named(facts["sha256"], facts.get("size"), facts["type"], suffix))
    versions = []
    for entry in history:
        if state.at is not None and int(entry.run[1:]) > int(state.at[1:]):
            continue
        for version in entry.outputs:
            one = version.to_json() | {"run": entry.run, "ts": entry.ts, "status": entry.status, "step": entry.step_id}
            one["current"] = version.sha256 == facts.get("sha256")
            if "value" not in one:
                one |= content(state, version.sha256, facts["type"], suffix)
            versions.append(one)
    return {**body, "versions": versions}


def _facts_as_of(state: CurrentState, id_: str) -> dict[str, Any]:
    from whyrun.facts.subjects import find_subject

    subject = find_subject(state.graph, id_)
    at = state.graph.artifact_of.get(subject.id)
    if at is None:
        return {"kind": subject.kind, "id": subject.id}
    rows = described_parts(state, state.graph.tables[at.table], at.artifact, at.position)
    return {"kind": "artifact", **next((row for row in rows if row["id"] == subject.id), {"id": subject.id})}


def preview_view(state: CurrentState, params: Params, named: NamedContents) -> dict[str, Any]:
    """The beginning of a stored version, or of an input file, in a form that a page can show."""
    sha256 = params.maybe("sha256")
    if sha256 is None:
        return {"command": None, **preview_of_input(state, params.one("id"))}
    return {"command": None, **preview_of(state, known_content(state, sha256, named))}


def preview_of(state: CurrentState, named: Named) -> dict[str, Any]:
    """A stored content."""
    body = content(state, named.sha256, named.type, named.suffix, named.size) | {"type": named.type}
    store = state.project.store
    if not store.has(named.sha256):
        return body
    if named.type == "directory":
        return body | folder_preview(store, named.sha256)
    return body | preview(store.path(named.sha256), body["kind"], named.suffix)


def preview_of_input(state: CurrentState, id_: str) -> dict[str, Any]:
    """An input file as it is now; for other inputs the value."""
    from whyrun.errors import error
    from whyrun.facts.subjects import find_subject

    value = find_subject(state.graph, id_).value
    if value is None:
        raise error("USAGE", f"`{id_}` is no input", hint="write `Input:…`, or the hash of an artifact")
    body = input_content(state, id_, value) | {"id": id_, "type": str(value.type)}
    if "href" in body and value.path is not None:
        path = os.path.join(state.project.folder, value.path)
        body |= preview(path, body["kind"], os.path.splitext(value.path)[1])
    return body


def known_content(state: State, sha256: str, named: NamedContents) -> Named:
    """UNKNOWN_REFERENCE unless the log names the content."""
    from whyrun.artifacts.hashing import is_sha256
    from whyrun.errors import error

    found = named.find(state.project, sha256) if is_sha256(sha256) else None
    if found is None:
        hint = "addresses of contents are on the pages of their artifacts"
        raise error("UNKNOWN_REFERENCE", "the log names no content with this hash", hint=hint)
    return found


@dataclass(frozen=True, slots=True)
class Served:
    """A file to be sent, if it has this hash. `sandboxed`: a browser could run what is in it."""

    path: str
    media_type: str
    name: str
    sandboxed: bool
    sha256: str


def served_blob(state: State, sha256: str, named: NamedContents) -> Served:
    content_ = known_content(state, sha256, named)
    path = state.project.store.open_path(sha256)
    kind, media_type = kind_of(content_.type, content_.suffix, beginning_of(path))
    return Served(path, media_type, f"{sha256[:8]}{content_.suffix}", kind in ACTIVE, sha256)


def served_input(state: CurrentState, id_: str) -> Served:
    """The file of an input. UNKNOWN_REFERENCE for all that is no input file of the workflow."""
    from whyrun.errors import error
    from whyrun.facts.subjects import find_subject

    subject = find_subject(state.graph, id_)
    value = subject.value
    if value is None or value.path is None or value.type.base == "directory":
        raise error("UNKNOWN_REFERENCE", f"`{id_}` is no input file", hint="name an input of a file type")
    full = os.path.join(state.project.folder, value.path)
    kind, media_type = kind_of(value.type.base, os.path.splitext(value.path)[1], beginning_of(full))
    return Served(full, media_type, os.path.basename(value.path), kind in ACTIVE, value.sha256)
