"""`composition_summary.json` is derived: nothing reads it, and `verify` makes it anew. Issue 17, number 6."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from summary_lab import PlanLab

pytest.importorskip("duckdb")

pytestmark = pytest.mark.usefixtures("data_libraries")


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> PlanLab:
    """One run, and one that takes the results of the first."""
    lab = PlanLab(tmp_path_factory.mktemp("merged") / "project", "merge")
    lab.succeed()
    lab.append("words", "sic,Industry")
    assert lab.succeed().executed == ["Job:model"]
    return lab


def summary_file(lab: PlanLab, run: str) -> Path:
    return lab.run_folder(run) / "composition_summary.json"


def forged(text: bytes) -> bytes:
    summary = json.loads(text)
    (decision,) = [one for one in summary["decisions"] if one["step_id"] == "Job:add_controls"]
    decision["rows"]["matched_left"] = 4711
    return json.dumps(summary, sort_keys=True, separators=(",", ":")).encode() + b"\n"


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "`decisions[1].rows.matched_left` is not what the log says": forged,
    "`inputs_manifest[0].role` is not what the log says": lambda text: text.replace(b'"role":', b'"ROLE":'),
    "the file has other bytes than the summary that the log gives": lambda text: text + b"\n",
    "the file is not a summary": lambda text: b"[]",
    "the file is not a summary: ": lambda text: b"\xff",
}


def problem(lab: PlanLab, *words: str) -> str:
    code, out, _ = lab.cli("verify", *words, "--json")
    (problem,) = json.loads(out)["problems"]
    assert (code, problem["file"]) == (3, str(summary_file(lab, "r0002")))
    return str(problem["what"])


def test_a_changed_summary_is_told(merged: PlanLab) -> None:
    """Issue 17, number 6."""
    path = summary_file(merged, "r0002")
    text = path.read_bytes()
    for what, damage in DAMAGES.items():
        path.write_bytes(damage(text))
        assert problem(merged).startswith(what)
    path.write_bytes(forged(text))
    assert {problem(merged, "r0002"), problem(merged, "--replay", "all")} == {next(iter(DAMAGES))}
    path.unlink()
    assert problem(merged) == "the file is missing"
    path.write_bytes(text)
    assert merged.cli("verify")[0] == 0


def test_show_makes_the_summary_anew(merged: PlanLab) -> None:
    """Issue 17, number 6. No figure of the file is shown, and without the file it is not "composes no datasets"."""
    path = summary_file(merged, "r0002")
    text, tree = path.read_bytes(), merged.tree("r0002")
    path.write_bytes(forged(text))
    assert merged.tree("r0002") == tree
    path.unlink()
    code, out, _ = merged.cli("show", "--composition", "r0002", "--json")
    assert (code, json.loads(out)) == (0, json.loads(text))
    path.write_bytes(text)


def test_the_next_run_copies_no_forged_figure_and_makes_a_deleted_summary_again(tmp_path: Path) -> None:
    """Issue 17, number 6."""
    lab = PlanLab(tmp_path / "project", "merge")
    lab.succeed()
    first = summary_file(lab, "r0001")
    text = first.read_bytes()
    first.write_bytes(forged(text))
    lab.append("words", "sic,Industry")
    lab.succeed()
    decisions = {one["step_id"]: one for one in json.loads(text)["decisions"]}
    for decision in lab.summary("r0002")["decisions"]:
        assert decision == {**decisions[decision["step_id"]], "from_run": "r0001"}
    hint = [line for line in lab.cli("verify")[1].splitlines() if line.startswith("hint: ")]
    assert "Delete it and the `status.json` of that run" in hint[0]
    first.unlink()
    (lab.run_folder("r0001") / "status.json").unlink()
    lab.succeed(force=["Job:model"])
    assert (first.read_bytes(), lab.cli("verify")[0]) == (text, 0)


def test_figures_of_runs_and_data_that_are_gone_are_noted_not_damage(tmp_path: Path) -> None:
    lab = PlanLab(tmp_path / "project", "merge")
    lab.succeed()
    lab.append("words", "sic,Industry")
    lab.succeed()
    lab.append("main", "7,2021,10,1").append("controls", "9,2021,0.7").append("industries", "99,Nobody")
    lab.succeed()
    before = lab.summary("r0002")
    assert lab.cli("runs", "prune", "r0001", "--delete")[0] == 0
    assert not lab.run_folder("r0001").exists()
    code, out, _ = lab.cli("verify", "--json")
    note = "the summary of r0002 has figures that cannot be made anew: the data or runs are gone"
    assert (code, note in json.loads(out)["notes"]) == (0, True)
    assert before == lab.summary("r0002")
