"""Materializes the inputs of a step: values, and files under a name with their suffix, as its action receives them.

A step gets private copies; large files are links to the originals (`PrivateCopies`). A user may edit project files
while a step runs, so they are checked before and after: the step fails if their content is not that of the plan. It
also fails if a stored file was written to, which file modes cannot prevent for root or after a `chmod`.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.base import Named, TextFile
from whyrun.artifacts.durable import remove_if_damaged
from whyrun.artifacts.hashing import bytes_sha256, file_sha256, tree_manifest
from whyrun.artifacts.stat_cache.rows import ClockSkews, is_open_for_writing, is_settled
from whyrun.artifacts.store import Store
from whyrun.connections.redact import SHORTEST
from whyrun.execution.files.input_views import PrivateCopies
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.protocol.messages import ExecStep, InputSource, InputSpec, StepCfg
from whyrun.execution.worker.failure import StepError, store_damaged
from whyrun.ids import Index, file_name
from whyrun.workflow.model import FILE_TYPES

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")

CHANGED_DURING_RUN = "InputChangedDuringRun"
AFTER = (
    "run again; if the step itself writes to it, let it work on a copy (`cp -rL`): large inputs are links, "
    'or read-only with `inputs = "view"` in `whyrun.toml`'
)
STORED_BYTES = "nobody may write into stored bytes"

Signature = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    signature: Signature
    sha256: str


def input_path(path: str) -> str:
    """The path of an input below the inputs folder of a site. Inputs from outside the project (`/data/x`, `../x`) get a
    folder of their own."""
    if not path.startswith(("/", "../")):
        return path
    return "/".join((".outside", *("%up" if part == ".." else part or "%root" for part in path.split("/"))))


class InputGuard:
    """Checks that the files which a step reads have the planned content, before and after the step."""

    def __init__(
        self,
        project: Path,
        *,
        away: bool = False,
        clock: Callable[[], int] = time.time_ns,
        skews: ClockSkews | None = None,
    ) -> None:
        """`away`: the folder is not the project, but holds inputs that were sent here, at the paths of `input_path`.
        `clock`: the clock of file times; `skews`: the clocks of other file systems."""
        self._project = project
        self._away = away
        self._clock = clock
        self._skews = skews or ClockSkews(project)
        self._known: dict[str, _Seen] = {}  # by path, for the worker's lifetime: it hashes a shared input once
        self._trusted: Mapping[str, tuple[int, ...]] = {}
        self._watched: list[tuple[str, str, str, Signature, bool]] = []
        self._blobs: list[tuple[str, str, str, Signature]] = []
        self._sound: dict[str, Signature] = {}  # blobs whose content was checked

    def begin(self) -> None:
        """Begin another step: forget the files of the last one."""
        self._watched.clear()
        self._blobs.clear()

    def trust(self, signatures: Mapping[str, tuple[int, ...]]) -> None:
        """For the next step, by path: the signature of a file when the host, on this machine, found the planned content
        in it. A file that still has this signature is not hashed again."""
        self._trusted = signatures

    def project_file(self, spec: InputSpec) -> Path:
        assert spec.path is not None
        path = self._at(spec.path)
        try:
            signature, settled = self._look(path)
        except OSError as problem:
            raise StepError("MissingBinding", f"`{spec.id}`: `{spec.path}` {_why(problem)}") from None
        trusted = self._trusted.get(spec.path)
        if trusted is not None and settled and trusted == _as_signature(signature):
            self._known[str(path)] = _Seen(signature, spec.sha256)
        if self._content(str(path), signature, settled) != spec.sha256:
            raise self._changed(spec.id, spec.path, "run again")
        self._watched.append((spec.id, spec.path, spec.sha256, signature, settled))
        return path

    def blob(self, id_: str, path: str, sha256: str) -> None:
        """Check that a blob has the recorded content. A worker hashes each blob once."""
        signature = _blob_signature(path)
        if self._sound.get(path) != signature:
            if file_sha256(path) != sha256:
                raise store_damaged(f"the stored blob {sha256} has other bytes")
            self._sound[path] = signature
        self._blobs.append((id_, path, sha256, signature))

    def check_unchanged(self) -> None:
        changed = self.changed_blobs()  # first, because it removes damaged blobs
        for id_, relative, sha256, before, settled in self._watched:
            path = self._at(relative)
            try:
                signature, settled_now = self._look(path)
            except OSError:  # deleted while the step ran: what it read is unknown
                raise self._changed(id_, relative, AFTER) from None
            if signature == before and settled:
                continue
            if _written(before) != _written(signature):  # whatever the content is now, the step may have read another
                raise self._changed(id_, relative, AFTER)
            if self._content(str(path), signature, settled_now and settled) != sha256:
                raise self._changed(id_, relative, AFTER)
        if changed:
            raise StepError(CHANGED_DURING_RUN, f"{changed[0]}; {STORED_BYTES}; run again")

    def changed_blobs(self) -> list[str]:
        """Messages about those of the step's blobs that have changed. Who changed them is unknown, since other steps
        may read the same blobs. Removes those with wrong bytes: a wrong blob is worse than a missing one."""
        changed = []
        for id_, path, sha256, before in self._blobs:
            change = _blob_change(path, sha256, before)
            if change is not None:
                changed.append(f"`{id_}` was {change} while the step ran")
        return changed

    def _look(self, path: Path) -> tuple[Signature, bool]:
        """The signature of a file or folder, without reading it, and whether the signature can be relied on."""
        now = self._clock()
        status = os.stat(path)
        rows: list[tuple[Any, ...]] = [("", *_facts(status))]
        if stat.S_ISDIR(status.st_mode):
            for parent, folders, files in os.walk(path):
                rows += [(f"{parent}/{name}", *_facts(os.stat(f"{parent}/{name}"))) for name in (*folders, *files)]
            rows.sort()
        # By the clock of each file's own file system: links in a folder may lead to another one.
        settled = (is_settled(row[-2], row[-1], now - self._skews.of(row[0] or path, row[2])) for row in rows)
        return tuple(rows), all(settled)

    def _at(self, path: str) -> Path:
        return self._project / (input_path(path) if self._away else path)

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
        message = f"`{path}` ({id_}) does not have the planned content, or was written to meanwhile"
        return StepError(CHANGED_DURING_RUN, f"{message}; {advice}")


def _facts(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mode, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _written(signature: Signature) -> list[tuple[Any, ...]]:
    """The parts that every write changes, but neither a `chmod` nor another hard link."""
    return [(name, device, inode, size, mtime) for name, _, device, inode, size, mtime, _ in signature]


def _as_signature(signature: Signature) -> tuple[int, ...]:
    """The signature of a single file, as the stat cache has it."""
    _, _, device, inode, size, mtime, ctime = signature[0]
    return ctime, mtime, size, inode, device


def _blob_signature(path: str) -> Signature:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns  # nobody can set the last one


def _blob_change(path: str, sha256: str, before: Signature) -> str | None:
    """What happened to a blob since it was checked; None if nothing did. A blob that was written to may have its
    content again (decision 0032). One with another inode was damaged and then replaced: sound blobs are never replaced.
    """
    try:
        now = _blob_signature(path)
        if now == before:
            return None
        damaged = remove_if_damaged(path, sha256)
    except FileNotFoundError:
        return "removed"  # by another step that found wrong bytes in it
    if now[0] != before[0]:
        return "replaced"
    return "written to" if damaged or now[:3] != before[:3] else None  # else only its mode or its links changed


def _why(problem: OSError) -> str:
    return "does not exist" if isinstance(problem, FileNotFoundError) else f"cannot be read: {problem.strerror}"


# --- bindings --------------------------------------------------------------------------------------------------


def check_bindings(cfg: StepCfg, command: ExecStep) -> None:
    """Check that every declared input has a source, and that command and cfg name the same content."""
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
    def __init__(self, store: Store, scratch: Scratch, guard: InputGuard, copies: PrivateCopies) -> None:
        self._store = store
        self._scratch = scratch
        self._guard = guard
        self._copies = copies
        self.names: dict[str, str] = {}  # path that the step sees → path in the project, for messages

    def inputs(self, cfg: StepCfg) -> dict[str, Any]:
        self.names.clear()
        self._copies.begin()
        return {name: self._input(name, spec, cfg.keys.get(name)) for name, spec in cfg.inputs.items()}

    def _input(self, name: str, spec: InputSpec | list[InputSpec], keys: list[list[Index]] | None) -> Any:
        if keys is None:
            return self._value(name, spec)
        assert isinstance(spec, list)
        members = [self._value(name, member, key) for key, member in zip(keys, spec, strict=True)]
        return Named.of(keys, members)

    def _value(self, name: str, spec: InputSpec | list[InputSpec], key: Sequence[Index] = ()) -> Any:
        """`key`: of a member of a mapping, whose file is named after it."""
        members = spec if isinstance(spec, list) else spec.members
        if members is not None:
            return [self._value(f"{name}.{position}", member) for position, member in enumerate(members)]
        assert not isinstance(spec, list)
        if spec.value is not msgspec.UNSET:
            return spec.value
        if spec.path is not None:
            # Under a neutral name: the fingerprint does not contain a file's own name, so a step must not see it.
            target = self._target(name, spec, key)
            self._copies.put(str(self._guard.project_file(spec)), str(target))
            self.names[str(target)] = spec.path
            return self._typed(target, spec.type)
        if not self._store.has(spec.sha256):
            raise StepError("MissingBinding", f"the content of `{spec.id}` ({spec.sha256}) is not in the store")
        if spec.type == "directory":
            target = self._target(name, spec, key)
            self._store.export(spec.sha256, target, "directory")
            return target
        if spec.type in FILE_TYPES:
            blob = self._store.path(spec.sha256)
            target = self._target(name, spec, key)
            self._guard.blob(spec.id, blob, spec.sha256)
            self._copies.put(blob, str(target))
            return self._typed(target, spec.type)
        return msgspec.json.decode(self._store.read(spec.sha256))

    def _target(self, name: str, spec: InputSpec, key: Sequence[Index]) -> Path:
        plain_name, folder = _UNSAFE.sub(".", name).strip(".") or "input", self._scratch.inputs
        if key:
            folder = folder.joinpath(plain_name, *(file_name(str(index)) for index in key[:-1]))
            folder.mkdir(parents=True, exist_ok=True)
            plain_name = file_name(str(key[-1]))
        target = folder / f"{plain_name}{spec.suffix}"
        number = 2
        while os.path.lexists(target):  # `a[0]` and `a.0` look alike as file names
            target = folder / f"{plain_name}-{number}{spec.suffix}"
            number += 1
        return target

    def _typed(self, path: Path, type_: str) -> Any:
        if type_ == "json":
            return msgspec.json.decode(path.read_bytes())
        return TextFile(path) if type_ == "text" else path


def input_files(specs: Iterable[InputSpec | list[InputSpec]]) -> Iterator[str]:
    """The paths of all workflow inputs among these that are files or folders."""
    for spec in specs:
        if isinstance(spec, list):
            yield from input_files(spec)
        elif spec.members is not None:
            yield from input_files(spec.members)
        elif spec.path is not None:
            yield spec.path


def published_files(specs: Iterable[InputSpec | list[InputSpec]]) -> Iterator[tuple[str, InputSpec]]:
    """The artifacts among these that are published, with their paths."""
    for spec in specs:
        if isinstance(spec, list):
            yield from published_files(spec)
        elif spec.published is not None and spec.value is msgspec.UNSET:
            yield spec.published, spec


def put_in_place(value: Any, inputs: Mapping[str, Any]) -> Any:
    """The `with:` block with every `{"$input": name}` replaced by the input."""
    if isinstance(value, dict):
        if "$input" in value:
            return inputs[value["$input"]]
        return {key: put_in_place(member, inputs) for key, member in value.items()}
    if isinstance(value, list):
        return [put_in_place(member, inputs) for member in value]
    return value


def parameters_of(cfg: StepCfg, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The `with:` block with its inputs, as the action receives it."""
    if cfg.action != "shell":
        return {name: put_in_place(value, inputs) for name, value in cfg.with_.items()}
    return {
        name: [_for_shell(member, cfg, inputs) for member in value]
        if isinstance(value, list)
        else _for_shell(value, cfg, inputs)
        for name, value in cfg.with_.items()
    }


def check_cardinality(cfg: StepCfg, inputs: Mapping[str, Any], context: Any) -> None:
    """Check the cardinality that a step of a dataset plan declares and whose action merges itself."""
    from tempfile import TemporaryDirectory

    from whyrun.actions.data.joining.merge import check_declared

    files: dict[str, Path] = {}
    for name in cfg.merged:
        bound = put_in_place(cfg.with_[name], inputs)
        members = bound if isinstance(bound, list) else [bound]
        files |= {name if len(members) == 1 else f"{name}[{at}]": member for at, member in enumerate(members)}
    with TemporaryDirectory() as folder:  # not in the step's own folder, which must be empty
        check_declared(cfg.with_, files, Path(folder), context)


def _for_shell(value: Any, cfg: StepCfg, inputs: Mapping[str, Any]) -> Any:
    """JSON as its text, whatever it holds: a script cannot use a variable that is an array for some values only."""
    if not isinstance(value, dict) or "$input" not in value:
        return put_in_place(value, inputs)
    spec, found = cfg.inputs[value["$input"]], inputs[value["$input"]]
    if isinstance(found, Named):
        assert isinstance(spec, list)
        texts = [
            _json_text(member) if each.type == "json" else member
            for each, member in zip(spec, found.flat().values(), strict=True)
        ]
        return Named(zip(found.flat(), texts, strict=True))
    if isinstance(spec, list):
        return [_json_text(member) if each.type == "json" else member for each, member in zip(spec, found, strict=True)]
    if spec.type == "json":
        return _json_text(found)
    return [_json_text(member) for member in found] if spec.type == "json[]" and found is not None else found


def _json_text(value: Any) -> str | None:
    """Null stays null, which is an empty text, as for every type: also an input that is not given is null."""
    return None if value is None else msgspec.json.encode(value).decode()


class SecretMissing(Exception):
    """A step refers to a secret whose value did not come with it."""


def with_secrets(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with every `{"$secret": NAME, "format": "Bearer {}"}` replaced by the secret."""
    if isinstance(value, dict):
        if "$secret" in value:
            name = value["$secret"]
            if name not in secrets:
                raise SecretMissing(f"the value of the secret `{name}` did not reach the step")
            return str(value.get("format", "{}")).replace("{}", secrets[name])
        return {key: with_secrets(member, secrets) for key, member in value.items()}
    if isinstance(value, list):
        return [with_secrets(member, secrets) for member in value]
    return value


def check_secrets(secrets: Mapping[str, str]) -> None:
    """Refuse a secret that is too short to be masked in logs and outputs. An empty one needs no masking."""
    for name, value in secrets.items():
        if 0 < len(value.strip()) < SHORTEST:
            message = f"the secret `{name}` has fewer than {SHORTEST} characters: so short a text cannot be kept out "
            raise StepError("SecretTooShort", message + "of logs and outputs; use a longer one")
