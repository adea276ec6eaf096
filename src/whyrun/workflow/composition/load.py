"""Dataset plans from the disk, or from recorded sources."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from whyrun.errors import Diagnostic
from whyrun.workflow.composition.dataset_plan import PlanSource, read_plan
from whyrun.workflow.model import Workflow
from whyrun.workflow.nodes import Problems
from whyrun.workflow.parse import Reading
from whyrun.workflow.source import read_source

_MANIFEST_HINT = "name it: `--manifest inputs/manifest.json`"


def is_dataset_plan(path: Path) -> bool:
    """A `.json` file that is no workflow written as JSON. One that cannot be read is taken for what it seems to be."""
    if path.suffix.lower() != ".json":
        return False
    try:
        root = json.loads(read_source(path))
    except (OSError, ValueError, RecursionError):
        return True
    return not (isinstance(root, dict) and ("workflow" in root or "jobs" in root) and "steps" not in root)


def load_plan(path: Path, manifest: Path | None, project: Path, *, shown: str) -> Reading:
    """The plan and its manifest, or everything that is wrong with them."""
    unreadable: list[Diagnostic] = []
    text = _read(path, "the dataset plan", "FILE_MISSING", shown, unreadable)
    of_manifest = None
    if manifest is None:
        message = "the dataset plan was given without its inputs manifest"
        unreadable.append(Diagnostic("MANIFEST_MISSING", message, file=shown, hint=_MANIFEST_HINT))
    else:
        manifest_text = _read(manifest, "the inputs manifest", "MANIFEST_MISSING", str(manifest), unreadable)
        if manifest_text is not None:
            key = Path(os.path.relpath(manifest, path.parent)).as_posix()
            of_manifest = PlanSource(key, str(manifest), manifest_text)
    problems = Problems()
    part = None
    if text is not None:
        locate = _locator(manifest, project) if manifest is not None else str
        part = read_plan(PlanSource(path.name, shown, text), of_manifest, problems, locate)
    found = (*unreadable, *problems)
    return Reading(None if found else part, part, () if part is None else (part,), found)


def parse_plan(root: str, manifest: str, sources: Mapping[str, str]) -> Workflow:
    """A plan again, from its recorded sources. Where the datasets lie does not matter: what they were is recorded."""
    problems = Problems()
    part = read_plan(PlanSource(root, root, sources[root]), PlanSource(manifest, manifest, sources[manifest]), problems)
    found = tuple(problems)
    return Reading(None if found else part, part, (), found).complete()


def _read(path: Path, what: str, code: str, shown: str, told: list[Diagnostic]) -> str | None:
    try:
        return read_source(path)
    except UnicodeDecodeError:
        told.append(Diagnostic("JSON_SYNTAX", f"{what} is no UTF-8 text", file=shown, hint="save it as UTF-8"))
        return None
    except OSError as problem:
        reason = problem.strerror or "it cannot be opened"
    told.append(Diagnostic(code, f"{what} cannot be read: {reason}", file=shown, hint="check the path"))
    return None


def _locator(manifest: Path, project: Path) -> Callable[[str], str]:
    """`rel_path` → a path from the project folder.

    It is written from the folder of the manifest, or with the name of that folder first: `inputs/main.csv` in
    `inputs/manifest.json` is the file beside it. Decided by the words alone, never by what happens to exist.
    """
    folder = os.path.abspath(manifest.parent)
    root = os.path.abspath(project)

    def locate(rel_path: str) -> str:
        parts = PurePosixPath(rel_path).parts
        if len(parts) > 1 and parts[0] == os.path.basename(folder):
            parts = parts[1:]
        found = os.path.relpath(os.path.join(folder, *parts), root)
        if found.split(os.sep)[0] == "..":
            # Outside of the project, and still no path of this machine's: evidence has none. Links are followed first,
            # since `..` of a folder that is one leads elsewhere.
            found = os.path.relpath(os.path.join(os.path.realpath(folder), *parts), os.path.realpath(root))
        return Path(found).as_posix()

    return locate
