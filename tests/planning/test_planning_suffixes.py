"""The suffix of an output path counts, because the step sees it: another suffix runs the job again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from project_lab import Heard, Lab
from whyrun.execution.adopt.adopt import restore_version

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


def said(place: Path) -> str:
    text = (place / "name" if place.is_dir() else place).read_text()
    return text.strip().strip('"')


CHANGES = [
    *((type_, ".one", ".two", moved) for type_ in RUNS for moved in (False, True)),
    *((type_, *change, True) for type_ in RUNS for change in ((".one", ""), ("", ".one"))),
    ("json", ".json", "", True),  # the usual one of its type
    ("json", "", ".json", True),
]


@pytest.mark.parametrize(("type_", "old", "new", "moved"), CHANGES)
def test_with_another_suffix_it_is_made_anew(project: Make, type_: str, old: str, new: str, moved: bool) -> None:
    before, after = f"o{old}", f"o{new}"
    lab = project(NAMED.format(type=type_, path=before, run=RUNS[type_]), {})
    lab.succeed()
    assert said(lab.root / before) == f"O{old}"
    assert lab.plan().planned == []
    lab.edit("workflow.yaml", f"path: {before}}}", f"path: {after}}}")
    if moved:  # whoever renames the file as well has not made it anew
        (lab.root / before).rename(lab.root / after)
    (job,) = lab.plan().planned
    assert (job.id, [(r.code, r.text(job.id)) for r in job.reasons]) == (
        "Job:A", [("MISSING_OUTPUT", f"Artifact:A.O  {after} {OTHER}")],
    )  # fmt: skip
    assert lab.succeed().executed == ["Job:A"]
    assert said(lab.root / after) == f"O{new}"
    assert lab.plan().planned == []


@pytest.mark.parametrize("type_", ["string", "json", "directory"])
def test_a_version_of_ones_own_can_be_had_back_under_another_suffix(project: Make, type_: str) -> None:
    """As `explain` says. Who consumes it does not see the suffix."""
    lab = project(NAMED.format(type=type_, path="o.one", run=RUNS[type_]), {})
    lab.succeed()
    lab.edit("workflow.yaml", "o.one", "o.two")
    lab.succeed()
    assert said(lab.root / "o.two") == "O.two"
    assert restore_version(lab.opened(), "Artifact:A.O", "r0001", Heard()).run == "r0003"
    assert said(lab.root / "o.two") == "O.one"
    assert lab.plan().planned == []


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
