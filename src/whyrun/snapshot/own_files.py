"""What a workflow is read from: the files of a project that no output may be published on top of."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from whyrun.log.settings import CONFIG_FILE
from whyrun.snapshot.linked import RealPaths
from whyrun.snapshot.lookup import LookedUp
from whyrun.workflow.model import Workflow


def own_files(
    file: Path,
    workflow: Workflow,
    others: Sequence[Path],
    looked_up: Mapping[str, LookedUp],
    project: Path,
    paths: RealPaths,
) -> dict[str, str]:
    """Path in the project → what it is, as a message has it. `others`: files that were given beside the workflow.

    Those outside of it may be among them: no output lies there.
    """
    named = _named(file, workflow, others, looked_up, project)
    found = {os.path.normpath(path): what for path, what in named.items()}
    for path, what in named.items():  # whoever writes where a link leads writes over it, too
        for place, way in paths.other_places(path, followed=True):
            found.setdefault(place, f"{what}, {way}")
    return found


def _named(
    file: Path, workflow: Workflow, others: Sequence[Path], looked_up: Mapping[str, LookedUp], project: Path
) -> dict[str, str]:
    """Every such file, by its path from the project folder or an absolute one."""
    folder = Path(os.path.abspath(file)).parent
    found: dict[str, str] = {"connections.yaml": "where the connections of the project stand"}
    for job, action in looked_up.items():
        for path in action.facts.files if action.facts is not None else ():
            found.setdefault(path, f"code that `{job}` uses")
    # Also where there is none: the nearest one says which folder is the project.
    settings = [level / CONFIG_FILE for level in (folder, *folder.parents)]
    sources = [file.parent / key for key in workflow.sources]  # from where they are read: see `_from`
    for files, what in (
        (settings, "where the settings of the project stand"),
        (others, "a file that is given with this workflow"),
        (sources, "a file that this workflow imports"),
        ([file], "the file of this workflow"),
    ):
        found |= dict.fromkeys((_from(project, one) for one in files), what)
    return found


def _from(project: Path, file: Path) -> str:
    """With each `..` as it is written: after a link it does not lead back."""
    absolute = Path(os.getcwd(), file)
    return (absolute.relative_to(project) if absolute.is_relative_to(project) else absolute).as_posix()
