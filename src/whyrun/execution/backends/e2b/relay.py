"""Keeps a worker at a place that is reached only through connections which may break, and loses none of its words.

`python -m whyrun.execution.backends.relay ROOT PROJECT` runs there, between the host and the worker. Orders come as
numbered lines of stdin: one that comes again, because its answer was lost, is not carried out again. What the worker
says goes out as numbered lines, and is kept until the host has heard it. Once a second the relay shows that it is
alive. `Channel` is the host's end of all this.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from whyrun.artifacts.durable import write_all
from whyrun.execution.backends.process import ProcessTransport
from whyrun.execution.backends.transport import Ended, Heard, Lines, PlaceLost
from whyrun.execution.commands import NO_NEEDS

BEAT = 1.0  # seconds
_UNHEARD = 256  # lines; so many are kept there before the host says that it has heard them
_END = b"!"  # begins the line that tells the worker's end; its messages are JSON objects
_PATIENCE = 1.0  # seconds before the same is asked for again


class Order(msgspec.Struct, omit_defaults=True, frozen=True):
    seq: int  # from 1
    heard: int  # every line up to this one has arrived
    line: bytes = b""  # for the worker
    signum: int = 0  # for the step's processes
    again: bool = False  # say everything after `heard` once more


_decode_order = msgspec.json.Decoder(Order).decode


# --- the host's end --------------------------------------------------------------------------------------------------


class Channel:
    """`write` brings bytes to the relay's stdin, whole or not at all, maybe twice; it may raise `PlaceLost`."""

    def __init__(self, write: Callable[[bytes], None], tell: Callable[[Heard], None]) -> None:
        self._write = write
        self._tell = tell
        self._lines = Lines()
        self._skip = False
        self._heard = 0
        self._confirmed = 0
        self._asked = 0.0
        self._seq = 0
        self._sending = threading.Lock()

    # --- by the thread that gives orders -----------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        self._order(line=line)

    def signal(self, signum: int) -> None:
        self._order(signum=signum)

    def _order(self, line: bytes = b"", signum: int = 0, again: bool = False) -> None:
        with self._sending:  # in the order of their numbers
            self._seq += 1
            order = Order(self._seq, self._heard, line, signum, again)
            self._write(msgspec.json.encode(order) + b"\n")
            self._confirmed = order.heard

    # --- by the thread that listens ----------------------------------------------------------------------------------

    def feed(self, chunk: bytes) -> None:
        """A piece of what the relay says, cut anywhere."""
        for line in self._lines.add(chunk):
            if self._skip:
                self._skip = False
                continue
            number, _, payload = line.partition(b" ")
            if number == b"0":
                self._missing(upto=int(payload))
            else:
                self._take(int(number), payload)

    def reconnected(self) -> None:
        """What comes now may begin in the middle of a line, and lines may be missing before it."""
        self._lines.forget()
        self._skip = True
        self._order(again=True)

    def _take(self, number: int, payload: bytes) -> None:
        if number <= self._heard:
            return
        if number > self._heard + 1:
            self._missing(upto=number)
            return
        self._heard = number
        if payload.startswith(_END):
            self._tell(Ended(payload[len(_END) :].decode("utf-8", "replace")))
            return
        self._tell(payload + b"\n")
        if self._heard - self._confirmed >= _UNHEARD:
            self._order()

    def _missing(self, upto: int) -> None:
        now = time.monotonic()
        if upto > self._heard and now - self._asked > _PATIENCE:
            self._asked = now
            self._order(again=True)


# --- there -----------------------------------------------------------------------------------------------------------


class Relay:
    def __init__(self, transport: ProcessTransport, out: int) -> None:
        self._transport = transport
        self._out = out
        self._lock = threading.Lock()
        self._lines = Lines()
        self._unheard: deque[tuple[int, bytes]] = deque()
        self._number = 0
        self._done = 0

    def tell(self, heard: Heard) -> None:
        """From the worker."""
        if isinstance(heard, bytes):
            for line in self._lines.add(heard):
                self._say(line)
        elif isinstance(heard, Ended):
            self._say(_END + heard.reason.encode())

    def _say(self, payload: bytes) -> None:
        with self._lock:
            self._number += 1
            line = b"%d %s\n" % (self._number, payload)
            self._unheard.append((self._number, line))
            write_all(self._out, line)

    def show_life(self) -> None:
        with self._lock:
            write_all(self._out, b"0 %d\n" % self._number)

    def obey(self, line: bytes) -> None:
        """From the host."""
        order = _decode_order(line)
        with self._lock:
            while self._unheard and self._unheard[0][0] <= order.heard:
                self._unheard.popleft()
            if order.again:
                # The first line tells nothing: who has just connected does not know whether it is a whole one.
                write_all(self._out, b"0 0\n" + b"".join(line for _, line in self._unheard))
        if order.seq <= self._done:
            return
        self._done = order.seq
        try:
            if order.line:
                self._transport.send(order.line)
            if order.signum:
                self._transport.signal(order.signum)
        except PlaceLost:
            pass  # the worker has just ended, and its end is told


def _beat(relay: Relay) -> None:
    while True:
        time.sleep(BEAT)
        relay.show_life()


def main(root: str, project: str) -> None:
    transport = ProcessTransport(Path(root), Path(project))
    relay = Relay(transport, sys.stdout.fileno())
    transport.start(NO_NEEDS, relay.tell)
    threading.Thread(target=_beat, args=(relay,), daemon=True).start()
    rest = b""
    while data := os.read(sys.stdin.fileno(), 1 << 16):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            relay.obey(line)
    transport.close()  # nobody can reach it any more


if __name__ == "__main__":
    main(*sys.argv[1:])
