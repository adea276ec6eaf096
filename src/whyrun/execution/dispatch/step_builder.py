"""From what a step consumes to what it is started with: its cfg, its command, and the bindings of its record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from whyrun.artifacts.compare.result import CompareSettings
from whyrun.artifacts.hashing import canonical_json, canonical_list, canonical_object
from whyrun.connections.marks import MARK
from whyrun.execution.cfg import InputSpec, OutputSpec, StepCfg
from whyrun.execution.commands import NO_NEEDS, InputSource, StepNeeds
from whyrun.execution.run_secrets import RunSecrets
from whyrun.graph.fingerprint import input_form
from whyrun.graph.graph import ArtifactAt, Graph, InputAt, JobTable
from whyrun.log.wide import wide
from whyrun.planning.consume import Consumption, Entry, Members
from whyrun.snapshot.known_inputs import put
from whyrun.snapshot.snapshot import NAMED_FILES, ActionFacts
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import FILE_TYPES, JobDecl, SandboxDecl

FromRun = Callable[[int], str | None]  # node → the run that made its artifacts; None: this run


def step_cfg(
    graph: Graph, table: JobTable, position: int, found: Consumption, action: ActionFacts, secrets: RunSecrets
) -> StepCfg:
    """`secrets`: those of the run, and its connections; of them, the cfg has the names."""
    with_: dict[str, Any] = {}
    env: dict[str, Any] = {}
    inputs: dict[str, InputSpec | list[InputSpec]] = {}
    decl = table.decl
    named = dict.fromkeys(decl.secrets)
    connected = graph.connected.get(table.name, ())
    for slot in table.slots:
        entry = found.entries[slot.name]
        if slot.binding:
            inputs[slot.name] = (
                [_input_spec(graph, e) for e in entry] if isinstance(entry, list) else _input_spec(graph, entry)
            )
            value: Any = {"$input": slot.name}
        else:
            assert isinstance(entry, Entry)
            value = entry.value
            if slot.name in connected:
                named |= dict.fromkeys(secrets.named_in(value))
                value = secrets.ready(value)
                whole = len(slot.path) == 1 and isinstance(entry.value, dict) and MARK in entry.value
                if decl.uses == "shell" and whole:
                    # A shell has no mappings: each field is a variable, such as `$connection_host`.
                    with_ |= {f"{slot.name}_{name}": member for name, member in value.items()}
                    continue
        put(env if slot.area == "env" else with_, slot.path, value)
    return StepCfg(
        step_id=table.job_id(position),
        action=action.name,
        action_sha256=action.sha256,
        with_=with_,
        inputs=inputs,
        outputs=_output_specs(table, position),
        env=env,
        secrets=list(named),
        timeout=decl.timeout,
    )


def _output_specs(table: JobTable, position: int) -> dict[str, OutputSpec]:
    outputs: dict[str, OutputSpec] = {}
    for output in table.outputs:
        leaves = {
            spec.leaf_at(position)[1:]: spec.type
            for spec in table.artifacts
            if spec.is_leaf and spec.output == output.name
        }
        settings = table.decl.outputs[output.name].compare
        compare = None if settings is None else CompareSettings(settings.keys, settings.tolerance)
        outputs[output.name] = OutputSpec(output.type, output.suffix, leaves, output.append, compare)
    return outputs


def _input_spec(graph: Graph, entry: Entry) -> InputSpec:
    source = entry.source
    if isinstance(source, InputAt):
        return _workflow_input(source.id, source.value, entry.form)
    assert isinstance(source, ArtifactAt)
    table = graph.tables[source.table]
    spec = table.artifacts[source.artifact]
    suffix = table.output_of(source.artifact).suffix if spec.type in FILE_TYPES and not spec.is_leaf else ""
    return InputSpec(entry.id, entry.sha256, spec.type, suffix, value=entry.value)


def _workflow_input(id_: str, value: InputValue, form: str) -> InputSpec:
    if value.elements is not None and value.type.is_path:
        members = [_workflow_input(f"{id_}[{i}]", item, input_form(item)) for i, item in enumerate(value.elements)]
        return InputSpec(id_, value.sha256, str(value.type), members=members)
    if value.path is not None:
        return InputSpec(id_, value.sha256, value.type.base, form[1:], path=value.path)
    return InputSpec(id_, value.sha256, str(value.type), value=value.value)


def input_sources(
    graph: Graph, table: JobTable, found: Consumption, from_run: FromRun
) -> dict[str, InputSource | list[InputSource]]:
    """All inputs of a step under their own names, for its command."""
    sources: dict[str, InputSource | list[InputSource]] = {}
    for slot in table.slots:
        if not slot.binding:
            continue
        entry = found.entries[slot.name]
        if isinstance(entry, list):
            sources[slot.name] = [_input_source(graph, e, from_run) for e in entry]
        else:
            sources[slot.name] = _input_source(graph, entry, from_run)
    return sources


def _input_source(graph: Graph, entry: Entry, from_run: FromRun) -> InputSource:
    source = entry.source
    if isinstance(source, InputAt):
        return InputSource(entry.id, entry.sha256, path=source.value.path)
    assert isinstance(source, ArtifactAt)
    table = graph.tables[source.table]
    key = table.artifacts[source.artifact].key_at(source.position)
    step = table.job_id(source.position)
    return InputSource(entry.id, entry.sha256, step, key, from_run(graph.node(source)))


def recorded_bindings(
    table: JobTable, position: int, found: Consumption, action: ActionFacts, put_blob: Callable[[bytes], str]
) -> dict[str, Any]:
    """All that the step consumes, as its record says it: `{name: [{id, sha256}]}`."""
    bindings: dict[str, Any] = {".action": [action_entry(table, position, action)]}
    for slot in table.slots:
        entry = found.entries.get(slot.name)
        if entry is None:
            continue  # only in the record of a step that fails because this slot has no value
        if isinstance(entry, Members):
            bindings[slot.name] = wide(entry.recorded, put_blob)
        else:
            bindings[slot.name] = [entry.to_json()]
    return bindings


def action_entry(table: JobTable, position: int, action: ActionFacts) -> dict[str, Any]:
    """The action as it is recorded; with its versions and files, if they are few, so that a change can be named."""
    entry: dict[str, Any] = {"id": f"Input:{table.path(position)}.action", "sha256": action.sha256}
    if 0 < len(action.files) <= NAMED_FILES:
        entry["files"] = {path: sha256[:16] for path, sha256 in action.files.items()}
    if action.versions:
        entry["versions"] = dict(action.versions)
    return entry


def manifest(
    graph: Graph,
    jobs: Iterable[tuple[int, Mapping[str, Any]]],
    actions: Mapping[str, ActionFacts],
    composition: Mapping[str, Any] | None = None,
) -> bytes:
    """`manifest.yaml`: what was to be executed, by node with its bindings. For people; never read by the planner."""
    entries: list[bytes] = []
    for node, bindings in jobs:
        table, position = graph.table_at(node)
        action = actions[table.name]
        entry = {
            "id": table.job_id(position),
            "action": action.name,
            "action_sha256": action.sha256,
            "bindings": dict(bindings),
            "outputs": [table.artifact_id(a, position) for a in range(len(table.artifacts))],
        }
        entries.append(canonical_json(entry))
    parts = {"workflow": canonical_json(graph.workflow.name), "jobs": canonical_list(entries)}
    if composition is not None:
        parts["composition"] = canonical_json(composition)
    return canonical_object(parts)


def step_needs(decl: JobDecl) -> StepNeeds:
    """What the job says of where it runs."""
    wanted = decl.sandbox
    if not decl.resources and wanted == _ANYWHERE:
        return NO_NEEDS
    return StepNeeds(wanted.required, wanted.network, wanted.memory, wanted.processes, decl.resources)


_ANYWHERE = SandboxDecl()
