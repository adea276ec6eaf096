"""The fingerprint of an action: name, version, distribution and, for project code, the canonical form of its source.

Called once per job definition. It reads the project's files and imports nothing. Thousands of jobs may share an action
or a pattern, so the `CodeCache` reads each file only once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whyrun.actions.builtin.python import entry_file
from whyrun.actions.code.code_cache import CodeCache
from whyrun.actions.code.imports import project_code
from whyrun.actions.description import ActionInfo
from whyrun.actions.registry.registry import resolve_action
from whyrun.artifacts.hashing import canonical_json, digest
from whyrun.errors import Diagnostic, InvalidError


def action_fingerprint(
    uses: str,
    with_literals: Mapping[str, Any],
    project: Path,
    code_globs: Sequence[str] = (),
    info: ActionInfo | None = None,
    cache: CodeCache | None = None,
) -> tuple[str, dict[str, Any]]:
    """`(sha256, facts)`. Of `with_literals`, only `call` and `script` of `python` are used.

    `info`: the action, if it is resolved already. `cache`: shared by the jobs of one plan. The facts are the hashed
    content; `show` prints them, and they tell which file of an action changed.
    """
    info = info or resolve_action(uses, project)
    cache = cache or CodeCache(project)
    entry = _entry(info, with_literals, project)
    imported = info.name == "python" and "call" in with_literals
    key = (info.name, info.version, info.distribution, entry, imported, *code_globs)
    if key not in cache.fingerprints:
        facts = _facts(uses, info, entry, imported, tuple(code_globs), cache)
        cache.fingerprints[key] = digest("action/v1", canonical_json(facts)), facts
    return cache.fingerprints[key]


def _facts(
    uses: str, info: ActionInfo, entry: Path | None, imported: bool, code_globs: tuple[str, ...], cache: CodeCache
) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": info.name, "version": info.version, "distribution": info.distribution}
    if entry is not None:
        extra = cache.extra_modules(code_globs)
        code = project_code(cache.project, entry, imported=imported, extra=extra, modules=cache.modules)
        if code.problems:
            raise InvalidError(
                Diagnostic("INVALID_USES", f"the action `{uses}` cannot be read: {p}", hint="correct that file")
                for p in code.problems
            )
        facts["source"] = dict(code.digests)
    if code_globs:
        facts["code"] = cache.code(code_globs)
    return facts


def _entry(info: ActionInfo, with_literals: Mapping[str, Any], project: Path) -> Path | None:
    if info.origin == "project":
        assert info.path is not None
        return project / info.path
    if info.name == "python" and info.origin == "builtin":
        return entry_file(with_literals, project)
    return None
