"""Notebooks: what plans, runs, artifacts and tables show of themselves, and the example executed by Jupyter."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whyrun
from project_lab import Lab
from whyrun.console.lines import TaskStatus
from whyrun.console.logger import NotebookLogger, notebook_logger
from whyrun.notebook import Html

Make = Callable[..., Lab]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "then-and-now"
HOSTILE = "<script>alert(1)</script>"
FLOW = f"""
    workflow: tale
    description: "{HOSTILE}"
    jobs:
      Say:
        uses: shell
        with:
          word: "{HOSTILE}"
          run: |
            echo "$word" > "$out_T"
            printf '{{"%s": 1}}' "$word" > "$out_J"
            printf 'a,b\\n1,%s\\n' "$word" > "$out_C"
        outputs: {{T: {{type: text}}, J: {{type: json}}, C: {{type: file, path: c.csv}}}}
    """


class Shown:
    """Stands where IPython's `display` does, and keeps what a reader saw."""

    def __init__(self) -> None:
        self.pages: list[list[str]] = []

    def __call__(self, shown: Html, *, display_id: bool) -> Shown:
        assert display_id
        self.pages.append([shown._repr_html_()])
        return self

    def update(self, shown: Html) -> None:
        self.pages[-1].append(shown._repr_html_())


def texts(html: str) -> str:
    """What a reader sees of some HTML."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)).strip()


def test_what_results_show_of_themselves(project: Make) -> None:
    lab = project(FLOW)
    flow = whyrun.load(lab.root / "workflow.yaml")
    before = texts(flow.plan()._repr_html_())
    assert before.startswith("tale &nbsp; ▶ 1 to run ▶ Job:Say MISSING_OUTPUT Artifact:Say.C")
    result = flow.run()
    assert re.fullmatch(r"✓ r0001 succeeded in [\d.]+m?s &nbsp; 1 completed", texts(result._repr_html_()))
    assert texts(flow.run()._repr_html_()) == "✓ nothing to do &nbsp; 1 up to date"
    assert texts(flow.plan()._repr_html_()) == "tale &nbsp; ✓ 1 up to date"
    assert "1 of 1 job up to date" in texts(flow._repr_html_())
    assert "<svg" in flow._repr_html_()
    csv = texts(flow.artifact("Artifact:Say.C")._repr_html_())
    assert csv == "Artifact:Say.C: file, available from r0001 a b 1 &lt;script&gt;alert(1)&lt;/script&gt;"


def test_nothing_that_is_shown_runs(project: Make) -> None:
    lab = project(FLOW)
    lab.succeed()
    flow = whyrun.load(lab.root / "workflow.yaml")
    shown = [flow, flow.plan(), flow.plan(force="Job:Say"), flow.table("Artifact:Say.J")]
    shown += [flow.artifact(f"Artifact:Say.{name}") for name in "TJC"]
    for one in shown:
        assert "<script" not in one._repr_html_()
    assert "&lt;script&gt;" in flow._repr_html_()


def test_the_progress_is_one_display_that_goes_away_and_failures_stay(project: Make) -> None:
    lab = project(FLOW.replace('echo "$word"', "exit 3"))
    shown = Shown()
    result = whyrun.load(lab.root / "workflow.yaml").run(logger=NotebookLogger(shown))
    assert result.exit_code == 1
    bar, failures = shown.pages
    assert re.fullmatch(r"r0001 0/1(, running Job:Say)?", texts(bar[0]))
    assert bar[-1] == ""
    assert f"[shell] {TaskStatus.FAILED.value} Job:Say" in texts(failures[0])


def test_outside_of_a_notebook_runs_are_silent() -> None:
    assert notebook_logger() is None


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The example, executed by Jupyter's own kernel in a copy of its folder."""
    import nbformat
    from nbconvert.preprocessors import ExecutePreprocessor

    folder = tmp_path_factory.mktemp("notebook") / "then-and-now"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".whyrun", "out"))
    notebook = nbformat.read(folder / "notebook.ipynb", as_version=4)
    ExecutePreprocessor(timeout=300).preprocess(notebook, {"metadata": {"path": str(folder)}})
    return notebook


def outputs(notebook: Any) -> list[list[Any]]:
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_example_notebook_shows_plan_run_picture_and_table(executed: Any) -> None:
    flow, plan, run, picture, table, assumed = outputs(executed)
    assert "<svg" in flow[-1]["data"]["text/html"]
    assert texts(plan[-1]["data"]["text/html"]).startswith("then-and-now &nbsp; ▶ 8 to run ▶ Job:Script MISSING_OUTPUT")
    assert [output["output_type"] for output in run] == ["display_data", "execute_result"]
    assert run[0]["data"]["text/html"] == ""  # the bar is gone
    assert re.search(r"✓ r0001 succeeded in .* 7 completed, 1 inactive", texts(run[1]["data"]["text/html"]))
    image = re.search(r'src="data:image/png;base64,([^"]*)"', picture[-1]["data"]["text/html"])
    assert image is not None
    assert base64.b64decode(image[1]).startswith(b"\x89PNG")
    assert texts(table[-1]["data"]["text/html"]).endswith("True False True")
    assert "INPUT_CHANGED topic" in texts(assumed[-1]["data"]["text/html"])
