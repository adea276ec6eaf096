"""Make the links `artifacts/<step>/…` of a long run in a separate process, while the run goes on.

For short steps, these links are the most expensive file system work, and nothing waits for them. A thread would not
help: it would compete with the host for the interpreter lock.

`python -m whyrun.evidence.artifact_links RUN STORE HOST` starts that process. It reads lists of artifacts from standard
input, one list per line; `null` ends the input. HOST is the pid of the process that it works for.
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
MAX_UNSENT = 1000  # lines; a process that is this far behind is abandoned
_END = b"null\n"  # closing the pipe is not enough: a process forked meanwhile holds it open as well


class ArtifactLinks:
    """The host's side. Nothing depends on the process: links that it did not make are made when the run ends."""

    def __init__(self, directory: RunDirectory, store: Store) -> None:
        self.directory, self.store = directory, store
        self._process: subprocess.Popen[bytes] | None = None
        self._unsent: deque[bytes] = deque()
        self._begun = False
        self.lost = False  # the process could not be started, ended early, or does not keep up

    def link(self, steps: EndedSteps) -> None:
        """Never blocks: lines that the process does not take now are sent with the next call."""
        if not self._begun:
            self._begun = True
            self._start()
        if self.lost:
            return
        self._unsent.append(msgspec.json.encode(steps) + b"\n")
        self._send()
        if len(self._unsent) > MAX_UNSENT:
            self.abandon()

    def _start(self) -> None:
        program = [sys.executable, "-P", "-m", "whyrun.evidence.artifact_links"]
        try:
            self._process = disk.start(
                Area.ARTIFACT_LINK,
                [*program, str(self.directory.path), str(self.store.root), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # so that Ctrl-C in the host's terminal does not reach it
            )
        except OSError:
            self.lost = True  # the host makes the links at the end, and reports what fails
            return
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def _send(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            while self._unsent and (taken := self._process.stdin.write(self._unsent[0])):  # 0 or None: the pipe is full
                line = self._unsent.popleft()
                if taken < len(line):
                    self._unsent.appendleft(line[taken:])
        except BrokenPipeError:
            self.abandon()

    def abandon(self) -> None:
        """Kill the process. The links that it did not make are made by `finish`."""
        self.lost = True
        self._unsent.clear()
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()

    def finish(self) -> None:
        """Return when all links are made. Calling it again is harmless."""
        if self._process is not None and not self.lost:
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), True)
            self._unsent.append(_END)
            self._send()
        if self._process is not None and not self.lost:
            assert self._process.stdin is not None
            self.lost = self._process.wait() != 0
            self._process.stdin.close()
        self._process = None
        if self.lost:
            seen = SeenEvents()
            for event in read_events(self.directory.events):
                seen.add(event)
            self.directory.link_artifacts(self.store, seen.artifacts())


def main(run: str, store: str, host: str) -> None:
    _die_with(int(host))
    os.nice(5)  # steps come first
    directory, blobs = RunDirectory(run), Store(store)
    decode = msgspec.json.Decoder(EndedSteps | None).decode
    for line in sys.stdin.buffer:
        steps = decode(line)
        if steps is None:
            return
        directory.link_steps(blobs, steps)
    sys.exit(1)  # the host ended without `null`


def _die_with(host: int) -> None:
    """End when the host ends, so that nothing writes to the run folder while a later run repairs it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != host:  # the host ended before `prctl`
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
