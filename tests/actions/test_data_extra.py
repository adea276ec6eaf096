"""The data actions without the packages that they need, and as `whyrun actions` shows them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from data_lab import Make, lab_of

from project_lab import Lab

# What Python answers to a search for a package that is not installed.
WITHOUT = (
    "import sys; sys.modules['duckdb'] = sys.modules['pyreadstat'] = None; from whyrun.cli.main import main; main()"
)


def whyrun(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *words]
    return subprocess.run(command, cwd=lab.root, capture_output=True, text=True, timeout=300, check=False)


def test_a_workflow_that_needs_the_extra_is_refused_before_anything_runs(project: Make) -> None:
    with_ = {"primary_dataset": ["@a", "@a"]}
    lab = lab_of(project, "data/append", with_, {"a.csv": "v\n1\n"})
    done = whyrun(lab, "run")
    assert done.returncode == 2
    assert "error[INVALID_USES]" in done.stderr
    assert "the action `data/append` needs `duckdb`, `pyreadstat`" in done.stderr
    assert "   hint: `pip install 'whyrun[data]'`, in a clone of Whyrun `pip install '.[data]'`" in done.stderr
    assert not (lab.root / ".whyrun").exists()


def test_other_workflows_run_and_the_actions_are_still_listed(project: Make) -> None:
    lab = project("{workflow: w, jobs: {A: {uses: shell, with: {run: 'echo 1 > $out_x'}, outputs: {x: {type: text}}}}}")
    assert whyrun(lab, "run", "--quiet").returncode == 0
    listed = whyrun(lab, "actions")
    assert listed.returncode == 0
    assert "data/merge" in listed.stdout


@pytest.mark.parametrize("name", ["data/merge", "data/append", "data/aggregate", "data/sql", "data/check"])
def test_the_example_of_an_action_is_a_workflow(project: Make, name: str) -> None:
    from whyrun.actions.builtin import BUILTIN

    action = BUILTIN[name].load()
    inputs = {
        "data/aggregate": "{}",
        "data/append": "{Y2023: {type: dataset, default: a.csv}, Y2024: {type: dataset, default: a.csv}}",
    }.get(name, "{Panel: {type: dataset, default: a.csv}, Controls: {type: dataset, default: b.csv}}")
    jobs = action.example.removeprefix("jobs:\n")
    if name == "data/aggregate":
        made = "{uses: shell, with: {run: 'printf \"a\\n1\\n\" > $out_fit'}, outputs: {fit: {type: dataset}}}"
        jobs += f"  Small: {made}\n  Large: {made}\n"
    lab = project("x", {"a.csv": "firm_id,year,sales,assets\n1,2020,2,3\n", "b.csv": "firm_id,year,size\n1,2020,2\n"})
    (lab.root / "workflow.yaml").write_text(f"workflow: w\ninputs: {inputs}\njobs:\n{jobs}")
    lab.succeed()
