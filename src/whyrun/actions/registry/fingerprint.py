"""The fingerprint of an action: name, version, distribution and, for project code, what its source does.

Called once per job definition. Pure apart from reading the project's files; nothing is imported. Thousands of jobs may
share an action or a pattern: what was seen for one of them is not read again for the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whyrun.actions.builtin.python import entry_file
from whyrun.actions.imports import project_code
from whyrun.actions.registry import ActionInfo, resolve_action
from whyrun.actions.seen_code import SeenCode
from whyrun.artifacts.hashing import canonical_json, digest
from whyrun.errors import Diagnostic, InvalidError


def action_fingerprint(
    uses: str,
    with_literals: Mapping[str, Any],
    project: Path,
    code_globs: Sequence[str] = (),
    info: ActionInfo | None = None,
    seen: SeenCode | None = None,
) -> tuple[str, dict[str, Any]]:
    """`(sha256, facts)`. `with_literals` needs to hold `call` or `script` for `python`; the rest is not looked at.
    `info`: the action, if it was resolved already. `seen`: what was seen of the project for other jobs.

    The facts are what the hash is over, for `show` and for telling which file of an action changed.
    """
    info = info or resolve_action(uses, project)
    seen = seen or SeenCode(project)
    entry = _entry(info, with_literals, project)
    called = info.name == "python" and "call" in with_literals
    asked = (info.name, info.version, info.distribution, entry, called, *code_globs)
    if asked not in seen.fingerprints:
        facts = _facts(uses, info, entry, called, tuple(code_globs), seen)
        seen.fingerprints[asked] = digest("action/v1", canonical_json(facts)), facts
    return seen.fingerprints[asked]


def _facts(
    uses: str, info: ActionInfo, entry: Path | None, called: bool, code_globs: tuple[str, ...], seen: SeenCode
) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": info.name, "version": info.version, "distribution": info.distribution}
    if entry is not None:
        beside = seen.beside(code_globs)
        code = project_code(seen.project, entry, imported=called, beside=beside, modules=seen.modules)
        if code.problems:
            raise InvalidError(
                Diagnostic("INVALID_USES", f"the action `{uses}` cannot be read: {p}", hint="correct that file")
                for p in code.problems
            )
        facts["source"] = dict(code.digests)
    if code_globs:
        facts["code"] = seen.code(code_globs)
    return facts


def _entry(info: ActionInfo, with_literals: Mapping[str, Any], project: Path) -> Path | None:
    if info.origin == "project":
        assert info.path is not None
        return project / info.path
    if info.name == "python" and info.origin == "builtin":
        return entry_file(with_literals, project)
    return None
