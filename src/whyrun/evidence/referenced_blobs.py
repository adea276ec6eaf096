"""Which blobs the runs refer to: `gc` keeps these, and `verify` reads them again. So everything kept is checked.

Hashes are searched as text, so that an event of a newer version that refers to a blob in a new way also counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from whyrun.artifacts.hashing import TREE_START, TreeFile, bytes_sha256, decode_tree, file_sha256
from whyrun.artifacts.store import Store
from whyrun.errors import WhyrunError, error
from whyrun.evidence.run_directory import RunDirectory

_HEX = re.compile(rb"[0-9a-f]{64,}")  # longer matches are dropped later: a lookaround takes twice as long
_HASH = re.compile("[0-9a-f]{64}")
_LIST = re.compile(rb'"blob":"([0-9a-f]{64})"')
# Where the log says that a hash is of a folder: (a marker that every such text contains, the pattern of the hash).
# A displaced path may be a file or a folder; the event does not say which.
_FOLDERS = (
    (b'"directory"', re.compile(rb'"sha256":"([0-9a-f]{64})","size":[0-9]+,"type":"directory"')),
    (b'"as":"d"', re.compile(rb'"sha256":"([0-9a-f]{64})","as":"d"')),
    (b'"as":"d"', re.compile(rb'"as":"d","id":"(?:[^"\\]|\\.)*","sha256":"([0-9a-f]{64})"')),  # in long lists
    (b'"file_displaced"', re.compile(rb'"file_displaced","path":"(?:[^"\\]|\\.)*","sha256":"([0-9a-f]{64})"')),
)
_CHUNK = 4 << 20
_OVERLAP = 16 << 10  # longer than any of these patterns with a long ID or path
UNKNOWN_REFERENCES_HINT = (
    "`whyrun verify` shows what refers to it. Restore it from a copy; without one, remove it, and blobs that only it "
    "refers to count as not needed"
)


@dataclass(slots=True)
class IndirectReferences:
    """Blobs that refer to other blobs. If one of them cannot be read, nobody knows which blobs are needed."""

    folders: set[str] = field(default_factory=set)  # or displaced files of the user, which may be folders
    lists: set[str] = field(default_factory=set)


def referenced_hashes(
    folders: Iterable[Path], store: Store, indirect: IndirectReferences | None = None
) -> Iterator[str]:
    """Every hash in the logs and manifests of these runs, and in the long lists that they refer to; with repetitions.

    `indirect` collects the blobs that refer to other blobs.
    """
    indirect = indirect or IndirectReferences()
    for folder in folders:
        run = RunDirectory(folder)
        for chunk in _chunks(run.events):
            yield from _hashes(chunk)
            indirect.lists.update(_lists(chunk))
            indirect.folders.update(_folders(chunk))
        # Reasons in the plan have the hashes of superseded versions: only the long lists of a plan are needed.
        for chunk in chain(_chunks(run.plan), _chunks(run.stages)):
            indirect.lists.update(_lists(chunk))
        for chunk in _chunks(run.manifest):
            yield from _hashes(chunk)
    for sha in indirect.lists:
        yield sha
        for chunk in _chunks(Path(store.path(sha))):
            yield from _hashes(chunk)
            indirect.folders.update(_folders(chunk))


def stored_folder_files(sha: str, store: Store, *, may_be_one: bool = False) -> tuple[TreeFile, ...]:
    """The files of a folder; none for other blobs. A hash does not say what it stands for, so the blob is read.

    STORE_DAMAGED if the answer is unknown: the blob starts like the manifest of a folder, or `may_be_one`, and its
    bytes do not match its hash or cannot be read.
    """
    path = store.path(sha)
    try:
        with open(path, "rb") as file:
            start = file.read(len(TREE_START))
            content = start + file.read() if start == TREE_START else b""
        if content or may_be_one:
            _check_hash(bytes_sha256(content) if content else file_sha256(path), sha, path)
        return decode_tree(content).files if content else ()
    except (FileNotFoundError, NotADirectoryError):
        return ()  # not in the store: a hash of something else, or a lost blob
    except OSError as refused:
        raise _damaged_reference(sha, f"cannot be read: {refused.strerror}", path) from None
    except ValueError:
        return ()  # an undamaged file that starts like the manifest of a folder


def check_long_lists(lists: Iterable[str], store: Store) -> None:
    """STORE_DAMAGED for a stored long list whose bytes do not match its hash."""
    for sha in lists:
        path = store.path(sha)
        with suppress(FileNotFoundError, NotADirectoryError):
            _check_hash(file_sha256(path), sha, path)


def stored_blobs(root: Path) -> Iterator[tuple[str, str, int]]:
    """Every blob of a store: hash, path, size. Other files are skipped."""
    if not root.is_dir():
        return
    for folder in sorted(os.scandir(root), key=lambda entry: entry.name):
        if len(folder.name) != 2 or not folder.is_dir(follow_symlinks=False):
            continue
        for entry in sorted(os.scandir(folder.path), key=lambda entry: entry.name):
            sha = folder.name + entry.name
            if _HASH.fullmatch(sha) and entry.is_file(follow_symlinks=False):
                yield sha, entry.path, entry.stat(follow_symlinks=False).st_size


def stored_names(root: Path) -> set[str]:
    """The hashes of all blobs, and perhaps other file names: ten times faster than `stored_blobs`."""
    names: set[str] = set()
    for folder in os.listdir(root) if root.is_dir() else ():
        with suppress(NotADirectoryError):
            names.update(map(folder.__add__, os.listdir(root / folder)))
    return names


def _check_hash(actual: str, sha: str, path: str) -> None:
    if actual != sha:
        raise _damaged_reference(sha, f"has other bytes (sha256 {actual})", path)


def _damaged_reference(sha: str, what: str, path: str) -> WhyrunError:
    message = f"the stored blob {sha} {what}, and it may refer to other blobs that are needed"
    return error("STORE_DAMAGED", message, file=path, hint=UNKNOWN_REFERENCES_HINT)


def _lists(chunk: bytes) -> Iterator[str]:
    return (sha.decode() for sha in _LIST.findall(chunk))


def _folders(chunk: bytes) -> Iterator[str]:
    """Look for the marker first: most chunks have none, and a fixed string is found faster than a pattern."""
    return (sha.decode() for marker, pattern in _FOLDERS if marker in chunk for sha in pattern.findall(chunk))


def _hashes(chunk: bytes) -> Iterator[str]:
    return (sha.decode() for sha in _HEX.findall(chunk) if len(sha) == 64)


def _chunks(path: Path) -> Iterator[bytes]:
    """The content of a file in overlapping pieces, so that no hash is cut in two; nothing if there is no file."""
    try:
        with path.open("rb") as file:
            before = b""
            while block := file.read(_CHUNK):
                yield before + block
                before = (before + block)[-_OVERLAP:]
    except (FileNotFoundError, NotADirectoryError):
        return
