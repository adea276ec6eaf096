"""A run with stages, as it goes on: no step waits for a stage that it does not need, and a run may end within."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from project_lab import NOT_TRACED, Lab, Process, wait_until
from whyrun.errors import WhyrunError
from whyrun.facts.plans import plan_of_run
from whyrun.log import events as ev
from whyrun.log.journal import STAGES_FILE

Make = Callable[..., Lab]

TEXT = """\
workflow: w
inputs: {N: {type: integer, default: 2}}
loops: {segment: {count: jobs.Script.outputs.Count}}
jobs:
  Script:
    uses: python
    with: {call: "s:script", n: "${{ inputs.N }}"}
    outputs: {Count: {type: integer}}
  Clip:
    for: [segment]
    uses: python
    resources: {slot: 1}
    with: {call: "s:clip", i: "${{ segment }}"}
    outputs: {Frame: {type: json, path: "out/f-${{ segment }}.json"}}
  Long:
    uses: python
    retries: {max: 1, backoff: 1ms}
    resources: {slot: 1}
    with: {call: "s:long"}
    outputs: {Seen: {type: json}}
  Tail:
    needs: [Clip]
    uses: python
    with: {call: "s:tail", seen: "${{ jobs.Long.outputs.Seen }}", frames: "${{ jobs.Clip.outputs.Frame[:] }}"}
    outputs: {All: {type: json}}
"""
CODE = """\
import time
from pathlib import Path

HERE = Path(__file__).parent

def wait_for(name):
    deadline = time.monotonic() + 300
    while not (HERE / name).exists():
        assert time.monotonic() < deadline, f"{name} did not come"
        time.sleep(0.01)

def script(n):
    wait_for("long-began")
    return {"Count": n}

def clip(i):
    (HERE / f"clip-{i}").touch()
    return {"Frame": i}

def long():
    first = not (HERE / "long-began").exists()
    (HERE / "long-began").touch()
    wait_for("clip-1")  # which a stage plans while this step runs
    if first:
        raise RuntimeError("once more")
    return {"Seen": sorted(path.name for path in HERE.glob("clip-*"))}

def tail(seen, frames): return {"All": [seen, frames]}
"""


def test_steps_go_on_while_a_stage_is_planned(project: Make) -> None:
    """`Long` begins before the stage and ends after it: its number is another one then, also for its next attempt."""
    lab = project(TEXT, {"s.py": CODE, **NOT_TRACED})
    ran = lab.succeed(limits={"slot": 2})
    assert ran.executed == ["Job:Clip[0]", "Job:Clip[1]", "Job:Long", "Job:Script", "Job:Tail"]
    assert [e.attempt for e in ran.of(ev.StepStart) if e.step_id == "Job:Long"] == [1, 2]
    assert lab.content("Artifact:Tail.All") == [["clip-0", "clip-1"], [0, 1]]
    order = [e for e in ran.events if isinstance(e, ev.PlanComputed | ev.StepStart | ev.StepComplete)]
    stage = next(i for i, e in enumerate(order) if isinstance(e, ev.PlanComputed) and e.stage == 1)
    assert ev.StepStart in {type(e) for e in order[:stage] if getattr(e, "step_id", "") == "Job:Long"}
    assert ev.StepComplete in {type(e) for e in order[stage:] if getattr(e, "step_id", "") == "Job:Long"}
    plan = plan_of_run(lab.opened(), "r0001").plan
    assert plan.to_bytes() == (ran.result.whole or ran.plan).to_bytes()
    assert lab.run().result.run is None


WAITING = """\
import time
from pathlib import Path

HERE = Path(__file__).parent

def script(n):
    with (HERE / "scripts").open("a") as file:
        file.write("paid\\n")
    return {"Count": n}

def clip(i):
    deadline = time.monotonic() + 300
    while i == 1 and not (HERE / "go").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return {"Frame": i}

def long(): return {"Seen": []}
def tail(seen, frames): return {"All": [seen, frames]}
"""


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_run_that_ends_in_the_middle_of_a_stage_goes_on_later(project: Make, number: int, exit_code: int) -> None:
    lab = project(TEXT, {"s.py": WAITING, **NOT_TRACED})
    process = Process(lab, grace=0.0)
    wait_until(lambda: bool(lab.runs()))
    process.wait_for_start("Job:Clip[1]")
    wait_until(lambda: {"Job:Clip[0]", "Job:Long"} <= set(_completed(lab)))
    process.signal(number)
    assert process.end()[0] == exit_code
    (lab.root / "go").touch()
    assert [job.id for job in lab.plan().planned] == ["Job:Clip[1]", "Job:Tail"]
    stages = lab.run_folder("r0001") / STAGES_FILE
    whole = stages.read_bytes()
    if number == signal.SIGKILL:
        stages.write_bytes(whole + b'{"half of a line')  # as a kill may leave it
    ran = lab.succeed()
    assert (ran.executed, ran.result.stages, lab.read("scripts")) == (["Job:Clip[1]", "Job:Tail"], (), "paid\n")
    assert stages.read_bytes() == whole
    planned = plan_of_run(lab.opened(), "r0001").plan
    assert {"Job:Clip[0]", "Job:Clip[1]"} <= {job.id for job in planned.planned}
    assert json.loads(whole)["source"] == "Job:Script"


def _completed(lab: Lab) -> list[str]:
    return [event.step_id for event in lab.events("r0001") if isinstance(event, ev.StepComplete)]


def test_a_budget_holds_instances_back_that_it_cannot_pay(project: Make) -> None:
    code = WAITING.replace("def clip(i):\n", "def clip(i, context):\n    context.cost(1, item='clip')\n")
    lab = project(TEXT, {"s.py": code, "go": "", "prices.yaml": "jobs: {Clip: 1}\n", **NOT_TRACED})
    ran = lab.run(sets=["N=3"], budget="2", jobs=1)
    assert (ran.exit_code, ran.held, ran.blocked) == (1, ["Job:Clip[2]"], {"Job:Tail": ["Job:Clip[2]"]})
    assert ran.executed == ["Job:Clip[0]", "Job:Clip[1]", "Job:Long", "Job:Script"]


SIDE_BY_SIDE = """\
workflow: p
inputs: {D: {type: json, default: {a: [n1], b: ["1"], c: [z]}}}
loops:
  x: {each: jobs.A.outputs.K}
  y: {each: jobs.B.outputs.K}
  z: {each: jobs.C.outputs.K}
jobs:
  A: {uses: python, with: {call: "s:cut", who: a, d: "${{ inputs.D }}"}, outputs: {K: {type: "string[]"}}}
  B: {uses: python, needs: [A], with: {call: "s:cut", who: b, d: "${{ inputs.D }}"}, outputs: {K: {type: "string[]"}}}
  C: {uses: python, with: {call: "s:cut", who: c, d: "${{ inputs.D }}"}, outputs: {K: {type: "string[]"}}}
  DA:
    for: [x]
    uses: python
    with: {call: "s:draw", t: "${{ jobs.A.outputs.K[x] }}"}
    outputs: {P: {type: string, path: "o/${{ x }}.txt"}}
  DB:
    for: [y]
    uses: python
    with: {call: "s:draw", t: "${{ jobs.B.outputs.K[y] }}"}
    outputs: {P: {type: string, path: "o/PATH${{ y }}.txt"}}
  DC:
    for: [z]
    uses: python
    with: {call: "s:draw", t: "${{ jobs.C.outputs.K[z] }}"}
    outputs: {P: {type: string, path: "c/${{ z }}.txt"}}
"""
CUT = """\
def cut(who, d): return {"K": {word: word for word in d[who]}}
def draw(t): return {"P": t}
"""


def test_a_stage_that_is_refused_leaves_the_others_as_they_are(project: Make) -> None:
    """`A` has ended before `B` begins, and `C` may end before or after both."""
    lab = project(SIDE_BY_SIDE.replace("PATH", "n"), {"s.py": CUT, **NOT_TRACED})
    ran = lab.run()
    assert ran.executed == ["Job:A", "Job:B", "Job:C", "Job:DA[n1]", "Job:DC[z]"]
    assert ran.blocked == {"Job:DB[?]": ["Job:B"]}
    (problem,) = (event.problem for event in ran.of(ev.StepBlocked))
    assert isinstance(problem, str)
    assert problem.startswith("DUPLICATE_OUTPUT_PATH: `o/n1.txt` would be written by both")


def test_jobs_with_open_loops_share_a_folder(project: Make) -> None:
    """What their instances are called is not known yet, so it is no conflict."""
    lab = project(SIDE_BY_SIDE.replace("PATH", ""), {"s.py": CUT, **NOT_TRACED})
    lab.succeed()
    assert sorted(path.name for path in (lab.root / "o").iterdir()) == ["1.txt", "n1.txt"]


def test_what_no_instance_could_do_is_refused_before_the_source_is_paid(
    project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = project(TEXT, {"s.py": WAITING, **NOT_TRACED})
    with monkeypatch.context() as limited:
        limited.setattr(resource, "getrlimit", lambda _: (4000, 4000))
        with pytest.raises(WhyrunError) as refused:
            lab.run(jobs=5000)
    assert [problem.code for problem in refused.value.diagnostics] == ["BACKEND_UNAVAILABLE"]
    (tmp_path / "elsewhere").mkdir()
    (lab.root / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WhyrunError) as refused:
        lab.run()
    (problem,) = refused.value.diagnostics
    message = "`out/f-?.json` would be written through the link `out`, which leads out of the project"
    assert (problem.code, problem.message) == ("PATH_OUTSIDE", message)
    assert (lab.runs(), (lab.root / "scripts").exists()) == ([], False)
