"""Instance i gets element i: in the plan, in the step config, in the record, and in the call of the action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from project_lab import ECHO, Lab, Ran
from whyrun.errors import InvalidError
from whyrun.log import events as ev

Make = Callable[..., Lab]


def bound(ran: Ran) -> dict[str, dict[str, Any]]:
    """Job → its bindings. The plan, the record of the start and the cfg must say the same; the common answer."""
    planned = {job["id"]: job["bindings"] for job in ran.plan.to_json()["jobs"]}
    for start in ran.of(ev.StepStart):
        named = planned[start.step_id]
        recorded = {
            name: [member["id"] for member in members]
            for name, members in start.bindings.items()
            if name in named
        }  # fmt: skip
        assert recorded == {name: ids if isinstance(ids, list) else [ids] for name, ids in named.items()}
        cfg = ran.cfg(start.step_id.removeprefix("Job:"))
        in_cfg = {
            name: [s["id"] for s in spec] if isinstance(spec, list) else spec["id"]
            for name, spec in cfg["inputs"].items()
        }
        assert in_cfg == named
        hashes = {m["id"]: m["sha256"] for members in start.bindings.values() for m in members}
        for spec in cfg["inputs"].values():
            for one in spec if isinstance(spec, list) else [spec]:
                assert one["sha256"] == hashes[one["id"]]
    return planned


def got(lab: Lab, job: str) -> dict[str, Any]:
    name, _, indices = job.partition("[")
    found = lab.content(f"Artifact:{name}.Got" + (f"[{indices}" if indices else ""))
    assert isinstance(found, dict)
    return found


def test_one_loop(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs:
          ThenImages: {type: "file[]", default: "photos/*.txt"}
        loops: {character: {each: inputs.ThenImages}}
        jobs:
          ThenImage:
            for: [character]
            uses: python
            with: {call: "echo:received", SourceImages: ["${{ inputs.ThenImages[character] }}"], me: "${{ character }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO, "photos/a.txt": "A", "photos/b.txt": "B", "photos/c.txt": "C"},
    )
    ran = lab.succeed()
    assert bound(ran) == {
        "Job:ThenImage[0]": {"SourceImages[0]": "Input:ThenImages[0]"},
        "Job:ThenImage[1]": {"SourceImages[0]": "Input:ThenImages[1]"},
        "Job:ThenImage[2]": {"SourceImages[0]": "Input:ThenImages[2]"},
    }
    assert [got(lab, f"ThenImage[{i}]") for i in range(3)] == [
        {"SourceImages": ["file:A"], "me": 0},
        {"SourceImages": ["file:B"], "me": 1},
        {"SourceImages": ["file:C"], "me": 2},
    ]


def test_two_and_three_loops(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs:
          X: {type: "file[]", default: "x/*.txt"}
          Y: {type: "string[]", default: [p, q]}
          Z: {type: "integer[]", default: [7, 8]}
        loops:
          x: {each: inputs.X}
          y: {each: inputs.Y}
          z: {count: 2}
        jobs:
          Pair:
            for: [y, x]
            uses: python
            with: {call: "echo:received", file: "${{ inputs.X[x] }}", word: "${{ inputs.Y[y] }}"}
            outputs: {Got: {type: json}}
          Triple:
            for: [x, y, z]
            uses: python
            with:
              call: "echo:received"
              pair: ${{ jobs.Pair.outputs.Got[y, x] }}
              all: ["${{ inputs.Z[z] }}", "${{ inputs.Y[y] }}", "${{ inputs.X[x] }}"]
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO, "x/0.txt": "X0", "x/1.txt": "X1"},
    )
    ran = lab.succeed()
    pairs = {f"Job:Pair[{y}][{x}]": {"file": f"Input:X[{x}]", "word": f"Input:Y[{y}]"} for y in (0, 1) for x in (0, 1)}
    triples = {
        f"Job:Triple[{x}][{y}][{z}]": {
            "pair": f"Artifact:Pair.Got[{y}][{x}]",
            "all[0]": f"Input:Z[{z}]",
            "all[1]": f"Input:Y[{y}]",
            "all[2]": f"Input:X[{x}]",
        }
        for x in (0, 1) for y in (0, 1) for z in (0, 1)
    }  # fmt: skip
    assert bound(ran) == {**pairs, **triples}
    for x in (0, 1):
        for y in (0, 1):
            pair = {"file": f"file:X{x}", "word": "pq"[y]}
            assert got(lab, f"Pair[{y}][{x}]") == pair
            for z in (0, 1):
                assert got(lab, f"Triple[{x}][{y}][{z}]") == {"pair": pair, "all": [7 + z, "pq"[y], f"file:X{x}"]}


def test_arrays_of_arrays(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs:
          Grid:  {type: "string[][]", default: [[a, b], [c, d]]}
          Files: {type: "file[][]", default: [[f/0.txt, f/1.txt], [f/2.txt, f/3.txt]]}
        loops:
          row: {each: inputs.Grid}
          col: {count: 2}
        jobs:
          Cell:
            for: [row, col]
            uses: python
            with: {call: "echo:received", word: "${{ inputs.Grid[row][col] }}", file: "${{ inputs.Files[row][col] }}"}
            outputs: {Got: {type: json}}
          Row:
            for: [row]
            uses: python
            with: {call: "echo:received", words: "${{ inputs.Grid[row] }}", last: "${{ inputs.Grid[row][1] }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO, **{f"f/{i}.txt": f"F{i}" for i in range(4)}},
    )
    ran = lab.succeed()
    cells = {
        f"Job:Cell[{r}][{c}]": {"word": f"Input:Grid[{r}][{c}]", "file": f"Input:Files[{r}][{c}]"}
        for r in (0, 1) for c in (0, 1)
    }  # fmt: skip
    rows = {f"Job:Row[{r}]": {"words": f"Input:Grid[{r}]", "last": f"Input:Grid[{r}][1]"} for r in (0, 1)}
    assert bound(ran) == {**cells, **rows}
    assert [got(lab, f"Cell[{r}][{c}]") for r in (0, 1) for c in (0, 1)] == [
        {"word": "a", "file": "file:F0"},
        {"word": "b", "file": "file:F1"},
        {"word": "c", "file": "file:F2"},
        {"word": "d", "file": "file:F3"},
    ]
    assert [got(lab, f"Row[{r}]") for r in (0, 1)] == [
        {"words": ["a", "b"], "last": "b"},
        {"words": ["c", "d"], "last": "d"},
    ]
    # one element of one row
    lab.edit("workflow.yaml", "[c, d]", "[C, d]")
    assert lab.plan().headlines() == {"Job:Cell[1][0]": "INPUT_CHANGED", "Job:Row[1]": "INPUT_CHANGED"}


COUNTED = """
    workflow: w
    inputs:
      Photos: {type: "file[]", default: "p/*.txt"}
      Segments: {type: integer, default: 2}
    loops: {segment: {count: inputs.Segments}}
    jobs:
      Clip:
        for: [segment]
        uses: python
        with: {call: "echo:received", photo: "${{ inputs.Photos[segment] }}"}
        outputs: {Got: {type: json}}
"""


def test_a_count_loop_over_an_array(project: Make) -> None:
    lab = project(COUNTED, {"echo.py": ECHO, "p/a.txt": "A", "p/b.txt": "B", "p/c.txt": "C"})
    ran = lab.succeed()
    assert bound(ran) == {"Job:Clip[0]": {"photo": "Input:Photos[0]"}, "Job:Clip[1]": {"photo": "Input:Photos[1]"}}
    assert [got(lab, f"Clip[{i}]") for i in (0, 1)] == [{"photo": "file:A"}, {"photo": "file:B"}]
    with pytest.raises(InvalidError) as refused:
        lab.run(sets=["Segments=4"])
    assert [(d.code, d.line) for d in refused.value.diagnostics] == [("INDEX_OUT_OF_RANGE", 11)]
    assert "Photos[3]" in refused.value.diagnostics[0].message
    assert lab.runs() == ["r0001"]


def test_a_list_that_mixes_artifacts_inputs_and_values(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs:
          Photos: {type: "file[]", default: "p/*.txt"}
          Topic: {type: string, default: cinema}
        loops: {i: {each: inputs.Photos}}
        jobs:
          Made:
            for: [i]
            uses: shell
            with: {n: "${{ i }}", run: 'printf "made $n" > "$out_File"'}
            outputs: {File: {type: text}}
          Mix:
            for: [i]
            uses: python
            with:
              call: "echo:received"
              Refs:
                - ${{ jobs.Made.outputs.File[i] }}
                - ${{ inputs.Photos[i] }}
                - plain
                - about ${{ inputs.Topic }}
                - {deep: ["${{ inputs.Photos[0] }}"]}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO, "p/a.txt": "A", "p/b.txt": "B"},
    )
    ran = lab.succeed()
    found = bound(ran)
    assert [found[f"Job:Mix[{i}]"] for i in (0, 1)] == [
        {"Refs[0]": f"Artifact:Made.File[{i}]", "Refs[1]": f"Input:Photos[{i}]", "Refs[4].deep[0]": "Input:Photos[0]"}
        for i in (0, 1)
    ]
    assert [got(lab, f"Mix[{i}]")["Refs"] for i in (0, 1)] == [
        ["file:made 0", "file:A", "plain", "about cinema", {"deep": ["file:A"]}],
        ["file:made 1", "file:B", "plain", "about cinema", {"deep": ["file:A"]}],
    ]


def test_a_whole_array_without_an_index_is_one_value(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs:
          Photos: {type: "file[]", default: "p/*.txt"}
          Words: {type: "string[]", default: [x, y]}
        jobs:
          All:
            uses: python
            with: {call: "echo:received", photos: "${{ inputs.Photos }}", words: "${{ inputs.Words }}"}
            outputs: {Got: {type: json}}
          Every:
            uses: python
            with: {call: "echo:received", photos: "${{ inputs.Photos[:] }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO, "p/a.txt": "A", "p/b.txt": "B"},
    )
    ran = lab.succeed()
    planned = {job["id"]: job["bindings"] for job in ran.plan.to_json()["jobs"]}
    assert planned == {
        "Job:All": {"photos": "Input:Photos", "words": "Input:Words"},
        "Job:Every": {"photos": ["Input:Photos[0]", "Input:Photos[1]"]},
    }
    assert got(lab, "All") == {"photos": ["file:A", "file:B"], "words": ["x", "y"]}
    assert got(lab, "Every") == {"photos": ["file:A", "file:B"]}
    lab.write({"p/b.txt": "changed"})
    assert [(r.code, r.binding, r.source) for job in lab.plan().planned for r in job.reasons] == [  # type: ignore[union-attr]
        ("INPUT_CHANGED", "photos", "Input:Photos"),
        ("INPUT_CHANGED", "photos", "Input:Photos[1]"),
    ]


READ_PATHS = """
    workflow: w
    inputs:
      Names: {type: "string[]", default: [ann, bob, cy]}
      On:    {type: "boolean[]", default: [true, false, true]}
    loops: {i: {each: inputs.Names}}
    jobs:
      Make:
        for: [i]
        uses: python
        with: {call: "echo:make", name: "${{ inputs.Names[i] }}"}
        outputs:
          Size: {type: integer}
          Note: {type: text}
      UseWith:
        for: [i]
        uses: python
        with: {call: "echo:received", a: "${{ inputs.Names[i] }}", b: "${{ jobs.Make.outputs.Note[i] }}"}
        outputs: {Got: {type: json}}
      UseIf:
        for: [i]
        if: ${{ inputs.On[i] and jobs.Make.outputs.Size[i] > 2 }}
        uses: python
        with: {call: "echo:received", me: "${{ inputs.Names[i] }}"}
        outputs: {Got: {type: json}}
      UseFirst:
        for: [i]
        uses: python
        with:
          call: "echo:received"
          before: ${{ first(jobs.Make.outputs.Note[i-1], jobs.Make.outputs.Note[i]) }}
          skip: ${{ first(jobs.UseIf.outputs.Got[i], inputs.Names[i]) }}
        outputs: {Got: {type: json}}
      UseFanIn:
        uses: python
        with:
          call: "echo:received"
          notes: ${{ jobs.Make.outputs.Note[:] }}
          used: ${{ jobs.UseIf.outputs.Got[:] }}
        outputs: {Got: {type: json}}
      UseText:
        for: [i]
        uses: python
        with: {call: "echo:received", line: "${{ inputs.Names[i] }} has ${{ jobs.Make.outputs.Size[i] }}"}
        outputs: {Got: {type: json}}
      UseList:
        for: [i]
        uses: python
        with: {call: "echo:received", both: ["${{ jobs.Make.outputs.Size[i] }}", "${{ inputs.Names[i] }}"]}
        outputs: {Got: {type: json}}
"""

ECHO_MAKE = (
    ECHO
    + """

def make(name):
    return {"Size": len(name), "Note": "note of " + name}
"""
)


def test_each_read_path_gets_its_own_element(project: Make) -> None:
    lab = project(READ_PATHS, {"echo.py": ECHO_MAKE})
    ran = lab.succeed()
    names = ["ann", "bob", "cy"]
    assert [got(lab, f"UseWith[{i}]") for i in range(3)] == [{"a": n, "b": f"file:note of {n}"} for n in names]
    # bob is off, cy is too short
    assert ran.inactive == {"Job:UseIf[1]": "condition_false", "Job:UseIf[2]": "condition_false"}
    assert got(lab, "UseIf[0]") == {"me": "ann"}
    assert {e.step_id: (e.inputs, e.result) for e in ran.of(ev.ConditionEvaluated)} == {
        "Job:UseIf[0]": ({"Input:On[0]": True, "Artifact:Make.Size[0]": 3}, True),
        "Job:UseIf[1]": ({"Input:On[1]": False, "Artifact:Make.Size[1]": 3}, False),
        "Job:UseIf[2]": ({"Input:On[2]": True, "Artifact:Make.Size[2]": 2}, False),
    }
    assert [got(lab, f"UseFirst[{i}]") for i in range(3)] == [
        {"before": "file:note of ann", "skip": {"me": "ann"}},
        {"before": "file:note of ann", "skip": "bob"},
        {"before": "file:note of bob", "skip": "cy"},
    ]
    assert got(lab, "UseFanIn") == {"notes": [f"file:note of {n}" for n in names], "used": [{"me": "ann"}]}
    assert [got(lab, f"UseText[{i}]") for i in range(3)] == [{"line": f"{n} has {len(n)}"} for n in names]
    assert [got(lab, f"UseList[{i}]") for i in range(3)] == [{"both": [len(n), n]} for n in names]
    planned = {job["id"]: job["bindings"] for job in ran.plan.to_json()["jobs"]}
    assert planned["Job:UseFirst[1]"] == {
        "before": "Artifact:Make.Note[0]",
        "skip": {"first": ["Artifact:UseIf.Got[1]", "Input:Names[1]"]},
    }
    assert planned["Job:UseFirst[0]"]["before"] == "Artifact:Make.Note[0]"
    assert planned["Job:UseList[2]"] == {"both[0]": "Artifact:Make.Size[2]", "both[1]": "Input:Names[2]"}
    assert planned["Job:UseText[2]"] == {}
    assert lab.plan().headlines() == {}


def test_changing_one_element_replans_one_instance_on_each_read_path(project: Make) -> None:
    lab = project(READ_PATHS, {"echo.py": ECHO_MAKE})
    lab.succeed()
    lab.edit("workflow.yaml", "[ann, bob, cy]", "[ann, bob, di]")
    plan = lab.plan()
    assert plan.headlines() == {
        "Job:Make[2]": "INPUT_CHANGED",
        "Job:UseWith[2]": "INPUT_CHANGED",
        "Job:UseFirst[2]": "UPSTREAM_DIRTY",  # whether it takes the changed name depends on UseIf[2]
        "Job:UseText[2]": "UPSTREAM_DIRTY",
        "Job:UseList[2]": "INPUT_CHANGED",
        "Job:UseIf[2]": "MISSING_OUTPUT",
        "Job:UseFanIn": "UPSTREAM_DIRTY",
    }
    ran = lab.succeed()
    assert ran.executed == [
        "Job:Make[2]", "Job:UseFanIn", "Job:UseFirst[2]", "Job:UseList[2]", "Job:UseText[2]", "Job:UseWith[2]",
    ]  # fmt: skip
    assert ran.inactive == {"Job:UseIf[2]": "condition_false"}
    assert got(lab, "UseText[2]") == {"line": "di has 2"}


JUST = """
    workflow: w
    inputs:
      Photos: {type: "file[]", default: "p/*.txt"}
      Words:  {type: "string[]", default: [one, two]}
      Topic:  {type: string, default: cinema}
      Maybe:  {type: "string[]", required: false}
    loops: {i: {each: inputs.Photos}}
    jobs:
      A:
        for: [i]
        uses: python
        with: {call: "echo:received", x: "X"}
        outputs: {Got: {type: json}}
      B:
        uses: python
        with: {call: "echo:received", x: "Y"}
        outputs: {Got: {type: json}}
"""


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ("inputs.Topic[0]", "INDEX_PARENT_NOT_ARRAY"),
        ("inputs.Words[2]", "INDEX_OUT_OF_RANGE"),
        ("inputs.Words[-1]", "INDEX_FORMAT_INVALID"),
        ('inputs.Words["one"]', "INDEX_FORMAT_INVALID"),
        ("inputs.Words[1.5]", "INDEX_FORMAT_INVALID"),
        ("inputs.Words[0][0]", "INDEX_PARENT_NOT_ARRAY"),
        ("inputs.Maybe[0]", "INDEX_PARENT_MISSING"),
        ("inputs.Maybe[:]", "INDEX_PARENT_MISSING"),
        ("inputs.Words[i+1]", "INDEX_OUT_OF_RANGE"),
        ("jobs.B.outputs.Got[0]", "LOOP_MISMATCH"),
    ],
)
@pytest.mark.parametrize("path", ["with", "text", "list", "if", "file"])
def test_index_errors_come_before_anything_runs(project: Make, reference: str, code: str, path: str) -> None:
    wrapped = f"${{{{ {reference} }}}}"
    if path == "file":
        reference = reference.replace("Words", "Photos")
        wrapped = f"${{{{ {reference} }}}}"
    alone = f"'{wrapped}'"
    text = {"with": alone, "file": alone, "text": f"'about {wrapped}'", "list": f"[{alone}]", "if": "X"}[path]
    workflow = JUST.replace('"X"', text)
    if path == "if":
        workflow = workflow.replace("for: [i]", f"for: [i]\n        if: '{wrapped}'")
    lab = project(workflow, {"echo.py": ECHO, "p/a.txt": "A", "p/b.txt": "B"})
    with pytest.raises(InvalidError) as refused:
        lab.run()
    assert {d.code for d in refused.value.diagnostics} == {code}
    assert all(d.file and d.line and d.column for d in refused.value.diagnostics)
    assert not (lab.root / ".whyrun").exists()


def test_an_element_out_of_range_is_only_absent_inside_first(project: Make) -> None:
    lab = project(
        JUST.replace('"X"', "'${{ first(inputs.Photos[i+1], inputs.Photos[0]) }}'"),
        {"echo.py": ECHO, "p/a.txt": "A", "p/b.txt": "B"},
    )
    lab.succeed()
    assert [got(lab, f"A[{i}]") for i in (0, 1)] == [{"x": "file:B"}, {"x": "file:A"}]


def test_a_missing_binding_stops_before_the_action_is_called(project: Make) -> None:
    """A file that vanishes after the plan was made: the step fails in the worker, and its action never begins."""
    lab = project(
        """
        workflow: w
        inputs: {Photo: {type: file, default: photo.txt}}
        jobs:
          Vandal:
            uses: python
            with: {call: "acts:vandal"}
            outputs: {Done: {type: text}}
          Victim:
            uses: python
            needs: [Vandal]
            with: {call: "acts:victim", photo: "${{ inputs.Photo }}"}
            outputs: {Done: {type: text}}
        """,
        {
            "photo.txt": "P",
            "acts.py": """
                from pathlib import Path

                HERE = Path(__file__).parent

                def vandal():
                    (HERE / "photo.txt").unlink()
                    return {"Done": "x"}

                def victim(photo):
                    (HERE / "was-called").write_text("yes")
                    return {"Done": "x"}
                """,
        },
    )
    ran = lab.run()
    assert ran.exit_code == 1
    assert ran.failed == {"Job:Victim": ("FAILED", "MissingBinding")}
    (failed,) = ran.of(ev.StepFailed)
    assert failed.error == "`Input:Photo`: `photo.txt` does not exist"
    assert not (lab.root / "was-called").exists()
