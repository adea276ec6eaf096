"""The worker process: `python -m whyrun.execution.worker.main START`, where START is a `WorkerStart` as JSON.

It executes commands one by one until there are no more. It is the same on every backend; backends differ only in how
commands and files reach it.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from whyrun import __version__
from whyrun.actions.code.editable import bundled_folders
from whyrun.actions.code.source_loader import import_project_from_source
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.protocol.framing import WorkerStart, encode
from whyrun.execution.protocol.messages import Cleanup, ExecStep, Ping, Pong, Prepare, Prepared, StepFinished
from whyrun.execution.worker.command_source import CommandFiles, CommandSource, Datagrams
from whyrun.execution.worker.context import Cancellation
from whyrun.execution.worker.failure import failure_of
from whyrun.execution.worker.isolation import become_worker, end_descendants, has_children
from whyrun.execution.worker.outbox import Acknowledgements, Outbox
from whyrun.execution.worker.step_runner import StepRunner
from whyrun.execution.worker.streams import Streams

_SHOWN = 2000  # bytes of what a failed `prepare` command printed last


def main(start_json: str) -> None:
    start = msgspec.json.decode(start_json, type=WorkerStart)
    # Steps must not get these channels: their standard streams are files, and their processes inherit no channel.
    control, messages = (_own(descriptor) for descriptor in (start.control_fd, start.messages_fd))
    become_worker()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the parent may have blocked signals; steps get all of them
    streams = Streams(Scratch(Path(start.scratch)))
    # This process needed it to find Whyrun; a step must not see it.
    os.environ.pop("PYTHONPATH", None)
    sys.argv = ["whyrun-worker"]
    import_project_from_source(start.project)
    # The folders of a copy come first: a package installed there could be the user's own, still edited, source.
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
    spent = _work(source, outbox, cancellation, runner, start)
    if has_children():
        end_descendants()
    if spent:
        os._exit(0)  # Python would wait for a thread that a step left running


def _own(descriptor: int) -> int:
    """Move a channel away from the standard streams, and keep child processes from inheriting it."""
    if descriptor > 2:
        os.set_inheritable(descriptor, False)
        return descriptor
    own = os.dup(descriptor)
    with open(os.devnull, "r+b", buffering=0) as nothing:
        os.dup2(nothing.fileno(), descriptor)
    return own


def _work(
    source: CommandSource, outbox: Outbox, cancellation: Cancellation, runner: StepRunner, start: WorkerStart
) -> bool:
    """Execute commands until there are no more. Returns True if it stopped because a step left a state that cannot be
    restored."""
    unsent, spent = b"", False  # the last message of a step goes out with the first of the next, if that is there

    def flush() -> None:
        nonlocal unsent
        message, unsent = unsent, b""
        outbox.write(message)

    while not spent and (received := source.take(flush)) is not None:
        match received.command:
            case ExecStep() as command:
                cancellation.begin()  # before `StepBegan` goes out, or a signal that follows at once would be missed
                outbox.began(command, unsent)
                finished = runner.execute(command, received.secrets, received.known)
                unsent, spent = _encoded(finished), finished.spent
            case Prepare(command=command_line):
                outbox.write(encode(_prepare(command_line, start)) + b"\n")
            case Ping():
                outbox.write(encode(Pong(__version__, platform.python_version())) + b"\n")
            case Cleanup():
                break
    outbox.write(unsent)
    runner.clean_up()
    return spent


def _encoded(finished: StepFinished) -> bytes:
    try:
        return encode(finished) + b"\n"
    except Exception as problem:  # a value that no check caught: the step fails, and the worker continues
        failure = failure_of(problem)
        failed = StepFinished(
            finished.step_id,
            finished.attempt,
            finished.ts,
            finished.duration,
            [],
            {},
            f"the result of the step cannot be encoded: {failure.error}",
            failure.error_type,
            n=finished.n,
            spent=finished.spent,
        )
        return encode(failed) + b"\n"


def _prepare(command: str, start: WorkerStart) -> Prepared:
    """Run the `prepare` command of `whyrun.toml` in the project folder. Its output goes to a file, because it may be
    long; an error message shows the end of it."""
    import tempfile  # it imports `random`, which the worker would then seed anew for every step

    with tempfile.TemporaryFile(dir=Scratch(Path(start.scratch)).tmp) as printed:
        try:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=start.project,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as problem:
            return Prepared(f"bash cannot be started: {problem.strerror}")
        finally:
            if has_children():
                end_descendants()
        if done.returncode == 0:
            return Prepared()
        printed.seek(max(0, printed.seek(0, 2) - _SHOWN))
        last = printed.read().decode("utf-8", "replace").strip()
    how = f"exit status {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
    return Prepared(f"`{command}` ended with {how}" + (f"\n{last}" if last else ""))


if __name__ == "__main__":
    main(sys.argv[1])
