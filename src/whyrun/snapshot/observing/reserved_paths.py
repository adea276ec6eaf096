"""The paths that no output may be published to, as found on disk; `graph.publishing.conflicts` compares them.

These are the files that a workflow is read from, the patterns of inputs and of `code:`, and the reserved folders.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from whyrun.errors import Diagnostic
from whyrun.graph.publishing.conflicts import (
    PublishedOutputs,
    ReservedFolder,
    own_file_problems,
    path_problems,
    pattern_problems,
    reserved_folder_problems,
    reserved_folders_in_patterns,
)
from whyrun.graph.publishing.patterns import Pattern, fixed_parts, is_pattern
from whyrun.graph.tables import Graph
from whyrun.project_config import CONFIG_FILE
from whyrun.snapshot.actions.lookup import LookedUp
from whyrun.snapshot.observing.symlinks import RealPaths, links_of, single_paths
from whyrun.workflow.model import Workflow


def path_conflicts(
    graph: Graph,
    own: Mapping[str, str],
    patterns: Sequence[Pattern],
    reserved: Sequence[ReservedFolder],
    paths: RealPaths,
) -> list[Diagnostic]:
    """Conflicts with own files, patterns and reserved folders; where there are links, also with inputs and each other.

    Patterns are compared only if all else is fine: an output on top of an own file would be reported twice.
    """
    links = links_of(graph, paths)
    outputs = PublishedOutputs(graph, links)
    problems = [*reserved_folders_in_inputs(graph, reserved, paths), *own_file_problems(outputs, own)]
    if links:  # without links, `expand` has compared all paths already
        problems.extend(path_problems(graph, links))
    return problems or [
        *reserved_folder_problems(outputs, reserved),
        *reserved_folders_in_patterns(patterns, reserved),
        *pattern_problems(outputs, patterns),
    ]


# --- files that the workflow is read from ------------------------------------------------------------------------


def own_files(
    file: Path,
    workflow: Workflow,
    others: Sequence[Path],
    looked_up: Mapping[str, LookedUp],
    project: Path,
    paths: RealPaths,
) -> dict[str, str]:
    """Path in the project → what it is, for messages. `others`: files that were given with the workflow.

    Absolute paths outside of the project may be among them. No output is published there, so they do no harm.
    """
    named = _named_files(file, workflow, others, looked_up, project)
    own = {os.path.normpath(path): what for path, what in named.items()}
    for path, what in named.items():  # writing to the target of a link changes the file, too
        for other_path, way in paths.other_paths(path, followed=True):
            own.setdefault(other_path, f"{what}, {way}")
    return own


def _named_files(
    file: Path, workflow: Workflow, others: Sequence[Path], looked_up: Mapping[str, LookedUp], project: Path
) -> dict[str, str]:
    """Every such file, by its path from the project folder or an absolute one."""
    folder = Path(os.path.abspath(file)).parent
    named: dict[str, str] = {"connections.yaml": "the connections file of the project"}
    for job, action in looked_up.items():
        for path in action.facts.files if action.facts is not None else ():
            named.setdefault(path, f"code that `{job}` uses")
    # Also where there is none yet: a new one would make another folder the project.
    settings = [level / CONFIG_FILE for level in (folder, *folder.parents)]
    sources = [file.parent / key for key in workflow.sources]
    for files, what in (
        (settings, "the settings file of the project"),
        (others, "a file that is given with this workflow"),
        (sources, "a file that this workflow imports"),
        ([file], "the file of this workflow"),
    ):
        named |= dict.fromkeys((_from_project(project, one) for one in files), what)
    return named


def _from_project(project: Path, file: Path) -> str:
    """Keeps each `..` as it is written: after a link, `..` does not lead back."""
    absolute = Path(os.getcwd(), file)
    return (absolute.relative_to(project) if absolute.is_relative_to(project) else absolute).as_posix()


# --- patterns ----------------------------------------------------------------------------------------------------


def patterns_of(graph: Graph, of_inputs: Mapping[str, str], paths: RealPaths) -> list[Pattern]:
    """`of_inputs`: by the ID of the input. If several owners have the same pattern, the first stands for all."""
    owners: dict[tuple[str, bool], str] = {}
    for id_, text in of_inputs.items():
        owners.setdefault((text, False), f"`{id_}`")
    for table in graph.tables:
        for text in table.decl.code:
            if is_pattern(text):  # a single file is one of `own_files`
                owners.setdefault((text, True), f"`code:` of `{table.name}`")
    return [Pattern(text, owner, is_code, _forms(text, paths)) for (text, is_code), owner in sorted(owners.items())]


def _forms(text: str, paths: RealPaths) -> tuple[tuple[str, ...], ...]:
    parts = os.path.relpath(os.path.join(paths.root, text), paths.root).split(os.sep)
    fixed = fixed_parts(parts)
    real = paths.look("/".join(fixed)).path if fixed else ""
    if real == "/".join(fixed) or real.startswith("/"):
        return (tuple(parts),)
    return tuple(parts), (*filter(None, real.split("/")), *parts[len(fixed) :])


# --- reserved folders --------------------------------------------------------------------------------------------


def reserved_folder(path: Path, what: str, elsewhere: str, files: Collection[str], paths: RealPaths) -> ReservedFolder:
    return ReservedFolder(path.name, os.path.realpath(path), paths.inside(path), what, elsewhere, files)


def reserved_folders_in_inputs(
    graph: Graph, folders: Sequence[ReservedFolder], paths: RealPaths
) -> Iterator[Diagnostic]:
    """Input folders that contain a reserved folder: every run would change them, even while a step reads them."""
    for folder in folders:
        for name, value in graph.inputs.items():
            for path in single_paths([value]):
                if paths.contains(path, folder.real_path):
                    holds = f"holds `{folder.name}`, {folder.what}, which every run changes"
                    hint = f"name a folder in it, or {folder.elsewhere}"
                    yield Diagnostic("INPUT_TYPE", f"`{name}`: the folder `{path}` {holds}", hint=hint)
