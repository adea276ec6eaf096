"""A result in a shared store: the outputs of a step with a fingerprint, by content, and its origin. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal

import msgspec

from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.json_values import limit_problem, size_problem

_Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Size = Annotated[int, msgspec.Meta(ge=0)]


class Refused(Exception):
    """A result or blob of the shared store is invalid."""


class SharedOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """One output or leaf of a result."""

    key: str  # "Image", or "Story.Segments[0].HasTransition" for a leaf
    sha256: _Sha256
    size: _Size
    type: str
    suffix: str = ""
    stored: _Size = 0  # size of the blob; of a folder, the size of its manifest
    value: Any = msgspec.UNSET  # of leaves and small values, which need no blob

    @property
    def is_leaf(self) -> bool:
        return "." in self.key.partition("[")[0]  # the key of an element may have a dot


class SharedOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a result comes from, for people. No decision depends on it."""

    workflow: str = ""
    step: str = ""
    run: str = ""
    by: str = ""
    at: str = ""
    duration: float = 0.0


class SharedResult(msgspec.Struct, frozen=True, omit_defaults=True):
    version: Literal[1]
    fingerprint: _Sha256
    action: str
    action_sha256: str
    outputs: tuple[SharedOutput, ...]
    origin: SharedOrigin = SharedOrigin()
    versions: dict[str, str] = {}  # of the action's packages

    @property
    def content(self) -> Mapping[str, str]:
        return {output.key: output.sha256 for output in self.outputs}


# Types whose content is a value → whether a value has the type.
VALUE_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}


def _is_list(value: Any) -> bool:
    """Whether a value can be the record of the list of an array."""
    fields: dict[str, type | tuple[type, ...]] = {"key": (str, int), "sha256": str, "size": int, "suffix": str}
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and one.keys() >= {"key", "sha256", "size"}
        and all(isinstance(one.get(name, ""), kind) for name, kind in fields.items() if name in one)
        for one in value
    )


def _is_json(value: Any) -> bool:
    return True


@cache  # made late: it takes a while, and many commands do not need it
def _decoder() -> msgspec.json.Decoder[SharedResult]:
    return msgspec.json.Decoder(SharedResult)


_encoder = msgspec.json.Encoder(order="deterministic")


def encode_result(result: SharedResult) -> bytes:
    return _encoder.encode(result)


def decode_result(data: bytes, fingerprint: str) -> SharedResult:
    """Decode the result of this fingerprint; `Refused` if it is invalid."""
    try:
        result = _decoder().decode(data)
        for output in result.outputs:
            _check_output(output)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as wrong:
        raise Refused(f"it cannot be read: {wrong}") from None
    if result.fingerprint != fingerprint:
        raise Refused(f"it is the result of another fingerprint, {result.fingerprint}")
    if len(result.content) != len(result.outputs):
        raise Refused("it has an output twice")
    return result


def _check_output(output: SharedOutput) -> None:
    """`Refused` if the record of an output contradicts itself. Its blob is checked when it is fetched."""
    has_value = output.value is not msgspec.UNSET
    data = _value_bytes(output) if has_value else b""
    if has_value and bytes_sha256(data) != output.sha256:
        raise Refused(f"the value of `{output.key}` does not have its hash")
    fits = VALUE_KINDS.get(output.type, _is_json if output.is_leaf and output.type == "json" else None)
    if output.type.endswith("[]"):
        fits = _is_list
    if has_value != (fits is not None):
        # A value replaces the blob, which is then not fetched. So only value types may have one.
        raise Refused(f"`{output.key}` is of type {output.type}, and has {'a' if has_value else 'no'} value")
    if fits is not None and not fits(output.value):
        raise Refused(f"the value of `{output.key}` is not of type {output.type}")
    size = len(data) if has_value else output.stored
    # The size of a folder is that of its files, which is known later.
    if output.size != size and (has_value or output.type != "directory"):
        raise Refused(f"`{output.key}` has {size} bytes, not {output.size}")


def _value_bytes(output: SharedOutput) -> bytes:
    """The value would go into the log, so it has the same limits as a value of a local step."""
    problem = limit_problem(output.value)
    data = b"" if problem else canonical_json(output.value)
    problem = problem or (None if output.type.endswith("[]") else size_problem(data))
    if problem is not None:
        raise Refused(f"the value of `{output.key}` {problem}")
    return data
