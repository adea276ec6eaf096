"""The relay and its channel over a connection that cuts, drops, repeats and forgets data at random."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrun.execution.backends.base import Ended, Received, WorkerLost
from whyrun.execution.backends.e2b.relay import Channel, Relay
from whyrun.execution.backends.remote.process import ProcessTransport


class Worker(ProcessTransport):
    """Takes down what it is given; nothing is started."""

    def __init__(self) -> None:
        super().__init__(Path("unused"), Path("unused"))
        self.given: list[bytes | int] = []

    def send(self, line: bytes) -> None:
        self.given.append(line)

    def signal(self, signum: int) -> None:
        self.given.append(signum)


class Line:
    """Relay and channel, with a wire between them that the test holds."""

    def __init__(self) -> None:
        self.worker = Worker()
        self.heard: list[Received] = []
        self._read, self._write = os.pipe()
        self.relay = Relay(self.worker, self._write)
        self.channel = Channel(self.deliver, self.heard.append)
        self.copies = 1  # how often an order arrives
        os.set_blocking(self._read, False)

    def __del__(self) -> None:
        os.close(self._read)
        os.close(self._write)

    def deliver(self, data: bytes) -> None:
        for line in data.splitlines() * self.copies:
            self.relay.execute(line)

    def said(self) -> bytes:
        try:
            return os.read(self._read, 1 << 20)
        except BlockingIOError:
            return b""

    def text(self) -> bytes:
        return b"".join(heard for heard in self.heard if isinstance(heard, bytes))


def test_orders_that_arrive_more_than_once_are_carried_out_once() -> None:
    line = Line()
    line.copies = 3
    line.channel.send(b"one\n")
    line.channel.signal(15)
    line.channel.send(b"two\n")
    assert line.worker.given == [b"one\n", 15, b"two\n"]


def test_an_order_for_a_worker_that_is_gone_harms_nobody() -> None:
    class Gone(Worker):
        def send(self, line: bytes) -> None:
            raise WorkerLost("gone")

    line = Line()
    line.relay = Relay(Gone(), -1)
    line.channel.send(b"one\n")
    line.channel.send(b"two\n")


def test_the_end_is_told_after_everything_else() -> None:
    line = Line()
    line.relay.deliver(b'{"a":1}\n{"b"')
    line.relay.deliver(b":2}\n")
    line.relay.deliver(Ended("the worker was killed by SIGKILL"))
    line.channel.feed(line.said())
    assert line.heard == [b'{"a":1}\n', b'{"b":2}\n', Ended("the worker was killed by SIGKILL")]


def test_a_sign_of_life_shows_that_something_is_missing() -> None:
    line = Line()
    line.relay.deliver(b"first\n")
    line.said()  # lost
    line.relay.beat()
    line.channel.feed(line.said())
    line.channel.feed(line.said())
    assert line.heard == [b"first\n"]


def test_what_was_heard_is_not_kept_there() -> None:
    line = Line()
    for number in range(3000):
        line.relay.deliver(b"word %d\n" % number)
        line.channel.feed(line.said())
    assert line.text().count(b"\n") == 3000
    line.channel.reconnected()
    assert line.said().count(b"word") < 600


@given(
    st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=40), max_size=40),
    st.integers(0, 2**32),
)
@settings(max_examples=200)
def test_a_wire_that_fails_at_will_loses_and_repeats_nothing(words: list[str], seed: int) -> None:
    chance = random.Random(seed)
    line = Line()
    spoken = b"".join(b"{%s}\n" % word.encode() for word in words)
    rest = spoken
    while rest:
        size = chance.randint(1, 60)
        line.relay.deliver(rest[:size])
        rest = rest[size:]
        if chance.random() < 0.3:
            line.relay.beat()
        said = line.said()
        if chance.random() < 0.3:  # the connection breaks somewhere in the middle
            line.channel.feed(said[: chance.randint(0, len(said))])
            # Whoever connects hears from some point on, which may lie in the middle of a line.
            line.relay.beat()
            late = line.said()
            line.channel.reconnected()
            line.channel.feed(late[chance.randint(0, len(late)) :] + line.said())
        else:
            while said:
                cut = chance.randint(1, 50)
                line.channel.feed(said[:cut])
                said = said[cut:]
        line.copies = chance.choice([1, 1, 2])
    line.channel.reconnected()
    line.channel.feed(line.said())
    assert line.text() == spoken


def test_two_threads_give_orders_without_losing_one() -> None:
    line = Line()
    threads = [
        threading.Thread(target=lambda n=n: [line.channel.send(b"%d-%d\n" % (n, i)) for i in range(200)])
        for n in (1, 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in (1, 2):
        own = [given for given in line.worker.given if isinstance(given, bytes) and given.startswith(b"%d-" % number)]
        assert own == [b"%d-%d\n" % (number, i) for i in range(200)]


def test_what_is_no_line_of_a_relay_is_not_taken_for_one() -> None:
    line = Line()
    with pytest.raises(ValueError, match="invalid literal"):
        line.channel.feed(b"Traceback (most recent call last):\n")
