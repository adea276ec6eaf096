"""The form counts: a step may receive a `text` as its content, and every other file as a path."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from project_lab import Heard, Lab, codes, reasons
from whyrun.artifacts.hashing import canonical_json
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.compare.compare import CompareOptions, compare_workflow
from whyrun.facts.plans import plan_of_run
from whyrun.log import events as ev
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob

Make = Callable[..., Lab]

TELL = """
    def tell(x: str):
        return {"T": type(x).__name__}

    def copy(word):
        return {"O": word.encode()}

    def each(xs):
        return {"T": " ".join(type(x).__name__ for x in xs)}

    def within(xs: str, m: dict):
        return {"T": " ".join(type(x).__name__ for x in [*xs, m["k"]])}
"""
# Of its `Params`, whatever may be a text is given as one, in lists and records, too.
KINDS = """
    from typing import Any
    from whyrun import Action, Parameters


    def kind(x):
        return [kind(y) for y in x] if isinstance(x, list | tuple) else type(x).__name__


    class Kinds(Action):
        name = "kinds"

        class Params(Parameters):
            x: Any = None
            xs: list[Any] = []

        def run(self, inputs):
            return {"T": f"{kind(inputs['x'])} {kind(inputs['xs'])}"}
"""
FILES = {"m.py": TELL, "actions/kinds.py": KINDS, "in.txt": "hello\n", "a.txt": "a", "b.txt": "b"}
ONE = """
    workflow: w
    inputs: {X: {type: file, default: in.txt}}
    jobs:
      F: {uses: python, with: {call: "m:tell", x: "${{ inputs.X }}"}, outputs: {T: {type: text}}}
"""


def words(plan: Plan) -> dict[str, list[tuple[str, str]]]:
    """As `whyrun explain` has them."""
    return {job.id: [(r.code, r.text(job.id)) for r in job.reasons] for job in plan.planned}


def handed(lab: Lab, run: str, step: str, name: str) -> list[Any]:
    """The forms that a step was given something in, by its record."""
    (start,) = (e for e in lab.events(run) if isinstance(e, ev.StepStart) and e.step_id == step)
    return [member.get("as") for member in start.bindings[name]]


def is_settled(lab: Lab) -> bool:
    """Nothing is planned, and nothing needs a second look: every fingerprint is the recorded one."""
    snapshot = lab.snapshot()
    return not snapshot.suspects and codes(compute_execution_plan(snapshot, PlanOptions())) == {}


def retyped(lab: Lab, old: str = "file", new: str = "text") -> Lab:
    return lab.edit("workflow.yaml", f"type: {old}", f"type: {new}")


# --- what is given, and what is recorded of it ---------------------------------------------------------------------


def test_an_input_that_becomes_a_text_is_given_anew_and_back_again_is_an_earlier_result(project: Make) -> None:
    lab = project(ONE, FILES)
    lab.succeed()
    assert lab.content("Artifact:F.T") == "PosixPath"
    assert handed(lab, "r0001", "Job:F", "x") == ["f.txt"]
    retyped(lab)
    plan = lab.plan()
    (reason,) = reasons(plan)["Job:F"]
    assert (reason["code"], reason["binding"], reason["source"]) == ("INPUT_CHANGED", "x", "Input:X")
    assert (reason["old"] == reason["new"], reason["old_as"], reason["new_as"]) == (True, "f.txt", "t.txt")
    assert words(plan) == {"Job:F": [("INPUT_CHANGED", "x ← Input:X  given as text, not as a file")]}
    assert lab.succeed().executed == ["Job:F"]
    assert lab.content("Artifact:F.T") == "str"
    assert handed(lab, "r0002", "Job:F", "x") == ["t.txt"]
    assert is_settled(lab)
    retyped(lab, "text, default", "file, default")
    assert words(lab.plan()) == {"Job:F": [("INPUT_CHANGED", "x ← Input:X  given as a file, not as text")]}
    assert lab.succeed().reused == {"Job:F": "r0001"}
    assert lab.content("Artifact:F.T") == "PosixPath"
    assert lab.plan().totals["clean"] == 1
    for run in lab.runs():
        written = json.loads((lab.run_folder(run) / "plan.json").read_bytes())
        assert plan_of_run(lab.opened(), run).plan.to_json() == written


@pytest.mark.parametrize("other", ["image", "dataset"])
def test_every_other_type_of_file_is_given_alike(project: Make, other: str) -> None:
    lab = project(ONE, FILES)
    lab.succeed()
    retyped(lab, new=other)
    assert is_settled(lab)


def test_an_artifact_that_becomes_a_text_is_given_anew_though_its_bytes_are_the_same(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          A: {uses: python, with: {call: "m:copy", word: hello}, outputs: {O: {type: file, path: o.txt}}}
          F: {uses: python, with: {call: "m:tell", x: "${{ jobs.A.outputs.O }}"}, outputs: {T: {type: text}}}
        """,
        FILES,
    )
    lab.succeed()
    assert lab.content("Artifact:F.T") == "PosixPath"
    lab.edit("workflow.yaml", "{type: file, path: o.txt}", "{type: text, path: o.txt}")
    assert codes(lab.plan()) == {"Job:A": ["MISSING_OUTPUT"], "Job:F": ["UPSTREAM_DIRTY"]}
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == (["Job:A", "Job:F"], {})
    assert lab.content("Artifact:F.T") == "str"
    assert handed(lab, "r0002", "Job:F", "x") == ["t.txt"]


def test_a_new_text_of_an_earlier_run_changes_its_readers(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          A: {uses: python, with: {call: "m:copy", word: hello}, outputs: {O: {type: file, path: o.txt}}}
          F: {uses: python, with: {call: "m:tell", x: "${{ jobs.A.outputs.O }}"}, outputs: {T: {type: text}}}
        """,
        FILES,
    )
    lab.succeed()
    lab.edit("workflow.yaml", "{type: file, path: o.txt}", "{type: text, path: o.txt}")
    assert lab.succeed(up=1).executed == ["Job:A"]
    assert words(lab.plan()) == {"Job:F": [("INPUT_CHANGED", "x ← Artifact:A.O  given as text, not as a file")]}


def test_the_first_of_several_is_given_by_its_own_type(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {X: {type: file, default: in.txt}}
        loops: {i: {count: 2}}
        jobs:
          F:
            for: [i]
            uses: python
            with: {call: "m:tell", x: "${{ first(jobs.F.outputs.T[i-1], inputs.X) }}"}
            outputs: {T: {type: text}}
        """,
        FILES,
    )
    lab.succeed()
    assert [lab.content(f"Artifact:F.T[{i}]") for i in (0, 1)] == ["PosixPath", "str"]
    assert [handed(lab, "r0001", f"Job:F[{i}]", "x") for i in (0, 1)] == [["f.txt"], ["t.txt"]]
    assert is_settled(lab)
    retyped(lab, "file, default", "text, default")
    assert words(lab.plan())["Job:F[0]"] == [("INPUT_CHANGED", "x ← Input:X  given as text, not as a file")]


@pytest.mark.parametrize(("on", "source"), [("true", "Artifact:C.O"), ("false", "Input:X")])
def test_the_first_that_is_active_is_given_by_its_own_type(project: Make, on: str, source: str) -> None:
    lab = project(
        """
        workflow: w
        inputs: {X: {type: file, default: in.txt}, On: {type: boolean, default: true}}
        jobs:
          C:
            if: ${{ inputs.On }}
            uses: python
            with: {call: "m:copy", word: hello}
            outputs: {O: {type: file, path: o.txt}}
          F:
            uses: python
            with: {call: "m:tell", x: "${{ first(jobs.C.outputs.O, inputs.X) }}"}
            outputs: {T: {type: text}}
        """,
        FILES,
    )
    lab.edit("workflow.yaml", "default: true", f"default: {on}").succeed()
    assert lab.content("Artifact:F.T") == "PosixPath"
    retyped(lab, "file, default", "text, default").edit("workflow.yaml", "type: file, path", "type: text, path")
    lab.succeed(up=1)  # C, where it is active; else F itself
    if on == "true":
        assert words(lab.plan()) == {"Job:F": [("INPUT_CHANGED", f"x ← {source}  given as text, not as a file")]}
        lab.succeed()
    assert lab.content("Artifact:F.T") == "str"
    assert handed(lab, lab.runs()[-1], "Job:F", "x") == ["t.txt"]


def test_each_instance_of_a_loop_is_given_its_own_texts(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Xs: {type: "file[]", default: [a.txt, b.txt]}}
        loops: {i: {each: inputs.Xs}}
        jobs:
          A:
            for: [i]
            uses: python
            with: {call: "m:tell", x: "${{ inputs.Xs[i] }}"}
            outputs: {T: {type: text}}
          B:
            for: [i]
            uses: python
            with: {call: "m:tell", x: "${{ jobs.A.outputs.T[i] }}"}
            outputs: {T: {type: text}}
        """,
        FILES,
    )
    lab.succeed()
    assert is_settled(lab), "the columns of the log fit those of the plan, texts included"
    assert handed(lab, "r0001", "Job:B[1]", "x") == ["t.txt"]
    retyped(lab, '"file[]"', '"text[]"')
    told = words(lab.plan())
    assert {job: told[job] for job in ("Job:A[0]", "Job:A[1]")} == {
        f"Job:A[{i}]": [("INPUT_CHANGED", f"x ← Input:Xs[{i}]  given as text, not as a file")] for i in (0, 1)
    }
    lab.succeed()
    assert [lab.content(f"Artifact:A.T[{i}]") for i in (0, 1)] == ["str", "str"]


# --- lists, and who is given paths in any case ---------------------------------------------------------------------

LISTS = """
    workflow: w
    inputs:
      X: {type: file, default: in.txt}
      Xs: {type: "file[]", default: [a.txt, b.txt]}
    jobs:
      Whole: {uses: %(uses)s, with: {%(call)s xs: "${{ inputs.Xs }}"}, outputs: {T: {type: text}}}
      FanIn: {uses: %(uses)s, with: {%(call)s xs: "${{ inputs.Xs[:] }}"}, outputs: {T: {type: text}}}
      Slots: {uses: %(uses)s, with: {%(call)s xs: ["${{ inputs.X }}"]}, outputs: {T: {type: text}}}
"""


def as_texts(lab: Lab) -> Lab:
    return lab.edit("workflow.yaml", "type: file,", "type: text,").edit("workflow.yaml", '"file[]"', '"text[]"')


def test_an_action_with_typed_parameters_is_given_texts_in_lists_too(project: Make) -> None:
    lab = project(LISTS % {"uses": "kinds", "call": ""}, FILES)
    lab.succeed()
    assert lab.content("Artifact:Whole.T") == "NoneType ['PosixPath', 'PosixPath']"
    as_texts(lab)
    assert words(lab.plan()) == {
        "Job:Whole": [("INPUT_CHANGED", "xs ← Input:Xs  given as texts, not as files")],
        "Job:FanIn": [("INPUT_CHANGED", f"xs ← Input:Xs[{i}]  given as text, not as a file") for i in (0, 1)],
        "Job:Slots": [("INPUT_CHANGED", "xs[0] ← Input:X  given as text, not as a file")],
    }
    assert lab.succeed().executed == ["Job:FanIn", "Job:Slots", "Job:Whole"]
    for job in ("Whole", "FanIn"):
        assert lab.content(f"Artifact:{job}.T") == "NoneType ['str', 'str']"
    assert lab.content("Artifact:Slots.T") == "NoneType ['str']"
    assert handed(lab, "r0002", "Job:Whole", "xs") == ["at"]
    assert handed(lab, "r0002", "Job:FanIn", "xs") == ["t.txt", "t.txt"]
    assert is_settled(lab)
    lab.edit("workflow.yaml", '"text[]"', '"file[]"')
    assert words(lab.plan())["Job:Whole"] == [("INPUT_CHANGED", "xs ← Input:Xs  given as files, not as texts")]


def test_a_function_is_given_the_paths_of_texts_in_lists_and_mappings(project: Make) -> None:
    lab = project(
        LISTS % {"uses": "python", "call": 'call: "m:each",'}
        + """
      Keyed:
        uses: python
        with: {call: "m:within", xs: ["${{ inputs.X }}"], m: {k: "${{ inputs.X }}"}}
        outputs: {T: {type: text}}
        """,
        FILES,
    )
    lab.succeed()
    before = {job: lab.content(f"Artifact:{job}.T") for job in ("Whole", "FanIn", "Slots", "Keyed")}
    as_texts(lab)
    assert is_settled(lab)
    lab.succeed(force=["Job:*"])
    assert {job: lab.content(f"Artifact:{job}.T") for job in before} == before, "and so they are, in every case"
    assert handed(lab, "r0002", "Job:Whole", "xs") == ["a"]
    assert handed(lab, "r0002", "Job:FanIn", "xs") == ["f.txt", "f.txt"]


def test_a_script_is_given_paths(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {X: {type: file, default: in.txt}}
        jobs:
          Shell:
            uses: shell
            with: {x: "${{ inputs.X }}", run: 'basename "$x" > "$out_T"'}
            outputs: {T: {type: text}}
          Script: {uses: python, with: {script: s.py, x: "${{ inputs.X }}"}, outputs: {T: {type: text}}}
        """,
        {**FILES, "s.py": "context.output('T').write_text(type(inputs['x']).__name__)"},
    )
    lab.succeed()
    retyped(lab, "file, default", "text, default")
    assert is_settled(lab)
    lab.succeed(force=["Job:*"])
    assert (lab.content("Artifact:Shell.T"), lab.content("Artifact:Script.T")) == ("x.txt\n", "PosixPath")
    assert [handed(lab, "r0002", f"Job:{job}", "x") for job in ("Shell", "Script")] == [["f.txt"], ["f.txt"]]


def test_missing_and_empty_inputs_are_the_same_for_every_type(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {X: {type: file, required: false}, Xs: {type: "file[]", default: []}}
        jobs:
          F: {uses: kinds, with: {x: "${{ inputs.X }}", xs: "${{ inputs.Xs }}"}, outputs: {T: {type: text}}}
        """,
        FILES,
    )
    lab.succeed()
    as_texts(lab)
    assert is_settled(lab)


# --- wide lists ----------------------------------------------------------------------------------------------------

WIDE = """
    workflow: w
    loops: {i: {count: 70}}
    jobs:
      Part:
        for: [i]
        uses: shell
        with: {i: "${{ i }}", run: 'echo $i > "$out_O"'}
        outputs: {O: {type: file, path: "o/${{ i }}.txt"}}
      Kinds: {uses: kinds, with: {xs: "${{ jobs.Part.outputs.O[:] }}"}, outputs: {T: {type: text}}}
      Each: {uses: python, with: {call: "m:each", xs: "${{ jobs.Part.outputs.O[:] }}"}, outputs: {T: {type: text}}}
"""


def test_a_wide_fan_in_says_for_each_consumer_how_its_members_are_given(project: Make) -> None:
    lab = project(WIDE, FILES)
    lab.succeed(jobs=2)
    before = lab.content("Artifact:Each.T")
    lab.edit("workflow.yaml", "{type: file, path", "{type: text, path")
    ran = lab.succeed(jobs=2)
    assert set(ran.executed) == {"Job:Kinds", *(f"Job:Part[{i}]" for i in range(70))}
    assert ran.reused == {"Job:Each": "r0001"}, "paths are what it is given either way"
    assert lab.content("Artifact:Kinds.T") == f"NoneType {['str'] * 70}"
    assert lab.content("Artifact:Each.T") == before
    told = [e for e in lab.events("r0002") if isinstance(e, ev.StepStart | ev.StepSkipped)]
    lists = {e.step_id: e.bindings["xs"] for e in told if "xs" in (e.bindings or {})}
    forms = {
        step: {member["as"] for member in json.loads(lab.blob(list_["blob"]).read_bytes())}
        for step, list_ in lists.items()
    }
    assert forms == {"Job:Kinds": {"t.txt"}, "Job:Each": {"f.txt"}}
    assert is_settled(lab)


def test_of_a_wide_fan_in_that_cannot_be_read_any_more_the_digest_says_how_it_was_given(project: Make) -> None:
    flow = """
        workflow: w
        inputs: {Xs: {type: "file[]", default: "parts/*.txt"}}
        jobs:
          Kinds: {uses: kinds, with: {xs: "${{ inputs.Xs[:] }}"}, outputs: {T: {type: text}}}
    """
    lab = project(flow, {**FILES, **{f"parts/{i}.txt": str(i) for i in range(65)}})
    lab.succeed()
    retyped(lab, '"file[]"', '"text[]"')
    told = words(lab.plan())["Job:Kinds"]
    assert told[:1] == [("INPUT_CHANGED", "xs ← Input:Xs[0]  given as text, not as a file")]
    assert told[20:] == [("INPUT_CHANGED", "… and 45 more")]
    (start,) = (e for e in lab.events("r0001") if isinstance(e, ev.StepStart))
    lab.blob(start.bindings["xs"]["blob"]).unlink()
    ((code, words_),) = words(lab.plan())["Job:Kinds"]
    assert (code, words_.endswith("→ another list")) == ("INPUT_CHANGED", True)
    retyped(lab, '"text[]"', '"file[]"')
    assert is_settled(lab)


# --- the user's own versions, comparisons, replays -----------------------------------------------------------------


def test_a_result_adopted_as_a_file_is_not_reused_as_a_text(project: Make) -> None:
    lab = project(ONE, {**FILES, "mine.txt": "mine"})
    lab.succeed()
    adopt_file(lab.opened(), "Artifact:F.T", lab.root / "mine.txt", Heard())
    assert is_settled(lab)
    retyped(lab, "file, default", "text, default")
    assert codes(lab.plan()) == {"Job:F": ["INPUT_CHANGED"]}
    lab.succeed()
    adopt_file(lab.opened(), "Artifact:F.T", lab.root / "mine.txt", Heard())
    (adopted,) = (e for e in lab.events("r0004") if isinstance(e, ev.ArtifactAdopted))
    assert adopted.bindings["x"][0]["as"] == "t.txt"
    assert is_settled(lab)
    assert lab.content("Artifact:F.T") == "mine"


def test_results_of_other_forms_are_not_compared(project: Make) -> None:
    lab = project(ONE, FILES)
    lab.succeed()
    retyped(lab)
    heard = Heard()
    found = compare_workflow(lab.opened(), CompareOptions(), RunOptions(), heard)
    assert found.artifacts == ()
    ((status, line),) = heard.lines
    assert (status, line.partition("→ ")[2]) == (
        "SKIPS", "not comparable: x ← Input:X given as text, not as a file",
    )  # fmt: skip


def test_a_plan_of_the_time_when_a_text_was_recorded_as_a_file_is_computed_again_as_it_was(project: Make) -> None:
    lab = project(ONE.replace("T: {type: text}", "T: {type: string}"), FILES)
    lab.succeed()  # what was recorded of a text then is what is recorded of a file now
    assert "opened" not in json.loads(snapshot_blob(lab.snapshot())), "there is no text"
    retyped(lab)
    written = json.loads(snapshot_blob(lab.snapshot()))
    assert written.pop("opened") is True
    then = replay_snapshot(canonical_json(written), lab.opened().history())
    assert codes(compute_execution_plan(then, PlanOptions())) == {}
    now = replay_snapshot(snapshot_blob(lab.snapshot()), lab.opened().history())
    assert codes(compute_execution_plan(now, PlanOptions())) == {"Job:F": ["INPUT_CHANGED"]}


def test_a_snapshot_says_that_texts_are_opened_only_where_they_may_be(project: Make) -> None:
    flow = """
        workflow: w
        inputs: {X: {type: %s, default: in.txt}}
        jobs:
          F: {uses: %s, with: {%s: "%s", x: "${{ inputs.X }}"}, outputs: {T: {type: %s}}}
    """
    files = {**FILES, "s.py": "pass"}
    ways = {
        "call": ("python", "call", "m:tell"),
        "script": ("python", "script", "s.py"),
        "shell": ("shell", "run", "x"),
    }
    said = {
        (way, given, made): json.loads(snapshot_blob(project(flow % (given, *ways[way], made), files).snapshot()))
        for way in ways
        for given in ("file", "text")
        for made in ("file", "text")
    }
    assert [case for case, blob in said.items() if blob.get("opened", False)] == [
        ("call", "file", "text"), ("call", "text", "file"), ("call", "text", "text"),
    ]  # fmt: skip
