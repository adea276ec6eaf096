"""What a shared store says of a fingerprint: a result, its outputs by content, and where it is from. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.json_values import limit_problem, size_problem

_Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Size = Annotated[int, msgspec.Meta(ge=0)]


class Refused(Exception):
    """What the shared store gave is not what it should be."""


class SharedOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """One output or leaf of a result."""

    key: str  # "Image", or "Story.Segments[0].HasTransition" for a leaf
    sha256: _Sha256
    size: _Size
    type: str
    suffix: str = ""
    stored: _Size = 0  # bytes under its hash: of a folder those of its list of files
    value: Any = msgspec.UNSET  # leaves and small values: they need no bytes of their own

    @property
    def is_leaf(self) -> bool:
        return "." in self.key


class SharedOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a result comes from. For people; nothing is decided by it."""

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


# The types whose content is a value, and which values fit.
VALUE_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}


def _is_json(value: Any) -> bool:
    return True


_decode = msgspec.json.Decoder(SharedResult)
_encoder = msgspec.json.Encoder(order="deterministic")


def encode_result(result: SharedResult) -> bytes:
    return _encoder.encode(result)


def decode_result(data: bytes, fingerprint: str) -> SharedResult:
    """A result as it was found under this fingerprint; Refused unless it can be one."""
    try:
        result = _decode.decode(data)
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
    """What is said of an output is true of its content, as far as that can be known before its bytes are there."""
    held = output.value is not msgspec.UNSET
    data = _value_bytes(output) if held else b""
    if held and bytes_sha256(data) != output.sha256:
        raise Refused(f"the value of `{output.key}` does not have its hash")
    fits = VALUE_KINDS.get(output.type, _is_json if output.is_leaf and output.type == "json" else None)
    if held != (fits is not None):
        # A value stands for the bytes, which are then not asked for. So only what is a value may have one.
        raise Refused(f"`{output.key}` is of type {output.type}, and has {'a' if held else 'no'} value")
    if fits is not None and not fits(output.value):
        raise Refused(f"the value of `{output.key}` is no {output.type}")
    size = len(data) if held else output.stored
    if output.size != size and (held or output.type != "directory"):  # that has the size of its files, known later
        raise Refused(f"`{output.key}` has {size} bytes, not {output.size}")


def _value_bytes(output: SharedOutput) -> bytes:
    """It would stand in the log here: so it has the limits of a value that a step makes here."""
    problem = limit_problem(output.value)
    data = b"" if problem else canonical_json(output.value)
    problem = problem or size_problem(data)
    if problem is not None:
        raise Refused(f"the value of `{output.key}` {problem}")
    return data
