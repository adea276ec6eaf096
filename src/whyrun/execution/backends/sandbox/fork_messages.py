"""What the host says to a nursery of sandboxes, and what is said back about each."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from whyrun.execution.backends.bubblewrap import Limits, SandboxSpec, Tools

REQUEST_LIMIT = 1 << 17  # bytes
DESCRIPTORS = 4  # stdin, stdout, stderr of the worker, and where its keeper speaks


class Request(msgspec.Struct, frozen=True):
    spec: SandboxSpec
    limits: Limits
    tools: Tools
    facts: str = ""  # for the worker
    command: list[str] = []  # a program instead of the worker


class Born(msgspec.Struct, tag=True, frozen=True):
    """Numbers of processes as the host knows them."""

    worker: int  # leads a process group
    first: int  # its end is the end of the sandbox


class NotBorn(msgspec.Struct, tag=True, frozen=True):
    reason: str


class Over(msgspec.Struct, tag=True, frozen=True):
    status: int  # negative: the signal that ended it


Said = Born | NotBorn | Over

encode = msgspec.json.Encoder().encode
decode_request = msgspec.json.Decoder(Request).decode
decode_said: Callable[[bytes], Said] = msgspec.json.Decoder(Said).decode
