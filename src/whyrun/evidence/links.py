"""The links `artifacts/<step>/…` of a long run, made while it goes on by a process of its own.

They cost more of the file system than anything else that a short step leaves, and nobody waits for them. A thread of
the host would not do: it would take turns with the host for the interpreter, at every call.

As a program, `python -m whyrun.evidence.links RUN STORE`, it is that process: lists of artifacts, a line each, come in
by its standard input, and it ends when that ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys

import msgspec

from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.evidence.run_directory import EndedSteps, RunDirectory, SeenEvents
from whyrun.log.journal import read_events

_PR_SET_PDEATHSIG = 1


class Links:
    """The host's side. Nothing depends on the process: what it could not do is done when the run ends."""

    def __init__(self, directory: RunDirectory, store: Store) -> None:
        self.directory, self.store = directory, store
        self._process: subprocess.Popen[bytes] | None = None
        self._unsent = b""
        self._given = False
        self._lost = False  # it could not be started, or has ended before its time

    def link(self, steps: EndedSteps) -> None:
        """Never waits: what the process does not take now is offered again with the next."""
        if not self._given:
            self._given = True
            self._start()
        if not self._lost:
            self._unsent += msgspec.json.encode(steps) + b"\n"
            self._send()

    def _start(self) -> None:
        program = [sys.executable, "-P", "-m", "whyrun.evidence.links", str(self.directory.path), str(self.store.root)]
        try:
            self._process = disk.start(
                Area.ARTIFACT_LINK,
                program,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # Ctrl-C on the host's terminal does not reach it
            )
        except OSError:
            self._lost = True  # the host will make them, and is told then what cannot be made
            return
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def _send(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            while self._unsent and (taken := self._process.stdin.write(self._unsent)):  # else it has enough to do
                self._unsent = self._unsent[taken:]
        except BrokenPipeError:
            self._lost, self._unsent = True, b""

    def finish(self) -> None:
        """All that were given are made when this returns."""
        if self._process is not None:
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), True)
            self._send()
            self._process.stdin.close()
            self._lost = self._process.wait() != 0 or self._lost
        if self._lost:
            seen = SeenEvents()
            for event in read_events(self.directory.events):
                seen.add(event)
            self.directory.link_artifacts(self.store, seen.artifacts())


def main() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # whoever repairs the run is alone with it
    directory, store = RunDirectory(sys.argv[1]), Store(sys.argv[2])
    decode = msgspec.json.Decoder(EndedSteps).decode
    for line in sys.stdin.buffer:
        directory.link_steps(store, decode(line))


if __name__ == "__main__":
    main()
