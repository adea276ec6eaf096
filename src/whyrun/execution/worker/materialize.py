"""The inputs of a step, made into what an action receives: values, and files under names with their suffix.

Stored bytes are linked to, not copied; workflow inputs are read where they lie. What lies in the project may be edited
while a step runs, so it is looked at before and after: other content than the plan saw fails the step. So does a stored
file that was written to meanwhile: modes keep neither root nor a `chmod` out.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.base import TextFile
from whyrun.artifacts.blob_names import remove_if_damaged
from whyrun.artifacts.file_clock import OtherClocks
from whyrun.artifacts.hashing import bytes_sha256, file_sha256, tree_manifest
from whyrun.artifacts.settled import is_settled
from whyrun.artifacts.store import Store
from whyrun.artifacts.writers import is_open_for_writing
from whyrun.execution.cfg import InputSpec, StepCfg
from whyrun.execution.commands import ExecStep, InputSource
from whyrun.execution.failure import StepError, store_damaged
from whyrun.execution.scratch import Scratch
from whyrun.workflow.model import FILE_TYPES

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")

INPUT_CHANGED = "InputChangedDuringRun"
AFTER = "run again; if the step itself writes to it, let it work on a copy (`cp -rL`): inputs are links to your files"
STORED_BYTES = "nobody may write into stored bytes"

Signature = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    signature: Signature
    sha256: str


def place_of_input(path: str) -> str:
    """Where an input lies below the folder of inputs at a place that shares none with the host. Those from outside the
    project (`/data/x`, `../x`) have a corner of their own."""
    if not path.startswith(("/", "../")):
        return path
    return "/".join((".outside", *("%up" if part == ".." else part or "%root" for part in path.split("/"))))


class InputGuard:
    """Sees to it that the files which a step reads have, before and after, the content that was planned with."""

    def __init__(
        self,
        project: Path,
        *,
        away: bool = False,
        clock: Callable[[], int] = time.time_ns,
        others: OtherClocks | None = None,
    ) -> None:
        """`away`: it is no project, but holds the inputs that were sent here, each where `place_of_input` says.
        `clock`: the one that files get their times from; `others`: those of other file systems."""
        self._project = project
        self._away = away
        self._clock = clock
        self._others = others or OtherClocks(project)
        self._known: dict[str, _Seen] = {}  # by path; lives as long as the worker, so a shared input is hashed once
        self._told: Mapping[str, tuple[int, ...]] = {}
        self._watched: list[tuple[str, str, str, Signature, bool]] = []
        self._blobs: list[tuple[str, str, str, Signature]] = []
        self._sound: dict[str, Signature] = {}  # blobs whose content was seen to be right

    def begin(self) -> None:
        """Another step: nothing of the last one's is watched any more."""
        self._watched.clear()
        self._blobs.clear()

    def told(self, signatures: Mapping[str, tuple[int, ...]]) -> None:
        """For the next step, by path: what a file looked like when the host, on this very machine, found in it the
        content that the step is to read. One that still looks so is not read again."""
        self._told = signatures

    def project_file(self, spec: InputSpec) -> Path:
        assert spec.path is not None
        path = self._at(spec.path)
        try:
            signature, settled = self._look(path)
        except OSError as problem:
            raise StepError("MissingBinding", f"`{spec.id}`: `{spec.path}` {_why(problem)}") from None
        told = self._told.get(spec.path)
        if told is not None and settled and told == _as_told(signature):
            self._known[str(path)] = _Seen(signature, spec.sha256)
        if self._content(str(path), signature, settled) != spec.sha256:
            raise self._changed(spec.id, spec.path, "run again")
        self._watched.append((spec.id, spec.path, spec.sha256, signature, settled))
        return path

    def blob(self, id_: str, path: str, sha256: str) -> None:
        """A step never consumes bytes other than the recorded ones. Each blob is read once by a worker to see that."""
        signature = _blob_signature(path)
        if self._sound.get(path) != signature:
            if file_sha256(path) != sha256:
                raise store_damaged(f"the stored blob {sha256} has other bytes")
            self._sound[path] = signature
        self._blobs.append((id_, path, sha256, signature))

    def check_unchanged(self) -> None:
        changed = self.changed_blobs()  # first: what is damaged is removed, whatever else is wrong
        for id_, relative, sha256, before, settled in self._watched:
            path = self._at(relative)
            try:
                signature, settled_now = self._look(path)
            except OSError:  # deleted while the step ran: nobody can say what it read
                raise self._changed(id_, relative, AFTER) from None
            if signature == before and settled:
                continue
            if _written(before) != _written(signature):  # whatever it says now: nobody knows what the step has read
                raise self._changed(id_, relative, AFTER)
            if self._content(str(path), signature, settled_now and settled) != sha256:
                raise self._changed(id_, relative, AFTER)
        if changed:
            raise StepError(INPUT_CHANGED, f"{changed[0]}; {STORED_BYTES}; run again")

    def changed_blobs(self) -> list[str]:
        """What happened to each of the step's blobs that is not as it was. Who did it, nobody can say: others may read
        the same ones. Those with other bytes are removed, since they are worse than none."""
        found = []
        for id_, path, sha256, before in self._blobs:
            happened = _happened(path, sha256, before)
            if happened is not None:
                found.append(f"`{id_}` was {happened} while the step ran")
        return found

    def _look(self, path: Path) -> tuple[Signature, bool]:
        """What can be seen of a file or folder without reading it, and whether that can be relied on."""
        now = self._clock()
        found = os.stat(path)
        rows: list[tuple[Any, ...]] = [("", *_facts(found))]
        if stat.S_ISDIR(found.st_mode):
            for parent, folders, files in os.walk(path):
                rows += [(f"{parent}/{name}", *_facts(os.stat(f"{parent}/{name}"))) for name in (*folders, *files)]
            rows.sort()
        # Each by the clock of its own file system: there may be links in a folder that lead to another.
        settled = (is_settled(row[-2], row[-1], now - self._others.behind(row[0] or path, row[2])) for row in rows)
        return tuple(rows), all(settled)

    def _at(self, path: str) -> Path:
        return self._project / (place_of_input(path) if self._away else path)

    def _content(self, path: str, signature: Signature, settled: bool) -> str:
        seen = self._known.get(path)
        if seen is not None and seen.signature == signature and settled:
            return seen.sha256
        if os.path.isdir(path):
            sha256, reliable = bytes_sha256(tree_manifest(path)), settled
        else:
            reliable = settled and not is_open_for_writing(path, unknown=False)
            sha256 = file_sha256(path)
        if reliable:
            self._known[path] = _Seen(signature, sha256)
        return sha256

    def _changed(self, id_: str, path: str, advice: str) -> StepError:
        message = f"`{path}` ({id_}) does not have the content that was planned with, or was written to meanwhile"
        return StepError(INPUT_CHANGED, f"{message}; {advice}")


def _facts(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mode, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _written(signature: Signature) -> list[tuple[Any, ...]]:
    """What every write changes, and neither another mode nor another name for the same file."""
    return [(name, device, inode, size, mtime) for name, _, device, inode, size, mtime, _ in signature]


def _as_told(signature: Signature) -> tuple[int, ...]:
    """The same as the stat-cache writes it, of what is one file."""
    _, _, device, inode, size, mtime, ctime = signature[0]
    return ctime, mtime, size, inode, device


def _blob_signature(path: str) -> Signature:
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns  # the last can be set by nobody


def _happened(path: str, sha256: str, before: Signature) -> str | None:
    """To a blob since it was looked at. One that was written to may have its content again (decision 0032); one that
    has another inode was damaged for somebody, who has put the right bytes in its place: sound ones are not replaced.
    """
    try:
        now = _blob_signature(path)
        if now == before:
            return None
        damaged = remove_if_damaged(path, sha256)
    except FileNotFoundError:
        return "removed"  # another step has found other bytes in it
    if now[0] != before[0]:
        return "replaced"
    return "written to" if damaged or now[:3] != before[:3] else None  # else it has another mode, or name


def _why(problem: OSError) -> str:
    return "does not exist" if isinstance(problem, FileNotFoundError) else f"cannot be read: {problem.strerror}"


# --- bindings ----------------------------------------------------------------------------------------------------


def check_bindings(cfg: StepCfg, command: ExecStep) -> None:
    """Every declared binding has its source, and the command speaks of the same content as the cfg."""
    missing = [name for name in cfg.inputs if name not in command.inputs]
    missing += sorted(set(_slots(cfg.with_)) - set(cfg.inputs))
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        raise StepError("MissingBinding", f"no source for {names}")
    for name, spec in cfg.inputs.items():
        if _shas(spec) != _shas(command.inputs[name]):
            raise StepError("MissingBinding", f"the command and the cfg name different content for `{name}`")


def _slots(value: Any) -> list[str]:
    if isinstance(value, dict):
        if "$input" in value:
            return [value["$input"]]
        return [slot for member in value.values() for slot in _slots(member)]
    if isinstance(value, list):
        return [slot for member in value for slot in _slots(member)]
    return []


def _shas(source: InputSpec | InputSource | list[InputSpec] | list[InputSource]) -> list[str]:
    return [member.sha256 for member in source] if isinstance(source, list) else [source.sha256]


class Materializer:
    def __init__(self, store: Store, scratch: Scratch, guard: InputGuard) -> None:
        self._store = store
        self._scratch = scratch
        self._guard = guard
        self.names: dict[str, str] = {}  # of this step: where a project file is shown → its own path, for messages

    def inputs(self, cfg: StepCfg) -> dict[str, Any]:
        self.names.clear()
        return {name: self._value(name, spec) for name, spec in cfg.inputs.items()}

    def _value(self, name: str, spec: InputSpec | list[InputSpec]) -> Any:
        members = spec if isinstance(spec, list) else spec.members
        if members is not None:
            return [self._value(f"{name}.{position}", member) for position, member in enumerate(members)]
        assert not isinstance(spec, list)
        if spec.value is not msgspec.UNSET:
            return spec.value
        if spec.path is not None:
            # Under a neutral name: a file's own name is no part of what counts, so a step must not see it.
            target = self._target(name, spec)
            os.symlink(os.path.abspath(self._guard.project_file(spec)), target)
            self.names[str(target)] = spec.path
            return self._typed(target, spec.type)
        if not self._store.has(spec.sha256):
            raise StepError("MissingBinding", f"the content of `{spec.id}` ({spec.sha256}) is not in the store")
        if spec.type == "directory":
            target = self._target(name, spec)
            self._store.export(spec.sha256, target, "directory")
            return target
        if spec.type in FILE_TYPES:
            blob = self._store.path(spec.sha256)
            target = self._target(name, spec)
            os.symlink(os.path.abspath(blob), target)
            self._guard.blob(spec.id, blob, spec.sha256)
            return self._typed(target, spec.type)
        return msgspec.json.decode(self._store.read(spec.sha256))

    def _target(self, name: str, spec: InputSpec) -> Path:
        plain_name = _UNSAFE.sub(".", name).strip(".") or "input"
        target = self._scratch.inputs / f"{plain_name}{spec.suffix}"
        number = 2
        while os.path.lexists(target):  # `a[0]` and `a.0` look alike as file names
            target = self._scratch.inputs / f"{plain_name}-{number}{spec.suffix}"
            number += 1
        return target

    def _typed(self, path: Path, type_: str) -> Any:
        if type_ == "json":
            return msgspec.json.decode(path.read_bytes())
        return TextFile(path) if type_ == "text" else path


def put_in_place(value: Any, inputs: Mapping[str, Any]) -> Any:
    """The `with:` block with every `{"$input": name}` replaced by what it stands for."""
    if isinstance(value, dict):
        if "$input" in value:
            return inputs[value["$input"]]
        return {key: put_in_place(member, inputs) for key, member in value.items()}
    if isinstance(value, list):
        return [put_in_place(member, inputs) for member in value]
    return value
