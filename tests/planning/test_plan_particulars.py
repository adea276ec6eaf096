"""All particulars of reasons: changed actions, slots that cannot be computed, failures once and in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from project_lab import Lab, reasons
from scenarios.harness import Scenario, read_logs, write_logs
from whyrun.evidence.queries.current import current_artifacts
from whyrun.log import events as ev
from whyrun.planning import input_changes
from whyrun.planning.consume import Consumption
from whyrun.planning.judge import Judge
from whyrun.planning.reasons import MissingOutput, reason_json
from whyrun.snapshot.records import Attempt, Output, StepRecord

Make = Callable[..., Lab]
CODE = {"acts.py": "def one(**given):\n    return {'N': 1}\n"}
ONE = """
    workflow: w
    jobs:
      One: {uses: python, with: {call: "acts:one"}, outputs: {N: {type: integer}}}
"""


def changed_action(lab: Lab, then: dict[str, Any]) -> list[dict[str, Any]]:
    snapshot = lab.snapshot()
    case = Judge(snapshot, {}).case(snapshot.dependency_graph.node_of["Job:One"], Consumption())
    return [reason_json(reason) for reason in input_changes.changed_action(case, [then])]


def test_a_changed_action_lists_its_files_and_versions(project: Make) -> None:
    lab = project(ONE, CODE)
    lab.succeed()
    old = lab.snapshot().actions["One"].sha256
    lab.write({"acts.py": "def one(**given):\n    return {'N': 2}\n"})
    action = lab.snapshot().actions["One"]
    told = {
        "code": "INPUT_CHANGED",
        "binding": "action",
        "source": "Input:One.action",
        "old": old,
        "new": action.sha256,
    }
    assert reasons(lab.plan()) == {"Job:One": [{**told, "files": ["acts.py"]}]}
    assert set(action.files) == {"acts.py"}
    file = action.files["acts.py"]
    assert changed_action(lab, {"sha256": action.sha256}) == []
    assert changed_action(lab, {"sha256": old, "files": {"acts.py": file}}) == [told], "by something else than files"
    assert changed_action(lab, {"sha256": old, "files": {"acts.py": file[:12]}}) == [told], "shortened hashes"
    assert changed_action(lab, {"sha256": old, "files": {"z.py": "0" * 12, "acts.py": file[:12]}}) == [
        {**told, "files": ["z.py"]}
    ]
    many = {f"{name}.py": "0" * 12 for name in "qwertzuiop"}
    assert changed_action(lab, {"sha256": old, "files": many}) == [{**told, "files": sorted(["acts.py", *many])}]
    assert changed_action(lab, {"sha256": old}) == [{**told, "files": ["acts.py"]}]
    del told["old"]
    assert changed_action(lab, {}) == [{**told, "files": ["acts.py"]}]


@pytest.mark.parametrize(("number", "told"), [(16, ["lib/3.txt"]), (17, None)])
def test_changed_files_are_listed_if_their_hashes_were_recorded(
    project: Make, number: int, told: list[str] | None
) -> None:
    flow = ONE.replace('uses: python, with: {call: "acts:one"}', 'uses: shell, code: ["lib/*"], with: {run: RUN}')
    flow = flow.replace("RUN", "'echo 1 > \"$out_N\"'")
    lab = project(flow, {f"lib/{n}.txt": "1" for n in range(number)})
    lab.succeed()
    lab.write({"lib/3.txt": "2"})
    ((reason,),) = reasons(lab.plan()).values()
    assert (reason["code"], reason["binding"], reason.get("files")) == ("INPUT_CHANGED", "action", told)
    lab.succeed()
    lab.write({f"lib/more-{n}.txt": "1" for n in range(20)})
    ((reason,),) = reasons(lab.plan()).values()
    assert reason.get("files") is None


def test_versions_of_an_action_and_its_package(project: Make) -> None:
    lab = project('workflow: w\njobs:\n  One: {uses: shell, with: {run: "true"}}\n')
    action = lab.snapshot().actions["One"]
    assert not action.files
    told = {
        "code": "INPUT_CHANGED",
        "binding": "action",
        "source": "Input:One.action",
        "old": "0",
        "new": action.sha256,
    }
    was = dict.fromkeys(action.versions, "0.0")
    now = [f"{name} 0.0 → {version}" for name, version in sorted(action.versions.items())]
    assert changed_action(lab, {"sha256": "0"}) == [told]
    assert changed_action(lab, {"sha256": "0", "versions": {**was, "other": "1"}}) == [
        {**told, "versions": sorted([*now, "other 1 → none"])}
    ]
    assert changed_action(lab, {"sha256": "0", "files": {"gone.py": "0"}}) == [{**told, "files": ["gone.py"]}]


def test_a_slot_that_cannot_be_computed_is_a_reason_with_the_problem(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {By: {type: integer, default: 0}}
        jobs:
          Measure: {uses: python, with: {call: "acts:same", n: "${{ inputs.By }}"}, outputs: {N: {type: integer}}}
          Ratio:
            uses: python
            with: {call: "acts:same", n: 1, r: "${{ 10 / jobs.Measure.outputs.N }}", z: 1}
            outputs: {N: {type: integer}}
          Asked:
            if: ${{ 10 / jobs.Measure.outputs.N > 1 }}
            uses: python
            with: {call: "acts:same", n: 1}
            outputs: {N: {type: integer}}
        """,
        {"acts.py": "def same(n, **given):\n    return {'N': n}\n"},
    )
    lab.run(targets=["Job:Measure"])
    lab.succeed(sets=["By=5"])
    lab.edit("workflow.yaml", "z: 1", "z: 2")
    told = reasons(lab.plan())  # Measure is reused, so that its 0 is known
    assert told["Job:Ratio"] == [
        {"code": "INPUT_CHANGED", "binding": "r", "problem": "`10 / jobs.Measure.outputs.N`: division by zero"},
        {"code": "INPUT_CHANGED", "binding": "z", "source": "Input:Ratio.with.z", "old": told["Job:Ratio"][1]["old"],
         "new": told["Job:Ratio"][1]["new"], "old_value": 1, "new_value": 2},
    ]  # fmt: skip
    assert told["Job:Asked"] == [
        {"code": "INPUT_CHANGED", "binding": "if", "problem": "`10 / jobs.Measure.outputs.N > 1`: division by zero"}
    ]
    assert [job.id for job in lab.plan().planned if job.conditional] == ["Job:Asked"]
    assert [job.id for job in lab.plan().planned if job.reuse] == ["Job:Measure"]


FAILING = """
    workflow: w
    inputs: {Six: {type: "integer[]", default: [0, 1, 2, 3, 4, 5]}, Four: {type: "integer[]", default: [0, 1, 2, 3]}}
    loops: {i: {each: inputs.Six}, j: {each: inputs.Four}}
    jobs:
      A: {for: [i], uses: python, with: {call: "acts:one", i: "${{ i }}"}, outputs: {N: {type: integer}}}
      B: {for: [j], uses: python, with: {call: "acts:fail", j: "${{ j }}"}, outputs: {N: {type: integer}}}
      Y:
        uses: python
        with:
          call: acts:one
          a: ${{ jobs.A.outputs.N[1] }}
          b: ${{ jobs.B.outputs.N[2] }}
          c: ${{ jobs.B.outputs.N[0] }}
          d: ${{ jobs.B.outputs.N[1] }}
        outputs: {N: {type: integer}}
      X:
        uses: python
        with: {call: "acts:one", all: "${{ jobs.B.outputs.N[:] }}", b: "${{ jobs.B.outputs.N[3] }}"}
        outputs: {N: {type: integer}}
      Z: {uses: python, with: {call: "acts:fail"}}
"""


@pytest.fixture
def failed(project: Make) -> Lab:
    lab = project(FAILING, {"acts.py": CODE["acts.py"] + "def fail(**given):\n    raise ValueError('no')\n"})
    assert lab.run().exit_code == 1
    return lab


def test_failures_upstream_are_listed_once_each_in_order(failed: Lab) -> None:
    told = reasons(failed.plan(force=["Job:A[1]"]))
    b = [
        (
            {"code": "UPSTREAM_FAILED", "artifact": f"Artifact:B.N[{j}]"},
            {"code": "UPSTREAM_DIRTY", "job": f"Job:B[{j}]"},
        )
        for j in range(4)
    ]
    assert told["Job:X"] == [
        {"code": "MISSING_OUTPUT", "artifact": "Artifact:X.N"}, *(f for f, _ in b), *(d for _, d in b)
    ]  # fmt: skip
    assert told["Job:Y"] == [
        {"code": "MISSING_OUTPUT", "artifact": "Artifact:Y.N"}, *(f for f, _ in b[:3]),
        {"code": "UPSTREAM_DIRTY", "job": "Job:A[1]"}, *(d for _, d in b[:3]),
    ]  # fmt: skip


def test_a_job_without_outputs_that_never_succeeded_says_so(failed: Lab) -> None:
    assert reasons(failed.plan())["Job:Z"] == [
        {"code": "RETRY_PREVIOUS_FAILURE", "run": "r0001", "attempt": 1, "error_type": "ValueError", "error": "no"},
        {"code": "MISSING_OUTPUT"},
    ]


LEAVES = """
    workflow: w
    jobs:
      A:
        uses: python
        with: {call: "acts:one"}
        outputs: {S: {type: json, path: out/s.json, leaves: {On: boolean, Deep: json}}}
      B:
        uses: python
        with: {call: "acts:two", n: "${{ len(jobs.A.outputs.S.Deep) }}"}
        outputs: {N: {type: integer}}
"""
LEAVES_CODE = "def one():\n    return {'S': {'On': True, 'Deep': {'a': 1}}}\ndef two(n, **more):\n    return {'N': n}\n"


def test_a_leaf_has_no_file_of_its_own(project: Make) -> None:
    lab = project(LEAVES, {"acts.py": LEAVES_CODE})
    lab.succeed()
    assert lab.plan().headlines() == {}
    lab.edit("workflow.yaml", 'n: "', 'z: 1, n: "')
    assert [(r["code"], r["binding"]) for r in reasons(lab.plan())["Job:B"]] == [("INPUT_CHANGED", "z")]
    lab.edit("workflow.yaml", "z: 1, ", "")
    lab.write({"out/s.json": None})
    file = {"code": "MISSING_OUTPUT", "artifact": "Artifact:A.S", "change": "deleted", "path": "out/s.json"}
    assert reasons(lab.plan()) == {"Job:A": [file]}
    lab.edit("workflow.yaml", "On: boolean", "On: json")
    assert reasons(lab.plan())["Job:A"] == [
        file,
        {"code": "MISSING_OUTPUT", "artifact": "Artifact:A.S.On", "change": "retyped"},
    ]


PATHS = """
    workflow: paths
    jobs:
      A: {uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text, path: out/a.txt}}}
      B: {uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: file}}}
      C: {uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: json, path: m.json, append: true, key: c}}}
"""


def test_where_nothing_was_published_yet_nothing_was_deleted(project: Make) -> None:
    lab = project(PATHS, {})
    lab.succeed()
    lab.edit("workflow.yaml", "out/a.txt", "out/b.txt")
    lab.edit("workflow.yaml", "{type: file}", "{type: file, path: out/c}")
    lab.edit("workflow.yaml", "key: c}", "key: d}")
    sites = {"A": "out/b.txt", "B": "out/c", "C": "m.json § d"}
    for change in ("unpublished", "deleted"):
        assert reasons(lab.plan()) == {
            f"Job:{job}": [{"code": "MISSING_OUTPUT", "artifact": f"Artifact:{job}.T", "change": change, "path": site}]
            for job, site in sites.items()
        }
        assert {one.id: one.change for one in current_artifacts(lab.snapshot(), lab.plan())} == {
            f"Artifact:{job}.T": change for job in sites
        }
        lab.succeed()
        for name in ("out/b.txt", "out/c", "m.json"):
            (lab.root / name).unlink()


def test_outputs_of_a_failed_attempt_count_as_never_made(project: Make) -> None:
    snapshot = project(ONE, CODE).snapshot()
    case = Judge(snapshot, {}).case(0, Consumption())
    made = (Output("Artifact:One.N", "aa", 1, "integer", None, (1,)),)

    def missing(record: StepRecord | None) -> list[Any]:
        return MissingOutput.find(msgspec.structs.replace(case, record=record))

    assert missing(None) == [MissingOutput("Artifact:One.N")]
    assert missing(StepRecord(Attempt(1, 1, 1, "f", False, made))) == [MissingOutput("Artifact:One.N")]
    assert missing(StepRecord(Attempt(1, 1, 1, "f", True, made))) == [MissingOutput("Artifact:One.N", "lost")]
    assert missing(StepRecord(Attempt(1, 1, 1, "f", True))) == [MissingOutput("Artifact:One.N")]


def test_a_record_that_does_not_name_the_action_is_of_another_one(scenario: Callable[[str], Scenario]) -> None:
    story = scenario("then-and-now").with_log()
    runs = story.opened.state.runs_dir
    logs = read_logs(runs)
    for number, event in enumerate(logs["r0001"]):
        if isinstance(event, ev.StepStart) and event.step_id == "Job:Montage":
            kept = {name: entry for name, entry in event.bindings.items() if name != ".action"}
            logs["r0001"][number] = msgspec.structs.replace(event, bindings=kept, fingerprint="0" * 64)
    write_logs(runs, logs)
    action = story.snapshot().actions["Montage"]
    told = {"code": "INPUT_CHANGED", "binding": "action", "source": "Input:Montage.action", "new": action.sha256}
    files = {"files": sorted(action.files)} if action.files else {}
    assert reasons(story.plan()) == {"Job:Montage": [{**told, **files}]}
