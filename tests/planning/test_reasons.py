"""The union of reasons: everything about a reason follows from it, and nothing can be forgotten when one is added."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from project_lab import Lab, codes
from whyrun.planning.input_changes import InputChanged, version_changes
from whyrun.planning.reason_base import MergedParticulars
from whyrun.planning.reasons import (
    CODES,
    KINDS,
    Forced,
    FoundReason,
    MissingOutput,
    More,
    RetryPreviousFailure,
    UpstreamDirty,
    UpstreamFailed,
    bounded,
    read_reason,
    reason_json,
    why_executed,
)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "planning.md"

# The contract: every code in its order, with an example that has every field, as it is written and as it is told.
# No other test lists the codes.
EXAMPLES: list[tuple[FoundReason, dict[str, Any], str]] = [
    (
        RetryPreviousFailure("r0001", 2, "ValueError", "no"),
        {"code": "RETRY_PREVIOUS_FAILURE", "run": "r0001", "attempt": 2, "error_type": "ValueError", "error": "no"},
        "r0001 attempt 2: ValueError: no",
    ),
    (
        MissingOutput("Artifact:A.X", "deleted", "out/x"),
        {"code": "MISSING_OUTPUT", "artifact": "Artifact:A.X", "change": "deleted", "path": "out/x"},
        "Artifact:A.X  out/x (deleted)",
    ),
    (
        InputChanged("x", "Input:N", "Input:O", "ab12f", "cd34f", 1, 2, "v", "v[]", None, ("a.py",), None),
        {
            "code": "INPUT_CHANGED", "binding": "x", "source": "Input:N", "old_source": "Input:O", "old": "ab12f",
            "new": "cd34f", "old_value": 1, "new_value": 2, "old_as": "v", "new_as": "v[]", "files": ["a.py"],
        },
        "x ← Input:N (was Input:O)  1 → 2  (a.py)",
    ),
    (
        UpstreamFailed("Artifact:A.X"),
        {"code": "UPSTREAM_FAILED", "artifact": "Artifact:A.X"},
        "Artifact:A.X",
    ),
    (UpstreamDirty("Job:A"), {"code": "UPSTREAM_DIRTY", "job": "Job:A"}, "Job:A"),
    (Forced("layer:0"), {"code": "FORCED", "by": "layer:0"}, "--force layer:0"),
]  # fmt: skip

# What `explain --trace` says if a reason was not found, and why no earlier result is taken if it was.
IF_NONE: dict[type[FoundReason], tuple[str, str | None]] = {
    RetryPreviousFailure: ("its latest attempt did not fail", None),
    MissingOutput: ("every declared output is available", None),
    InputChanged: ("nothing that is known differs from what its last success consumed", None),
    UpstreamFailed: ("no input waits for a job that failed", None),
    UpstreamDirty: ("no input waits for a job that will be executed", None),
    Forced: ("no `--force` names it", "a forced job is executed"),
}


def test_every_reason_says_why_it_was_not_found_and_whether_it_allows_reuse() -> None:
    assert {kind: (kind.if_none, kind.no_reuse) for kind in KINDS} == IF_NONE


def test_the_first_reason_that_forbids_reuse_says_why() -> None:
    assert why_executed([]) is None
    assert why_executed([MissingOutput(), UpstreamDirty("Job:A"), More("UPSTREAM_DIRTY", 3)]) is None
    assert why_executed([MissingOutput(), Forced("layer:0")]) == "a forced job is executed"


def test_which_reasons_outdate_the_present_result() -> None:
    """What becomes of an adopted output, if everything upstream comes out as before."""
    reasons = [*(reason for reason, _, _ in EXAMPLES), MissingOutput("Artifact:A.X", "retyped")]
    assert [reason.code for reason in reasons if reason.outdates_result] == [
        "INPUT_CHANGED",
        "FORCED",
        "MISSING_OUTPUT",
    ]


def test_every_reason_has_an_example_here_in_the_order_of_the_union() -> None:
    assert [type(reason) for reason, _, _ in EXAMPLES] == list(KINDS)
    assert [reason.code for reason, _, _ in EXAMPLES] == list(CODES)


@pytest.mark.parametrize(("reason", "written", "text"), EXAMPLES, ids=[each[0].code for each in EXAMPLES])
def test_every_reason_is_written_read_and_rendered(reason: FoundReason, written: dict[str, Any], text: str) -> None:
    assert reason_json(reason) == written
    assert read_reason(written) == reason
    assert reason.text("Job:B") == text


def test_the_docs_have_one_row_for_each_reason_in_the_same_order() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.+) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert [code for code, meaning in rows if meaning.strip()] == list(CODES)


def test_one_plan_can_show_every_reason_and_lists_them_in_the_order_of_the_union(
    project: Callable[..., Lab],
) -> None:
    """If this test lacks a code, its finder is not called or finds nothing."""
    lab = project(
        """
        workflow: w
        inputs: {X: {type: integer, default: 1}, Broken: {type: boolean, default: false}}
        jobs:
          Fails: {uses: python, with: {call: "acts:one", x: "${{ inputs.Broken }}"}, outputs: {N: {type: integer}}}
          Runs: {uses: python, with: {call: "acts:one", x: "${{ inputs.X }}"}, outputs: {N: {type: integer}}}
          Reads:
            uses: python
            with: {call: "acts:one", x: false, a: "${{ jobs.Fails.outputs.N }}", b: "${{ jobs.Runs.outputs.N }}"}
            outputs: {N: {type: integer, path: out/n.json}}
        """,
        {"acts.py": "def one(x=None, **given):\n    assert x is not True\n    return {'N': 1}\n"},
    )
    lab.succeed()
    assert lab.run(sets=["Broken=true"]).exit_code == 1
    (lab.root / "out/n.json").unlink()
    lab.edit("workflow.yaml", "x: false", "x: 0")
    found = codes(lab.plan(sets=["Broken=true", "X=2"], force=["Job:Reads"]))
    assert found == {
        "Job:Fails": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT", "INPUT_CHANGED"],
        "Job:Runs": ["INPUT_CHANGED"],
        "Job:Reads": [
            "MISSING_OUTPUT",
            "INPUT_CHANGED",
            "UPSTREAM_FAILED",
            "UPSTREAM_DIRTY",
            "UPSTREAM_DIRTY",
            "FORCED",
        ],
    }
    assert {code for of_job in found.values() for code in of_job} == set(CODES)
    assert all(sorted(of_job, key=CODES.index) == of_job for of_job in found.values())


# --- particulars -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "more"), [(0, []), (19, []), (20, []), (21, [1]), (50, [30])])
def test_twenty_are_listed_and_the_rest_is_counted(number: int, more: list[int]) -> None:
    jobs = [f"{i:02}" for i in range(number)]
    reasons = list(map(UpstreamDirty, jobs))
    expected = [*reasons[:20], *(More("UPSTREAM_DIRTY", n) for n in more)]
    assert bounded("UPSTREAM_DIRTY", reasons) == expected
    assert bounded("UPSTREAM_DIRTY", MergedParticulars([], jobs, UpstreamDirty)) == expected
    assert bounded("UPSTREAM_DIRTY", MergedParticulars(jobs[::2], jobs[1::2], UpstreamDirty)) == expected


def test_so_many_as_are_asked_for_are_listed_or_all_of_them() -> None:
    jobs = [f"{i:02}" for i in range(50)]
    reasons = list(map(UpstreamDirty, jobs))
    assert bounded("UPSTREAM_DIRTY", reasons, None) == reasons
    assert bounded("UPSTREAM_DIRTY", reasons, 50) == reasons
    assert bounded("UPSTREAM_DIRTY", reasons, 49) == [*reasons[:49], More("UPSTREAM_DIRTY", 1)]
    assert bounded("UPSTREAM_DIRTY", MergedParticulars([], jobs, UpstreamDirty), None) == reasons


def test_only_listed_particulars_of_a_wide_fan_in_are_made() -> None:
    made: list[str] = []

    def make(job: str) -> UpstreamDirty:
        made.append(job)
        return UpstreamDirty(job)

    bounded("UPSTREAM_DIRTY", MergedParticulars([f"{i:04}" for i in range(5000)], [], make))
    assert made == [f"{i:04}" for i in range(20)]


def test_changed_versions_are_named_if_any_were_recorded() -> None:
    assert version_changes({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == ("b 2 → 3", "c none → 4")
    assert version_changes({"z": "1", "a": "2"}, {}) == ("a 2 → none", "z 1 → none")
    assert version_changes({"a": "1"}, {"a": "1"}) is None
    assert version_changes({}, {"a": "1"}) is None
    assert version_changes({}, {}) is None


def test_a_reason_is_written_without_its_empty_fields() -> None:
    assert reason_json(MissingOutput()) == {"code": "MISSING_OUTPUT"}
    assert reason_json(More("FORCED", 3)) == {"code": "FORCED", "more": 3}
    assert reason_json(InputChanged("x", old_value=False, new_value=0, files=("a", "b"))) == {
        "code": "INPUT_CHANGED", "binding": "x", "old_value": False, "new_value": 0, "files": ["a", "b"],
    }  # fmt: skip


def test_a_count_and_a_reason_of_another_version_are_read() -> None:
    assert read_reason({"code": "FORCED", "more": 3}) == More("FORCED", 3)
    assert read_reason({"code": "TOO_YOUNG", "by": 3}) is None
    assert read_reason({"code": "FORCED", "by": 3}) is None
