"""Tools that run scripts of their own: what a script in R sources, and what a notebook imports, is seen."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from project_lab import Lab, Ran, codes
from whyrun.log import events as ev

pytestmark = [
    pytest.mark.real_start,
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
]

Make = Callable[..., Lab]


@pytest.fixture(autouse=True)
def _plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper such as that of pyenv reads files of its own."""
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin")


def present(ran: Ran) -> list[str]:
    """What the one step read undeclared and found."""
    (event,) = ran.of(ev.StepComplete)
    assert event.traced
    assert isinstance(event.observed, list)
    return [read.path for read in event.observed if read.kind in ("file", "folder")]


def changed(lab: Lab) -> list[str]:
    """The texts of the reasons of the only job, up to the hashes."""
    (job,) = lab.plan().jobs
    return [reason.text(job.id).partition("  ")[0] for reason in job.reasons]


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs Rscript")
def test_a_script_in_r_that_sources_another_and_reads_a_table(project: Make) -> None:
    workflow = """
        workflow: in-r
        jobs:
          Fit:
            uses: shell
            workdir: project
            with: {run: Rscript --vanilla fit.R results/fit.txt}
            outputs: {Fit: {type: text, path: results/fit.txt}}
    """
    fit = (
        'source("R/helper.R")\nlimit <- if (file.exists("limit.txt")) scan("limit.txt", quiet = TRUE) else 0\n'
        'table <- read.csv("data/x.csv")\ncat(scaled(sum(table$x)) + limit, file = commandArgs(TRUE)[1])\n'
    )
    files = {"fit.R": fit, "R/helper.R": "scaled <- function(x) 2 * x\n", "data/x.csv": "x\n1\n2\n"}
    lab = project(workflow, files)
    assert present(lab.succeed()) == ["R/helper.R", "data/x.csv", "fit.R"]
    assert lab.content("Artifact:Fit.Fit") == "6"
    assert codes(lab.plan()) == {}
    for path in files:
        lab.write({path: f"{files[path]}\n"})
        assert changed(lab) == [f"observed ← {path}"]
        lab.write({path: files[path]})
    lab.write({"limit.txt": "1"})
    assert changed(lab) == ["observed ← limit.txt"], "the script asked for it"
    lab.edit("R/helper.R", "2 * x", "10 * x")
    assert changed(lab) == ["observed ← R/helper.R", "observed ← limit.txt"]
    lab.succeed()
    assert lab.content("Artifact:Fit.Fit") == "31"
    assert codes(lab.plan()) == {}


def cell(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": [], "source": source}


@pytest.mark.skipif(find_spec("nbconvert") is None, reason="needs nbconvert")
@pytest.mark.skipif(find_spec("ipykernel") is None, reason="needs ipykernel")
def test_a_notebook_that_imports_a_module_of_the_project(project: Make) -> None:
    workflow = """
        workflow: notebook
        jobs:
          Report:
            uses: shell
            workdir: project
            with:
              run: python -m nbconvert --execute --to notebook --output-dir results --output done analysis.ipynb
            outputs: {Notebook: {type: json, path: results/done.ipynb}}
    """
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    source = "import helper\nprint(helper.total(open('data/x.csv').read().split()))"
    notebook = {"cells": [cell(source)], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    files = {
        "analysis.ipynb": json.dumps(notebook),
        "helper.py": "def total(words): return sum(map(int, words))\n",
        "data/x.csv": "1 2\n",
    }
    lab = project(workflow, files)
    assert present(lab.succeed()) == ["analysis.ipynb", "data/x.csv", "helper.py"]
    assert codes(lab.plan()) == {}
    for path in files:
        lab.write({path: f"{files[path]}\n"})
        assert changed(lab) == [f"observed ← {path}"]
        lab.write({path: files[path]})
    assert codes(lab.plan()) == {}
    (output,) = lab.content("Artifact:Report.Notebook")["cells"][0]["outputs"]
    assert output["text"] in ("3\n", ["3\n"])
