"""A clone reuses results of another: plan, explain and run agree, the log records it, and replay needs only the log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from s3_server import SECRET, S3Server
from shared_lab import WORKFLOW, Team, plan_told, shared_steps, skips

from project_lab import Heard, Lab
from whyrun.console.preview import dry_run_lines
from whyrun.errors import WhyrunError
from whyrun.evidence.queries.history import job_history
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.facts.plans import plan_of_run
from whyrun.log import events as ev
from whyrun.log.journal import utc_now
from whyrun.planning.answers.explain import headline, render_explain

BOTH_REUSED = [
    "Job:Make → outputs: Artifact:Make.Folder (exists, 2B), out/text.txt (exists, 7B) → reused from shared store",
    "Job:Use → outputs: out/all.txt (exists, 9B) → reused from shared store",
]


def test_another_clone_reuses_a_shared_result(team: Team) -> None:
    first, second = team.clone(), team.clone()
    made = first.succeed()
    assert (made.executed, made.heard.notes) == (["Job:Make", "Job:Use"], [])
    plan, notes = plan_told(second)
    assert notes == []
    assert headline(plan) == "demo before its first run: none of 2 jobs to run, 2 reused from the shared store"
    assert [(job["id"], job["reuse"]) for job in plan.to_json()["jobs"]] == [
        ("Job:Make", "shared store"),
        ("Job:Use", "shared store"),
    ]
    took = second.succeed()
    assert took.plan.digest == plan.digest
    assert (took.executed, shared_steps(took), took.heard.notes) == ([], ["Job:Make", "Job:Use"], [])
    assert skips(took) == BOTH_REUSED
    assert (second.read("out/text.txt"), second.read("out/all.txt")) == ("cinema\n", "cinema\n1\n")
    assert second.plan().totals["clean"] == 2


def test_the_log_records_the_origin_and_replay_needs_no_shared_store(team: Team) -> None:
    team.clone().succeed()
    second = team.clone()
    took = second.succeed()
    origin = team.kept.result_of("Job:Use")[1]["origin"]
    (skipped,) = [event for event in took.of(ev.StepSkipped) if event.step_id == "Job:Use"]
    assert (skipped.from_run, skipped.from_step, skipped.shared) == (None, None, origin)
    assert (origin["workflow"], origin["step"], origin["run"]) == ("demo", "Job:Use", "r0001")
    available = {event.artifact: event.reused_from for event in took.of(ev.ArtifactAvailable)}
    assert available == dict.fromkeys(
        ["Artifact:Make.Folder", "Artifact:Make.Text", "Artifact:Use.All"], "shared store"
    )
    for kind in ("results", "blobs"):
        for key in team.kept.keys(kind):
            team.kept.write(key, None)
    assert plan_of_run(second.opened(), "r0001").plan.digest == took.plan.digest


def test_explain_and_a_dry_run_say_the_same(folder_team: Team) -> None:
    folder_team.clone().succeed()
    second = folder_team.clone()
    plan, _ = plan_told(second)
    assert render_explain(plan) == (
        "demo before its first run: none of 2 jobs to run, 2 reused from the shared store\n"
        "layer 0\n"
        "  Job:Make   MISSING_OUTPUT  Artifact:Make.Folder\n"
        "             MISSING_OUTPUT  Artifact:Make.Text\n"
        "             reuse           shared store\n"
        "layer 1\n"
        "  Job:Use    MISSING_OUTPUT  Artifact:Use.All\n"
        "             reuse           shared store"
    )
    now = utc_now().astimezone()
    lines = [line.render() for line in dry_run_lines(plan, second.snapshot(), {}, None, second.root, now)]
    assert [line.partition("] ")[2] for line in lines] == [
        "WOULD_SKIP Job:Make → outputs: Artifact:Make.Folder (2B), out/text.txt (7B) → reused from shared store",
        "WOULD_SKIP Job:Use → outputs: out/all.txt (9B) → reused from shared store",
    ]


def test_only_results_with_the_same_fingerprint_are_reused(team: Team) -> None:
    team.clone().succeed()
    second = team.clone()
    ran = second.succeed(sets=["Topic=theatre"])
    assert (ran.executed, shared_steps(ran)) == (["Job:Make", "Job:Use"], [])
    third = team.clone()
    assert shared_steps(third.succeed(sets=["Topic=theatre"])) == ["Job:Make", "Job:Use"]
    assert third.read("out/all.txt") == "theatre\n1\n"


def test_a_forced_step_reuses_no_shared_result(folder_team: Team) -> None:
    folder_team.clone().succeed()
    ran = folder_team.clone().succeed(force=["Job:Make"])
    assert (ran.executed, shared_steps(ran)) == (["Job:Make"], ["Job:Use"])


STORY = """
workflow: demo
jobs:
  Fetch:
    uses: shell
    with: {run: 'echo rows > "$out_Rows"'}
    outputs: {Rows: {type: text}}
  Learn:
    uses: shell
    deterministic: true
    with: {rows: "${{ jobs.Fetch.outputs.Rows }}", run: 'cat "$rows" "$rows" > "$out_Model"'}
    outputs: {Model: {type: file}}
"""


def test_a_result_whose_fingerprint_is_known_only_during_the_run_is_reused_then(team: Team) -> None:
    """`Fetch` is not deterministic, so each clone executes it; that it gives the same rows is seen when it has."""
    assert team.clone(STORY).succeed().executed == ["Job:Fetch", "Job:Learn"]
    assert [r["origin"]["step"] for r in team.kept.results().values()] == ["Job:Learn"]
    second = team.clone(STORY)
    plan, _ = plan_told(second)
    assert [job.reuse for job in plan.planned] == [None, None]
    ran = second.succeed()
    assert (ran.executed, shared_steps(ran)) == (["Job:Fetch"], ["Job:Learn"])
    assert second.plan().totals["clean"] == 2


CONDITION = """
workflow: demo
jobs:
  Look:
    uses: python
    deterministic: true
    with: {call: "story:look"}
    outputs: {Found: {type: json, leaves: {Good: boolean}}}
  Then:
    uses: shell
    if: ${{ jobs.Look.outputs.Found.Good }}
    with: {run: 'echo yes > "$out_Text"'}
    outputs: {Text: {type: text}}
"""


def test_shared_values_decide_conditions_while_planning(folder_team: Team) -> None:
    files = {"story.py": "def look():\n    return {'Found': {'Good': False}}\n"}
    assert folder_team.clone(CONDITION, files).succeed().inactive == {"Job:Then": "condition_false"}
    second = folder_team.clone(CONDITION, files)
    plan, _ = plan_told(second)
    assert [(job.id, job.state) for job in plan.jobs] == [("Job:Look", "planned"), ("Job:Then", "inactive")]
    assert shared_steps(second.succeed()) == ["Job:Look"]


def test_a_step_that_failed_here_is_tried_again_although_the_store_has_a_result(
    folder_team: Team, tmp_path: Path
) -> None:
    blocker = tmp_path / "blocker"
    flow = WORKFLOW.replace("run: 'echo", f"run: 'test ! -e {blocker}; echo")
    second = folder_team.clone(flow)
    blocker.touch()
    assert second.run().failed == {"Job:Make": ("FAILED", "CommandFailed")}
    blocker.unlink()
    folder_team.clone(flow).succeed()
    ran = second.succeed()
    assert (ran.executed, shared_steps(ran)) == (["Job:Make"], ["Job:Use"])


def test_a_reuse_that_was_killed_is_repeated_by_the_next_run(folder_team: Team) -> None:
    folder_team.clone().succeed()
    second = folder_team.clone()
    second.succeed()
    events = second.root / ".whyrun/demo/runs/r0001/events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if b'"step_skipped"' in line and b"Job:Use" in line)
    events.write_bytes(b"".join(lines[: cut + 1]))
    (events.parent / "status.json").unlink()  # which a run that was killed does not have
    again = second.succeed()
    assert (again.executed, shared_steps(again)) == ([], ["Job:Use"])
    assert second.read("out/all.txt") == "cinema\n1\n"
    assert second.plan().totals["clean"] == 2


# --- settings ----------------------------------------------------------------------------------------------------


def test_the_environment_variable_selects_another_store_or_none(
    folder_team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_team.clone().succeed()
    monkeypatch.setenv("WHYRUN_STORE", "")
    assert folder_team.clone().succeed().executed == ["Job:Make", "Job:Use"]
    monkeypatch.setenv("WHYRUN_STORE", f"file://{folder_team.kept.address}")
    plain = folder_team.project(WORKFLOW)
    assert shared_steps(plain.succeed()) == ["Job:Make", "Job:Use"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("store = 3", "`store` is a URL or a folder: a string"),
        ("store = ''", "`store` is a URL or a folder: a string"),
        (
            "store = 's3://key:hidden@bucket/x'",
            "the URL of the shared store contains a user, password or key, which must not be written here",
        ),
        (
            "store = 's3://bucket/x?token=hidden'",
            "the URL of the shared store contains a user, password or key, which must not be written here",
        ),
    ],
)
def test_invalid_settings_are_refused(folder_team: Team, settings: str, told: str) -> None:
    lab = folder_team.clone(files={"whyrun.toml": settings})
    with pytest.raises(WhyrunError) as refused:
        lab.run()
    assert [(d.code, d.message) for d in refused.value.diagnostics] == [("WRONG_TYPE", told)]
    assert "hidden" not in str(refused.value)


def test_no_credential_reaches_a_file(s3_team: Team, server: S3Server) -> None:
    labs = [s3_team.clone(), s3_team.clone()]
    for lab in labs:
        lab.succeed()
    hidden = [SECRET.encode(), server.env()["AWS_ACCESS_KEY_ID"].encode()]
    files = [path for lab in labs for path in lab.root.rglob("*") if path.is_file()]
    assert [path for path in files if any(word in path.read_bytes() for word in hidden)] == []
    assert [key for key, data in server.objects.items() if any(word in data for word in hidden)] == []


def test_a_project_without_a_shared_store_does_not_import_its_code(folder_team: Team) -> None:
    lab = folder_team.project(WORKFLOW)
    program = (
        "import json, sys, whyrun\n"
        "result = whyrun.load(sys.argv[1]).run()\n"
        "print(json.dumps([result.exit_code, [m for m in sys.modules"
        " if m.split('.')[0] in ('fsspec', 's3fs')"
        " or m.startswith(('whyrun.execution.sharing.', 'whyrun.artifacts.shared.s'))]]))\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "WHYRUN_STORE"}
    told = subprocess.run(
        [sys.executable, "-c", program, str(lab.file)], capture_output=True, text=True, check=True, env=env
    )
    assert json.loads(told.stdout.splitlines()[-1]) == [0, []]


# --- what is never shared ----------------------------------------------------------------------------------------


def test_results_that_the_fingerprint_does_not_determine_are_never_shared(
    folder_team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SECRET", "a-secret-value")
    flow = """
    workflow: demo
    jobs:
      Plain: {uses: shell, with: {run: 'echo 1 > "$out_A"'}, outputs: {A: {type: file}}}
      Secret:
        uses: shell
        deterministic: true
        secrets: [SOME_SECRET]
        with: {key: "${{ secrets.SOME_SECRET }}", run: 'echo 2 > "$out_A"'}
        outputs: {A: {type: file}}
      Connected:
        uses: shell
        deterministic: true
        with: {connection: "@mysql", run: 'echo 3 > "$out_A"'}
        outputs: {A: {type: file}}
      Shared: {uses: shell, deterministic: true, with: {run: 'echo 4 > "$out_A"'}, outputs: {A: {type: file}}}
    """
    connections = {"connections.yaml": "connections: {mysql: {primary: {default: true, host: here}}}\n"}
    folder_team.clone(flow, connections).succeed()
    assert [r["origin"]["step"] for r in folder_team.kept.results().values()] == ["Job:Shared"]
    ran = folder_team.clone(flow, connections).succeed()
    assert (ran.executed, shared_steps(ran)) == (["Job:Connected", "Job:Plain", "Job:Secret"], ["Job:Shared"])


def test_results_are_not_shared_where_packages_count(folder_team: Team) -> None:
    """No fingerprint has the packages that a step imported: a changed one would take the old result back."""
    counted = {"whyrun.toml": f'store = {json.dumps(folder_team.kept.address)}\npackages = "count"\n'}
    folder_team.clone(files=counted).succeed()
    assert folder_team.kept.results() == {}
    folder_team.clone().succeed()
    assert sorted(r["origin"]["step"] for r in folder_team.kept.results().values()) == ["Job:Make", "Job:Use"]
    assert folder_team.clone(files=counted).succeed().executed == ["Job:Make", "Job:Use"]


def test_adopted_versions_are_not_shared(folder_team: Team) -> None:
    first = folder_team.clone()
    first.succeed()
    for kind in ("results", "blobs"):
        for key in folder_team.kept.keys(kind):
            folder_team.kept.write(key, None)
    first.write({"mine.txt": "mine\n"})
    adopt_file(first.opened(), "Artifact:Make.Text", first.root / "mine.txt", Heard())
    first.succeed()
    assert [r["origin"]["step"] for r in folder_team.kept.results().values()] == ["Job:Use"]


# --- what was here once, and is lost -----------------------------------------------------------------------------


def lose(lab: Lab, *artifacts: str) -> None:
    """Both places where the bytes of these artifacts stand: the store, and where they are published."""
    snapshot = lab.snapshot()
    for artifact in artifacts:
        found = snapshot.available_artifacts[artifact]
        lab.blob(found.sha256).unlink()
        if found.path is not None:
            (lab.root / found.path).unlink()


def test_a_lost_local_result_that_the_store_replaces_is_reported_and_recorded_as_shared(team: Team) -> None:
    """The bytes are here again before the steps are looked at; still it was the shared store that gave them."""
    team.clone().succeed()
    lab = team.clone()
    lab.succeed()
    lose(lab, "Artifact:Make.Text", "Artifact:Use.All")
    plan, _ = plan_told(lab)
    assert headline(plan) == "demo after r0001: none of 2 jobs to run, 2 reused from the shared store"
    ran = lab.succeed()
    assert ran.plan.digest == plan.digest
    assert skips(ran) == BOTH_REUSED
    assert shared_steps(ran) == ["Job:Make", "Job:Use"]
    assert {event.reused_from for event in ran.of(ev.ArtifactAvailable)} == {"shared store"}
    assert [e.reused_from for e in job_history(lab.opened().state.runs(), "Job:Use".__eq__, None)] == [
        "shared store",
        "shared store",
    ]
    assert plan_of_run(lab.opened(), "r0002").plan.digest == plan.digest
    assert lab.plan().totals["clean"] == 2


def test_a_lost_local_result_that_is_fetched_during_the_run_is_recorded_as_shared(folder_team: Team) -> None:
    lab = folder_team.clone(STORY)
    lab.succeed()
    lose(lab, "Artifact:Learn.Model")
    ran = lab.succeed(force=["Job:Fetch"])
    assert (ran.executed, shared_steps(ran)) == (["Job:Fetch"], ["Job:Learn"])
    assert skips(ran) == ["Job:Learn → outputs: Artifact:Learn.Model (exists, 10B) → reused from shared store"]


def test_a_shared_result_does_not_count_as_adopted(folder_team: Team) -> None:
    lab = folder_team.clone()
    lab.succeed()
    lab.write({"mine.txt": "mine\n"})
    adopt_file(lab.opened(), "Artifact:Make.Text", lab.root / "mine.txt", Heard())
    lose(lab, "Artifact:Make.Text")
    ran = lab.succeed()
    assert shared_steps(ran) == ["Job:Make"]
    assert lab.read("out/text.txt") == "cinema\n"
    record = lab.snapshot().records.steps["Job:Make"]
    assert [(attempt.origin, attempt.adopted) for attempt in record.attempts()] == [("reused", {})]


GIVEN = """
workflow: demo
inputs: {X: {type: file, default: in.txt}}
jobs:
  F:
    uses: python
    deterministic: true
    with: {call: "m:tell", x: "${{ inputs.X }}"}
    outputs: {T: {type: text}}
"""


def test_a_result_of_type_file_is_not_reused_for_a_text(folder_team: Team) -> None:
    files: dict[str, str | bytes | None] = {
        "in.txt": "hello",
        "m.py": 'def tell(x: str):\n    return {"T": type(x).__name__}\n',
    }
    first, second = (folder_team.clone(GIVEN, files) for _ in range(2))
    first.succeed()
    second.edit("workflow.yaml", "type: file", "type: text")
    took = second.succeed()
    assert (took.executed, shared_steps(took)) == (["Job:F"], [])
    assert (first.content("Artifact:F.T"), second.content("Artifact:F.T")) == ("PosixPath", "str")
    third = folder_team.clone(GIVEN, files)
    assert shared_steps(third.succeed()) == ["Job:F"], "and what was made of a file is for a file"
    assert third.content("Artifact:F.T") == "PosixPath"
