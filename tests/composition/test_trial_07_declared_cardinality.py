"""Issue 17, number 7: a declared cardinality was ignored outside `data/merge`.

A step of a dataset plan that merges with its own action is checked before the action is called, and the counts are on
record. What cannot be checked is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from project_lab import Lab, Ran
from whyrun.errors import WhyrunError, to_install
from whyrun.evidence.composition.run_folder import RecordedFacts, summary_bytes
from whyrun.log import events as ev
from whyrun.project import Project

pytestmark = pytest.mark.usefixtures("data_libraries")

MakeLab = Callable[..., Lab]

MAIN = "firm,y\na,1\nb,2\nc,3\n"
CONTROLS = "firm,x\na,5\nb,7\nz,1\n"
TWICE = CONTROLS + "a,6\n"
ACTION = """
    import pathlib

    def merge(primary_dataset, secondary_dataset, context, **rest):
        (pathlib.Path(__file__).parent / "called").touch()
        # Code of users may say anything: no decision of the summary comes from here.
        context.task("EXECUTES", "forged", {"decision": "merge", "cardinality": {"asked": "1:1", "found": "1:1"}})
        context.output("merged").write_bytes(primary_dataset.read_bytes())
"""


def plan(uses: str = "python", merge: dict[str, Any] | None = None, **params: Any) -> str:
    call = {"call": "steps:merge"} if uses == "python" else {}
    step = {
        "step_id": "combine", "type": "action", "depends_on": [], "produces": ["merged.csv"],
        "params": {
            "composition_mode": "merge_then_sequential", "template_id": uses, **call,
            "input_bindings": {"primary_dataset": "input:main", "secondary_dataset": "input:controls"},
            "merge": {"operation": "merge", "keys": ["firm"], "cardinality": "1:1"} if merge is None else merge,
            "products": [{"product_id": "merged", "kind": "dataset"}],
            **params,
        },
    }  # fmt: skip
    return json.dumps({"plan_version": 1, "plan_id": "p", "rel_path": "plan.json", "steps": [step]})


def manifest(*keys: str) -> str:
    roles = {"main": "primary_dataset"}
    datasets = [
        {"dataset_key": key, "role": roles.get(key, "secondary_dataset"), "rel_path": f"inputs/{key}.csv"}
        for key in keys
    ]
    return json.dumps({"schema_version": 2, "datasets": datasets})


class PlanLab(Lab):
    def opened(self, sets: Any = ()) -> Project:
        return Project.open(self.root / "plan.json", manifest=str(self.root / "inputs/manifest.json"))

    @property
    def called(self) -> bool:
        """Was the action called? Told anew for each run."""
        mark = self.root / "called"
        found = mark.exists()
        mark.unlink(missing_ok=True)
        return found

    def decisions(self, run: str) -> Any:
        state = self.opened().state
        facts = RecordedFacts(state.runs_dir, self.opened().store)
        made = facts.run(run)
        assert made is not None
        return json.loads(summary_bytes(made, facts))["decisions"]


@pytest.fixture
def lab(tmp_path: Path) -> Callable[..., PlanLab]:
    def make(controls: str = CONTROLS, text: str | None = None, **more: str) -> PlanLab:
        lab = PlanLab(tmp_path)
        lab.write(
            {
                "plan.json": plan() if text is None else text,
                "inputs/manifest.json": manifest("main", "controls", *more),
                "inputs/main.csv": MAIN,
                "inputs/controls.csv": controls,
                **{f"inputs/{name}.csv": data for name, data in more.items()},
                "steps.py": ACTION,
            }
        )
        return lab

    return make


def tasks(ran: Ran) -> list[tuple[str, str]]:
    return [(task.status, task.message) for task in ran.of(ev.Task)]


def merged(found: str, *, refused: bool, right: str = "secondary_dataset", asked: str = "1:1", rows: int = 3) -> Any:
    return {
        "kind": "merge", "step_id": "Job:combine", "left": "primary_dataset", "right": right, "keys": ["firm"],
        "cardinality": {"asked": asked, "found": found}, "refused": refused,
        "rows": {
            "left": 3, "right": rows, "matched_left": 2, "matched_right": rows - 1, "unmatched_left": 1,
            "unmatched_right": 1, "null_key_left": 0, "null_key_right": 0,
        },
    }  # fmt: skip


def test_duplicate_keys_are_refused_before_the_action_is_called(lab: Callable[..., PlanLab]) -> None:
    here = lab(TWICE)
    ran = here.run()
    assert ran.failed == {"Job:combine": ("FAILED", "CardinalityViolated")}
    (failure,) = ran.of(ev.StepFailed)
    assert failure.error == (
        "`cardinality: 1:1` does not hold (found 1:m): 1 key occurs more than once in `secondary_dataset` (2 rows): "
        "(firm=a) 2 times; correct the data, add columns to `keys` that distinguish the rows, or write `1:m`"
    )
    said = "check the keys of `secondary_dataset` in `primary_dataset` on firm: 1:m, 2 of 3 rows matched"
    assert (tasks(ran), here.called) == ([("FAILED", said)], False)
    assert here.decisions("r0001") == [merged("1:m", refused=True, rows=4)]


def test_what_holds_is_on_record_and_the_action_is_called(lab: Callable[..., PlanLab]) -> None:
    here = lab()
    ran = here.succeed()
    said = "check the keys of `secondary_dataset` in `primary_dataset` on firm: 1:1, 2 of 3 rows matched"
    assert (tasks(ran), here.called) == ([("EXECUTES", said), ("EXECUTES", "forged")], True)
    assert here.decisions("r0001") == [merged("1:1", refused=False)]


def test_each_of_several_datasets_is_compared_with_the_primary_one(lab: Callable[..., PlanLab]) -> None:
    both = {"primary_dataset": "input:main", "secondary_dataset": ["input:controls", "input:more"]}
    text = plan(merge={"operation": "merge", "keys": ["firm"], "cardinality": "1:1"}, input_bindings=both)
    here = lab(text=text, more=TWICE)
    ran = here.run()
    assert (ran.failed, here.called) == ({"Job:combine": ("FAILED", "CardinalityViolated")}, False)
    first = merged("1:1", refused=False, right="secondary_dataset[0]")
    assert here.decisions("r0001") == [first, merged("1:m", refused=True, right="secondary_dataset[1]", rows=4)]


def test_the_keys_may_have_other_names_on_the_two_sides(lab: Callable[..., PlanLab]) -> None:
    keys = {"primary": ["firm"], "secondary": ["code"]}
    text = plan(merge={"operation": "merge", "keys": keys, "cardinality": "m:1"})
    here = lab(TWICE.replace("firm", "code"), text=text)
    assert here.run().failed == {"Job:combine": ("FAILED", "CardinalityViolated")}
    assert here.decisions("r0001")[0]["keys"] == keys


def test_any_action_is_checked(lab: Callable[..., PlanLab]) -> None:
    here = lab(TWICE, text=plan("shell", run='touch "$PWD/called"; cp "$primary_dataset" "$out_merged"'))
    assert here.run().failed == {"Job:combine": ("FAILED", "CardinalityViolated")}


def test_without_a_declaration_nothing_is_checked(lab: Callable[..., PlanLab]) -> None:
    here = lab(TWICE, text=plan(merge={"operation": "merge", "keys": ["firm"]}))
    ran = here.succeed()
    assert (tasks(ran), here.decisions("r0001")) == ([("EXECUTES", "forged")], [])


@pytest.mark.parametrize(
    ("controls", "problem"),
    [
        ("", "`secondary_dataset` cannot be read as csv: it has no header line"),
        ("firm;x\na;1\n", "`keys` names `firm`, and `secondary_dataset` has no such column"),
        ("firm,x\n1,5\n", "the key `firm` is text in `primary_dataset` and integer in `secondary_dataset`"),
    ],
)
def test_data_that_cannot_be_read_fail_the_step(lab: Callable[..., PlanLab], controls: str, problem: str) -> None:
    here = lab(controls)
    ran = here.run()
    assert (ran.failed, here.called) == ({"Job:combine": ("FAILED", "CardinalityNotChecked")}, False)
    (failure,) = ran.of(ev.StepFailed)
    what = "`cardinality: 1:1` cannot be checked before the step; remove it, or correct this:"
    assert failure.error.startswith(f"{what} {problem}")


REFUSED = {
    "append": (
        {"operation": "append", "cardinality": "1:1"},
        "`combine` appends, and only a merge has a `cardinality`",
        "remove it",
    ),
    "unknown": (
        {"operation": "merge", "keys": ["firm"], "cardinality": "2:1"}, "`cardinality` of `combine` is `2:1`",
        "write one of 1:1, 1:m, m:1, m:m",
    ),
    "no columns": (
        {"operation": "merge", "keys": "firm", "cardinality": "1:1"},
        "`cardinality` of `combine` cannot be checked: `keys` is no list of columns",
        'write `"keys": ["id"]`, or `{"primary": ["id"], "secondary": ["code"]}` if the names differ',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_checked_is_refused_before_anything_runs(lab: Callable[..., PlanLab], name: str) -> None:
    merge, message, hint = REFUSED[name]
    with pytest.raises(WhyrunError) as refused:
        lab(text=plan(merge=merge)).run()
    assert [(d.code, d.message, d.hint) for d in refused.value.diagnostics] == [("INVALID_PARAMETER", message, hint)]


def test_without_the_extra_the_declaration_is_refused(
    lab: Callable[..., PlanLab], monkeypatch: pytest.MonkeyPatch
) -> None:
    from whyrun.actions.builtin import Extra

    monkeypatch.setattr(Extra, "missing", lambda self: ["duckdb"])
    with pytest.raises(WhyrunError) as refused:
        lab().run()
    (told,) = refused.value.diagnostics
    assert (told.code, told.message) == ("INVALID_PARAMETER", "`cardinality` of `combine` is checked with `duckdb`")
    assert told.hint == f"{to_install('data')}; or remove `cardinality`"
