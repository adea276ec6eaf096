"""Where sandboxed workers come from: `python -m whyrun.execution.backends.sandbox_nursery FD`, inside a view.

Starting Python and importing the worker takes ten times as long as making a sandbox. So that is done once, here. For
every step there is a new sandbox, and a copy of this process enters it and gives up its rights before it does anything
else. No code of a step ever runs here.

For each request this process makes a *keeper*, which lets bubblewrap make the sandbox, puts the worker into it, tells
the host who that is, and at the end how it ended. Whoever of host, nursery, keeper and bubblewrap is gone, the sandbox
is gone too.
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

from whyrun.execution import worker
from whyrun.execution.backends.bubblewrap import sandbox_argv
from whyrun.execution.backends.sandbox_enter import (
    check_confined,
    die_with_parent,
    enter,
    give_up_rights,
    leave_keyring,
    limit,
)
from whyrun.execution.backends.sandbox_words import (
    DESCRIPTORS,
    REQUEST_LIMIT,
    Born,
    NotBorn,
    Over,
    Request,
    decode_request,
    encode,
)
from whyrun.execution.wire import WorkerStart

# What most steps would import next.
_WARM = ("whyrun.actions.builtin.python", "whyrun.actions.builtin.shell", "runpy")

# What bubblewrap starts. It keeps the sandbox there until it is ended.
_HOLDER = ["/bin/sh", "-c", "echo ready; read -r _"]


def main(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)
    host = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers speak for themselves
    for name in _WARM:
        import_module(name)
    msgspec.json.Decoder(WorkerStart)  # what is known of a type is kept with it
    gc.collect()
    gc.freeze()  # what is here now stays shared by all copies
    nursery = os.getpid()
    while True:
        data, descriptors, _, _ = socket.recv_fds(host, REQUEST_LIMIT, DESCRIPTORS)
        if not data:
            return
        if os.fork() == 0:
            host.close()
            _keep(decode_request(data), nursery, descriptors)
        for received in descriptors:
            os.close(received)


def _keep(request: Request, nursery: int, descriptors: list[int]) -> NoReturn:
    *streams, told = descriptors
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent(signal.SIGKILL, nursery)
        sandbox, first = _make_sandbox(request)
        first_process = os.pidfd_open(first)  # its number could become another's
        enter(first)
        child = os.fork()
        if child == 0:
            _be_born(request, streams, told)
        for stream in streams:
            os.close(stream)
        os.write(told, encode(Born(child, first)) + b"\n")
        _, status = os.waitpid(child, 0)
        with suppress(ProcessLookupError):  # the host may have ended it
            signal.pidfd_send_signal(first_process, signal.SIGKILL)
        # With the first process the kernel ends all others in the sandbox, and lets it go last. bubblewrap itself does
        # not wait for that in every case.
        gone = select.poll()
        gone.register(first_process, select.POLLIN)
        gone.poll()
        sandbox.wait()
        os.write(told, encode(Over(os.waitstatus_to_exitcode(status))) + b"\n")
    except BaseException as problem:
        os.write(told, encode(NotBorn(f"{type(problem).__name__}: {problem}")) + b"\n")
    finally:
        os._exit(0)


def _make_sandbox(request: Request) -> tuple[subprocess.Popen[bytes], int]:
    info, info_end = os.pipe()
    process = subprocess.Popen(
        sandbox_argv(request.spec, request.limits, request.tools, _HOLDER, info_end),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={},
        cwd="/",
        pass_fds=(info_end,),
    )
    os.close(info_end)
    assert process.stdout is not None
    assert process.stderr is not None
    if not process.stdout.readline():
        said = process.stderr.read().decode("utf-8", "replace").strip()
        raise OSError(said or f"bubblewrap exited with status {process.wait()}")
    with os.fdopen(info, "rb") as file:
        return process, msgspec.json.decode(file.read())["child-pid"]


def _be_born(request: Request, streams: list[int], told: int) -> NoReturn:
    """In the sandbox, but still with all rights in it."""
    status = 1
    try:
        os.setsid()
        os.chdir(request.spec.work_dir)
        limit(request.limits)
        leave_keyring()
        give_up_rights()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(told, *streams, 1024) + 1)
        os.environ.clear()
        os.environ.update(request.spec.environment)
        check_confined()
        random.seed()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if request.command:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execvp(request.command[0], request.command)
        worker.main(request.facts)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException as problem:
        os.write(2, "".join(traceback.format_exception(problem)).encode("utf-8", "replace"))
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]))
