"""Runs that a new `whyrun.toml` hides: with another project folder, the state is another, too."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path

from whyrun.log.runs import STATE_FOLDER, WorkflowState, project_dir_for


def state_left_behind(workflow_file: str | os.PathLike[str], state: WorkflowState) -> Path | None:
    """Where the runs of a workflow that seems to have none are: in a folder between its file and the project. There
    they were kept before a `whyrun.toml` above it made another folder the project."""
    project = project_dir_for(workflow_file)
    if state.state_dir != project / STATE_FOLDER or state.runs_dir.exists():
        return None
    folder = Path(os.path.abspath(workflow_file)).parent
    between = takewhile(lambda one: one != project, (folder, *folder.parents))
    states = (WorkflowState(one / STATE_FOLDER, state.workflow) for one in between)
    return next((one.state_dir for one in states if one.runs_dir.is_dir()), None)
