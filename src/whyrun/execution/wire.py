"""What travels between a backend and its worker process, beyond the messages of `commands`.

Three channels. *Commands*: one datagram each, so that host and worker can both take from the same queue and each
command goes to exactly one of them (`withdraw` is exact). *Control*: lines that reach a step while it runs; its end
means that the host is gone. *Messages*: lines of JSON from the worker, one write a step.
"""

from __future__ import annotations

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
    """One command and, beside it, the secrets that its step refers to. Secrets are in no file."""

    number: int  # which of the commands given to this worker it is
    command: ExecStep | None = None
    file: str | None = None
    secrets: dict[str, str] = {}


class Acknowledged(msgspec.Struct, frozen=True):
    step_id: str
    key: str


encode = msgspec.json.Encoder().encode
decode_assignment = msgspec.json.Decoder(Assignment).decode
decode_command = msgspec.json.Decoder(ExecStep).decode
decode_acknowledged = msgspec.json.Decoder(Acknowledged).decode
decode_messages = msgspec.json.Decoder(Message).decode_lines


def timestamp() -> str:
    """Now, as events write it: UTC, ISO, microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
