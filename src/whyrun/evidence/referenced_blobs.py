"""Which blobs runs speak of: `gc` keeps them, and `verify` reads them again. So all that is kept is checked.

A hash is looked for as text: an event of a newer version that names a blob in a new way counts all the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from whyrun.artifacts.hashing import TREE_START, TreeFile, bytes_sha256, decode_tree, file_sha256
from whyrun.artifacts.store import Store
from whyrun.errors import WhyrunError, error
from whyrun.evidence.run_directory import RunDirectory

_HEX = re.compile(rb"[0-9a-f]{64,}")  # and then those that are no longer: a look around each match takes twice as long
_HASH = re.compile("[0-9a-f]{64}")
_LIST = re.compile(rb'"blob":"([0-9a-f]{64})"')
# Where the text says that a hash is of a folder: (what stands in any such text, the hash). Of what was displaced it
# says neither that nor the opposite.
_FOLDERS = (
    (b'"directory"', re.compile(rb'"sha256":"([0-9a-f]{64})","size":[0-9]+,"type":"directory"')),
    (b'"as":"d"', re.compile(rb'"sha256":"([0-9a-f]{64})","as":"d"')),
    (b'"as":"d"', re.compile(rb'"as":"d","id":"(?:[^"\\]|\\.)*","sha256":"([0-9a-f]{64})"')),  # in long lists
    (b'"file_displaced"', re.compile(rb'"file_displaced","path":"(?:[^"\\]|\\.)*","sha256":"([0-9a-f]{64})"')),
)
_CHUNK = 4 << 20
_OVERLAP = 16 << 10  # more than any of these takes: an ID or a path may be long
DOUBT_HINT = (
    "`whyrun verify` tells what speaks of it. Restore it from a copy; where there is none, remove it, and what only it "
    "names counts as not needed"
)


@dataclass(slots=True)
class Naming:
    """Blobs that name other blobs, as far as the text that speaks of them says so: who cannot read one of them cannot
    say what is needed."""

    folders: set[str] = field(default_factory=set)  # or things of the user's, which may be folders
    lists: set[str] = field(default_factory=set)


def hashes_of_runs(folders: Iterable[Path], store: Store, naming: Naming | None = None) -> Iterator[str]:
    """Every hash in their logs and manifests, and in the long lists that these and the plans refer to; some often.

    `naming` gets those that name others.
    """
    naming = naming or Naming()
    for folder in folders:
        run = RunDirectory(folder)
        for chunk in _chunks(run.events):
            yield from _hashes(chunk)
            naming.lists.update(_lists(chunk))
            naming.folders.update(_folders(chunk))
        # The plan also has the hashes of what was superseded, as reasons: of it, only its long lists are needed.
        for chunk in _chunks(run.plan):
            naming.lists.update(_lists(chunk))
        for chunk in _chunks(run.manifest):
            yield from _hashes(chunk)
    for sha in naming.lists:
        yield sha
        for chunk in _chunks(Path(store.path(sha))):
            yield from _hashes(chunk)
            naming.folders.update(_folders(chunk))


def files_of_folder(sha: str, store: Store, *, may_be_one: bool = False) -> tuple[TreeFile, ...]:
    """What is in it, if it is a folder. A hash alone does not say what it is of, so the blob is looked at.

    STORE_DAMAGED where nobody can say: it begins as the manifest of a folder, or `may_be_one` by what is known of it,
    and has other bytes than its name says, or cannot be read.
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
        return ()  # not in the store: the hash of something else, or lost
    except OSError as refused:
        raise _doubtful(sha, f"cannot be read: {refused.strerror}", path) from None
    except ValueError:
        return ()  # a file, and sound, that begins as a folder's manifest does


def check_lists(lists: Iterable[str], store: Store) -> None:
    """STORE_DAMAGED for a long list that is there and not as it was."""
    for sha in lists:
        path = store.path(sha)
        with suppress(FileNotFoundError, NotADirectoryError):
            _check_hash(file_sha256(path), sha, path)


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


def _check_hash(found: str, sha: str, path: str) -> None:
    if found != sha:
        raise _doubtful(sha, f"has other bytes (sha256 {found})", path)


def _doubtful(sha: str, what: str, path: str) -> WhyrunError:
    message = f"the stored blob {sha} {what}, and it may name others that are needed"
    return error("STORE_DAMAGED", message, file=path, hint=DOUBT_HINT)


def _lists(chunk: bytes) -> Iterator[str]:
    return (found.decode() for found in _LIST.findall(chunk))


def _folders(chunk: bytes) -> Iterator[str]:
    """The mark is looked for first: most of a log has none, and it is found much quicker than a pattern."""
    return (found.decode() for mark, said in _FOLDERS if mark in chunk for found in said.findall(chunk))


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
