"""Which blobs runs speak of: `gc` keeps them, and `verify` reads them again. So all that is kept is checked.

A hash is looked for as text: an event of a newer version that names a blob in a new way counts all the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from whyrun.artifacts.hashing import TreeFile, decode_tree
from whyrun.artifacts.store import Store
from whyrun.evidence.run_directory import RunDirectory

_HEX = re.compile(rb"[0-9a-f]{64,}")  # and then those that are no longer: a look around each match takes twice as long
_HASH = re.compile("[0-9a-f]{64}")
_LIST = re.compile(rb'"blob":"([0-9a-f]{64})"')
_CHUNK = 4 << 20
_OVERLAP = 128  # more than `"blob":"…"` has
_TREE_START = b'{"empty_dirs":'  # as `encode_tree` begins; what begins so and is none is refused by `decode_tree`


def hashes_of_runs(folders: Iterable[Path], store: Store) -> Iterator[str]:
    """Every hash in their logs and manifests, and in the long lists that these and the plans refer to; some often."""
    lists: set[str] = set()
    for folder in folders:
        run = RunDirectory(folder)
        for chunk in _chunks(run.events):
            yield from _hashes(chunk)
            lists.update(found.decode() for found in _LIST.findall(chunk))
        # The plan also has the hashes of what was superseded, as reasons: of it, only its long lists are needed.
        for chunk in _chunks(run.plan):
            lists.update(found.decode() for found in _LIST.findall(chunk))
        for chunk in _chunks(run.manifest):
            yield from _hashes(chunk)
    for sha in lists:
        yield sha
        for chunk in _chunks(Path(store.path(sha))):
            yield from _hashes(chunk)


def files_of_folder(sha: str, store: Store) -> tuple[TreeFile, ...]:
    """What is in it, if it is a folder. Nothing says of a hash what it is of, so the blob is looked at."""
    try:
        with open(store.path(sha), "rb") as file:
            start = file.read(len(_TREE_START))
            return decode_tree(start + file.read()).files if start == _TREE_START else ()
    except (FileNotFoundError, NotADirectoryError):
        return ()  # not in the store: the hash of something else, or lost
    except ValueError:
        return ()  # a file that begins as a folder's manifest does


def stored_blobs(root: Path) -> Iterator[tuple[str, str, int]]:
    """Every blob of a store: hash, path, size. Other things there are left alone."""
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
    """The hashes of all blobs, and perhaps names of other things: ten times as quick as a look at each."""
    found: set[str] = set()
    for folder in os.listdir(root) if root.is_dir() else ():
        with suppress(NotADirectoryError):
            found.update(map(folder.__add__, os.listdir(root / folder)))
    return found


def _hashes(chunk: bytes) -> Iterator[str]:
    return (found.decode() for found in _HEX.findall(chunk) if len(found) == 64)


def _chunks(path: Path) -> Iterator[bytes]:
    """The content of a file in pieces that overlap, so that no hash is cut in two; nothing, where there is none."""
    try:
        with path.open("rb") as file:
            before = b""
            while block := file.read(_CHUNK):
                yield before + block
                before = (before + block)[-_OVERLAP:]
    except (FileNotFoundError, NotADirectoryError):
        return
