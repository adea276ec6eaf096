"""`junit`, `markdown`, `github`, `chrome-trace`: read by a parser, compared with goldens, or checked by a checker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from export_lab import RUNS, check_golden, exported, fixed, subject
from junitparser import Error, Failure, JUnitXml, Skipped

from project_lab import Lab
from whyrun.exports.formats.chrome_trace import chrome_trace
from whyrun.exports.formats.github import github
from whyrun.exports.formats.junit import junit
from whyrun.exports.formats.markdown import MOST_BYTES, _blocks, code, markdown
from whyrun.exports.record import Step
from whyrun.exports.registry import export

# --- junit ------------------------------------------------------------------------------------------------------------


def read_junit(data: bytes) -> dict[str, list[tuple[type, str]]]:
    """By step: its results, as junitparser reads them. The numbers of the suites must be those of the cases."""
    xml = JUnitXml.fromstring(data)
    written = (xml.tests, xml.failures, xml.errors, xml.skipped)
    suites = list(xml)
    found = {case.name: [(type(r), str(r.message)) for r in case.result] for suite in suites for case in suite}
    for suite in suites:
        own = (suite.tests, suite.failures, suite.errors, suite.skipped)
        suite.update_statistics()
        counted = (suite.tests, suite.failures, suite.errors, suite.skipped)
        if own != counted:
            raise ValueError(f"{own} != {counted}")
    xml.update_statistics()
    if written != (xml.tests, xml.failures, xml.errors, xml.skipped):
        raise ValueError("the numbers of all suites")
    return found


def test_junit_of_real_runs(exporting: Lab) -> None:
    read = {kind: read_junit(exported(exporting, "junit", kind).data) for kind in RUNS}
    success = read["success"]
    assert {name for name, results in success.items() if not results} == {
        "Job:Script", "Job:Print[0]", "Job:Print[1]", "Job:Stamp", "Job:Check", "Job:After",
    }  # fmt: skip
    assert success["Job:Epilogue"] == [(Skipped, "skipped: its condition is false")]
    assert read["failure"]["Job:After"] == [(Skipped, "blocked: waits for Job:Check")]
    ((kind, message),) = read["failure"]["Job:Check"]
    assert (kind, message.partition(" as ")[0]) == (Failure, "cannot read data/table.csv, …/other.csv")
    ((kind, message),) = read["comparison"]["Job:Stamp"]
    assert (kind, message.partition(":")[0]) == (Failure, "Artifact")
    assert read["comparison"]["Job:Script"] == []
    assert read["killed"] == {"Job:Stamp": [(Error, "the run ended before this step did")]}


def test_junit_of_every_status() -> None:
    read = read_junit(junit(fixed()))
    kinds = {name: [kind for kind, _ in results] for name, results in read.items()}
    assert kinds == {
        "Job:After": [Skipped], "Job:Again": [Failure], "Job:Check": [Failure], "Job:Draw": [Skipped],
        "Job:Later": [Error], "Job:Open": [Error], "Job:Pick": [Skipped], "Job:Print[2]": [],
        "Job:Print[10]": [Skipped], "Job:Slow": [Failure],
    }  # fmt: skip
    assert read["Job:Again"] == [(Failure, "Artifact:Again.Copy differs from r0001: 1 line | more")]
    unfinished = read_junit(junit(fixed(ended=False)))
    assert unfinished["the run itself"] == [(Error, "the run is still going on")]
    check_golden("every-status.junit.xml", junit(fixed()))


def test_junit_with_what_verify_checks(exporting: Lab, project: Callable[..., Lab]) -> None:
    sound = read_junit(export(subject(exporting, "r0001", verify=True), "junit").data)
    kinds = ["log", "run", "file", "link", "status", "artifact", "blob", "plan"]
    assert [name for name in sound if name in kinds] == kinds
    assert [sound[kind] for kind in kinds] == [[]] * 8
    lab = project("workflow: w\njobs: {A: {uses: shell, with: {run: 'true'}}}\n")
    ran = lab.succeed()
    assert ran.folder is not None
    (ran.folder / "manifest.yaml").write_text("other")
    data = export(subject(lab, "r0001", verify=True), "junit").data
    ((kind, message),) = read_junit(data)["file"]
    assert (kind, message.startswith(".whyrun/w/runs/r0001/manifest.yaml: ")) == (Failure, True)
    assert str(lab.root).encode() not in data


@pytest.mark.parametrize(("old", "new"), [(b'failures="3"', b'failures="2"'), (b"</testcase>", b""), (b"&lt;", b"<")])
def test_a_mistake_in_junit_is_refused(old: bytes, new: bytes) -> None:
    data = junit(fixed())
    assert old in data
    with pytest.raises(Exception, match=r"!=|mismatch|numbers|not well-formed|Specification|attribute"):
        read_junit(data.replace(old, new, 1))


# --- markdown, github -------------------------------------------------------------------------------------------------


def test_markdown_and_github_are_those_of_the_goldens() -> None:
    link = "https://ci.example.org/r/7?a=1|2>)"
    check_golden("every-status.md", markdown(fixed(), link))
    rendered = github(fixed(), link)
    assert rendered.data == markdown(fixed(), link)
    assert rendered.printed is not None
    check_golden("every-status.github.txt", rendered.printed)
    check_golden("unfinished.md", markdown(fixed(ended=False)))


def test_github_tells_ten_of_a_kind_and_foreign_text_is_no_command() -> None:
    record = fixed()
    for number in range(40):
        record.steps[f"Job:More[{number}]"] = Step(f"Job:More[{number}]", status="failed", note="a%\r\n::error::b")
    rendered = github(record)
    lines = rendered.said.decode().splitlines()
    errors = [line for line in lines if line.startswith("::error ")]
    assert len(errors) == 10
    assert errors[-1] == "::error title=study r0007::34 further steps: the job summary lists them"
    assert len(lines) == len(errors) + sum(line.startswith("::warning ") for line in lines)
    assert errors[2] == "::error title=Job%3AMore[0] failed::a%25%0D%0A::error::b"
    assert rendered.printed is not None
    said, _, rest = rendered.printed.decode().partition("\n::stop-commands::")
    assert said.encode() + b"\n" == rendered.said
    token, _, rest = rest.partition("\n")
    summary, resumed, after = rest.partition(f"::{token}::\n")
    assert (summary.encode(), resumed, after) == (rendered.data, f"::{token}::\n", "")


def test_a_summary_is_cut_at_a_row_and_counts_what_is_missing() -> None:
    record = fixed()
    for number in range(900):
        record.steps[f"Job:Long[{number}]"] = Step(f"Job:Long[{number}]", status="failed", note="long " * 60)
    whole = markdown(record, most=10 * MOST_BYTES)
    data = markdown(record, most=100_000)
    assert len(data) <= 100_000 < len(whole) < MOST_BYTES
    *_, last_row, _, told = data.decode().splitlines()
    assert last_row.startswith("| `Job:Long[")
    assert last_row.endswith(" |")
    kept = data.decode().count("\n| `Job:") + 4  # and the headline and the head of the table
    missing = len(list(_blocks(record, ""))) - kept
    assert told == f"… {missing} further rows: `whyrun show r0007` and `whyrun log` have them all."


def test_code_spans_hold_any_text() -> None:
    assert [code("a"), code("`a`"), code("a``b|c", in_table=True), code(" \n ")] == [
        "`a`", "`` `a` ``", r"```a``b\|c```", "` `",
    ]  # fmt: skip


# --- chrome-trace -----------------------------------------------------------------------------------------------------


def check_trace(data: bytes) -> dict[str, Any]:
    """The Trace Event Format, as far as viewers rely on it: fields by phase, no overlap in a lane, instants inside."""
    trace = json.loads(data)
    busy: dict[tuple[int, int], list[tuple[int, int]]] = {}
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"}
    for event in trace["traceEvents"]:
        lane = event["pid"], event["tid"]
        assert isinstance(event["name"], str)
        assert event["ph"] in ("X", "i", "M"), event
        if event["ph"] == "M":
            assert list(event["args"]) == ["name"]
            continue
        assert lane in named, "a lane without a name"
        assert type(event["ts"]) is int
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert type(event["dur"]) is int
            assert event["dur"] >= 0
            busy.setdefault(lane, []).append((event["ts"], event["ts"] + event["dur"]))
        else:
            assert event["s"] == "t"
            assert any(start <= event["ts"] <= end for start, end in busy[lane]), "an instant outside"
    for spans in busy.values():
        for (_, end), (start, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert end <= start, "events of one lane overlap"
    return trace


def test_a_timeline_of_real_runs(exporting: Lab) -> None:
    for kind, run in RUNS.items():
        trace = check_trace(exported(exporting, "chrome-trace", kind).data)
        assert (trace["otherData"]["run"], trace["otherData"]["unfinished"]) == (run, False)
        attempts = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        starts = [event for event in exporting.events(run) if type(event).__name__ == "StepStart"]
        assert sorted(event["name"] for event in attempts) == sorted(event.step_id for event in starts)
    trace = check_trace(exported(exporting, "chrome-trace", "success").data)
    (task,) = [event for event in trace["traceEvents"] if event["ph"] == "i"]
    assert (task["name"], task["args"]) == ("EXECUTES", {"message": "wrote a <b>story</b> & more"})


def test_a_timeline_of_an_unfinished_run_is_marked() -> None:
    trace = check_trace(chrome_trace(fixed(ended=False)))
    assert trace["otherData"]["unfinished"] is True
    (open_,) = [event for event in trace["traceEvents"] if event["name"] == "Job:Open"]
    assert open_["args"]["unfinished"] is True
    assert trace["traceEvents"][0]["args"] == {"name": "study r0007 (running (unfinished))"}


def test_a_mistake_in_a_timeline_is_refused() -> None:
    trace = json.loads(chrome_trace(fixed()))
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    for wrong in ({"tid": 9}, {"dur": -1}, {"dur": 60_000_000}, {"ts": 0.5}, {"ph": "B"}):
        damaged = [dict(event, **wrong) if event is spans[0] else event for event in trace["traceEvents"]]
        with pytest.raises(AssertionError):
            check_trace(json.dumps({**trace, "traceEvents": damaged}).encode())
