"""`composition_summary.json` and `show --composition`: how data moved, after every kind of ending.

Whole summaries stand in summaries/*.json, and the trees drawn from them beside them.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from summary_lab import MANIFEST, PlanLab, assert_as_kept, words

from project_lab import Lab
from whyrun.evidence.composition.summary import given_sources

pytest.importorskip("duckdb")

pytestmark = pytest.mark.usefixtures("data_libraries")

UPSTREAM = "UPSTREAM_DIRTY"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "project"


def by_id(summary: dict[str, object]) -> dict[str, dict[str, object]]:
    return {step["step_id"]: step for step in summary["steps"]}  # type: ignore[attr-defined]  # it is JSON


# --- each mode: the run, the summary, and the plan after one dataset changed -------------------------------------


@pytest.mark.parametrize(
    ("mode", "published", "dataset", "line", "expected"),
    [
        (
            "sequential",
            "variable,n,mean\nOutput,3,6.0\n",
            "words",
            "sic,Industry",
            {"Job:model": ["INPUT_CHANGED auxiliary_data Input:words"]},
        ),
        (
            "merge",
            "variable,n,mean\nOutput,5,6.2\n",
            "controls",
            "4,2021,0.7",
            {
                "Job:add_controls": ["INPUT_CHANGED secondary_dataset Input:controls"],
                "Job:add_industry": [f"{UPSTREAM} Job:add_controls"],
                "Job:model": [f"{UPSTREAM} Job:add_industry"],
            },
        ),
        (
            "parallel",
            "step,variable,n,mean\nmain,Output,3,6.0\nmore,y,2,6.5\nlate,y,1,8.0\nsize,size,5,1.24\n",
            "late",
            "5,2021,30,2",
            {
                "Job:of_late": ["INPUT_CHANGED primary_dataset Input:late"],
                "Job:together": [f"{UPSTREAM} Job:of_late"],
            },
        ),
        (
            "conditional",
            "label,n,mean\nOutput,3,6.0\n",
            "main",
            "5,2021,30,2",
            {
                "Job:diagnose": ["INPUT_CHANGED primary_dataset Input:main"],
                "Job:simple": ["MISSING_OUTPUT Artifact:simple.fit", f"{UPSTREAM} Job:diagnose"],
                "Job:careful": ["INPUT_CHANGED primary_dataset Input:main", f"{UPSTREAM} Job:diagnose"],
                "Job:checked": [f"{UPSTREAM} Job:careful", f"{UPSTREAM} Job:diagnose"],
                "Job:join": [f"{UPSTREAM} Job:checked", f"{UPSTREAM} Job:simple"],
            },
        ),
    ],
    ids=["sequential", "merge", "parallel", "conditional"],
)
def test_each_mode(
    root: Path, mode: str, published: str, dataset: str, line: str, expected: dict[str, list[str]]
) -> None:
    lab = PlanLab(root, mode)
    ran = lab.succeed()
    assert lab.read(f"out/{mode}.csv") == published
    assert_as_kept(mode, lab.normal(), lab.tree())
    code, out, _ = lab.cli("show", "--composition", "r0001", "--json")
    assert (code, json.loads(out)) == (0, lab.summary())
    assert ran.folder is not None
    assert lab.run().result.run is None, "nothing to do, and no second summary"
    lab.append(dataset, line)
    assert words(lab.plan()) == expected
    assert lab.succeed().exit_code == 0
    assert lab.plan().headlines() == {}


def test_each_step_has_its_folder_with_what_it_was_given(root: Path) -> None:
    lab = PlanLab(root, "merge")
    folder = lab.succeed().folder
    assert folder is not None
    given = {
        str(link.relative_to(folder / "steps")): link.read_bytes() for link in (folder / "steps").glob("*/inputs/*")
    }
    inputs, made = root / "inputs", folder / "artifacts"
    assert given == {
        "stack/inputs/primary_dataset.csv": (inputs / "main.csv").read_bytes(),
        "stack/inputs/secondary_dataset%5B0%5D.csv": (inputs / "more.csv").read_bytes(),
        "stack/inputs/secondary_dataset%5B1%5D.csv": (inputs / "late.csv").read_bytes(),
        "add_controls/inputs/primary_dataset.parquet": (made / "stack/all.parquet").read_bytes(),
        "add_controls/inputs/secondary_dataset.csv": (inputs / "controls.csv").read_bytes(),
        "add_industry/inputs/primary_dataset.parquet": (made / "add_controls/merged.parquet").read_bytes(),
        "add_industry/inputs/secondary_dataset.csv": (inputs / "industries.csv").read_bytes(),
        "model/inputs/primary_dataset.csv": (made / "add_industry/full.csv").read_bytes(),
        "model/inputs/auxiliary_data.csv": (inputs / "words.csv").read_bytes(),
    }
    lab.append("main", "7,2021,10,1")  # what is there now is another file; what was read is still to be seen
    assert (folder / "steps/stack/inputs/primary_dataset.csv").read_bytes() == given["stack/inputs/primary_dataset.csv"]


# --- runs that do not end well -----------------------------------------------------------------------------------


def test_a_cardinality_that_does_not_hold(root: Path) -> None:
    lab = PlanLab(root, "merge").append("controls", "1,2020,1.7", "1,2020,1.8", "3,2020,0.6")
    ran = lab.run()
    assert (ran.exit_code, ran.failed) == (1, {"Job:add_controls": ("FAILED", "CardinalityViolated")})
    assert_as_kept("cardinality", lab.normal(), lab.tree())


def test_a_step_that_raises_and_one_that_is_blocked(root: Path) -> None:
    lab = PlanLab(root, "parallel").change_step("of_more", call="steps:broken", column=None)
    ran = lab.run()
    assert (ran.exit_code, ran.blocked) == (1, {"Job:together": ["Job:of_more"]})
    assert_as_kept("raises", lab.normal(), lab.tree())


def test_a_condition_that_was_never_evaluated(root: Path) -> None:
    lab = PlanLab(root, "conditional").change_step("diagnose", diagnostics={"missing_share": {"missing_share": ["z"]}})
    assert lab.run().exit_code == 1
    assert lab.normal()["decisions"] == [
        {"kind": "condition", "step_id": "choose", "predicate": "jobs.diagnose.outputs.report.missing_share < 0.1",
         "inputs": {}, "result": None, "taken": [], "not_taken": [], "why": "not evaluated: its inputs are not known"}
    ]  # fmt: skip
    assert lab.tree().splitlines()[-1] == (
        "  condition choose: jobs.diagnose.outputs.report.missing_share < 0.1 was not evaluated: "
        "its inputs are not known"
    )


def test_a_step_that_never_started(root: Path) -> None:
    lab = PlanLab(root, "parallel").change_step("of_main", call="steps:broken", column=None)
    lab.change_step("of_main", input_bindings={"primary_dataset": "input:main"})
    ran = lab.run(jobs=1, fail_fast=True)
    assert ran.exit_code == 1
    statuses = {id_: step["status"] for id_, step in by_id(lab.summary()).items()}
    # The worker may have begun the next one before it heard that all is to stop.
    assert (statuses["Job:of_main"], statuses["Job:together"]) == ("failed", "not_started")
    together = by_id(lab.normal())["Job:together"]
    assert [product["sha256"] for product in together.pop("products")] == [None]
    assert together == {
        "step_id": "Job:together", "action": together["action"], "status": "not_started", "attempt": None,
        "duration": None, "bindings": [], "parameters": {}, "evidence": None,
    }  # fmt: skip


def test_a_product_that_was_declared_and_not_written_fails_the_step(root: Path) -> None:
    lab = PlanLab(root, "sequential").change_step("model", call="steps:nothing", column=None)
    lab.change_step("model", input_bindings={"primary_dataset": "prod:clean:known"})
    ran = lab.run()
    assert (ran.exit_code, ran.failed) == (1, {"Job:model": ("FAILED", "MissingOutput")})
    assert not (root / "out").exists()
    step = by_id(lab.normal())["Job:model"]
    assert step["status"] == "failed"
    assert step["products"] == [
        {"id": "Artifact:model.fit", "type": "dataset", "path": "out/sequential.csv", "sha256": None, "size": None,
         "rows": None, "columns": None}
    ]  # fmt: skip
    assert str(step["error"]).startswith("MissingOutput: ")


def test_a_step_that_succeeds_at_its_second_attempt(root: Path) -> None:
    """The summary has the second attempt, not the first."""
    workflow = """
        workflow: again
        composition: {mode: sequential}
        inputs: {main: {type: dataset, default: inputs/main.csv}}
        jobs:
          model:
            uses: python
            retries: {max: 1, backoff: 10ms}
            with: {call: "steps:once_broken", primary_dataset: "${{ inputs.main }}"}
            outputs: {fit: {type: dataset, path: out/fit.csv}}
    """
    lab = PlanLab(root, "again")
    lab.write({"workflow.yaml": workflow})
    lab = Again(lab.root)
    assert lab.succeed().starts == [("Job:model", 1), ("Job:model", 2)]
    assert by_id(lab.normal())["Job:model"] == {
        "step_id": "Job:model", "action": "python", "status": "completed", "attempt": 2, "duration": "…s",
        "bindings": [{"name": "primary_dataset", "id": "Input:main", "sha256": "#inputs/main.csv", "rows": 4,
                      "columns": 4}],
        "parameters": {"call": "steps:once_broken"}, "evidence": "steps/model",
        "products": [{"id": "Artifact:model.fit", "type": "dataset", "path": "out/fit.csv", "sha256": "#model/fit.csv",
                      "size": "its size", "rows": 1, "columns": 3}],
    }  # fmt: skip


class Again(PlanLab):
    """The project with a workflow file instead of a plan."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "workflow")
        self.file = root / "workflow.yaml"

    def opened(self, sets=()):  # type: ignore[no-untyped-def]  # as Lab has it
        return Lab.opened(self, sets)

    def command(self, verb: str, *words: str) -> list[str]:
        return [word for word in super().command(verb, *words) if word not in ("--manifest", MANIFEST)]


def start(lab: PlanLab) -> subprocess.Popen[str]:
    """A run whose slow step has started, and the log says so."""
    process = subprocess.Popen(
        lab.command("run"), cwd=lab.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + 300
    events = lab.run_folder("r0001") / "events.jsonl"
    while not (lab.root / "started").exists() or events.read_text().count('"step_start"') < 4:
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        assert time.monotonic() < deadline, "the step did not start"
        time.sleep(0.02)
    return process


def test_a_run_that_was_interrupted(root: Path) -> None:
    lab = PlanLab(root, "merge").change_step("model", call="steps:slow", column=None)
    lab.change_step("model", input_bindings={"primary_dataset": "prod:add_industry:full"})
    process = start(lab)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 130, out
    assert_as_kept("interrupted", lab.normal(), lab.tree())


def test_a_run_that_was_killed_has_its_summary_from_the_next(root: Path) -> None:
    lab = PlanLab(root, "merge").change_step("model", call="steps:slow", column=None)
    lab.change_step("model", input_bindings={"primary_dataset": "prod:add_industry:full"})
    process = start(lab)
    process.kill()
    process.communicate(timeout=300)
    assert not (lab.run_folder("r0001") / "composition_summary.json").exists()
    (root / "go on").touch()
    lab.succeed()
    killed, next_ = lab.normal("r0001"), lab.normal("r0002")
    assert killed["state"] == "interrupted"
    assert {id_: step["status"] for id_, step in by_id(killed).items()} == {
        "Job:stack": "completed", "Job:add_controls": "completed", "Job:add_industry": "completed",
        "Job:model": "interrupted",
    }  # fmt: skip
    assert [decision["kind"] for decision in killed["decisions"]] == ["append", "merge", "merge"]
    assert by_id(killed)["Job:model"]["bindings"] == by_id(next_)["Job:model"]["bindings"] != []
    assert {id_: (step["status"], step.get("from_run")) for id_, step in by_id(next_).items()} == {
        "Job:stack": ("up_to_date", "r0001"), "Job:add_controls": ("up_to_date", "r0001"),
        "Job:add_industry": ("up_to_date", "r0001"), "Job:model": ("completed", None),
    }  # fmt: skip
    assert next_["decisions"] == [{**decision, "from_run": "r0001"} for decision in killed["decisions"]]


# --- runs after runs ---------------------------------------------------------------------------------------------


def test_a_step_that_is_up_to_date_or_reused_is_summarized_as_in_the_run_that_made_it(root: Path) -> None:
    lab = PlanLab(root, "merge")
    lab.succeed()
    lab.append("industries", "99,Nobody")  # it matches nothing: the merge comes out as before
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == (["Job:add_industry"], {"Job:model": "r0001"})
    assert_as_kept("second", lab.normal("r0002"), lab.tree("r0002"))


def test_a_reused_step_is_not_summarized_as_in_a_failed_run_in_between(root: Path) -> None:
    lab = PlanLab(root, "merge")
    lab.succeed()
    before = lab.read("inputs/controls.csv")
    lab.append("controls", "1,2020,1.7")
    assert lab.run().exit_code == 1
    (refused,) = [d for d in lab.summary("r0002")["decisions"] if d["step_id"] == "Job:add_controls"]
    assert (refused["refused"], refused["rows"]["right"]) == (True, 6)
    lab.write({"inputs/controls.csv": before})
    assert lab.succeed().reused == {"Job:add_controls": "r0001"}
    decisions = {decision["step_id"]: decision for decision in lab.summary("r0001")["decisions"]}
    assert lab.summary("r0003")["decisions"] == [{**decisions[id_], "from_run": "r0001"} for id_ in decisions]
    first, third = by_id(lab.normal("r0001")), by_id(lab.normal("r0003"))
    for id_, step in third.items():
        status = "reused" if id_ == "Job:add_controls" else "up_to_date"
        assert step == {**first[id_], "status": status, "from_run": "r0001", "attempt": None, "evidence": None}


def test_a_renamed_step_is_summarized_as_before(root: Path) -> None:
    lab = PlanLab(root, "merge")
    lab.succeed()
    lab.file.write_text(lab.file.read_text().replace("add_industry", "with_industry"))
    lab.succeed()
    (kept,) = [d for d in lab.summary("r0001")["decisions"] if d["step_id"] == "Job:add_industry"]
    for run in ("r0002", "r0003"):
        (decision,) = [d for d in lab.summary(run)["decisions"] if d["step_id"] == "Job:with_industry"]
        assert decision == {**kept, "step_id": "Job:with_industry", "from_run": "r0001"}
        lab.append("words", f"size{run},Size")
        lab.succeed()


def test_what_a_target_leaves_out(root: Path) -> None:
    lab = PlanLab(root, "parallel")
    assert lab.succeed(targets=["Job:of_main"]).executed == ["Job:of_main"]
    assert {id_: step["status"] for id_, step in by_id(lab.summary()).items()} == {
        "Job:of_main": "completed", "Job:of_more": "deferred", "Job:of_late": "deferred", "Job:of_size": "deferred",
        "Job:together": "deferred",
    }  # fmt: skip
    assert [line for line in lab.tree().splitlines() if "deferred" in line] == [
        "  Job:of_more  python  deferred", "  Job:of_late  python  deferred", "  Job:of_size  python  deferred",
        "  Job:together  data/aggregate  deferred",
    ]  # fmt: skip


def test_a_product_of_the_users_own(root: Path) -> None:
    """It is up to date with what it would have been made of; no run has decided anything for it."""
    lab = PlanLab(root, "merge")
    lab.succeed()
    (root / "own.parquet").write_bytes((lab.run_folder("r0001") / "artifacts/stack/all.parquet").read_bytes())
    lab.append("more", "8,2021,20,3")
    assert lab.cli("adopt", "Artifact:stack.all", "own.parquet")[0] == 0
    assert lab.succeed(force=["Job:model"]).executed == ["Job:model"]
    summary = lab.normal("r0003")
    step = by_id(summary)["Job:stack"]
    assert (step["status"], step["from_run"], step["attempt"]) == ("up_to_date", "r0002", None)
    assert step["bindings"][1] == {  # type: ignore[index]  # it is JSON
        "name": "secondary_dataset[0]", "id": "Input:more", "sha256": "#inputs/more.csv", "rows": 3, "columns": 4,
    }  # fmt: skip
    assert [(decision["kind"], decision["from_run"]) for decision in summary["decisions"]] == [
        ("merge", "r0001"), ("merge", "r0001"),
    ]  # fmt: skip


def test_the_other_branch_when_the_data_is_another(root: Path) -> None:
    lab = PlanLab(root, "conditional")
    lab.succeed()
    shutil.copytree(root / "inputs", root / "older")
    lab.edit("inputs/main.csv", "2,2021,20,\n", "2,2021,20,2\n")
    ran = lab.succeed()
    assert ran.executed == ["Job:diagnose", "Job:join", "Job:simple"]
    (decision,) = lab.normal("r0002")["decisions"]
    assert decision == {
        "kind": "condition", "step_id": "choose", "predicate": "jobs.diagnose.outputs.report.missing_share < 0.1",
        "inputs": {"Artifact:diagnose.report.missing_share": {"value": 0.0, "sha256": "#its value"}},
        "result": True, "taken": ["Job:simple"], "not_taken": ["Job:careful", "Job:checked"],
        "why": "Artifact:diagnose.report.missing_share = 0.0",
    }  # fmt: skip


def test_a_condition_that_was_known_before_the_run(root: Path) -> None:
    lab = PlanLab(root, "conditional")
    lab.succeed()
    lab.edit("inputs/words.csv", "Output", "Value")  # the join alone
    assert lab.succeed().executed == ["Job:join"]
    assert lab.summary("r0002")["decisions"] == lab.summary("r0001")["decisions"]
    assert by_id(lab.summary("r0002"))["Job:simple"]["status"] == "inactive"


# --- workflow files ----------------------------------------------------------------------------------------------

BRANCHES = """
    workflow: branches
    composition: {mode: conditional, roles: {main: primary_dataset}}
    inputs:
      main: {type: dataset, default: inputs/main.csv}
      limit: {type: integer, default: 3}
    jobs:
      check:
        uses: data/check
        with: {primary_dataset: "${{ inputs.main }}", diagnostics: {rows: rows}}
        outputs: {report: {type: json, leaves: {rows: integer}}}
      many:
        if: ${{ jobs.check.outputs.report.rows > inputs.limit }}
        uses: python
        with: {call: "steps:fit", column: y, primary_dataset: "${{ inputs.main }}"}
        outputs: {fit: {type: dataset, path: out/fit.csv}}
      never:
        if: ${{ inputs.limit > 10 }}
        uses: python
        with: {call: "steps:fit", column: y, primary_dataset: "${{ inputs.main }}"}
        outputs: {fit: {type: dataset, path: out/never.csv}}
      always:
        if: ${{ inputs.limit < 10 }}
        uses: python
        with: {call: "steps:fit", column: y, primary_dataset: "${{ inputs.main }}"}
        outputs: {fit: {type: dataset, path: out/always.csv}}
"""


def test_the_conditions_of_a_workflow_file(root: Path) -> None:
    """One for each job that has an `if:`, whether it was known before the run or decided in it; and again later."""
    PlanLab(root, "merge").write({"workflow.yaml": BRANCHES})
    lab = Again(root)
    lab.succeed()
    first = lab.normal()["decisions"]
    rows = {"Artifact:check.report.rows": {"value": 4, "sha256": "#its value"}}
    limit = {"Input:limit": {"value": 3, "sha256": "#its value"}}
    assert first == [
        {"kind": "condition", "step_id": "Job:many", "predicate": "jobs.check.outputs.report.rows > inputs.limit",
         "inputs": {**rows, **limit}, "result": True, "taken": ["Job:many"], "not_taken": [],
         "why": "Artifact:check.report.rows = 4, Input:limit = 3"},
        {"kind": "condition", "step_id": "Job:never", "predicate": "inputs.limit > 10", "inputs": limit,
         "result": False, "taken": [], "not_taken": ["Job:never"], "why": "Input:limit = 3"},
        {"kind": "condition", "step_id": "Job:always", "predicate": "inputs.limit < 10", "inputs": limit,
         "result": True, "taken": ["Job:always"], "not_taken": [], "why": "Input:limit = 3"},
    ]  # fmt: skip
    assert lab.succeed(force=["Job:check"]).executed == ["Job:check"]
    assert lab.normal("r0002")["decisions"] == first
    (root / "out/always.csv").unlink()
    assert lab.succeed().reused == {"Job:always": "r0001"}
    assert lab.normal("r0003")["decisions"] == first


@pytest.mark.parametrize("bound", ["inputs.parts", "inputs.parts[:]"])
def test_a_list_of_datasets_longer_than_an_event_holds(root: Path, bound: str) -> None:
    workflow = """
        workflow: many
        composition: {mode: merge_then_sequential, roles: {parts: primary_dataset}}
        inputs: {parts: {type: "dataset[]", default: "parts/*.csv"}}
        jobs:
          stack:
            uses: data/append
            with: {primary_dataset: "${{ inputs.parts }}"}
            outputs: {all: {type: dataset, path: out/all.csv}}
    """
    files = {f"parts/{number:03d}.csv": f"n\n{number}\n" for number in range(70)}
    PlanLab(root, "merge").write({"workflow.yaml": workflow.replace("inputs.parts }", f"{bound} }}"), **files})
    lab = Again(root)
    folder = lab.succeed().folder
    assert folder is not None
    summary = lab.summary()
    assert [(d["dataset_key"], d["role"], d["path"], d["rows"], d["columns"]) for d in summary["inputs_manifest"]] == [
        (f"parts[{number}]", "primary_dataset", f"parts/{number:03d}.csv", 1, 1) for number in range(70)
    ]
    step = by_id(summary)["Job:stack"]
    assert [(b["name"], b["id"], b["rows"]) for b in step["bindings"]] == [  # type: ignore[attr-defined]  # JSON
        (f"primary_dataset[{number}]", f"Input:parts[{number}]", 1) for number in range(70)
    ]
    links = {link.name: link.read_text() for link in (folder / "steps/stack/inputs").iterdir()}
    assert links == {f"primary_dataset%5B{number}%5D.csv": f"n\n{number}\n" for number in range(70)}


def test_a_run_that_composes_nothing_has_no_summary(root: Path) -> None:
    workflow = "workflow: plain\njobs: {a: {uses: shell, with: {run: 'true'}, outputs: {}}}\n"
    PlanLab(root, "merge").write({"workflow.yaml": workflow})
    lab = Again(root)
    folder = lab.succeed().folder
    assert folder is not None
    assert not (folder / "composition_summary.json").exists()
    code, out, err = lab.cli("show", "--composition", "r0001")
    assert (code, out) == (2, "")
    assert err.startswith("error[USAGE]: r0001 composes no datasets\n")


def test_an_action_of_ones_own_cannot_make_up_decisions(root: Path) -> None:
    """Only actions that come with Whyrun describe their decisions; the details of other actions are not read."""
    code = """
        def model(primary_dataset, context):
            context.task("EXECUTES", "merged", {"decision": "merge", "rows": "many", "read": 7, "wrote": {"fit": 3}})
            context.output("fit").write_text("n\\n1\\n")
    """
    lab = PlanLab(root, "sequential")
    lab.write({"own.py": code}).change_step("model", call="own:model", column=None)  # type: ignore[attr-defined]
    lab.change_step("model", input_bindings={"primary_dataset": "prod:clean:known"})
    lab.succeed()
    assert lab.summary()["decisions"] == []
    assert lab.tree().splitlines()[-1] == "  └─ →                  out/sequential.csv    1 row × 1 column"


@pytest.mark.parametrize("form", ["a", "at"])
def test_an_array_contains_its_datasets_in_every_form_of_its_files(form: str) -> None:
    section = {"datasets": [{"dataset_key": "Notes[0]", "path": "in/n.txt", "sha256": "aa"}]}
    bindings = {"notes": [{"id": "Input:Notes", "sha256": "bb", "as": form}]}
    found = list(given_sources(bindings, section, None))  # type: ignore[arg-type]  # nobody needs to be asked
    source = {"id": "Input:Notes[0]", "sha256": "aa", "as": "f.txt", "listed": True}
    assert found == [("notes[0]", "notes", source)]
