"""The fingerprint of an action: name, version, distribution and, for project code, what its source does.

Called once per job definition. Pure apart from reading the project's files; nothing is imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from whyrun.actions.builtin.python import entry_file
from whyrun.actions.imports import project_code
from whyrun.actions.module_names import ModuleNames
from whyrun.actions.registry import ActionInfo, resolve_action
from whyrun.artifacts.hashing import canonical_json, digest, file_sha256
from whyrun.errors import Diagnostic, InvalidError, WhyrunError, error

_TRIES = 20
_COMPILED = "__pycache__"


def action_fingerprint(
    uses: str,
    with_literals: Mapping[str, Any],
    project: Path,
    code_globs: Sequence[str] = (),
    info: ActionInfo | None = None,
    modules: ModuleNames | None = None,
) -> tuple[str, dict[str, Any]]:
    """`(sha256, facts)`. `with_literals` needs to hold `call` or `script` for `python`; the rest is not looked at.
    `info`: the action, if it was resolved already. `modules`: what was seen of the project for other jobs.

    The facts are what the hash is over, for `show` and for telling which file of an action changed.
    """
    info = info or resolve_action(uses, project)
    facts: dict[str, Any] = {"name": info.name, "version": info.version, "distribution": info.distribution}
    entry = _entry(info, with_literals, project)
    if entry is not None:
        called = info.name == "python" and "call" in with_literals
        beside = _modules_named(project, code_globs)
        code = project_code(project, entry, imported=called, beside=beside, modules=modules)
        if code.problems:
            raise InvalidError(
                Diagnostic("INVALID_USES", f"the action `{uses}` cannot be read: {p}", hint="correct that file")
                for p in code.problems
            )
        facts["source"] = dict(code.digests)
    if code_globs:
        facts["code"] = code_files(project, code_globs)
    return digest("action/v1", canonical_json(facts)), facts


def _entry(info: ActionInfo, with_literals: Mapping[str, Any], project: Path) -> Path | None:
    if info.origin == "project":
        assert info.path is not None
        return project / info.path
    if info.name == "python" and info.origin == "builtin":
        return entry_file(with_literals, project)
    return None


def code_files(project: Path, globs: Sequence[str]) -> dict[str, str]:
    """The files that `code:` names, by path relative to the project, with their hashes; ordered by path bytes."""
    found = {
        path.relative_to(project).as_posix(): file_sha256(path)
        for pattern in globs
        for path in _matches(project, pattern)
    }
    return dict(sorted(found.items(), key=lambda item: item[0].encode()))


def _modules_named(project: Path, globs: Sequence[str]) -> list[Path]:
    """Those of the files under `code:` that may read the docstrings or the source of the action's own modules."""
    try:
        return [path for pattern in globs for path in _matches(project, pattern) if path.suffix == ".py"]
    except WhyrunError:
        return []  # `code_files` tells, once the source itself is found to be in order


def named_files(project: Path, globs: Sequence[str]) -> frozenset[str]:
    """What `code:` names now, by path relative to the project; it may be nothing."""
    return frozenset(path.relative_to(project).as_posix() for pattern in globs for path in _found(project, pattern))


def _found(project: Path, pattern: str) -> list[Path]:
    for _ in range(_TRIES):
        try:
            return _found_now(project, pattern)
        except FileNotFoundError:
            continue  # a folder was removed while it was looked into: what is there now?
    return _found_now(project, pattern)


def _found_now(project: Path, pattern: str) -> list[Path]:
    """As patterns of inputs have it: `*` and `**` stand for no name that begins with a dot, among them that of our own
    state. And what Python keeps of a module that it has read is not written by anybody: the module is."""
    dotted = [part for part in pattern.split("/") if part.startswith(".")]

    def is_meant(part: str) -> bool:
        return any(fnmatchcase(part, each) for each in dotted) if part.startswith(".") else part != _COMPILED

    paths = (path for path in project.glob(pattern) if path.is_file())
    return [path for path in paths if all(map(is_meant, path.relative_to(project).parts))]


def _matches(project: Path, pattern: str) -> list[Path]:
    if os.path.isabs(pattern) or ".." in Path(pattern).parts:
        raise error("PATH_OUTSIDE", f"`code: {pattern}` leaves the project folder", hint="use a path inside it")
    matches = _found(project, pattern)
    if not matches:
        raise error(
            "FILE_MISSING",
            f"`code: {pattern}` matches no file",
            hint="patterns are relative to the project folder; `**/*.py` also looks into subfolders",
        )
    return matches
