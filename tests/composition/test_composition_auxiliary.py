"""`auxiliary_data` at every step in every mode: accepted, materialised, on record, and a change of it is a change.

What puts datasets together does not open it: its rows are not in the result, and it need not be a table at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from summary_lab import PlanLab, words

pytest.importorskip("duckdb")

pytestmark = pytest.mark.usefixtures("data_libraries")

WORDS = {"name": "auxiliary_data", "id": "Input:words", "sha256": "#inputs/words.csv", "rows": 1, "columns": 2}
UPSTREAM = "UPSTREAM_DIRTY"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "project"


def bindings(lab: PlanLab, run: str = "r0001") -> dict[str, list[dict[str, Any]]]:
    """By step; what it is bound to by name."""
    steps = lab.normal(run)["steps"]
    return {step["step_id"]: sorted(step["bindings"], key=lambda bound: str(bound["name"])) for step in steps}


def bound_to(lab: PlanLab, mode: str, steps: dict[str, dict[str, Any]]) -> str:
    """The plan run with these bindings added to those that its steps have; what it published."""
    for step, more in steps.items():
        lab.change_step(step, input_bindings={**lab.bindings_of(step), **more})
    lab.succeed()
    return str(lab.read(f"out/{mode}.csv"))


@pytest.mark.parametrize(
    ("mode", "steps", "dirty"),
    [
        (
            "sequential",
            ["clean"],
            {
                "Job:clean": ["INPUT_CHANGED auxiliary_data Input:words"],
                "Job:model": ["INPUT_CHANGED auxiliary_data Input:words", f"{UPSTREAM} Job:clean"],
            },
        ),
        (
            "merge",
            ["stack", "add_industry"],
            {
                "Job:stack": ["INPUT_CHANGED auxiliary_data Input:words"],
                "Job:add_controls": [f"{UPSTREAM} Job:stack"],
                "Job:add_industry": ["INPUT_CHANGED auxiliary_data Input:words", f"{UPSTREAM} Job:add_controls"],
                "Job:model": ["INPUT_CHANGED auxiliary_data Input:words", f"{UPSTREAM} Job:add_industry"],
            },
        ),
        (
            "parallel",
            ["together"],
            {
                "Job:of_main": ["INPUT_CHANGED auxiliary_data Input:words"],
                "Job:together": ["INPUT_CHANGED auxiliary_data Input:words", f"{UPSTREAM} Job:of_main"],
            },
        ),
        (
            "conditional",
            ["careful"],
            {
                "Job:careful": ["INPUT_CHANGED auxiliary_data Input:words"],
                "Job:checked": [f"{UPSTREAM} Job:careful"],
                "Job:join": ["INPUT_CHANGED auxiliary_data Input:words", f"{UPSTREAM} Job:checked"],
            },
        ),
    ],
    ids=["sequential", "merge", "parallel", "conditional"],
)
def test_it_is_on_record_and_changes_no_row(
    root: Path, mode: str, steps: list[str], dirty: dict[str, list[str]]
) -> None:
    plain = PlanLab(root.with_name("plain"), mode)
    plain.succeed()
    lab = PlanLab(root, mode)
    published = bound_to(lab, mode, {step: {"auxiliary_data": "input:words"} for step in steps})
    assert published == plain.read(f"out/{mode}.csv")
    expected = bindings(plain)
    for step in steps:
        expected[f"Job:{step}"] = [WORDS, *expected[f"Job:{step}"]]
    assert bindings(lab) == expected
    assert lab.normal()["decisions"] == plain.normal()["decisions"]
    for step in steps:
        link = lab.run_folder("r0001") / f"steps/{step}/inputs/auxiliary_data.csv"
        assert link.read_bytes() == (root / "inputs/words.csv").read_bytes()
    assert lab.run().result.run is None
    lab.append("words", "sic,Industry")
    assert words(lab.plan()) == dirty


def test_a_list_of_it_and_a_file_that_is_no_table(root: Path) -> None:
    lab = PlanLab(root, "merge")
    lab.write({"inputs/words.csv": "no table at all\n\n\x01\x02, with commas, here, and\nthere\n"})
    lab.change_step("model", input_bindings={"primary_dataset": "prod:add_industry:full"})
    bound_to(lab, "merge", {"add_controls": {"auxiliary_data": ["input:words", "input:late"]}})
    found = {entry["name"]: entry for entry in bindings(lab)["Job:add_controls"]}
    assert found["auxiliary_data[0]"] == {
        "name": "auxiliary_data[0]", "id": "Input:words", "sha256": "#inputs/words.csv", "rows": None, "columns": None,
    }  # fmt: skip
    assert found["auxiliary_data[1]"] == {
        "name": "auxiliary_data[1]", "id": "Input:late", "sha256": "#inputs/late.csv", "rows": 1, "columns": 4,
    }  # fmt: skip
