"""What a run says at its end and a dry run beforehand: counts, time, processor, memory; and the metrics behind it."""

from __future__ import annotations

import json
import os
import re
import resource
from pathlib import Path

import pytest
from console_lab import Project, timeless

from whyrun.console.lines import seconds
from whyrun.planning.answers.explain import about

WORKFLOW = """
    workflow: costs
    inputs: {Word: {type: string, default: fine}}
    jobs:
      Burn:
        uses: python
        with: {call: "work:burn", seconds: 0.8}
        outputs: {Rounds: {type: integer}}
      Hold:
        uses: python
        with: {call: "work:hold", megabytes: 120, after: "${{ jobs.Burn.outputs.Rounds }}"}
        outputs: {Size: {type: integer}}
      Write:
        uses: python
        with: {call: "work:write", megabytes: 3, word: "${{ inputs.Word }}"}
        outputs: {Data: {type: file}}
      Fork:
        uses: shell
        with: {word: "${{ inputs.Word }}", run: 'python3 -c "x = b\\"x\\" * 150_000_000"; echo "$word" > "$out_Text"'}
        outputs: {Text: {type: text}}
      Last:
        uses: shell
        with: {data: "${{ jobs.Write.outputs.Data }}", run: 'wc -c < "$data" > "$out_Bytes"'}
        outputs: {Bytes: {type: integer}}
"""
WORK = """
    import os, time

    def burn(seconds):
        rounds, end = 0, time.process_time() + seconds
        while time.process_time() < end:
            rounds += 1
        return {"Rounds": rounds}

    def hold(megabytes, after):
        held = b"x" * (megabytes * 1_000_000)
        return {"Size": len(held)}

    def write(megabytes, word, context):
        context.progress(1, 4)
        if word == "bad":
            raise ValueError("a bad word")
        with context.output("Data").open("wb") as file:
            file.write(os.urandom(megabytes * 1_000_000))
            file.flush()
            os.fsync(file.fileno())
        context.metric("words", 1, "words")
"""
MB = 1_000_000


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str, dict]:  # type: ignore[type-arg]
    """A project after its first run, what that told, and its result as JSON."""
    project = Project(tmp_path_factory.mktemp("costs"), {"workflow.yaml": WORKFLOW, "work.py": WORK})
    answer = project("run", "--json", "--jobs", "1")
    assert answer.code == 0, answer.err
    return project, answer.err, answer.json


def test_the_summary_tells_counts_processor_memory_and_the_slowest(costs) -> None:
    project, told, result = costs
    head, statuses, usage, slowest, evidence = told.splitlines()[-5:]
    assert timeless(head) == "r0001 succeeded in T: 5 executed"
    assert statuses == "  EXECUTES 5"
    cpu, peak = re.fullmatch(r"  cpu (\d+\.\d\d?)s, peak memory (\d+\.\d)MB \(Job:Fork\)", usage).groups()  # type: ignore
    assert float(cpu) == pytest.approx(result["cpu_seconds"], abs=0.06)
    assert 150 <= float(peak) <= 260
    longest = [f"{each['id']} {seconds(each['seconds'])}" for each in result["slowest"]]
    assert slowest == f"  slowest: {', '.join(longest)}"
    assert evidence == "evidence: .whyrun/costs/runs/r0001"

    assert (result["run"], result["state"], result["exit_code"]) == ("r0001", "succeeded", 0)
    assert result["statuses"] == {"EXECUTES": 5}
    assert result["cpu_seconds"] >= 0.8
    assert result["peak_memory_step"] == "Job:Fork"
    assert 150 * MB <= result["peak_memory_bytes"] <= 260 * MB
    assert result["saved_seconds"] == 0
    took = {step: found["step_duration_ms"] / 1000 for step, found in project.metrics("r0001").items()}
    slowest_first = sorted(took, key=lambda step: (-took[step], step))
    assert result["slowest"] == [{"id": step, "seconds": round(took[step], 3)} for step in slowest_first[:3]]
    assert took["Job:Burn"] >= 0.8


def counts_writes(folder: Path) -> bool:
    """Whether the kernel counts what is written here: not where it is kept in memory alone (tmpfs)."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_oublock
    (folder / "probe").write_bytes(os.urandom(MB))
    return resource.getrusage(resource.RUSAGE_SELF).ru_oublock - before >= MB // 512


def test_metrics_hold_what_each_step_took(costs) -> None:
    project, _, result = costs
    metrics = project.metrics("r0001")
    own = {"step_duration_ms", "cpu_seconds", "max_rss_bytes", "disk_read_bytes", "disk_written_bytes"}
    assert {step: set(found) - own for step, found in metrics.items()} == {
        "Job:Burn": set(),
        "Job:Hold": set(),
        "Job:Write": {"progress", "words"},
        "Job:Fork": set(),
        "Job:Last": set(),
    }
    assert all(own <= set(found) for found in metrics.values())
    burn, hold, write, fork = (metrics[f"Job:{name}"] for name in ("Burn", "Hold", "Write", "Fork"))
    # The processor time and the memory are those of the step, not of the worker that has run others before it.
    assert burn["cpu_seconds"] >= 0.8
    assert hold["cpu_seconds"] < burn["cpu_seconds"]
    assert burn["step_duration_ms"] >= 800
    assert burn["max_rss_bytes"] < 100 * MB
    assert 120 * MB <= hold["max_rss_bytes"] <= 220 * MB
    assert fork["max_rss_bytes"] >= 150 * MB  # what its child held
    if counts_writes(project.root):
        assert write["disk_written_bytes"] >= 3 * MB
    assert burn["disk_written_bytes"] < MB
    assert (write["progress"], write["words"]) == (0.25, 1)
    assert result["peak_memory_bytes"] == max(found["max_rss_bytes"] for found in metrics.values())
    assert result["cpu_seconds"] == pytest.approx(sum(found["cpu_seconds"] for found in metrics.values()), abs=0.01)


def test_a_dry_run_expects_what_the_metrics_say(costs) -> None:
    project, _, _ = costs
    before = project.runs()
    metrics = project.metrics("r0001")
    expected = project("run", "--dry-run", "--json", "--jobs", "1", "--force", "Job:Burn", "--force", "Job:Hold").json
    assert expected["estimate_peak_memory_bytes"] == metrics["Job:Hold"]["max_rss_bytes"]
    took = project.durations("r0001")
    assert expected["estimate_seconds"] == pytest.approx(took["Job:Burn"] + took["Job:Hold"])
    # Side by side, the memory adds up: Burn, Write and Fork need nothing of each other.
    both = project("run", "--dry-run", "--jobs", "2", "--force", "Job:Fork", "--force", "Job:Burn").out.splitlines()
    memory = metrics["Job:Fork"]["max_rss_bytes"] + metrics["Job:Burn"]["max_rss_bytes"]
    # Hold comes after Burn, and on its own needs less.
    assert re.fullmatch(rf"expected time ~[\d.]+ s, peak memory ~{memory / MB:.1f}MB", both[-1])
    assert project.runs() == before


def test_a_dry_run_says_what_it_does_not_know(tmp_path: Path) -> None:
    project = Project(tmp_path, {"workflow.yaml": WORKFLOW, "work.py": WORK})
    answer = project("run", "--dry-run")
    assert answer.out.splitlines()[-1] == "expected time not known yet, peak memory not known yet"
    found = project("run", "--dry-run", "--json").json
    assert (found["estimate_seconds"], found["estimate_peak_memory_bytes"]) == (None, None)


def test_counts_per_status_and_the_time_that_was_saved(tmp_path: Path) -> None:
    project = Project(tmp_path, {"workflow.yaml": WORKFLOW, "work.py": WORK})
    assert project("run", "--quiet").code == 0
    failed = project("run", "--set", "Word=bad")
    assert failed.code == 1
    lines = failed.err.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("r0002 "))
    head, statuses = lines[start : start + 2]
    saved = re.fullmatch(
        r"r0002 failed in [\d.]+s: 1 executed, 1 failed, 1 blocked, 2 up to date; "
        r"saved ~(.+) by not running the rest again",
        head,
    )
    assert saved is not None, head
    first, second = project.durations("r0001"), project.durations("r0002")
    spared = first["Job:Burn"] + first["Job:Hold"]
    assert saved[1] == about(spared)
    assert statuses == "  EXECUTES 1, SKIPS 3 (2 up to date, 1 blocked), FAILED 1"  # what is blocked is counted apart
    assert lines[-4:] == [
        "  Job:Write  ValueError: a bad word  (work.py:16)",
        "  look closer: whyrun log r0002 --set Word=bad --job Job:Write",
        "               whyrun why Job:Write --set Word=bad",
        "evidence: .whyrun/costs/runs/r0002 (tracebacks are in its whyrun.log)",
    ]
    again = project("run", "--set", "Word=bad", "--json").json
    assert again["statuses"] == {"SKIPS": 4, "FAILED": 1}
    assert again["counts"] == {
        "completed": 0, "reused": 0, "inactive": 0, "failed": 1, "timed_out": 0, "interrupted": 0, "blocked": 1,
        "not_started": 0,
    }  # fmt: skip
    assert again["saved_seconds"] == pytest.approx(spared + second["Job:Fork"], abs=0.001)  # rounded
    # Set back, everything is there: it is taken, and what it takes to make, by its latest success, is saved.
    back = project("run", "--json").json
    assert back["statuses"] == {"SKIPS": 5}
    assert (back["counts"]["reused"], back["slowest"], back["cpu_seconds"]) == (2, [], 0)
    latest = {**first, "Job:Fork": second["Job:Fork"]}
    assert back["saved_seconds"] == pytest.approx(sum(latest.values()), abs=0.001)  # rounded
    # A job that was reused is still known to take its time.
    expected = project("run", "--dry-run", "--json", "--jobs", "1", "--force", "Job:Write", "--target", "Job:Last").json
    assert expected["estimate_seconds"] == pytest.approx(first["Job:Write"] + first["Job:Last"])


def test_a_timeout_alone_promises_no_traceback(tmp_path: Path) -> None:
    flow = """\
workflow: slow
jobs:
  Slow: {uses: shell, timeout: 300ms, with: {run: sleep 600}, outputs: {out: {type: text}}}
"""
    project = Project(tmp_path, {"workflow.yaml": flow})
    failed = project("run")
    assert failed.code == 1
    assert failed.err.splitlines()[-1] == "evidence: .whyrun/slow/runs/r0001"
    # How long it went on is known, and told.
    shown = project("show", "Job:Slow", "--json").json["latest_attempt"]
    events = [json.loads(line) for line in project.evidence("r0001", "events.jsonl").splitlines()]
    (end,) = [event for event in events if event["event"] == "step_failed"]
    assert (shown["status"], shown["duration"]) == ("TIMED_OUT", end["duration"])
    assert shown["duration"] >= 0.3


def test_a_step_that_was_tried_again_is_one_of_the_slowest_once(tmp_path: Path) -> None:
    flow = """\
workflow: tries
jobs:
  Flaky:
    uses: shell
    retries: 1
    with: {run: 'test -e "$TRIED" || { touch "$TRIED"; exit 1; }; echo 1 > "$out_T"'}
    env: {TRIED: "FOLDER/tried"}
    outputs: {T: {type: text}}
  Other: {uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text}}}
"""
    project = Project(tmp_path, {"workflow.yaml": flow.replace("FOLDER", str(tmp_path))})
    done = project("run", "--json").json
    assert done["counts"]["completed"] == 2
    assert sorted(each["id"] for each in done["slowest"]) == ["Job:Flaky", "Job:Other"]
