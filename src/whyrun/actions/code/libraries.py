"""Which installed libraries the code of an action names, so that a worker can import them once, before it forks a
process for each step.

Only names that are certain to mean the same in every process: none if the code mentions what decides where modules are
found, or the environment, which a library may read when it is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import machinery
from pathlib import Path

from whyrun.actions.code.editable import editable_in
from whyrun.actions.code.import_facts import FileFacts, Import
from whyrun.actions.code.module_files import files_of, read_module
from whyrun.actions.code.source import SourceError
from whyrun.lazy_regex import lazy_regex

# Modules of Python that much code names, which take longer to import than a fork takes, and whose import changes
# nothing. Each makes every later fork dearer, so a worker has only those that the code of its steps names.
STANDARD = frozenset({"bz2", "logging", "lzma", "queue", "random", "shutil", "subprocess", "tempfile", "threading"})
_UNCERTAIN = lazy_regex(
    rb"environ|putenv|PYTHONPATH|addsitedir|importlib|__import__|runpy|load_source|\bexec\b"
    rb"|sys\s*\.\s*(?:path|meta_path|modules)|\bfrom\s+sys\s+import|\bsys\s+as\b|\bgetattr\(\s*sys\b"
)


def libraries_of_project_code(entry: Path, project: Path) -> tuple[Import, ...]:
    """Those that a file of the project and the project modules that it imports name."""
    root = str(project).rstrip("/")
    editable = editable_in(root)
    named: dict[Import, None] = {}
    queue, seen = [str(entry)], set[str]()
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            facts = read_module(path, root)
        except SourceError:
            return ()  # the step itself reports it
        if not _is_certain(facts):
            return ()
        for each in facts.imports:
            own = list(files_of(each, root, os.path.dirname(path), editable))
            queue += own
            if not own:
                named[each] = None
    return _libraries(named)


def libraries_of_plugin(target: str) -> tuple[Import, ...]:
    """Those that the module of an installed action names. The module itself is not imported before a fork: like a
    project's module it may hold state, such as a random generator."""
    module = target.partition(":")[0].split(".")
    folders: Sequence[str] | None = None
    for part in module[:-1]:
        spec = machinery.PathFinder.find_spec(part, folders)
        if spec is None or spec.submodule_search_locations is None:
            return ()
        folders = list(spec.submodule_search_locations)
    spec = machinery.PathFinder.find_spec(module[-1], folders)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ()
    try:
        facts = read_module(spec.origin, os.path.dirname(spec.origin))
    except SourceError:
        return ()
    named = {each: None for each in facts.imports if not each.level and each.module[:1] != (module[0],)}
    return _libraries(named) if _is_certain(facts) else ()


def _is_certain(facts: FileFacts) -> bool:
    return facts.source is not None and not _UNCERTAIN.search(facts.source)


def _libraries(named: dict[Import, None]) -> tuple[Import, ...]:
    known = {*sys.stdlib_module_names, "whyrun", "__main__"} - STANDARD
    return tuple(sorted((each for each in named if not each.level and each.module[0] not in known), key=_order))


def _order(one: Import) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return one.module, one.names
