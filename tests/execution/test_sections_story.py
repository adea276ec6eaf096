"""Several jobs share one JSON file, each owning its section: skip, re-run, adopt and restore go by section."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from project_lab import Heard, Lab, codes, reasons
from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.evidence.queries.current import stale_files
from whyrun.execution.adopt.adopt import adopt_file, restore_version
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.compare.compare import CompareOptions, compare_workflow
from whyrun.log import events as ev
from whyrun.planning.plan import compute_execution_plan
from whyrun.snapshot.history.reader import History
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob

FILE = "results/metadata.json"
WORKFLOW = """
    workflow: w
    inputs:
      Networks: {type: "string[]", default: [asia, cancer]}
      Alpha: {type: number, default: 0.5}
    loops: {network: {values: inputs.Networks}}
    jobs:
      evaluate:
        for: [network]
        uses: python
        with: {call: "ev:evaluate", network: "${{ network }}", alpha: "${{ inputs.Alpha }}"}
        outputs:
          metadata: {type: json, path: results/metadata.json, append: true, leaves: {"score": number}}
      summary:
        uses: python
        with: {call: "ev:total", scores: "${{ jobs.evaluate.outputs.metadata[:] }}"}
        outputs: {Total: {type: number}}
"""
CODE = """
    from pathlib import Path

    def evaluate(network, alpha):
        with (Path(__file__).parent / "calls").open("a") as file:
            file.write(network + chr(10))
        return {"metadata": {"score": len(network) * alpha, "network": network}}

    def total(scores):
        return {"Total": sum(one["score"] for one in scores)}
"""


@pytest.fixture
def lab(project: Callable[..., Lab]) -> Lab:
    return project(WORKFLOW, {"ev.py": CODE})


def shared(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lab.read(FILE))
    return found


def calls(lab: Lab) -> list[str]:
    return sorted(lab.read("calls").split())


def section(network: str, alpha: float = 0.5) -> dict[str, Any]:
    return {"network": network, "score": len(network) * alpha}


def sha(value: Any) -> str:
    return bytes_sha256(canonical_json(value))


# --- the five steps ----------------------------------------------------------------------------------------------


def test_the_story_of_metadata_json(lab: Lab) -> None:
    lab.succeed(sets=["Networks=[asia]"])  # 1: the first run creates it
    assert lab.read(FILE) == '{\n  "evaluate[asia]": {\n    "network": "asia",\n    "score": 2.0\n  }\n}\n'
    second = lab.succeed()  # 2: the second job appends, and the first is left alone
    assert second.executed == ["Job:evaluate[cancer]", "Job:summary"]
    assert shared(lab) == {"evaluate[asia]": section("asia"), "evaluate[cancer]": section("cancer")}
    content = shared(lab)
    del content["evaluate[asia]"]
    lab.write({FILE: json.dumps(content)})  # 3: a cleared section is a reason for its own job only
    assert reasons(lab.plan()) == {
        "Job:evaluate[asia]": [
            {
                "code": "MISSING_OUTPUT",
                "artifact": "Artifact:evaluate.metadata[asia]",
                "change": "deleted",
                "path": "results/metadata.json § evaluate[asia]",
            }
        ]
    }
    third = lab.succeed()
    assert (third.executed, third.reused) == ([], {"Job:evaluate[asia]": "r0001"})
    assert shared(lab) == {"evaluate[cancer]": section("cancer"), "evaluate[asia]": section("asia")}
    assert lab.run().result.run is None  # 4: intact ones skip
    assert calls(lab) == ["asia", "cancer"]
    lab.write({FILE: json.dumps({**shared(lab), "mine": 1})})
    lab.edit("ev.py", '"network": network}', '"network": network.replace("asia", "ASIA")}')
    before = lab.read(FILE)
    found = compare_workflow(lab.opened(), CompareOptions(("Job:evaluate[*]",)), RunOptions(jobs=2), Heard())
    whole = [one for one in found.artifacts if not one.artifact.endswith(".score")]
    assert [(one.artifact, one.status, one.details) for one in whole] == [  # 5: compare looks at the section alone
        ("Artifact:evaluate.metadata[asia]", "DIFFERENT", ('$.network: "asia" → "ASIA"',)),
        ("Artifact:evaluate.metadata[cancer]", "IDENTICAL", ()),
    ]
    assert lab.read(FILE) == before


def test_a_cleared_section_is_executed_again_when_it_is_forced(lab: Lab) -> None:
    lab.succeed()
    lab.write({FILE: json.dumps({"evaluate[cancer]": section("cancer")})})
    ran = lab.succeed(force=["Job:evaluate[asia]"])
    assert ran.executed == ["Job:evaluate[asia]"]
    assert ran.reused == {"Job:summary": "r0001"}
    assert calls(lab) == ["asia", "asia", "cancer"]
    assert shared(lab) == {"evaluate[cancer]": section("cancer"), "evaluate[asia]": section("asia")}


def test_the_events_name_file_and_section(lab: Lab) -> None:
    ran = lab.succeed(jobs=1)
    found = {e.artifact: e for e in ran.of(ev.ArtifactAvailable)}
    event = found["Artifact:evaluate.metadata[asia]"]
    data = canonical_json(section("asia"))
    assert (event.path, event.section, event.sha256, event.size, event.type) == (
        FILE, "evaluate[asia]", bytes_sha256(data), len(data), "json",
    )  # fmt: skip
    leaf = found["Artifact:evaluate.metadata[asia].score"]
    assert (leaf.path, leaf.section, leaf.value) == (None, None, 2.0)
    place = "outputs: results/metadata.json § evaluate[asia] "
    assert [status for status, text in ran.heard.lines if place in text] == ["EXECUTES"]


def test_a_changed_parameter_replaces_the_sections_in_their_places(lab: Lab) -> None:
    lab.succeed()
    lab.write({FILE: json.dumps({"note": "mine", **shared(lab)})})
    before = lab.read(FILE)
    ran = lab.succeed(sets=["Alpha=2.0"])
    assert ran.executed == ["Job:evaluate[asia]", "Job:evaluate[cancer]", "Job:summary"]
    assert shared(lab) == {
        "note": "mine", "evaluate[asia]": section("asia", 2.0), "evaluate[cancer]": section("cancer", 2.0),
    }  # fmt: skip
    assert list(shared(lab)) == list(json.loads(before))
    assert ran.of(ev.FileDisplaced) == []
    back = lab.succeed()  # set back: reused, and the file follows
    assert back.executed == []
    assert shared(lab) == {"note": "mine", "evaluate[asia]": section("asia"), "evaluate[cancer]": section("cancer")}


# --- the user's hand ---------------------------------------------------------------------------------------------


def test_a_changed_section_is_saved_told_and_replaced(lab: Lab) -> None:
    lab.succeed()
    lab.edit(FILE, '"score": 2.0', '"score": 99')
    plan = lab.plan()
    assert codes(plan) == {"Job:evaluate[asia]": ["MISSING_OUTPUT"]}
    (reason,) = reasons(plan)["Job:evaluate[asia]"]
    assert (reason["change"], reason["path"]) == ("changed", "results/metadata.json § evaluate[asia]")
    ran = lab.succeed()
    (event,) = ran.of(ev.FileDisplaced)
    assert (event.path, event.section) == (FILE, "evaluate[asia]")
    assert json.loads(lab.opened().store.read(event.sha256)) == {"network": "asia", "score": 99}
    kept = lab.blob(event.sha256)
    assert ran.heard.notes == [
        "`results/metadata.json § evaluate[asia]` was not as this workflow left it; "
        f"its previous content is kept: {kept}"
    ]
    assert shared(lab)["evaluate[asia]"] == section("asia")


def test_spelling_the_same_content_otherwise_changes_nothing(lab: Lab) -> None:
    lab.succeed()
    lab.write({FILE: json.dumps(dict(reversed(shared(lab).items())))})
    assert codes(lab.plan()) == {}


def test_an_unowned_key_is_no_business_of_ours(lab: Lab) -> None:
    lab.write({FILE: '{"mine": 1.10}'})
    lab.succeed(jobs=1)
    assert lab.read(FILE).startswith('{\n  "mine": 1.10,\n  "evaluate[')
    lab.edit(FILE, "1.10", "1.20")
    assert codes(lab.plan()) == {}


def test_a_deleted_file_is_made_again_from_what_was_paid_for(lab: Lab) -> None:
    lab.succeed()
    lab.write({FILE: None})
    ran = lab.succeed()
    assert ran.executed == []
    assert shared(lab) == {"evaluate[asia]": section("asia"), "evaluate[cancer]": section("cancer")}
    assert calls(lab) == ["asia", "cancer"]


@pytest.mark.parametrize("text", ["not json", "[]", '{"a": 1, "a": 2}'])
def test_an_invalid_file_fails_the_steps_is_left_alone_and_nothing_is_paid_twice(lab: Lab, text: str) -> None:
    lab.write({FILE: text})
    ran = lab.run()
    assert ran.exit_code == 1
    assert ran.failed == dict.fromkeys(["Job:evaluate[asia]", "Job:evaluate[cancer]"], ("FAILED", "NotPublished"))
    assert ran.blocked == {"Job:summary": ["Job:evaluate[asia]", "Job:evaluate[cancer]"]}
    assert all("SECTION_FILE_INVALID" in e.error and FILE in e.error for e in ran.of(ev.StepFailed))
    assert lab.read(FILE) == text
    again = lab.run()
    assert again.exit_code == 1
    assert lab.read(FILE) == text
    lab.write({FILE: "{}"})
    healed = lab.succeed()
    assert healed.executed == ["Job:summary"]
    assert shared(lab) == {"evaluate[asia]": section("asia"), "evaluate[cancer]": section("cancer")}
    assert calls(lab) == ["asia", "cancer"]


def test_a_file_that_became_invalid_makes_its_sections_missing_and_no_plan_fails(lab: Lab) -> None:
    lab.succeed()
    lab.write({FILE: "{ oops"})
    assert codes(lab.plan()) == {f"Job:evaluate[{name}]": ["MISSING_OUTPUT"] for name in ("asia", "cancer")}


# --- adopt, restore, lost bytes ----------------------------------------------------------------------------------


def test_an_edited_section_is_adopted_from_the_shared_file_itself(lab: Lab) -> None:
    lab.succeed()
    lab.edit(FILE, '"score": 2.0', '"score": 99')
    found = adopt_file(lab.opened(), "Artifact:evaluate.metadata[asia]", lab.root / FILE, Heard())
    value = {"network": "asia", "score": 99}
    assert (found.run, found.sha256, found.displaced) == ("r0002", sha(value), ())
    assert (found.path, found.leaves) == (
        "results/metadata.json § evaluate[asia]", {"Artifact:evaluate.metadata[asia].score": 99},
    )  # fmt: skip
    (event,) = (e for e in lab.events("r0002") if isinstance(e, ev.ArtifactAdopted) and e.artifact == found.artifact)
    assert (event.path, event.section) == (FILE, "evaluate[asia]")
    assert list(codes(lab.plan())) == ["Job:summary"]
    lab.succeed()
    assert shared(lab)["evaluate[asia]"] == value
    assert lab.content("Artifact:summary.Total") == 102.0


def test_a_section_is_adopted_from_a_file_of_its_own_and_restored(lab: Lab) -> None:
    lab.succeed()
    lab.write({"mine.json": '{\n "score": 1, "network": "x" }'})
    adopt_file(lab.opened(), "Artifact:evaluate.metadata[asia]", lab.root / "mine.json", Heard())
    assert shared(lab) == {
        "evaluate[asia]": {"network": "x", "score": 1}, "evaluate[cancer]": section("cancer"),
    }  # fmt: skip
    restore_version(lab.opened(), "Artifact:evaluate.metadata[asia]", "r0001", Heard())
    assert shared(lab) == {"evaluate[asia]": section("asia"), "evaluate[cancer]": section("cancer")}
    assert codes(lab.plan()) == {}


def test_a_lost_blob_is_restored_from_the_section(lab: Lab) -> None:
    lab.succeed()
    blob = lab.blob(sha(section("asia")))
    blob.unlink()
    assert codes(lab.plan()) == {}
    lab.edit("ev.py", "sum(", "0.0 + sum(")
    ran = lab.succeed(targets=["Job:summary"])
    assert "Job:summary" in ran.executed
    assert blob.read_bytes() == canonical_json(section("asia"))


# --- files of their own and back ---------------------------------------------------------------------------------


def test_from_a_file_of_its_own_to_a_section_and_back(project: Callable[..., Lab]) -> None:
    flow = """
        workflow: w
        jobs:
          A:
            uses: shell
            with: {run: 'printf "{ \\"b\\": 1, \\"a\\": 2 }" > "$out_M"'}
            outputs: {M: {type: json, path: m.json%s}}
    """
    lab = project(flow % "")
    lab.succeed()
    assert lab.read("m.json") == '{ "b": 1, "a": 2 }'
    lab.write({"workflow.yaml": flow % ", append: true", "m.json": "{}"})
    assert [r["change"] for r in reasons(lab.plan())["Job:A"]] == ["retyped"]
    assert lab.succeed().executed == ["Job:A"]
    assert lab.read("m.json") == '{\n  "A": {\n    "a": 2,\n    "b": 1\n  }\n}\n'
    assert lab.run().result.run is None


# --- evidence ----------------------------------------------------------------------------------------------------


def test_the_section_of_a_removed_job_stays_and_is_listed(lab: Lab) -> None:
    lab.succeed()
    opened = lab.opened(["Networks=[asia]"])
    snapshot = opened.snapshot()
    plan = compute_execution_plan(snapshot)
    stale = stale_files(snapshot, plan, opened.state.runs(), opened.observer().published)
    assert [one.to_json() for one in stale] == [
        {
            "path": "results/metadata.json § evaluate[cancer]",
            "artifact": "Artifact:evaluate.metadata[cancer]",
            "run": "r0001",
            "why": "removed",
            "edited": False,
        }
    ]
    lab.succeed(sets=["Networks=[asia]"])
    assert "evaluate[cancer]" in shared(lab)


def test_a_plan_over_sections_is_replayed_from_its_blob(lab: Lab) -> None:
    lab.succeed()
    content = shared(lab)
    del content["evaluate[asia]"]
    lab.write({FILE: json.dumps(content)})
    opened = lab.opened()
    snapshot = opened.snapshot()
    blob = snapshot_blob(snapshot)
    assert json.loads(blob)["files"] == {"results/metadata.json § evaluate[asia]": "deleted"}
    plan = compute_execution_plan(snapshot)
    shutil.rmtree(lab.root / "results")
    again = replay_snapshot(blob, History(opened.state, opened.store.read))
    assert compute_execution_plan(again).to_bytes() == plan.to_bytes()


def test_plans_are_the_same_without_index_and_cache(lab: Lab) -> None:
    lab.succeed()
    lab.edit(FILE, '"score": 2.0', '"score": 7')
    with_caches = [lab.plan().to_bytes() for _ in range(2)]
    index = lab.root / ".whyrun" / "w" / "index"
    assert (index / "sections").exists()
    shutil.rmtree(index)
    (lab.root / ".whyrun" / "stat-cache").unlink(missing_ok=True)  # too young to be trusted, perhaps
    assert {*with_caches, lab.plan().to_bytes()} == {with_caches[0]}


def test_two_workflows_share_one_file(project: Callable[..., Lab], tmp_path: Path) -> None:
    flow = """
        workflow: %s
        jobs:
          %s:
            uses: python
            with: {call: "ev:value"}
            outputs: {M: {type: json, path: m.json, append: true}}
    """
    code = "def value():\n    return {'M': 1}\n"
    lab = project(flow % ("one", "A"), {"ev.py": code, "two.yaml": flow % ("two", "B")})
    other = Lab(lab.root)
    other.file = lab.root / "two.yaml"
    lab.succeed()
    other.succeed()
    assert json.loads(lab.read("m.json")) == {"A": 1, "B": 1}
    assert (codes(lab.plan()), codes(other.plan())) == ({}, {})


def test_many_sections_are_merged_together(project: Callable[..., Lab]) -> None:
    flow = """
        workflow: w
        loops: {i: {count: 100}}
        jobs:
          A:
            for: [i]
            uses: python
            with: {call: "ev:value", i: "${{ i }}"}
            outputs: {M: {type: json, path: m.json, append: true, key: "${{ i }}"}}
    """
    lab = project(flow, {"ev.py": "def value(i):\n    return {'M': i}\n"})
    lab.succeed()
    assert json.loads(lab.read("m.json")) == {str(i): i for i in range(100)}
    lab.write({"m.json": '{"50": 50}'})
    ran = lab.succeed()
    assert (len(ran.reused), ran.executed) == (99, [])
    assert json.loads(lab.read("m.json")) == {str(i): i for i in range(100)}
    assert next(iter(json.loads(lab.read("m.json")))) == "50"
