"""The worker process: `python -m whyrun.execution.worker FACTS`. Takes commands one by one until there are no more."""

from __future__ import annotations

import array
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import msgspec

from whyrun.actions.from_source import import_project_from_source
from whyrun.execution.commands import ExecStep, StepFinished
from whyrun.execution.context import Cancellation
from whyrun.execution.failure import failure_of
from whyrun.execution.isolation import become_worker, descendants, end_descendants, end_group, has_children
from whyrun.execution.outbox import Acknowledgements, Outbox
from whyrun.execution.scratch import Scratch
from whyrun.execution.step_process import StepRunner
from whyrun.execution.streams import Streams
from whyrun.execution.wire import (
    Assignment,
    WorkerStart,
    decode_assignment,
    decode_command,
    decode_secrets,
    encode,
    secret_texts,
)

_DATAGRAM = 1 << 17
_DESCRIPTOR = array.array("i").itemsize
_BESIDE = socket.CMSG_SPACE(_DESCRIPTOR)


def main(facts: str) -> None:
    start = msgspec.json.decode(facts, type=WorkerStart)
    for descriptor in (start.commands_fd, start.control_fd, start.messages_fd):
        os.set_inheritable(descriptor, False)
    become_worker()
    streams = Streams(Scratch(Path(start.scratch)))
    # Needed to get here, but nothing that a step should see.
    os.environ.pop("PYTHONPATH", None)
    sys.argv = ["whyrun-worker"]
    import_project_from_source(start.project)
    sys.path.insert(0, start.project)

    cancellation = Cancellation()
    signal.signal(signal.SIGTERM, cancellation.handle)
    signal.signal(signal.SIGINT, cancellation.handle)
    acknowledgements = Acknowledgements()
    threading.Thread(target=_listen, args=(start.control_fd, acknowledgements), daemon=True).start()
    outbox = Outbox(start.messages_fd)
    runner = StepRunner(start, outbox, cancellation, acknowledgements, streams)
    _work(socket.socket(fileno=start.commands_fd), outbox, cancellation, runner)
    if has_children():
        end_descendants()


def _work(commands: socket.socket, outbox: Outbox, cancellation: Cancellation, runner: StepRunner) -> None:
    buffer = bytearray(_DATAGRAM)
    view = memoryview(buffer)
    last_word = b""
    while True:
        try:
            size, beside, *_ = commands.recvmsg_into([buffer], _BESIDE, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            outbox.write(last_word)
            last_word = b""
            size, beside, *_ = commands.recvmsg_into([buffer], _BESIDE, socket.MSG_CMSG_CLOEXEC)
        if not size:
            break
        assignment = decode_assignment(view[:size])
        command = assignment.command if assignment.file is None else _read_command(assignment.file)
        assert command is not None
        secrets = _secrets(assignment, beside) if assignment.secrets or beside else {}
        cancellation.begin()  # before the host hears of it: a signal that follows at once must not be missed
        outbox.began(command, last_word)
        last_word = _encoded(runner.execute(command, secrets))
    outbox.write(last_word)


def _secrets(assignment: Assignment, beside: list[tuple[int, int, bytes]]) -> dict[str, str]:
    if not assignment.secrets_beside:
        return secret_texts(assignment.secrets)
    ((_, _, data),) = beside
    (descriptor,) = array.array("i", data[:_DESCRIPTOR])
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return secret_texts(decode_secrets(file.read()))


def _encoded(word: StepFinished) -> bytes:
    try:
        return encode(word) + b"\n"
    except Exception as problem:  # a value that no check caught: the step fails, and the worker goes on
        failure = failure_of(problem)
        word = StepFinished(
            word.step_id,
            word.attempt,
            word.ts,
            word.duration,
            [],
            {},
            f"the result of the step cannot be told: {failure.error}",
            failure.error_type,
            n=word.n,
        )
        return encode(word) + b"\n"


def _read_command(path: str) -> ExecStep:
    with open(path, "rb") as file:
        data = file.read()
    os.unlink(path)
    return decode_command(data)


def _listen(control: int, acknowledgements: Acknowledgements) -> None:
    """Hear acknowledgements. The end of this channel means that the host is gone: then everything here ends too."""
    rest = b""
    while data := os.read(control, 1 << 16):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            acknowledgements.put(line)
    end_group(os.getpgrp(), descendants(os.getpid()))


if __name__ == "__main__":
    main(sys.argv[1])
