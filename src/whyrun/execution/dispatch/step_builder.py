"""Builds what a step is started with from what it consumes: its cfg, the inputs of its command, its bindings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from whyrun.artifacts.compare.result import CompareSettings
from whyrun.artifacts.hashing import canonical_json, canonical_list, canonical_object
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.artifacts.stat_cache.rows import Signature
from whyrun.connections.planned_value import MARK
from whyrun.execution.backends.base import NO_NEEDS, StepNeeds
from whyrun.execution.dispatch.run_secrets import RunSecrets
from whyrun.execution.protocol.messages import (
    ContainerSpec,
    EnvironmentSpec,
    ExecStep,
    InputSource,
    InputSpec,
    OutputSpec,
    StepCfg,
)
from whyrun.graph.fingerprint import input_form
from whyrun.graph.tables import ArtifactAt, Graph, InputAt, JobTable
from whyrun.ids import Index, format_indices, parse_id
from whyrun.log.decoding import long_list
from whyrun.planning.artifact_states import key_of
from whyrun.planning.consume import Consumption, Entry, Members
from whyrun.snapshot.actions.known_inputs import put
from whyrun.snapshot.snapshot import NAMED_FILES, ActionFacts
from whyrun.workflow.arrays import element_type, is_array
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import FILE_TYPES, JobDecl, SandboxDecl

FromRun = Callable[[int], str | None]  # node → the run that made its artifacts; None: this run
SMALLEST_KNOWN_FILE = 1 << 20  # bytes: a worker reads a smaller file as fast as it reads its signature
MOST_KNOWN_FILES = 64  # so that a command still fits its datagram


def step_cfg(
    graph: Graph, table: JobTable, position: int, consumed: Consumption, action: ActionFacts, secrets: RunSecrets
) -> StepCfg:
    """`secrets`: all of the run. The cfg contains the names of those that the step uses."""
    with_: dict[str, Any] = {}
    env: dict[str, Any] = {}
    inputs: dict[str, InputSpec | list[InputSpec]] = {}
    keys: dict[str, list[list[Index]]] = {}
    decl = table.decl
    named = dict.fromkeys(decl.secrets)
    connected = graph.connected.get(table.name, ())
    for slot in table.slots:
        entry = consumed.entries[slot.name]
        if slot.binding:
            if isinstance(entry, Members):
                inputs[slot.name] = [_input_spec(graph, e, action) for e in entry]
                if entry.is_named:
                    keys[slot.name] = [list(parse_id(f"Job:x{e.under}").segments[0].indices) for e in entry]
            elif entry.source is None:  # `named(…)` without members
                inputs[slot.name], keys[slot.name] = [], []
            else:
                assert isinstance(entry, Entry)
                inputs[slot.name] = _input_spec(graph, entry, action)
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
    around, inside = action.environment, action.container
    return StepCfg(
        step_id=table.job_id(position),
        action=action.name,
        action_sha256=action.sha256,
        with_=with_,
        inputs=inputs,
        keys=keys,
        outputs=_output_specs(table, position, in_project=action.in_project),
        env=env,
        secrets=list(named),
        merged=list(decl.merged_bindings),
        timeout=decl.timeout,
        workdir="project" if action.in_project else "scratch",
        environment=None if around is None else EnvironmentSpec(around.lock, around.sha256),
        container=None
        if inside is None
        else ContainerSpec(inside.reference or inside.image, inside.network, inside.engine),
    )


def _output_specs(table: JobTable, position: int, *, in_project: bool) -> dict[str, OutputSpec]:
    outputs: dict[str, OutputSpec] = {}
    for output in table.outputs:
        leaves = {
            spec.leaf_at(position)[1:]: spec.type
            for spec in table.artifacts
            if spec.is_leaf and spec.output == output.name
        }
        settings = table.decl.outputs[output.name].compare
        compare = None if settings is None else CompareSettings(settings.keys, settings.tolerance)
        own = in_project and not output.append and not is_array(output.type)
        path = output.paths[position] if own and output.paths is not None else None
        outputs[output.name] = OutputSpec(output.type, output.suffix, leaves, output.append, compare, path)
    return outputs


def _input_spec(graph: Graph, entry: Entry, action: ActionFacts) -> InputSpec:
    source = entry.source
    if isinstance(source, InputAt):
        return _workflow_input(source.id, source.value, entry.form)
    assert isinstance(source, ArtifactAt)
    table = graph.tables[source.table]
    spec = table.artifacts[source.artifact]
    if source.element is not None:
        base = element_type(spec.type)
        return InputSpec(entry.id, entry.sha256, base, entry.form[1:] if base in FILE_TYPES else "", value=entry.value)
    suffix = table.output_of(source.artifact).suffix if spec.type in FILE_TYPES and not spec.is_leaf else ""
    output = table.output_of(source.artifact)
    own = output.paths[source.position] if action.in_project and output.paths is not None else None
    published = None if spec.is_leaf or output.append else own
    return InputSpec(entry.id, entry.sha256, spec.type, suffix, value=entry.value, published=published)


def _workflow_input(id_: str, value: InputValue, form: str) -> InputSpec:
    if value.elements is not None and value.type.is_path:
        members = [_workflow_input(each, item, input_form(item)) for each, item in value.members(id_)]
        return InputSpec(id_, value.sha256, str(value.type), members=members)
    if value.path is not None and value.elements is None:
        return InputSpec(id_, value.sha256, value.type.base, form[1:], path=value.path)
    return InputSpec(id_, value.sha256, str(value.type), value=value.value)


def input_sources(
    graph: Graph, table: JobTable, consumed: Consumption, from_run: FromRun
) -> dict[str, InputSource | list[InputSource]]:
    """By name: where the worker finds each input of a step, for its command."""
    sources: dict[str, InputSource | list[InputSource]] = {}
    for slot in table.slots:
        if not slot.binding:
            continue
        entry = consumed.entries[slot.name]
        if isinstance(entry, list):
            sources[slot.name] = [_input_source(graph, e, from_run) for e in entry]
        elif entry.source is None:
            sources[slot.name] = []
        else:
            sources[slot.name] = _input_source(graph, entry, from_run)
    return sources


def _input_source(graph: Graph, entry: Entry, from_run: FromRun) -> InputSource:
    source = entry.source
    if isinstance(source, InputAt):
        path = source.value.path if source.value.elements is None else None  # an array is there by its members
        return InputSource(entry.id, entry.sha256, path=path)
    assert isinstance(source, ArtifactAt)
    table = graph.tables[source.table]
    key = table.artifacts[source.artifact].key_at(source.position)
    if source.element is not None:
        key += format_indices([key_of(source)])
    step = table.job_id(source.position)
    return InputSource(entry.id, entry.sha256, step, key, from_run(graph.node(source)))


def known_files(cache: StatCache, project: str | os.PathLike[str], command: ExecStep) -> dict[str, Signature]:
    """By path: signatures of input files that the host has just hashed, so that a worker on the same disk need not.

    The signature proves that the file has the content that the command names. `StatCache` has no entry for a file that
    was written too shortly before it was hashed. Signatures travel beside the command, not in it: the evidence says
    which bytes a step reads, not who hashed them. Remote workers get none and hash their own copies.
    """
    signatures: dict[str, Signature] = {}
    for source in _input_files(command):
        assert source.path is not None
        entry = cache.entry_of(os.path.join(project, source.path))
        if entry is None or entry[1] != source.sha256:
            continue
        _, _, size, _, _ = entry[0]
        if size >= SMALLEST_KNOWN_FILE and len(signatures) < MOST_KNOWN_FILES:
            signatures[source.path] = entry[0]
    return signatures


def _input_files(command: ExecStep) -> Iterator[InputSource]:
    for source in command.inputs.values():
        for member in source if isinstance(source, list) else (source,):
            if member.path is not None:
                yield member


def recorded_bindings(
    table: JobTable, position: int, consumed: Consumption, action: ActionFacts, put_blob: Callable[[bytes], str]
) -> dict[str, Any]:
    """Everything that the step consumes, as `step_start` records it: `{name: [{id, sha256}]}`."""
    bindings: dict[str, Any] = {".action": [action_entry(table, position, action)]}
    for slot in table.slots:
        entry = consumed.entries.get(slot.name)
        if entry is None:
            continue  # the slot has no value, and the step fails for that
        if isinstance(entry, Members):
            bindings[slot.name] = long_list(entry.recorded, put_blob)
        else:
            bindings[slot.name] = [entry.to_json()]
    return bindings


def action_entry(table: JobTable, position: int, action: ActionFacts) -> dict[str, Any]:
    """The action as it is recorded; with its versions, and with its files if they are few, so that a plan can name what
    has changed."""
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
    """`manifest.yaml`: the planned jobs with their bindings. It is for people; the planner never reads it."""
    entries: list[bytes] = []
    environments: dict[str, Any] = {}
    for node, bindings in jobs:
        table, position = graph.table_at(node)
        action = actions[table.name]
        if (environment := action.environment) is not None:
            environments[environment.lock] = {"sha256": environment.sha256, "packages": dict(environment.packages)}
        entry = {
            "id": table.job_id(position),
            "action": action.name,
            "action_sha256": action.sha256,
            "bindings": dict(bindings),
            "outputs": [table.artifact_id(a, position) for a in range(len(table.artifacts))],
        }
        entries.append(canonical_json(entry))
    parts = {"workflow": canonical_json(graph.workflow.name), "jobs": canonical_list(entries)}
    if environments:
        parts["environments"] = canonical_json(environments)
    if composition is not None:
        parts["composition"] = canonical_json(composition)
    return canonical_object(parts)


def step_needs(decl: JobDecl) -> StepNeeds:
    """What the job requires of its backend."""
    wanted = decl.sandbox
    if not decl.resources and wanted == _NO_SANDBOX_OPTIONS:
        return NO_NEEDS
    return StepNeeds(wanted.required, wanted.network, wanted.memory, wanted.processes, wanted.disk, decl.resources)


_NO_SANDBOX_OPTIONS = SandboxDecl()
