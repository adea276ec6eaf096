"""What goes to the cluster with a step, and what comes back with its end."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from whyrun.artifacts.hashing import bytes_sha256
from whyrun.artifacts.store import Store
from whyrun.execution.backends import site
from whyrun.execution.backends.dask_inputs import packed, size_of, version_of
from whyrun.execution.backends.remote import RemoteJob
from whyrun.execution.commands import Session, StepFinished, StepLost
from whyrun.execution.failure import Failure, failure_of
from whyrun.execution.scratch import step_folder
from whyrun.execution.wire import encode

Client: TypeAlias = Any  # of `distributed`, whose types are half there; imported only where a cluster is used
Future: TypeAlias = Any
Ask: TypeAlias = Callable[..., Any]  # a word to the agent on the worker, and what it answers; None if it cannot

LARGE = 1 << 18  # bytes
KEPT = 64  # large blobs and inputs that the cluster is asked to hold


class Parcels:
    def __init__(self, session: Session, store: Store, name: str) -> None:
        """`name`: that of everything which this run has on the cluster begins so."""
        self._session, self._store, self._name = session, store, name
        self._numbers = count(1)
        self._scattered: OrderedDict[str, Future] = OrderedDict()  # by content

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
                sent = self._sent_once(client, f"{path}\0{version}", size_of(source), partial(packed, source))
                inputs[path.removeprefix(f"{site.INPUTS}/")] = {"version": version, "parcel": sent}
        return {
            "command": encode(command),
            "cfg_path": command.cfg_path,
            "cfg": cfg_data,
            "blobs": blobs,
            "inputs": inputs,
            "secrets": bool(job.secrets),  # their values come by another way, which leaves no trace on the cluster
        }

    def _sent_once(self, client: Client, content: str, size: int, read: Callable[[], Any]) -> Any:
        """What is large goes to the cluster once, and from worker to worker; what is small, with each step."""
        if size < LARGE:
            return read()
        found = self._scattered.get(content)
        if found is None or found.status != "finished":
            key = f"{self._name}-data-{next(self._numbers)}"
            found = self._scattered[content] = client.scatter({key: read()}, hash=False)[key]
            while len(self._scattered) > KEPT:
                self._scattered.popitem(last=False)
        self._scattered.move_to_end(content)
        return found


def bring(
    end: StepFinished | StepLost, result: dict[str, Any], session: Session, store: Store, ask: Ask
) -> StepFinished | StepLost:
    """Outputs into the store, checked by hash; logs and scratch into the evidence. `ask` asks where the step ran."""
    failure = None
    if isinstance(end, StepFinished) and end.error_type is not None:
        failure = Failure(end.error_type, end.error, end.traceback)
    for doing in (_bring_outputs, _bring_files):
        try:
            doing(end, result, session, store, ask)
        except (OSError, ValueError) as problem:
            failure = failure_of(problem) if failure is None else failure.also("bringing back what it made", problem)
    if failure is None or isinstance(end, StepLost):
        return end
    return msgspec.structs.replace(
        end, outputs=[], comparisons={}, error=failure.error, error_type=failure.error_type, traceback=failure.traceback
    )


def _bring_outputs(
    end: StepFinished | StepLost, result: dict[str, Any], session: Session, store: Store, ask: Ask
) -> None:
    for sha256, data in result["outputs"].items():
        if bytes_sha256(data) != sha256:
            raise ValueError(f"an output came back with other bytes than the worker speaks of ({sha256})")
        store.put_bytes(data)


def _bring_files(
    end: StepFinished | StepLost, result: dict[str, Any], session: Session, store: Store, ask: Ask
) -> None:
    if not result["files"]:
        return
    with tempfile.TemporaryDirectory(dir=session.tmp, prefix=f"{session.run}-back-") as folder:
        brought = Path(folder, "step")
        for name, content in result["files"].items():
            if name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
                raise ValueError(f"a file of the step came back as {name!r}, which names no place in its folder")
            target = brought / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                os.symlink(content, target)
            elif isinstance(content, dict):
                _fetch(content["kept"], content["size"], target, ask)
            else:
                target.write_bytes(content)
        site.merge_step_folder(brought, step_folder(session.run_dir, end.step_id))
        shutil.rmtree(brought, ignore_errors=True)


def _fetch(kept: str, size: int, target: Path, ask: Ask) -> None:
    """A large file, piece by piece."""
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
