"""How commands and messages travel between a backend and its worker process.

There are three channels:

- *Commands.* On the host's machine: datagrams with several commands each, and for every command a ticket with its
  number in a pipe. Host and worker both read from that pipe, so each command belongs to exactly one of them, and the
  host can take commands back exactly. Elsewhere: files, named by lines of the control channel.
- *Control.* Lines that reach a step while it runs. The end of this channel means that the host is gone.
- *Messages.* JSON lines from the worker, one write for each step. Elsewhere the worker also keeps them in a file, from
  which the host reads the messages that a broken connection lost.
"""

from __future__ import annotations

import signal
import struct
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache

import msgspec

from whyrun.artifacts.stat_cache.rows import Signature
from whyrun.execution.protocol.messages import Command, WorkerMessage

INLINE_LIMIT = 60_000  # bytes of a datagram; a longer command (a wide fan-in) goes into a file that the datagram names
TICKET = struct.Struct("=Q")  # the number of a command


class WorkerStart(msgspec.Struct, frozen=True):
    """The settings of a worker process: its only argument, as JSON."""

    run_dir: str
    project: str  # the code
    inputs: str  # folder of the workflow's input files, at their paths in the project
    sources: str  # store with the outputs of earlier steps
    store: str  # store for new outputs; on the host's machine the same one
    scratch: str
    control_fd: int = 0
    messages_fd: int = 1
    commands_fd: int | None = None
    tickets_fd: int | None = None
    commands: str | None = None  # folder of command files; None: commands come as datagrams
    single: bool = False  # it executes one step, in its own process: its machine or sandbox is for this step alone
    said: str | None = None  # file that keeps the messages of the current step
    environments: str = ""  # folder of virtual environments; a worker makes those that are missing there
    engine: Mapping[str, str] = {}  # settings of the user for an engine of containers; steps do not get them
    live: bool = False  # the code is the user's own, which may be edited while steps run; else it is a copy
    views: bool = False  # large inputs are read-only views, and not links


class Assignment(msgspec.Struct, omit_defaults=True, frozen=True):
    """One command and the secrets of its step. Secrets are never written to a file.

    Secrets are bytes, because an environment variable need not be UTF-8. If they are too long for a datagram, they come
    as anonymous memory, whose descriptor accompanies the datagram.
    """

    number: int  # counts the commands of this worker; its ticket has the same number
    command: Command | None = None
    file: str | None = None
    secrets: dict[str, bytes] = {}
    secrets_beside: bool = False
    known: dict[str, Signature] = {}  # input files that the host has hashed, see `HostServices.known_files`


class Acknowledged(msgspec.Struct, tag_field="line", tag="acknowledged", frozen=True):
    step_id: str
    key: str


class CommandFile(msgspec.Struct, tag_field="line", tag="command", omit_defaults=True, frozen=True):
    """A line of the control channel: the name of the next command file, and the secrets of its step."""

    name: str
    secrets: dict[str, bytes] = {}


ControlLine = Acknowledged | CommandFile


Secrets = dict[str, bytes]

encode = msgspec.json.Encoder().encode
decode_secrets = msgspec.json.Decoder(Secrets).decode
decode_assignments = msgspec.json.Decoder(list[Assignment]).decode
decode_command: Callable[[bytes], Command] = msgspec.json.Decoder(Command).decode
decode_acknowledged = msgspec.json.Decoder(Acknowledged).decode
decode_control: Callable[[bytes], ControlLine] = msgspec.json.Decoder(ControlLine).decode
_messages: msgspec.json.Decoder[WorkerMessage] = msgspec.json.Decoder(WorkerMessage)
decode_message = _messages.decode
decode_messages = _messages.decode_lines


def secret_bytes(secrets: Mapping[str, str]) -> Secrets:
    return {name: value.encode("utf-8", "surrogateescape") for name, value in secrets.items()}


def secret_texts(secrets: Secrets) -> dict[str, str]:
    return {name: value.decode("utf-8", "surrogateescape") for name, value in secrets.items()}


def timestamp() -> str:
    """The current time as events have it: UTC, ISO 8601, microseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{nanoseconds // 1000:06d}Z"


def nanoseconds(timestamp: str) -> int:
    """Since 1970, of a time as `timestamp` writes it."""
    moment = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    """The part of a timestamp that many messages share."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def describe_exit(status: int) -> str:
    """How a worker process ended. `status` is negative for a signal."""
    if status >= 0:
        return f"the worker exited with status {status} while the step ran"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"the worker was killed by {name}"
