"""A real project with a past of every kind, damaged by hand and verified by the real command."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fork_server import COMMAND, run_command

ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("WHYRUN_STATE", "NO_COLOR", "FORCE_COLOR")}
PATIENCE = 300.0  # seconds after which a test gives up on what must come
WORDS = 66  # more than 64: the bindings of Join are a long list, in a blob

WORKFLOW = """\
workflow: tales
inputs:
  Words: {type: "text[]", default: "words/*.txt"}
loops:
  word: {each: inputs.Words}
jobs:
  Shout:
    for: [word]
    uses: shell
    with:
      text: ${{ inputs.Words[word] }}
      run: |
        if grep -q slow "$text"; then sleep 600; fi
        if grep -q broken "$text"; then echo "it is broken" >&2; exit 3; fi
        tr a-z A-Z < "$text" > "$out_Loud"
    outputs: {Loud: {type: text}}
  Join:
    uses: shell
    with:
      parts: ${{ jobs.Shout.outputs.Loud[:] }}
      run: cat "${parts[@]}" > "$out_All"
    outputs: {All: {type: text, path: out/all.txt}}
  Pages:
    uses: shell
    with:
      first: ${{ inputs.Words[2] }}
      run: mkdir "$out_Book"; echo cover > "$out_Book/cover.txt"; cat "$first" > "$out_Book/page.txt"
    outputs: {Book: {type: directory}}
  Facts:
    uses: shell
    with:
      first: ${{ inputs.Words[3] }}
      run: echo "{\\"letters\\":$(wc -c < "$first")}" > "$out_About"
    outputs: {About: {type: json, path: out/facts.json, append: true}}
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def whyrun(folder: Path, *words: str) -> Answer:
    done = run_command(words, cwd=folder, env=ENVIRONMENT, timeout=300)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


class Tales:
    """The project, or a copy of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / ".whyrun/tales/runs"
        self.store = root / ".whyrun/store"

    def copy(self, to: Path) -> Tales:
        shutil.copytree(self.root, to, symlinks=True)
        return Tales(to)

    def word(self, number: int, text: str) -> None:
        (self.root / f"words/{number:02d}.txt").write_text(text)

    def verify(self, *words: str) -> Answer:
        return whyrun(self.root, "verify", *words)

    def log(self, run: str) -> Path:
        return self.runs / run / "events.jsonl"

    def lines(self, run: str) -> list[bytes]:
        return self.log(run).read_bytes().splitlines(keepends=True)

    def rewrite(self, run: str, change: Callable[[list[bytes]], list[bytes]]) -> None:
        self.log(run).write_bytes(b"".join(change(self.lines(run))))

    def events(self, run: str, kind: str) -> list[dict[str, Any]]:
        return [e for e in map(json.loads, self.lines(run)) if e["event"] == kind]

    def event(self, run: str, kind: str, about: str = "") -> dict[str, Any]:
        return next(e for e in self.events(run, kind) if about in (e.get("artifact"), e.get("step_id"), ""))

    def blob(self, sha: str) -> Path:
        return self.store / sha[:2] / sha[2:]

    def spoil(self, sha: str) -> str:
        """Other bytes of the same size in a blob; their hash."""
        path = self.blob(sha)
        data = bytes(byte ^ 1 for byte in path.read_bytes())
        path.chmod(0o644)
        path.write_bytes(data)
        return sha256(data)

    def chain(self) -> str:
        """The last link of the whole log."""
        last = max(run.name for run in self.runs.iterdir())
        return str(json.loads([line for line in self.lines(last) if line.endswith(b"\n")][-1])["chain"])

    def start_slow_run(self) -> subprocess.Popen[bytes]:
        """A run that is at its slow step for as long as a test needs it."""
        number = len(list(self.runs.iterdir())) + 1
        process = subprocess.Popen(
            [*COMMAND, "run", "--quiet"], cwd=self.root, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        log = self.log(f"r{number:04d}")
        deadline = time.monotonic() + PATIENCE
        while not (log.exists() and b'"step_start"' in log.read_bytes()):
            assert time.monotonic() < deadline, "the run does not come to its step"
            assert process.poll() is None, "the run has ended"
            time.sleep(0.02)
        return process


def kill(process: subprocess.Popen[bytes]) -> None:
    """The run and all that it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)


def make(root: Path) -> tuple[Tales, Tales]:
    """The project with seven runs: success, failure, one that displaces a file, an adoption, a comparison, one that was
    killed, and one that repaired that. And a copy of it as it was after the kill."""
    tales = Tales(root / "whole")
    (tales.root / "words").mkdir(parents=True)
    (tales.root / "workflow.yaml").write_text(WORKFLOW)
    for number in range(WORDS):
        tales.word(number, f"word {number}\n")
    _ran(0, whyrun(tales.root, "run", "--quiet"))
    tales.word(0, "broken\n")
    _ran(1, whyrun(tales.root, "run", "--quiet"))
    tales.word(0, "mended\n")
    (tales.root / "out/all.txt").write_text("written by the user\n")
    _ran(0, whyrun(tales.root, "run", "--quiet"))
    (tales.root / "mine.txt").write_text("adopted\n")
    _ran(0, whyrun(tales.root, "adopt", "Artifact:Join.All", "mine.txt"))
    _ran(0, whyrun(tales.root, "compare", "Job:Shout[2]"))
    tales.word(1, "slow\n")
    kill(tales.start_slow_run())
    killed = tales.copy(root / "killed")
    tales.word(1, "quick\n")
    _ran(0, whyrun(tales.root, "run", "--quiet"))
    return tales, killed


def _ran(code: int, answer: Answer) -> None:
    assert answer.code == code, answer.out + answer.err


def about(event: dict[str, Any]) -> str:
    """As it stands behind a problem: the name of the event, and the ID of what it tells of."""
    subjects = (event.get(name) for name in ("artifact", "step_id", "id", "path"))
    return " ".join([str(event["event"]), *(subject for subject in subjects if isinstance(subject, str))][:2])


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def without_counts(text: str) -> str:
    """How many events and blobs there are is not what a test of damage is about; and hints have tests of their own."""
    assert text.count("\nhint: ") > 0
    return re.sub(r"^(checked|hint): .*\n", "", text, flags=re.M)
