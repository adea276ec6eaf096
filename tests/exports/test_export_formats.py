"""What all formats have in common: any past run, the same bytes each time, marked if unfinished, nothing private."""

from __future__ import annotations

import socket

import pytest
from export_lab import OUTSIDE, RUNS, SECRET, STATES, all_bytes, exported, fixed, private, subject

from project_lab import Lab
from whyrun.errors import WhyrunError
from whyrun.exports import registry
from whyrun.exports.record import STATUSES, Rendered
from whyrun.exports.registry import FORMATS, export
from whyrun.exports.texts import Cleaner

EACH = pytest.mark.parametrize("format_", FORMATS)


@EACH
@pytest.mark.parametrize("kind", RUNS)
def test_an_export_is_the_same_bytes_each_time_and_has_nothing_private(exporting: Lab, format_: str, kind: str) -> None:
    once, again = exported(exporting, format_, kind), exported(exporting, format_, kind)
    assert once == again
    data = all_bytes(once)
    assert [text for text in private(exporting) if text in data] == []


def test_the_scan_would_notice(exporting: Lab) -> None:
    """The text of the failed step holds what a careless export would show."""
    (failed,) = [e for e in exporting.events("r0002") if type(e).__name__ == "StepFailed" and not e.will_retry]
    assert OUTSIDE in failed.error
    assert socket.gethostname() in failed.error
    assert SECRET not in failed.error


@EACH
def test_a_secret_is_refused(exporting: Lab, format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is recorded, and declared to be a secret only later."""
    monkeypatch.setenv("EXPORT_TOKEN", "study")
    with pytest.raises(WhyrunError, match="SECRET_IN_REPORT"):
        exported(exporting, format_, "success")


def test_a_secret_in_a_name_of_a_folder_or_on_stdout_is_refused_too(
    exporting: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = subject(exporting, "r0001")
    secret = SECRET.encode()
    for rendered in (Rendered(said=secret), Rendered(folder={SECRET: b""}), Rendered(folder={"a": secret})):
        monkeypatch.setattr(registry, "import_module", lambda name, rendered=rendered: _Module(rendered))
        with pytest.raises(WhyrunError, match="SECRET_IN_REPORT"):
            export(one, "junit")


class _Module:
    def __init__(self, rendered: Rendered) -> None:
        self.render = lambda subject: rendered


def test_a_record_says_how_each_run_ended(exporting: Lab) -> None:
    records = {kind: subject(exporting, run).record() for kind, run in RUNS.items()}
    assert {kind: record.outcome for kind, record in records.items()} == STATES
    assert {kind: record.counts() for kind, record in records.items()} == {
        "success": {"succeeded": 6, "skipped": 1},
        "failure": {"blocked": 1, "failed": 1},
        "comparison": {"identical": 3, "different": 1},
        "killed": {"interrupted": 1},
    }
    failure = records["failure"]
    check = failure.steps["Job:Check"]
    assert [attempt.status for attempt in check.attempts] == ["failed", "failed"]
    assert check.reasons == [("INPUT_CHANGED", "fails ← Input:Fails  false → true")]
    assert check.error == (
        "ValueError: cannot read data/table.csv, …/other.csv as *** on (host): 100% | `x` <b> ]]> @team\n"
        "::error::mine (pid …)\N{REPLACEMENT CHARACTER}[0m"
    )
    assert failure.steps["Job:After"].note == "waits for Job:Check"
    assert failure.up_to_date == 4
    assert records["success"].spent().text() == "€0.10 + $0.04"
    assert [one.id for one in records["success"].inputs] == [
        "Input:Fails", "Input:Photos[0]", "Input:Photos[1]", "Input:Topic",
    ]  # fmt: skip


def test_each_status_has_its_place() -> None:
    record = fixed()
    assert list(record.counts()) == [
        "succeeded", "different", "reused", "skipped", "held", "blocked", "failed", "timed_out", "interrupted",
        "not_started",
    ]  # fmt: skip
    assert set(record.counts()) <= set(STATUSES)
    assert [step.id for step in record.ordered()][:5] == [
        "Job:After", "Job:Again", "Job:Check", "Job:Draw", "Job:Later",
    ]  # fmt: skip
    running = fixed(ended=False)
    assert (running.state, running.unfinished, running.steps["Job:Open"].status) == ("running", True, "running")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("/srv/ada/project/data/a.csv is gone", "data/a.csv is gone"),
        ("in /srv/ada/project", "in ."),
        ("at /srv/ada/project/ or", "at . or"),
        ("/srv/ada/project-2/a.csv", "…/a.csv"),
        ("no `/data/my files/a b.csv`", "no `…/a b.csv`"),
        ('File "/usr/lib/python3.11/json/__init__.py", line 3', 'File "…/__init__.py", line 3'),
        ("open(/etc/passwd), ~/.ssh/id_rsa", "open(…/passwd), …/id_rsa"),
        ("PATH=/usr/bin:/srv/x at host:/srv/y", "PATH=…/bin:…/x at host:…/y"),
        ("file:///srv/data/x.csv", "…/x.csv"),
        (r"D:\data\ada\x.csv", "…/x.csv"),
        ("https://example.org/v1/items and 1/2, and/or", "https://example.org/v1/items and 1/2, and/or"),
        ("pid 4711, pid=4711, process 12", "pid …, pid=…, process …"),
        ("<b>fat</b> and </etc/passwd>", "<b>fat</b> and <…/passwd>"),
        ("build-7 failed; build-70, my.build-7", "(host) failed; build-70, my.build-7"),
        ("a\x00b\x1b[1m\ud800", "a\ufffdb\ufffd[1m\ufffd"),
    ],
)
def test_texts_are_cleaned(text: str, cleaned: str) -> None:
    assert Cleaner("/srv/ada/project", "build-7").text(text) == cleaned
