"""Payloads: what is sent to the cluster with a step, and how the results of an ended step are stored on the host."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from whyrun.artifacts.hashing import bytes_sha256
from whyrun.artifacts.store import Store
from whyrun.execution.backends.base import Session
from whyrun.execution.backends.remote import site
from whyrun.execution.backends.remote.remote_worker import RemoteJob
from whyrun.execution.files.scratch import step_folder
from whyrun.execution.files.tree_removal import is_real_folder, remove
from whyrun.execution.protocol.framing import encode
from whyrun.execution.protocol.messages import StepFinished, StepLost
from whyrun.execution.worker.failure import Failure, failure_of

# --- input files -------------------------------------------------------------------------------------------------
#
# Sends input files and folders of a workflow to Dask workers: each is read once and written once per worker.
#
# A packed input is plain data: the files by their path within the input (a single file has the empty path), the
# folders, and which files are executable, because that counts in the hash of a folder.


def version_of(source: Path, follow: bool = True) -> str:
    """A text that changes with every change of the input: names, sizes, times and modes."""
    rows = []
    for path, relative in _entries(source, follow):
        status = os.stat(path, follow_symlinks=follow)
        rows.append(f"{relative}\0{status.st_mode:o} {status.st_size} {status.st_mtime_ns}")
    return "\0".join(rows)


def size_of(source: Path) -> int:
    return sum(path.stat().st_size for path, _ in _entries(source) if path.is_file())


def pack(source: Path) -> dict[str, Any]:
    files: dict[str, bytes] = {}
    folders: list[str] = []
    executable: list[str] = []
    for path, relative in _entries(source):
        if path.is_dir():
            folders.append(relative)
            continue
        files[relative] = path.read_bytes()
        if relative and os.access(path, os.X_OK):
            executable.append(relative)
    return {"files": files, "folders": folders, "executable": executable}


def _entries(source: Path, follow: bool = True) -> list[tuple[Path, str]]:
    """The file or folder and everything in it, in a fixed order. Links of the project are followed, wherever they lead.
    Links that a step created among its inputs are not."""
    entries = [(source, "")]
    if source.is_dir():
        for parent, inner, names in os.walk(source, followlinks=follow):
            below = os.path.relpath(parent, source)
            entries += [(Path(parent, name), os.path.normpath(f"{below}/{name}")) for name in (*inner, *names)]
    return sorted(entries, key=lambda entry: entry[1])


class WorkerInputs:
    """The inputs on one Dask worker, shared by all its steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._versions: dict[str, tuple[str, str]] = {}  # path → version on the host, version of the copy

    def write(self, path: str, version: str, packed: dict[str, Any]) -> None:
        """Write an input, unless the same version is there: a step in another thread may be reading it."""
        target = self._folder / path
        with self._lock:
            if os.path.lexists(target) and self._versions.get(path) == (version, version_of(target, follow=False)):
                return
            _fill(target, packed)
            self._versions[path] = (version, version_of(target, follow=False))


def _fill(target: Path, packed: dict[str, Any]) -> None:
    if is_real_folder(target) != (packed["folders"] != []) and os.path.lexists(target):
        remove(str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    for path, relative in _entries(target, follow=False) if is_real_folder(target) else ():
        is_meant = relative in packed["files"] or relative in packed["folders"]
        if (path.is_symlink() or not is_meant) and os.path.lexists(path):
            remove(str(path))  # a step created it
    for relative in packed["folders"]:
        (target / relative).mkdir(exist_ok=True)
    for relative, data in packed["files"].items():
        _write(target / relative if relative else target, data, relative in packed["executable"])


def _write(target: Path, data: bytes, executable: bool) -> None:
    same = not target.is_symlink() and target.is_file() and target.read_bytes() == data
    if same and os.access(target, os.X_OK) == executable:
        return
    temp = target.with_name(f".{target.name}.{threading.get_ident()}")
    temp.write_bytes(data)
    if executable:
        temp.chmod(0o755)
    os.replace(temp, target)


# --- steps and their results -------------------------------------------------------------------------------------


Client: TypeAlias = Any  # of `distributed`, whose types are half there; imported only where a cluster is used
Future: TypeAlias = Any
Ask: TypeAlias = Callable[..., Any]  # sends an order to the agent on the worker; returns its answer or None

LARGE = 1 << 18  # bytes
KEPT = 64  # large blobs and inputs that the cluster keeps in memory


class Payloads:
    def __init__(self, session: Session, store: Store, name: str) -> None:
        """`name`: prefix of everything that this run has on the cluster."""
        self._session, self._store, self._name = session, store, name
        self._numbers = count(1)
        self._scattered: OrderedDict[str, Future] = OrderedDict()  # by content, in order of last use

    def pack(self, client: Client, job: RemoteJob) -> dict[str, Any]:
        command = job.command
        cfg_data = (self._session.run_dir / command.cfg_path).read_bytes()
        needed = site.needed_files(self._session, self._store, command, site.decode_cfg(cfg_data), site.SOURCES)
        blobs: dict[str, Any] = {}
        inputs: dict[str, Any] = {}
        for path, source in needed.items():
            assert isinstance(source, Path)
            if path.startswith(f"{site.SOURCES}/"):
                sha256 = path.removeprefix(f"{site.SOURCES}/").replace("/", "")
                blobs[sha256] = self._sent_once(client, sha256, source.stat().st_size, source.read_bytes)
            elif path.startswith(f"{site.INPUTS}/"):
                version = version_of(source)
                sent = self._sent_once(client, f"{path}\0{version}", size_of(source), partial(pack, source))
                inputs[path.removeprefix(f"{site.INPUTS}/")] = {"version": version, "packed": sent}
        return {
            "command": encode(command),
            "cfg_path": command.cfg_path,
            "cfg": cfg_data,
            "blobs": blobs,
            "inputs": inputs,
            "secrets": bool(job.secrets),  # the agent asks for their values, which are never part of a task
        }

    def _sent_once(self, client: Client, content: str, size: int, read: Callable[[], Any]) -> Any:
        """Small content goes with each step. Large content is sent to the cluster once, and from worker to worker."""
        if size < LARGE:
            return read()
        future = self._scattered.get(content)
        if future is None or future.status != "finished":
            key = f"{self._name}-data-{next(self._numbers)}"
            future = self._scattered[content] = client.scatter({key: read()}, hash=False)[key]
            while len(self._scattered) > KEPT:
                self._scattered.popitem(last=False)
        self._scattered.move_to_end(content)
        return future


def fetch_results(
    end: StepFinished | StepLost, result: dict[str, Any], session: Session, store: Store, ask: Ask
) -> StepFinished | StepLost:
    """Store the outputs after a check of their hashes, and the logs and scratch files as evidence. `ask` talks to the
    agent where the step ran."""
    failure = None
    if isinstance(end, StepFinished) and end.error_type is not None:
        failure = Failure(end.error_type, end.error, end.traceback)
    for store_part in (_store_outputs, _store_files):
        try:
            store_part(end, result, session, store, ask)
        except (OSError, ValueError) as problem:
            failure = failure_of(problem) if failure is None else failure.also("bringing back what it made", problem)
    if failure is None or isinstance(end, StepLost):
        return end
    return msgspec.structs.replace(
        end, outputs=[], comparisons={}, error=failure.error, error_type=failure.error_type, traceback=failure.traceback
    )


def _store_outputs(
    end: StepFinished | StepLost, result: dict[str, Any], session: Session, store: Store, ask: Ask
) -> None:
    for sha256, data in result["outputs"].items():
        if bytes_sha256(data) != sha256:
            raise ValueError(f"an output came back with other bytes than the worker names ({sha256})")
        store.put_bytes(data)


def _store_files(
    end: StepFinished | StepLost, result: dict[str, Any], session: Session, store: Store, ask: Ask
) -> None:
    if not result["files"]:
        return
    with tempfile.TemporaryDirectory(dir=session.tmp, prefix=f"{session.run}-back-") as folder:
        copy = Path(folder, "step")
        for name, content in result["files"].items():
            if name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
                raise ValueError(f"a file of the step came back as {name!r}, which is not a path in its folder")
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                os.symlink(content, target)
            elif isinstance(content, dict):
                _fetch(content["kept"], content["size"], target, ask)
            else:
                target.write_bytes(content)
        site.merge_step_folder(copy, step_folder(session.run_dir, end.step_id))
        shutil.rmtree(copy, ignore_errors=True)


def _fetch(kept: str, size: int, target: Path, ask: Ask) -> None:
    """Fetch a large file in pieces."""
    with open(target, "wb") as file:
        while file.tell() < size:
            piece = ask("piece", kept, file.tell())
            if piece is None:
                raise OSError(f"only {file.tell()} of {size} bytes of {target.name} came back from where the step ran")
            start, data = piece
            file.seek(start)
            file.write(data)
        file.truncate()
    ask("forget", kept)
