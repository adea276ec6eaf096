"""Issue 20: inputs in loops. A file at a computed path for each combination of loop values."""

from __future__ import annotations

from collections.abc import Callable

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from project_lab import ECHO, Lab
from whyrun.facts.show import id_facts
from whyrun.facts.subjects import find_subject
from whyrun.log import events as ev
from whyrun.planning.answers.whatif import assume
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob
from whyrun.snapshot.observing.observe import InputObserver
from whyrun.workflow.parsing.parse import workflow_schema

Make = Callable[..., Lab]

TEXT = """\
workflow: w
inputs:
  Root: {type: string, default: networks}
  Sheet: {type: "json[]", default: s.csv, key: id}
  Network: {type: file, for: [network], path: "${{ inputs.Root }}/${{ network }}/${{ network }}.xdsl"}
  Run: {type: file, for: [network, seed], path: "runs/${{ network }}-${{ seed }}.txt"}
  Mask: {type: file, for: [sample], path: "${{ inputs.Sheet[sample].mask }}", required: false}
  Usual: {type: file, default: usual.txt}
loops:
  network: {values: [asia, cancer]}
  seed: {range: 3-4}
  sample: {each: inputs.Sheet}
jobs:
  Learn:
    for: [network, seed]
    uses: python
    with:
      call: "echo:received"
      network: "${{ inputs.Network[network] }}"
      run: "${{ inputs.Run[network, seed] }}"
      before: "${{ first(inputs.Run[network, seed-1], inputs.Usual) }}"
    outputs: {Got: {type: json}}
  All:
    uses: python
    with: {call: "echo:received", all: "${{ inputs.Network[:] }}", some: "${{ inputs.Run['asia', :] }}"}
    outputs: {Got: {type: json}}
  Cut:
    for: [sample]
    uses: python
    with: {call: "echo:received", mask: "${{ inputs.Mask[sample] }}"}
    outputs: {Got: {type: json}}
  Any:
    for: [sample]
    uses: python
    with:
      call: "echo:received"
      mask: "${{ first(inputs.Mask[sample], inputs.Usual) }}"
      has: "${{ exists(inputs.Mask[sample]) }}"
    outputs: {Got: {type: json}}
  Masks:
    uses: python
    with: {call: "echo:received", masks: "${{ inputs.Mask[:] }}"}
    outputs: {Got: {type: json}}
"""
FILES = {
    "echo.py": ECHO,
    "s.csv": "id,mask\na,m/a.txt\nb,m/b.txt\nc,\n",
    "m/a.txt": "mask a",
    "usual.txt": "usual",
    **{f"networks/{name}/{name}.xdsl": name for name in ("asia", "cancer")},
    **{f"runs/{name}-{seed}.txt": f"{name} {seed}" for name in ("asia", "cancer") for seed in (3, 4)},
}


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(TEXT, FILES)


def states(lab: Lab) -> dict[str, str]:
    return {job["id"]: job["state"] for job in lab.plan().to_json()["jobs"]}


def test_each_combination_is_an_input_of_its_own(lab: Lab) -> None:
    plan = {job.id: job.bindings for job in lab.plan().planned}
    assert plan["Job:Learn[asia][4]"] == {
        "network": "Input:Network[asia]", "run": "Input:Run[asia][4]", "before": "Input:Run[asia][3]",
    }  # fmt: skip
    assert plan["Job:Learn[cancer][3]"]["before"] == "Input:Usual"
    assert plan["Job:All"] == {
        "all": ["Input:Network[asia]", "Input:Network[cancer]"], "some": ["Input:Run[asia][3]", "Input:Run[asia][4]"],
    }  # fmt: skip
    lab.succeed()
    assert lab.content("Artifact:Learn.Got[cancer][4]") == {
        "network": "file:cancer", "run": "file:cancer 4", "before": "file:cancer 3",
    }  # fmt: skip
    lab.write({"runs/asia-4.txt": "other"})
    assert lab.plan().headlines() == {"Job:Learn[asia][4]": "INPUT_CHANGED", "Job:All": "INPUT_CHANGED"}
    lab.write({"networks/cancer/cancer.xdsl": "other"})
    assert set(lab.plan().headlines()) == {
        "Job:Learn[asia][4]", "Job:All", "Job:Learn[cancer][3]", "Job:Learn[cancer][4]",
    }  # fmt: skip
    snapshot = lab.snapshot()
    again = replay_snapshot(snapshot_blob(snapshot), lab.opened().history())
    plans = [compute_execution_plan(each, PlanOptions()).to_json() for each in (again, snapshot)]
    assert plans[0] == plans[1]


def test_a_file_that_need_not_be_there_is_absent(lab: Lab) -> None:
    assert states(lab)["Job:Cut[a]"] == "planned"
    assert states(lab)["Job:Cut[b]"] == states(lab)["Job:Cut[c]"] == "inactive"
    because = {job["id"]: job.get("because") for job in lab.plan().to_json()["jobs"]}
    assert because["Job:Cut[b]"] == {"source": "Input:Mask[b]"}
    lab.succeed()
    assert lab.content("Artifact:Any.Got[a]") == {"mask": "file:mask a", "has": True}
    assert lab.content("Artifact:Any.Got[b]") == {"mask": "file:usual", "has": False}
    assert lab.content("Artifact:Masks.Got") == {"masks": ["file:mask a"]}
    assert states(lab) == {"Job:Cut[b]": "inactive", "Job:Cut[c]": "inactive"}
    lab.write({"m/b.txt": "mask b"})
    assert lab.plan().headlines() == {
        "Job:Any[b]": "INPUT_CHANGED", "Job:Cut[b]": "MISSING_OUTPUT", "Job:Masks": "INPUT_CHANGED",
    }  # fmt: skip
    lab.succeed()
    lab.write({"m/a.txt": None})
    assert lab.plan().headlines() == {"Job:Any[a]": "INPUT_CHANGED", "Job:Masks": "INPUT_CHANGED"}
    assert states(lab)["Job:Cut[a]"] == "inactive"
    lab.succeed()
    inputs = [(e.id, bool(e.sha256)) for e in lab.events("r0003") if isinstance(e, ev.InputRecorded)]
    assert inputs == [("Input:Mask[a]", False)]  # it is gone


def test_a_missing_file_is_reported_with_index_and_path(lab: Lab) -> None:
    lab.write({"runs/asia-4.txt": None, "networks/cancer/cancer.xdsl": None})
    assert [(d.code, d.line, d.message, d.hint) for d in lab.opened().problems] == [
        (
            "INPUT_MISSING", 5, "`Input:Network[cancer]`: there is no file `networks/cancer/cancer.xdsl`",
            "its `path:` computes it; with `required: false` it may be missing",
        ),
        (
            "INPUT_MISSING", 6, "`Input:Run[asia][4]`: there is no file `runs/asia-4.txt`",
            "its `path:` computes it; with `required: false` it may be missing",
        ),
    ]  # fmt: skip


def test_ids_and_assumptions(lab: Lab) -> None:
    lab.succeed()
    opened = lab.opened()
    found = find_subject(opened.graph, "Input:Run[asia][4]")
    assert found.value is not None
    assert found.value.path == "runs/asia-4.txt"
    observer = InputObserver(opened.folder, opened.cache)
    for text, planned in (
        ("Input:Network[asia]=changed", {"Job:Learn[asia][3]", "Job:Learn[asia][4]", "Job:All"}),
        ("Input:Sheet[b].mask=m/a.txt", {"Job:Any[b]", "Job:Cut[b]", "Job:Masks"}),
        ("Input:Mask[b]=changed", {"Job:Any[b]", "Job:Cut[b]", "Job:Masks"}),
    ):
        inputs, _ = assume(opened.workflow, opened.inputs, [text], observer)
        other = lab.opened()
        other.__dict__["inputs"] = inputs
        assert {job.id for job in compute_execution_plan(other.snapshot(), PlanOptions()).planned} == planned


def test_show_says_that_a_file_is_absent(lab: Lab) -> None:
    facts = id_facts(lab.opened(), "Input:Mask[b]")
    assert facts == {
        "kind": "input", "id": "Input:Mask[b]", "type": "file", "absent": True, "changed": [],
        "path": "m/b.txt", "size": None, "read_by": ["Job:Any[b]", "Job:Cut[b]", "Job:Masks"],
    }  # fmt: skip
    assert id_facts(lab.opened(), "Input:Network")["keys"] == ["asia", "cancer"]


def test_no_output_is_published_where_a_file_may_be_that_need_not_be_there(project: Make) -> None:
    job = "  Made: {uses: shell, with: {run: x}, outputs: {T: {type: text, path: m/b.txt}}}\n"
    (only,) = project(TEXT + job, FILES).opened().problems
    assert only.code == "DUPLICATE_OUTPUT_PATH"
    assert "m/b.txt" in only.message


def test_a_computed_path_without_a_loop(project: Make) -> None:
    text = """\
workflow: w
inputs:
  Name: {type: string, default: a}
  Data: {type: directory, path: "in/${{ inputs.Name }}"}
jobs:
  J: {uses: python, with: {call: "echo:received", data: "${{ inputs.Data }}"}, outputs: {Got: {type: json}}}
"""
    lab = project(text, {"echo.py": ECHO, "in/a/x": "1", "in/b/x": "2"})
    lab.succeed()
    assert lab.plan(sets=["Name=b"]).headlines() == {"Job:J": "INPUT_CHANGED"}
    (only,) = lab.opened(["Name=c"]).problems
    assert only.message == "`Input:Data`: there is no directory `in/c`"


def test_inside_an_import(project: Make) -> None:
    main = """\
workflow: w
imports: {C: {workflow: ./child.yaml, with: {Root: networks}}}
jobs: {}
"""
    child = TEXT.replace("default: networks", "default: nowhere")
    lab = project(main, {**FILES, "child.yaml": child})
    assert "Input:C/Run[asia][3]" in next(j for j in lab.plan().planned if j.id == "Job:C/All").bindings["some"]


DECL = 'Network: {type: file, for: [network], path: "${{ inputs.Root }}/${{ network }}/${{ network }}.xdsl"}'


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        (DECL, DECL.replace("[network]", "[netwrk]"), "there is no loop `netwrk`", "did you mean `network`?"),
        (DECL, "Network: {type: file, for: [network]}", "input `Network` has `for`, but no `path`",
         'add the path of the file: `path: "data/${{ network }}.csv"`'),
        (DECL, 'Network: {type: "file[]", for: [network], path: "${{ network }}"}',
         "`path` of input `Network` is that of one file or folder, not of `file[]`", "write `type: file`"),
        (DECL, DECL.replace("}.xdsl\"", "}.xdsl\", default: x"), "input `Network` has a `path`, so it has no `default`",
         "remove one of them"),
        (DECL, 'Network: {type: file, for: [network], path: "${{ seed }}"}',
         "the loop `seed` is not in this input's `for:`", "add it: `for: [network, seed]`"),
        (DECL, 'Network: {type: file, for: [network], path: "${{ exists(inputs.Mask[\'a\']) }}"}',
         "`inputs.Mask` cannot be used in `path:` of input `Network`: its own path is computed",
         "use what its `path:` uses"),
        ("inputs.Network[network]", "inputs.Network", "the input `Network` is one file for each [network]: it needs an "
         "index", "write `Network[network]` for one, `Network[:]` for all"),
        ("inputs.Run[network, seed]", "inputs.Run[network]", "the input `Run` is one file for each [network, seed]: it "
         "needs an index", "write `Run[network, seed]` for one, `Run[:, :]` for all"),
        ("inputs.Network[network]", "inputs.Network['asja']", "`Input:Network[asja]`: there is no element `asja` (in "
         "`Job:Learn[asia][3]`)", "did you mean `asia`?"),
        ("sample: {each: inputs.Sheet}", "sample: {each: inputs.Network}", "`inputs.Network` cannot be used in a loop: "
         "its own path is computed", "use what its `path:` uses"),
        ('path: "${{ inputs.Sheet[sample].mask }}", required: false', 'path: "${{ inputs.Sheet[sample].mask }}"',
         "`Input:Mask[c]`: its path is empty", "with `required: false` a file without a path is absent"),
    ],
)  # fmt: skip
def test_mistakes(project: Make, old: str, new: str, message: str, hint: str) -> None:
    assert TEXT.count(old) == 1
    problems = project(TEXT.replace(old, new), FILES).opened().problems
    assert [(d.message, d.hint) for d in problems] == [(message, hint)]


def test_no_value_can_be_given(lab: Lab) -> None:
    (only,) = lab.opened(["Network=x"]).problems
    assert only.message == "`--set Network`: it takes no value, because its path is computed"
    assert only.hint == "change its `path:`, or an input that this uses"


def test_the_schema_knows_them() -> None:
    decl = {"type": "file", "for": ["x"], "path": "${{ x }}"}
    file = {"workflow": "w", "inputs": {"X": decl}, "loops": {"x": {"count": 1}}, "jobs": {}}
    assert jsonschema.Draft202012Validator(workflow_schema()).is_valid(file)
