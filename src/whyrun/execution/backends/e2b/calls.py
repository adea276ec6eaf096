"""Calls the E2B SDK without hanging: checks during each call whether the sandbox is alive.

A broken network neither answers nor refuses, and the SDK waits as long as its timeout. So each call runs in a thread of
its own, which is abandoned when the sandbox cannot be reached.
"""

from __future__ import annotations

import os
import queue
import re
import shlex
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import e2b
import httpx
from connectrpc.errors import ConnectError
from e2b.sandbox.filesystem.filesystem import WriteEntry

from whyrun.execution.backends.base import LARGEST_READ, Source, WorkerLost
from whyrun.execution.bundle.unpack import is_whole
from whyrun.execution.files.safe_files import is_copied, too_large

if TYPE_CHECKING:
    from e2b import Sandbox


T = TypeVar("T")

QUIET = 1.3  # seconds without a sign of life after which the sandbox is probed
PROBE = 1.5  # seconds for the answer to a probe
# Seconds without a sign of life after which the sandbox counts as lost. Networks come back, and until then the relay
# keeps all messages. The lifetime of a sandbox is much longer.
OUTAGE = 60.0
_POLL = 0.5  # seconds between two checks during a call
_PAUSE = 0.1  # seconds before another try
_TRIES = 3  # of one call while the sandbox answers others

# `ServiceBusy` and `Authentication` have no base class in common with the others. The SDK passes on some errors of its
# own transports: `HTTPError` for files, and `ConnectError` if a connection broke though the sandbox answers.
SDK_ERRORS = (
    e2b.SandboxException,
    e2b.AuthenticationException,
    e2b.exceptions.ServiceBusyException,
    httpx.HTTPError,
    ConnectError,
)
# The connection broke, the answer came too late, or the service was busy. The request may have been executed or not.
BROKEN = (
    e2b.TimeoutException,
    e2b.RateLimitException,
    e2b.exceptions.ServiceBusyException,
    httpx.TransportError,
    ConnectError,
)
BUSY = (e2b.RateLimitException, e2b.exceptions.ServiceBusyException)
GONE = (e2b.exceptions.SandboxNotRunningException, e2b.SandboxNotFoundException)


class SandboxConnection:
    """Tracks whether a sandbox can be reached. Once lost, it stays lost: every later call raises at once.

    A sandbox that is gone is lost at once; one that does not answer, after an outage of `outage` seconds.
    """

    def __init__(self, sandbox: Sandbox, outage: float = OUTAGE, clock: Callable[[], float] = time.monotonic) -> None:
        self._sandbox = sandbox
        self._outage = outage
        self._clock = clock
        self._alive = clock()
        self._lost: str | None = None
        self.end_of_life = ""  # why the service ends it, once that is known

    def seen_alive(self) -> None:
        """Record a sign of life."""
        self._alive = self._clock()

    def silent_for(self) -> float:
        return self._clock() - self._alive

    @property
    def is_silent(self) -> bool:
        return self.silent_for() >= QUIET

    def lose(self, reason: str) -> WorkerLost:
        self._lost = self._lost or reason
        return WorkerLost(self._lost)

    def gone(self) -> WorkerLost:
        return self.lose(f"the sandbox is gone{self.end_of_life}")

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    def check(self) -> None:
        if self._lost is not None:
            raise WorkerLost(self._lost)

    def check_alive(self) -> None:
        """Probe the sandbox, unless there was a sign of life just now. Raises `WorkerLost`."""
        self.check()
        if self.is_silent:
            self._answers()

    def _answers(self) -> bool:
        """Whether the sandbox answers a probe. Raises `WorkerLost` if it is lost."""
        try:
            # Not `is_running`: it waits twice its timeout, and takes a closed port for the end of the sandbox.
            _within(PROBE, lambda: self._sandbox.commands.list(request_timeout=PROBE))
        except SDK_ERRORS as problem:
            self.failed(problem)
            return False
        self.seen_alive()
        return True

    def failed(self, problem: Exception) -> None:
        """Handle a failed request. Raises `WorkerLost` unless it may be repeated."""
        self.check()
        if isinstance(problem, GONE):
            raise self.gone()
        if not (isinstance(problem, BROKEN) or is_stream_cut(problem)):
            raise self.lose(f"the sandbox refused a request: {short_message(problem)}")
        if self.silent_for() > self._outage:
            raise self.lose(f"the sandbox cannot be reached: {short_message(problem)}")

    def call(self, function: Callable[[], T], limit: float | None = None) -> T:
        """The result of a call that may be repeated. It is repeated after `limit` seconds, because its connection may
        hang though the sandbox answers others. The caller handles "not found" and a command's exit status.

        While the sandbox does not answer at all, the call waits until it does: see `OUTAGE`."""
        tried = 0
        while True:
            try:
                return self._watched(function, limit)
            except GONE as problem:
                self.failed(problem)
            except (e2b.NotFoundException, e2b.CommandExitException):
                self.seen_alive()
                raise
            except Exception as problem:
                if not (isinstance(problem, SDK_ERRORS) or is_stream_cut(problem)):
                    raise
                self.failed(problem)
                tried += self._answers()
                if tried == _TRIES:
                    raise self.lose(f"the sandbox cannot be used: {short_message(problem)}") from None
                time.sleep(_PAUSE * (tried or 1))

    def _watched(self, function: Callable[[], T], limit: float | None) -> T:
        self.check()
        deadline = None if limit is None else time.monotonic() + limit
        done: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
        threading.Thread(target=_perform, args=(function, done), daemon=True).start()
        interrupted = False
        while True:
            try:
                outcome = done.get(timeout=_POLL)
            except queue.Empty:
                self.check_alive()
                if interrupted and not self.is_silent:
                    # The sandbox is back. A connection from before may be dead without anybody telling.
                    raise e2b.TimeoutException("the connection was interrupted") from None
                interrupted = self.is_silent
                if deadline is not None and time.monotonic() > deadline:
                    raise e2b.TimeoutException(f"no answer within {limit:g} s") from None
                continue
            result = outcome()
            self.seen_alive()
            return result


def _within(limit: float, function: Callable[[], T]) -> T:
    """Limit a call in time. The SDK itself repeats calls beyond its timeout."""
    done: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
    threading.Thread(target=_perform, args=(function, done), daemon=True).start()
    try:
        outcome = done.get(timeout=limit)
    except queue.Empty:
        raise e2b.TimeoutException(f"no answer within {limit:g} s") from None
    return outcome()


def _perform(function: Callable[[], T], done: queue.SimpleQueue[Callable[[], T]]) -> None:
    try:
        result = function()
    except Exception as problem:
        caught = problem

        def fail() -> T:
            raise caught

        done.put(fail)
    else:
        done.put(lambda: result)


def is_stream_cut(problem: Exception) -> bool:
    """Whether the stream of a command ended before the command. The SDK has no exception type for that."""
    return type(problem) is Exception and "without an end event" in str(problem)


def short_message(problem: Exception) -> str:
    """The first sentence of an SDK error. The rest is advice for users of the SDK."""
    text = str(problem) or type(problem).__name__
    return text.partition(": The sandbox")[0].partition(": This error")[0]


# --- transfers files to and from an E2B sandbox, with few requests, and without holding large files in memory ---------


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
