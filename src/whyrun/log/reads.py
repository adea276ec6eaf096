"""What a step read without declaring it: the form of these observations in events, and the hash of a folder's names.

`step_complete` and `step_failed` hold a list of `Read`, sorted by path; a list of more than 64 is `{count, digest,
blob}`, as for bindings: see `decoding.observed_field`. Steps and the planner hash the names of a folder with the same
function. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec

from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.lazy_regex import lazy_regex

ReadKind = Literal["file", "folder", "absent", "unknown"]
SHA256 = r"^[0-9a-f]{64}$"
MOST_NAMES = 1000  # of a folder, for finding out what came or went
MOST_OUTSIDE = 16  # paths outside the project, recorded of one step

# Folders, at any depth of a path, in which nothing counts as read: state and byte code.
UNCOUNTED_FOLDERS = frozenset({".git", ".whyrun", "__pycache__"})
BYTE_CODE = (".pyc", ".pyo")
# Control characters, and bytes that are no UTF-8. Unusual spaces count: macOS makes names with them.
_UNRECORDED = lazy_regex("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Read(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One path that a step read, listed or looked for.

    `path`: relative to the project, with `/`; `.` is the project folder itself. `sha256`: of a file's bytes, of a
    folder's names; None for `absent` and `unknown`. `unknown`: the file changed while the step ran, so nobody knows
    what the step read.
    """

    path: str
    kind: ReadKind
    sha256: str | None = None
    by: Literal["python", "strace"] = "python"  # strace: only strace saw it


class LongReads(msgspec.Struct, frozen=True):
    count: int
    digest: str
    blob: str


Observed = list[Read] | LongReads


def reads_problem(reads: Sequence[Read]) -> str | None:
    """Why a log must not hold these reads, or None."""
    before = ""
    for read in reads:
        if not is_project_path(read.path):
            return f"`{read.path}` is not a path in the project, as reads are recorded"
        if read.path <= before:
            return f"`{read.path}` is read twice, or not in the order of paths"
        if (read.sha256 is not None) != (read.kind in ("file", "folder")):
            return f"the read `{read.path}` is `{read.kind}`, which does not go with its hash `{read.sha256}`"
        before = read.path
    return None


def is_project_path(path: str) -> bool:
    """Relative to the project, with `/`, and normalised; `.` is the project folder itself."""
    return path == "." or not any(part in ("", ".", "..") for part in path.split("/"))


def folder_sha256(names: Iterable[str], own: Collection[str] = ()) -> str:
    """The hash of a listed folder. `own`: names of files that the job itself publishes there, which do not count."""
    return bytes_sha256(canonical_json(counted_names(names, own)))


def counted_names(names: Iterable[str], own: Collection[str] = ()) -> list[str]:
    """Hidden names do not count, as in a pattern: editors, file managers and Git make them, and no bundle has them."""
    counted = (name for name in names if name not in UNCOUNTED_FOLDERS and not name.startswith("."))
    return sorted(name for name in counted if not name.endswith(BYTE_CODE) and name not in own and is_recordable(name))


def name_changes(sha256: str, newest_first: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """What came (`+`) or went (`-`) in a folder whose counted names had this hash, if that can be known: the newest
    names, or any one name, came; or one of the names that are known to have been there went. `newest_first`: the
    counted names of now."""
    if len(newest_first) > MOST_NAMES:
        return ()
    for count in range(1, len(newest_first) + 1):
        if folder_sha256(newest_first[count:]) == sha256:
            return tuple(f"+{name}" for name in sorted(newest_first[:count]))
    for name in newest_first:
        if folder_sha256([other for other in newest_first if other != name]) == sha256:
            return (f"+{name}",)
    for name in sorted({*known}.difference(newest_first))[:MOST_NAMES]:
        if folder_sha256([*newest_first, name]) == sha256:
            return (f"-{name}",)
    return ()


def as_code(files: Iterable[str], folders: Iterable[str]) -> list[str]:
    """The patterns for `code:` that declare these. That of a folder stands for the files in it, but for hidden ones."""
    listed = set(folders)
    parts = {path: path.rpartition("/") for path in files}
    single = {path for path, (above, _, name) in parts.items() if (above or ".") not in listed or name.startswith(".")}
    return sorted({*single, *(f"{folder}/*" if folder != "." else "*" for folder in listed)})


def is_recordable(path: str) -> bool:
    """Whether the log can name this path, and a terminal show it."""
    return not _UNRECORDED.search(path)


def own_names(published: Iterable[str], folder: str) -> frozenset[str]:
    """The names in `folder` (`.` for the project) that exist because a job publishes there. `published`: the paths of
    the files that all instances of the job publish."""
    start = "" if folder == "." else f"{folder}/"
    return frozenset(path[len(start) :].partition("/")[0] for path in published if path.startswith(start))
