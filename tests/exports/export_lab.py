"""A real project whose runs succeeded, failed, compared and were killed; and a run of fixed events for goldens."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from project_lab import Heard, Lab
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.compare.compare import CompareOptions, compare_workflow
from whyrun.execution.run.session import complete_last_run
from whyrun.exports.reading import RunSubject, chosen_run
from whyrun.exports.record import Rendered, RunRecord, fold
from whyrun.exports.registry import export
from whyrun.exports.texts import Cleaner
from whyrun.log import events as ev

SECRET = 'tok-3xport-s3cret/"quoted"'
OUTSIDE = "/srv/lab/other.csv"
GOLDEN = Path(__file__).parent / "golden"

WORKFLOW = """
    workflow: study
    inputs:
      Topic: {type: string, default: cinema}
      Photos: {type: "file[]", default: photos/*.txt}
      Fails: {type: boolean, default: false}
    loops: {photo: {each: inputs.Photos}}
    jobs:
      Script:
        uses: python
        with: {call: "steps:script", topic: "${{ inputs.Topic }}"}
        outputs: {Story: {type: json, path: out/story.json, leaves: {Long: boolean, Words: integer}}}
      Print:
        for: [photo]
        uses: python
        with: {call: "steps:copy", source: "${{ inputs.Photos[photo] }}", story: "${{ jobs.Script.outputs.Story }}"}
        outputs: {Copy: {type: file, path: "out/copy-${{ photo }}.txt"}}
      Epilogue:
        if: ${{ jobs.Script.outputs.Story.Long }}
        uses: python
        with: {call: "steps:copy", source: "${{ jobs.Print.outputs.Copy[0] }}", story: 1}
        outputs: {Copy: {type: file}}
      Stamp:
        uses: python
        with: {call: "steps:stamp"}
        outputs: {Mark: {type: text}}
      Check:
        uses: python
        secrets: [EXPORT_TOKEN]
        retries: {max: 1, backoff: 10ms}
        with: {call: "steps:check", fails: "${{ inputs.Fails }}", copies: "${{ jobs.Print.outputs.Copy[:] }}",
               token: "${{ secrets.EXPORT_TOKEN }}"}
        outputs: {Report: {type: text, path: out/report.md}}
      After:
        uses: python
        with: {call: "steps:copy", source: "${{ jobs.Check.outputs.Report }}", story: 2}
        outputs: {Copy: {type: file}}
"""
STEPS = """
    import os
    import socket
    from pathlib import Path

    def script(topic, context):
        context.cost("0.04", item="words", quantity=12)
        context.cost("0.10", "EUR", item="pictures")
        context.task("EXECUTES", "wrote a <b>story</b> & more")
        return {"Story": {"Title": topic, "Long": False, "Words": 12}}

    def copy(source, story):
        Path("copied.txt").write_text(Path(source).read_text() + "copied")
        return {"Copy": Path("copied.txt")}

    def stamp():
        return {"Mark": os.urandom(8).hex()}

    def check(fails, copies, token):
        if fails:
            place = Path(__file__).parent / "data" / "table.csv"
            raise ValueError(
                f"cannot read {place}, /srv/lab/other.csv as {token} on {socket.gethostname()}: 100% | `x` "
                f"<b> ]]> @team\\r\\n::error::mine (pid {os.getpid()})\\x1b[0m"
            )
        return {"Report": "fine"}
"""
FILES = {"steps.py": STEPS, "photos/a.txt": "Ada\n", "photos/b.txt": "Ben\n"}
RUNS = {"success": "r0001", "failure": "r0002", "comparison": "r0003", "killed": "r0004"}
STATES = {"success": "succeeded", "failure": "failed", "comparison": "differences", "killed": "interrupted"}


def made(root: Path) -> Lab:
    root.mkdir(parents=True, exist_ok=True)
    lab = Lab(root).write({"workflow.yaml": WORKFLOW, "whyrun.toml": 'trace = "never"\n', **FILES})
    os.environ["EXPORT_TOKEN"] = SECRET
    lab.succeed()
    assert lab.run(sets=("Fails=true",)).exit_code == 1
    found = CompareOptions(("Job:Stamp", "Job:Script", "Job:Print[*]"), None, False)
    assert compare_workflow(lab.opened(), found, RunOptions(jobs=2), Heard()).run == "r0003"
    ran = lab.succeed(force=["Job:Stamp"], targets=["Job:Stamp"])
    kill(ran.folder, "Job:Stamp")
    complete_last_run(lab.opened(), lambda note: None)
    return lab


def kill(folder: Path | None, step: str) -> None:
    """As if the host had been killed while it executed this step: nothing is there of what comes after."""
    assert folder is not None
    log = folder / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if f'"step_start","step_id":"{step}"'.encode() in line)
    log.write_bytes(b"".join(lines[: start + 1]))
    (folder / "status.json").unlink()
    shutil.rmtree(folder / "artifacts")


def subject(lab: Lab, run: str, **options: Any) -> RunSubject:
    project = lab.opened()
    return RunSubject(project, chosen_run(project, run), **options)


def exported(lab: Lab, format_: str, kind: str) -> Rendered:
    return export(subject(lab, RUNS[kind]), format_)


def all_bytes(rendered: Rendered) -> bytes:
    folder = [name.encode() for name in rendered.folder]
    folder += [data if isinstance(data, bytes) else Path(data).read_bytes() for data in rendered.folder.values()]
    return b"\n".join([rendered.data, rendered.said, rendered.printed or b"", *folder])


def private(lab: Lab) -> list[bytes]:
    """What no export may have: the secret as it is and as JSON has it, folders of this machine, its name."""
    host = socket.gethostname()
    texts = [
        SECRET,
        SECRET.replace('"', '\\"'),
        SECRET.replace('"', "&quot;"),
        str(lab.root),
        str(lab.root.parent),
        OUTSIDE,
    ]
    return [text.encode() for text in texts] + ([f" {host}".encode(), f'"{host}"'.encode()] if host else [])


# --- a run of fixed events -------------------------------------------------------------------------------------------

_HOSTILE = "100% | `a` ``b`` <img src=x> ![i](u) @team #1\r\n::error::mine\n::stop-commands::x ]]>"


def fixed(*, ended: bool = True) -> RunRecord:
    """Each status once, with text that wants to be markup or a command."""
    folder = "/srv/ada/project"
    trace = f'Traceback (most recent call last):\n  File "{folder}/steps.py", line 3, in check\n```\nValueError: no\n'
    start = {"driver": "python", "attempt": 1, "fingerprint": "5f" * 32, "bindings": {}}
    output = {"sha256": "ab" * 32, "size": 7, "type": "file", "suffix": ".txt", "path": "out/a.txt"}
    good: dict[str, Any] = {"driver": "python", "output_dir": "artifacts/x", "duration": 1.25, "status": "EXECUTES"}
    bad: dict[str, Any] = {"driver": "python", "error_type": "ValueError", "traceback": trace, "duration": 0.5}
    host, pid = "build-7.example.org", 4711
    events: list[Any] = [
        ev.RunStart(workflow="study", workflow_sha256="cd" * 32, mode="run", options={}, backend="local",
                    engine_version="0.1.0", host=host, pid=pid, previous_chain="0" * 64),
        ev.StepStart(step_id="Job:Print[2]", **start),
        ev.Task(step_id="Job:Print[2]", status="EXECUTES", message=f"on {host} (pid {pid})"),
        ev.CostRecorded(step_id="Job:Print[2]", amount="0.04", currency="USD"),
        ev.ArtifactAvailable(artifact="Artifact:Print.Copy[2]", step_id="Job:Print[2]", **output),
        ev.StepComplete(step_id="Job:Print[2]", **good),
        ev.StepSkipped(step_id="Job:Print[10]", why="reused", from_run="r0001"),
        ev.StepSkipped(step_id="Job:Pick", why="condition_false"),
        ev.StepSkipped(step_id="Job:Draw", why="budget"),
        ev.StepStart(step_id="Job:Check", **start),
        ev.StepFailed(step_id="Job:Check", error="no answer", status="FAILED", will_retry=True, **bad),
        ev.StepStart(step_id="Job:Check", **start | {"attempt": 2}),
        ev.CostRecorded(step_id="Job:Check", amount=None, currency="USD"),
        ev.StepFailed(step_id="Job:Check", error=f"{folder}/in.csv and /etc/ssl/a.pem: {_HOSTILE}", status="FAILED",
                      will_retry=False, **bad),
        ev.StepBlocked(step_id="Job:After", because=["Job:Check"]),
        ev.StepStart(step_id="Job:Slow", **start),
        ev.StepFailed(step_id="Job:Slow", error="60s are over", status="TIMED_OUT", will_retry=False,
                      **bad | {"error_type": "TimedOut", "traceback": ""}),
        ev.StepStart(step_id="Job:Again", **start),
        ev.Comparison(artifact="Artifact:Again.Copy", status="DIFFERENT", against="r0001", summary="1 line | more",
                      details=["- a", "+ `b`"]),
        ev.StepComplete(step_id="Job:Again", **good | {"status": "DIFFERENT"}),
        ev.StepStart(step_id="Job:Open", **start),
    ]  # fmt: skip
    if ended:
        events.append(ev.RunComplete(state="failed", counts={}, duration=9.5))
    for number, event in enumerate(events, 1):
        event.seq, event.ts, event.session = number, f"2026-11-20T08:00:{number:02d}.000000Z", "r0007"
        event.chain = f"{number:064x}"
    jobs = [
        {"id": "Job:Check", "state": "planned", "action": "python", "reasons": [
            {"code": "RETRY_PREVIOUS_FAILURE", "run": "r0006", "attempt": 1, "error_type": "ValueError",
             "error": "/tmp/x/y.csv | gone"},
            {"code": "UPSTREAM_DIRTY", "job": "Job:Print[2]"}, {"code": "UPSTREAM_DIRTY", "more": 40}]},
        {"id": "Job:Later", "state": "planned", "action": "shell", "reasons": [{"code": "FORCED", "by": "all"}]},
        {"id": "Job:Off", "state": "inactive"},
    ]  # fmt: skip
    plan = {"jobs": jobs, "totals": {"clean": 3}}
    return fold("study", "r0007", events, Cleaner(folder, host), plan=plan, is_running=not ended)


@dataclass
class FixedSubject:
    """What a format asks, for a record of fixed events."""

    one: RunRecord
    link: str = ""
    namespace: str = ""
    metadata_only: bool = False

    def record(self) -> RunRecord:
        return self.one

    def records(self) -> Iterator[RunRecord]:
        yield self.one

    def members(self, long: Mapping[str, Any]) -> list[dict[str, Any]]:
        return []

    def blobs(self, sha256: str) -> Mapping[str, tuple[str, int]]:
        return {}

    def checks(self) -> Mapping[str, list[str]] | None:
        return None

    def sources(self) -> Mapping[str, bytes]:
        return {"workflow.yaml": b"workflow: study"}


def check_golden(name: str, data: bytes) -> None:
    """`UPDATE_GOLDEN=1` writes it; read the difference before you commit it."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_bytes(data)
    assert data.decode() == path.read_text(encoding="utf-8")
