"""Several commands at once, each in its own process: which may write, what they report, and what readers see."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

from beside_lab import FINAL, Beside

from command_lab import until
from whyrun.evidence.queries.history import list_runs
from whyrun.evidence.verify.verify import verify
from whyrun.facts.history import find_history
from whyrun.log import events as ev
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.project import Project


def check_sound(lab: Beside, name: str = "alone") -> None:
    found = verify(Project.open(lab.root / f"{name}.yaml").state, lab.root, lambda run: None)
    assert found.problems == ()


def test_the_second_run_of_a_workflow_reports_who_runs_it(tmp_path: Path) -> None:
    lab = Beside(tmp_path / "project")
    first = lab.start_waiting()
    before = lab.opened().state.run("r0001").events_path.read_bytes()
    for words in (
        ("run", "alone.yaml"),
        ("run", "alone.yaml", "--force", "layer:0"),
        ("compare", "alone.yaml"),
        ("adopt", "Artifact:First.Text", "word.txt", "alone.yaml"),
        ("runs", "prune", "alone.yaml", "--keep", "1", "--delete"),
    ):
        second = lab.whyrun(*words)
        assert second.code == 3, (words, second)
        told = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "TIME", second.err)
        host = os.uname().nodename
        assert told.endswith(
            f"error[LOCKED] {lab.root}/.whyrun/alone/lock: this workflow is being run by process {first.pid} on {host} "
            f"(since TIME, run r0001)\n   hint: wait for it to end, or stop it (`kill -INT {first.pid}` on {host}), "
            "then try again\n"
        ), told
    as_json = lab.whyrun("run", "alone.yaml", "--json")
    assert (as_json.code, as_json.json["ok"]) == (3, False)
    assert as_json.json["diagnostics"][0]["code"] == "LOCKED"
    assert lab.runs() == ["r0001"]
    assert lab.opened().state.run("r0001").events_path.read_bytes() == before
    lab.open_gate()
    ended = first.ended()
    assert ended.code == 0, ended.err
    assert lab.published() == FINAL
    again = lab.whyrun("run", "alone.yaml", "--json")
    assert (again.code, again.json["run"]) == (0, None)
    check_sound(lab)


def test_two_workflows_run_at_once_over_one_store(tmp_path: Path) -> None:
    """Both are at their waiting steps at the same time, and then store equal bytes under equal names."""
    lab = Beside(tmp_path / "project", "left", "right")
    left, right = lab.start_waiting("left"), lab.start_waiting("right")
    assert (left.process.poll(), right.process.poll()) == (None, None)
    lab.open_gate()
    for command in (left, right):
        ended = command.ended()
        assert ended.code == 0, ended.err
    for name in ("left", "right"):
        assert lab.published(name) == FINAL
        check_sound(lab, name)
        plan = lab.whyrun("plan", f"{name}.yaml", "--json").json
        assert plan["totals"]["clean"] == 4
    stored = {path.read_bytes() for path in lab.store.glob("??/*")}
    assert {text.encode() for text in FINAL.values()} <= stored


def test_many_workflows_that_make_the_same_bytes_lose_nothing(tmp_path: Path) -> None:
    names = [f"flow-{letter}" for letter in "abcd"]
    lab = Beside(tmp_path / "project", *names)
    lab.open_gate()
    commands = [lab.start("run", f"{name}.yaml", "--quiet", "--jobs", "2") for name in names for _ in range(2)]
    codes = Counter(command.ended().code for command in commands)
    assert codes.keys() <= {0, 3}  # one of each two may have come too early
    assert codes[0] >= len(names)
    for name in names:
        assert lab.published(name) == FINAL
        check_sound(lab, name)
        state = Project.open(lab.root / f"{name}.yaml").state
        started = [e.step_id for run in state.runs() for e in run.events() if isinstance(e, ev.StepStart)]
        assert sorted(started) == ["Job:After", "Job:First", "Job:Wait[0]", "Job:Wait[1]"]
    assert list((lab.store / "tmp").glob("*")) == []


SHARED = """\
workflow: NAME
jobs:
  Note:
    uses: shell
    with:
      name: NAME
      run: |
        touch "GATE.NAME"; until test -e "GATE"; do sleep 0.02; done
        echo "{\\"from\\": \\"$name\\"}" > "$out_Note"
    outputs: {Note: {type: json, path: notes.json, append: true, key: NAME}}
"""


def test_two_workflows_write_their_sections_of_one_file_at_once(tmp_path: Path) -> None:
    lab = Beside(tmp_path / "project", "left", "right")
    lab.write({"notes.json": '{"mine": 1}\n'})
    for name in lab.names:
        lab.write({f"{name}.yaml": SHARED.replace("NAME", name).replace("GATE", str(lab.gate))})
    commands = [lab.start("run", f"{name}.yaml", "--quiet") for name in lab.names]
    until(lambda: all(Path(f"{lab.gate}.{name}").exists() for name in lab.names))
    lab.open_gate()
    for command in commands:
        ended = command.ended()
        assert ended.code == 0, ended.err
    assert json.loads(lab.read("notes.json")) == {"mine": 1, "left": {"from": "left"}, "right": {"from": "right"}}
    for name in lab.names:
        assert lab.whyrun("plan", f"{name}.yaml", "--json").json["totals"]["clean"] == 1


def test_runs_and_gc_in_any_order_lose_nothing(tmp_path: Path) -> None:
    """Each begins when it comes to it: it is refused, or it does its work. Whatever order the machine makes of it."""
    lab = Beside(tmp_path / "project", "left", "right")
    lab.open_gate()
    for name in lab.names:
        assert lab.whyrun("run", f"{name}.yaml", "--quiet").code == 0
    for word in ("two", "six"):
        lab.write({"word.txt": f"{word}\n"})
        commands = []
        for name in lab.names:
            commands.append(lab.start("run", f"{name}.yaml", "--quiet"))
            commands.append(lab.start("gc", f"{name}.yaml", "--delete"))
            commands.append(lab.start("runs", "prune", f"{name}.yaml", "--keep", "1", "--delete"))
        for command in commands:
            ended = command.ended()
            assert ended.code in (0, 3), ended.err
            assert ended.code == 0 or "error[LOCKED]" in ended.err
        for name in lab.names:
            done = lab.whyrun("run", f"{name}.yaml", "--quiet")
            assert done.code == 0, done.err
            assert lab.published(name)["after.txt"] == f"{word}\n0\n{word}\n1\n"
            check_sound(lab, name)
    for name in lab.names:
        assert lab.whyrun("runs", "prune", f"{name}.yaml", "--keep", "1", "--delete").code == 0
        state = Project.open(lab.root / f"{name}.yaml").state
        assert len(state.runs()) + len(state.tombstones()) == 3
        assert len(state.runs()) == 1
    assert lab.whyrun("gc", "left.yaml", "--delete").code == 0
    for name in lab.names:
        check_sound(lab, name)
        assert lab.whyrun("plan", f"{name}.yaml", "--json").json["totals"]["clean"] == 4


READERS = (
    ("plan", "alone.yaml"),
    ("plan", "alone.yaml", "--json"),
    ("explain", "alone.yaml"),
    ("run", "alone.yaml", "--dry-run"),
    ("status", "alone.yaml"),
    ("status", "alone.yaml", "--json"),
    ("runs", "alone.yaml"),
    ("runs", "alone.yaml", "--json"),
    ("why", "Job:Wait[0]", "alone.yaml"),
    ("history", "Job:Wait[0]", "alone.yaml"),
    ("show", "r0001", "alone.yaml"),
    ("show", "Job:First", "alone.yaml"),
    ("log", "r0001", "alone.yaml"),
    ("verify", "alone.yaml"),
    ("gc", "alone.yaml"),
    ("runs", "prune", "alone.yaml"),
)


def test_every_reader_answers_while_a_run_goes_on(tmp_path: Path) -> None:
    lab = Beside(tmp_path / "project")
    command = lab.start_waiting()
    state = lab.opened().state
    before = state.run("r0001").events_path.read_bytes()
    answers = {}
    started = [(words, lab.start(*words)) for words in READERS]
    for words, reader in started:
        answers[words] = reader.ended()
        assert answers[words].code == 0, (words, answers[words])
    plan = answers[("plan", "alone.yaml", "--json")].json
    assert [(job["id"], job["reasons"][0]["code"]) for job in plan["jobs"]] == [
        ("Job:Wait[0]", "MISSING_OUTPUT"),
        ("Job:Wait[1]", "MISSING_OUTPUT"),
        ("Job:After", "MISSING_OUTPUT"),
    ]
    assert "note: r0001 is running" in answers[("plan", "alone.yaml")].err
    (run,) = answers[("runs", "alone.yaml", "--json")].json["runs"]
    assert (run["run"], run["state"], run["completed"]) == ("r0001", "running", 1)
    by = answers[("status", "alone.yaml", "--json")].json["unfinished"]
    assert (by["run"], by["state"], sorted(by["open_steps"])) == ("r0001", "running", ["Job:Wait[0]", "Job:Wait[1]"])
    assert by["by"]["pid"] == command.pid
    assert "r0001 is running" in answers[("verify", "alone.yaml")].out
    assert state.run("r0001").events_path.read_bytes() == before, "readers write nothing"
    lab.open_gate()
    ended = command.ended()
    assert ended.code == 0, ended.err
    assert lab.published() == FINAL
    check_sound(lab)


MANY = """\
workflow: alone
loops: {i: {count: 60}}
jobs:
  Make:
    for: [i]
    uses: python
    with: {call: "making:make", i: "${{ i }}"}
    outputs: {Text: {type: text, path: "made/${{ i }}.txt"}}
  Join:
    for: [i]
    uses: python
    with: {call: "making:make", i: "${{ i }}", text: "${{ jobs.Make.outputs.Text[i] }}"}
    outputs: {Text: {type: text}}
"""
MAKING = """
def make(context, i, text=None):
    context.output("Text").write_text(f"{i}" if text is None else text.read_text() + "!")
"""


def test_readers_never_see_a_partial_state(tmp_path: Path) -> None:
    """While a run writes as fast as it can, everything that reads is asked again and again. What is recorded only
    grows; no answer is an error; and what a plan calls clean is there."""
    lab = Beside(tmp_path / "project")
    lab.write({"alone.yaml": MANY, "making.py": MAKING})
    command = lab.start("run", "alone.yaml", "--quiet", "--jobs", "2")
    until(lambda: (lab.root / ".whyrun/alone/runs/r0001").exists() or command.process.poll() is not None)
    seen = looks = 0
    while command.process.poll() is None or looks < 2:
        opened = Project.open(lab.file)
        snapshot = opened.snapshot()
        plan = compute_execution_plan(snapshot, PlanOptions())
        available = snapshot.available_artifacts
        assert len(available) >= seen, "what was there is there"
        seen = len(available)
        for record in available.values():
            assert opened.store.has(record.sha256, record.size)
        assert plan.totals["clean"] + plan.totals["planned"] == 120
        (run,) = list_runs(opened.state)
        assert run.state in ("running", "succeeded")
        find_history(opened, "Job:Make[3]")
        assert verify(opened.state, lab.root, lambda name: None).problems == ()
        looks += 1
    ended = command.ended()
    assert ended.code == 0, ended.err
    assert lab.plan().headlines() == {}
    assert json.loads(lab.whyrun("status", "alone.yaml", "--json").out)["unfinished"] is None
