"""What a workflow is read from: the files of a project that no output may be published on top of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from whyrun.log.runs import CONFIG_FILE
from whyrun.snapshot.lookup import LookedUp
from whyrun.workflow.model import Workflow


def own_files(
    file: Path, workflow: Workflow, others: Sequence[Path], looked_up: Mapping[str, LookedUp], project: Path
) -> dict[str, str]:
    """Path in the project → what it is, as a message has it. `others`: files that were given beside the workflow."""
    folder = Path(os.path.abspath(file)).parent
    found: dict[str, str] = {"connections.yaml": "where the connections of the project stand"}
    for job, action in looked_up.items():
        for path in action.facts.files if action.facts is not None else ():
            found.setdefault(path, f"code that `{job}` uses")
    # Also where there is none: the nearest one says which folder is the project.
    settings = [level / CONFIG_FILE for level in (folder, *folder.parents)]
    sources = [folder / key for key in workflow.sources]
    for files, what in (
        (settings, "where the settings of the project stand"),
        (others, "a file that is given with this workflow"),
        (sources, "a file that this workflow imports"),
        ([file], "the file of this workflow"),
    ):
        found |= dict.fromkeys(_inside(project, files), what)
    links = [path for path in found if os.path.islink(project / path)]
    for path, target in ((path, Path(os.path.realpath(project / path))) for path in links):
        for inside in _inside(Path(os.path.realpath(project)), [target]):  # whoever writes there writes over it, too
            found.setdefault(inside, found[path])
    return found


def _inside(project: Path, files: Iterable[Path]) -> Iterator[str]:
    """Those that lie in the project, as paths from there."""
    for file in files:
        path = PurePath(os.path.relpath(file, project))
        if path.parts[0] != os.pardir:
            yield path.as_posix()
