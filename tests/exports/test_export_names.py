"""IDs, keys and values that look like paths or like the host: an export changes what is private and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from export_lab import subject

from project_lab import Lab
from whyrun.evidence.queries.stats import stats_rows
from whyrun.exports.record import fold
from whyrun.exports.registry import FORMATS, export
from whyrun.exports.texts import Cleaner
from whyrun.ids import parse_id
from whyrun.log import events as ev

WORKFLOW = """
    workflow: film
    inputs:
      Site: {type: string, default: /v1/images}
    loops: {scene: {range: [0, 1]}}
    imports:
      Shot: {for: [scene], workflow: ./shot.yaml, with: {Word: "${{ scene }}", Style: "bold"}}
    jobs:
      Ask:
        uses: python
        with: {call: "steps:copy", word: "GET ${{ inputs.Site }}", style: "${{ inputs.Site }}"}
        outputs: {Copy: {type: json}}
"""
SHOT = """
    workflow: shot
    inputs: {Word: {type: integer}, Style: {type: string}}
    jobs:
      Picture:
        uses: python
        with: {call: "steps:copy", word: "${{ inputs.Word }}", style: "${{ inputs.Style }}"}
        outputs: {Copy: {type: json}}
      Voice:
        uses: python
        with: {call: "steps:copy", word: "${{ jobs.Picture.outputs.Copy }}", style: "${{ inputs.Style }}"}
        outputs: {Copy: {type: json}}
"""
STEPS = """
    def copy(word, style):
        return {"Copy": {"word": str(word), "style": style}}
"""
_ID = re.compile(r"(?:Input|Job|Artifact):[^\s`\"'|,;<>()]+")


@pytest.fixture
def film(project: Callable[..., Lab]) -> Lab:
    lab = project(WORKFLOW, {"shot.yaml": SHOT, "steps.py": STEPS, "whyrun.toml": 'trace = "never"\n'})
    lab.succeed()
    lab.succeed(sets=("Site=/v2/images",))
    return lab


def ids_of(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value} if value.startswith(("Input:", "Job:", "Artifact:")) else set()
    members = [*value, *value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else []
    return set().union(*map(ids_of, members)) if members else set()


def test_ids_of_imports_in_loops_are_those_of_the_log(film: Lab) -> None:
    lines = [json.loads(line) for line in export(subject(film, "r0001"), "openlineage").data.splitlines()]
    crate = json.loads(export(subject(film, "r0001"), "ro-crate").folder["ro-crate-metadata.json"])
    trace = json.loads(export(subject(film, "r0001"), "chrome-trace").data)
    assert "Input:Shot[0]/Word" in ids_of(lines)
    for found in (ids_of(lines), ids_of(crate), ids_of(trace)):
        assert "Job:Shot[0]/Picture" in found | {name.partition(" ")[2] for name in found}
        for id_ in found:
            parse_id(id_)
    for name in ("junit", "markdown", "github"):
        text = export(subject(film, "r0001"), name).data.decode()
        found = set(_ID.findall(text))
        assert {"Job:Shot[0]/Picture", "Artifact:Shot[1]/Voice.Copy"} <= found
        assert "…/" not in text


def test_jobs_of_an_import_in_a_loop_are_told_apart(film: Lab) -> None:
    jobs = ["Ask", "Shot/Picture", "Shot/Voice"]
    assert [row.name for row in stats_rows(film.opened().state.runs(), "job")] == jobs
    found = re.findall(r'whyrun_spent|whyrun_job_duration_seconds\{workflow="film",job="([^"]*)"',
                       export(subject(film, "r0002"), "prometheus").data.decode())  # fmt: skip
    assert found == jobs
    junit = export(subject(film, "r0001"), "junit").data.decode()
    assert set(re.findall(r'classname="film\.([^"]*)"', junit)) == set(jobs)
    crate = json.loads(export(subject(film, "r0001"), "ro-crate").folder["ro-crate-metadata.json"])
    known = {one["@id"] for one in crate["@graph"]}
    assert {"#step/Shot/Picture", "#step/Shot/Voice", "#output/Shot/Picture.Copy", "#output/Shot/Voice.Copy"} <= known


def test_a_value_that_is_no_path_of_this_machine_stays(film: Lab) -> None:
    crate = json.loads(export(subject(film, "r0001"), "ro-crate").folder["ro-crate-metadata.json"])
    values = {one["name"]: one["value"] for one in crate["@graph"] if one["@type"] == "PropertyValue"}
    assert values["Input:Site"] == "/v1/images"
    again = export(subject(film, "r0002"), "markdown").data.decode()
    assert 'style ← Input:Site "/v1/images" → "/v2/images"' in again


def test_a_host_that_is_also_a_name() -> None:
    """Jobs, parameters, loop values and keys may be named as the host is; the host itself is hidden in texts."""
    cleaner = Cleaner("/srv/ada/project", "vm")
    text = "vm: Job:vm[vm] waits for Artifact:x[vm]/vm.vm[0].vm on vm"
    assert cleaner.text(text) == "(host): Job:vm[vm] waits for Artifact:x[vm]/vm.vm[0].vm on (host)"
    assert cleaner.json({"vm": ["on vm", 1]}) == {"vm": ["on (host)", 1]}
    member = {"id": "Input:vm[vm]", "sha256": "ab", "value": {"vm": "GET /v1/images vm"}}
    cleaned = {"id": "Input:vm[vm]", "sha256": "ab", "value": {"vm": "GET /v1/images (host)"}}
    assert cleaner.member(member) == cleaned
    start = ev.StepStart(step_id="Job:vm[vm]", driver="python", attempt=1, fingerprint="5f", bindings={"vm": [member]})
    start.seq, start.ts, start.session, start.chain = 1, "2026-11-20T08:00:00.000000Z", "r0001", "0"
    reason = {"code": "INPUT_CHANGED", "binding": "vm", "source": "Input:vm", "old": "ab",
              "new": "cd", "old_value": "on vm", "new_value": "/a/b"}  # fmt: skip
    plan = {"jobs": [{"id": "Job:vm[vm]", "state": "planned", "reasons": [reason]}]}
    (step,) = fold("w", "r0001", [start], cleaner, plan=plan).steps.values()
    assert step.attempts[0].bindings == {"vm": [cleaned]}
    assert step.reasons == [("INPUT_CHANGED", 'vm ← Input:vm  "on (host)" → "/a/b"')]


def test_a_value_is_the_same_wherever_it_is_shown(project: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "vm")
    lab = project(WORKFLOW.replace("/v1/images", "GET /v1/images vm"), {"shot.yaml": SHOT, "steps.py": STEPS})
    lab.succeed()
    shown = export(subject(lab, "r0001"), "ro-crate").folder["ro-crate-metadata.json"]
    assert isinstance(shown, bytes)
    assert "GET /v1/images vm" not in shown.decode()
    assert shown.decode().count('"GET /v1/images (host)"') == 1


def test_every_format_takes_imports_in_loops(film: Lab) -> None:
    for name in FORMATS:
        rendered = export(subject(film, "r0002"), name)
        assert rendered.data or rendered.folder, name


STAGED = """
    workflow: staged
    imports:
      List: {workflow: ./list.yaml, with: {Parts: "${{ jobs.Split.outputs.Parts }}"}}
    jobs:
      Split: {uses: python, with: {call: "steps:split"}, outputs: {Parts: {type: "text[]"}}}
"""
LIST = """
    workflow: list
    inputs: {Parts: {type: "text[]"}}
    loops: {part: {each: inputs.Parts}}
    jobs:
      Up:
        for: [part]
        uses: python
        with: {call: "steps:up", part: "${{ inputs.Parts[part] }}"}
        outputs: {Big: {type: text}}
"""
STAGED_STEPS = """
    def split(): return {"Parts": {"a": "one", "b": "two"}}
    def up(part): raise ValueError("no power")
"""


def test_steps_of_a_stage_have_reasons_and_are_counted(project: Callable[..., Lab]) -> None:
    lab = project(STAGED, {"list.yaml": LIST, "steps.py": STAGED_STEPS})
    assert lab.run().exit_code == 1
    reason = "| `Job:List/Up[a]` | failed | `MISSING_OUTPUT` `Artifact:List/Up.Big[a]` |"
    assert reason in export(subject(lab, "r0001"), "markdown").data.decode()
    lab.write({"steps.py": STAGED_STEPS.replace('raise ValueError("no power")', 'return {"Big": "x"}')})
    lab.succeed()
    lab.succeed(force=["Job:Split"])
    assert "1 succeeded, 2 up to date" in export(subject(lab, "r0003"), "markdown").data.decode()


def test_an_export_says_that_it_has_no_reasons(film: Lab) -> None:
    plan = film.root / ".whyrun/film/runs/r0001/plan.json"
    assert b"without reasons" not in export(subject(film, "r0001"), "junit").data
    plan.write_bytes(plan.read_bytes() + b"x\n")
    told = "without reasons: `plan.json` is gone or is not the plan that the log names"
    assert f'<property name="note" value="{told}"/>' in export(subject(film, "r0001"), "junit").data.decode()
    assert f"\n{told.capitalize()}.\n" in export(subject(film, "r0001"), "markdown").data.decode()
