"""Blobs besides artifacts: overwritten folders of the user, and data that composition steps have read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from verify_lab import Answer, sha256, whyrun

from whyrun.evidence.retention.gc import collectable

SITE = """\
workflow: site
inputs:
  Word: {type: string, default: one}
jobs:
  Build:
    uses: shell
    with: {word: "${{ inputs.Word }}", run: 'mkdir "$out_Pages"; echo "$word" > "$out_Pages/index.txt"'}
    outputs: {Pages: {type: directory, path: pages}}
"""
MINE = b"written by the user\n"
PLAN = ("plan.json", "--manifest", "inputs/manifest.json")


class Project:
    """`verify` and its one problem."""

    def __init__(self, root: Path, *words: str) -> None:
        self.root = root
        self.words = words
        self.store = root / ".whyrun/store"

    def copy(self, to: Path) -> Project:
        shutil.copytree(self.root, to, symlinks=True)
        return Project(to, *self.words)

    def do(self, *words: str) -> Answer:
        answer = whyrun(self.root, *words, *self.words)
        assert answer.code == 0, answer.out + answer.err
        return answer

    def verify(self, *words: str) -> Answer:
        return whyrun(self.root, "verify", *words, *self.words)

    def problem(self) -> dict[str, Any]:
        answer = self.verify("--json")
        assert (answer.code, answer.err, answer.json["problem_count"]) == (3, "", 1)
        (found,) = answer.json["problems"]
        assert isinstance(found, dict)
        return found

    def hint(self) -> str:
        (line,) = [line for line in self.verify().out.splitlines() if line.startswith("hint: ")]
        return line

    def blob(self, data: bytes) -> Path:
        return self.store / sha256(data)[:2] / sha256(data)[2:]

    def kept(self) -> int:
        (needs,) = collectable(self.root / ".whyrun").workflows
        return needs.blobs


def spoil(blob: Path) -> str:
    blob.chmod(0o644)
    blob.write_bytes(b"other bytes\n")
    return sha256(b"other bytes\n")


# --- a folder of the user's ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def displaced(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Its second run has written over a folder to which the user had added a file."""
    project = Project(tmp_path_factory.mktemp("site") / "project")
    project.root.mkdir()
    (project.root / "workflow.yaml").write_text(SITE)
    project.do("run", "--quiet")
    (project.root / "pages/sub").mkdir()
    (project.root / "pages/sub/mine.txt").write_bytes(MINE)
    (project.root / "workflow.yaml").write_text(SITE.replace("default: one", "default: two"))
    project.do("run", "--quiet")
    assert not (project.root / "pages/sub").exists()
    answer = project.verify("--replay", "all", "--json")
    assert (answer.code, answer.json["problems"], answer.json["notes"]) == (0, [], [])
    assert answer.json["checked"]["blobs"] == project.kept()
    return project


def expected(project: Project, place: str, line: int, run: str, what: str) -> dict[str, Any]:
    return {
        "kind": "blob",
        "run": run,
        "file": str(project.root / ".whyrun/site" / place),
        "what": f"`sub/mine.txt` of a folder that was saved before it was overwritten {what}",
        "line": line,
        "event": "file_displaced",
        "subject": "pages",
        "expected": sha256(MINE),
        "stored": str(project.blob(MINE)),
    }


def displacing(project: Project) -> int:
    lines = (project.root / ".whyrun/site/runs/r0002/events.jsonl").read_bytes().splitlines()
    return next(number for number, line in enumerate(lines, 1) if b'"file_displaced"' in line)


def test_a_file_of_a_displaced_folder_has_other_bytes(displaced: Project, tmp_path: Path) -> None:
    project = displaced.copy(tmp_path / "copy")
    found = spoil(project.blob(MINE))
    what = "has other bytes in the store"
    told = expected(project, "runs/r0002/events.jsonl", displacing(project), "r0002", what)
    assert project.problem() == {**told, "found": found}


def test_a_file_of_a_displaced_folder_is_missing(displaced: Project, tmp_path: Path) -> None:
    project = displaced.copy(tmp_path / "copy")
    project.blob(MINE).unlink()
    line = displacing(project)
    assert project.problem() == expected(project, "runs/r0002/events.jsonl", line, "r0002", "is not in the store")
    blob = f".whyrun/store/{sha256(MINE)[:2]}/{sha256(MINE)[2:]}"
    assert [line for line in project.verify().out.splitlines() if not line.startswith(("checked:", "hint:"))][:4] == [
        "site is damaged: 1 problem",
        f"  .whyrun/site/runs/r0002/events.jsonl:{line}: `sub/mine.txt` of a folder that was saved before it was "
        "overwritten is not in the store (file_displaced pages)",
        f"    expected  {sha256(MINE)}",
        f"    blob      {blob}",
    ]


def test_a_blob_of_a_displaced_folder_is_required_even_if_an_older_version_shares_it(
    displaced: Project, tmp_path: Path
) -> None:
    project = displaced.copy(tmp_path / "copy")
    project.blob(b"one\n").unlink()
    found = project.problem()
    assert (found["event"], found["subject"]) == ("file_displaced", "pages")
    assert found["what"] == "`index.txt` of a folder that was saved before it was overwritten is not in the store"


def test_the_displaced_folder_of_a_pruned_run(displaced: Project, tmp_path: Path) -> None:
    project = displaced.copy(tmp_path / "copy")
    for word in ("three", "four"):
        (project.root / "workflow.yaml").write_text(SITE.replace("default: one", f"default: {word}"))
        project.do("run", "--quiet")
    project.do("runs", "prune", "--keep", "1", "--delete")
    project.do("gc", "--delete")
    assert not (project.root / ".whyrun/site/runs/r0002").exists()
    answer = project.verify("--json")
    assert (answer.code, answer.json["problems"]) == (0, [])
    project.blob(MINE).unlink()
    assert project.problem() == expected(project, "pruned.jsonl", 2, "r0002", "is not in the store")


# --- data that was composed ------------------------------------------------------------------------------------------

DATA = b"firm,x\n1,2\n2,3\n"


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("panel") / "project", *PLAN)
    (project.root / "inputs").mkdir(parents=True)
    (project.root / "inputs/main.csv").write_bytes(DATA)
    manifest = {"datasets": [{"dataset_key": "main", "role": "primary_dataset", "rel_path": "inputs/main.csv"}]}
    (project.root / "inputs/manifest.json").write_text(json.dumps({"schema_version": 2, **manifest}))
    step = {
        "step_id": "clean", "type": "action", "produces": ["known.csv"],
        "params": {"composition_mode": "sequential", "template_id": "shell",
                   "run": 'tail -n +1 "$primary_dataset" > "$out_known"; echo 3,4 >> "$out_known"',
                   "input_bindings": {"primary_dataset": "input:main"},
                   "products": [{"product_id": "known", "kind": "dataset"}]},
    }  # fmt: skip
    (project.root / "plan.json").write_text(json.dumps({"plan_version": 1, "plan_id": "p", "steps": [step]}))
    project.do("run", "--quiet")
    answer = project.verify("--replay", "all", "--json")
    assert (answer.code, answer.json["problems"], answer.json["notes"]) == (0, [], [])
    assert answer.json["checked"]["blobs"] == project.kept()
    return project


def read_link(project: Project) -> Path:
    (folder,) = project.root.glob(".whyrun/*/runs/r0001/steps/clean/inputs")
    link = folder / "primary_dataset.csv"
    assert link.is_symlink()
    return link


def lose(blob: Path) -> None:
    blob.unlink()


@pytest.mark.parametrize(("damage", "what"), [(spoil, "has other bytes in the store"), (lose, "is not in the store")])
def test_what_a_step_has_read(
    composed: Project, tmp_path: Path, damage: Callable[[Path], str | None], what: str
) -> None:
    project = composed.copy(tmp_path / "copy")
    found = damage(project.blob(DATA))
    told = {
        "kind": "blob",
        "run": "r0001",
        "file": str(read_link(project)),
        "what": f"the data that the step has read {what}",
        "expected": sha256(DATA),
        "stored": str(project.blob(DATA)),
    }
    assert project.problem() == (told if found is None else {**told, "found": found})
    assert project.hint() == (
        "hint: data that steps have read: restore the blob from a copy, which may be the data file itself. No job "
        "needs it: without a copy, the data that the step has read cannot be shown, and nothing else is affected"
    )
    blob = project.blob(DATA)
    blob.parent.mkdir(exist_ok=True)
    blob.write_bytes((project.root / "inputs/main.csv").read_bytes())
    assert project.verify().code == 0


def test_a_link_to_what_a_step_has_read(composed: Project, tmp_path: Path) -> None:
    project = composed.copy(tmp_path / "copy")
    link = read_link(project)
    target = str(link.readlink())
    link.unlink()
    link.symlink_to("nowhere")
    assert project.problem() == {
        "kind": "link",
        "run": "r0001",
        "file": str(link),
        "what": "the link points elsewhere",
        "expected": target,
        "found": "nowhere",
    }
    # As the hint says.
    link.unlink()
    (link.parents[3] / "status.json").unlink()
    project.do("run", "--quiet")
    assert (str(link.readlink()), project.verify().code) == (target, 0)


def test_without_its_link_the_data_is_checked_as_a_referenced_blob(composed: Project, tmp_path: Path) -> None:
    project = composed.copy(tmp_path / "copy")
    read_link(project).unlink()
    assert project.verify().code == 0
    spoil(project.blob(DATA))
    found = project.problem()
    assert (found["what"], found["event"]) == (
        "a blob that the log refers to has other bytes in the store", "input_recorded"
    )  # fmt: skip
