"""The suffix of an output's path: the step that writes it sees it, so that with another one it is made anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab
from whyrun.planning.explain import particulars

Make = Callable[..., Lab]

NAMED = """
    workflow: named
    jobs:
      A:
        uses: shell
        with: {{run: '{run}'}}
        outputs: {{O: {{type: {type}, path: {path}}}}}
      B: {{uses: shell, with: {{run: 'echo 1 > "$out_T"'}}, outputs: {{T: {{type: text, path: b.txt}}}}}}
"""
RUNS = {
    "json": 'echo "\\"$(basename $out_O)\\"" > "$out_O"',
    "string": 'basename "$out_O" > "$out_O"',
    "text": 'basename "$out_O" > "$out_O"',
    "directory": 'mkdir "$out_O" && basename "$out_O" > "$out_O/name"',
}
OTHER = "(it was made with another type, suffix or `append`)"


def said(lab: Lab) -> str:
    place = next(path for path in lab.root.iterdir() if path.name.startswith("o."))
    text = (place / "name" if place.is_dir() else place).read_text()
    return text.strip().strip('"')


@pytest.mark.parametrize("type_", RUNS)
@pytest.mark.parametrize("moved", [False, True])
def test_with_another_suffix_it_is_made_anew(project: Make, type_: str, moved: bool) -> None:
    lab = project(NAMED.format(type=type_, path="o.one", run=RUNS[type_]), {})
    lab.succeed()
    assert said(lab) == "O.one"
    assert lab.plan().planned == []
    lab.edit("workflow.yaml", "o.one", "o.two")
    if moved:  # whoever renames the file as well has not made it anew
        (lab.root / "o.one").rename(lab.root / "o.two")
    (job,) = lab.plan().planned
    assert (job.id, [(r.code, particulars(r, job.id)) for r in job.reasons]) == (
        "Job:A", [("MISSING_OUTPUT", f"Artifact:A.O  o.two {OTHER}")],
    )  # fmt: skip
    assert lab.succeed().executed == ["Job:A"]
    if not moved:
        remove(lab)
    assert said(lab) == "O.two"
    assert lab.plan().planned == []


def remove(lab: Lab) -> None:
    """What was published at the old place stays: it may be in use."""
    (lab.root / "o.one").rename(lab.root / "old")


@pytest.mark.parametrize(("type_", "usual"), [("json", "o.json"), ("text", "o.txt")])
def test_the_usual_suffix_is_that_of_an_output_without_a_path(project: Make, type_: str, usual: str) -> None:
    lab = project(NAMED.format(type=type_, path=usual, run=RUNS[type_]), {})
    lab.succeed()
    lab.edit("workflow.yaml", f", path: {usual}", "")
    assert lab.plan().planned == []


def test_a_folder_is_linked_under_its_name_without_a_suffix(project: Make) -> None:
    lab = project(NAMED.format(type="directory", path="o.zarr", run=RUNS["directory"]), {})
    lab.succeed()
    assert [path.name for path in (lab.run_folder("r0001") / "artifacts" / "A").iterdir()] == ["O"]
