"""Collects the outputs of a step: checks all of them against the job's declaration, then stores all of them or none."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from whyrun.artifacts.hashing import bytes_sha256, canonical_json, walk_tree
from whyrun.artifacts.publishing.sections import section_bytes
from whyrun.artifacts.stat_cache.rows import is_open_for_writing
from whyrun.artifacts.store import Store
from whyrun.connections.redact import Redactor
from whyrun.errors import WhyrunError
from whyrun.execution.files.array_members import MemberProblem, members_of, suffix_of
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.protocol.messages import OutputResult, OutputSpec
from whyrun.execution.worker.context import output_path
from whyrun.execution.worker.failure import StepError
from whyrun.ids import Index, Segment, format_index, parse_id_of
from whyrun.json_values import limit_problem, plain_json, plain_scalar, size_problem
from whyrun.workflow.arrays import Element, as_recorded, element_type, is_array
from whyrun.workflow.model import FILE_TYPES, VALUE_TYPES
from whyrun.workflow.nodes import below

_PLAIN_VALUES = {"integer": "a whole number", "number": "a number", "boolean": "`true` or `false`"}
_SHOWN_OF_VALUE = 60  # characters
_FILES_SHOWN = 3  # in the message about a missing output
_DEEPEST = 200  # levels of a value that are searched for what JSON cannot hold
_LARGEST = 50_000_000  # characters of a returned value that is kept as text
_ABSENT = object()


class _Ready(msgspec.Struct, frozen=True):
    """An output that passed all checks: bytes, or a file or folder to move or copy into the store."""

    key: str
    type: str
    data: bytes | None = None
    path: Path | None = None
    move: bool = False
    value: Any = msgspec.UNSET
    suffix: str = ""  # of an element of an array
    is_leaf: bool = False  # the log has its value, so the store needs no bytes of it


def collect_outputs(
    specs: Mapping[str, OutputSpec],
    also_known: Mapping[str, str],
    returned: Any,
    scratch: Scratch,
    store: Store,
    redactor: Redactor,
    uses: str,
) -> list[OutputResult]:
    """`also_known`: outputs that the action has and the job does not declare. They are ignored."""
    values = _returned_values(specs, also_known, returned)
    ready: list[_Ready] = []
    arrays: dict[str, dict[Index, _Ready]] = {}
    missing: list[str] = []
    for name, spec in specs.items():
        value = values.get(name, _ABSENT)
        if is_array(spec.type):
            given = scratch.work / value if isinstance(value, os.PathLike) else value
            given = output_path(scratch, specs, name) if value is _ABSENT else given
            arrays[name] = _array(name, spec, given, scratch, redactor)
            continue
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
        for prepared in (*ready, *chain.from_iterable(array.values() for array in arrays.values())):
            _refuse_secrets(prepared, redactor)
    of_arrays = [_stored_array(name, specs[name].type, array, store) for name, array in arrays.items()]
    return [*(_stored(prepared, store) for prepared in ready), *chain.from_iterable(of_arrays)]


def _missing_outputs(missing: list[str], specs: Mapping[str, OutputSpec], scratch: Scratch, uses: str) -> str:
    """Names the missing outputs, and says how the action can produce them."""
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
    files = [path for path in _files_below(scratch.work) if "" in suffixes or Path(path).suffix in suffixes]
    if files:
        shown = ", ".join(f"`{path}`" for path in files[:_FILES_SHOWN]) + (", …" if len(files) > _FILES_SHOWN else "")
        message += f"; files in its work folder are not kept: {shown}"
    return message


def _files_below(folder: Path) -> list[str]:
    return sorted(Path(at, name).relative_to(folder).as_posix() for at, _, names in os.walk(folder) for name in names)


def collect_file(name: str, spec: OutputSpec, path: Path, store: Store) -> list[OutputResult]:
    """Store a user's own file as an output, with its leaves, after the same checks. Raises `StepError`."""
    prepared = _from_file(name, spec, path, move=False)
    missing: list[str] = []
    leaves = _leaves(name, spec, prepared, missing) if spec.leaves else []
    if missing:
        names = ", ".join(f"`{leaf}`" for leaf in missing)
        raise StepError("MissingOutput", f"it lacks the declared {names}")
    return [_stored(ready, store) for ready in (prepared, *leaves)]


def collect_value(name: str, spec: OutputSpec, value: Any, store: Store) -> list[OutputResult]:
    """Store a value as an output, after the same checks. Raises `StepError`."""
    return [_stored(_value(name, spec.type, value), store)]


def _returned_values(specs: Mapping[str, OutputSpec], also_known: Mapping[str, str], returned: Any) -> dict[str, Any]:
    if returned is None:
        return {}
    if not isinstance(returned, dict):
        shape = f"{{{json.dumps(next(iter(specs)))}: …}}" if len(specs) == 1 else "{output: value}"
        message = f"an action returns {shape} or nothing, not {type(returned).__name__}"
        raise StepError("WrongOutputType", message)
    unknown = [repr(name) for name in returned if name not in specs and name not in also_known]
    if unknown:
        declared = ", ".join(f"`{name}`" for name in specs) or "none"
        raise StepError("UnknownOutput", f"returned {', '.join(unknown)}, but the job declares {declared}")
    return {name: value for name, value in returned.items() if name in specs}


# --- one output ------------------------------------------------------------------------------------------------


def _from_value(name: str, spec: OutputSpec, value: Any, scratch: Scratch) -> _Ready:
    if spec.type in VALUE_TYPES:
        return _value(name, spec.type, value, scratch)
    if isinstance(value, os.PathLike) or (isinstance(value, str) and spec.type not in ("text", "json")):
        path = scratch.work / os.fspath(value)
        if not path.exists():
            raise StepError("MissingOutput", f"`{name}` was returned as `{value}`, which does not exist")
        return _from_file(name, spec, path, move=_is_own(path, scratch))
    if spec.type == "json":
        return _Ready(name, "json", data=_canonical(name, value, scratch))
    if spec.type == "text" and isinstance(value, str):
        return _Ready(name, "text", data=value.encode())
    if spec.type in FILE_TYPES and isinstance(value, (bytes, bytearray, memoryview)):
        return _Ready(name, spec.type, data=bytes(value))
    wanted = {"text": "a str or a Path", "directory": "the Path of a folder"}.get(spec.type, "a Path or bytes")
    raise StepError("WrongOutputType", f"`{name}` is declared as {spec.type}: return {wanted}, not {_type(value)}")


def _is_own(path: Path, scratch: Scratch) -> bool:
    """Whether the step made the file, so that it can be moved. An input may be returned for several outputs."""
    found = path.resolve()
    inside = found.is_relative_to(scratch.root.resolve()) and not found.is_relative_to(scratch.inputs.resolve())
    return inside and not path.is_symlink()


def _from_file(name: str, spec: OutputSpec, path: Path, move: bool) -> _Ready:
    is_folder = _is_folder(name, spec, path)
    if is_folder != (spec.type == "directory") and spec.type != "dataset":
        kind = "a folder" if is_folder else "a file"
        raise StepError("WrongOutputType", f"`{name}` is declared as {spec.type}, but {kind} was written")
    if is_folder:
        try:
            walk_tree(path)  # refuses special files: reading a named pipe would never end
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
    """Whether the output is a folder, not a file. Raises `StepError` for anything else: it has no content, or no
    end."""
    declared = f"`{name}` is declared as {spec.type}, but"
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise StepError("WrongOutputType", f"{declared} a dangling symlink was written") from None
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        return stat.S_ISDIR(mode)
    kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise StepError("WrongOutputType", f"{declared} {kind} was written; only files and folders have content")


def _parsed_value(name: str, type_: str, path: Path) -> Any:
    """The value in an output file: the text for a string, else JSON. One newline at the end does not count."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        raise StepError("WrongOutputType", f"`{name}` is declared as {type_}, but its file is not UTF-8") from None
    text = text.removesuffix("\n")
    if type_ not in _PLAIN_VALUES:
        return text if type_ == "string" else _decoded(name, text.encode())
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        # Of a long text nothing is shown: the cut could leave a part of a secret that nobody recognizes any more.
        held = f"the text {text!r}" if len(text) <= _SHOWN_OF_VALUE else f"a text of {len(text)} characters"
        message = f"`{name}` is declared as {type_}, but its file {f'holds {held}' if text.strip() else 'is empty'}"
        raise StepError("WrongOutputType", f"{message}: write {_PLAIN_VALUES[type_]}, and nothing else") from None


def _value(key: str, type_: str, value: Any, scratch: Scratch | None = None) -> _Ready:
    value = plain_scalar(value)
    if not _fits(type_, value):
        raise StepError("WrongOutputType", f"`{key}` is declared as {type_}, but is {_type(value)}: {value!r:.100}")
    problem = limit_problem(value)  # before anything that recurses into it
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
    """`scratch`: where to keep, as text, a returned value that JSON cannot hold."""
    try:
        try:
            return canonical_json(value)
        except TypeError:
            return canonical_json(plain_json(value))
    except (TypeError, ValueError, RecursionError) as problem:
        message = f"`{key}` cannot be written as JSON: {why_not_json(value) or problem}"
        if scratch is not None:
            message += f" ({_keep_returned(key, value, scratch.out)})"
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
        reason = _why_not_json_text(data) or problem
        what = f"is not valid JSON: {reason}" if data.strip() else "is empty, which is not valid JSON"
        raise StepError("WrongOutputType", f"`{key}` {what}") from None


def _type(value: Any) -> str:
    return "null" if value is None else type(value).__name__


# --- values that JSON cannot hold ------------------------------------------------------------------------------


def why_not_json(value: Any) -> str | None:
    """The first part of a value that JSON cannot hold, and what to do about it; None if there is none."""
    return next(_json_problems(value, "", ()), None)


def _why_not_json_text(data: bytes) -> str | None:
    """The same for a file that only Python accepts as JSON, such as one with NaN."""
    try:
        return why_not_json(json.loads(data))
    except (ValueError, RecursionError):  # not even that: the decoder's own message says where
        return None


def _json_problems(value: Any, path: str, parents: tuple[int, ...]) -> Iterator[str]:
    it = f"`{path.removeprefix('.')}`" if path else "it"
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{it} is {value}, which JSON does not have: give null (None) instead, or leave it out"
    elif isinstance(value, dict | list | tuple):
        if id(value) in parents or len(parents) > _DEEPEST:
            yield f"{it} is nested too deeply, or holds itself"
            return
        members: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in members:
            if isinstance(value, dict) and not isinstance(key, str):
                yield f"{it} has the key {key!r:.60}: keys are texts, so give str(key)"
                return
            yield from _json_problems(member, below(path, key), (*parents, id(value)))
    elif value is not None and not isinstance(value, str | int | float | bool):
        kind = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
        yield f"{it} is a {kind}: give plain numbers, texts, lists and dicts (numpy and pandas: `.tolist()`, `.item()`)"


def _keep_returned(name: str, value: Any, folder: Path) -> str:
    """Write a returned value as text beside the step's outputs, and say where.

    A step may have computed for hours: its result must not be lost because it cannot be an output.
    """
    from pprint import pformat  # few steps come here

    file = folder / f"{name}.returned.txt"
    try:
        text = pformat(value, width=120, sort_dicts=False)[:_LARGEST]
        file.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
    except Exception as problem:  # the user's `__repr__`, or a full disk: the step's own error matters more
        return f"the returned value could not be kept: {type(problem).__name__}: {problem!s:.200}"
    return f"the returned value is in the step's `scratch/out/{file.name}`"


# --- arrays ----------------------------------------------------------------------------------------------------


def _array(name: str, spec: OutputSpec, given: Any, scratch: Scratch, redactor: Redactor) -> dict[Index, _Ready]:
    """The elements of an array, checked. `given`: what was returned, or its folder."""
    base, of_folder, found = element_type(spec.type), isinstance(given, Path), dict[Index, _Ready]()
    try:
        for key, member in members_of(name, base, given):
            text, one = f"{name}[{format_index(key)}]", replace(spec, type=base, suffix=suffix_of(base, member))
            own = _from_file(text, one, member, True) if of_folder else _from_value(text, one, member, scratch)
            found[key] = replace(own, suffix=one.suffix)
    except MemberProblem as problem:
        raise StepError(*problem.args) from None
    if redactor and redactor.found_in("\n".join(map(str, found)).encode()):
        raise StepError("SecretInOutput", f"a key of `{name}` contains a secret that the step was given")
    return found


def _stored_array(name: str, type_: str, array: Mapping[Index, _Ready], store: Store) -> list[OutputResult]:
    """Each element, then the list of them."""
    stored = [_stored(ready, store) for ready in array.values()]
    pairs = zip(array.items(), stored, strict=True)
    whole = as_recorded([Element(key, one.sha256, one.size, own.suffix, one.value) for (key, own), one in pairs])
    return [*stored, _stored(_Ready(name, type_, data=canonical_json(whole), value=whole), store)]


# --- leaves ----------------------------------------------------------------------------------------------------


def _leaves(name: str, spec: OutputSpec, parent: _Ready, missing: list[str]) -> list[_Ready]:
    assert parent.data is not None
    document = _decoded(name, parent.data)
    leaves: list[_Ready] = []
    for leaf, type_ in spec.leaves.items():
        value = _at(document, _leaf_path(leaf))
        if value is _ABSENT:
            missing.append(f"{name}.{leaf}")
        else:
            leaves.append(replace(_value(f"{name}.{leaf}", type_, value), is_leaf=True))
    return leaves


@lru_cache(maxsize=4096)
def _leaf_path(leaf: str) -> tuple[Segment, ...]:
    return parse_id_of("Artifact", f"Artifact:x.{leaf}").segments[1:]


def _at(document: Any, path: tuple[Segment, ...]) -> Any:
    """The value at a path. Names and text indices only select in objects, integers only in lists."""
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


# --- storing ---------------------------------------------------------------------------------------------------


def _has_secret(path: str | Path, redactor: Redactor) -> bool:
    with open(path, "rb") as file:
        return redactor.found_in_file(file)


def _refuse_secrets(ready: _Ready, redactor: Redactor) -> None:
    has_secret = redactor.found_in(ready.data or b"")
    if ready.path is not None and ready.path.is_dir():
        files, empty = walk_tree(ready.path)
        names = [*empty, *(file.path for file in files)]  # names are stored too
        has_secret = any(redactor.found_in(os.fsencode(name)) for name in names)
        has_secret = has_secret or any(_has_secret(file.location, redactor) for file in files)
    elif ready.path is not None:
        has_secret = _has_secret(ready.path, redactor)
    if has_secret:
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
    """Move a file into the store, or copy it if another process can still write to it.

    After the rename to a random name nobody can open it again, and a lease shows who has it open already.
    """
    private = path.with_name(f".{os.urandom(12).hex()}")
    os.rename(path, private)
    try:
        return store.put_file(private, move=not is_open_for_writing(private, unknown=True))
    except BaseException:
        os.rename(private, path)  # it stays part of the step's files, which become evidence
        raise
