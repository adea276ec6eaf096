"""`compare`: executes again on recorded artifacts, reports differences, and changes nothing without `--accept`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from compare_lab import compare

from project_lab import Lab, codes, wait_until
from whyrun.errors import WhyrunError
from whyrun.log import events as ev

Project = Callable[..., Lab]

WORKFLOW = """
    workflow: w
    inputs: {Alpha: {type: number, default: 0.5}, Data: {type: file, default: data.csv}}
    jobs:
      learn:
        description: learn graph
        uses: python
        with: {call: "learn:graph", data: "${{ inputs.Data }}", alpha: "${{ inputs.Alpha }}"}
        outputs: {graph: {type: file, path: results/graph.xml}}
      count:
        uses: python
        with: {call: "tell:count", graph: "${{ jobs.learn.outputs.graph }}"}
        outputs: {n: {type: integer}}
"""

CODE = """
    EDGES = [("a", "b"), ("b", "c")]

    def graph(data, alpha, context):
        lines = [f'<edge source="{a}" target="{b}"/>' for a, b in EDGES]
        text = '<graphml><graph edgedefault="directed">' + "".join(lines) + "</graph></graphml>"
        context.output("graph").write_text(text)
"""

COUNT = """
    def count(graph):
        return {"n": graph.read_text().count("<edge")}
"""

FILES = {"learn.py": CODE, "tell.py": COUNT, "data.csv": "x\n1\n"}


@pytest.fixture
def learned(project: Project) -> Lab:
    lab = project(WORKFLOW, FILES)
    lab.succeed()
    return lab


def change(lab: Lab) -> None:
    """The action, so that it learns another graph."""
    lab.edit("learn.py", '[("a", "b"), ("b", "c")]', '[("b", "a"), ("c", "d")]')


# --- what is found -----------------------------------------------------------------------------------------------


def test_identical(learned: Lab) -> None:
    found = compare(learned)
    assert found.lines == [
        "[python] IDENTICAL Job:count in #s → outputs: Artifact:count.n (unchanged)",
        "[python] IDENTICAL Job:learn learn graph in #s → outputs: results/graph.xml (unchanged)",
    ]
    assert found.comparisons == {
        "Artifact:count.n": ("IDENTICAL", "r0001", "unchanged"),
        "Artifact:learn.graph": ("IDENTICAL", "r0001", "unchanged"),
    }
    assert {e.step_id: e.status for e in found.of(ev.StepComplete)} == {
        "Job:count": "IDENTICAL",
        "Job:learn": "IDENTICAL",
    }
    assert (found.result.run, found.result.state, found.result.exit_code) == ("r0002", "succeeded", 0)


def test_different(learned: Lab) -> None:
    change(learned)
    found = compare(learned)
    assert (
        found.lines
        == [
            # On the recorded graph: what the changed action makes now is nothing to it.
            "[python] IDENTICAL Job:count in #s → outputs: Artifact:count.n (unchanged)",
            "[python] DIFFERENT Job:learn learn graph in #s → outputs: results/graph.xml (3 edge changes)",
        ][::-1]
    )
    (different,) = [e for e in found.of(ev.Comparison) if e.status == "DIFFERENT"]
    assert (different.artifact, different.against, different.summary, different.details) == (
        "Artifact:learn.graph",
        "r0001",
        "3 edge changes",
        ["edge reversed: a → b is now b → a", "edge removed: b → c", "edge added: c → d"],
    )
    assert found.result.to_json() | {"duration": 0, "cpu_seconds": 0, "peak_memory_bytes": 0, "slowest": []} == {
        "run": "r0002",
        "state": "failed",
        "exit_code": 1,
        "counts": {
            "completed": 2, "reused": 0, "inactive": 0, "failed": 0, "timed_out": 0, "interrupted": 0, "blocked": 0,
            "not_started": 0, "identical": 1, "different": 1, "not_comparable": 0,
        },
        "statuses": {"IDENTICAL": 1, "DIFFERENT": 1},
        "duration": 0,
        "artifacts": [
            {"artifact": "Artifact:count.n", "status": "IDENTICAL", "against": "r0001", "summary": "unchanged",
             "details": [], "more": 0},
            {"artifact": "Artifact:learn.graph", "status": "DIFFERENT", "against": "r0001",
             "summary": "3 edge changes", "more": 0,
             "details": ["edge reversed: a → b is now b → a", "edge removed: b → c", "edge added: c → d"]},
        ],
        "skipped": {},
        "executed": [],
        "accepted": [],
        "outdated": [],
        "cpu_seconds": 0,
        "peak_memory_bytes": 0,
        "peak_memory_step": found.result.usage.peak_step,
        "slowest": [],
        "tasks": {},
    }  # fmt: skip


def test_written_differently_is_identical(project: Project) -> None:
    workflow = """
        workflow: w
        jobs:
          J: {uses: python, with: {call: "tell:it"}, outputs: {T: {type: json, path: out/t.json}}}
    """
    code = """
        def it(context):
            context.output("T").write_text('{"a": 1, "b": 2}')
    """
    lab = project(workflow, {"tell.py": code})
    lab.succeed()
    lab.edit("tell.py", '{"a": 1, "b": 2}', '{"b": 2, "a": 1}')
    found = compare(lab)
    assert found.lines == ["[python] IDENTICAL Job:J in #s → outputs: out/t.json (unchanged)"]
    (comparison,) = found.of(ev.Comparison)
    assert comparison.details == ["the values are the same, but written differently"]
    assert found.result.exit_code == 0


def test_several_outputs_the_different_ones_first(project: Project) -> None:
    names = ["A", "B", "C", "D"]
    outputs = ", ".join(f"{name}: {{type: text}}" for name in names)
    lab = project(
        f"""
        workflow: w
        jobs:
          J: {{uses: python, with: {{call: "tell:it"}}, outputs: {{{outputs}}}}}
        """,
        {"tell.py": 'def it():\n    return {name: name + "\\n" for name in "ABCD"}\n'},
    )
    lab.succeed()
    lab.edit("tell.py", 'name + "\\n" for', 'name + ("x" * (name == "D")) + "\\n" for')
    found = compare(lab)
    assert found.lines == [
        "[python] DIFFERENT Job:J in #s → outputs: Artifact:J.D (1 line changed), Artifact:J.A (unchanged), "
        "Artifact:J.B (unchanged), … (4 in all)"
    ]
    assert found.status()["error"] == "Artifact:J.D: DIFFERENT: 1 line changed"


def test_keys_and_tolerance_stand_with_the_output(project: Project) -> None:
    workflow = """
        workflow: w
        jobs:
          J:
            uses: python
            with: {call: "tell:it"}
            outputs: {T: {type: file, path: out/t.csv, compare: {keys: [id], tolerance: 1e-3}}}
    """
    code = """
        ROWS = [(1, 0.5), (2, 0.7)]

        def it(context):
            context.output("T").write_text("id,x\\n" + "".join(f"{a},{b}\\n" for a, b in ROWS))
    """
    lab = project(workflow, {"tell.py": code})
    lab.succeed()
    lab.edit("tell.py", "[(1, 0.5), (2, 0.7)]", "[(2, 0.7000001), (1, 0.5)]")
    (comparison,) = compare(lab).of(ev.Comparison)
    assert (comparison.status, comparison.details) == (
        "IDENTICAL",
        ["the rows are in another order", "1 number differs within the tolerance of 0.001"],
    )
    lab.edit("tell.py", "(1, 0.5)", "(1, 0.6)")
    (comparison,) = compare(lab).of(ev.Comparison)
    assert (comparison.status, comparison.summary, comparison.details[-1]) == (
        "DIFFERENT",
        "1 cell changed",
        "row id=1, `x`: 0.5 → 0.6",
    )
    lab.edit("tell.py", "[(2, 0.7000001), (1, 0.6)]", "[(1, 0.5), (2, 0.7)]")
    assert lab.plan().headlines() == {}
    lab.edit("workflow.yaml", "tolerance: 1e-3", "tolerance: 0.5")
    assert lab.plan().headlines() == {}, "what a comparison minds is nothing that a job depends on"


def test_a_folder(project: Project) -> None:
    workflow = """
        workflow: w
        jobs:
          J: {uses: python, with: {call: "tell:it"}, outputs: {D: {type: directory, path: out/d}}}
    """
    code = """
        def it(context):
            folder = context.output("D")
            folder.mkdir()
            (folder / "a.json").write_text('{"x": 1}')
            (folder / "b.txt").write_text("b")
    """
    lab = project(workflow, {"tell.py": code})
    lab.succeed()
    lab.edit("tell.py", '{"x": 1}', '{"x": 2}')
    found = compare(lab)
    assert found.comparisons == {"Artifact:J.D": ("DIFFERENT", "r0001", "1 file changed")}
    assert found.of(ev.Comparison)[0].details == ["a.json: 1 value changed ($.x: 1 → 2)"]


# --- what is not compared ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ("parameter", "alpha ← Input:Alpha 0.5 → 0.7"),
        ("file", r"data ← Input:Data [0-9a-f]{4}… → [0-9a-f]{4}…"),
    ],
)
def test_not_comparable(learned: Lab, changed: str, why: str) -> None:
    sets = ("Alpha=0.7",) if changed == "parameter" else ()
    if changed == "file":
        learned.write({"data.csv": "x\n2\n"})
    found = compare(learned, "Job:learn", sets=sets)
    (line,) = found.lines
    assert re.fullmatch(rf"\[python\] SKIPS Job:learn learn graph → not comparable: {why}", line), line
    (skipped,) = found.of(ev.StepSkipped)
    assert (skipped.step_id, skipped.why) == ("Job:learn", "not_comparable")
    assert re.fullmatch(why, skipped.reason)
    assert (found.result.exit_code, found.result.counts.not_comparable) == (0, 1)
    assert found.result.skipped == {"Job:learn": skipped.reason}
    assert found.comparisons == {}
    assert found.of(ev.StepStart) == []


def test_a_changed_parameter_and_action_together_are_not_comparable(learned: Lab) -> None:
    change(learned)
    found = compare(learned, sets=("Alpha=0.7",))
    assert found.lines == [
        "[python] IDENTICAL Job:count in #s → outputs: Artifact:count.n (unchanged)",
        "[python] SKIPS Job:learn learn graph → not comparable: alpha ← Input:Alpha 0.5 → 0.7",
    ]


def test_nothing_to_compare_with(project: Project) -> None:
    lab = project(WORKFLOW, FILES)
    found = compare(lab, "Job:learn")
    assert found.lines == [
        "[python] EXECUTES Job:learn learn graph in #s → inputs: data.csv (4B) → outputs: results/graph.xml (115B)"
    ]
    assert found.result.executed == ("Job:learn",)
    assert (found.result.exit_code, found.comparisons) == (0, {})
    assert not (lab.root / "results").exists(), "nothing is published"


def test_nothing_at_all_to_compare(project: Project) -> None:
    lab = project(WORKFLOW, FILES)
    found = compare(lab)
    assert (found.result.run, found.result.state, found.result.exit_code) == (None, "nothing", 0)
    assert lab.runs() == []


def test_a_job_without_recorded_inputs_is_not_comparable(project: Project) -> None:
    lab = project(WORKFLOW, FILES)
    found = compare(lab, "Job:count")
    assert found.lines == ["[python] SKIPS Job:count → not comparable: Artifact:learn.graph is not available"]


def test_a_failed_latest_attempt_has_no_result(learned: Lab) -> None:
    learned.edit("learn.py", "lines =", "1 / 0; lines =")
    assert learned.run().exit_code == 1
    found = compare(learned)
    # Without an ID only what has a result; and what the failed one made before is not available to `count`.
    assert found.lines == ["[python] SKIPS Job:count → not comparable: Artifact:learn.graph is not available"]


def test_inactive_jobs(project: Project) -> None:
    workflow = """
        workflow: w
        inputs: {On: {type: boolean, default: true}}
        jobs:
          J: {uses: python, if: "${{ inputs.On }}", with: {call: "tell:it"}, outputs: {T: {type: text}}}
          K: {uses: python, with: {call: "tell:it", t: "${{ jobs.J.outputs.T }}"}, outputs: {T: {type: text}}}
    """
    lab = project(workflow, {"tell.py": 'def it(t=""):\n    return {"T": "x"}\n'})
    lab.succeed()
    assert compare(lab, sets=("On=false",)).result.run is None
    found = compare(lab, "Job:*", sets=("On=false",))
    assert found.lines == [
        "[python] SKIPS Job:J → condition is false",
        "[python] SKIPS Job:K → source is inactive: Artifact:J.T",
    ]
    assert found.result.counts.inactive == 2
    assert compare(lab).result.counts.identical == 2


def test_lost_bytes(learned: Lab) -> None:
    """What was made is neither stored nor published any more: its hash tells that it differs, and nothing goes on."""
    output = learned.snapshot().available_artifacts["Artifact:learn.graph"]
    learned.blob(output.sha256).unlink()
    assert compare(learned).result.counts.identical == 2, "it was put back from the published file"
    learned.blob(output.sha256).unlink()
    learned.write({"results/graph.xml": None})
    change(learned)
    assert compare(learned).lines == [
        "[python] DIFFERENT Job:learn learn graph in #s → outputs: results/graph.xml "
        "(different bytes; the earlier ones are gone)",
        "[python] SKIPS Job:count → not comparable: the bytes of Artifact:learn.graph are gone",
    ]


def test_one_output_of_which_the_bytes_are_lost(project: Project) -> None:
    """That the other is the same does not make the job IDENTICAL, and where the hash is the same nothing is lost."""
    workflow = """
    workflow: w
    jobs:
      J:
        uses: python
        with: {call: "tell:it"}
        outputs: {T: {type: text}, U: {type: text}}
    """
    lab = project(workflow, {"tell.py": 'def it():\n    return {"T": "old", "U": "x"}\n'})
    lab.succeed()
    lost = lab.blob(lab.snapshot().available_artifacts["Artifact:J.T"].sha256)
    lost.unlink()
    assert compare(lab).comparisons["Artifact:J.T"] == ("IDENTICAL", "r0001", "unchanged")
    lost.unlink()
    lab.edit("tell.py", "old", "new")
    found = compare(lab)
    assert found.comparisons == {
        "Artifact:J.T": ("DIFFERENT", "r0001", "different bytes; the earlier ones are gone"),
        "Artifact:J.U": ("IDENTICAL", "r0001", "unchanged"),
    }
    assert found.result.exit_code == 1


# --- which ones --------------------------------------------------------------------------------------------------

LOOP = """
    workflow: w
    loops: {n: {count: 3}}
    jobs:
      J:
        for: [n]
        uses: python
        with: {call: "tell:it", n: "${{ n }}"}
        outputs: {T: {type: text, path: "out/${{ n }}.txt"}}
"""


@pytest.mark.parametrize(
    ("ids", "jobs"),
    [
        ((), ["Job:J[0]", "Job:J[1]", "Job:J[2]"]),
        (("Job:J[*]",), ["Job:J[0]", "Job:J[1]", "Job:J[2]"]),
        (("Job:J[1]",), ["Job:J[1]"]),
        (("Artifact:J.T[2]", "Job:J[0]", "Job:J[0]"), ["Job:J[0]", "Job:J[2]"]),
        (("Artifact:*.T[1]",), ["Job:J[1]"]),
    ],
)
def test_ids_and_patterns(project: Project, ids: tuple[str, ...], jobs: list[str]) -> None:
    lab = project(LOOP, {"tell.py": 'def it(n):\n    return {"T": f"{n}\\n"}\n'})
    lab.succeed()
    found = compare(lab, *ids)
    assert sorted(e.step_id for e in found.of(ev.StepComplete)) == jobs
    assert found.result.counts.identical == len(jobs)


@pytest.mark.parametrize(
    ("id_", "code"),
    [("Job:nobody", "UNKNOWN_REFERENCE"), ("Job:learn[*]", "UNKNOWN_REFERENCE"), ("Input:Alpha", "USAGE")],
)
def test_unknown_ids(learned: Lab, id_: str, code: str) -> None:
    with pytest.raises(WhyrunError) as problem:
        compare(learned, id_)
    assert [d.code for d in problem.value.diagnostics] == [code]
    assert learned.runs() == ["r0001"]


def test_against_an_earlier_run(learned: Lab) -> None:
    change(learned)
    learned.succeed()
    now = compare(learned)
    assert now.comparisons["Artifact:learn.graph"] == ("IDENTICAL", "r0002", "unchanged")
    then = compare(learned, against="r0001")
    assert then.comparisons == {
        "Artifact:learn.graph": ("DIFFERENT", "r0001", "3 edge changes"),
        # On the graph as it was after that run.
        "Artifact:count.n": ("IDENTICAL", "r0001", "unchanged"),
    }
    assert then.result.exit_code == 1
    start = then.of(ev.RunStart)[0]
    assert (start.mode, start.options) == (
        "compare",
        {"ids": [], "against": "r0001", "accept": False, "fail_fast": False},
    )


def test_against_an_unknown_run(learned: Lab) -> None:
    with pytest.raises(WhyrunError) as problem:
        compare(learned, against="r0099")
    assert [d.code for d in problem.value.diagnostics] == ["RUN_UNKNOWN"]


# --- what it leaves behind ---------------------------------------------------------------------------------------


def test_planning_does_not_see_it(learned: Lab) -> None:
    change(learned)
    before, published = learned.plan(), learned.read("results/graph.xml")
    available = learned.snapshot().available_artifacts
    compare(learned)
    after = learned.plan()
    assert after.digest == before.digest
    assert codes(after) == {"Job:learn": ["INPUT_CHANGED"], "Job:count": ["UPSTREAM_DIRTY"]}
    assert learned.snapshot().available_artifacts == available
    assert learned.read("results/graph.xml") == published


def test_planning_does_not_see_a_first_run_that_compares(project: Project) -> None:
    lab = project(WORKFLOW, FILES)
    before = lab.plan()
    compare(lab, "Job:learn")
    assert lab.plan().digest == before.digest


def test_the_evidence_is_that_of_a_run_without_a_plan(learned: Lab) -> None:
    change(learned)
    found = compare(learned)
    assert found.folder is not None
    assert sorted(path.name for path in found.folder.iterdir()) == [
        "artifacts", "cfg", "commands.jsonl", "debug.log", "events.jsonl", "manifest.yaml", "metrics.jsonl", "source",
        "status.json", "whyrun.log",
    ]  # fmt: skip
    status = found.status()
    assert {name: status[name] for name in status if name not in ("started", "ended")} == {
        "ok": False,
        "state": "failed",
        "exit_code": 1,
        "steps_total": 2,
        "steps_completed": 2,
        "steps_failed": 0,
        "steps_skipped": 0,
        "steps_blocked": 0,
        "steps_interrupted": 0,
        "backend": "local",
        "error": "Artifact:learn.graph: DIFFERENT: 3 edge changes",
    }
    made = found.folder / "artifacts" / "learn" / "graph.xml"
    assert made.is_symlink()
    assert '<edge source="c" target="d"/>' in made.read_text()
    (end,) = found.of(ev.RunComplete)
    assert end.counts == {
        "completed": 2, "failed": 0, "timed_out": 0, "interrupted": 0, "skipped": 0, "blocked": 0, "identical": 1,
        "different": 1,
    }  # fmt: skip
    assert [e.path for e in found.of(ev.ArtifactAvailable)] == [None, None], "nothing is published"
    commands = [json.loads(line) for line in (found.folder / "commands.jsonl").read_bytes().splitlines()]
    assert {c["step_id"]: c["compare"] for c in commands}["Job:learn"] == {
        "graph": {
            "id": "Artifact:learn.graph",
            "sha256": learned.snapshot().available_artifacts["Artifact:learn.graph"].sha256,
            "type": "file",
            "from_run": "r0001",
        }
    }
    assert "edge removed: b → c" in (found.folder / "debug.log").read_text()


def test_a_user_may_edit_published_files_meanwhile(learned: Lab) -> None:
    """The recorded version is what is compared with, not the file."""
    learned.write({"results/graph.xml": "my own"})
    found = compare(learned)
    assert found.result.counts.identical == 2
    assert learned.read("results/graph.xml") == "my own"


# --- accepting ---------------------------------------------------------------------------------------------------


def test_accepting_takes_the_new_results(learned: Lab) -> None:
    change(learned)
    found = compare(learned, accept=True)
    assert found.result.exit_code == 1, "a difference is one, accepted or not"
    assert '<edge source="c" target="d"/>' in learned.read("results/graph.xml")
    assert learned.snapshot().available_artifacts["Artifact:learn.graph"].run == "r0002"
    # What was learned counts; `count` was executed on the graph of before, so it runs.
    assert codes(learned.plan()) == {"Job:count": ["INPUT_CHANGED"]}
    assert learned.succeed().executed == ["Job:count"]
    again = compare(learned)
    assert {a: c[:2] for a, c in again.comparisons.items()} == {
        "Artifact:learn.graph": ("IDENTICAL", "r0002"),
        "Artifact:count.n": ("IDENTICAL", "r0003"),
    }


def test_accepting_an_identical_result_of_a_changed_action_spares_the_run(learned: Lab) -> None:
    learned.edit("learn.py", "lines = [", "other = 1\n    lines = [")
    assert codes(learned.plan()) == {"Job:learn": ["INPUT_CHANGED"], "Job:count": ["UPSTREAM_DIRTY"]}
    assert compare(learned, accept=True).result.exit_code == 0
    assert learned.plan().headlines() == {}


def test_accepting_saves_a_file_of_the_user_first(learned: Lab) -> None:
    learned.write({"results/graph.xml": "my own"})
    change(learned)
    found = compare(learned, "Job:learn", accept=True)
    (displaced,) = found.of(ev.FileDisplaced)
    assert learned.blob(displaced.sha256).read_text() == "my own"


def test_accepting_takes_no_failures(learned: Lab) -> None:
    learned.edit("learn.py", "lines = [", "1 / 0; lines = [")
    before = learned.plan()
    found = compare(learned, accept=True)
    assert (found.result.exit_code, found.result.counts.failed) == (1, 1)
    assert learned.snapshot().available_artifacts["Artifact:learn.graph"].run == "r0001"
    assert learned.plan().digest == before.digest


def test_accepting_a_job_without_a_recorded_result(project: Project) -> None:
    lab = project(WORKFLOW, FILES)
    compare(lab, "Job:learn", accept=True)
    assert lab.plan().headlines() == {"Job:count": "MISSING_OUTPUT"}
    assert (lab.root / "results" / "graph.xml").exists()


# --- going wrong -------------------------------------------------------------------------------------------------


def test_failed(learned: Lab) -> None:
    learned.edit("learn.py", "lines = [", 'raise ValueError("no data"); lines = [')
    before = learned.plan()
    found = compare(learned)
    failed, identical = found.lines
    assert identical == "[python] IDENTICAL Job:count in #s → outputs: Artifact:count.n (unchanged)"
    told = re.fullmatch(
        r"\[python\] FAILED Job:learn learn graph after [\d.]+s → ValueError: no data \(see log line (\d+)\)", failed
    )
    assert told is not None, failed
    assert found.folder is not None
    log = (found.folder / "whyrun.log").read_text().splitlines()
    assert log[int(told.group(1)) - 1] == "    Traceback (most recent call last):"
    assert (found.result.state, found.result.exit_code, found.result.counts.failed) == ("failed", 1, 1)
    assert found.status()["error"] == "Job:learn: ValueError: no data"
    assert learned.plan().digest == before.digest


def test_timed_out(learned: Lab) -> None:
    learned.edit("workflow.yaml", "description: learn graph", "description: learn graph\n    timeout: 300ms")
    learned.edit("learn.py", "lines = [", "import time; time.sleep(30); lines = [")
    found = compare(learned, "Job:learn")
    ((status, line),) = found.heard.lines
    assert status == "TIMED_OUT"
    assert re.search(r" TIMED_OUT Job:learn learn graph after [\d.]+s → timeout: 0\.3s", line), line
    assert (found.result.exit_code, found.result.counts.timed_out) == (1, 1)


def test_retries_are_those_of_the_job(learned: Lab) -> None:
    learned.edit("workflow.yaml", "description: learn graph", "retries: {max: 1, backoff: 10ms}")
    once = "here = Path(__file__).parent / 'tried'; tried = here.exists(); here.touch(); assert tried"
    learned.edit("learn.py", "lines = [", f"from pathlib import Path; {once}; lines = [")
    found = compare(learned, "Job:learn")
    assert [e.attempt for e in found.of(ev.StepStart)] == [1, 2]
    assert found.result.counts.identical == 1


def test_requests_are_neither_recalled_nor_remembered(project: Project) -> None:
    workflow = """
        workflow: w
        jobs:
          J: {uses: python, with: {call: "paid:ask"}, outputs: {T: {type: json}}}
    """
    code = """
        from pathlib import Path

        ORDERS = Path(__file__).parent / "orders"

        def ask(context):
            request = context.recall("request")
            if request is None:
                with ORDERS.open("a") as file:
                    file.write("x")
                context.remember("request", "r")
            return {"T": {"asked": request is None}}
    """
    lab = project(workflow, {"paid.py": code})
    lab.succeed()
    for _ in range(2):
        found = compare(lab)
        assert found.result.counts.identical == 1
        assert found.of(ev.RequestRecorded) == []
    assert lab.read("orders") == "xxx"


def test_one_at_a_time(learned: Lab) -> None:
    from whyrun.log.journal import utc_now
    from whyrun.log.lock import RunLock

    opened = learned.opened()
    with RunLock(opened.state.lock_path, utc_now), pytest.raises(WhyrunError) as problem:
        compare(learned)
    assert [d.code for d in problem.value.diagnostics] == ["LOCKED"]


# --- many, and killed --------------------------------------------------------------------------------------------


def test_a_wide_fan_in_and_limited_resources(project: Project) -> None:
    """Lists of more than 64 members stand elsewhere than in the log; and limits hold as in a run."""
    workflow = """
        workflow: w
        loops: {n: {count: 70}}
        jobs:
          J:
            for: [n]
            uses: python
            resources: {gpu: 1}
            with: {call: "tell:it", n: "${{ n }}"}
            outputs: {T: {type: integer}}
          K:
            uses: python
            with: {call: "tell:add", all: "${{ jobs.J.outputs.T[:] }}"}
            outputs: {T: {type: integer}}
    """
    code = """
        def it(n):
            return {"T": n}

        def add(all):
            return {"T": sum(all)}
    """
    lab = project(workflow, {"tell.py": code})
    lab.succeed()
    lab.edit("tell.py", "sum(all)", "sum(all) + 1")
    found = compare(lab, limits={"gpu": 1})
    assert (found.result.counts.identical, found.result.counts.different) == (70, 1)
    assert [e.details for e in found.of(ev.Comparison) if e.status == "DIFFERENT"] == [["$: 2415 → 2416"]]
    with pytest.raises(WhyrunError) as problem:
        compare(lab, limits={"gpu": 0.5})
    assert [d.code for d in problem.value.diagnostics] == ["USAGE"]


@pytest.mark.parametrize("accept", [False, True])
def test_killed(project: Project, accept: bool) -> None:
    workflow = """
        workflow: w
        jobs:
          J: {uses: python, with: {call: "slow:wait"}, outputs: {T: {type: text, path: out/t.txt}}}
    """
    code = """
        import time
        from pathlib import Path

        HERE = Path(__file__).parent

        def wait():
            (HERE / "began").touch()
            while (HERE / "wait").exists():
                time.sleep(0.02)
            return {"T": "x"}
    """
    lab = project(workflow, {"slow.py": code})
    lab.succeed()
    before = lab.plan()
    lab.write({"began": None, "wait": ""})
    command = [sys.executable, "-m", "whyrun.cli.main", "compare", *(["--accept"] if accept else [])]
    process = subprocess.Popen(command, cwd=lab.root, stderr=subprocess.DEVNULL)
    wait_until((lab.root / "began").exists)
    wait_until(lambda: "step_start" in (lab.run_folder("r0002") / "events.jsonl").read_text())
    process.kill()
    process.wait()
    lab.write({"wait": None})
    assert lab.plan().digest == before.digest
    found = compare(lab)
    assert (found.result.run, found.result.counts.identical) == ("r0003", 1)
    (note,) = found.heard.notes
    assert note == "r0002 was cut short; its log was repaired (1 open step counted as interrupted)"
    folder = lab.run_folder("r0002")
    assert json.loads((folder / "status.json").read_bytes())["state"] == "interrupted"
    assert not (folder / "plan.json").exists()
    assert lab.plan().digest == before.digest
