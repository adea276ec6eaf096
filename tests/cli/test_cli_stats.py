"""`whyrun stats`: how often and how long the jobs ran, over all runs, as table, JSON and CSV."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from cli_lab import dedent, whyrun

from project_lab import NOT_TRACED, Lab
from whyrun.cli.options import parse_time
from whyrun.errors import WhyrunError
from whyrun.evidence.queries.stats import COLUMNS, stats_rows
from whyrun.log.journal import parse_timestamp

FLOW = """
    workflow: paid
    inputs:
      Mood: {type: string, default: good}
      Topic: {type: string, default: cats}
    loops: {n: {count: 2}}
    jobs:
      Ask:
        for: [n]
        uses: python
        retries: {max: 1, backoff: 10ms}
        with: {call: "steps:ask", n: "${{ n }}", mood: "${{ inputs.Mood }}", topic: "${{ inputs.Topic }}"}
        outputs: {Answer: {type: json}}
      Join:
        uses: shell
        with: {answers: "${{ jobs.Ask.outputs.Answer[:] }}", run: 'echo "${answers[@]}" > "$out_All"'}
        outputs: {All: {type: text}}
"""
STEPS = """
    def ask(n, mood, topic, context):
        context.cost("0.25", "EUR" if n else "USD")
        if mood == "bad" and n:
            raise ValueError("no answer")
        return {"Answer": [n, mood, topic]}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Succeeded; failed at Ask[1], twice; another topic; and the first topic again, whose results are reused."""
    lab = Lab(tmp_path_factory.mktemp("stats"))
    lab.write({"workflow.yaml": FLOW, "steps.py": STEPS, **NOT_TRACED})
    lab.succeed()
    assert lab.run(sets=("Mood=bad",)).exit_code == 1
    lab.succeed(sets=("Topic=dogs",))
    assert lab.succeed().reused == {"Job:Ask[0]": "r0001", "Job:Ask[1]": "r0001", "Job:Join": "r0001"}
    return lab


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("seconds")}


def test_by_job_and_by_action(lab: Lab) -> None:
    body = whyrun(lab.root, "stats", "--json").json
    assert (body["workflow"], body["by"], body["pruned_runs"]) == ("paid", "job", 0)
    assert [timeless(row) for row in body["stats"]] == [
        {"job": "Ask", "runs": 4, "executed": 7, "succeeded": 5, "failed": 2, "timed_out": 0, "interrupted": 0,
         "retries": 1, "reused": 2, "hit_rate": 0.2857, "skipped": 0, "blocked": 0, "costs_unknown": 0,
         "spent": {"EUR": "1", "USD": "0.75"}},
        {"job": "Join", "runs": 4, "executed": 2, "succeeded": 2, "failed": 0, "timed_out": 0, "interrupted": 0,
         "retries": 0, "reused": 1, "hit_rate": 0.3333, "skipped": 0, "blocked": 1, "costs_unknown": 0, "spent": {}},
    ]  # fmt: skip
    actions = whyrun(lab.root, "stats", "--by", "action", "--json").json["stats"]
    assert [(row["action"], row["executed"], row["reused"]) for row in actions] == [("python", 7, 2), ("shell", 2, 1)]
    for row in body["stats"]:
        times = [e.duration for run in lab.runs() for e in lab.events(run)
                 if type(e).__name__ == "StepComplete" and e.step_id.startswith(f"Job:{row['job']}")]  # fmt: skip
        assert row["seconds"] == pytest.approx(sum(times), abs=1e-5)
        assert row["seconds_max"] == max(times)
        assert min(times) <= row["seconds_median"] <= max(times)


def test_as_a_table(lab: Lab) -> None:
    shown = re.sub(r"  +", "  ", re.sub(r"\d+(\.\d+)?s", "T", whyrun(lab.root, "stats").out))
    assert shown == dedent("""
        job  runs  executed  failed  retries  reused  hits  time  median  longest  spent
        Ask  4  7  2  1  2  29%  T  T  T  €1.00 + $0.75
        Join  4  2  1  33%  T  T  T
        total  4  9  2  1  3  30%  T  T  T  €1.00 + $0.75
        """)


def test_as_csv(lab: Lab) -> None:
    answer = whyrun(lab.root, "stats", "--csv")
    head, *rows = csv.reader(io.StringIO(answer.out))
    assert head == ["job", *COLUMNS, "spent_EUR", "spent_USD"]
    by_name = [dict(zip(head, row, strict=True)) for row in rows]
    assert [(row["job"], row["executed"], row["hit_rate"], row["spent_EUR"], row["spent_USD"]) for row in by_name] == [
        ("Ask", "7", "0.2857", "1", "0.75"), ("Join", "2", "0.3333", "0", "0"),
    ]  # fmt: skip
    refused = whyrun(lab.root, "stats", "--csv", "--json")
    assert refused.err.startswith("error[USAGE]: `--csv` and `--json` are two formats of one answer\n")


def test_only_what_happened_in_a_time_counts(lab: Lab) -> None:
    runs = lab.opened().state.runs()
    second = lab.events("r0002")[0].ts
    before = stats_rows(runs, "job", until=second)
    assert [(row.name, row.executed, row.retries) for row in before] == [("Ask", 2, 0), ("Join", 1, 0)]
    after = stats_rows(runs, "job", since=second)
    assert [(row.name, row.executed, row.reused) for row in after] == [("Ask", 5, 2), ("Join", 1, 1)]
    assert whyrun(lab.root, "stats", "--until", "2001-01-01").out == (
        "no run of paid has executed or reused a step in this time\n"
    )
    assert whyrun(lab.root, "stats", "--since", "1h").out == whyrun(lab.root, "stats").out


def test_times_are_read_with_their_zone() -> None:
    assert parse_time("--since", "2026-11-20T08:30:00Z") == "2026-11-20T08:30:00.000000Z"
    assert parse_time("--since", "2026-11-20T08:30:00+02:00") == "2026-11-20T06:30:00.000000Z"
    local = parse_timestamp(parse_time("--since", "2026-11-20")).astimezone()
    assert (local.hour, local.minute, local.day) == (0, 0, 20)
    assert parse_time("--since", "2d") < parse_time("--since", "1h")


def test_what_is_no_time_is_refused(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("workflow: w\njobs: {A: {uses: shell, with: {run: 'true'}}}\n")
    answer = whyrun(tmp_path, "stats", "--since", "yesterday")
    assert (answer.code, answer.err) == (2, dedent("""
        error[USAGE]: `--since yesterday` is not a time
           hint: write `2026-11-20`, `2026-11-20T08:30`, or `12h` for twelve hours ago
        """))  # fmt: skip
    assert whyrun(tmp_path, "stats").out == "no run of w has executed or reused a step yet\n"
    for command in ("stats", "log"):
        answer = whyrun(tmp_path, command, "--since", "1d", "--until", "2d")
        assert (answer.code, answer.err) == (2, dedent("""
            error[USAGE]: `--since 1d` is later than `--until 2d`
               hint: swap the two
            """))  # fmt: skip
    for text in ("12 h", "2026-13-01", "9999999h", ""):
        with pytest.raises(WhyrunError, match="is not a time"):
            parse_time("--until", text)
