"""Transfers files to and from an E2B sandbox, with few requests, and without holding large files in memory."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import e2b
from e2b.sandbox.filesystem.filesystem import WriteEntry

from whyrun.execution.backends.base import LARGEST_READ, Source, WorkerLost
from whyrun.execution.backends.e2b.calls import SandboxConnection
from whyrun.execution.bundle.unpack import is_whole
from whyrun.execution.files.safe_files import is_copied, too_large

if TYPE_CHECKING:
    from e2b import Sandbox

_TOGETHER = 4 << 20  # bytes in one request; larger files are streamed alone
_MANY = 500  # files in one request
_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")  # names that are safe as a form's file name
_PACKED = "packed"  # folder below the root for archives in transfer
_TMP_PREFIX = "e2b-"
_NO_LIMIT = 0.0


class CommandFailed(WorkerLost):
    """A command of ours ended with an error. The sandbox itself works."""


class Files:
    """Files below one folder of the sandbox. Following links is harmless there: they cannot leave the sandbox."""

    def __init__(self, sandbox: Sandbox, connection: SandboxConnection, root: str, tmp: Path) -> None:
        """`tmp`: a scratch folder of the host. Fetched files may contain secrets until they are redacted, so they are
        kept among scratch files and removed with them."""
        self._sandbox = sandbox
        self._connection = connection
        self._root = root
        self._tmp = tmp
        self._numbers = count(1)

    # --- to the sandbox -----------------------------------------------------------------------------------------

    def put(self, files: Mapping[str, Source]) -> None:
        together: dict[str, bytes] = {}
        size = 0
        for path, source in files.items():
            if isinstance(source, Path) and source.is_dir():
                self._put_folder(path, source)
            elif isinstance(source, Path) and source.stat().st_size > _TOGETHER:
                self._put_stream(path, source)
            else:
                data = source if isinstance(source, bytes) else source.read_bytes()
                if not _PLAIN.fullmatch(path):
                    self._write({path: data})
                    continue
                size += len(data)
                if size > _TOGETHER or len(together) == _MANY:
                    self._write(together)
                    together, size = {}, len(data)
                together[path] = data
        self._write(together)

    def _write(self, files: Mapping[str, bytes]) -> None:
        """Write files in one request. A single file is named in the URL, which can hold any name."""
        if not files:
            return
        entries = [WriteEntry(path=self._at(path), data=data) for path, data in files.items()]
        limit = _transfer_limit(sum(map(len, files.values())))
        self._connection.call(lambda: self._sandbox.files.write_files(entries, request_timeout=_NO_LIMIT), limit)

    def _put_stream(self, path: str, source: Path) -> None:
        def send() -> None:
            with open(source, "rb") as file:
                self._sandbox.files.write(self._at(path), file, request_timeout=_NO_LIMIT)

        self._connection.call(send, _transfer_limit(source.stat().st_size))

    def _put_folder(self, path: str, source: Path) -> None:
        """Send a folder as an archive, which keeps empty folders and executable bits."""
        packed = f"{_PACKED}/{next(self._numbers)}.tar"
        with tempfile.TemporaryDirectory(dir=self._tmp, prefix=_TMP_PREFIX) as folder:
            archive = Path(folder) / "archive"
            with tarfile.open(archive, "w", dereference=True) as tar:
                tar.add(source, ".")
            self._put_stream(packed, archive)
        archive_path, target = shlex.quote(self._at(packed)), shlex.quote(self._at(path))
        self.run(f"rm -rf {target} && mkdir -p {target} && tar -xf {archive_path} -C {target}")
        self.remove(packed)

    # --- from the sandbox ---------------------------------------------------------------------------------------

    def get(self, path: str, limit: int = LARGEST_READ) -> bytes:
        def receive() -> bytes:
            data = bytearray()
            with self._sandbox.files.read(self._at(path), format="stream", request_timeout=_NO_LIMIT) as pieces:
                for piece in pieces:
                    data += piece
                    if len(data) > limit:
                        break
            return bytes(data)

        try:
            data = self._connection.call(receive)
        except e2b.NotFoundException:
            return b""
        if len(data) > limit:
            raise WorkerLost(str(too_large(path, limit)))
        return data

    def tail(self, path: str, size: int) -> bytes:
        """The last bytes of a file; empty if there is none."""
        packed = f"{_PACKED}/{next(self._numbers)}.tail"
        there, end = shlex.quote(self._at(path)), shlex.quote(self._at(packed))
        self.run(
            f"mkdir -p {shlex.quote(self._at(_PACKED))} && if test -f {there}; then tail -c {size} {there} > {end}; fi"
        )
        data = self.get(packed)
        self.remove(packed)
        return data

    def fetch(self, path: str, target: Path) -> bool:
        def receive() -> None:
            with (
                self._sandbox.files.read(self._at(path), format="stream", request_timeout=_NO_LIMIT) as pieces,
                open(target, "wb") as file,
            ):
                for piece in pieces:
                    file.write(piece)

        try:
            self._connection.call(receive)
        except e2b.NotFoundException:
            return False
        return True

    def fetch_tree(self, path: str, target: Path) -> bool:
        if not self._connection.call(lambda: self._sandbox.files.exists(self._at(path))):
            return False
        packed = f"{_PACKED}/{next(self._numbers)}.tar"
        archive_path, folder = shlex.quote(self._at(packed)), shlex.quote(self._at(path))
        # Exit status 1 of tar means that a file changed: processes that a step left running may still write.
        self.run(
            f"mkdir -p {shlex.quote(self._at(_PACKED))} && "
            f"tar -cf {archive_path} --ignore-failed-read --warning=none -C {folder} . || [ $? = 1 ]"
        )
        with tempfile.TemporaryDirectory(dir=self._tmp, prefix=_TMP_PREFIX) as temporary:
            archive = Path(temporary) / "archive"
            if not self.fetch(packed, archive):
                raise WorkerLost(f"`{path}` did not come back from the sandbox")
            try:
                extract_untrusted(archive, target)
            except (tarfile.TarError, ValueError) as problem:
                raise WorkerLost(f"`{path}` came back damaged: {problem}") from None
        self.remove(packed)
        return True

    def remove(self, path: str) -> None:
        try:
            self._connection.call(lambda: self._sandbox.files.remove(self._at(path)))
        except e2b.NotFoundException:
            pass

    def run(self, command: str, user: str | None = None) -> str:
        try:
            return self._connection.call(
                lambda: self._sandbox.commands.run(command, user=user, timeout=_NO_LIMIT)
            ).stdout
        except e2b.CommandExitException as failed:
            raise CommandFailed(f"a command failed in the sandbox: {(failed.stderr or '').strip()[-500:]}") from None

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"


def _transfer_limit(size: int) -> float:
    """Seconds after which a transfer of this many bytes counts as hanging, even on a slow line."""
    return 120 + size / 50_000


def extract_untrusted(archive: Path, target: Path) -> None:
    """Extract files and folders, and links as links. Writes nothing through a link and nothing outside the target."""
    target.mkdir(parents=True, exist_ok=True)
    with (
        open(archive, "rb") as packed,
        tarfile.open(fileobj=packed, mode="r:", encoding="utf-8", errors="surrogateescape") as tar,
    ):
        members = {os.path.normpath(member.name): member for member in tar.getmembers()}
        if not is_whole(packed, tar.offset):
            raise ValueError("the archive is cut off")
        links = {name for name, member in members.items() if member.issym()}
        for name, member in members.items():
            if name == ".":
                continue
            parts = name.split("/")
            if not is_copied(len(parts), len(os.fsencode(name))):
                continue
            behind = any("/".join(parts[:length]) in links for length in range(1, len(parts)))
            if name.startswith(("/", "..")) or behind:
                raise ValueError(f"`{member.name}` leads elsewhere")
        for name, member in sorted(members.items(), key=lambda item: (item[1].issym(), item[0])):
            if not is_copied(name.count("/") + 1, len(os.fsencode(name))):
                continue  # too deep, or its path is too long
            try:
                _extract(tar, member, target / name)
            except (KeyError, FileExistsError, NotADirectoryError, IsADirectoryError) as problem:
                raise ValueError(f"`{member.name}` cannot be there with the others: {problem}") from None


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
    elif member.issym():
        path.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(member.linkname, path)
    elif member.isfile() or member.islnk():
        path.parent.mkdir(parents=True, exist_ok=True)
        source = tar.extractfile(member)
        if source is None:  # a hard link to something that is not a file
            raise KeyError(member.linkname)
        with source, open(path, "wb") as file:
            shutil.copyfileobj(source, file)
