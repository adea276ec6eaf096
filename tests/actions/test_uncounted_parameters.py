"""Parameters that do not count: they reach the action, and another value of them runs nothing again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from project_lab import Lab, codes, reasons
from whyrun import Action, Parameters
from whyrun.actions.builtin import BUILTIN
from whyrun.actions.description import InvalidAction, describe
from whyrun.errors import InvalidError
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob

Make = Callable[..., Lab]

ACTION = """\
from typing import ClassVar
from whyrun import Action, Parameters

class Say(Action):
    name, outputs = "say", {"text": "text", "count": "integer"}

    class Params(Parameters):
        uncounted: ClassVar[tuple[str, ...]] = ("patience", "limits")
        word: str
        patience: float = 1.0
        limits: dict[str, int] = {}

    def run(self, inputs, mode="dry-run", context=None, logger=None):
        if self.params.patience < 0:
            raise ValueError("no patience")
        return {"text": f"{self.params.word} {self.params.patience} {self.params.limits}", "count": 3}
"""


def flow(**with_: Any) -> str:
    say = {"uses": "say", "with": {"word": "a", **with_}, "outputs": {"text": {"type": "text", "path": "out.txt"}}}
    return json.dumps({"workflow": "w", "jobs": {"Say": say}})


@pytest.fixture
def lab(project: Make) -> Lab:
    made = project(flow(patience=2), {"actions/say.py": ACTION})
    made.succeed()
    assert made.read("out.txt") == "a 2.0 {}"
    return made


def change(lab: Lab, workflow: str) -> Lab:
    return lab.write({"workflow.yaml": workflow})


def test_another_value_none_and_new_ones_are_no_change(lab: Lab) -> None:
    for with_ in ({"patience": 3}, {}, {"patience": 2, "limits": {"memory": 5}}, {"limits": {}}):
        assert codes(change(lab, flow(**with_)).plan()) == {}, with_
        assert lab.succeed().executed == []
    assert reasons(change(lab, flow(word="b", patience=9)).plan()) == {
        "Job:Say": [
            {
                "code": "INPUT_CHANGED",
                "binding": "word",
                "source": "Input:Say.with.word",
                "old": reasons(lab.plan())["Job:Say"][0]["old"],
                "new": reasons(lab.plan())["Job:Say"][0]["new"],
                "old_value": "a",
                "new_value": "b",
            }
        ]
    }
    lab.succeed()
    assert lab.read("out.txt") == "b 9.0 {}", "they reach the action"
    # back to what was there before, however long it may take
    ran = change(lab, flow(patience=30)).succeed()
    assert (ran.executed, ran.reused) == ([], {"Job:Say": "r0001"})
    assert lab.read("out.txt") == "a 2.0 {}"


def test_a_failed_step_is_tried_again_with_the_new_value(project: Make) -> None:
    lab = project(flow(patience=-1), {"actions/say.py": ACTION})
    lab.run()
    ran = change(lab, flow(patience=1)).succeed()
    assert ran.plan.headlines() == {"Job:Say": "RETRY_PREVIOUS_FAILURE"}
    assert lab.read("out.txt") == "a 1.0 {}"


def test_a_plan_is_replayed_without_the_code(lab: Lab) -> None:
    change(lab, flow(patience=5, word="b"))
    opened = lab.opened()
    snapshot = opened.snapshot()
    plan = compute_execution_plan(snapshot, PlanOptions())
    blob = snapshot_blob(snapshot)
    assert json.loads(blob)["actions"]["Say"]["uncounted"] == ["limits", "patience"]
    (lab.root / "actions/say.py").unlink()
    again = compute_execution_plan(replay_snapshot(blob, opened.history()), PlanOptions())
    assert again.digest == plan.digest


def test_one_that_is_bound_waits_for_its_source_and_then_counts_for_nothing(project: Make) -> None:
    first = {"uses": "python", "with": {"call": "made:number", "n": 1}, "outputs": {"n": {"type": "integer"}}}
    say = {
        "uses": "say",
        "with": {"word": "a", "patience": "${{ jobs.First.outputs.n }}"},
        "outputs": {"text": {"type": "text", "path": "out.txt"}},
    }
    workflow = json.dumps({"workflow": "w", "jobs": {"First": first, "Say": say}})
    made = "def number(n):\n    return {'n': n}\n"
    lab = project(workflow, {"actions/say.py": ACTION, "made.py": made})
    lab.succeed()
    change(lab, workflow.replace('"n": 1', '"n": 2'))
    assert codes(lab.plan()) == {"Job:First": ["INPUT_CHANGED"], "Job:Say": ["UPSTREAM_DIRTY"]}
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == (["Job:First"], {"Job:Say": "r0001"})
    assert lab.plan().headlines() == {}


def test_names_that_are_no_parameters_make_the_action_unusable(project: Make) -> None:
    lab = project(flow(), {"actions/say.py": ACTION.replace('"limits")', '"limit")')})
    with pytest.raises(InvalidError) as refused:
        lab.plan()
    assert [d.message for d in refused.value.diagnostics] == [
        "the action `say` cannot be used: `Say.Params.uncounted` names `limit`, which is not a parameter"
    ]

    class Wrong(Action):
        class Params(Parameters):
            uncounted: ClassVar[Any] = "word"
            word: str = ""

        def run(self, inputs: Any, mode: str = "", context: Any = None, logger: Any = None) -> None:
            pass

    with pytest.raises(InvalidAction, match="must be a tuple of parameter names, not 'word'"):
        describe(Wrong)


def test_a_parameter_may_be_called_so(project: Make) -> None:
    code = ACTION.replace('uncounted: ClassVar[tuple[str, ...]] = ("patience", "limits")', 'uncounted: str = "x"')
    lab = project(flow(uncounted="y"), {"actions/say.py": code})
    lab.succeed()
    assert codes(change(lab, flow(uncounted="z")).plan()) == {"Job:Say": ["INPUT_CHANGED"]}


def test_the_built_in_ones() -> None:
    data = ("memory_limit", "threads")
    found = {name: describe(builtin.load()) for name, builtin in BUILTIN.items() if builtin.is_class}
    assert {name: known.uncounted for name, known in found.items() if known.uncounted} == {
        "http/json": (
            "connect_timeout",
            "cost",
            "currency",
            "idempotency_key",
            "max_bytes",
            "price",
            "redirects",
            "retries",
            "timeout",
            "wait",
        ),
        "data/merge": data,
        "data/append": data,
        "data/aggregate": data,
        "data/sql": ("memory_limit",),
        "data/check": ("memory_limit",),
        **dict.fromkeys(("csv/read", "csv/write", "parquet/read", "parquet/write"), data),
        **dict.fromkeys(("duckdb/load", "postgres/load", "sqlite/load"), data),
        **dict.fromkeys(("duckdb/query", "mysql/extract", "postgres/extract", "sqlite/extract"), ("memory_limit",)),
    }
    noted = [p.name for p in found["http/json"].parameters or () if "does not count" in p.description]
    assert noted == [
        "timeout", "connect_timeout", "retries", "idempotency_key", "redirects", "max_bytes", "wait", "cost", "price",
        "currency",
    ]  # fmt: skip
