"""What the pages did not say, held against what the program does. Issue 17, number 26."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fork_server import COMMAND
from project_lab import Lab
from whyrun.api import LoadedWorkflow

DOCS = Path(__file__).parents[2] / "docs"
PATIENCE = 300.0  # seconds


def rows(page: str, first: str) -> dict[str, list[str]]:
    """The table whose heading begins with this cell: first cell of each row → the others."""
    table = (DOCS / page).read_text().partition(f"\n| {first} |")[2].partition("\n\n")[0]
    cells = [line.strip("|").split(" | ") for line in table.splitlines()[2:]]
    return {row[0].strip(): [cell.strip(" |") for cell in row[1:]] for row in cells}


COUNTED = """
    workflow: w
    inputs: {Begun: {type: string}}
    jobs:
      Done: {uses: shell, with: {run: 'echo > "$out_T"'}, outputs: {T: {type: text}}}
      Breaks: {uses: shell, with: {run: 'false'}, outputs: {T: {type: text}}}
      Blocked: {uses: shell, with: {t: "${{ jobs.Breaks.outputs.T }}", run: 'true'}, outputs: {T: {type: text}}}
      Waits:
        uses: shell
        with: {begun: "${{ inputs.Begun }}", run: 'touch "$begun"; exec sleep 600'}
        outputs: {T: {type: text}}
    """


def test_blocked_interrupted_and_up_to_date_jobs_are_counted_as_the_table_says(
    project: Callable[..., Lab], tmp_path: Path
) -> None:
    lab = project(COUNTED)
    begun = tmp_path / "begun"
    lab.succeed(targets=["Job:Done"], sets=[f"Begun={begun}"])
    command = [*COMMAND, "run", "--json", "--quiet", "--jobs", "2", "--set", f"Begun={begun}"]
    with subprocess.Popen(
        command, cwd=lab.root, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as host:
        log, deadline = lab.root / ".whyrun/w/runs/r0002/events.jsonl", time.monotonic() + PATIENCE
        while not (begun.exists() and b'"step_blocked"' in log.read_bytes()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        host.send_signal(signal.SIGINT)
        told = json.loads(host.communicate(timeout=PATIENCE)[0])
    assert host.returncode == 130
    written = json.loads((log.parent / "status.json").read_text())
    table = rows("statuses.md", "count")
    of, blocked, interrupted, up_to_date = table["`counts` of `--json`"]
    assert (of, blocked, interrupted, up_to_date) == (
        "the jobs of the plan, each once", "`blocked`", "`interrupted`", "not in it",
    )  # fmt: skip
    assert {name: count for name, count in told["counts"].items() if count} == {
        "failed": 1, "blocked": 1, "interrupted": 1,
    }  # fmt: skip
    assert table["`statuses` of `--json`"][1:] == ["in `SKIPS`", "in `FAILED`", "in `SKIPS`"]
    assert told["statuses"] == {"SKIPS": 2, "FAILED": 2}
    _, blocked, interrupted, up_to_date = table["`steps_…` of `status.json`"]
    assert (blocked, interrupted, up_to_date) == (
        "`steps_blocked`, not in `steps_skipped`", "`steps_interrupted`, not in `steps_failed`", "not in `steps_total`",
    )  # fmt: skip
    assert {name: count for name, count in written.items() if name.startswith("steps_") and count} == {
        "steps_total": 3, "steps_failed": 1, "steps_blocked": 1, "steps_interrupted": 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["run", "compare"])
def test_the_page_of_the_api_names_every_argument(name: str) -> None:
    """`backend=` was missing. Options of one backend stand below the table."""
    (signature,) = (row for row in rows("api.md", "function") if row.startswith(f"`flow.{name}("))
    documented = set(re.findall(r"[(, ](\w+)=", signature))
    arguments = {
        each.name
        for each in inspect.signature(getattr(LoadedWorkflow, name)).parameters.values()
        if each.kind is not each.VAR_KEYWORD
    } - {"self", "ids"}
    assert {"backend", "backend_options"} <= documented
    assert arguments <= documented


SELECTED = """
    workflow: w
    loops: {clip: {count: 2}}
    jobs:
      Write:
        for: [clip]
        uses: shell
        with:
          clip: "${{ clip }}"
          run: printf '{"Title":"t%s","Segments":[{"Length":1},{"Length":2}]}' "$clip" > "$out_Story"
        outputs:
          Story: {type: json, leaves: {Title: string, "Segments[0].Length": integer, "Segments[1].Length": integer}}
      Read:
        uses: shell
        with:
          titles: "${{ jobs.Write.outputs.Story[:].Title }}"
          run: 'echo "${titles[*]}" > "$out_T"'
        outputs: {T: {type: text, path: t.txt}}
    """


def test_the_table_of_selectors_has_the_fan_in_over_leaves_which_works(project: Callable[..., Lab]) -> None:
    table = rows("language.md", "selector")
    assert table["`…outputs.Story[:].Title`"] == ["this leaf of all instances"]
    assert table["`…outputs.Story.Segments[:].Length`"] == ["this leaf of all segments"]
    lab = project(SELECTED)
    lab.succeed()
    assert lab.read("t.txt") == "t0 t1\n"


def test_the_tutorial_and_the_pages_on_scripts_tell_of_the_scratch_folder_and_of_imports() -> None:
    """The commands of both pages are executed by `test_docs_blocks.py`."""
    tutorial = (DOCS / "tutorial.md").read_text()
    assert "Each step runs in an empty *scratch folder* of its own, not in the project folder." in tutorial
    section = (DOCS / "language.md").read_text().partition("### Scripts in other languages")[2].partition("\n### ")[0]
    assert "it finds no files or modules beside it" in " ".join(section.split())
    assert "runs as `uses: python` with `script:`" in " ".join(section.split())
