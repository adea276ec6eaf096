"""A dirty job makes everything downstream dirty: one to one, one to many, and through shared fan-ins."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from project_lab import Lab, reasons

Make = Callable[..., Lab]

FLOW = """
    workflow: w
    inputs: {Three: {type: "integer[]", default: [1, 2, 3]}}
    loops: {i: {each: "inputs.Three"}}
    jobs:
      One: {uses: python, with: {call: "acts:one"}, outputs: {N: {type: integer}}}
      Each: {for: [i], uses: python, with: {call: "acts:one", i: "${{ i }}"}, outputs: {N: {type: integer}}}
      Sum: {uses: python, with: {call: "acts:one", x: "${{ jobs.Each.outputs.N[:] }}"}, outputs: {N: {type: integer}}}
      Mean:
        for: [i]
        uses: python
        with: {call: "acts:one", x: "${{ jobs.Each.outputs.N[:] }}", one: "${{ jobs.One.outputs.N }}"}
        outputs: {N: {type: integer}}
      Next: {for: [i], uses: python, with: {call: "acts:one", x: "${{ jobs.Each.outputs.N[i] }}"},
             outputs: {N: {type: integer}}}
      After: {for: [i], uses: python, with: {call: "acts:one", x: "${{ jobs.Next.outputs.N[i] }}"},
              outputs: {N: {type: integer}}}
"""
CODE = {"acts.py": "def one(**given):\n    return {'N': 1}\n"}


def test_every_dependent_of_a_forced_job_waits_for_it(project: Make) -> None:
    lab = project(FLOW, CODE)
    lab.succeed()
    each = [{"code": "UPSTREAM_DIRTY", "job": f"Job:Each[{i}]"} for i in range(3)]
    assert reasons(lab.plan(force=["Job:One"])) == {
        "Job:One": [{"code": "FORCED", "by": "Job:One"}],
        **{f"Job:Mean[{i}]": [{"code": "UPSTREAM_DIRTY", "job": "Job:One"}] for i in range(3)},
    }
    assert reasons(lab.plan(force=["Job:Each[*]"])) == {
        **{f"Job:Each[{i}]": [{"code": "FORCED", "by": "Job:Each[*]"}] for i in range(3)},
        "Job:Sum": each,
        **{f"Job:Mean[{i}]": each for i in range(3)},
        **{f"Job:Next[{i}]": [{"code": "UPSTREAM_DIRTY", "job": f"Job:Each[{i}]"}] for i in range(3)},
        **{f"Job:After[{i}]": [{"code": "UPSTREAM_DIRTY", "job": f"Job:Next[{i}]"}] for i in range(3)},
    }


def test_shared_and_own_pending_sources_are_listed_once(project: Make) -> None:
    lab = project(FLOW, CODE)
    lab.succeed()
    plan = lab.plan(force=["Job:Each[1]", "Job:One"])
    found = reasons(plan)
    assert found["Job:Sum"] == [{"code": "UPSTREAM_DIRTY", "job": "Job:Each[1]"}]
    both = [{"code": "UPSTREAM_DIRTY", "job": "Job:Each[1]"}, {"code": "UPSTREAM_DIRTY", "job": "Job:One"}]
    assert [found[f"Job:Mean[{i}]"] for i in range(3)] == [both] * 3
    assert plan.totals == {"jobs": 14, "planned": 8, "reused": 0, "clean": 6, "deferred": 0, "inactive": 0}


def test_each_of_many_pairs_is_followed(project: Make) -> None:
    """Edges of pairs are no lists that anybody shares: none may be taken for one that was followed already."""
    many = ", ".join(map(str, range(12)))
    lab = project(FLOW.replace("[1, 2, 3]", f"[{many}]").replace("Mean:\n        for: [i]", "Mean:"), CODE)
    lab.succeed()
    assert lab.plan(force=["Job:Each[*]", "Job:Next[*]"]).headlines() == {
        **{f"Job:Each[{i}]": "FORCED" for i in range(12)},
        "Job:Mean": "UPSTREAM_DIRTY",
        "Job:Sum": "UPSTREAM_DIRTY",
        **{f"Job:Next[{i}]": "UPSTREAM_DIRTY" for i in range(12)},
        **{f"Job:After[{i}]": "UPSTREAM_DIRTY" for i in range(12)},
    }


def test_up_counts_layers_with_planned_jobs_from_the_lowest(project: Make) -> None:
    """An inactive job is in no layer that counts, and layer 8 comes after layer 1, however many there are between."""
    made = {"uses": "python", "outputs": {"N": {"type": "integer"}}}

    def after(name: str | None, mark: int = 0) -> dict[str, Any]:
        given = {} if name is None else {"x": f"${{{{ jobs.{name}.outputs.N }}}}"}
        return {**made, "with": {"call": "acts:one", "mark": mark, **given}}

    jobs: dict[str, Any] = {"Off": {"if": "${{ inputs.On }}", **after(None)}, "S0": after(None), "S1": after("S0")}
    jobs |= {f"L{i}": after(f"L{i - 1}" if i else None) for i in range(9)}
    flow = {"workflow": "w", "inputs": {"On": {"type": "boolean", "default": False}}, "jobs": jobs}
    lab = project(json.dumps(flow), CODE)
    lab.succeed()
    jobs["S1"], jobs["L8"] = after("S0", 1), after("L7", 1)
    lab.write({"workflow.yaml": json.dumps(flow)})
    assert lab.plan(up=1).layers == [["Job:S1"]]
    assert lab.plan(up=2).layers == [["Job:S1"], ["Job:L8"]]


def test_many_failed_or_dirty_sources_are_listed_in_graph_order(project: Make) -> None:
    """[9] before [10], alone and in a fan-in, whoever was forced or failed first."""
    code = {"acts.py": "def one(bad, **given):\n    assert not bad\n    return {'N': 1}\n"}
    made = {"uses": "python", "outputs": {"N": {"type": "integer"}}}
    each = {**made, "for": ["i"], "with": {"call": "acts:one", "bad": "${{ inputs.Many[i] > 0 }}"}}
    singles = {f"x{i}": f"${{{{ jobs.Each.outputs.N[{i}] }}}}" for i in (11, 8, 2, 10, 1, 9)}
    flow = {
        "workflow": "w",
        "inputs": {"Many": {"type": "integer[]", "default": [0] * 12}},
        "loops": {"i": {"each": "inputs.Many"}},
        "jobs": {
            "Each": each,
            "All": {**made, "with": {"call": "acts:one", "bad": False, "x": "${{ jobs.Each.outputs.N[:] }}"}},
            "Some": {**made, "with": {"call": "acts:one", "bad": False, **singles}},
        },
    }
    lab = project(json.dumps(flow), code)
    dirty = [{"code": "UPSTREAM_DIRTY", "job": f"Job:Each[{i}]"} for i in range(12)]
    failed = [{"code": "UPSTREAM_FAILED", "artifact": f"Artifact:Each.N[{i}]"} for i in range(12)]
    some = (1, 2, 8, 9, 10, 11)
    missing = {name: {"code": "MISSING_OUTPUT", "artifact": f"Artifact:{name}.N"} for name in ("All", "Some")}
    found = reasons(lab.plan())
    assert found["Job:All"] == [missing["All"], *dirty]
    assert found["Job:Some"] == [missing["Some"], *(dirty[i] for i in some)]
    assert lab.run(sets=[f"Many={[1] * 12}"]).exit_code == 1
    found = reasons(lab.plan(sets=[f"Many={[1] * 12}"]))
    assert found["Job:All"] == [missing["All"], *failed, *dirty]
    assert found["Job:Some"] == [missing["Some"], *(failed[i] for i in some), *(dirty[i] for i in some)]
    lab.succeed()
    found = reasons(lab.plan(force=["Job:Each[8]", "Job:Each[1]"]))
    assert (found["Job:All"], found["Job:Some"]) == ([dirty[1], dirty[8]], [dirty[1], dirty[8]])


def test_a_job_without_outputs_that_only_failed_never_succeeded(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          Do: {uses: python, with: {call: "acts:one"}}
        """,
        {"acts.py": "def one():\n    raise ValueError('no')\n"},
    )
    assert reasons(lab.plan()) == {"Job:Do": [{"code": "MISSING_OUTPUT"}]}
    assert lab.run().exit_code == 1
    failed = {"code": "RETRY_PREVIOUS_FAILURE", "run": "r0001", "attempt": 1, "error_type": "ValueError", "error": "no"}
    assert reasons(lab.plan()) == {"Job:Do": [failed, {"code": "MISSING_OUTPUT"}]}


def test_a_job_with_an_undecided_condition_is_not_planned_as_reused(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          Ask: {uses: python, with: {call: "acts:one"}, outputs: {N: {type: integer}}}
          Do: {if: "${{ jobs.Ask.outputs.N > 0 }}", uses: python, with: {call: "acts:one"},
               outputs: {N: {type: integer}}}
        """,
        CODE,
    )
    lab.succeed()
    do = next(job for job in lab.plan(force=["Job:Ask"]).planned if job.id == "Job:Do")
    assert (do.reuse, do.conditional) == (None, True)
