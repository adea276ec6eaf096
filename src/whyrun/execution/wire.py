"""What travels between a backend and its worker process, beyond the messages of `commands`.

Three channels. *Commands*: one datagram each, so that host and worker can both take from the same queue and each
command goes to exactly one of them (`withdraw` is exact). *Control*: lines that reach a step while it runs; its end
means that the host is gone. *Messages*: lines of JSON from the worker, one write a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from whyrun.execution.commands import ExecStep, Message, Session

INLINE_LIMIT = 60_000  # bytes; a longer command (a wide fan-in) lies in a file, and the datagram names it


class WorkerStart(msgspec.Struct, frozen=True):
    """The facts that a worker gets once, as its only argument."""

    run_dir: str
    project: str
    store: str
    scratch: str
    commands_fd: int
    control_fd: int
    messages_fd: int

    @classmethod
    def of(cls, session: Session, scratch: Path, commands_fd: int, control_fd: int, messages_fd: int) -> WorkerStart:
        return cls(
            run_dir=str(session.run_dir),
            project=str(session.project),
            store=str(session.store),
            scratch=str(scratch),
            commands_fd=commands_fd,
            control_fd=control_fd,
            messages_fd=messages_fd,
        )


class Assignment(msgspec.Struct, omit_defaults=True, frozen=True):
    """One command and, beside it, the secrets that its step refers to. Secrets are in no file.

    They are bytes, since an environment variable need not be UTF-8. Where they are too long for a datagram, they come
    as anonymous memory, whose descriptor goes with it.
    """

    number: int  # which of the commands given to this worker it is
    command: ExecStep | None = None
    file: str | None = None
    secrets: dict[str, bytes] = {}
    secrets_beside: bool = False


class Acknowledged(msgspec.Struct, frozen=True):
    step_id: str
    key: str


Secrets = dict[str, bytes]

encode = msgspec.json.Encoder().encode
decode_secrets = msgspec.json.Decoder(Secrets).decode
decode_assignment = msgspec.json.Decoder(Assignment).decode
decode_command = msgspec.json.Decoder(ExecStep).decode
decode_acknowledged = msgspec.json.Decoder(Acknowledged).decode
_messages = msgspec.json.Decoder(Message)
decode_message = _messages.decode
decode_messages = _messages.decode_lines


def secret_bytes(secrets: Mapping[str, str]) -> Secrets:
    return {name: value.encode("utf-8", "surrogateescape") for name, value in secrets.items()}


def secret_texts(secrets: Secrets) -> dict[str, str]:
    return {name: value.decode("utf-8", "surrogateescape") for name, value in secrets.items()}


def timestamp() -> str:
    """Now, as events write it: UTC, ISO, microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
