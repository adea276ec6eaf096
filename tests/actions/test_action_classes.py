"""Classes of action in real workflows: what they are given, what is checked when, and what they say of themselves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest

from project_lab import Lab
from whyrun.errors import InvalidError
from whyrun.planning.answers.explain import estimate_seconds, expected_durations
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import snapshot_blob

Make = Callable[..., Lab]

LEARN = """
    from pathlib import Path
    from typing import Annotated, Literal
    from whyrun import Action, File, Meta, Parameters

    with (Path(__file__).parent.parent / "trace").open("a") as file:
        file.write("imported ")

    class Learn(Action):
        name, version = "learn", "1"
        outputs = {"graph": "json", "log": "text"}
        class Params(Parameters):
            data: File
            algorithm: Literal["pc", "hc"] = "pc"
            alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.25
        def run(self, inputs, mode="dry-run", context=None, logger=None):
            assert self.params.alpha == inputs["alpha"]
            shown = {name: value.read_text() if name == "data" else value for name, value in inputs.items()}
            return {"graph": {**shown, "mode": mode}, "log": "not declared by every job"}
        def estimate_runtime(self, inputs):
            return 100 * inputs["alpha"]
"""

WORKFLOW = """
    workflow: w
    inputs:
      Data: {type: file, default: data.csv}
      Alpha: {type: number, default: 0.5}
    loops: {algorithm: {values: [pc, hc]}}
    jobs:
      learn:
        for: [algorithm]
        uses: learn
        with: {data: "${{ inputs.Data }}", algorithm: "${{ algorithm }}", alpha: "${{ inputs.Alpha }}"}
        outputs: {graph: {type: json}}
"""


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(WORKFLOW, {"actions/learn.py": LEARN, "data.csv": "a,b\n"})


def imports(lab: Lab) -> int:
    trace = lab.root / "trace"
    return len(trace.read_text().split()) if trace.exists() else 0


def refusals(lab: Lab, sets: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """What planning refuses, which must be what validation finds."""
    with pytest.raises(InvalidError) as refused:
        lab.plan(sets=sets)
    assert refused.value.diagnostics == lab.opened(sets).problems
    return [(f"{d.line}:{d.column}", f"{d.code}: {d.message}") for d in refused.value.diagnostics]


def test_a_class_gets_typed_inputs_with_defaults_and_the_mode(lab: Lab) -> None:
    lab.edit("workflow.yaml", ', alpha: "${{ inputs.Alpha }}"', "")
    lab.succeed()
    for algorithm in ("pc", "hc"):
        assert lab.content(f"Artifact:learn.graph[{algorithm}]") == {
            "data": "a,b\n",
            "algorithm": algorithm,
            "alpha": 0.25,
            "mode": "run",
        }


def test_the_least_that_an_action_needs_is_run(project: Make) -> None:
    """No Params, no outputs, no mode, context or logger: and nothing of it is imported to plan."""
    code = """
        from whyrun import Action
        open("/nowhere/at/all")
    """
    small = """
        from whyrun import Action
        class Small(Action):
            name = "small"
            def run(self, inputs):
                return {"sum": inputs["a"] + inputs["b"]}
    """
    workflow = """
        workflow: w
        jobs:
          Add: {uses: small, with: {a: 1, b: 2}, outputs: {sum: {type: integer}}}
    """
    lab = project(workflow, {"actions/small.py": small, "actions/broken.py": code})
    lab.succeed()
    assert lab.content("Artifact:Add.sum") == 3


def test_a_class_that_brings_nothing_is_not_imported_by_planning(project: Make) -> None:
    code = """
        from whyrun import Action
        raise RuntimeError("planning must not import this")
        class Plain(Action):
            name = "plain"
            def run(self, inputs): ...
        class Typed(Plain):
            name = "typed"
            class Params: ...
        class Heir(Typed):
            name = "heir"
    """
    workflow = "workflow: w\njobs:\n  A: {{uses: {}, outputs: {{X: {{type: json}}}}}}\n"
    lab = project(workflow.format("plain"), {"actions/mine.py": code})
    assert lab.plan().headlines() == {"Job:A": "MISSING_OUTPUT"}
    why = "RuntimeError: planning must not import this (actions/mine.py:3)"
    for name in ("typed", "heir"):
        lab.write({"workflow.yaml": workflow.format(name)})
        assert refusals(lab) == [("3:13", f"INVALID_USES: the action `{name}` cannot be used: {why}")]


# --- when parameters are checked ---------------------------------------------------------------------------------


def test_literals_and_values_of_inputs_and_loops_are_checked_before_anything_runs(lab: Lab) -> None:
    lab.edit("workflow.yaml", "[pc, hc]", "[pc, hill, hc, climb]")
    lab.edit("workflow.yaml", "with: {data:", "with: {beta: 1, data:")
    assert refusals(lab, ("Alpha=7",)) == [
        ("11:12", "INVALID_PARAMETER: the action `learn` has no parameter `beta`"),
        (
            "11:60",
            'INVALID_PARAMETER: `algorithm` is "hill"; it takes one of "hc", "pc" '
            "(in `Job:learn[hill]`, and in 1 more instance)",
        ),
        (
            "11:87",
            "INVALID_PARAMETER: `alpha` is 7; it takes a number > 0 and < 1 "
            "(in `Job:learn[pc]`, and in 3 more instances)",
        ),
    ]
    assert not (lab.root / ".whyrun").exists()


def test_what_is_bound_is_checked_by_its_type(lab: Lab) -> None:
    lab.write({"photos/a.txt": "a"})
    lab.edit("workflow.yaml", "{type: file, default: data.csv}", "{type: directory, default: photos}")
    lab.edit("workflow.yaml", "outputs: {graph", "# {graph")
    lab.edit("workflow.yaml", "{algorithm: {values: [pc, hc]}}", "{algorithm: {values: [pc]}}")
    lab.write({"workflow.yaml": lab.read("workflow.yaml") + "    outputs: {graph: {type: json}}\n"})
    assert refusals(lab) == [
        ("11:18", "INVALID_PARAMETER: `data` is bound to something of type `directory`; it takes a file")
    ]


def test_what_a_run_computes_is_checked_when_its_step_starts(project: Make) -> None:
    workflow = """
        workflow: w
        inputs: {Data: {type: file, default: data.csv}}
        jobs:
          Guess:
            uses: shell
            with: {run: "echo 3 > $out_Alpha"}
            outputs: {Alpha: {type: number}}
          learn:
            uses: learn
            with: {data: "${{ inputs.Data }}", alpha: "${{ jobs.Guess.outputs.Alpha }}"}
            outputs: {graph: {type: json}}
    """
    lab = project(workflow, {"actions/learn.py": LEARN, "data.csv": ""})
    ran = lab.run()
    assert ran.exit_code == 1
    assert ran.failed == {"Job:learn": ("FAILED", "InvalidParameter")}
    (failure,) = [event for event in ran.events if event.__class__.__name__ == "StepFailed"]
    assert failure.error == "`alpha` is 3; it takes a number > 0 and < 1"


def test_that_values_fitted_once_says_nothing_of_others(lab: Lab) -> None:
    lab.succeed()
    lab.plan()
    where = " (in `Job:learn[pc]`, and in 1 more instance)"
    refused = ("11:78", f"INVALID_PARAMETER: `alpha` is 7; it takes a number > 0 and < 1{where}")
    assert refusals(lab, ("Alpha=7",)) == [refused]
    assert refusals(lab, ("Alpha=7",)) == [refused], "kept is only what fits"
    lab.edit("actions/learn.py", "lt=1", "lt=10")
    lab.plan(sets=("Alpha=7",))


def test_built_in_classes_are_checked_in_the_same_way(project: Make) -> None:
    workflow = """
        workflow: w
        inputs: {Name: {type: string, default: x}}
        jobs:
          Copy: {uses: file/copy, with: {source: "${{ inputs.Name }}"}, outputs: {copy: {type: file}}}
    """
    lab = project(workflow)
    ((place, message),) = refusals(lab)
    assert place == "5:42"
    assert message.startswith('INVALID_PARAMETER: `source` is the text "x", not a bound file or folder')


# --- the derived file --------------------------------------------------------------------------------------------


def test_a_second_plan_imports_nothing_and_the_derived_file_changes_no_byte(lab: Lab) -> None:
    lab.succeed()
    lab.plan()
    before = imports(lab)
    kept = lab.root / ".whyrun" / "actions-cache"
    assert kept.is_file()
    plan = lab.plan(force=["Job:learn[pc]"])
    assert imports(lab) == before
    blob = snapshot_blob(lab.snapshot())
    kept.unlink()
    again = lab.plan(force=["Job:learn[pc]"])
    assert json.dumps(again.to_json()) == json.dumps(plan.to_json())
    assert snapshot_blob(lab.snapshot()) == blob
    assert imports(lab) == before + 1


def test_planning_leaves_nothing_behind_in_a_project_that_never_ran(lab: Lab) -> None:
    lab.plan()
    there = sorted(path.name for path in lab.root.iterdir())
    assert there == ["actions", "data.csv", "trace", "whyrun.toml", "workflow.yaml"]
    assert [path.name for path in (lab.root / "actions").iterdir()] == ["learn.py"]


# --- estimates ---------------------------------------------------------------------------------------------------


def estimate(lab: Lab, sets: tuple[str, ...] = ()) -> tuple[dict[str, float | None], float | None]:
    snapshot = lab.snapshot(sets)
    plan = compute_execution_plan(snapshot, PlanOptions())
    durations = expected_durations(plan, snapshot)
    return durations, estimate_seconds(plan, durations, 2)


def test_an_action_that_never_ran_is_asked_how_long_it_takes(lab: Lab) -> None:
    assert estimate(lab) == ({"Job:learn[pc]": 50.0, "Job:learn[hc]": 50.0}, 50.0)
    assert "50" not in json.dumps(lab.plan().to_json()["jobs"])


def test_logged_durations_go_first(lab: Lab) -> None:
    lab.succeed(targets=["Job:learn[pc]"])
    durations, total = estimate(lab)
    assert list(durations) == ["Job:learn[hc]"], "its sister has been timed"
    assert total is not None
    assert total < 5


def test_estimates_see_files_and_what_is_known_and_may_fail(project: Make) -> None:
    code = """
        from whyrun import Action
        class Size(Action):
            name = "size"
            def run(self, inputs):
                return {"n": 1}
            def estimate_runtime(self, inputs):
                return inputs["file"].stat().st_size + inputs.get("more", 0)
        class Wrong(Size):
            name = "wrong"
            def estimate_runtime(self, inputs):
                return float("nan")
    """
    workflow = """
        workflow: w
        inputs: {Data: {type: file, default: data.csv}}
        jobs:
          A: {uses: size, with: {file: "${{ inputs.Data }}", more: 2}, outputs: {n: {type: integer}}}
          B: {uses: size, with: {more: "${{ jobs.A.outputs.n }}"}, outputs: {n: {type: integer}}}
          C: {uses: wrong, with: {file: "${{ inputs.Data }}"}, outputs: {n: {type: integer}}}
    """
    lab = project(workflow, {"actions/size.py": code, "data.csv": "12345678"})
    assert estimate(lab) == ({"Job:A": 10.0, "Job:C": None, "Job:B": None}, None)


# --- names -------------------------------------------------------------------------------------------------------


def test_a_built_in_name_is_taken(project: Make) -> None:
    own = "from whyrun import action\n@action('shell')\ndef mine(): ...\n"
    lab = project("workflow: w\njobs:\n  A: {uses: shell, with: {run: 'true'}}\n", {"actions/mine.py": own})
    assert refusals(lab) == [
        ("3:13", "INVALID_USES: the action `shell` is built in, and `actions/mine.py` defines another one of this name")
    ]
    shutil.rmtree(lab.root / "actions")
    lab.plan()


def test_the_built_in_classes_are_what_their_table_says() -> None:
    from whyrun.actions.builtin import BUILTIN
    from whyrun.actions.description import describe

    for name, builtin in BUILTIN.items():
        if builtin.extra is not None and builtin.extra.missing():
            continue
        if builtin.is_class:
            target = builtin.load()
            known = describe(target)
            assert (target.name, known.version) == (name, builtin.version)
            assert known.typed, "its parameters are checked before anything runs"
            assert known.example
        else:
            assert builtin.parameters
            assert builtin.example
            assert callable(builtin.load().run)
