"""Arrays of outputs as commands see them: element by element.

Issue 20, number 3.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from compare_lab import compare

from project_lab import Heard, Lab
from whyrun.errors import WhyrunError
from whyrun.evidence.verify.verify import verify
from whyrun.execution.adopt.adopt import adopt_file, restore_version
from whyrun.execution.adopt.keep import keep_results
from whyrun.facts.lineage import lineage
from whyrun.facts.show import id_facts
from whyrun.facts.status import current_status
from whyrun.planning.answers.explain import render_explain

Make = Callable[..., Lab]

SPLIT = """
    workflow: w
    inputs: {Text: {type: string, default: "a=one b=two"}}
    jobs:
      Split:
        uses: shell
        with: {text: "${{ inputs.Text }}", run: 'for p in $text; do echo "${p#*=}" > "$out_Parts/${p%=*}.txt"; done'}
        outputs: {Parts: {type: "text[]", path: parts/}}
      Join:
        uses: shell
        with: {parts: "${{ jobs.Split.outputs.Parts[:] }}", run: 'cat "${parts[@]}" > "$out_All"'}
        outputs: {All: {type: text, path: all.txt}}
    """
LOOPS = """
    workflow: w
    inputs: {Number: {type: integer, default: 2}}
    loops: {s: {values: [x, y]}}
    jobs:
      Cut:
        for: [s]
        uses: python
        with: {call: "lib:cut", n: "${{ inputs.Number }}", s: "${{ s }}"}
        outputs: {Files: {type: "file[]", path: "cut/${{ s }}"}, Names: {type: "string[]"}, Rows: {type: "json[]"}}
      All:
        uses: python
        with:
          call: "lib:all_of"
          files: ${{ named(jobs.Cut.outputs.Files[:, :]) }}
          names: ${{ jobs.Cut.outputs.Names[:, :] }}
          number: ${{ len(jobs.Cut.outputs.Names['x', :]) }}
          row: ${{ jobs.Cut.outputs.Rows['y', 'r/1'] }}
          second: ${{ first(jobs.Cut.outputs.Names['x', 9], jobs.Cut.outputs.Names['x', 1]) }}
        outputs: {T: {type: json, path: t.json}}
      Third:
        for: [s]
        if: ${{ exists(jobs.Cut.outputs.Names[s, 2]) }}
        uses: shell
        with: {name: "the ${{ jobs.Cut.outputs.Names[s, 2] }}", run: 'echo "$name" > "$out_N"'}
        outputs: {N: {type: text}}
    """
LIB = """
from pathlib import Path

def cut(n, s):
    for i in range(n):
        Path(f"c{i}.csv.gz").write_text(f"{s}{i}")
    files = {f"c {i}": Path(f"c{i}.csv.gz") for i in range(n)}
    return {"Files": files, "Names": [f"{s}-{i}" for i in range(n)], "Rows": {"r/1": {"of": s}}}

def all_of(files, names, number, row, second):
    texts = {s: {key: path.read_text() for key, path in of.items()} for s, of in files.items()}
    return {"T": {"texts": texts, "names": names, "number": number, "row": row, "second": second}}
"""


def listed(lab: Lab) -> dict[str, tuple[Any, ...]]:
    found = current_status(lab.opened(), ()).artifacts
    return {a.id: (a.state, a.change, a.path) for a in found if ".Parts" in a.id}


def test_a_deleted_and_an_edited_element_are_named_and_put_back(project: Make) -> None:
    lab = project(SPLIT, {"parts/mine.md": "my own"})
    lab.succeed()
    (lab.root / "parts/a.txt").unlink()
    lab.write({"parts/b.txt": "edited"})
    assert [reason.text("") for job in lab.plan().jobs for reason in job.reasons] == [
        "Artifact:Split.Parts[a]  parts/a.txt (deleted)",
        "Artifact:Split.Parts[b]  parts/b.txt (changed)",
    ]
    assert "adopt" not in render_explain(lab.plan())  # it refuses elements
    assert listed(lab) == {
        "Artifact:Split.Parts": ("missing", "deleted", "parts"),
        "Artifact:Split.Parts[a]": ("missing", "deleted", "parts/a.txt"),
        "Artifact:Split.Parts[b]": ("missing", "changed", "parts/b.txt"),
    }
    lab.succeed()
    assert [lab.read(f"parts/{name}") for name in ("a.txt", "b.txt", "mine.md")] == ["one\n", "two\n", "my own"]
    assert lab.plan().headlines() == {}


def test_what_is_not_made_any_more_is_listed_as_leftover(project: Make) -> None:
    lab = project(SPLIT)
    lab.succeed()
    lab.edit("workflow.yaml", "a=one b=two", "b=two")
    lab.succeed()
    assert lab.read("all.txt") == "two\n"
    (left,) = current_status(lab.opened(), ()).stale
    assert (left.path, left.artifact, left.why) == ("parts/a.txt", "Artifact:Split.Parts[a]", "removed")


def test_an_element_has_facts_and_a_lineage(project: Make) -> None:
    lab = project(SPLIT)
    lab.succeed()
    facts = id_facts(lab.opened(), "Artifact:Split.Parts[b]")
    assert (facts["type"], facts["path"], facts["state"]) == ("text", "parts/b.txt", "available")
    assert (facts["job"], facts["read_by"]) == ("Job:Split", ["Job:Join"])
    assert id_facts(lab.opened(), "Artifact:Split.Parts")["read_by"] == ["Job:Join"]
    found = json.dumps(lineage(lab.opened(), "Artifact:Join.All"))
    assert "Artifact:Split.Parts[a]" in found
    assert '"job": "Job:Split"' in found


def test_arrays_are_compared_element_by_element(project: Make) -> None:
    lab = project(SPLIT)
    lab.succeed()
    lab.edit("workflow.yaml", "done'", 'done; date +%N > "$out_Parts/b.txt"; echo > "$out_Parts/c.txt"\'')
    lab.edit("workflow.yaml", "a=one b=two", "a=one b=x")
    lab.succeed()
    again = compare(lab, "Job:Split")
    assert {id_: status for id_, (status, _, _) in again.comparisons.items()} == {
        "Artifact:Split.Parts": "DIFFERENT",
        "Artifact:Split.Parts[a]": "IDENTICAL",
        "Artifact:Split.Parts[b]": "DIFFERENT",
        "Artifact:Split.Parts[c]": "IDENTICAL",
    }
    assert again.comparisons["Artifact:Split.Parts"][2] == "other elements"
    assert verify(lab.opened().state, lab.root, lambda run: None).sound


def test_kept_results_keep_their_elements_and_none_is_adopted(project: Make) -> None:
    lab = project(SPLIT, {"mine.txt": "mine"})
    lab.succeed()
    lab.edit("workflow.yaml", "for p in", "for  p in")
    keep_results(lab.opened(), ["Job:Split"], "a space", Heard())
    assert lab.plan().headlines() == {}
    assert set(listed(lab)) == {"Artifact:Split.Parts", "Artifact:Split.Parts[a]", "Artifact:Split.Parts[b]"}
    for refuse in (
        lambda: adopt_file(lab.opened(), "Artifact:Split.Parts[a]", lab.root / "mine.txt", Heard()),
        lambda: restore_version(lab.opened(), "Artifact:Split.Parts", "r0001", Heard()),
    ):
        with pytest.raises(WhyrunError) as caught:
            refuse()
        assert caught.value.diagnostics[0].code == "NOT_ADOPTABLE"


def test_loops_mappings_values_and_absent_elements(project: Make) -> None:
    lab = project(LOOPS, {"lib.py": LIB})
    ran = lab.succeed()
    assert json.loads(lab.read("t.json")) == {
        "texts": {"x": {"c 0": "x0", "c 1": "x1"}, "y": {"c 0": "y0", "c 1": "y1"}},
        "names": ["x-0", "x-1", "y-0", "y-1"],
        "number": 2,
        "row": {"of": "y"},
        "second": "x-1",
    }
    assert lab.read("cut/y/c 1.csv.gz") == "y1"
    assert set(ran.inactive) == {"Job:Third[x]", "Job:Third[y]"}
    assert lab.plan().headlines() == {}
    more = lab.succeed(sets=["Number=3"])
    assert more.executed == ["Job:All", "Job:Cut[x]", "Job:Cut[y]", "Job:Third[x]", "Job:Third[y]"]
    assert lab.content("Artifact:Third.N[y]") == "the y-2\n"
    assert verify(lab.opened().state, lab.root, lambda run: None).sound


def test_a_pattern_that_would_match_elements_is_refused(project: Make) -> None:
    text = SPLIT.replace("inputs: {", 'inputs: {Old: {type: "text[]", default: "part*/x.txt"}, ')
    lab = project(text, {"partx/x.txt": "x"})
    with pytest.raises(WhyrunError) as caught:
        lab.plan()
    assert "`parts/…` matches `part*/x.txt`" in str(caught.value.diagnostics[0].message)


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ("Parts", "LOOP_MISMATCH"),
        ("Parts[:, 1]", "LOOP_MISMATCH"),
        ("Parts[-1]", "INDEX_FORMAT_INVALID"),
        ("Parts[1.5]", "INDEX_FORMAT_INVALID"),
    ],
)
def test_what_cannot_be_read_of_an_array_is_said_with_a_hint(project: Make, ref: str, code: str) -> None:
    lab = project(SPLIT.replace("outputs.Parts[:]", f"outputs.{ref}"))
    with pytest.raises(WhyrunError) as caught:
        lab.plan()
    (problem,) = caught.value.diagnostics
    assert problem.code == code
    assert problem.hint
