"""`file/copy`: a file or folder as it is, to one output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from project_lab import Lab, codes
from whyrun.errors import InvalidError
from whyrun.log import events as ev

Make = Callable[..., Lab]


def flow(jobs: dict[str, tuple[str, dict[str, Any]]]) -> str:
    inputs = {
        "Report": {"type": "file", "default": "report.pdf"},
        "Notes": {"type": "text", "default": "notes.txt"},
        "Data": {"type": "directory", "default": "data"},
        "Word": {"type": "string", "default": "x"},
    }
    made = {
        name: {"uses": "file/copy", "with": {"source": source}, "outputs": outputs}
        for name, (source, outputs) in jobs.items()
    }
    return json.dumps({"workflow": "w", "inputs": inputs, "jobs": made})


FILES = {"report.pdf": b"%PDF\x00\xff", "notes.txt": "notes", "data/a/b.txt": "deep", "data/c.txt": "flat"}


def test_files_and_folders_are_copied_as_they_are(project: Make) -> None:
    lab = project(
        flow(
            {
                "File": ("${{ inputs.Report }}", {"Copy": {"type": "file", "path": "out/report.pdf"}}),
                "Text": ("${{ inputs.Notes }}", {"Kept": {"type": "text", "path": "out/notes.txt"}}),
                "Folder": ("${{ inputs.Data }}", {"Copy": {"type": "directory", "path": "out/data"}}),
                "Again": ("${{ jobs.Folder.outputs.Copy }}", {"Copy": {"type": "directory", "path": "out/again"}}),
                "Twice": ("${{ jobs.File.outputs.Copy }}", {"Copy": {"type": "file", "path": "out/twice.pdf"}}),
            }
        ),
        FILES,
    )
    lab.succeed()
    files = {p.relative_to(lab.root / "out").as_posix(): p.read_bytes() for p in (lab.root / "out").rglob("*.*")}
    assert files == {
        "report.pdf": b"%PDF\x00\xff", "twice.pdf": b"%PDF\x00\xff", "notes.txt": b"notes",
        "data/a/b.txt": b"deep", "data/c.txt": b"flat", "again/a/b.txt": b"deep", "again/c.txt": b"flat",
    }  # fmt: skip
    assert (lab.root / "report.pdf").read_bytes() == b"%PDF\x00\xff", "the source stays"
    assert lab.plan().headlines() == {}
    lab.write({"data/c.txt": "changed"})
    assert codes(lab.plan()) == {"Job:Folder": ["INPUT_CHANGED"], "Job:Again": ["UPSTREAM_DIRTY"]}
    lab.succeed()
    assert lab.read("out/again/c.txt") == "changed"


def test_what_is_not_bound_or_does_not_fit_is_refused(project: Make) -> None:
    copy = {"Copy": {"type": "file"}}
    lab = project(flow({"Path": ("report.pdf", copy), "Value": ("${{ inputs.Word }}", copy)}), FILES)
    with pytest.raises(InvalidError) as refused:
        lab.plan()
    assert [d.code for d in refused.value.diagnostics] == ["INVALID_PARAMETER"] * 2
    assert all("source" in d.message for d in refused.value.diagnostics)


def test_one_output_of_the_right_kind(project: Make) -> None:
    two = {"A": {"type": "file"}, "B": {"type": "file"}}
    jobs = {"Two": ("${{ inputs.Report }}", two), "Kind": ("${{ inputs.Data }}", {"Copy": {"type": "file"}})}
    ran = project(flow(jobs), FILES).run()
    assert {e.step_id: e.error for e in ran.of(ev.StepFailed)} == {
        "Job:Two": "`file/copy` writes one output, and the job declares 2; declare one",
        "Job:Kind": "`Copy` is declared as file, but a folder was written",
    }
