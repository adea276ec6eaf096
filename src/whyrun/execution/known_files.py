"""Input files that the host has just hashed, so that a worker on the same files need not read them a second time.

What the host tells stands beside the command, never in it: which bytes a step reads is in its evidence, who hashed
them is not. A worker at another place is told nothing, and hashes what reached it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from whyrun.artifacts.stat_cache import StatCache
from whyrun.artifacts.stat_rows import Signature
from whyrun.execution.commands import ExecStep, InputSource

_WORTH = 1 << 20  # bytes: a smaller file is read as fast as it is spoken of
_MOST = 64  # files: a command should still fit its datagram


def known_files(cache: StatCache, project: str | os.PathLike[str], command: ExecStep) -> dict[str, Signature]:
    """By path, as the command has it: the signature under which the file is known to have the content that the command
    names. Files that were written too short before they were hashed have none (see `StatCache`)."""
    found: dict[str, Signature] = {}
    for source in _files(command):
        assert source.path is not None
        entry = cache.entry_of(os.path.join(project, source.path))
        if entry is None or entry[1] != source.sha256:
            continue
        _, _, size, _, _ = entry[0]
        if size >= _WORTH and len(found) < _MOST:
            found[source.path] = entry[0]
    return found


def _files(command: ExecStep) -> Iterator[InputSource]:
    for source in command.inputs.values():
        for member in source if isinstance(source, list) else (source,):
            if member.path is not None:
                yield member
