"""Issue 20: loops over results in plans. A loop is known as long as its source is the recorded one, else it is open."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab, codes, reasons
from whyrun.errors import WhyrunError
from whyrun.ids import OPEN, format_index, parse_id
from whyrun.planning.answers.explain import render_explain
from whyrun.planning.answers.why import LoopSource
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob

Make = Callable[..., Lab]

TEXT = """\
workflow: w
inputs:
  N: {type: integer, default: 2}
  A: {type: integer, default: 7}
  Names: {type: json, default: [x, y]}
loops:
  segment: {count: jobs.Script.outputs.Story.Count, max: 5}
  topic: {values: jobs.Script.outputs.Story.Topics}
jobs:
  Script:
    uses: python
    with: {call: "s:script", n: "${{ inputs.N }}", names: "${{ inputs.Names }}"}
    outputs: {Story: {type: json, leaves: {Count: integer, Topics: json}}}
  Clip:
    for: [segment]
    uses: python
    with: {call: "s:clip", i: "${{ segment }}", before: "${{ first(jobs.Clip.outputs.Frame[segment-1], inputs.A) }}"}
    outputs: {Frame: {type: json, path: "out/f-${{ segment }}.json"}}
  Note:
    for: [topic]
    uses: python
    with: {call: "s:note", name: "${{ topic }}"}
    outputs: {Note: {type: json}}
  Film:
    uses: python
    with: {call: "s:film", frames: "${{ jobs.Clip.outputs.Frame[:] }}"}
    outputs: {Film: {type: json, path: out/film.json}}
"""
CODE = """\
def script(n, names): return {"Story": {"Count": n, "Topics": names, "Text": "once"}}
def clip(i, before): return {"Frame": i}
def note(name): return {"Note": name}
def film(frames): return {"Film": len(frames)}
"""


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(TEXT, {"s.py": CODE})


def states(plan: Plan) -> dict[str, str]:
    return {job.id: job.state for job in plan.jobs}


def test_before_the_first_run_each_job_of_the_loop_is_one_open_entry(lab: Lab) -> None:
    plan = lab.plan()
    assert states(plan) == {
        "Job:Script": "planned", "Job:Clip[?]": "open", "Job:Note[?]": "open", "Job:Film": "planned",
    }  # fmt: skip
    assert reasons(plan)["Job:Clip[?]"] == [{"code": "UPSTREAM_DIRTY", "job": "Job:Script"}]
    assert codes(plan)["Job:Film"] == ["MISSING_OUTPUT", "UPSTREAM_DIRTY"]
    assert {job.id: job.bindings for job in plan.jobs}["Job:Film"] == {"frames": {"open": "Artifact:Clip.Frame[?]"}}
    assert plan.totals == {
        "jobs": 4, "planned": 2, "reused": 0, "clean": 0, "deferred": 0, "inactive": 0, "open": 2,
    }  # fmt: skip
    assert render_explain(plan).splitlines() == [
        "w before its first run: 2 of 4 jobs to run, 2 open until their loops are known",
        "layer 0",
        "  Job:Script    MISSING_OUTPUT  Artifact:Script.Story",
        "                MISSING_OUTPUT  Artifact:Script.Story.Count",
        "                MISSING_OUTPUT  Artifact:Script.Story.Topics",
        "layer 2",
        "  Job:Film      MISSING_OUTPUT  Artifact:Film.Film",
        "                UPSTREAM_DIRTY  Job:Clip[?]",
        "open",
        "  Job:Clip[?]   UPSTREAM_DIRTY  Job:Script",
        "  Job:Note[?]   UPSTREAM_DIRTY  Job:Script",
    ]


def test_once_the_source_is_made_the_instances_are_planned_like_all_others(lab: Lab) -> None:
    lab.succeed(targets=["Job:Script"])
    plan = lab.plan()
    assert codes(plan) == {
        "Job:Clip[0]": ["MISSING_OUTPUT"],
        "Job:Note[x]": ["MISSING_OUTPUT"],
        "Job:Note[y]": ["MISSING_OUTPUT"],
        "Job:Clip[1]": ["MISSING_OUTPUT", "UPSTREAM_DIRTY"],
        "Job:Film": ["MISSING_OUTPUT", "UPSTREAM_DIRTY", "UPSTREAM_DIRTY"],
    }
    assert plan.totals["open"] == 0
    assert {job.id: job.bindings for job in plan.jobs}["Job:Film"] == {
        "frames": ["Artifact:Clip.Frame[0]", "Artifact:Clip.Frame[1]"]
    }
    ran = lab.succeed()
    assert ran.executed == ["Job:Clip[0]", "Job:Clip[1]", "Job:Film", "Job:Note[x]", "Job:Note[y]"]
    assert lab.content("Artifact:Film.Film") == 2
    plan = lab.plan()
    assert (plan.jobs, plan.totals["clean"], plan.totals["jobs"]) == ((), 6, 6)


def test_while_the_source_is_dirty_its_last_instances_do_not_count(lab: Lab) -> None:
    lab.succeed(targets=["Job:Script"])
    lab.succeed()
    for plan in (lab.plan(sets=["N=3"]), lab.plan(force=["Job:Script"])):
        assert states(plan) == {
            "Job:Script": "planned", "Job:Clip[?]": "open", "Job:Note[?]": "open", "Job:Film": "planned",
        }  # fmt: skip
        assert codes(plan)["Job:Film"] == ["UPSTREAM_DIRTY"]
        assert plan.totals["jobs"] == 4


def test_each_element_has_its_own_instance(lab: Lab) -> None:
    lab.succeed(targets=["Job:Script"])
    lab.succeed()
    for sets, expected in (
        (["N=3"], {"Job:Clip[2]": ["MISSING_OUTPUT"], "Job:Film": ["UPSTREAM_DIRTY"]}),
        (["N=1"], {"Job:Film": ["INPUT_CHANGED"]}),
        (["N=0"], {"Job:Film": ["INPUT_CHANGED", "INPUT_CHANGED"]}),
        (["N=2", "Names=[y, x]"], {}),
        (["N=2", "Names=[y, z, x]"], {"Job:Note[z]": ["MISSING_OUTPUT"]}),
    ):
        lab.succeed(targets=["Job:Script"], sets=sets)
        assert codes(lab.plan(sets=sets)) == expected, sets
    assert lab.succeed(sets=["N=0", "Names=[y, z, x]"], targets=["Job:Script"]).executed == ["Job:Script"]
    assert lab.succeed(sets=["N=0", "Names=[y, z, x]"]).executed == ["Job:Film", "Job:Note[z]"]
    assert lab.content("Artifact:Film.Film") == 0


def test_a_list_beyond_max_is_refused_while_planning(lab: Lab) -> None:
    lab.succeed(targets=["Job:Script"], sets=["N=6"])
    with pytest.raises(WhyrunError) as refused:
        lab.plan(sets=["N=6"])
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.line, problem.hint) == (
        "LOOP_TOO_LONG",
        7,
        "raise it: `max: 6`; or make the result again: `whyrun run --target Job:Script --force Job:Script`",
    )
    assert problem.message == ("loop `segment` would have 6 values, and its `max` is 5 (Artifact:Script.Story.Count)")
    assert states(lab.plan(sets=["N=5"]))["Job:Clip[?]"] == "open"  # another list will be made


def test_controls_know_the_open_entry(lab: Lab) -> None:
    assert states(lab.plan(targets=["Job:Clip[3]"])) == {
        "Job:Script": "planned", "Job:Clip[?]": "open", "Job:Note[?]": "deferred", "Job:Film": "deferred",
    }  # fmt: skip
    assert states(lab.plan(up=1)) == {
        "Job:Script": "planned", "Job:Clip[?]": "deferred", "Job:Note[?]": "deferred", "Job:Film": "deferred",
    }  # fmt: skip
    assert states(lab.plan(up=2))["Job:Clip[?]"] == "open"
    assert reasons(lab.plan(force=["Job:Clip[*]"]))["Job:Clip[?]"] == [
        {"code": "UPSTREAM_DIRTY", "job": "Job:Script"},
        {"code": "FORCED", "by": "Job:Clip[*]"},
    ]
    lab.succeed(targets=["Job:Script"])
    for text in ("Job:Clip[7]", "Job:Clip[?]"):
        with pytest.raises(WhyrunError, match=r"does not exist: `Artifact:Script.Story.Count` is 2"):
            lab.plan(targets=[text])


def test_a_recorded_plan_is_computed_again(lab: Lab) -> None:
    for sets in ((), ("N=4",)):
        snapshot = lab.snapshot(sets)
        again = replay_snapshot(snapshot_blob(snapshot), lab.opened(sets).history())
        assert compute_execution_plan(again, PlanOptions()).to_bytes() == lab.plan(sets=sets).to_bytes()
        lab.succeed(targets=["Job:Script"], sets=sets)


MISTAKES = [
    ("segment: {count: jobs.Script.outputs.Story}", "WRONG_TYPE",
     "`count` of loop `segment` is a result of type `json`", "it goes over an integer output or leaf"),
    ("segment: {values: jobs.Script.outputs.Story}", "WRONG_TYPE",
     "the source of loop `segment` is a whole JSON output, whose value is not recorded",
     "declare it as `string[]`, or the list as a leaf of type `json`"),
    ("segment: {each: jobs.Script.outputs.Story}", "WRONG_TYPE",
     "`each` of loop `segment` is a result of type `json`",
     "it goes over an array; `count` over an integer, `values` over texts and numbers"),
    ("segment: {range: jobs.Script.outputs.Story.Count}", "WRONG_TYPE",
     "`range` of loop `segment` cannot be a result of a job",
     "`each:` goes over an array that a job makes, `count:` over an integer, `values:` over a list"),
    ('segment: {count: "${{ jobs.Script.outputs.Story.Count }}"}', "EXPRESSION_FORBIDDEN",
     "the source of loop `segment` cannot contain `${{ }}`", "write `jobs.Script.outputs.Story.Count`"),
    ("segment: {count: jobs.Script.outputs.Story.Cont}", "UNKNOWN_REFERENCE",
     "output `Story` has no declared leaf `Cont`", "did you mean `Count`?"),
    ("segment: {count: jobs.Script.outputs.Story.Count, max: 0}", "WRONG_TYPE",
     "`max` of loop `segment` is not a whole number from 1 to 5000000", "write `max: 200`"),
    ("segment: {count: 3, max: 5}", "WRONG_TYPE", "`max` of loop `segment` has no effect: its length is known",
     "`max` is for loops over results"),
]  # fmt: skip


@pytest.mark.parametrize(("loop", "code", "message", "hint"), MISTAKES)
def test_mistakes_in_the_source(project: Make, loop: str, code: str, message: str, hint: str) -> None:
    old = "segment: {count: jobs.Script.outputs.Story.Count, max: 5}"
    problem, *more = project(TEXT.replace(old, loop), {"s.py": CODE}).opened().problems
    assert (problem.code, problem.message, problem.hint, more) == (code, message, hint, [])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "for: [topic]", "for: [segment, topic]",
            "`topic` and `segment` are loops over results, and neither depends on the other",
        ),
        (
            "frames: \"${{ jobs.Clip.outputs.Frame[:] }}\"", "frames: \"${{ jobs.Clip.outputs.Frame[0] }}\"",
            "`[0]` picks one of `Clip`, and the values of `segment` are known only in a run",
        ),
        (
            "leaves: {Count: integer, Topics: json}", "leaves: {Count: integer, Topics: json, \"S[segment].T\": json}",
            "a leaf of output `Story` goes over `segment`, whose values are known only in a run",
        ),
        (
            "for: [topic]\n", "for: [topic]\n    exclude: [{topic: x}]\n",
            "`exclude` of job `Note` cannot name combinations: the values of `topic` are known only in a run",
        ),
        (
            "  N: {type", "  M: {type: file, for: [segment], path: \"${{ segment }}.txt\"}\n  N: {type",
            "input `M`: the values of `segment` are known only once a job has made them",
        ),
    ],
)  # fmt: skip
def test_what_needs_known_values_is_refused(project: Make, old: str, new: str, message: str) -> None:
    assert TEXT.count(old) == 1
    problems = project(TEXT.replace(old, new), {"s.py": CODE}).opened().problems
    assert [(problem.code, problem.message) for problem in problems] == [("LOOP_MISMATCH", message)]


def test_a_loop_over_a_result_of_its_own_jobs_is_a_cycle(project: Make) -> None:
    problems = project(TEXT.replace("  Script:\n", "  Script:\n    needs: [Clip]\n"), {"s.py": CODE}).opened().problems
    assert [problem.code for problem in problems] == ["CYCLE"]


def test_the_open_index_is_a_token_of_its_own() -> None:
    parsed = parse_id("Job:Map[asia][?]")
    assert parsed.segments[0].indices == ("asia", OPEN)
    assert str(parsed) == "Job:Map[asia][?]"
    assert (format_index("?"), parse_id('Job:Clip["?"]').segments[0].indices) == ('"?"', ("?",))
    assert len({OPEN, "?"}) == 2


NESTED = """\
workflow: w
inputs: {Sizes: {type: json, default: [2, 0, 1]}}
loops:
  part: {count: jobs.Split.outputs.Doc.Count}
  piece: {count: "jobs.Cut.outputs.Pieces[part]"}
  tone: {values: [low, high]}
jobs:
  Split:
    uses: python
    with: {call: "n:split", sizes: "${{ inputs.Sizes }}"}
    outputs: {Doc: {type: json, leaves: {Count: integer, Sizes: json}}}
  Cut:
    for: [part]
    uses: python
    with: {call: "n:cut", sizes: "${{ jobs.Split.outputs.Doc.Sizes }}", part: "${{ part }}"}
    outputs: {Pieces: {type: integer}}
  Map:
    for: [part, piece, tone]
    uses: python
    with: {call: "n:map", name: "${{ part }}-${{ piece }}-${{ tone }}"}
    outputs: {Got: {type: json}}
  Merge:
    for: [part]
    uses: python
    with: {call: "n:merge", all: "${{ jobs.Map.outputs.Got[part, :, :] }}"}
    outputs: {All: {type: json}}
"""
NESTED_CODE = """\
def split(sizes): return {"Doc": {"Count": len(sizes), "Sizes": sizes}}
def cut(sizes, part): return {"Pieces": sizes[part]}
def map(name): return {"Got": name}
def merge(all): return {"All": len(all)}
"""


def test_a_loop_in_a_loop_has_an_open_entry_for_each_known_outer_index(project: Make) -> None:
    lab = project(NESTED, {"n.py": NESTED_CODE})
    assert states(lab.plan()) == {
        "Job:Split": "planned", "Job:Cut[?]": "open", "Job:Map[?][?][low]": "open", "Job:Map[?][?][high]": "open",
        "Job:Merge[?]": "open",
    }  # fmt: skip
    lab.succeed(targets=["Job:Split"])
    plan = lab.plan()
    assert [id_ for id_, state in states(plan).items() if state == "open"] == [
        f"Job:Map[{part}][?][{tone}]" for part in range(3) for tone in ("low", "high")
    ]
    assert states(plan)["Job:Merge[1]"] == "planned"
    assert {job.id: job.bindings for job in plan.jobs}["Job:Merge[2]"] == {
        "all": {"open": ["Artifact:Map.Got[2][?][low]", "Artifact:Map.Got[2][?][high]"]}
    }
    lab.succeed(targets=["Job:Cut[*]"])
    ran = lab.succeed()
    assert ran.executed == [
        "Job:Map[0][0][high]", "Job:Map[0][0][low]", "Job:Map[0][1][high]", "Job:Map[0][1][low]",
        "Job:Map[2][0][high]", "Job:Map[2][0][low]", "Job:Merge[0]", "Job:Merge[1]", "Job:Merge[2]",
    ]  # fmt: skip
    assert [lab.content(f"Artifact:Merge.All[{part}]") for part in range(3)] == [4, 0, 2]
    assert lab.plan().jobs == ()
    again = lab.plan(force=["Job:Cut[2]"])
    assert states(again) == {
        "Job:Cut[2]": "planned", "Job:Map[2][?][low]": "open", "Job:Map[2][?][high]": "open", "Job:Merge[2]": "planned",
    }  # fmt: skip
    assert states(lab.plan(force=["Job:Split"]))["Job:Map[?][?][low]"] == "open"


ARRAYS = """\
workflow: w
inputs: {Text: {type: string, default: "a b"}}
loops:
  part: {each: jobs.Split.outputs.Parts}
  word: {values: jobs.Split.outputs.Words}
jobs:
  Split:
    uses: python
    with: {call: "a:split", text: "${{ inputs.Text }}"}
    outputs: {Parts: {type: "json[]"}, Words: {type: "string[]"}}
  Map:
    for: [part]
    uses: python
    with: {call: "a:map", part: "${{ jobs.Split.outputs.Parts[part] }}", name: "${{ part }}"}
    outputs: {Got: {type: json}}
  Say:
    for: [word]
    uses: python
    with: {call: "a:say", word: "${{ word }}"}
    outputs: {Got: {type: json}}
  Merge:
    uses: python
    with: {call: "a:merge", all: "${{ named(jobs.Map.outputs.Got[:]) }}"}
    outputs: {All: {type: json}}
"""
ARRAYS_CODE = """\
def split(text):
    return {"Parts": {word: {"letters": len(word)} for word in text.split()}, "Words": text.split()}
def map(part, name): return {"Got": [name, part]}
def say(word): return {"Got": word}
def merge(all): return {"All": all}
"""


def test_the_elements_of_an_array_are_the_indices(project: Make) -> None:
    lab = project(ARRAYS, {"a.py": ARRAYS_CODE})
    assert states(lab.plan()) == {
        "Job:Split": "planned", "Job:Map[?]": "open", "Job:Say[?]": "open", "Job:Merge": "planned",
    }  # fmt: skip
    lab.succeed(targets=["Job:Split"])
    bindings = {job.id: job.bindings for job in lab.plan().planned}
    assert bindings["Job:Map[b]"] == {"part": "Artifact:Split.Parts[b]"}
    assert lab.succeed().executed == ["Job:Map[a]", "Job:Map[b]", "Job:Merge", "Job:Say[a]", "Job:Say[b]"]
    made = lab.content("Artifact:Merge.All")
    # An element between the others makes its own instances and the fan-in, and leaves the others alone.
    sets = ["Text=a cc b"]
    assert states(lab.plan(sets=sets))["Job:Map[?]"] == "open"
    lab.succeed(targets=["Job:Split"], sets=sets)
    assert codes(lab.plan(sets=sets)) == {
        "Job:Map[cc]": ["MISSING_OUTPUT"], "Job:Say[cc]": ["MISSING_OUTPUT"], "Job:Merge": ["UPSTREAM_DIRTY"],
    }  # fmt: skip
    assert lab.succeed(sets=sets).executed == ["Job:Map[cc]", "Job:Merge", "Job:Say[cc]"]
    assert list(made) == ["a", "b"]
    assert list(lab.content("Artifact:Merge.All")) == ["a", "b", "cc"]  # JSON is stored with sorted keys


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("Story: {type: json, leaves: {Count: integer", "Story: {type: jsn, leaves: {Count: integer", ["WRONG_TYPE"]),
        (
            "Story: {type: json, leaves: {Count: integer",
            "Tale: {type: json, leaves: {Count: integer",
            ["UNKNOWN_REFERENCE"] * 2,
        ),
        ("leaves: {Count: integer", "leaves: {Number: integer", ["UNKNOWN_REFERENCE"]),
        ("leaves: {Count: integer", "leaves: {Count: integr", ["WRONG_TYPE"]),
        ("  Script:\n", "  Scrpt:\n", ["UNKNOWN_REFERENCE"] * 2),
        ('    with: {call: "s:script"', '    for: [nothing]\n    with: {call: "s:script"', ["UNKNOWN_LOOP"]),
        ("type: json, leaves: {Count: integer, Topics: json}", 'type: "file[]"', ["UNKNOWN_REFERENCE"] * 2),
    ],
)
def test_a_broken_source_of_a_loop_is_told_with_the_other_problems(
    lab: Lab, old: str, new: str, found: list[str]
) -> None:
    lab.edit("workflow.yaml", old, new)
    assert [problem.code for problem in lab.opened().problems] == found


def test_constants_of_known_instances_beside_an_open_entry(project: Make) -> None:
    """The entry `[?]` has no values, and may come first."""
    lab = project(NESTED, {"n.py": NESTED_CODE})
    for targets in (["Job:Split"], ["Job:Cut[*]"], []):
        lab.succeed(targets=targets)
    plan = lab.plan(force=["Job:Cut[0]"])
    assert states(plan) == {
        "Job:Cut[0]": "planned", "Job:Map[0][?][low]": "open", "Job:Map[0][?][high]": "open", "Job:Merge[0]": "planned",
    }  # fmt: skip


def test_one_element_is_one() -> None:
    one = LoopSource("Artifact:Split.Parts", ["a"], "r0001")
    assert str(one) == "Artifact:Split.Parts has 1 element, made in r0001"
