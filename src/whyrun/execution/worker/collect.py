"""The outputs of a step: checked against what the job declares, then stored. All of them or none."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from whyrun.artifacts.hashing import bytes_sha256, canonical_json, walk_tree
from whyrun.artifacts.sections import section_bytes
from whyrun.artifacts.store import Store
from whyrun.artifacts.writers import is_open_for_writing
from whyrun.errors import WhyrunError
from whyrun.execution.cfg import OutputSpec
from whyrun.execution.commands import OutputResult
from whyrun.execution.context import output_path
from whyrun.execution.failure import StepError
from whyrun.execution.scratch import Scratch
from whyrun.execution.secrets import Redactor
from whyrun.execution.unwritable import keep_returned, why_not_json, why_not_json_text
from whyrun.ids import Segment, parse_id_of
from whyrun.json_values import limit_problem, plain_scalar, size_problem
from whyrun.workflow.model import FILE_TYPES, VALUE_TYPES

_LEFT_SHOWN = 3  # files in the work folder, in the message about a missing output
_ABSENT = object()


class _Ready(msgspec.Struct, frozen=True):
    """One output that passed all checks: bytes, or a file or folder that is moved or copied into the store."""

    key: str
    type: str
    data: bytes | None = None
    path: Path | None = None
    move: bool = False
    value: Any = msgspec.UNSET
    is_leaf: bool = False  # a leaf's value stands in the log: it needs no bytes of its own in the store


def collect_outputs(
    specs: Mapping[str, OutputSpec],
    also_known: Mapping[str, str],
    returned: Any,
    scratch: Scratch,
    store: Store,
    redactor: Redactor,
    uses: str,
) -> list[OutputResult]:
    """`also_known`: outputs that the action has but the job does not declare; they are not kept."""
    values = _returned_values(specs, also_known, returned)
    ready: list[_Ready] = []
    missing: list[str] = []
    for name, spec in specs.items():
        value = values.get(name, _ABSENT)
        if value is _ABSENT:
            written = output_path(scratch, specs, name)
            if not os.path.lexists(written):
                missing.append(name)
                missing += [f"{name}.{leaf}" for leaf in spec.leaves]
                continue
            prepared = _from_file(name, spec, written, move=True)
        else:
            prepared = _from_value(name, spec, value, scratch)
        ready.append(prepared)
        if spec.leaves:
            ready += _leaves(name, spec, prepared, missing)
    if missing:
        raise StepError("MissingOutput", _missing_outputs(missing, specs, scratch, uses))
    if redactor:
        for prepared in ready:
            _refuse_secrets(prepared, redactor)
    return [_stored(prepared, store) for prepared in ready]


def _missing_outputs(missing: list[str], specs: Mapping[str, OutputSpec], scratch: Scratch, uses: str) -> str:
    """What is missing, and how the action would give it."""
    message = f"the step ended without its declared {', '.join(f'`{name}`' for name in missing)}"
    whole = [name for name in missing if name in specs]
    if not whole:
        return f"{message}: the JSON that it gave has no such part"
    it = "it" if len(whole) == 1 else "them"
    if uses == "shell":
        message += f": write {it} to " + ", ".join(f'"$out_{name}"' for name in whole)
    else:
        message += f": return {it}, or write to " + ", ".join(f'context.output("{name}")' for name in whole)
    suffixes = {specs[name].suffix for name in whole}
    left = [path for path in _files_below(scratch.work) if "" in suffixes or Path(path).suffix in suffixes]
    if left:
        shown = ", ".join(f"`{path}`" for path in left[:_LEFT_SHOWN]) + (", …" if len(left) > _LEFT_SHOWN else "")
        message += f"; what it left in its work folder is not kept: {shown}"
    return message


def _files_below(folder: Path) -> list[str]:
    found = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return sorted(path.relative_to(folder).as_posix() for path in found)


def collect_file(name: str, spec: OutputSpec, path: Path, store: Store) -> list[OutputResult]:
    """One output from a user's own file, and its leaves: the same checks as for a step's outputs (`StepError`)."""
    prepared = _from_file(name, spec, path, move=False)
    missing: list[str] = []
    leaves = _leaves(name, spec, prepared, missing) if spec.leaves else []
    if missing:
        names = ", ".join(f"`{leaf}`" for leaf in missing)
        raise StepError("MissingOutput", f"it lacks the declared {names}")
    return [_stored(ready, store) for ready in (prepared, *leaves)]


def collect_value(name: str, spec: OutputSpec, value: Any, store: Store) -> list[OutputResult]:
    """One output from a value, with the checks of any (`StepError`)."""
    return [_stored(_value(name, spec.type, value), store)]


def _returned_values(specs: Mapping[str, OutputSpec], also_known: Mapping[str, str], returned: Any) -> dict[str, Any]:
    if returned is None:
        return {}
    if not isinstance(returned, dict):
        message = f"an action returns {{output: value}} or nothing, not {type(returned).__name__}"
        raise StepError("WrongOutputType", message)
    unknown = [repr(name) for name in returned if name not in specs and name not in also_known]
    if unknown:
        declared = ", ".join(f"`{name}`" for name in specs) or "none"
        raise StepError("UnknownOutput", f"returned {', '.join(unknown)}, but the job declares {declared}")
    return {name: value for name, value in returned.items() if name in specs}


# --- one output --------------------------------------------------------------------------------------------------


def _from_value(name: str, spec: OutputSpec, value: Any, scratch: Scratch) -> _Ready:
    if spec.type in VALUE_TYPES:
        return _value(name, spec.type, value, scratch)
    if isinstance(value, os.PathLike) or (isinstance(value, str) and spec.type not in ("text", "json")):
        path = scratch.work / os.fspath(value)
        if not path.exists():
            raise StepError("MissingOutput", f"`{name}` was returned as `{value}`, which does not exist")
        inside = not path.is_symlink() and path.resolve().is_relative_to(scratch.root.resolve())
        return _from_file(name, spec, path, move=inside)
    if spec.type == "json":
        return _Ready(name, "json", data=_canonical(name, value, scratch))
    if spec.type == "text" and isinstance(value, str):
        return _Ready(name, "text", data=value.encode())
    if spec.type in FILE_TYPES and isinstance(value, (bytes, bytearray, memoryview)):
        return _Ready(name, spec.type, data=bytes(value))
    wanted = {"text": "a str or a Path", "directory": "the Path of a folder"}.get(spec.type, "a Path or bytes")
    raise StepError("WrongOutputType", f"`{name}` is declared as {spec.type}: return {wanted}, not {_type(value)}")


def _from_file(name: str, spec: OutputSpec, path: Path, move: bool) -> _Ready:
    is_folder = _is_folder(name, spec, path)
    if is_folder != (spec.type == "directory") and spec.type != "dataset":
        found = "a folder" if is_folder else "a file"
        raise StepError("WrongOutputType", f"`{name}` is declared as {spec.type}, but {found} was written")
    if is_folder:
        try:
            walk_tree(path)  # before anything is read or stored: a pipe in it would never end
        except WhyrunError as refused:
            raise StepError("WrongOutputType", f"`{name}`: {refused.diagnostics[0].message}") from None
    if spec.type in VALUE_TYPES:
        return _value(name, spec.type, _parsed_value(name, spec.type, path))
    if spec.type == "json":
        data = path.read_bytes()
        _decoded(name, data)
        return _Ready(name, "json", data=_section(name, data) if spec.section else data)
    return _Ready(name, spec.type, path=path, move=move and not path.is_symlink())


def _is_folder(name: str, spec: OutputSpec, path: Path) -> bool:
    """Whether it is a folder, and not a file. Anything else has no content, or no end."""
    declared = f"`{name}` is declared as {spec.type}, but"
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise StepError("WrongOutputType", f"{declared} a link that leads nowhere was written") from None
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        return stat.S_ISDIR(mode)
    found = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise StepError("WrongOutputType", f"{declared} {found} was written; only files and folders have content")


def _parsed_value(name: str, type_: str, path: Path) -> Any:
    """A value that a script wrote into its output file: text for a string, else JSON; one line end does not count."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        raise StepError("WrongOutputType", f"`{name}` is declared as {type_}, but its file is not UTF-8") from None
    text = text.removesuffix("\n")
    return text if type_ == "string" else _decoded(name, text.encode())


def _value(key: str, type_: str, value: Any, scratch: Scratch | None = None) -> _Ready:
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    value = plain_scalar(value)
    if not _fits(type_, value):
        raise StepError("WrongOutputType", f"`{key}` is declared as {type_}, but is {_type(value)}: {value!r:.100}")
    problem = limit_problem(value)  # before anything that goes down all its levels
    data = b"" if problem else _canonical(key, value, scratch)
    problem = problem or size_problem(data)
    if problem is not None:
        raise StepError("ValueTooLarge", f"`{key}` {problem}")
    return _Ready(key, type_, data=data, value=value)


def _fits(type_: str, value: Any) -> bool:
    match type_:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type_ == "json"


def _canonical(key: str, value: Any, scratch: Scratch | None) -> bytes:
    """`scratch`: where to put down a value that was returned and cannot be kept as it is."""
    try:
        return canonical_json(value)
    except (TypeError, ValueError, RecursionError) as problem:
        message = f"`{key}` cannot be written as JSON: {why_not_json(value) or problem}"
        if scratch is not None:
            message += f" ({keep_returned(key, value, scratch.out)})"
        raise StepError("WrongOutputType", message) from None


def _section(key: str, data: bytes) -> bytes:
    try:
        return section_bytes(data)
    except (ValueError, RecursionError) as problem:
        raise StepError("WrongOutputType", f"`{key}` cannot be a section: {problem}") from None


def _decoded(key: str, data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        reason = why_not_json_text(data) or problem
        raise StepError("WrongOutputType", f"`{key}` is not valid JSON: {reason}") from None


def _type(value: Any) -> str:
    return "null" if value is None else type(value).__name__


# --- leaves ------------------------------------------------------------------------------------------------------


def _leaves(name: str, spec: OutputSpec, parent: _Ready, missing: list[str]) -> list[_Ready]:
    assert parent.data is not None
    document = _decoded(name, parent.data)
    found: list[_Ready] = []
    for leaf, type_ in spec.leaves.items():
        value = _at(document, _leaf_path(leaf))
        if value is _ABSENT:
            missing.append(f"{name}.{leaf}")
        else:
            found.append(msgspec.structs.replace(_value(f"{name}.{leaf}", type_, value), is_leaf=True))
    return found


@lru_cache(maxsize=4096)
def _leaf_path(leaf: str) -> tuple[Segment, ...]:
    return parse_id_of("Artifact", f"Artifact:x.{leaf}").segments[1:]


def _at(document: Any, path: tuple[Segment, ...]) -> Any:
    """The value at a path: names and text indices in objects, whole numbers in lists; nothing stands in for another."""
    for segment in path:
        for key in (segment.name, *segment.indices):
            match document, key:
                case dict(), str() if key in document:
                    document = document[key]
                case list(), int() if 0 <= key < len(document):
                    document = document[key]
                case _:
                    return _ABSENT
    return document


# --- storing -----------------------------------------------------------------------------------------------------


def _has_secret(path: str | Path, redactor: Redactor) -> bool:
    with open(path, "rb") as file:
        return redactor.found_in_file(file)


def _refuse_secrets(ready: _Ready, redactor: Redactor) -> None:
    found = redactor.found_in(ready.data or b"")
    if ready.path is not None and ready.path.is_dir():
        files, empty = walk_tree(ready.path)
        names = [*empty, *(file.path for file in files)]  # as they would stand in the store
        found = any(redactor.found_in(os.fsencode(name)) for name in names)
        found = found or any(_has_secret(file.location, redactor) for file in files)
    elif ready.path is not None:
        found = _has_secret(ready.path, redactor)
    if found:
        raise StepError("SecretInOutput", f"`{ready.key}` contains a secret that the step was given; it is not kept")


def _stored(ready: _Ready, store: Store) -> OutputResult:
    if ready.is_leaf:
        assert ready.data is not None
        sha256, size = bytes_sha256(ready.data), len(ready.data)
    elif ready.data is not None:
        sha256, size = store.put_bytes(ready.data), len(ready.data)
    else:
        assert ready.path is not None
        if ready.path.is_dir():
            sha256, size = store.put_tree(ready.path)
        elif ready.move:
            sha256, size = _moved(ready.path, store)
        else:
            sha256, size = store.put_file(ready.path)
    return OutputResult(ready.key, sha256, size, ready.type, ready.value)


def _moved(path: Path, store: Store) -> tuple[str, int]:
    """Move a file into the store, unless somebody can still write into it: then its bytes are copied.

    Under a name that nobody knows, nobody can open it again; who had opened it before shows in the lease.
    """
    private = path.with_name(f".{os.urandom(12).hex()}")
    os.rename(path, private)
    try:
        return store.put_file(private, move=not is_open_for_writing(private, unknown=True))
    except BaseException:
        os.rename(private, path)  # it stays what the step left behind: evidence
        raise
