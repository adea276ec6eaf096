"""The note that a sandbox may be the cause of a failure, and the smallest limits that a job may set."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from sandbox_lab import SandboxProject

from whyrun.execution.recording.failure_notes import sandbox_note
from whyrun.workflow.model import SandboxDecl
from whyrun.workflow.parsing.running_keys import LEAST_MEMORY, LEAST_PROCESSES

Make = Callable[[dict[str, str]], SandboxProject]

NO_NETWORK = "this step had no network: its job does not say `sandbox: {network: true}`"
STEPS = """
import socket, threading, time

def hog():
    hoard = bytearray(1 << 30)

def many():
    for _ in range(1000):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()

def call():
    socket.create_connection(("127.0.0.1", 9), 5)
"""
FLOW = f"""\
workflow: notes
jobs:
  Call: {{uses: python, with: {{call: "steps:call"}}, outputs: {{text: {{type: text}}}}}}
  Hog: {{uses: python, sandbox: {{memory: 200MB}}, with: {{call: "steps:hog"}}, outputs: {{text: {{type: text}}}}}}
  Least:
    uses: shell
    sandbox: {{memory: {LEAST_MEMORY}, processes: {LEAST_PROCESSES}}}
    with: {{run: 'echo enough | tee "$out_text"'}}
    outputs: {{text: {{type: text, path: least.txt}}}}
  Many: {{uses: python, sandbox: {{processes: 20}}, with: {{call: "steps:many"}}, outputs: {{text: {{type: text}}}}}}
"""


def test_what_a_sandbox_withheld_is_told_to_people_and_stands_in_no_event(sandboxed: Make) -> None:
    project = sandboxed({"steps.py": STEPS, "workflow.yaml": FLOW})
    code, said = project.run("--jobs", "1")
    assert code == 1, said
    assert (project.folder / "least.txt").read_text() == "enough\n"  # what is not refused is enough to run
    memory = "its sandbox may use 200 MB (`sandbox: {memory: …}`)"
    processes = "its sandbox may have 20 processes and threads at a time (`sandbox: {processes: …}`)"
    lines = re.findall(r"FAILED Job:(\w+) after [\d.]+s → (.*) \(see log line \d+\)", said)
    refused = "ConnectionRefusedError: [Errno 111] Connection refused"
    assert lines == [
        ("Call", f"{refused} → {NO_NETWORK}"),
        ("Hog", f"MemoryError → {memory}"),
        ("Many", f"RuntimeError: can't start new thread → {processes}"),
    ]
    summary = said[said.index("\n  Job:Call  ") + 1 : said.index("  look closer")]
    assert summary.splitlines() == [
        f"  Job:Call  {refused}  (steps.py:12)",
        f"    {NO_NETWORK}",
        "  Job:Hog  MemoryError  (steps.py:5)",
        f"    {memory}",
        "  Job:Many  RuntimeError: can't start new thread  (steps.py:9)",
        f"    {processes}",
    ]
    assert "sandbox" not in (project.last_run / "events.jsonl").read_text().replace('"backend":"sandbox"', "")
    assert project.failed() == {
        "Job:Call": ("FAILED", "ConnectionRefusedError", "[Errno 111] Connection refused"),
        "Job:Hog": ("FAILED", "MemoryError", ""),
        "Job:Many": ("FAILED", "RuntimeError", "can't start new thread"),
    }


@pytest.mark.parametrize(
    ("backend", "sandbox", "error", "note"),
    [
        ("sandbox", SandboxDecl(), ("CommandFailed", "exit status 6\ncurl: (6) Could not resolve host: x"), NO_NETWORK),
        ("sandbox", SandboxDecl(network=True), ("gaierror", "[Errno -2] Name or service not known"), ""),
        ("sandbox", SandboxDecl(), ("OperationalError", "no such table: t"), ""),
        ("local", SandboxDecl(required=True), ("ConnectionFailed", "no connection: Connection refused"), NO_NETWORK),
        ("local", SandboxDecl(), ("ConnectionRefusedError", "[Errno 111] Connection refused"), ""),
        ("dask", SandboxDecl(memory=10**9), ("MemoryError", ""), ""),
        ("e2b", SandboxDecl(required=True), ("gaierror", ""), ""),
        ("sandbox", SandboxDecl(memory=15 * 10**8), ("MemoryError", ""),
         "its sandbox may use 1.5 GB (`sandbox: {memory: …}`)"),
        ("sandbox", SandboxDecl(), ("MemoryError", ""),
         "its sandbox may use half of the machine's memory (set `sandbox: {memory: …}` to change this)"),
        ("sandbox", SandboxDecl(), ("BlockingIOError", "[Errno 11] Resource temporarily unavailable"),
         "its sandbox may have only so many processes and threads at a time (`sandbox: {processes: …}`)"),
        ("sandbox", SandboxDecl(), ("OSError", "[Errno 28] No space left on device: '/tmp/x'"),
         "`/tmp` and `/dev/shm` in its sandbox hold 64 MB each, in memory; `$TMPDIR` is on the disk"),
    ],
)  # fmt: skip
def test_the_note_is_about_what_this_sandbox_withholds(
    backend: str, sandbox: SandboxDecl, error: tuple[str, str], note: str
) -> None:
    assert sandbox_note(backend, sandbox, *error) == note
