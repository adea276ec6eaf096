"""Unpacks a bundle on another machine: `python unpack.py BUNDLE FOLDER SHA256`.

Uses only the standard library, because this file is sent before the bundle. It does not trust the archive: it checks
the hash first, and then allows only plain files, and links between them, below the folder.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sys
import tarfile
from typing import IO

_CHUNK = 1 << 20
_END_MARK = 2 * tarfile.BLOCKSIZE  # at least this many zero bytes end an archive


class BundleRefused(Exception):
    """The archive has another hash, is damaged, or would write outside its folder."""


def unpack(data: bytes, folder: str, sha256: str) -> None:
    """Unpack all or nothing. An existing folder has the same content, because its name belongs to this hash."""
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise BundleRefused(f"the bundle has the hash {actual}, but {sha256} was announced")
    if os.path.isdir(folder):
        return
    part = f"{folder}.part-{os.getpid()}"
    os.makedirs(part)
    try:
        _unpack_into(data, part)
        os.rename(part, folder)
    except OSError:
        if not os.path.isdir(folder):  # else another process was faster, with the same content
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _unpack_into(data: bytes, folder: str) -> None:
    try:
        file = io.BytesIO(data)
        with tarfile.open(fileobj=file, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
            members = archive.getmembers()
            if not is_whole(file, archive.offset):
                raise BundleRefused("the bundle is no archive: it is cut off or damaged")
            check_members(members)
            # Links last, so that no file is written through a link.
            for member in sorted(members, key=lambda member: member.issym()):
                _put(archive, member, f"{folder}/{member.name}")
    except tarfile.TarError as problem:
        raise BundleRefused(f"the bundle is no archive: {problem}") from None


def is_whole(file: IO[bytes], end: int) -> bool:
    """Whether the archive is complete: only zeros follow the `end` that `tarfile` found. `tarfile` takes everything
    that is not a header for the end, also a truncated header, so a cut archive would look complete."""
    file.seek(end)
    zeros = 0
    while chunk := file.read(_CHUNK):
        if chunk.strip(b"\0"):
            return False
        zeros += len(chunk)
    return zeros >= _END_MARK


def check_members(members: list[tarfile.TarInfo]) -> None:
    links = {member.name for member in members if member.issym()}
    seen: set[str] = set()
    for member in members:
        name = member.name
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.SYMTYPE):
            raise BundleRefused(f"`{name}` is neither a file nor a link")
        if not _is_plain(name):
            raise BundleRefused(f"`{name}` does not name a path in the folder")
        if name in seen:
            raise BundleRefused(f"`{name}` comes twice")
        seen.add(name)
        parents = name.split("/")[:-1]
        if any("/".join(parents[: count + 1]) in links for count in range(len(parents))):
            raise BundleRefused(f"`{name}` lies behind a link")
        if member.issym() and not _stays_inside(member.linkname, len(parents)):
            raise BundleRefused(f"`{name}` is a link that leads out of the folder: {member.linkname}")


def _is_plain(name: str) -> bool:
    return "\0" not in name and all(part not in ("", ".", "..") for part in name.split("/"))


def _stays_inside(target: str, depth: int) -> bool:
    """`depth`: the number of folders above the link. `..` is allowed only at the beginning: later it could go up from
    the target of another link, and leave the folder."""
    parts = target.split("/")
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    return ups <= depth and (ups == len(parts) or _is_plain("/".join(parts[ups:])))


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if member.issym():
        os.symlink(member.linkname, path)
        return
    source = archive.extractfile(member)
    assert source is not None
    mode = 0o755 if member.mode & 0o100 else 0o644
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(source, file, _CHUNK)


def main(bundle: str, folder: str, sha256: str) -> None:
    with open(bundle, "rb") as file:
        data = file.read()
    try:
        unpack(data, folder, sha256)
    except BundleRefused as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main(*sys.argv[1:])
