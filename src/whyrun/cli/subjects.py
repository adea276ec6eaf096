"""What the words of a command name: jobs, artifacts, inputs, runs. Strict: an ID that names nothing is an error."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from whyrun.cli.main import MANIFEST_HELP

if TYPE_CHECKING:
    from whyrun.graph.graph import Graph, Slot
    from whyrun.workflow.inputs import InputValue

Function = TypeVar("Function", bound=Callable[..., Any])
KINDS = ("Job:", "Artifact:", "Input:")


def is_run_name(word: str) -> bool:
    from whyrun.log.journal import RUN_NAME

    return RUN_NAME.fullmatch(word) is not None


def words_and_world(is_word: Callable[[str], bool], metavar: str) -> Callable[[Function], Function]:
    """For commands with optional words before an optional FILE: `status [ID]... [FILE]`, `log [RUN] [FILE]`.

    The command gets `words` and `world`. What `is_word` refuses is the file, and there is one at most.
    """

    def decorate(function: Function) -> Function:
        from functools import wraps

        @wraps(function)
        def opened(
            words: tuple[str, ...],
            manifest: str | None,
            inputs: str | None,
            sets: tuple[str, ...],
            state: str | None,
            **rest: Any,
        ) -> Any:
            from whyrun.errors import error
            from whyrun.snapshot.world import World

            own = [word for word in words if is_word(word) or _is_run_in_short(word, is_word)]
            files = [word for word in words if word not in own]
            if len(files) > 1:
                raise error("USAGE", f"`{files[1]}` is one word too many", hint=f"the words are {metavar}")
            file = files[0] if files else None
            world = World.open(file, inputs=inputs, sets=sets, state=state, manifest=manifest)
            return function(world=world, words=tuple(own), **rest)

        decorated: Any = opened
        for option in reversed(
            [
                click.argument("words", nargs=-1, metavar=metavar),
                click.option("--manifest", metavar="FILE.json", help=MANIFEST_HELP),
                click.option("--inputs", metavar="FILE.yaml", help="Values of inputs, from a file."),
                click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="One input. Repeatable."),
                click.option("--state", metavar="DIR", help="Where state lives, instead of .whyrun."),
            ]
        ):
            decorated = option(decorated)
        result: Function = decorated
        return result

    return decorate


def _is_run_in_short(word: str, is_word: Callable[[str], bool]) -> bool:
    """`r2` for `r0002` is no file, and hardly meant as one. It is no run either, and is refused as such."""
    from whyrun.log.runs import run_in_short

    run = run_in_short(word)
    return run is not None and is_word(run) and not os.path.exists(word)


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing asked about. `node` is its job instance (jobs, artifacts, parameters); `slot` that of a parameter,
    None there for the action."""

    kind: Literal["job", "artifact", "input", "parameter"]
    id: str
    node: int = -1
    slot: Slot | None = None
    value: InputValue | None = None


def find_subject(graph: Graph, text: str) -> Subject:
    """The one thing in the graph that an ID names."""
    from whyrun.ids import CanonicalId, parse_id
    from whyrun.planning.plan import match_nodes, unknown_id

    identity = parse_id(text)
    if identity.kind == "Job":
        return Subject("job", text, match_nodes(graph, text)[0])
    if identity.kind == "Artifact":
        return Subject("artifact", text, match_nodes(graph, text)[0])
    if len(identity.segments) == 1:
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


def find_subjects(graph: Graph, text: str) -> list[Subject]:
    """All that an ID names in which `*` stands for a whole name or index, in the order of the graph; or the one."""
    from whyrun.ids import IdPattern
    from whyrun.planning.plan import match_nodes, unknown_id
    from whyrun.snapshot.snapshot import leaf_inputs

    if "*" not in text or text in graph.node_of or text in graph.artifact_of:
        return [find_subject(graph, text)]
    if text.startswith("Job:"):
        return [Subject("job", graph.job_id(node), node) for node in match_nodes(graph, text)]
    pattern = IdPattern(text)
    if text.startswith("Artifact:"):
        match_nodes(graph, text)  # one that names nothing is an error
        found = [id_ for id_ in graph.artifact_of if pattern.matches(id_)]
        return [Subject("artifact", id_, graph.node(graph.artifact_of[id_])) for id_ in found]
    inputs = {**graph.inputs, **dict(leaf_inputs(graph.inputs))}
    matching = [Subject("input", id_, value=value) for id_, value in inputs.items() if pattern.matches(id_)]
    if not matching:
        raise unknown_id(text, list(inputs))
    return matching


def _input(graph: Graph, text: str) -> InputValue:
    from whyrun.errors import error
    from whyrun.planning.plan import unknown_id
    from whyrun.workflow.inputs import IndexProblem, lookup

    try:
        return lookup(graph.inputs, text)
    except IndexProblem as problem:
        if problem.code == "INDEX_PARENT_MISSING":
            raise unknown_id(text, list(graph.inputs)) from None
        raise error(problem.code, str(problem), hint="elements are counted from 0") from None
