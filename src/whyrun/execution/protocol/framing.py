"""What travels between a backend and its worker process, beyond the messages of `commands`.

Three channels. *Commands*: on this machine datagrams of several, and for each command a ticket with its number in a
pipe from which host and worker can both take, so that each command goes to exactly one of them (`withdraw` is exact);
elsewhere files, which lines of the control channel name. *Control*: lines that reach a step while it runs; its end
means that the host is gone. *Messages*: lines of JSON from the worker, one write a step; elsewhere also kept in a file,
from which the host fills the gaps that a connection leaves.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from whyrun.artifacts.stat_rows import Signature
from whyrun.execution.commands import Command, Session, Word

INLINE_LIMIT = 60_000  # bytes of a datagram; a longer command (a wide fan-in) lies in a file, and the datagram names it
TICKET = struct.Struct("=Q")  # the number of a command


class WorkerStart(msgspec.Struct, frozen=True):
    """The facts that a worker gets once, as its only argument."""

    run_dir: str
    project: str  # the code
    inputs: str  # below it, at their paths in the project: files that were given to the workflow
    sources: str  # a store: what earlier steps made
    store: str  # where outputs go; on this machine the same
    scratch: str
    control_fd: int = 0
    messages_fd: int = 1
    commands_fd: int | None = None
    tickets_fd: int | None = None
    commands: str | None = None  # a folder: commands are files in it, and lines of `control` name them
    said: str | None = None  # a file that keeps what the worker said of its step
    live: bool = False  # the code is the user's own, who may edit it while steps run; elsewhere it is a copy

    @classmethod
    def of(
        cls, session: Session, scratch: Path, commands_fd: int, tickets_fd: int, control_fd: int, messages_fd: int
    ) -> WorkerStart:
        project, store = str(session.project), str(session.store)
        return cls(
            run_dir=str(session.run_dir),
            project=project,
            inputs=project if session.inputs is None else str(session.inputs),
            sources=store,
            store=store,
            scratch=str(scratch),
            commands_fd=commands_fd,
            tickets_fd=tickets_fd,
            control_fd=control_fd,
            messages_fd=messages_fd,
            live=session.known_files is not None,
        )


class Assignment(msgspec.Struct, omit_defaults=True, frozen=True):
    """One command and, beside it, the secrets that its step refers to. Secrets are in no file.

    They are bytes, since an environment variable need not be UTF-8. Where they are too long for a datagram, they come
    as anonymous memory, whose descriptor goes with it.
    """

    number: int  # which of the commands given to this worker it is
    command: Command | None = None
    file: str | None = None
    secrets: dict[str, bytes] = {}
    secrets_beside: bool = False
    known: dict[str, Signature] = {}  # input files that the host has hashed: see `known_files`


class Acknowledged(msgspec.Struct, tag_field="line", tag="acknowledged", frozen=True):
    step_id: str
    key: str


class CommandFile(msgspec.Struct, tag_field="line", tag="command", omit_defaults=True, frozen=True):
    """A line of `control` where commands are files: which one is next, and its secrets, which are in none."""

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
_messages: msgspec.json.Decoder[Word] = msgspec.json.Decoder(Word)
decode_message = _messages.decode
decode_messages = _messages.decode_lines


def secret_bytes(secrets: Mapping[str, str]) -> Secrets:
    return {name: value.encode("utf-8", "surrogateescape") for name, value in secrets.items()}


def secret_texts(secrets: Secrets) -> dict[str, str]:
    return {name: value.decode("utf-8", "surrogateescape") for name, value in secrets.items()}


def timestamp() -> str:
    """Now, as events write it: UTC, ISO, microseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{nanoseconds // 1000:06d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    """The part of a time that many words share."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
