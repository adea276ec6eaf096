"""A job's action, looked up: what is known of it, and what does not fit between the job and it, each with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from whyrun.actions.builtin import EFFECTFUL
from whyrun.actions.code.code_cache import CodeCache
from whyrun.actions.description import ActionInfo
from whyrun.actions.problem import NOT_LITERAL, Problem
from whyrun.actions.registry.registry import action_fingerprint, check_parameters, resolve_action
from whyrun.errors import Diagnostic, WhyrunError
from whyrun.graph.template import expressions_in
from whyrun.snapshot.snapshot import ActionFacts
from whyrun.workflow.model import JobDecl, OutputRef, Place

if TYPE_CHECKING:
    from whyrun.actions.inspection.inspector import Inspector


class LookedUp(msgspec.Struct, frozen=True):
    facts: ActionFacts | None  # None where something is wrong, or too little could be read of the job
    problems: tuple[Diagnostic, ...] = ()
    info: ActionInfo | None = None  # None where there is no such action
    misfits: tuple[Problem, ...] = ()  # those of `problems` that are about `with:`, for `parameter_summary`


def look_up_actions(
    jobs: Mapping[str, JobDecl], project: Path, inspector: Inspector, state_dir: Path
) -> dict[str, LookedUp]:
    """Those of many jobs, by name."""
    code_cache = CodeCache(project, state_dir)
    return {name: look_up_action(decl, project, inspector, code_cache) for name, decl in sorted(jobs.items())}


def look_up_action(
    decl: JobDecl, project: Path, inspector: Inspector | None = None, code_cache: CodeCache | None = None
) -> LookedUp:
    """Look up the action of a job. It does not repeat problems that `parse` has reported already (`JobDecl.broken`).

    `code_cache`: shared by the jobs of one plan.
    """
    code_cache = code_cache or CodeCache(project)
    place = decl.places.get("uses", decl.place)
    if not decl.uses:
        return LookedUp(None, tuple(_code_problems(decl, code_cache)))
    try:
        info = resolve_action(decl.uses, project, inspector)
    except WhyrunError as wrong:
        return LookedUp(None, (*_placed(wrong, place), *_code_problems(decl, code_cache)))
    literals = {key: _literal(value) for key, value in decl.with_.items()}
    outputs = {name: output.type for name, output in decl.outputs.items()}
    misfits = check_parameters(info, literals, outputs, project, inspector)
    if misfits or decl.broken:
        told = [p for p in misfits if ("with" if p.entry is None else f"with.{p.entry}") not in decl.broken]
        placed = [p.diagnostic(decl) for p in told]
        return LookedUp(None, (*placed, *_code_problems(decl, code_cache)), info, tuple(told))
    try:
        sha256, facts = action_fingerprint(decl.uses, literals, project, decl.code, info, code_cache)
    except WhyrunError as wrong:
        of_code = tuple(_code_problems(decl, code_cache))
        others = [d for d in _placed(wrong, place) if d.message not in {known.message for known in of_code}]
        return LookedUp(None, (*others, *of_code), info)
    around = None
    if decl.environment is not None or decl.container is not None or decl.workdir != "scratch":
        from whyrun.snapshot.actions.surroundings import Unfit, surroundings_of  # imported late: few jobs have them

        try:
            around = surroundings_of(decl, info, code_cache)
        except Unfit as unfit:
            return LookedUp(None, _placed(unfit.problem, decl.places.get(unfit.key, place)), info)
    deterministic = info.deterministic if decl.deterministic is None else decl.deterministic
    files = {**facts.get("source", {}), **facts.get("code", {})}
    effectful = decl.uses in EFFECTFUL  # no other action can have the name of a built-in one
    known = ActionFacts(decl.uses, sha256, deterministic, files, info.uncounted, _versions(info), effectful)
    if around is not None:
        known = around.of_action(known)
    return LookedUp(known, info=info)


def _versions(info: ActionInfo) -> dict[str, str]:
    """Of an action whose code is not in the project, the versions that stand for it."""
    found = {info.name: info.version} if info.version and info.origin != "project" and info.needs_inspection else {}
    package, _, version = info.distribution.rpartition(" ")
    return {**found, package: version} if package else found


def _code_problems(decl: JobDecl, code_cache: CodeCache) -> Iterator[Diagnostic]:
    if "code" in decl.broken:
        return
    for index, pattern in enumerate(decl.code):
        try:
            code_cache.code((pattern,))
        except WhyrunError as wrong:
            yield from _placed(wrong, decl.places.get(f"code[{index}]", decl.place))


def _placed(wrong: WhyrunError, place: Place) -> tuple[Diagnostic, ...]:
    return tuple(place.diagnostic(d.code, d.message, d.hint) for d in wrong.diagnostics)


def _literal(template: Any) -> Any:
    return NOT_LITERAL if any(True for _ in expressions_in(template)) else template


def may_read_json_as_files(jobs: Mapping[str, JobDecl]) -> bool:
    """Whether some script of `shell` may take JSON text for a file name. A quick look at the declarations: the check
    itself, in `parameter_checks`, needs the types of the graph."""
    documents = {output.name for decl in jobs.values() for output in decl.outputs.values() if output.type == "json"}
    for decl in (decl for decl in jobs.values() if documents and decl.uses == "shell"):
        refs = {
            name: [ref for each in expressions_in(value) for ref in each.refs] for name, value in decl.with_.items()
        }
        names = [n for n, of in refs.items() if any(isinstance(r, OutputRef) and r.output in documents for r in of)]
        script = decl.with_.get("run")
        if names and isinstance(script, str):
            from whyrun.actions.builtin.shell import json_as_files  # imported late: as elsewhere

            if next(json_as_files(script, names), None) is not None:
                return True
    return False
