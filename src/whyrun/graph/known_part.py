"""The part of a workflow that can be expanded without its missing inputs, so that its own mistakes are told. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from whyrun.graph.template import expressions_in
from whyrun.workflow.model import First, InputRef, JobDecl, Loop, Ref, Template, Workflow


def known_part(workflow: Workflow, inputs: Collection[str]) -> Workflow:
    """The workflow without the jobs that depend, in any way, on an input whose ID is not among `inputs`."""
    readers: dict[str, list[str]] = {}  # an input's ID or a job's name → the jobs that read it
    missing: list[str] = []
    for prefix, flow in _flows(workflow, ""):
        missing += [id_ for name in flow.inputs if (id_ := f"Input:{prefix}{name}") not in inputs]
        for name, decl in flow.jobs.items():
            for read in _reads(decl, flow, prefix):
                readers.setdefault(read, []).append(prefix + name)
    gone: set[str] = set()
    while missing:
        for job in readers.get(missing.pop(), ()):
            if job not in gone:
                gone.add(job)
                missing.append(job)
    return _without(workflow, "", gone)


def _flows(workflow: Workflow, prefix: str) -> Iterator[tuple[str, Workflow]]:
    yield prefix, workflow
    for name, imported in workflow.imports.items():
        yield from _flows(imported.workflow, f"{prefix}{name}/")


def _reads(decl: JobDecl, flow: Workflow, prefix: str) -> set[str]:
    paths = [output.path for output in decl.outputs.values()]
    templates: list[Template] = [*decl.with_.values(), *decl.env.values(), decl.condition, *paths]
    found = {prefix + job for job in decl.needs}
    for template in templates:
        for expression in expressions_in(template):
            for ref in expression.refs:
                found |= {_name(r, prefix) for r in (ref.candidates if isinstance(ref, First) else (ref,))}
    leaves = [leaf.path for output in decl.outputs.values() for leaf in output.leaves]
    of_leaves = [s.loop for path in leaves for _, selectors in path for s in selectors if isinstance(s, Loop)]
    for loop in (*decl.loops, *of_leaves):
        source = flow.loops[loop].source
        if isinstance(source, InputRef):
            found.add(_name(source, prefix))
    return found


def _name(ref: Ref, prefix: str) -> str:
    return f"Input:{prefix}{ref.name}" if isinstance(ref, InputRef) else prefix + ref.job


def _without(workflow: Workflow, prefix: str, gone: Collection[str]) -> Workflow:
    return replace(
        workflow,
        jobs={name: decl for name, decl in workflow.jobs.items() if prefix + name not in gone},
        imports={
            name: replace(imported, workflow=_without(imported.workflow, f"{prefix}{name}/", gone))
            for name, imported in workflow.imports.items()
        },
    )
