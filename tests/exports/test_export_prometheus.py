"""`prometheus`: read by prometheus_client, linted by promtool, and asked by the dashboard of the examples."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from export_lab import RUNS, exported, fixed, subject
from prometheus_client.parser import text_string_to_metric_families

from project_lab import Lab
from whyrun.exports.formats.prometheus import RUN_STATES, prometheus
from whyrun.log.journal import parse_timestamp

MONITORING = Path(__file__).resolve().parents[2] / "examples" / "monitoring"
Samples = dict[tuple[str, tuple[str, ...]], float]


def read(data: bytes) -> Samples:
    """(metric, values of its labels but the workflow) → value. All are gauges, have a help text, and occur once."""
    found: Samples = {}
    for family in text_string_to_metric_families(data.decode()):
        assert (family.type, bool(family.documentation)) == ("gauge", True), family
        assert family.samples, family
        for sample in family.samples:
            assert sample.labels.pop("workflow") == "study"
            assert set(sample.labels) <= {"job", "state", "currency"}
            key = sample.name, tuple(sample.labels.values())
            assert key not in found, key
            found[key] = sample.value
    return found


def test_the_present_state_is_that_after_the_run(exporting: Lab) -> None:
    read_ = {kind: read(exported(exporting, "prometheus", kind).data) for kind in RUNS}
    states = {
        kind: [state for state in RUN_STATES if found["whyrun_last_run_state", (state,)]]
        for kind, found in read_.items()
    }
    assert states == {
        "success": ["succeeded"],
        "failure": ["failed"],
        "comparison": ["failed"],
        "killed": ["interrupted"],
    }
    success, failure, killed = read_["success"], read_["failure"], read_["killed"]
    ended = parse_timestamp(subject(exporting, "r0001").record().ended or "").timestamp()
    for found in read_.values():
        assert found["whyrun_last_success_timestamp_seconds", ()] == pytest.approx(ended, abs=1e-3)
    assert [success["whyrun_jobs", (job, "succeeded")] for job in ("Print", "Check", "After", "Epilogue")] == [
        2,
        1,
        1,
        0,
    ]
    assert success["whyrun_jobs", ("Epilogue", "skipped")] == 1
    assert (failure["whyrun_jobs", ("Check", "failed")], failure["whyrun_jobs", ("Check", "succeeded")]) == (1, 0)
    assert failure["whyrun_jobs", ("After", "blocked")] == 1
    assert failure["whyrun_job_duration_seconds", ("Check",)] == success["whyrun_job_duration_seconds", ("Check",)]
    assert (success["whyrun_spent", ("Script", "USD")], success["whyrun_spent", ("Script", "EUR")]) == (0.04, 0.1)
    assert read_["comparison"]["whyrun_spent", ("Script", "USD")] == 0.08  # a comparison pays again
    assert read_["comparison"]["whyrun_jobs", ("Stamp", "succeeded")] == 1
    assert killed["whyrun_jobs", ("Stamp", "interrupted")] == 1
    assert [killed["whyrun_runs", (s,)] for s in ("succeeded", "failed", "interrupted", "running")] == [1, 2, 1, 0]


def test_an_unfinished_run_has_no_end() -> None:
    found = read(prometheus([fixed(ended=False)]))
    assert found["whyrun_last_run_state", ("running",)] == 1
    assert not {name for name, _ in found} & {
        "whyrun_last_run_end_timestamp_seconds", "whyrun_last_run_duration_seconds",
        "whyrun_last_success_timestamp_seconds",
    }  # fmt: skip
    assert found["whyrun_last_run_start_timestamp_seconds", ()] == 1795161601.0
    assert found["whyrun_costs_of_unknown_amount", ("Check",)] == 1


def test_labels_are_escaped() -> None:
    record = fixed()
    record.workflow = 'a"b\\c\nd'
    families = list(text_string_to_metric_families(prometheus([record]).decode()))
    assert {sample.labels["workflow"] for family in families for sample in family.samples} == {'a"b\\c\nd'}


@pytest.mark.parametrize(("old", "new"), [(b'"} 1\n', b'"} one\n'), (b"{workflow=", b"{workflow"), (b"gauge", b"gage")])
def test_a_mistake_is_refused_by_the_parser(old: bytes, new: bytes) -> None:
    data = prometheus([fixed()])
    assert old in data
    with pytest.raises((ValueError, AssertionError)):
        read(data.replace(old, new, 1))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_no_complaint_and_would_have_one(exporting: Lab) -> None:
    def check(data: bytes) -> tuple[int, str]:
        done = subprocess.run(
            ["promtool", "check", "metrics"], input=data, capture_output=True, check=False, timeout=300
        )
        return done.returncode, done.stderr.decode()

    data = exported(exporting, "prometheus", "failure").data
    assert check(data) == (0, "")
    code, told = check(re.sub(rb"# HELP whyrun_runs .*\n", b"", data))
    assert (code, told.strip()) == (3, "whyrun_runs no help text")
    assert check(data.replace(b"_seconds", b"_milliseconds"))[0] == 3


def test_the_dashboard_asks_for_what_there_is(exporting: Lab) -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_bytes())
    data = exported(exporting, "prometheus", "success").data.decode()
    families = {family.name: family for family in text_string_to_metric_families(data)}
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked += [rule["expr"] for rule in json.loads((MONITORING / "alerts.json").read_bytes())["groups"][0]["rules"]]
    named = {name for expression in asked for name in re.findall(r"\bwhyrun_\w+", expression)}
    assert named - set(families) == set()
    labels = {"job", "state", "currency", "workflow"}
    for expression in asked:
        assert set(re.findall(r"[{,(](\w+)=", expression)) <= labels, expression
    assert len(asked) > 8
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
