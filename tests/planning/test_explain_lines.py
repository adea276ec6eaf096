"""The lines of `explain` for one job and for a plan, from hand-made objects."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from project_lab import Lab
from whyrun.artifacts.shared.result import SharedResult
from whyrun.planning.answers.explain import (
    about,
    estimate_seconds,
    expected_durations,
    explain_json,
    headline,
    job_lines,
    logged_duration,
)
from whyrun.planning.input_changes import InputChanged
from whyrun.planning.plan import Plan, PlannedJob, PlanOptions
from whyrun.planning.reasons import Forced, MissingOutput, More, RetryPreviousFailure, UpstreamDirty
from whyrun.planning.reuse import SHARED, Reuse
from whyrun.snapshot.records import Attempt, StepRecord

SUMMARY = {"available": 0, "failed": [], "inputs_changed": [], "jobs": {}}
NONE = {"jobs": 9, "planned": 0, "reused": 0, "clean": 0, "deferred": 0, "inactive": 0}


def job(id_: str = "Job:A", state: Any = "planned", layer: int = 0, **fields: Any) -> PlannedJob:
    return PlannedJob(id_, "shell", layer, state, **fields)


def plan(*jobs: PlannedJob, options: PlanOptions = PlanOptions(), run: str | None = "r0002", **totals: int) -> Plan:  # noqa: B008
    position = None if run is None else {"run": run, "seq": 1}
    return Plan("w", position, options, {**NONE, **totals}, SUMMARY, jobs)


def missing(change: str | None, path: str | None, artifact: str | None = "Artifact:A.B[0]") -> PlannedJob:
    return job(reasons=(MissingOutput(artifact, change, path),))


def test_only_an_edited_published_file_gets_the_hint_to_adopt_it() -> None:
    assert job_lines(missing("changed", "out/a b.txt#part", "Artifact:A.B")) == [
        ("MISSING_OUTPUT", "Artifact:A.B  out/a b.txt#part (changed)"),
        ("", "keep your version: whyrun adopt Artifact:A.B 'out/a b.txt#part'"),
    ]
    element = ("MISSING_OUTPUT", "Artifact:A.B[0]  out/a.txt (changed)")
    assert job_lines(missing("changed", "out/a.txt")) == [element]  # of an array of `Job:A`: it cannot be adopted
    assert job_lines(missing("deleted", "out/a.txt")) == [("MISSING_OUTPUT", "Artifact:A.B[0]  out/a.txt (deleted)")]
    assert job_lines(missing("changed", None)) == [("MISSING_OUTPUT", "Artifact:A.B[0] (changed)")]
    assert job_lines(missing("strange", None)) == [("MISSING_OUTPUT", "Artifact:A.B[0] (strange)")]
    assert job_lines(missing(None, "out/a.txt")) == [("MISSING_OUTPUT", "Artifact:A.B[0]")]
    assert job_lines(missing("changed", "out/a.txt", None)) == [("MISSING_OUTPUT", "it has not succeeded yet")]


def test_a_count_names_the_options_that_list_the_rest() -> None:
    counted = job(reasons=(Forced("layer:0"), More("UPSTREAM_DIRTY", 3)))
    forced, more = ("FORCED", "--force layer:0"), More("UPSTREAM_DIRTY", 3).text("Job:A")
    assert job_lines(counted) == [forced, ("UPSTREAM_DIRTY", more)]
    assert job_lines(counted, "--all") == [forced, ("UPSTREAM_DIRTY", f"{more} (`--all` lists them)")]


def test_reuse_and_condition_come_after_the_reasons() -> None:
    forced = (Forced("layer:0"),)
    told = ("FORCED", "--force layer:0")
    assert job_lines(job(reasons=forced, replaces={"Artifact:A.B[0]": "r0004"})) == [
        told,
        ("adopted", "Artifact:A.B[0] is your version of r0004, and is made again; to have it back:"),
        ("", "whyrun restore 'Artifact:A.B[0]' --from r0004"),
    ]
    upstream = UpstreamDirty("Job:U")
    missing_, changed = MissingOutput("Artifact:A.B[0]", "deleted", "b"), InputChanged("n", "Input:N", "1", "2")
    made, stays = "is made again", "stays only if the results upstream do not change"
    for reasons, fate, when in (
        ((changed,), made, ""),
        ((missing_,), made, ""),
        ((upstream,), stays, " after the run"),
        ((missing_, upstream), stays, " after the run"),
        ((changed, upstream), made, " after the run"),
        ((*forced, upstream), made, " after the run"),
        ((MissingOutput("Artifact:A.B[0]", "retyped", "b"), upstream), made, " after the run"),
    ):
        said = job_lines(job(reasons=reasons, replaces={"Artifact:A.B[0]": "r0004"}))
        your = f"Artifact:A.B[0] is your version of r0004, and {fate}; to have it back{when}:"
        assert ("adopted", your) in said, reasons
    assert job_lines(job(reasons=forced, reuse=Reuse("r0001", "Job:A", {}))) == [told, ("reuse", "r0001")]
    taken = job(reasons=(changed,), replaces={"Artifact:A.B": "r4"}, reuse=Reuse("r0001", "Job:A", {}))
    assert job_lines(taken)[1:] == [
        ("adopted", "Artifact:A.B is your version of r4, and is replaced by an earlier result; to have it back:"),
        ("", "whyrun restore Artifact:A.B --from r4"),
        ("reuse", "r0001"),
    ]
    assert job_lines(job(reasons=forced, reuse=Reuse("r0001", "Job:B", {}))) == [told, ("reuse", "r0001 (Job:B)")]
    shared = Reuse(SHARED, "", {}, SharedResult(1, "f", "shell", "", ()))
    assert job_lines(job(reasons=forced, reuse=shared)) == [told, ("reuse", "shared store")]
    assert job_lines(job(reasons=forced, conditional=True)) == [
        told,
        ("conditional", "whether it runs is decided during the run"),
    ]
    because = {"condition": "1 > n", "inputs": {"Input:N": 2, "Input:S": "a\x1b"}}
    assert job_lines(job(state="inactive", because=because)) == [
        ("condition_false", '1 > n  Input:N = 2, Input:S = "a\\u001b"')
    ]
    assert job_lines(job(state="inactive", because={"condition": "false\x1b", "inputs": {}})) == [
        ("condition_false", "false�")
    ]
    assert job_lines(job(state="inactive", because={"source": "Artifact:B.C"})) == [
        ("source_inactive", "Artifact:B.C is absent")
    ]


def test_a_failure_names_its_attempt_unless_it_was_a_reuse() -> None:
    assert RetryPreviousFailure("r0003", 2, "E", "no").text("Job:A") == "r0003 attempt 2: E: no"
    assert RetryPreviousFailure("r0003", 0, "E", "no").text("Job:A") == "r0003: E: no"
    assert RetryPreviousFailure("r0003", 1, "E", "a" * 199).text("Job:A") == f"r0003 attempt 1: E: {'a' * 199}"
    assert RetryPreviousFailure("r0003", 1, "E", "a" * 200).text("Job:A") == f"r0003 attempt 1: E: {'a' * 200} …"


LONG = list(range(40))


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (1, 2, "1 → 2"),
        (None, 2, "ab12… → 2"),
        ("a" * 78, 2, f'"{"a" * 78}" → 2'),
        ("a" * 79, 2, f'"{"a" * 78}… → 2'),
        ([1], [2], "[1] → [2]"),
        ({"a": LONG}, [LONG], f'{{"a": {str(LONG)[:73]}… → [{str(LONG)[:78]}…'),
        ({"a": LONG, "b": 1}, {"a": LONG, "b": 2}, ".b 1 → 2"),
        ({"a": LONG, "b": 1}, {"a": LONG, "b": 1.0}, ".b 1 → 1.0"),
        ({"a": LONG, "b": True}, {"a": LONG, "c": True}, ".b true → nothing, .c nothing → true"),
        ([*LONG, [1]], [*LONG, [2]], "[40][0] 1 → 2"),
        ([*LONG, [1]], [*LONG, [1, 2]], "[40] [1] → [1, 2]"),
        ([*LONG, 1, 1, 1], [*LONG, 2, 2, 2], "[40] 1 → 2, [41] 1 → 2, [42] 1 → 2"),
        (
            [*LONG, 1, 1, 1, 1], [*LONG, 2, 2, 2, 2],
            "[40] 1 → 2, [41] 1 → 2, [42] 1 → 2, … (4 differences)",
        ),
        # 80 characters side by side are enough; 81 are not
        (["a" * 31, 1], ["a" * 31, 2], f'["{"a" * 31}", 1] → ["{"a" * 31}", 2]'),
        (["a" * 32, 1], ["a" * 31, 1], f'[0] "{"a" * 32}" → "{"a" * 31}"'),
        ({"b": "é", "a": 1}, 2, '{"a": 1, "b": "é"} → 2'),
        ("a" * 70, "b" * 70, f'"{"a" * 70}" → "{"b" * 70}"'),
        ({"a": LONG, "b": {"c": 1}}, {"a": LONG, "b": 2}, '.b {"c": 1} → 2'),
        ({"a": LONG, "b": 2}, {"a": LONG, "b": {"c": 1}}, '.b 2 → {"c": 1}'),
        ([*LONG, [1]], [*LONG, "x"], '[40] [1] → "x"'),
        ([*LONG, "x"], [*LONG, [1]], '[40] "x" → [1]'),
        # scripts and long texts: the lines that differ
        ("a\nb\nc\n", "a\nB\nc\n", "line 2: `b` → `B`"),
        ("a\nb\n", "a\nb\nc\n", "line 3: `c` (added)"),
        ("a\nb\nc", "a\nc", "line 2: `b` (removed)"),
        ("a\nb\nc\nd", "a", "lines 2–4 (removed)"),
        ("a\nb\nc\nd", "a\nB\nC\nx\nd", "line 2: `b` → `B`, … (2 lines → 3)"),
        ("a\n", "a", "line 2: `` (removed)"),
        ("a\na\n", "a\na\na\n", "line 3: `a` (added)"),
        (f"{'a' * 90}b{'c' * 90}", f"{'a' * 90}x", f"line 1: `…{'a' * 20}b{'c' * 57}…` → `…{'a' * 20}x`"),
        (f"  {'a' * 78}", f"  b{'a' * 78}", f"line 1: `  {'a' * 78}` → `  b{'a' * 76}…`"),
    ],
)  # fmt: skip
def test_values_are_shown_side_by_side_or_by_their_differences(old: Any, new: Any, text: str) -> None:
    reason = InputChanged("x", "Input:A.with.x", None, "ab12" + "0" * 60, "cd34" + "0" * 60, old, new)
    assert reason.text("Job:A") == f"Input:A.with.x  {text}"


def test_a_changed_action_shows_versions_rather_than_hashes() -> None:
    files = ("a.py", "b.py")
    versions = ("actions 1.0 → 1.1", "other none → 2")
    reason = InputChanged("action", "Input:A.action", None, "ab12", "cd34", files=files, versions=versions)
    said = "Input:A.action  actions 1.0 → 1.1, other none → 2  (a.py, b.py)"
    assert reason.text("Job:A") == said
    moved = InputChanged("x", "Input:B", "Input:A", "ab12", "cd34")
    assert moved.text("Job:A") == "x ← Input:B (was Input:A)  ab12… → cd34…"
    same = InputChanged("x", "Input:B", "Input:B", "ab12", "cd34")
    assert same.text("Job:A") == "x ← Input:B  ab12… → cd34…"


@pytest.mark.parametrize(
    ("totals", "said"),
    [
        ({"clean": 9}, "after r0002: nothing to do, 9 of 9 jobs up to date"),
        ({"clean": 8, "inactive": 1}, "after r0002: nothing to do, 8 of 9 jobs up to date, 1 inactive"),
        ({"planned": 9}, "after r0002: 9 of 9 jobs to run  (~5 s)"),
        ({"planned": 1, "clean": 0, "jobs": 1}, "after r0002: 1 of 1 job to run  (~5 s)"),
        ({"planned": 1, "clean": 8}, "after r0002: 1 of 9 jobs to run, 8 up to date  (~5 s)"),
        ({"reused": 2, "clean": 7}, "after r0002: none of 9 jobs to run, 2 reused from earlier runs, 7 up to date"),
        ({"deferred": 9}, "after r0002: none of 9 jobs to run, 9 deferred by --up 1"),
    ],
)
def test_the_headline_accounts_for_every_job(totals: dict[str, int], said: str) -> None:
    assert headline(plan(options=PlanOptions(up=1), **totals), 5.0) == f"w {said}"


def test_the_headline_separates_own_and_shared_results_and_names_the_deferring_options() -> None:
    shared = Reuse(SHARED, "", {}, SharedResult(1, "f", "shell", "", ()))
    own = Reuse("r0001", "Job:A", {})
    jobs = (job(reuse=shared), job("Job:B", reuse=own), job("Job:C", reuse=own), job("Job:D"))
    totals = {"planned": 1, "reused": 3, "deferred": 5}
    said = "w before its first run: 1 of 9 jobs to run, 2 reused from earlier runs, 1 reused from the shared store, "
    both = PlanOptions(2, ("Job:A", "Job:B"))
    assert headline(plan(*jobs, options=both, run=None, **totals)) == said + "5 deferred by --target … and --up 2"
    one = PlanOptions(None, ("Job:A",))
    assert headline(plan(jobs[0], options=one, reused=1, deferred=8)) == (
        "w after r0002: none of 9 jobs to run, 1 reused from the shared store, 8 deferred by --target Job:A"
    )


def test_explain_as_json_has_each_job_under_its_block() -> None:
    forced = (Forced("layer:0"),)
    told = [{"code": "FORCED", "by": "layer:0", "text": "--force layer:0"}]
    jobs = (
        job("Job:A", layer=1, reasons=forced, reuse=Reuse("r0001", "Job:A", {})),
        job("Job:B", layer=3, reasons=forced, conditional=True, replaces={"Artifact:B.C": "r0002"}),
        job("Job:C", "deferred", 3, reasons=forced),
        job("Job:D", "inactive", 4, because={"source": "Artifact:B.C"}),
    )
    body = explain_json(plan(*jobs, planned=1, reused=1, deferred=1, inactive=1, clean=5))
    assert body["layers"] == [
        {"layer": 1, "jobs": [{"id": "Job:A", "action": "shell", "layer": 1, "reuse": "r0001", "reasons": told}]},
        {
            "layer": 3,
            "jobs": [
                {
                    "id": "Job:B", "action": "shell", "layer": 3, "conditional": True,
                    "replaces_adopted": {"Artifact:B.C": "r0002"}, "reasons": told,
                }
            ],
        },
    ]  # fmt: skip
    assert body["deferred"] == [{"id": "Job:C", "action": "shell", "layer": 3, "reasons": told}]
    assert body["inactive"] == [{"id": "Job:D", "action": "shell", "layer": 4, "because": {"source": "Artifact:B.C"}}]
    assert body["log_position"] == {"run": "r0002", "seq": 1}
    assert explain_json(plan(run=None))["log_position"] is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0.1 s"), (0.94, "0.9 s"), (0.95, "1 s"), (4.4, "4 s"), (89.4, "89 s"), (89.5, "1 min"), (120, "2 min"),
        (89 * 60, "89 min"), (90 * 60, "1 h 30 min"), (150 * 60, "2 h 30 min"),
    ],
)  # fmt: skip
def test_a_duration_as_one_says_it(seconds: float, said: str) -> None:
    assert about(seconds) == said


def attempt(duration: float, **fields: Any) -> Attempt:
    return Attempt(1, 1, 1, "f", **{"ok": True, "duration": duration, **fields})


def test_the_logged_duration_is_that_of_the_latest_execution() -> None:
    failed = attempt(9.0, ok=False, status="FAILED")
    assert logged_duration(None) is None
    assert logged_duration(StepRecord(attempt(2.0))) == 2.0
    assert logged_duration(StepRecord(attempt(0.0))) == 0.0
    assert logged_duration(StepRecord(attempt(0.0, origin="adopted"))) is None
    assert logged_duration(StepRecord(attempt(3.0, origin="reused"))) == 3.0
    assert logged_duration(StepRecord(failed)) is None
    assert logged_duration(StepRecord(failed, success=attempt(4.0))) == 4.0
    settled = [attempt(5.0), attempt(6.0), failed]
    assert logged_duration(StepRecord(attempt(0.0, origin="adopted"), settled=settled)) == 6.0, "the later of two"


def test_layers_wait_for_each_other_and_share_the_workers() -> None:
    jobs = [job("Job:A"), job("Job:B"), job("Job:C"), job("Job:D", layer=1)]
    known: dict[str, float | None] = {"Job:A": 1.0, "Job:B": 2.0, "Job:C": 6.0, "Job:D": 5.0}
    assert estimate_seconds(plan(*jobs), known, 1) == 14.0
    assert estimate_seconds(plan(*jobs), known, 2) == 11.0, "the longest of a layer at least"
    assert estimate_seconds(plan(*jobs), known, 0) == 14.0
    assert estimate_seconds(plan(*jobs), {**known, "Job:B": None}, 1) is None
    assert estimate_seconds(plan(), {}, 1) == 0.0


def test_the_expected_duration_of_each_job(project: Callable[..., Lab]) -> None:
    flow = """
        workflow: w
        inputs: {Two: {type: "integer[]", default: [1, 2]}}
        loops: {i: {each: inputs.Two}}
        jobs:
          A: {for: [i], uses: shell, with: {i: "${{ i }}", run: "true"}}
          B: {for: [i], uses: shell, with: {i: "${{ i }}", run: "true"}}
    """
    graph = project(flow).opened().graph
    steps = {"Job:A[0]": StepRecord(attempt(4.0))}
    asked: list[list[int]] = []

    def estimator(nodes: list[int]) -> dict[int, float]:
        asked.append(nodes)
        return {nodes[0]: 9.0}

    snapshot: Any = SimpleNamespace(
        dependency_graph=graph, records=SimpleNamespace(steps=steps), estimator=estimator
    )  # fmt: skip
    jobs = [job(graph.job_id(node), node=node) for node in range(4)]
    free = job("Job:Free", reuse=Reuse("r0001", "Job:Free", {}))
    assert expected_durations(plan(free, *jobs), snapshot) == {
        "Job:Free": 0.0, "Job:A[0]": 4.0, "Job:A[1]": 4.0, "Job:B[0]": 9.0, "Job:B[1]": None
    }  # fmt: skip
    assert asked == [[graph.node_of["Job:B[0]"], graph.node_of["Job:B[1]"]]]
    assert expected_durations(plan(jobs[0]), snapshot) == {"Job:A[0]": 4.0}
    assert len(asked) == 1, "nobody is asked about what was timed"
    snapshot.estimator = None
    assert expected_durations(plan(jobs[2]), snapshot) == {"Job:B[0]": None}
