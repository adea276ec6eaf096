"""When a worker of a Dask cluster counts as silent. Times are arguments, no clock is read."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrun.execution.backends.dask.watch import BEATS, SILENT, Pulse, beat_interval

LOOK = 0.4
BEAT = 0.5


class Story:
    """Looks at one worker that beats every half second, until it falls silent."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pulse = Pulse(0.0)
        self.silent_from = float("inf")
        self.found: list[float] = []  # when it was called silent

    def look(self, delay: float = 0.01, beats_late: float = 0.0) -> Story:
        due = self.now + LOOK
        self.now = due + delay
        heard = min(self.now - beats_late, self.silent_from)
        if self.pulse.looked(due, self.now, {"w": heard // BEAT * BEAT}):
            self.found.append(self.now)
        return self

    def looks(self, number: int, delay: float = 0.01) -> Story:
        for _ in range(number):
            self.look(delay)
        return self

    def falls_silent(self) -> Story:
        self.silent_from = self.now
        return self


def test_a_worker_that_beats_is_never_silent() -> None:
    assert Story().looks(500).found == []


def test_a_worker_that_stops_is_silent_in_less_than_five_seconds() -> None:
    story = Story().looks(20).falls_silent()
    story.looks(12)
    assert SILENT < story.found[0] - story.silent_from < 4.5


def test_a_worker_that_was_never_heard_to_beat_may_still_be_at_its_start() -> None:
    story = Story().falls_silent()
    assert story.looks(200).found == []
    assert story.pulse.looked(story.now, story.now, {"w": 0.0}, at_work={"w"}).keys() == {"w"}


def test_a_host_that_was_asleep_begins_to_count_when_it_wakes() -> None:
    story = Story().looks(20).falls_silent().look(delay=600)
    woke = story.now
    assert story.found == []
    story.looks(20)
    assert story.found == []  # and for a while it takes looks to be slow
    story.looks(400)
    assert story.found[0] > woke + SILENT


def test_a_scheduler_that_did_not_answer_begins_to_be_believed_when_it_does() -> None:
    story = Story().looks(20).falls_silent().looks(5)
    story.pulse.unanswered(story.now)
    answered = story.now
    story.looks(12)
    assert story.found[0] - answered > SILENT


def test_where_every_look_is_slow_the_wait_is_longer_and_has_an_end() -> None:
    story = Story().looks(30, delay=1.0).falls_silent()
    story.looks(30, delay=1.0)
    assert 2 * SILENT < story.found[0] - story.silent_from < 20


def test_looks_that_are_late_now_and_then_do_not_start_the_time_anew_for_ever() -> None:
    story = Story()
    for look in range(60):
        story.look(delay=0.7 if look % 7 == 0 else 0.02)
    story.falls_silent()
    for look in range(60):
        story.look(delay=0.7 if look % 7 == 0 else 0.02)
    assert 0 < story.found[0] - story.silent_from < 10


def test_a_worker_that_makes_long_pauses_is_waited_for_longer() -> None:
    pulse = Pulse(0.0)
    beats = list(accumulate([2.4] * 40))
    found = []
    for look in range(1, 200):
        now = look * LOOK
        found += pulse.looked(now, now, {"w": max([0.0, *(beat for beat in beats if beat <= now)])})
    assert found == []


@pytest.mark.parametrize("workers", [300, 3000])
def test_in_a_large_cluster_where_all_beat_less_often_none_is_silent(workers: int) -> None:
    """Also not those that were heard to beat only once, early, or are at work and have not been heard again."""
    interval = beat_interval(workers)
    pulse = Pulse(0.0)
    names = [f"w{number}" for number in range(workers)]
    pulse.looked(LOOK, LOOK, dict.fromkeys(names, 0.0))
    for look in range(2, int(BEATS * interval / LOOK)):
        now = look * LOOK
        assert pulse.looked(now, now, dict.fromkeys(names, 0.5), at_work=names) == {}
    now = 2 * LOOK + (BEATS + 1) * interval
    assert list(pulse.looked(now, now, {**dict.fromkeys(names, 1.0), "w7": 0.5}, at_work=names)) == ["w7"]


def test_the_beats_that_are_usual_are_those_that_the_scheduler_asks_for() -> None:
    scheduler = pytest.importorskip("distributed.scheduler")
    for workers in (1, 10, 11, 49, 50, 199, 200, 201, 1000, 100_000):
        assert beat_interval(workers) == scheduler.heartbeat_interval(workers)


def test_of_some_workers_only_the_silent_one_is_told_and_one_that_is_gone_is_forgotten() -> None:
    pulse = Pulse(0.0)
    for look in range(1, 40):
        now = look * LOOK
        silent = pulse.looked(now, now, {"a": now, "b": min(now, 4.0)})
    assert list(silent) == ["b"]
    assert pulse.looked(now, now, {"a": now}) == {}


@given(
    delays=st.lists(st.one_of(st.floats(0, 0.05), st.floats(0, 30)), min_size=1, max_size=200),
    share=st.floats(0, 1),
)
def test_whatever_delays_looks_a_worker_that_beats_is_not_lost(delays: list[float], share: float) -> None:
    """What makes a look late may make the beats before it late, by as much as that."""
    story = Story()
    for delay in delays:
        story.look(delay, beats_late=share * delay)
    assert story.found == []
