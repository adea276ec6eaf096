"""Removing the folders of runs that have a tombstone. Only a holder of the workflow's lock may do it."""

from __future__ import annotations

import os
from pathlib import Path

from whyrun import disk
from whyrun.disk import Area
from whyrun.log.runs import WorkflowState


def remove_pruned_folders(state: WorkflowState) -> int:
    """How many there were. Does what a killed prune left undone, too.

    A folder goes out of sight in one step before it is taken apart: who reads it meanwhile finds all of it or nothing.
    """
    away = state.pruned_folders
    _remove(away)
    for half_written in state.folder.glob(".tmp-*"):  # tombstones that never got their name
        disk.unlink(Area.PRUNE, half_written)
    there = state.folders_of_pruned()
    if not there:
        return 0
    disk.make_folders(Area.PRUNE, away)
    for name in there:
        disk.rename(Area.PRUNE, state.runs_dir / name, away / name)
    disk.sync_folder(Area.PRUNE, state.runs_dir)
    _remove(away)
    return len(there)


def _remove(folder: Path) -> None:
    if not folder.exists():
        return
    # What a failed step left in its scratch folder may forbid to be looked into or changed.
    for place, names, _ in os.walk(folder):
        for name in names:
            inside = os.path.join(place, name)
            if not os.path.islink(inside) and not os.access(inside, os.R_OK | os.W_OK | os.X_OK):
                os.chmod(inside, 0o700)
    disk.remove(Area.PRUNE, folder)
