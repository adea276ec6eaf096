"""When steps start: as soon as their inputs exist, always in the same order, within `--jobs` and limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from project_lab import MEET, Lab, Ran
from whyrun.errors import InvalidError
from whyrun.execution.run.rates import Rates
from whyrun.execution.run.scheduler import Scheduler
from whyrun.log import events as ev

Make = Callable[..., Lab]


def span(lab: Lab, artifact: str) -> tuple[int, int]:
    """When a step began and ended, in nanoseconds, as it has noted itself."""
    began, ended = lab.content(artifact).split()
    return int(began), int(ended)


def most_at_once(spans: list[tuple[int, int]]) -> int:
    steps = sorted([(began, 1) for began, _ in spans] + [(ended, -1) for _, ended in spans])
    now = most = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most


# --- no barriers -------------------------------------------------------------------------------------------------


def test_a_step_starts_when_its_own_inputs_are_there_and_waits_for_no_layer(project: Make) -> None:
    """`Slow` of layer 0 ends only when `Last` of layer 2 has been there: a barrier would wait for ever."""
    lab = project(
        """
        workflow: w
        jobs:
          Slow:
            uses: python
            timeout: 60s
            with: {call: "steps:slow"}
            outputs: {T: {type: text}}
          First:
            uses: python
            with: {call: "steps:quick"}
            outputs: {T: {type: text}}
          Middle:
            uses: python
            with: {call: "steps:quick", t: "${{ jobs.First.outputs.T }}"}
            outputs: {T: {type: text}}
          Last:
            uses: python
            with: {call: "steps:last", t: "${{ jobs.Middle.outputs.T }}"}
            outputs: {T: {type: text}}
        """,
        {"steps.py": """
            import time
            from pathlib import Path

            HERE = Path(__file__).parent

            def slow():
                while not (HERE / "last").exists():
                    time.sleep(0.01)
                return {"T": "slow"}

            def quick(t=None):
                return {"T": "quick"}

            def last(t):
                (HERE / "last").touch()
                return {"T": "last"}
            """},
    )  # fmt: skip
    ran = lab.succeed(jobs=2)
    ends = [e.step_id for e in ran.of(ev.StepComplete)]
    assert (ends[:2], sorted(ends[2:])) == (["Job:First", "Job:Middle"], ["Job:Last", "Job:Slow"])
    assert ran.plan.to_json()["layers"] == [["Job:First", "Job:Slow"], ["Job:Middle"], ["Job:Last"]]


# --- order -------------------------------------------------------------------------------------------------------

ORDER = """
    workflow: w
    loops: {i: {count: 4}, name: {values: [zeta, alpha]}}
    jobs:
      Zoo:
        for: [name, i]
        uses: python
        with: {call: "steps:go", n: "${{ i }}"}
        outputs: {N: {type: integer}}
      Ant:
        for: [i]
        uses: python
        with: {call: "steps:go", n: "${{ i }}"}
        outputs: {N: {type: integer}}
      Use:
        for: [i]
        uses: python
        with: {call: "steps:go", n: "${{ jobs.Ant.outputs.N[i] }}"}
        outputs: {N: {type: integer}}
"""
STEPS = "def go(n):\n    return {'N': n}\n"


def test_the_order_among_ready_steps_is_the_same_every_time(project: Make) -> None:
    lab = project(ORDER, {"steps.py": STEPS})
    orders = [lab.succeed(jobs=1, force=["Job:*[*]", "Job:*[*][*]"] if n else []).starts for n in range(3)]
    first = [(f"Job:Ant[{i}]", 1) for i in range(4)]
    first += [(f"Job:Zoo[{name}][{i}]", 1) for name in ("zeta", "alpha") for i in range(4)]
    assert orders[0][:12] == first, "jobs by name, instances as the loops go"
    assert sorted(orders[0][12:]) == [(f"Job:Use[{i}]", 1) for i in range(4)]
    assert orders[1] == orders[2] == orders[0]
    another = project(ORDER, {"steps.py": STEPS}).succeed(jobs=1)
    assert another.starts == orders[0]


# --- how many at once --------------------------------------------------------------------------------------------

WIDE = """
    workflow: w
    loops: {i: {count: 6}}
    jobs:
      Gpu:
        for: [i]
        uses: python
        resources: {gpu: 1, memory: 0.4}
        with: {call: "steps:meet", me: "${{ i }}"}
        outputs: {T: {type: text}}
"""


def at_once(lab: Lab, expected: int, **options: Any) -> int:
    """How many steps there were at once in a run in which so many are expected."""
    lab.write({"expected": str(expected), **{path.name: None for path in lab.root.glob("began-*")}})
    lab.succeed(**options)
    return most_at_once([span(lab, f"Artifact:Gpu.T[{i}]") for i in range(6)])


@pytest.mark.parametrize("jobs", [1, 3])
def test_never_more_steps_at_once_than_jobs(project: Make, jobs: int) -> None:
    assert at_once(project(WIDE, {"steps.py": MEET}), jobs, jobs=jobs) == jobs


def test_limits_of_the_project_hold_and_those_of_the_command_line_go_first(project: Make) -> None:
    lab = project(WIDE, {"steps.py": MEET, "whyrun.toml": "[resources]\ngpu = 1\nunused = 3\n"})
    assert at_once(lab, 1, jobs=4) == 1
    assert at_once(lab, 3, jobs=4, limits={"gpu": 3}, force=["Job:Gpu[*]"]) == 3


def test_amounts_may_be_fractions_and_every_resource_counts(project: Make) -> None:
    lab = project(WIDE, {"steps.py": MEET, "whyrun.toml": "[resources]\ngpu = 4\nmemory = 1.0\n"})
    assert at_once(lab, 2, jobs=4) == 2, "0.4 + 0.4 fit into 1.0, three times 0.4 do not"


def test_released_amounts_add_up_exactly_so_that_a_step_that_needs_all_starts(project: Make) -> None:
    """In floats, 0.1 + 0.2 + 0.3, and then less each of them in the order of their ends, is not nothing."""
    job = '{uses: shell, resources: {cpu: %s}, with: {run: "sleep %s; echo x > $out_T"}, outputs: {T: {type: text}}}'
    three = {"A": job % (0.1, 0), "B": job % (0.2, 0.2), "C": job % (0.3, 0.4)}
    all_of_it = job.replace("uses:", "needs: [A, B, C], uses:") % (0.7, 0)
    jobs = "".join(f"  {name}: {text}\n" for name, text in {**three, "D": all_of_it}.items())
    ran = project(f"workflow: res\njobs:\n{jobs}").run(jobs=3, limits={"cpu": 0.7})
    assert (ran.exit_code, ran.result.counts.completed, ran.result.counts.not_started) == (0, 4, 0)


def test_a_limit_may_be_larger_than_any_number_that_is_written_out(project: Make) -> None:
    assert at_once(project(WIDE, {"steps.py": MEET}), 2, jobs=2, limits={"gpu": 10**5000}) == 2


def test_a_limit_of_the_project_that_a_job_exceeds_is_reported_before_any_step_starts(project: Make) -> None:
    lab = project(WIDE, {"steps.py": MEET, "whyrun.toml": "[resources]\nmemory = 0.3\n"})
    with pytest.raises(InvalidError, match=r"`Gpu` needs memory: 0\.4, but the limit is 0\.3"):
        lab.run()
    assert lab.runs() == []


def test_a_step_that_waits_for_a_resource_delays_no_other_step(project: Make) -> None:
    """The first of `Big` ends only when `Plain`, which stands behind the second, has been there."""
    lab = project(
        """
        workflow: w
        loops: {i: {count: 2}}
        jobs:
          Big:
            for: [i]
            uses: python
            timeout: 60s
            resources: {gpu: 2}
            with: {call: "steps:big", me: "${{ i }}"}
            outputs: {T: {type: text}}
          Plain:
            uses: python
            with: {call: "steps:plain"}
            outputs: {T: {type: text}}
        """,
        {"steps.py": """
            import time
            from pathlib import Path

            HERE = Path(__file__).parent

            def big(me):
                began = time.time_ns()
                while not (HERE / "plain").exists():
                    time.sleep(0.01)
                return {"T": f"{began} {time.time_ns()}"}

            def plain():
                (HERE / "plain").touch()
                return {"T": "plain"}
            """},
    )  # fmt: skip
    ran = lab.succeed(jobs=2, limits={"gpu": 2})
    big = sorted(span(lab, f"Artifact:Big.T[{i}]") for i in range(2))
    assert big[0][1] <= big[1][0]
    starts = [step for step, _ in ran.starts]
    assert (sorted(starts[:2]), starts[2:]) == (["Job:Big[0]", "Job:Plain"], ["Job:Big[1]"])


def test_a_resource_is_free_again_after_a_failure_and_during_a_backoff(project: Make) -> None:
    """`Flaky` fails until `Other` has been there, which has the one licence during one of the waits for a retry."""
    lab = project(
        """
        workflow: w
        jobs:
          Flaky:
            uses: python
            retries: {max: 4, backoff: 500ms}
            resources: {licence: 1}
            with: {call: "steps:flaky"}
            outputs: {T: {type: text}}
          Other:
            uses: python
            resources: {licence: 1}
            with: {call: "steps:other"}
            outputs: {T: {type: text}}
        """,
        {"steps.py": """
            from pathlib import Path

            HERE = Path(__file__).parent

            def flaky():
                if not (HERE / "other").exists():
                    raise RuntimeError("too early")
                return {"T": "flaky"}

            def other():
                (HERE / "other").touch()
                return {"T": "other"}
            """},
    )  # fmt: skip
    ran = lab.succeed(jobs=2, limits={"licence": 1})
    tries = max(attempt for _, attempt in ran.starts)
    assert [start for start in ran.starts if start != ("Job:Other", 1)] == [("Job:Flaky", n + 1) for n in range(tries)]
    assert ran.starts[-2:] == [("Job:Other", 1), ("Job:Flaky", tries)]


# --- retries -----------------------------------------------------------------------------------------------------


def starts_and_ends(ran: Ran) -> list[tuple[str, float]]:
    from datetime import datetime

    return [
        (type(e).__name__, datetime.fromisoformat(e.ts).timestamp())
        for e in ran.events
        if isinstance(e, ev.StepStart | ev.StepFailed)
    ]


def test_the_backoff_doubles_from_attempt_to_attempt(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          Bad:
            uses: shell
            retries: {max: 3, backoff: 200ms}
            with: {run: 'exit 7'}
            outputs: {T: {type: text}}
        """
    )
    ran = lab.run()
    assert ran.starts == [("Job:Bad", n) for n in (1, 2, 3, 4)]
    assert [e.will_retry for e in ran.of(ev.StepFailed)] == [True, True, True, False]
    steps = starts_and_ends(ran)
    assert [name for name, _ in steps] == ["StepStart", "StepFailed"] * 4
    waits = [later - earlier for (name, earlier), (_, later) in pairwise(steps) if name == "StepFailed"]
    assert [wait >= least for wait, least in zip(waits, (0.19, 0.39, 0.79), strict=True)] == [True] * 3


def test_a_timeout_is_retried_like_an_error_and_only_the_last_failure_blocks(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          Slow:
            uses: python
            timeout: 500ms
            retries: {max: 9, backoff: 10ms}
            with: {call: "steps:slow"}
            outputs: {T: {type: text}}
          Use:
            uses: shell
            with: {t: "${{ jobs.Slow.outputs.T }}", run: 'cat "$t" > "$out_T"'}
            outputs: {T: {type: text}}
        """,
        {"steps.py": """
            import time
            from pathlib import Path

            MARK = Path(__file__).parent / "tried"

            def slow():
                if not MARK.exists():
                    MARK.touch()
                    time.sleep(600)
                return {"T": "in time"}
            """},
    )  # fmt: skip
    ran = lab.succeed()
    tries = max(attempt for _, attempt in ran.starts)  # two; more where the machine is so slow that nothing is in time
    assert tries > 1
    assert ran.starts == [*(("Job:Slow", n + 1) for n in range(tries)), ("Job:Use", 1)]
    failures = [(e.status, e.error_type, e.will_retry) for e in ran.of(ev.StepFailed)]
    assert failures == [("TIMED_OUT", "TimedOut", True)] * (tries - 1)
    assert ran.blocked == {}
    assert lab.content("Artifact:Use.T") == "in time"


def test_independent_steps_run_while_another_waits_for_its_retry(project: Make) -> None:
    """`Bad` fails until `After` has been there, two steps later: nobody else has the only worker meanwhile."""
    lab = project(
        """
        workflow: w
        jobs:
          Bad:
            uses: shell
            retries: {max: 5, backoff: 500ms}
            with: {run: '[ -e MARKED ]; printf x > "$out_T"'}
            outputs: {T: {type: text}}
          Good:
            uses: shell
            with: {run: 'printf x > "$out_T"'}
            outputs: {T: {type: text}}
          After:
            uses: shell
            with: {t: "${{ jobs.Good.outputs.T }}", run: 'cat "$t" > "$out_T"; touch DONE'}
            outputs: {T: {type: text}}
        """
    )
    mark = str(lab.root / "after")
    lab.edit("workflow.yaml", "MARKED", mark).edit("workflow.yaml", "DONE", mark)
    ran = lab.succeed(jobs=1)
    steps = [step for step, _ in ran.starts]
    assert (steps[0], steps[-1]) == ("Job:Bad", "Job:Bad")
    assert [step for step in steps if step != "Job:Bad"] == ["Job:Good", "Job:After"]


# --- needs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", ["0", "1"])
def test_a_step_whose_first_is_decided_early_still_waits_for_what_it_needs(project: Make, ends: str) -> None:
    """`first` is decided while `Slow` runs: the step is looked at then, and must neither start nor forget the needs."""
    lab = project(
        f"""
        workflow: w
        jobs:
          Flag:
            uses: shell
            with: {{run: 'printf "{{\\"go\\": false}}" > "$out_J"'}}
            outputs: {{J: {{type: json, leaves: {{go: boolean}}}}}}
          A:
            if: ${{{{ jobs.Flag.outputs.J.go }}}}
            uses: shell
            with: {{run: 'printf a > "$out_O"'}}
            outputs: {{O: {{type: text}}}}
          B:
            uses: shell
            with: {{run: 'printf b > "$out_O"'}}
            outputs: {{O: {{type: text}}}}
          Slow:
            uses: shell
            with: {{run: 'sleep 1; exit {ends}'}}
          C:
            needs: [Slow]
            if: ${{{{ not jobs.Flag.outputs.J.go }}}}
            uses: shell
            with: {{x: "${{{{ first(jobs.A.outputs.O, jobs.B.outputs.O) }}}}", run: 'cat "$x" > "$out_O"'}}
            outputs: {{O: {{type: text}}}}
        """
    )
    ran = lab.run(jobs=4)
    told = [
        (type(event).__name__, event.step_id)
        for event in ran.events
        if isinstance(event, ev.StepStart | ev.StepComplete | ev.StepFailed | ev.StepBlocked | ev.ConditionEvaluated)
        and event.step_id in ("Job:C", "Job:Slow")
    ]
    slow = [("StepStart", "Job:Slow"), ("StepComplete" if ends == "0" else "StepFailed", "Job:Slow")]
    decided = ("ConditionEvaluated", "Job:C")
    rest = [("StepStart", "Job:C"), ("StepComplete", "Job:C")] if ends == "0" else [("StepBlocked", "Job:C")]
    assert told == [*slow, decided, *rest]


def test_thousands_of_steps_that_wait_for_a_resource_are_not_searched_for_each_that_starts(project: Make) -> None:
    lab = project(
        """
        workflow: w
        loops: {i: {range: 0-9999}}
        jobs:
          Limited:
            for: [i]
            uses: shell
            resources: {gpu: 1}
            with: {run: 'true'}
          Free:
            for: [i]
            uses: shell
            with: {run: 'true'}
        """
    )
    plan, graph = lab.plan(), lab.opened().graph
    scheduler = Scheduler(graph, plan, {"gpu": 1}, Rates({}, float))
    began = time.process_time()
    order = []
    while (node := scheduler.take()) is not None:
        scheduler.move(node, "submit")
        order.append(node)
    assert time.process_time() - began < 30  # seconds; a look through all that wait, each time, takes minutes
    tables = {table.name: table for table in graph.tables}
    limited, free = tables["Limited"], tables["Free"]
    assert order == sorted([limited.base, *range(free.base, free.base + 10_000)])
    scheduler.move(limited.base, "begin")
    scheduler.move(limited.base, "finish")
    assert scheduler.take() == limited.base + 1
