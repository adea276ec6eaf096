"""`explain --trace`: every step to the verdict on one job instance, for each kind of verdict."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from project_lab import Lab
from whyrun.planning.answers.trace import JUDGE, Trace, TraceLine, trace_job
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.planning.reasons import CODES, KINDS
from whyrun.snapshot.snapshot import PlanningSnapshot

FLOW = """
    workflow: w
    inputs: {X: {type: integer, default: 1}, Fail: {type: boolean, default: false}, On: {type: boolean, default: true}}
    jobs:
      Make: {uses: python, with: {call: "acts:one", x: "${{ inputs.X }}", fail: "${{ inputs.Fail }}"},
             outputs: {N: {type: integer, path: out/n.json}}}
      Maybe: {uses: python, if: "${{ inputs.On }}", with: {call: "acts:one", n: "${{ jobs.Make.outputs.N }}"},
              outputs: {N: {type: integer}}}
      Last: {uses: python, with: {call: "acts:one", all: ["${{ jobs.Make.outputs.N }}", "${{ inputs.X }}"]},
             outputs: {N: {type: integer}}}
"""
CODE = {
    "acts.py": "def one(x=0, fail=False, **given):\n    if fail:\n        raise ValueError('no')\n    return {'N': x}\n"
}
Make = Callable[..., Lab]


def trace_of(snapshot: PlanningSnapshot, lab: Lab, job: str, options: PlanOptions | None = None) -> Trace:
    node = snapshot.dependency_graph.node_of[job]
    record = snapshot.record(node)
    success = record.last_success() if record is not None else None
    consumed = None
    if success is not None:
        consumed = lab.opened().history().consumed([success])[(success.run, success.seq)]
    return trace_job(snapshot, compute_execution_plan(snapshot, options), node, consumed)


def trace(lab: Lab, job: str, sets: tuple[str, ...] = (), **options: Any) -> str:
    """The trace as it is printed, without the reasons that were not found, and with HASH for hashes: those of actions
    and lists change with the code."""
    answer = trace_of(lab.snapshot(sets), lab, job, PlanOptions(**options))
    assert not answer.contradiction
    if answer.state != "inactive":
        judged = (line.subject for line in answer.lines if line.module == JUDGE and line.subject in CODES)
        assert tuple(dict.fromkeys(judged)) == CODES, "the trace tells of every reason, in the order of the union"
    found = tuple(line for line in answer.lines if line.module != JUDGE or not line.text.startswith("no: "))
    return text(re.sub(r"\b[0-9a-f]{4}…", "HASH…", dataclasses.replace(answer, lines=found).render()))


def text(lines: str) -> str:
    """Columns are as wide as the longest code, so the blanks between them are no part of what a test compares."""
    return re.sub(r"(?<=\S) {3,}", "   ", text_as_it_is(lines))


def text_as_it_is(lines: str) -> str:
    return textwrap.dedent(lines).strip("\n")


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(FLOW, CODE)


def test_a_job_that_never_ran(lab: Lab) -> None:
    assert trace(lab, "Job:Make") == text("""
        Job:Make
          snapshot/history     latest attempt           none: it never ran
          snapshot/observing   inputs                   the log has no earlier inputs
          snapshot/observing   outputs                  not looked for: it never ran
          snapshot/suspects    suspect                  it never ran
          planning/consume     action                   python  HASH…
          planning/consume     call                     Input:Make.with.call "acts:one"
          planning/consume     fail                     Input:Fail false
          planning/consume     x                        Input:X 1
          planning/judge       MISSING_OUTPUT           Artifact:Make.N
          planning/reuse       no candidate             no earlier result has the fingerprint
          planning/plan        layer                    0
          planning/plan        verdict                  planned: it will be executed
    """)


def test_the_columns_are_aligned() -> None:
    lines = (TraceLine("a/b", "x", "one"), TraceLine("a/bcd", "longer", "two"))
    assert Trace("Job:A", "clean", lines, False).render() == text_as_it_is("""
        Job:A
          a/b     x        one
          a/bcd   longer   two
    """)


def test_each_reason_that_was_not_found_says_why(lab: Lab) -> None:
    never_ran = trace_of(lab.snapshot(), lab, "Job:Make")
    assert line(never_ran, JUDGE, "INPUT_CHANGED") == "no: there is no success to compare with"
    lab.succeed()
    clean = trace_of(lab.snapshot(), lab, "Job:Make")
    assert {kind.code: line(clean, JUDGE, kind.code) for kind in KINDS} == {
        kind.code: f"no: {kind.if_none}" for kind in KINDS
    }


def test_a_clean_job(lab: Lab) -> None:
    lab.succeed()
    assert trace(lab, "Job:Make") == text("""
        Job:Make
          snapshot/history     latest attempt           r0001 attempt 1: succeeded (executed)
          snapshot/history     last success             r0001 attempt 1 (executed)
          snapshot/observing   inputs                   2 as r0001 recorded them
          snapshot/observing   outputs                  as r0001 attempt 1 recorded them
          snapshot/suspects    not a suspect            its fingerprint is the recorded one, and its outputs are available
          planning/consume     action                   python  HASH…, as consumed
          planning/consume     call                     Input:Make.with.call "acts:one", as consumed
          planning/consume     fail                     Input:Fail false, as consumed
          planning/consume     x                        Input:X 1, as consumed
          planning/judge       not asked                it is not a suspect, and nothing upstream changed; asked now, the judge says:
          planning/reuse       not asked                the instance is clean
          planning/plan        layer                    0
          planning/plan        verdict                  clean: it is up to date
    """)  # noqa: E501  # lines as they are printed


def test_a_dirty_job_with_options_that_leave_it_out(lab: Lab) -> None:
    lab.succeed()
    assert lab.run(sets=["Fail=true"]).exit_code == 1
    sets = ("X=2", "Fail=true")
    assert trace(lab, "Job:Make", sets, targets=("Job:Make",), up=1) == text("""
        Job:Make
          snapshot/history     latest attempt           r0002 attempt 1: FAILED: ValueError: no
          snapshot/history     last success             r0001 attempt 1 (executed)
          snapshot/observing   Input:X                  1 → 2 since r0002
          snapshot/observing   inputs                   1 as r0002 recorded it
          snapshot/observing   outputs                  not looked for: its latest attempt did not succeed
          snapshot/suspects    suspect                  its latest attempt did not succeed
          planning/consume     action                   python  HASH…, as consumed
          planning/consume     call                     Input:Make.with.call "acts:one", as consumed
          planning/consume     fail                     Input:Fail false → Input:Fail true
          planning/consume     x                        Input:X 1 → Input:X 2
          planning/judge       RETRY_PREVIOUS_FAILURE   r0002 attempt 1: ValueError: no
          planning/judge       MISSING_OUTPUT           Artifact:Make.N
          planning/judge       INPUT_CHANGED            fail ← Input:Fail  false → true
          planning/judge       INPUT_CHANGED            x ← Input:X  1 → 2
          planning/reuse       no candidate             no earlier result has the fingerprint
          planning/plan        layer                    0
          planning/plan        --target                 needs it
          planning/plan        --up 1                   runs layer 0
          planning/plan        verdict                  planned: it will be executed
    """)
    assert trace(lab, "Job:Last", sets, targets=("Job:Make",), force=("Job:Make",), up=1) == text("""
        Job:Last
          snapshot/history     latest attempt           r0001 attempt 1: succeeded (executed)
          snapshot/history     last success             r0001 attempt 1 (executed)
          snapshot/observing   Input:X                  1 → 2 since r0002
          snapshot/observing   outputs                  as r0001 attempt 1 recorded them
          snapshot/suspects    suspect                  `all[0]` is not known from the log alone
          planning/consume     action                   python  HASH…, as consumed
          planning/consume     all[0]                   not known yet: it waits for a job upstream
          planning/consume     all[1]                   Input:X 1 → Input:X 2
          planning/consume     call                     Input:Last.with.call "acts:one", as consumed
          planning/judge       INPUT_CHANGED            all[1] ← Input:X  1 → 2
          planning/judge       UPSTREAM_FAILED          Artifact:Make.N
          planning/judge       UPSTREAM_DIRTY           Job:Make
          planning/reuse       not considered           what it would consume is not known yet; the run decides
          planning/plan        layer                    1
          planning/plan        --force                  does not name it
          planning/plan        --target                 does not need it
          planning/plan        --up 1                   runs layer 0
          planning/plan        verdict                  deferred: it has a reason, but the options leave it out of this run
    """)  # noqa: E501  # lines as they are printed


def test_an_inactive_job(lab: Lab) -> None:
    lab.succeed()
    assert trace(lab, "Job:Maybe", ("On=false",)) == text("""
        Job:Maybe
          snapshot/history     latest attempt    r0001 attempt 1: succeeded (executed)
          snapshot/history     last success      r0001 attempt 1 (executed)
          snapshot/observing   Input:On          true → false since r0001
          snapshot/observing   outputs           as r0001 attempt 1 recorded them
          snapshot/suspects    suspect           it has a condition
          planning/consume     if                false: Input:On = false
          planning/consume     action            python  HASH…, as consumed
          planning/consume     call              Input:Maybe.with.call "acts:one", as consumed
          planning/consume     n                 Artifact:Make.N 1, as consumed
          planning/judge       condition_false   inputs.On  Input:On = false
          planning/reuse       not asked         the instance is inactive
          planning/plan        layer             1
          planning/plan        verdict           inactive: it is not executed, and its outputs are absent
    """)


def test_a_job_that_reuses_an_earlier_result(lab: Lab) -> None:
    lab.succeed()
    (lab.root / "out/n.json").unlink()
    assert trace(lab, "Job:Make") == text("""
        Job:Make
          snapshot/history     latest attempt           r0001 attempt 1: succeeded (executed)
          snapshot/history     last success             r0001 attempt 1 (executed)
          snapshot/observing   inputs                   2 as r0001 recorded them
          snapshot/observing   Artifact:Make.N          out/n.json: deleted
          snapshot/suspects    suspect                  Artifact:Make.N is not available
          planning/consume     action                   python  HASH…, as consumed
          planning/consume     call                     Input:Make.with.call "acts:one", as consumed
          planning/consume     fail                     Input:Fail false, as consumed
          planning/consume     x                        Input:X 1, as consumed
          planning/judge       MISSING_OUTPUT           Artifact:Make.N  out/n.json (deleted)
          planning/reuse       r0001                    taken: it has the fingerprint, and all outputs are available
          planning/plan        layer                    0
          planning/plan        verdict                  reused: the result of r0001 is taken
    """)  # lines as they are printed
    forced = trace(lab, "Job:Make", force=("layer:0",)).splitlines()[-5:]
    assert forced == [
        "  planning/judge   FORCED   --force layer:0",
        "  planning/reuse   not considered   a forced job is executed",
        "  planning/plan   layer   0",
        "  planning/plan   --force   layer:0",
        "  planning/plan   verdict   planned: it will be executed",
    ]


def line(answer: Trace, module: str, subject: str) -> str:
    (found,) = [line.text for line in answer.lines if (line.module, line.subject) == (module, subject)]
    return found


def test_a_failed_result_with_the_fingerprint_is_rejected(lab: Lab) -> None:
    assert lab.run(sets=["Fail=true"]).exit_code == 1
    answer = trace_of(lab.snapshot(["Fail=true"]), lab, "Job:Make")
    assert line(answer, "planning/reuse", "r0001") == "rejected: the attempt failed: ValueError"
    assert line(answer, "snapshot/history", "last success") == "none"


def test_a_suspect_names_the_columns_that_differ(lab: Lab) -> None:
    lab.succeed()
    answer = trace_of(lab.snapshot(["X=2"]), lab, "Job:Make")
    assert line(answer, "snapshot/suspects", "suspect") == "its fingerprint differs from the recorded one, by `x`"
    lab.edit("acts.py", "return {'N': x}", "return {'N': x + 0}")
    answer = trace_of(lab.snapshot(), lab, "Job:Make")
    assert line(answer, "snapshot/suspects", "suspect") == (
        "its fingerprint differs from the recorded one, by the action"
    )
    lab.edit("acts.py", "return {'N': x + 0}", "return {'N': x}")
    lab.edit("workflow.yaml", "N: {type: integer, path: out/n.json}", "N: {type: integer, path: out/n.txt}")
    assert "the declared outputs" in line(trace_of(lab.snapshot(), lab, "Job:Make"), "snapshot/suspects", "suspect")


def test_a_wrong_skip_is_a_contradiction_and_the_trace_names_the_module(lab: Lab) -> None:
    """As if `find_suspects` forgot a column."""
    lab.succeed()
    answer = trace_of(replace(lab.snapshot(["X=2"]), suspects=()), lab, "Job:Make")
    assert (answer.state, answer.contradiction) == ("clean", True)
    assert line(answer, "snapshot/suspects", "not a suspect") == (
        "although its fingerprint differs from the recorded one, by `x`"
    )
    assert line(answer, "planning/judge", "INPUT_CHANGED") == "x ← Input:X  1 → 2"
    assert answer.lines[-2:] == (
        ("planning/plan", "verdict", "clean: it is up to date"),
        (
            "planning/plan",
            "contradiction",
            "the plan says clean, but the judge says dirty: a bug in Whyrun; please report this trace",
        ),
    )
    assert answer.to_json() == {
        "job": "Job:Make",
        "state": "clean",
        "contradiction": True,
        "lines": [{"module": m, "subject": s, "text": t} for m, s, t in answer.lines],
    }


def test_the_snapshot_is_not_changed(lab: Lab) -> None:
    lab.succeed()
    snapshot = lab.snapshot()
    before = list(snapshot.suspects), dict(snapshot.consumed)
    trace_of(snapshot, lab, "Job:Make")
    assert (list(snapshot.suspects), dict(snapshot.consumed)) == before
