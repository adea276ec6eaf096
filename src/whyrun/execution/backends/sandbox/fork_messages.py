"""Messages between the host and a fork server: the request for a sandbox, and what its keeper reports."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from whyrun.execution.backends.sandbox.bubblewrap import Limits, SandboxSpec, Tools

REQUEST_LIMIT = 1 << 17  # bytes
DESCRIPTORS = 4  # stdin, stdout and stderr of the worker, and the pipe for the keeper's messages


class Request(msgspec.Struct, frozen=True):
    spec: SandboxSpec
    limits: Limits
    tools: Tools
    start: str = ""  # the worker's argument
    command: list[str] = []  # a program to run instead of the worker


class Started(msgspec.Struct, tag=True, frozen=True):
    """The worker runs. Process IDs are those of the host."""

    worker: int  # leader of its process group
    first: int  # the sandbox ends with this process


class StartFailed(msgspec.Struct, tag=True, frozen=True):
    reason: str


class Exited(msgspec.Struct, tag=True, frozen=True):
    status: int  # negative: the signal that killed the worker


FromKeeper = Started | StartFailed | Exited

encode = msgspec.json.Encoder().encode
decode_request = msgspec.json.Decoder(Request).decode
decode_from_keeper: Callable[[bytes], FromKeeper] = msgspec.json.Decoder(FromKeeper).decode
