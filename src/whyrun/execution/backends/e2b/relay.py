"""Connects host and worker over connections that may break, without losing a message.

`python -m whyrun.execution.backends.e2b.relay ROOT PROJECT` runs in the sandbox and starts the worker there. Orders
come as numbered lines of stdin. The host repeats an order if its answer was lost, and the relay executes it only once.
The relay sends the worker's messages as numbered lines, and keeps them until the host has confirmed them. Once a second
it sends a heartbeat. `Channel` is the host's side.
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
from whyrun.execution.backends.base import NO_NEEDS, Ended, LineBuffer, Received, WorkerLost
from whyrun.execution.backends.remote.process import ProcessTransport

BEAT = 1.0  # seconds
_UNCONFIRMED = 256  # lines that the host receives before it confirms them
_END = b"!"  # prefix of the line that reports the worker's end; messages are JSON objects
_PATIENCE = 1.0  # seconds before the host asks again for missing lines


class Order(msgspec.Struct, omit_defaults=True, frozen=True):
    seq: int  # from 1
    heard: int  # all lines up to this number have arrived
    line: bytes = b""  # for the worker
    signum: int = 0  # for the step's processes
    again: bool = False  # repeat all lines after `heard`


_decode_order = msgspec.json.Decoder(Order).decode


# --- the host's side -------------------------------------------------------------------------------------------


class Channel:
    """`write` sends bytes to the relay's stdin, all or nothing, possibly twice. It may raise `WorkerLost`."""

    def __init__(self, write: Callable[[bytes], None], deliver: Callable[[Received], None]) -> None:
        self._write = write
        self._deliver = deliver
        self._lines = LineBuffer()
        self._skip = False
        self._heard = 0
        self._confirmed = 0
        self._asked = 0.0
        self._seq = 0
        self._sending = threading.Lock()

    # --- called by the sending thread ---------------------------------------------------------------------------

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

    # --- called by the receiving thread -------------------------------------------------------------------------

    def feed(self, chunk: bytes) -> None:
        """Take a chunk of the relay's output, which may end anywhere."""
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
        """After a new connection: the next chunk may begin in the middle of a line, and lines before it may be
        missing."""
        self._lines.clear()
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
            self._deliver(Ended(payload[len(_END) :].decode("utf-8", "replace")))
            return
        self._deliver(payload + b"\n")
        if self._heard - self._confirmed >= _UNCONFIRMED:
            self._order()

    def _missing(self, upto: int) -> None:
        now = time.monotonic()
        if upto > self._heard and now - self._asked > _PATIENCE:
            self._asked = now
            self._order(again=True)


# --- in the sandbox --------------------------------------------------------------------------------------------


class Relay:
    """Passes orders to the worker, and numbers and keeps the worker's messages."""

    def __init__(self, transport: ProcessTransport, out: int) -> None:
        self._transport = transport
        self._out = out
        self._lock = threading.Lock()
        self._lines = LineBuffer()
        self._unconfirmed: deque[tuple[int, bytes]] = deque()
        self._number = 0
        self._executed = 0  # number of the last executed order

    def deliver(self, received: Received) -> None:
        """Take data from the worker."""
        if isinstance(received, bytes):
            for line in self._lines.add(received):
                self._send(line)
        elif isinstance(received, Ended):
            self._send(_END + received.reason.encode())

    def _send(self, payload: bytes) -> None:
        with self._lock:
            self._number += 1
            line = b"%d %s\n" % (self._number, payload)
            self._unconfirmed.append((self._number, line))
            write_all(self._out, line)

    def beat(self) -> None:
        with self._lock:
            write_all(self._out, b"0 %d\n" % self._number)

    def execute(self, line: bytes) -> None:
        """Execute an order of the host, unless it was executed before."""
        order = _decode_order(line)
        with self._lock:
            while self._unconfirmed and self._unconfirmed[0][0] <= order.heard:
                self._unconfirmed.popleft()
            if order.again:
                # The first line is a dummy: after a new connection the host drops the first line, which may be cut.
                write_all(self._out, b"0 0\n" + b"".join(line for _, line in self._unconfirmed))
        if order.seq <= self._executed:
            return
        self._executed = order.seq
        try:
            if order.line:
                self._transport.send(order.line)
            if order.signum:
                self._transport.signal(order.signum)
        except WorkerLost:
            pass  # the worker has just ended; its end is reported anyway


def _beat(relay: Relay) -> None:
    while True:
        time.sleep(BEAT)
        relay.beat()


def main(root: str, project: str) -> None:
    transport = ProcessTransport(Path(root), Path(project))
    relay = Relay(transport, sys.stdout.fileno())
    transport.start(NO_NEEDS, relay.deliver)
    threading.Thread(target=_beat, args=(relay,), daemon=True).start()
    rest = b""
    while data := os.read(sys.stdin.fileno(), 1 << 16):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            relay.execute(line)
    transport.close()  # stdin is closed: the host is gone


if __name__ == "__main__":
    main(*sys.argv[1:])
