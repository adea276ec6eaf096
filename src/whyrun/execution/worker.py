"""The worker process: `python -m whyrun.execution.worker FACTS`. Takes commands one by one until there are no more."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from pathlib import Path

import msgspec

from whyrun.execution.commands import ExecStep
from whyrun.execution.context import Cancellation, Outbox
from whyrun.execution.from_source import import_project_from_source
from whyrun.execution.isolation import become_worker, descendants, end_descendants, end_group, has_children
from whyrun.execution.scratch import Scratch
from whyrun.execution.step_process import Acknowledgements, StepRunner
from whyrun.execution.streams import Streams
from whyrun.execution.wire import WorkerStart, decode_assignment, decode_command, encode

_DATAGRAM = 1 << 17


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
            size = commands.recv_into(buffer, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            outbox.write(last_word)
            last_word = b""
            size = commands.recv_into(buffer)
        if not size:
            break
        assignment = decode_assignment(view[:size])
        command = assignment.command if assignment.file is None else _read_command(assignment.file)
        assert command is not None
        cancellation.begin()  # before the host hears of it: a signal that follows at once must not be missed
        outbox.began(command, last_word)
        last_word = encode(runner.execute(command, assignment.secrets)) + b"\n"
    outbox.write(last_word)


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
