"""A run that plans stages leaves the same evidence everywhere: a stage does not depend on where steps execute."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from parity_lab import BACKENDS, parity

from project_lab import NOT_TRACED, Lab
from whyrun.execution.backends.base import Backend

TEXT = """\
workflow: w
inputs: {Names: {type: json, default: [sun, rain]}}
loops: {part: {each: jobs.Split.outputs.Parts}}
jobs:
  Split:
    uses: python
    with: {call: "s:split", names: "${{ inputs.Names }}"}
    outputs: {Parts: {type: "text[]", path: parts/}}
  Count:
    for: [part]
    uses: python
    with: {call: "s:count", part: "${{ jobs.Split.outputs.Parts[part] }}"}
    outputs: {Words: {type: json, path: "words/${{ part }}.json"}}
  Merge:
    uses: python
    with: {call: "s:merge", counts: "${{ named(jobs.Count.outputs.Words[:]) }}"}
    outputs: {Report: {type: json, path: report.json}}
"""
CODE = """\
def split(names): return {"Parts": {name: f"{name} {name}" for name in names}}
def count(part): return {"Words": len(part.read_text().split())}
def merge(counts): return {"Report": counts}
"""


def dask() -> AbstractContextManager[Backend]:
    from whyrun.execution.backends.dask.backend import dask_backend

    return nullcontext(dask_backend())


def sandbox() -> AbstractContextManager[Backend]:
    from whyrun.execution.backends.sandbox.backend import sandbox_backend, why_unavailable

    if (why := why_unavailable()) is not None:
        pytest.skip(why)
    return nullcontext(sandbox_backend())


PLACES: dict[str, Callable[[], AbstractContextManager[Backend]]] = {"sandbox": sandbox, "dask": dask}


def ran_twice(lab: Lab, place: str | None) -> list[Path]:
    lab.write({"workflow.yaml": TEXT, "s.py": CODE, **NOT_TRACED})
    folders = []
    for sets, executed in (
        ([], ["Job:Count[rain]", "Job:Count[sun]", "Job:Merge", "Job:Split"]),
        (["Names=[sun, rain, fog]"], ["Job:Count[fog]", "Job:Merge", "Job:Split"]),
    ):
        with PLACES[place]() if place is not None else nullcontext(None) as backend:
            ran = lab.succeed(sets=sets, backend=backend)
        assert (ran.executed, len(ran.result.stages)) == (executed, 1)
        assert ran.folder is not None
        folders.append(ran.folder)
    assert lab.read("report.json") == '{"fog":2,"rain":2,"sun":2}'
    return folders


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return ran_twice(Lab(tmp_path_factory.mktemp("here")), None)


@pytest.mark.parametrize("place", list(PLACES))
def test_stages_are_the_same_elsewhere(place: str, here: list[Path], tmp_path: Path) -> None:
    if BACKENDS[place].lacks is not None:
        pytest.skip(str(BACKENDS[place].lacks))
    for old, new in zip(here, ran_twice(Lab(tmp_path / "there"), place), strict=True):
        found = parity(old, new)
        assert [difference.to_json() for difference in found.differences] == []
        assert found.equal
