"""An output folder that is a symlink out of the project: the run is refused before any step runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_lab import dedent, tree, whyrun

import whyrun as whyrun_api
from project_lab import Lab
from whyrun.errors import InvalidError
from whyrun.execution.run import preflight as checks
from whyrun.planning.plan import compute_execution_plan

FLOW = """\
workflow: demo
loops: {n: {count: 3}}
jobs:
  Paid:
    uses: shell
    with: {count: COUNT, run: 'echo x >> "$count"; echo one > "$out_T"; echo two > "$out_U"'}
    outputs:
      T: {type: text, path: outl/x.txt}
      U: {type: text, path: fine/u.txt}
  Each:
    for: [n]
    uses: shell
    with: {count: COUNT, run: 'echo x >> "$count"; echo 1 > "$out_S"'}
    outputs:
      S: {type: json, append: true, path: "outl/deep/${{ n }}/s.json", key: "a/${{ n }}"}
"""
TOLD = dedent("""
    error[PATH_OUTSIDE] workflow.yaml:8:29: `outl/x.txt` would be written through the link `outl`, which leads LEADS
        8 |       T: {type: text, path: outl/x.txt}
          |                             ^^^^^^^^^^
       hint: remove the link or choose another path, then run again
    error[PATH_OUTSIDE] workflow.yaml:15:43: `outl/deep/0/s.json` would be written through the link `outl`, which leads LEADS
       15 |       S: {type: json, append: true, path: "outl/deep/${{ n }}/s.json", key: "a/${{ n }}"}
          |                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
       hint: remove the link or choose another path, then run again
    """)  # noqa: E501
OUT, NOWHERE = "out of the project", "to no folder"


def project(tmp_path: Path, target: str = "../outside") -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (folder / "workflow.yaml").write_text(FLOW.replace("COUNT", str(tmp_path / "executions")))
    os.symlink(target, folder / "outl")
    return folder


def assert_nothing_ran(folder: Path) -> None:
    assert not (folder.parent / "executions").exists()
    assert list((folder.parent / "outside").iterdir()) == []
    assert list(folder.glob(".whyrun/*/runs/*")) == []


@pytest.mark.parametrize(
    ("target", "leads"), [("../outside", OUT), ("/", OUT), ("nowhere", NOWHERE), ("outl", NOWHERE)]
)
def test_the_run_is_refused_and_nothing_is_executed(tmp_path: Path, target: str, leads: str) -> None:
    folder = project(tmp_path, target)
    assert (whyrun(folder, "validate").code, whyrun(folder, "plan").code) == (0, 0), "a plan looks at no folders"
    for words in (["run"], ["run", "--dry-run"], ["run"]):
        answer = whyrun(folder, *words)
        lines, errors = answer.err[: answer.err.index("error[")], answer.err[answer.err.index("error[") :]
        assert (answer.code, answer.out, errors) == (2, "", TOLD.replace("LEADS", leads)), words
        assert [line.split(" → ")[1][:13] for line in lines.splitlines()] == ["PATH_OUTSIDE:"] * 2
    assert_nothing_ran(folder)


def test_from_python_it_is_refused_as_well(tmp_path: Path) -> None:
    folder = project(tmp_path)
    with pytest.raises(InvalidError) as refused:
        whyrun_api.run(folder / "workflow.yaml")
    assert [(d.code, d.line) for d in refused.value.diagnostics] == [("PATH_OUTSIDE", 8), ("PATH_OUTSIDE", 15)]
    assert_nothing_ran(folder)


def test_without_the_link_or_where_it_stays_inside_it_runs(tmp_path: Path) -> None:
    folder = project(tmp_path)
    whyrun(folder, "run")
    (folder / "outl").unlink()
    (folder / "real").mkdir()
    os.symlink("real", folder / "outl")
    assert whyrun(folder, "run").code == 0
    assert sorted(tree(folder / "real")) == ["deep/0/s.json", "deep/1/s.json", "deep/2/s.json", "x.txt"]


def test_only_what_is_planned_counts(tmp_path: Path) -> None:
    folder = project(tmp_path)
    flow = folder / "workflow.yaml"
    flow.write_text(flow.read_text().replace("outl/deep", "fine/deep"))
    assert whyrun(folder, "run", "--target", "Job:Each[*]").code == 0
    (folder / "fine").rename(tmp_path / "outside" / "fine")
    os.symlink(tmp_path / "outside" / "fine", folder / "fine")
    again = whyrun(folder, "run", "--target", "Job:Each[*]", "--json")
    assert (again.code, again.json["state"]) == (0, "nothing"), "what is published there already is as it was"


def test_each_folder_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path, "real")
    (folder / "real").mkdir()
    looked: list[str] = []
    monkeypatch.setattr(checks, "link_problem", lambda root, parent: looked.append(parent))
    lab = Lab(folder)
    opened = lab.opened()
    planned = compute_execution_plan(opened.snapshot()).planned
    checks.check_folders(opened.folder, opened.graph, [job.node for job in planned])
    assert sorted(looked) == ["fine", "outl", "outl/deep", "outl/deep/0", "outl/deep/1", "outl/deep/2"]


def test_a_file_in_the_way_of_a_folder_is_no_link(tmp_path: Path) -> None:
    """It is saved and makes room, as ever."""
    folder = project(tmp_path)
    (folder / "outl").unlink()
    (folder / "outl").write_text("mine")
    assert whyrun(folder, "run").code == 0
    assert (folder / "outl/x.txt").read_text() == "one\n"


def test_a_comparison_looks_where_it_would_publish(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "outl").unlink()
    assert whyrun(folder, "run").code == 0
    (folder / "outl").rename(tmp_path / "outside" / "outl")
    os.symlink(tmp_path / "outside" / "outl", folder / "outl")
    assert whyrun(folder, "compare", "Job:Paid").code == 0, "it publishes nothing"
    refused = whyrun(folder, "compare", "Job:Paid", "--accept")
    assert refused.code == 2
    assert refused.err.endswith(TOLD.replace("LEADS", OUT).partition("error[PATH_OUTSIDE] workflow.yaml:15")[0])
    assert sorted(run.name for run in folder.glob(".whyrun/*/runs/*")) == ["r0001", "r0002"]
