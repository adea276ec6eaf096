"""What stands at the paths that a step writes itself (`workdir: project`), put aside while the step runs.

So a stale file is never collected, and a step that fails or is killed leaves what was there. A journal in the scratch
folder says what was put aside; it is written first. Whoever ends the step puts it back: its worker, the backend if the
worker died, or the next run if the host died as well. A kill may interrupt each of them, and putting back be repeated.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from whyrun import disk
from whyrun.disk import Area

JOURNAL, _ASIDE = "displaced.json", "displaced"


class _Journal(msgspec.Struct, frozen=True):
    project: str
    paths: list[str]  # relative to it
    there: list[bool]  # whether something stood there


def displace(scratch: Path, project: Path, paths: Iterable[str]) -> None:
    """Put aside what stands at these paths."""
    names = sorted(set(paths))
    if not names:
        return
    journal = _Journal(str(project), names, [os.path.lexists(project / name) for name in names])
    (scratch / _ASIDE).mkdir(exist_ok=True)
    part = scratch / f"{JOURNAL}.part"
    part.write_bytes(msgspec.json.encode(journal))
    disk.rename(Area.STEP, part, scratch / JOURNAL)
    for number, name in enumerate(names):
        if journal.there[number]:
            disk.rename(Area.STEP, project / name, scratch / _ASIDE / str(number))


def put_back(scratch: Path) -> None:
    """Put everything back. What the step left there, which nobody has collected, becomes part of its scratch files."""
    try:
        journal = msgspec.json.decode((scratch / JOURNAL).read_bytes(), type=_Journal)
    except FileNotFoundError:
        return
    project = Path(journal.project)
    for number, name in enumerate(journal.paths):
        aside, path = scratch / _ASIDE / str(number), project / name
        untouched = journal.there[number] and not os.path.lexists(aside)  # it was not put aside, or is back already
        if not untouched and os.path.lexists(path):
            _keep(path, scratch / "work" / name)
        if os.path.lexists(aside):
            path.parent.mkdir(parents=True, exist_ok=True)
            disk.rename(Area.STEP, aside, path)
    os.unlink(scratch / JOURNAL)


def _keep(path: Path, kept: Path) -> None:
    """Keep a partial output as evidence."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(kept):
        disk.rename(Area.STEP, path, kept)
