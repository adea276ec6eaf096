"""The environments that a project has, and those among them that nothing locks any more."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from whyrun.environments.locks import read_lock
from whyrun.environments.making import FACTS, PART, Made, alone, environment_folder
from whyrun.errors import WhyrunError


class Present(msgspec.Struct, frozen=True):
    folder: Path
    made: Made | None  # None: its `whyrun.json` is gone, or cannot be read

    @property
    def bytes(self) -> int:
        """On disk. Files that uv shares with its cache count here, too."""
        return sum(os.lstat(f"{parent}/{name}").st_size for parent, _, files in os.walk(self.folder) for name in files)


def present_environments(environments: Path) -> list[Present]:
    if not environments.is_dir():
        return []
    folders = sorted(entry.path for entry in os.scandir(environments) if entry.is_dir(follow_symlinks=False))
    return [Present(Path(folder), _facts(Path(folder))) for folder in folders]


def _facts(folder: Path) -> Made | None:
    try:
        return msgspec.json.decode((folder / FACTS).read_bytes(), type=Made)
    except (OSError, msgspec.MsgspecError):
        return None


def unused_environments(environments: Path, project: Path) -> list[Present]:
    """Those whose lock file is gone, or locks something else now, and those that another Python made."""
    locked: dict[str, str | None] = {}
    unused = []
    for one in present_environments(environments):
        if one.made is None or one.folder.name.startswith(PART):
            unused.append(one)
            continue
        if one.made.lock not in locked:
            try:
                locked[one.made.lock] = read_lock(project, one.made.lock).sha256
            except WhyrunError:
                locked[one.made.lock] = None
        sha256 = locked[one.made.lock]
        if sha256 is None or environment_folder(environments, sha256) != one.folder:
            unused.append(one)
    return unused


def remove_environments(environments: Path, unused: list[Present]) -> None:
    with alone(environments):
        for one in unused:
            # First under the name of an unfinished one: nobody enters what is half removed.
            part = environments / f"{PART}{one.folder.name.removeprefix(PART)}"
            shutil.rmtree(part, ignore_errors=part != one.folder)
            if part != one.folder:
                os.rename(one.folder, part)
                shutil.rmtree(part)
