"""The links `artifacts/<step>/…` of a long run, made while it goes on by a process of its own.

They cost more of the file system than anything else that a short step leaves, and nobody waits for them. A thread of
the host would not do: it would take turns with the host for the interpreter, at every call.

As a program, `python -m whyrun.evidence.links RUN STORE HOST`, it is that process: lists of artifacts, a line each,
come in by its standard input, and `null` is the last of them. HOST is the number of the process that it works for.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections import deque

import msgspec

from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.evidence.run_directory import EndedSteps, RunDirectory, SeenEvents
from whyrun.log.journal import read_events

_PR_SET_PDEATHSIG = 1
MOST_WAITING = 1000  # lines that the process has not taken: one that is so far behind is not waited for
_END = b"null\n"  # not the mere end of the pipe, which a process that was forked meanwhile holds open, too


class Links:
    """The host's side. Nothing depends on the process: what it could not do is done when the run ends."""

    def __init__(self, directory: RunDirectory, store: Store) -> None:
        self.directory, self.store = directory, store
        self._process: subprocess.Popen[bytes] | None = None
        self._unsent: deque[bytes] = deque()
        self._begun = False
        self.lost = False  # it could not be started, has ended before its time, or does not keep up

    def link(self, steps: EndedSteps) -> None:
        """Never waits: what the process does not take now is offered again with the next."""
        if not self._begun:
            self._begun = True
            self._start()
        if self.lost:
            return
        self._unsent.append(msgspec.json.encode(steps) + b"\n")
        self._send()
        if len(self._unsent) > MOST_WAITING:
            self.abandon()

    def _start(self) -> None:
        program = [sys.executable, "-P", "-m", "whyrun.evidence.links"]
        try:
            self._process = disk.start(
                Area.ARTIFACT_LINK,
                [*program, str(self.directory.path), str(self.store.root), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # Ctrl-C on the host's terminal does not reach it
            )
        except OSError:
            self.lost = True  # the host will make them, and is told then what cannot be made
            return
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def _send(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            while self._unsent and (taken := self._process.stdin.write(self._unsent[0])):  # else it has enough to do
                line = self._unsent.popleft()
                if taken < len(line):
                    self._unsent.appendleft(line[taken:])
        except BrokenPipeError:
            self.abandon()

    def abandon(self) -> None:
        """The process ends now; what it has not made is still to be made."""
        self.lost = True
        self._unsent.clear()
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()

    def finish(self) -> None:
        """All that were given are made when this returns."""
        if self._process is not None and not self.lost:
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), True)
            self._unsent.append(_END)
            self._send()
        if self._process is not None and not self.lost:
            assert self._process.stdin is not None
            self.lost = self._process.wait() != 0
            self._process.stdin.close()
        if self.lost:
            seen = SeenEvents()
            for event in read_events(self.directory.events):
                seen.add(event)
            self.directory.link_artifacts(self.store, seen.artifacts())


def main(run: str, store: str, host: str) -> None:
    _end_with(int(host))
    os.nice(5)  # nobody waits for links while there is something else to do
    directory, blobs = RunDirectory(run), Store(store)
    decode = msgspec.json.Decoder(EndedSteps | None).decode
    for line in sys.stdin.buffer:
        steps = decode(line)
        if steps is None:
            return
        directory.link_steps(blobs, steps)
    sys.exit(1)  # the host has ended without a word


def _end_with(host: int) -> None:
    """Whoever repairs the run of a killed host is alone with it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != host:  # it has ended already
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
