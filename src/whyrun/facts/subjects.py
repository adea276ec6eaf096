"""Arguments of commands: the jobs, artifacts, inputs and runs that they name, and those that name the same project.

An unknown ID is an error.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from whyrun.errors import WhyrunError
    from whyrun.graph.tables import Graph, Slot
    from whyrun.planning.answers.explain import CommandContext
    from whyrun.project import Project
    from whyrun.snapshot.records import Records
    from whyrun.workflow.inputs import InputValue

KINDS = ("Job:", "Artifact:", "Input:")


def is_id(word: str) -> bool:
    return word.startswith(KINDS)


def is_run_name(word: str) -> bool:
    from whyrun.log.journal import RUN_NAME

    return RUN_NAME.fullmatch(word) is not None


@dataclass(frozen=True, slots=True)
class Subject:
    """One job, artifact, input or parameter.

    `node` is the instance of its job; an input has none. `slot` is the parameter's; the parameter `action` has none.
    """

    kind: Literal["job", "artifact", "input", "parameter"]
    id: str
    node: int = -1
    slot: Slot | None = None
    value: InputValue | None = None


def find_subject(graph: Graph, text: str, *, patterns: bool = False, records: Records | None = None) -> Subject:
    """The subject that an ID names; an unknown ID is an error.

    `patterns`: whether its hint may offer a pattern. `records`: for a hint that says when a former job ran.
    """
    from whyrun.errors import WhyrunError
    from whyrun.ids import CanonicalId, job_of, parse_id
    from whyrun.planning.id_matching import not_canonical, unknown_id

    try:
        identity = parse_id(text)
    except WhyrunError as problem:
        raise not_canonical(problem, text, graph) from None
    if identity.kind == "Job":
        if text not in graph.node_of:
            unknown = unknown_id(text, list(graph.node_of), patterns=patterns, graph=graph)
            raise _with_past(unknown, text, text, records)
        return Subject("job", text, graph.node_of[text])
    if identity.kind == "Artifact":
        if text not in graph.artifact_of:
            unknown = unknown_id(text, list(graph.artifact_of), patterns=patterns, graph=graph)
            job = job_of(text) if len(identity.segments) > 1 else ""
            raise _with_past(unknown, text, job, records)
        return Subject("artifact", text, graph.node(graph.artifact_of[text]))
    name = identity.folder + identity.segments[0].name
    if len(identity.segments) == 1 or f"Input:{name}" in graph.inputs:
        return Subject("input", text, value=_input(graph, text))
    job = str(CanonicalId("Job", identity.imports, identity.segments[:1]))
    if job in graph.node_of:
        node = graph.node_of[job]
        table, position = graph.table_at(node)
        path = table.path(position)
        own = {slot.input_id(path): slot for slot in table.slots if not slot.binding}
        if text == f"Input:{path}.action":
            return Subject("parameter", text, node)
        if text in own:
            return Subject("parameter", text, node, own[text])
        raise unknown_id(text, [f"Input:{path}.action", *own])
    raise unknown_id(text, [f"Input:{id_.removeprefix('Job:')}.action" for id_ in graph.node_of])


def _with_past(unknown: WhyrunError, text: str, job: str, records: Records | None) -> WhyrunError:
    """The error, with the last run of a job that the workflow had before."""
    import shlex

    from whyrun.errors import error
    from whyrun.snapshot.records import run_name

    record = None if records is None else records.steps.get(job)
    if record is None:
        return unknown
    (problem,) = unknown.diagnostics
    hint = f"it was there in {run_name(record.latest.run)}: `whyrun history {shlex.quote(text)}`"
    return error(problem.code, problem.message, hint=hint)


def find_subjects(graph: Graph, text: str, records: Records | None = None) -> list[Subject]:
    """All subjects that match an ID in which `*` stands for a name or index, in the order of the graph."""
    from whyrun.planning.id_matching import match_nodes, read_pattern, unknown_id
    from whyrun.snapshot.snapshot import leaf_inputs

    if "*" not in text or text in graph.node_of or text in graph.artifact_of:
        return [find_subject(graph, text, patterns=True, records=records)]
    if text.startswith("Job:"):
        return [Subject("job", graph.job_id(node), node) for node in match_nodes(graph, text)]
    pattern = read_pattern(text, lambda: graph)
    if text.startswith("Artifact:"):
        match_nodes(graph, text)  # raises if nothing matches
        artifacts = [id_ for id_ in graph.artifact_of if pattern.matches(id_)]
        return [Subject("artifact", id_, graph.node(graph.artifact_of[id_])) for id_ in artifacts]
    inputs = {**graph.inputs, **dict(leaf_inputs(graph.inputs))}
    matching = [Subject("input", id_, value=value) for id_, value in inputs.items() if pattern.matches(id_)]
    if not matching:
        raise unknown_id(text, list(inputs))
    return matching


def _input(graph: Graph, text: str) -> InputValue:
    from whyrun.errors import error
    from whyrun.graph.inputs import lookup
    from whyrun.planning.id_matching import result_for, unknown_id
    from whyrun.workflow.inputs import IndexProblem

    try:
        return lookup(graph.inputs, text)
    except IndexProblem as problem:
        if problem.code == "INDEX_PARENT_MISSING":
            raise result_for(graph, text) or unknown_id(text, list(graph.inputs)) from None
        raise error(problem.code, str(problem), hint=problem.hint or "elements are counted from 0") from None


# --- arguments for commands in hints ---------------------------------------------------------------------------------


def command_arguments(project: Project, *, with_inputs: bool = True) -> str:
    """The arguments that make another command use the same workflow, inputs and state, each after a space."""
    import shlex

    from whyrun.project import DEFAULT_FILE

    arguments = [] if str(project.file) == DEFAULT_FILE else [str(project.file)]
    if with_inputs and project.manifest_file is not None:
        arguments += ["--manifest", str(project.manifest_file)]
    if with_inputs and project.inputs_file is not None:
        arguments += ["--inputs", str(project.inputs_file)]
    for text in project.sets if with_inputs else ():
        arguments += ["--set", text]
    if project.state_override is not None:
        arguments += ["--state", project.state_override]
    return "".join(f" {shlex.quote(argument)}" for argument in arguments)


def command_context(project: Project) -> CommandContext:
    """The arguments and folder of this command, for the commands that its answer suggests."""
    from whyrun.planning.answers.explain import CommandContext

    folder = os.path.relpath(project.folder)
    return CommandContext(command_arguments(project), "" if folder == "." else f"{folder}/")
