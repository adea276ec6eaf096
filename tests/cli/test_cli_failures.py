"""A step that failed in Python: its location, its traceback and its last output."""

from __future__ import annotations

from pathlib import Path

from cli_lab import dedent, other_lines, whyrun
from question_lab import plain

from whyrun.facts.show import failure_location

WORKFLOW = """\
workflow: weather
jobs:
  Plot:
    uses: python
    with: {call: "weather:plot"}
    retries: {max: 1, backoff: 0s}
    outputs: {Picture: {type: text}}
"""

CODE = """\
import sys


def plot():
    for i in range(15):
        print("row", i)
    print("oh\\tdear \\x1b[31m", file=sys.stderr)
    return {"Picture": scale([])}


def scale(rows):
    return rows[3]
"""


def weather(folder: Path) -> Path:
    (folder / "workflow.yaml").write_text(WORKFLOW)
    (folder / "weather.py").write_text(CODE)
    return folder


def test_the_summary_names_the_place_and_the_log_has_traceback_and_last_lines(tmp_path: Path) -> None:
    folder = weather(tmp_path)
    answer = whyrun(folder, "run")
    assert answer.code == 1
    assert other_lines(answer.err)[1:] == [
        "r0001 failed in T: 1 failed",
        "  FAILED 1",
        "  USAGE",
        "  Job:Plot  IndexError: list index out of range  (weather.py:12)",
        "  look closer: whyrun log r0001 --job Job:Plot",
        "               whyrun why Job:Plot",
        "evidence: .whyrun/weather/runs/r0001 (tracebacks are in its whyrun.log)",
    ]
    traceback = """\
            Traceback (most recent call last):
              File "weather.py", line 8, in plot
                return {"Picture": scale([])}
                                   ^^^^^^^^^
              File "weather.py", line 12, in scale
                return rows[3]
                       ~~~~^^^
            IndexError: list index out of range
"""
    rows = "".join(f"              row {i}\n" for i in [*range(10, 15), *range(15)])
    event = 'driver=python error="list index out of range" error_type=IndexError duration=0.0 status=FAILED'
    assert plain(whyrun(folder, "log", "r0001", "--job", "Job:Plot").out) == dedent(
        f"""
        TIME  step_start  Job:Plot  driver=python attempt=1
        TIME  step_failed  Job:Plot  {event} will_retry=true
{traceback}        TIME  step_start  Job:Plot  driver=python attempt=2
        TIME  step_failed  Job:Plot  {event} will_retry=false
{traceback}            .whyrun/weather/runs/r0001/steps/Plot/stdout.log (the last 20 lines)
{rows}            .whyrun/weather/runs/r0001/steps/Plot/stderr.log
              oh      dear �[31m
              oh      dear �[31m
        """
    )
    failed = whyrun(folder, "run", "-q", "--json").json["failed"]
    assert failed == [
        {
            "id": "Job:Plot", "status": "FAILED", "error_type": "IndexError", "error": "list index out of range",
            "place": "weather.py:12",
        }
    ]  # fmt: skip


def test_show_tells_error_place_and_logs(tmp_path: Path) -> None:
    folder = weather(tmp_path)
    assert whyrun(folder, "run", "-q").code == 1
    lines = plain(whyrun(folder, "show", "Job:Plot").out).splitlines()
    start = lines.index("  latest attempt")
    assert lines[start : start + 11] == [
        "  latest attempt",
        "    run          r0001",
        "    attempt      2",
        "    status       FAILED",
        "    duration  0.0s",
        "    fingerprint  HASH…",
        "    error        IndexError: list index out of range",
        "    place        weather.py:12",
        "    logs         .whyrun/weather/runs/r0001/steps/Plot/stdout.log",
        "                 .whyrun/weather/runs/r0001/steps/Plot/stderr.log",
        "    see          whyrun log r0001 --job Job:Plot",
    ]


def test_the_place_is_the_last_frame_of_the_project() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/p/a.py", line 3, in f\n  File "/p/lib/b.py", line 7, in g\n'
        '  File "/p/.venv/lib/python3.11/site-packages/x.py", line 9, in h\n  File "/usr/lib/json.py", line 1, in i\n'
        '  File "<string>", line 2, in j\nValueError: no\n'
    )
    assert failure_location(text, "/p") == "lib/b.py:7"
    assert failure_location("CommandFailed: exit status 3\n", "/p") is None
