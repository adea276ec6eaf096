"""Forks sandboxed workers: `python -m whyrun.execution.backends.sandbox.fork_server FD`, inside a view.

Starting Python and importing the worker takes ten times as long as creating a sandbox, so this process does it once.
For every step, a fork of it enters a new sandbox and drops its rights before anything else. No code of a step ever
runs in this process.

For each request this process forks a *keeper*. The keeper lets bubblewrap create the sandbox, starts the worker in it,
and reports to the host its process ID and, later, its exit status. If host, fork server, keeper or bubblewrap dies, the
sandbox dies too.
"""

from __future__ import annotations

import gc
import os
import random
import select
import signal
import socket
import subprocess
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import msgspec

from whyrun.execution.backends.sandbox.confinement import (
    check_confined,
    confine,
    die_with_parent,
    enter,
    filter_program,
    is_known,
    limit,
)
from whyrun.execution.backends.sandbox.launcher import (
    DESCRIPTORS,
    REQUEST_LIMIT,
    Exited,
    Request,
    Started,
    StartFailed,
    decode_request,
    encode,
)
from whyrun.execution.backends.sandbox.view import sandbox_argv
from whyrun.execution.protocol.framing import WorkerStart
from whyrun.execution.worker import main as worker

# Modules that most steps import.
_WARM = ("whyrun.actions.builtin.python", "whyrun.actions.builtin.shell", "runpy")

# The first process of a sandbox, which exists as long as this process.
_HOLDER = ["/bin/sh", "-c", "echo ready; read -r _"]


def main(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)
    host = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers report their own end, so nobody waits for them
    for name in _WARM:
        import_module(name)
    msgspec.json.Decoder(WorkerStart)  # msgspec caches what it derives from a type
    gc.collect()
    gc.freeze()  # keeps the memory of this process shared with all forks
    fork_server = os.getpid()
    while True:
        data, descriptors, _, _ = socket.recv_fds(host, REQUEST_LIMIT, DESCRIPTORS)
        if not data:
            return
        if os.fork() == 0:
            host.close()
            _keep(decode_request(data), fork_server, descriptors)
        for received in descriptors:
            os.close(received)


def _keep(request: Request, fork_server: int, descriptors: list[int]) -> NoReturn:
    *streams, reports = descriptors
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent(signal.SIGKILL, fork_server)
        sandbox, first = _make_sandbox(request)
        first_process = os.pidfd_open(first)  # a process ID could be reused
        enter(first)
        child = os.fork()
        if child == 0:
            _run_worker(request, streams, reports)
        for stream in streams:
            os.close(stream)
        os.write(reports, encode(Started(child, first)) + b"\n")
        _, status = os.waitpid(child, 0)
        with suppress(ProcessLookupError):  # the host may have killed it
            signal.pidfd_send_signal(first_process, signal.SIGKILL)
        # The kernel kills all processes of the sandbox with the first one, which ends last. bubblewrap itself does not
        # wait for that in every case.
        gone = select.poll()
        gone.register(first_process, select.POLLIN)
        gone.poll()
        sandbox.wait()
        os.write(reports, encode(Exited(os.waitstatus_to_exitcode(status))) + b"\n")
    except BaseException as problem:
        os.write(reports, encode(StartFailed(f"{type(problem).__name__}: {problem}")) + b"\n")
    finally:
        os._exit(0)


def _make_sandbox(request: Request) -> tuple[subprocess.Popen[bytes], int]:
    info, info_end = os.pipe()
    call_filter = _call_filter()
    passed = [info_end] if call_filter is None else [info_end, call_filter]
    process = subprocess.Popen(
        sandbox_argv(request.spec, request.limits, request.tools, _HOLDER, info_end, call_filter),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={},
        cwd="/",
        pass_fds=passed,
    )
    for descriptor in passed:
        os.close(descriptor)
    assert process.stdout is not None
    assert process.stderr is not None
    if not process.stdout.readline():
        printed = process.stderr.read().decode("utf-8", "replace").strip()
        raise OSError(printed or f"bubblewrap exited with status {process.wait()}")
    with os.fdopen(info, "rb") as file:
        return process, msgspec.json.decode(file.read())["child-pid"]


def _call_filter() -> int | None:
    """A file with the filter of system calls, for bubblewrap: the process that holds the sandbox is filtered, too."""
    if not is_known(os.uname().machine):
        return None
    descriptor = os.memfd_create("whyrun-call-filter")
    os.write(descriptor, filter_program(os.uname().machine))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _run_worker(request: Request, streams: list[int], reports: int) -> NoReturn:
    """In the forked process, inside the sandbox, still with all rights: drop them and run the worker."""
    status = 1
    try:
        os.setsid()
        os.chdir(request.spec.work_dir)
        limit(request.limits)
        confine(request.spec.network)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(reports, *streams, 1024) + 1)
        os.environ.clear()
        os.environ.update(request.spec.environment)
        check_confined()
        random.seed()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if request.command:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execvp(request.command[0], request.command)
        worker.main(request.start)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException as problem:
        os.write(2, "".join(traceback.format_exception(problem)).encode("utf-8", "replace"))
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]))
