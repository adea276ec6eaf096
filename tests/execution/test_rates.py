"""Rates: how often attempts may begin, over all workers. The clock of these tests is a number that they set."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from project_lab import Lab
from whyrun.errors import InvalidError
from whyrun.execution.run import runner
from whyrun.execution.run.rates import Rates
from whyrun.project_config import Rate

Make = Callable[..., Lab]
API = (("api", Fraction(1)),)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def rates(clock: Clock, **texts: str) -> Rates:
    parsed = {name: Rate.parse(text) for name, text in texts.items()}
    return Rates({name: rate for name, rate in parsed.items() if rate is not None}, clock)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("60/min", Rate(60, 60.0)),
        ("5/s", Rate(5, 1.0)),
        ("1/10s", Rate(1, 10.0)),
        ("3/h", Rate(3, 3600.0)),
        ("100/day", Rate(100, 86400.0)),
        *((wrong, None) for wrong in ("60", "0/min", "1.5/s", "60/m", "60/minute", "-1/s", "60 / min", "", 60, None)),
    ],
)
def test_a_rate_is_a_number_for_each_time(text: object, rate: Rate | None) -> None:
    assert Rate.parse(text) == rate


def test_in_no_period_more_begin_than_the_rate_says() -> None:
    clock = Clock()
    bucket = rates(clock, api="3/min")
    begun: list[float] = []
    for step in range(10):
        while not bucket.fit(API):
            clock.now += 1
        bucket.take(step, API)
        clock.now += 7  # it waits in the queue of a worker
        bucket.begin(step, API)
        begun.append(clock.now)
    assert begun == [1007, 1014, 1021, 1074, 1081, 1088, 1141, 1148, 1155, 1208]
    assert all(sum(at <= other < at + 60 for other in begun) <= 3 for at in begun)


def test_a_step_that_is_taken_back_gives_its_tokens_back() -> None:
    bucket = rates(Clock(), api="1/h")
    bucket.take(1, API)
    assert not bucket.fit(API)
    bucket.give_back(1, API)
    assert bucket.fit(API)


def test_a_step_may_take_several_tokens_of_several_resources() -> None:
    clock = Clock()
    bucket = rates(clock, api="3/min", big="1/h")
    both = (("api", Fraction(2)), ("big", Fraction(1)), ("gpu", Fraction(9)))  # `gpu` has no rate
    assert ("api" in bucket, "gpu" in bucket, bool(bucket)) == (True, False, True)
    bucket.take(1, both)
    bucket.begin(1, both)
    assert (bucket.fit(API), bucket.fit((("api", Fraction(2)),)), bucket.fit(both)) == (True, False, False)
    clock.now += 60
    assert (bucket.fit((("api", Fraction(3)),)), bucket.fit(both)) == (True, False)
    assert not rates(clock)
    assert rates(clock).fit(both)


def test_a_service_that_asks_to_wait_closes_its_resource_for_all_steps() -> None:
    clock = Clock()
    bucket = rates(clock, api="2/min", other="2/min")
    bucket.take(1, API)
    bucket.begin(1, API)
    assert bucket.close(API, 30) == ["api"]
    assert bucket.close(API, 20) == []  # it is closed already
    assert bucket.fit((("other", Fraction(1)),))
    clock.now += 29
    assert not bucket.fit(API)
    clock.now += 31  # 60: the token of step 1 is back, those of the two requests that are made again are not
    assert not bucket.fit(API)
    clock.now += 20
    assert not bucket.fit((("api", Fraction(2)),))
    assert bucket.fit(API)
    clock.now += 10
    assert bucket.fit((("api", Fraction(2)),))
    assert bucket.close(API, 1) == ["api"]


FLOW = """
    workflow: w
    loops: {k: {values: [1, 2, 3, 4]}}
    jobs:
      Buy:
        for: [k]
        uses: python
        resources: {api: 1}
        with: {call: "shop:buy", k: "${{ k }}"}
        outputs: {Before: {type: integer}}
      Free:
        uses: shell
        with: {run: 'echo free > "$out_Text"'}
        outputs: {Text: {type: text}}
"""
# A step ends an hour of the test's clock, once the log says that it has begun. It tells how many had ended before.
BUY = """
    import time
    from pathlib import Path

    HERE = Path(__file__).parent
    LOG = HERE / ".whyrun" / "w" / "runs" / "r0001" / "events.jsonl"

    def buy(k):
        before = len(list(HERE.glob("done-*")))
        me = f'"step_id":"Job:Buy[{k}]"'
        while not any('"step_start"' in line and me in line for line in LOG.read_text().splitlines()):
            time.sleep(0.005)
        (HERE / f"done-{k}").touch()
        return {"Before": before}
"""


def test_a_run_starts_no_more_than_its_rate_allows(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = project(FLOW, {"shop.py": BUY, "whyrun.toml": '[rates]\napi = "1/h"\n'})

    def hours() -> float:
        return 3600.0 * len(list(lab.root.glob("done-*")))

    monkeypatch.setattr(runner, "Rates", lambda given, _: Rates(given, hours))
    ran = lab.succeed(jobs=3)
    assert [step for step, _ in ran.starts if step != "Job:Free"] == [f"Job:Buy[{k}]" for k in (1, 2, 3, 4)]
    assert [lab.content(f"Artifact:Buy.Before[{k}]") for k in (1, 2, 3, 4)] == [0, 1, 2, 3]


def test_a_job_that_needs_more_than_its_rate_could_never_start(project: Make) -> None:
    lab = project(FLOW.replace("{api: 1}", "{api: 2}"), {"shop.py": BUY, "whyrun.toml": '[rates]\napi = "1/s"\n'})
    with pytest.raises(InvalidError) as refused:
        lab.run()
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.message) == ("USAGE", "`Buy` needs api: 2, but its rate allows 1 at once")
    assert problem.hint == "raise the rate (`60/min` instead of `1/s`), or lower the job's share"


def test_a_rate_of_a_misspelled_resource_is_told(project: Make) -> None:
    lab = project(FLOW, {"shop.py": BUY, "whyrun.toml": '[rates]\napii = "9/s"\n'})
    told = "no limit is set for the resource `api` (did you mean `apii`?), so it restricts nothing"
    assert [note for note in lab.succeed().heard.notes if "api" in note] == [told]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rates = 3", "`rates` is a table of rates, by resource"),
        ("[rates]\napi = '60'", "the rate of `api` is a number for each s, min, h or day, not '60'"),
        ("[rates]\napi = 60", "the rate of `api` is a number for each s, min, h or day, not 60"),
    ],
)
def test_what_is_no_rate_is_refused(project: Make, text: str, message: str) -> None:
    with pytest.raises(InvalidError) as refused:
        project(FLOW, {"shop.py": BUY, "whyrun.toml": text}).run()
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.message) == ("WRONG_TYPE", message)
    assert problem.hint == '[rates]\n         api = "60/min"'
