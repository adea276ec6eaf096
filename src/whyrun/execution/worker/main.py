"""The worker process: `python -m whyrun.execution.worker FACTS`. Takes commands one by one until there are no more.

The same on every backend. What differs between places is how commands and files reach it.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
from pathlib import Path

import msgspec

from whyrun import __version__
from whyrun.actions.editable import bundled_folders
from whyrun.actions.from_source import import_project_from_source
from whyrun.execution.commands import Cleanup, ExecStep, Ping, Pong, Prepare, StepFinished
from whyrun.execution.context import Cancellation
from whyrun.execution.failure import failure_of
from whyrun.execution.given import CommandFiles, CommandSource, Datagrams
from whyrun.execution.isolation import become_worker, end_descendants, has_children
from whyrun.execution.outbox import Acknowledgements, Outbox
from whyrun.execution.scratch import Scratch
from whyrun.execution.step_process import StepRunner
from whyrun.execution.streams import Streams
from whyrun.execution.wire import WorkerStart, encode


def main(facts: str) -> None:
    start = msgspec.json.decode(facts, type=WorkerStart)
    # Steps get neither: their standard streams are files, and what they start inherits no channel of ours.
    control, messages = (_own(descriptor) for descriptor in (start.control_fd, start.messages_fd))
    become_worker()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # whatever who started us does not want to hear: steps hear all
    streams = Streams(Scratch(Path(start.scratch)))
    # Needed to get here, but nothing that a step should see.
    os.environ.pop("PYTHONPATH", None)
    sys.argv = ["whyrun-worker"]
    import_project_from_source(start.project)
    # A copy's own folders go before what may be installed at its place: that may be the user's, who goes on editing.
    sys.path[:0] = [start.project, *(() if start.live else bundled_folders(start.project))]

    cancellation = Cancellation()
    signal.signal(signal.SIGTERM, cancellation.handle)
    signal.signal(signal.SIGINT, cancellation.handle)
    acknowledgements = Acknowledgements()
    source: CommandSource
    if start.commands is not None:
        source = CommandFiles(start.commands, control, acknowledgements)
    else:
        assert start.commands_fd is not None
        assert start.tickets_fd is not None
        for descriptor in (start.commands_fd, start.tickets_fd):
            os.set_inheritable(descriptor, False)
        source = Datagrams(start.commands_fd, start.tickets_fd, control, acknowledgements)
    outbox = Outbox(messages, start.said)
    runner = StepRunner(start, outbox, cancellation, acknowledgements, streams)
    spent = _work(source, outbox, cancellation, runner)
    if has_children():
        end_descendants()
    if spent:
        os._exit(0)  # Python would wait for the thread that a step left


def _own(descriptor: int) -> int:
    """A channel under a number that nobody looks for, and closed for those that we start."""
    if descriptor > 2:
        os.set_inheritable(descriptor, False)
        return descriptor
    own = os.dup(descriptor)
    with open(os.devnull, "r+b", buffering=0) as nothing:
        os.dup2(nothing.fileno(), descriptor)
    return own


def _work(source: CommandSource, outbox: Outbox, cancellation: Cancellation, runner: StepRunner) -> bool:
    """Until there are no more commands, or a step has left what the next one must not meet: True."""
    last_word, spent = b"", False

    def let_know() -> None:
        nonlocal last_word
        word, last_word = last_word, b""
        outbox.write(word)

    while not spent and (given := source.take(let_know)) is not None:
        match given.command:
            case ExecStep() as command:
                cancellation.begin()  # before the host hears of it: a signal that follows at once must not be missed
                outbox.began(command, last_word)
                finished = runner.execute(command, given.secrets, given.known)
                last_word, spent = _encoded(finished), finished.spent
            case Prepare(command=command_line):
                outbox.write(encode(runner.prepare(command_line)) + b"\n")
            case Ping():
                outbox.write(encode(Pong(__version__, platform.python_version())) + b"\n")
            case Cleanup():
                break
    outbox.write(last_word)
    runner.clean_up()
    return spent


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
            spent=word.spent,
        )
        return encode(word) + b"\n"


if __name__ == "__main__":
    main(sys.argv[1])
