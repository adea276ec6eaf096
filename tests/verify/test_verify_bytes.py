"""Damaged blobs, run folder files and status; and which blobs may be missing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from verify_lab import Tales, about, sha256, whyrun, without_counts

from project_lab import Lab
from whyrun.log.events import ArtifactAvailable


def report(tales: Tales, *words: str) -> str:
    answer = tales.verify(*words)
    assert (answer.code, answer.err) == (3, "")
    return without_counts(answer.out)


def problems(tales: Tales, *lines: str) -> str:
    count = sum(not line.startswith("    ") for line in lines)
    head = f"tales is damaged: {count} problem{'s' if count != 1 else ''}"
    return "\n".join([head, *lines, f"last chain: {tales.chain()}", ""])


def place(tales: Tales, run: str, event: dict[str, object]) -> str:
    return f"  .whyrun/tales/runs/{run}/events.jsonl:{event['seq']}"


def bytes_lines(sha: str, found: str | None = None) -> list[str]:
    lines = [f"    expected  {sha}", f"    found     {found}", f"    blob      .whyrun/store/{sha[:2]}/{sha[2:]}"]
    return lines if found is not None else [lines[0], lines[2]]


def test_an_artifact_with_other_bytes(tales: Tales) -> None:
    event = tales.event("r0001", "artifact_available", "Artifact:Shout.Loud[7]")
    found = tales.spoil(event["sha256"])
    assert report(tales) == problems(
        tales,
        f"{place(tales, 'r0001', event)}: the store has other bytes (artifact_available Artifact:Shout.Loud[7])",
        *bytes_lines(event["sha256"], found),
    )


def test_a_missing_current_artifact(tales: Tales) -> None:
    event = tales.event("r0001", "artifact_available", "Artifact:Shout.Loud[7]")
    tales.blob(event["sha256"]).unlink()
    gone = (
        f"{place(tales, 'r0001', event)}: its bytes are not in the store (artifact_available Artifact:Shout.Loud[7])",
        *bytes_lines(event["sha256"]),
    )
    assert report(tales) == problems(tales, *gone)
    assert tales.verify("r0004").code == 0  # another run has nothing to do with it


def test_a_missing_older_version_is_not_damage(tales: Tales) -> None:
    tales.blob(tales.event("r0001", "artifact_available", "Artifact:Shout.Loud[0]")["sha256"]).unlink()
    answer = tales.verify()
    assert answer.code == 0
    note = "note: 1 older version is not in the store any more and cannot be restored or reused"
    assert answer.out.splitlines()[-1] == note
    tales.blob(tales.event("r0001", "artifact_available", "Artifact:Join.All")["sha256"]).unlink()
    note = "note: 2 older versions are not in the store any more and cannot be restored or reused"
    assert tales.verify().out.splitlines()[-1] == note


def test_a_lost_artifact_whose_published_file_has_its_bytes(tales: Tales) -> None:
    event = tales.event("r0007", "artifact_available", "Artifact:Join.All")
    tales.blob(event["sha256"]).unlink()
    answer = tales.verify()
    assert (answer.code, answer.out.splitlines()[-1]) == (
        0,
        "note: Artifact:Join.All (r0007) is not in the store; `out/all.txt` has its bytes, and a run that needs them "
        "takes them from there",
    )
    (tales.root / "out/all.txt").write_text("edited\n")
    assert report(tales) == problems(
        tales,
        f"{place(tales, 'r0007', event)}: its bytes are not in the store (artifact_available Artifact:Join.All)",
        *bytes_lines(event["sha256"]),
    )


@pytest.mark.parametrize("lost", ["the list", "a file"])
def test_a_lost_folder_artifact_that_is_still_published(project: Callable[..., Lab], lost: str) -> None:
    lab = project(FOLDER, {})
    event = next(e for e in lab.succeed().events if isinstance(e, ArtifactAvailable) and e.artifact == "Artifact:A.F")
    blob = lab.blob(event.sha256 if lost == "the list" else sha256(b"one\n"))
    blob.unlink()
    answer = whyrun(lab.root, "verify")
    place = "out/f" if lost == "the list" else "out/f/t.txt"
    assert (answer.code, answer.out.splitlines()[-1]) == (
        0,
        f"note: Artifact:A.F (r0001) is not in the store; `{place}` has its bytes, and a run that needs them takes "
        "them from there",
    )
    lab.run(force=("Job:B",))  # which reads it
    assert blob.is_file()
    blob.unlink()
    (lab.root / "out/f/t.txt").write_text("edited\n")
    assert whyrun(lab.root, "verify").code == 3


FOLDER = """
    workflow: demo
    jobs:
      A:
        uses: shell
        with: {run: 'mkdir "$out_F"; echo one > "$out_F/t.txt"'}
        outputs: {F: {type: directory, path: out/f}}
      B:
        uses: shell
        with: {f: "${{ jobs.A.outputs.F }}", run: 'ls "$f" > "$out_T"'}
        outputs: {T: {type: text}}
"""


def test_a_published_file_is_the_users_to_change(tales: Tales) -> None:
    (tales.root / "out/all.txt").write_text("edited\n")
    (tales.root / "out/facts.json").unlink()
    assert tales.verify().code == 0


def test_files_of_a_folder(tales: Tales) -> None:
    event = tales.event("r0001", "artifact_available", "Artifact:Pages.Book")
    cover, page = sha256(b"cover\n"), sha256(b"word 2\n")
    tales.blob(cover).unlink()
    found = tales.spoil(page)
    where = place(tales, "r0001", event)
    assert report(tales) == problems(
        tales,
        f"{where}: the store has other bytes of `page.txt` in it (artifact_available Artifact:Pages.Book)",
        *bytes_lines(page, found),
        f"{where}: its bytes are not in the store (artifact_available Artifact:Pages.Book)",
        *bytes_lines(cover),
    )


def test_a_section_is_checked_like_any_artifact(tales: Tales) -> None:
    event = tales.event("r0001", "artifact_available", "Artifact:Facts.About")
    found = tales.spoil(event["sha256"])
    assert report(tales) == problems(
        tales,
        f"{place(tales, 'r0001', event)}: the store has other bytes (artifact_available Artifact:Facts.About)",
        *bytes_lines(event["sha256"], found),
    )


def test_displaced_files_long_lists_and_snapshots_are_required(tales: Tales) -> None:
    displaced = tales.event("r0003", "file_displaced")
    started = tales.event("r0001", "step_start", "Job:Join")
    computed = tales.event("r0001", "plan_computed")
    list_ = started["bindings"]["parts"]["blob"]
    assert displaced["sha256"] == sha256(b"written by the user\n")
    for sha in (displaced["sha256"], list_, computed["snapshot_sha256"]):
        tales.blob(sha).unlink()
    assert report(tales) == problems(
        tales,
        f"{place(tales, 'r0001', computed)}: the snapshot that the plan was made from is not in the store "
        "(plan_computed)",
        *bytes_lines(computed["snapshot_sha256"]),
        f"{place(tales, 'r0001', started)}: a long list of bindings is not in the store (step_start Job:Join)",
        *bytes_lines(list_),
        f"{place(tales, 'r0003', displaced)}: a file that was saved before it was overwritten is not in the store "
        f"({about(displaced)})",
        *bytes_lines(displaced["sha256"]),
    )


def test_a_blob_that_is_not_a_file(tales: Tales) -> None:
    event = tales.event("r0001", "artifact_available", "Artifact:Shout.Loud[7]")
    tales.blob(event["sha256"]).unlink()
    os.mkfifo(tales.blob(event["sha256"]))
    assert report(tales) == problems(
        tales,
        f"{place(tales, 'r0001', event)}: the store has other bytes (artifact_available Artifact:Shout.Loud[7])",
        *bytes_lines(event["sha256"], "(not a file)"),
    )


def test_cfg_and_manifest(tales: Tales) -> None:
    cfg = next(e for e in tales.events("r0001", "cfg_materialized") if "Join" in e["path"])
    manifest = tales.event("r0003", "manifest_materialized")
    (tales.runs / "r0001" / cfg["path"]).unlink()
    (tales.runs / "r0003/manifest.yaml").write_text("{}")
    assert report(tales) == problems(
        tales,
        f"  .whyrun/tales/runs/r0001/{cfg['path']}: the file is missing",
        f"    expected  {cfg['sha256']}",
        f"  .whyrun/tales/runs/r0003/manifest.yaml: the file does not match line {manifest['seq']} of the log",
        f"    expected  {manifest['sha256']}",
        f"    found     {sha256(b'{}')}",
    )


def changed(path: Path, name: str, value: object) -> None:
    data = json.loads(path.read_bytes())
    data[name] = value
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    path.write_text(text + "\n")


def test_the_plan(tales: Tales) -> None:
    computed = {run: tales.event(run, "plan_computed") for run in ("r0001", "r0002", "r0003", "r0007")}
    changed(tales.runs / "r0001/plan.json", "layers", [])
    changed(tales.runs / "r0002/plan.json", "log_position", {"run": "r0009", "seq": 1})
    (tales.runs / "r0003/plan.json").unlink()
    plan = tales.runs / "r0007/plan.json"
    plan.write_bytes(plan.read_bytes() + b"\n")
    line = "the file is not the plan that line {} of the log names"
    assert report(tales) == problems(
        tales,
        f"  .whyrun/tales/runs/r0001/plan.json: {line.format(computed['r0001']['seq'])}",
        f"    expected  {computed['r0001']['plan_sha256']}",
        f"  .whyrun/tales/runs/r0002/plan.json: {line.format(computed['r0002']['seq'])}",
        f"    expected  {computed['r0002']['plan_sha256']}",
        "  .whyrun/tales/runs/r0003/plan.json: the file is missing",
        f"    expected  {computed['r0003']['plan_sha256']}",
        f"  .whyrun/tales/runs/r0007/plan.json: {line.format(computed['r0007']['seq'])}",
        f"    expected  {computed['r0007']['plan_sha256']}",
    )


def test_the_status_must_match_the_events(tales: Tales) -> None:
    changed(tales.runs / "r0002/status.json", "ok", True)
    changed(tales.runs / "r0002/status.json", "steps_failed", 0)
    (tales.runs / "r0003/status.json").write_text("{fine}")
    assert report(tales) == problems(
        tales,
        "  .whyrun/tales/runs/r0002/status.json: `ok`, `steps_failed` do not match the events",
        '    expected  {"ok":false,"steps_failed":1}',
        '    found     {"ok":true,"steps_failed":0}',
        "  .whyrun/tales/runs/r0003/status.json: the file is not a status: JSON is malformed: "
        "object keys must be strings (byte 1)",
    )


def test_a_status_that_says_nothing_is_one_problem(tales: Tales) -> None:
    (tales.runs / "r0002/status.json").write_text("{}\n")
    (told,) = tales.verify("--json").json["problems"]
    assert told["what"] == "`ok`, `state`, `exit_code` and 10 more do not match the events"
    assert (json.loads(told["expected"])["steps_failed"], told["found"]) == (1, "{}")


def test_a_damaged_snapshot_is_reported_once(tales: Tales) -> None:
    """By who reads the bytes; the replay that needs it is then only left out. And no job is said to make it again."""
    sha = tales.event("r0003", "plan_computed")["snapshot_sha256"]
    tales.spoil(sha)
    found = tales.verify("--replay", "all", "--json").json
    assert [(p["kind"], p["run"], p["expected"]) for p in found["problems"]] == [("blob", "r0003", sha)]
    assert "the plan of r0003 is not computed again: a blob that it was made from is damaged" in found["notes"]
    answer = whyrun(tales.root, "plan", "--at", "r0003")
    assert answer.code == 3
    assert answer.err.endswith("; a snapshot of the past cannot be made again\n")


def test_files_that_every_run_has(tales: Tales) -> None:
    (tales.runs / "r0001/commands.jsonl").unlink()
    (tales.runs / "r0001/status.json").rename(tales.runs / "r0001/status.bak")
    answer = tales.verify()
    note = "note: r0001 has no `status.json`: the next run completes its folder"
    assert (answer.code, answer.out.splitlines()[-1]) == (0, note)
    (tales.runs / "r0001/status.bak").rename(tales.runs / "r0001/status.json")
    assert report(tales) == problems(tales, "  .whyrun/tales/runs/r0001/commands.jsonl: the file is missing")


def test_a_missing_store_gives_a_limited_list_and_a_count(tales: Tales) -> None:
    tales.store.rename(tales.root / "elsewhere")
    answer = tales.verify()
    assert answer.code == 3
    lines = answer.out.splitlines()
    count = int(lines[0].split()[-2])
    assert lines[0] == f"tales is damaged: {count} problems"
    assert f"  … {count - 50} more; --all shows them" in lines
    everything = tales.verify("--all").out
    assert everything.count("\n  .whyrun/") == count
    assert len(tales.verify("--json").json["problems"]) == count


@pytest.mark.parametrize("name", ["commands.jsonl", "debug.log", "metrics.jsonl", "whyrun.log"])
def test_a_folder_in_place_of_a_log_is_a_problem(tales: Tales, name: str) -> None:
    place = tales.runs / "r0001" / name
    place.unlink()
    place.mkdir()
    said = f"  .whyrun/tales/runs/r0001/{name}: it is not a file: move it away"
    assert report(tales) == problems(tales, said)


def test_a_missing_workflow_file_in_source_is_reported(tales: Tales) -> None:
    (gone,) = (path for path in (tales.runs / "r0001" / "source").rglob("*") if path.is_file())
    gone.unlink()
    place = gone.relative_to(tales.runs.parent.parent.parent)
    assert report(tales) == problems(tales, f"  {place}: the file is missing")


def add_metrics(project: Tales, run: str, *steps: str) -> int:
    """Add metrics of these steps; return the line of the first."""
    metrics = project.runs / run / "metrics.jsonl"
    before = metrics.read_bytes()
    metric = {"ts": "2026-11-19T00:00:00.000000Z", "session": run, "metric": "rows", "value": 1.0, "unit": "rows"}
    added = [json.dumps({**metric, "step_id": step}).encode() + b"\n" for step in steps]
    metrics.write_bytes(before + b"".join(added))
    return before.count(b"\n") + 1


def test_metrics_of_a_step_that_the_run_did_not_start_are_damage(tales: Tales) -> None:
    first = add_metrics(tales, "r0001", "Job:Gone", "Job:Gone", "Job:Lost")
    assert [(problem["what"], problem["line"]) for problem in tales.verify("--json").json["problems"]] == [
        ("`Job:Gone` is no step that the run started", first),
        ("`Job:Lost` is no step that the run started", first + 2),
    ]


@pytest.mark.parametrize(
    ("steps", "which"),
    [
        (["Job:Gone", "Job:Gone"], "`Job:Gone`, which"),
        (["Job:Gone", "Job:Lost"], "2 steps that"),
    ],
)
def test_a_power_cut_may_take_the_start_of_a_step_and_keep_its_metrics(
    tales: Tales, steps: list[str], which: str
) -> None:
    assert tales.events("r0006", "log_repaired") != []
    first = add_metrics(tales, "r0006", *steps)
    found = tales.verify("--json").json
    assert found["problems"] == []
    assert f"`metrics.jsonl` of r0006 has metrics of {which} the run did not start (line {first})" in found["notes"]
