"""The part of an invalid workflow that can still be expanded, so that its mistakes are reported in the same pass. Pure.

Everything that depends on something unknown is left out: a single entry of a job's `with:` where possible, the whole
job only if its instances are unknown. This removes edges and paths and adds none, so every problem of the rest is also
a problem of the whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from whyrun.errors import Diagnostic
from whyrun.graph.inputs import Scope
from whyrun.graph.loops import loop_values, rows_of
from whyrun.graph.ragged import NOT_NESTED, Nest, Results, nested
from whyrun.graph.template import expressions_in, inputs_of_loop
from whyrun.ids import Index, absolute, without_indices
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import (
    ImportDecl,
    InputRef,
    JobDecl,
    Loop,
    LoopDecl,
    OutputDecl,
    OutputRef,
    Ref,
    Template,
    Workflow,
    refs_in,
)

_INSTANCES = frozenset({"for", "exclude", "include"})  # the keys that make a job's instances


def known_part(workflow: Workflow, inputs: Mapping[str, InputValue]) -> tuple[Workflow, list[Diagnostic]]:
    """The part of the workflow that can be expanded with these inputs, and the problems of loops and instances."""
    problems: list[Diagnostic] = []
    flows: dict[str, _Flow] = {}
    jobs: dict[str, _Job] = {}
    declared = {prefix + name: decl for prefix, flow in _flows(workflow, "") for name, decl in flow.jobs.items()}
    names = {without_indices(id_) for id_ in inputs}
    for flow, scope in _Scopes(inputs, declared, problems).of(workflow, "", NOT_NESTED, {}):
        known = flows[scope.prefix] = _Flow(scope.prefix, scope.loops, names, jobs)
        found = _with_instances(flow, scope, problems)
        jobs.update({scope.prefix + name: _Job(decl, known) for name, decl in found})
    return _reduced(workflow, "", flows), problems


def without_jobs_at(workflow: Workflow, problems: Collection[Diagnostic]) -> Workflow:
    """The workflow with the jobs that have these problems marked as broken, so that `known_part` drops them."""
    starts = sorted((decl.place.source, decl.place.line) for _, f in _flows(workflow, "") for decl in f.jobs.values())
    lines = [(problem.file or "", problem.line or 0) for problem in problems]
    faulty = {starts[at - 1] for line in lines if (at := bisect_right(starts, line)) > 0}

    def marked(flow: Workflow) -> Workflow:
        return replace(
            flow,
            jobs={
                name: replace(decl, broken=decl.broken | {"for"})
                if (decl.place.source, decl.place.line) in faulty
                else decl
                for name, decl in flow.jobs.items()
            },
            imports={name: replace(i, workflow=marked(i.workflow)) for name, i in flow.imports.items()},
        )

    return marked(workflow)


def _flows(workflow: Workflow, prefix: str) -> Iterator[tuple[str, Workflow]]:
    yield prefix, workflow
    for name, imported in workflow.imports.items():
        yield from _flows(imported.workflow, f"{prefix}{name}/")


class _Scopes(NamedTuple):
    """The loops of each file whose values are known."""

    inputs: Mapping[str, InputValue]
    declared: Mapping[str, JobDecl]
    problems: list[Diagnostic]

    def of(
        self, flow: Workflow, prefix: str, nest: Nest, outer: Mapping[str, Sequence[Index]]
    ) -> Iterator[tuple[Workflow, Scope]]:
        loops = dict(outer)
        for loop in flow.loops.values():
            source = loop.source
            if not self._is_given(loop, prefix, nest) or any(other not in loops for other in loop.after):
                continue
            if isinstance(source, OutputRef) and not _is_declared(
                self.declared.get(absolute(prefix, source.job)), source
            ):
                continue
            before = len(self.problems)
            values = loop_values(loop, prefix, self.inputs, self.problems, loops, Results(), nest)
            if len(self.problems) == before:
                loops[loop.name] = values
        positions = {name: {value: i for i, value in enumerate(values)} for name, values in loops.items()}
        yield flow, Scope(prefix, loops, positions, {}, {}, self.inputs, self.problems, nest=nest)
        for name, imported in flow.imports.items():
            if _is_known(imported, loops):
                yield from self.of(imported.workflow, f"{prefix}{name}/", *nested(nest, prefix, imported, loops))

    def _is_given(self, loop: LoopDecl, prefix: str, nest: Nest) -> bool:
        folder = nest.first_folder(prefix)
        return folder is not None and all(f"Input:{folder}{name}" in self.inputs for name in inputs_of_loop(loop))


def _is_known(imported: ImportDecl, loops: Collection[str]) -> bool:
    """Whether it is known how often the import is there."""
    return "for" not in imported.broken and all(loop in loops for loop in imported.loops)


def _is_declared(job: JobDecl | None, result: OutputRef) -> bool:
    """Whether the result that a loop goes over could be read."""
    if job is None or result.output not in job.outputs or f"outputs.{result.output}" in job.broken:
        return False
    leaves = {tuple(name for name, _ in leaf.path) for leaf in job.outputs[result.output].leaves}
    return not result.leaf or tuple(name for name, _ in result.leaf) in leaves


def _with_instances(flow: Workflow, scope: Scope, problems: list[Diagnostic]) -> Iterator[tuple[str, JobDecl]]:
    """The jobs whose instances are known."""
    for name, decl in flow.jobs.items():
        if decl.broken & _INSTANCES or not all(loop in scope.loops for loop in decl.loops):
            continue
        before = len(problems)
        rows_of(scope, decl)
        if len(problems) == before:
            yield name, decl


class _Flow(msgspec.Struct, frozen=True):
    """What is known of one imported workflow file."""

    prefix: str
    loops: Mapping[str, Sequence[Index]]
    inputs: Collection[str]  # without the indices of imports
    jobs: Mapping[str, _Job]  # of all files, by name with imports

    def can_read(self, template: Template, env: Collection[str]) -> bool:
        return all(
            expression.env <= set(env) and all(map(self._is_known, refs_in(expression.refs)))
            for expression in expressions_in(template)
        )

    def _is_known(self, ref: Ref) -> bool:
        if isinstance(ref, InputRef):
            return f"Input:{absolute(self.prefix, ref.name)}" in self.inputs
        job = self.jobs.get(absolute(self.prefix, ref.job))
        return job is not None and job.has(ref.output, leaf=bool(ref.leaf))


class _Job(msgspec.Struct, frozen=True):
    decl: JobDecl
    flow: _Flow

    def has(self, output: str, *, leaf: bool) -> bool:
        decl = self.decl.outputs.get(output)
        return decl is not None and (not leaf or self._knows_leaves(decl))

    def _is_broken(self, output: OutputDecl) -> bool:
        return f"outputs.{output.name}" in self.decl.broken

    def _knows_leaves(self, output: OutputDecl) -> bool:
        used = [s.loop for leaf in output.leaves for _, sel in leaf.path for s in sel if isinstance(s, Loop)]
        return not self._is_broken(output) and all(loop in self.flow.loops for loop in used)

    def reduced(self) -> JobDecl:
        """The job without the parts that cannot be expanded."""
        decl, flow = self.decl, self.flow
        env = self._readable("env", decl.env, ())
        condition = decl.condition
        if "if" in decl.broken or not flow.can_read(condition, env):
            condition = None
        return replace(
            decl,
            with_=self._readable("with", decl.with_, env),
            env=env,
            condition=condition,
            outputs={name: self._reduced_output(output) for name, output in decl.outputs.items()},
            needs=tuple(job for job in decl.needs if absolute(flow.prefix, job) in flow.jobs),
        )

    def _readable(self, area: str, entries: Mapping[str, Template], env: Collection[str]) -> dict[str, Template]:
        return {
            name: template
            for name, template in entries.items()
            if f"{area}.{name}" not in self.decl.broken and self.flow.can_read(template, env)
        }

    def _reduced_output(self, output: OutputDecl) -> OutputDecl:
        if not self._knows_leaves(output):
            output = replace(output, leaves=())
        if self._is_broken(output) or not self.flow.can_read([output.path, output.key], ()):
            output = replace(output, path=None, append=False, key=None)
        return output


def _reduced(workflow: Workflow, prefix: str, flows: Mapping[str, _Flow]) -> Workflow:
    flow = flows[prefix]
    return replace(
        workflow,
        loops={name: loop for name, loop in workflow.loops.items() if name in flow.loops},
        jobs={name: flow.jobs[prefix + name].reduced() for name in workflow.jobs if prefix + name in flow.jobs},
        imports={
            name: replace(imported, workflow=_reduced(imported.workflow, f"{prefix}{name}/", flows))
            for name, imported in workflow.imports.items()
            if f"{prefix}{name}/" in flows
        },
    )
