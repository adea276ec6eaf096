"""IDs and patterns of `--force` and `--target`: what they match, and the errors for unknown ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab, states
from whyrun.errors import InvalidError
from whyrun.planning.id_matching import match_nodes
from whyrun.planning.plan import compute_execution_plan
from whyrun.planning.reasons import reason_json

Make = Callable[..., Lab]
FLOW = """
    workflow: w
    inputs: {Two: {type: "integer[]", default: [1, 2]}}
    loops: {i: {each: inputs.Two}, j: {each: inputs.Two}}
    jobs:
      Fit: {for: [i, j], uses: python, with: {call: "acts:one", i: "${{ i }}", j: "${{ j }}"},
            outputs: {N: {type: integer}, M: {type: integer}}}
      Row: {for: [i], uses: python, with: {call: "acts:one", x: "${{ jobs.Fit.outputs.N[i, :] }}"},
            outputs: {N: {type: integer}, M: {type: integer}}}
      After: {needs: [Before, Row], uses: python, with: {call: "acts:lone"}, outputs: {N: {type: integer}}}
      Before: {for: [i], needs: [First], uses: python, with: {call: "acts:lone"}, outputs: {N: {type: integer}}}
      First: {uses: python, with: {call: "acts:lone"}, outputs: {N: {type: integer}}}
      Apart: {uses: python, with: {call: "acts:lone"}, outputs: {N: {type: integer}}}
"""
CODE = {"acts.py": "def one(**given):\n    return {'N': 1, 'M': 2}\ndef lone():\n    return {'N': 1}\n"}


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(FLOW, CODE)


def test_ids_and_patterns_of_jobs_and_artifacts(lab: Lab) -> None:
    graph = lab.opened().graph

    def named(text: str) -> list[str]:
        return [graph.job_id(node) for node in match_nodes(graph, text)]

    fits = [f"Job:Fit[{i}][{j}]" for i in range(2) for j in range(2)]
    assert named("Job:Apart") == named("Artifact:Apart.N") == ["Job:Apart"]
    assert named("Job:Fit[1][0]") == named("Artifact:Fit.M[1][0]") == ["Job:Fit[1][0]"]
    assert named("Job:Fit[*][*]") == named("Artifact:Fit.N[*][*]") == fits
    assert named("Artifact:Fit.*[0][*]") == fits[:2], "each job once, whatever of it is named"
    assert named("Job:Fit[*][1]") == [fits[1], fits[3]]


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("Job:Fit", "UNKNOWN_REFERENCE", "it has instances: name one, such as `Job:Fit[0][0]`, or all with "
                                         "`Job:Fit[*][*]`"),
        ("Job:Fit[1]", "UNKNOWN_REFERENCE", "it has instances: name one, such as `Job:Fit[1][0]`, or all with "
                                            "`Job:Fit[1][*]`"),
        ("Artifact:Row.N", "UNKNOWN_REFERENCE", "it has instances: name one, such as `Artifact:Row.N[0]`, or all with "
                                                "`Artifact:Row.N[*]`"),
        ("Job:Aparr", "UNKNOWN_REFERENCE", "did you mean `Job:Apart`?"),
        ("Job:Fitt[*][*]", "UNKNOWN_REFERENCE", "did you mean `Job:Fit[*][*]`?"),
        ("Job:Fitt[0][1]", "UNKNOWN_REFERENCE", "did you mean `Job:Fit[0][1]`?"),
        ("Input:Two", "USAGE", "write `Job:…` or `Artifact:…`"),
    ],
)  # fmt: skip
def test_an_id_that_matches_nothing(lab: Lab, text: str, code: str, hint: str) -> None:
    with pytest.raises(InvalidError) as caught:
        match_nodes(lab.opened().graph, text)
    assert [(problem.code, problem.hint) for problem in caught.value.diagnostics] == [(code, hint)]


def test_a_target_takes_its_needs_and_theirs(lab: Lab) -> None:
    everything = set(lab.plan().headlines())
    assert compute_execution_plan(lab.snapshot()).to_json() == lab.plan().to_json(), "no options are none"
    assert len(everything) == 11
    assert set(lab.plan(targets=["Job:After"]).headlines()) == everything - {"Job:Apart"}
    assert set(lab.plan(targets=["Job:Before[1]"]).headlines()) == {"Job:Before[1]", "Job:First"}
    assert set(lab.plan(targets=["Job:Row[1]", "Job:Apart"]).headlines()) == {
        "Job:Row[1]", "Job:Fit[1][0]", "Job:Fit[1][1]", "Job:Apart",
    }  # fmt: skip
    assert states(lab.plan(targets=["Job:First"]))["Job:Before[0]"] == "deferred"


def test_layers_are_forced_by_number(lab: Lab) -> None:
    lab.succeed()
    forced = {job.id: job.headline for job in lab.plan(force=["layer:1"]).planned}
    assert forced == {"Job:Row[0]": "FORCED", "Job:Row[1]": "FORCED"} | {
        id_: "FORCED" for id_ in forced if id_.startswith("Job:Before")
    }
    for text in ("layer:9", "layer:01"):
        with pytest.raises(InvalidError) as caught:
            lab.plan(force=[text])
        assert [(d.code, d.hint) for d in caught.value.diagnostics] == [("USAGE", "layers are 0 to 2")]


def test_forcing_outside_of_the_targets_is_refused_and_inside_is_not(lab: Lab) -> None:
    lab.succeed()
    assert lab.plan(targets=["Job:Row[0]"], force=["Job:Fit[0][1]"]).headlines() == {
        "Job:Fit[0][1]": "FORCED", "Job:Row[0]": "UPSTREAM_DIRTY",
    }  # fmt: skip
    with pytest.raises(InvalidError, match=r"names `Job:Fit\[1\]\[1\]`, which the targets do not need"):
        lab.plan(targets=["Job:Row[0]"], force=["Job:Fit[*][1]"])


def test_the_plan_names_the_first_of_two_options_that_force_a_job(lab: Lab) -> None:
    lab.succeed()
    (apart,) = lab.plan(force=["Job:Apart", "layer:0", "Artifact:Apart.N"]).planned[:1]
    assert (apart.id, [reason_json(reason) for reason in apart.reasons]) == (
        "Job:Apart", [{"code": "FORCED", "by": "Artifact:Apart.N"}],
    )  # fmt: skip


def test_the_summary_counts_failed_jobs_and_jobs_that_never_ran(lab: Lab) -> None:
    assert lab.plan().snapshot == {
        "available": 0, "failed": [], "inputs_changed": [],
        "jobs": {"succeeded": 0, "failed": 0, "never_run": 11, "running": 0},
    }  # fmt: skip
    lab.edit("acts.py", "return {'N': 1}", "return {}")
    assert lab.run(targets=["Job:Row[0]", "Job:First"]).exit_code == 1
    assert lab.plan().snapshot == {
        "available": 6, "failed": ["Artifact:First.N"], "inputs_changed": [],
        "jobs": {"succeeded": 3, "failed": 1, "never_run": 7, "running": 0},
    }  # fmt: skip
    lab.edit("acts.py", "'M': 2", "'M': 3")
    assert lab.plan().snapshot["jobs"] == {"succeeded": 3, "failed": 1, "never_run": 7, "running": 0}
    assert lab.plan().headlines()["Job:Fit[0][0]"] == "INPUT_CHANGED"


def test_the_only_instance_of_a_job_is_named_like_one_of_many(lab: Lab) -> None:
    with pytest.raises(InvalidError) as caught:
        match_nodes(lab.opened(["Two=[1]"]).graph, "Job:Row")
    assert [problem.hint for problem in caught.value.diagnostics] == [
        "it has instances: name one, such as `Job:Row[0]`, or all with `Job:Row[*]`"
    ]


def test_hints_name_leaves_of_an_array_and_a_workflow_without_instances_has_no_layers(project: Make) -> None:
    lab = project("""
        workflow: w
        inputs: {None_: {type: "integer[]", default: []}}
        loops: {i: {each: inputs.None_}}
        jobs:
          Tale: {for: [i], uses: python, with: {call: "acts:one"}, outputs: {N: {type: integer}, M: {type: integer}}}
    """, CODE)  # fmt: skip
    with pytest.raises(InvalidError) as caught:
        lab.plan(force=["layer:0"])
    assert [(problem.message, problem.hint) for problem in caught.value.diagnostics] == [
        ("`--force layer:0`: there is no such layer", "there is no job, so there is no layer")
    ]
    lab = project("""
        workflow: w
        jobs:
          Tale:
            uses: python
            with: {call: "acts:lone"}
            outputs: {S: {type: json, leaves: {"Parts[0].Names[0]": string, "Parts[0].Names[1]": string}}}
    """, CODE)  # fmt: skip
    with pytest.raises(InvalidError) as caught:
        match_nodes(lab.opened().graph, "Artifact:Tale.S.Parts")
    assert [problem.hint for problem in caught.value.diagnostics] == [
        "it has instances: name one, such as `Artifact:Tale.S.Parts[0].Names[0]`, or all with "
        "`Artifact:Tale.S.Parts[*].Names[*]`"
    ]
