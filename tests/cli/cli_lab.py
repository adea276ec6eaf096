"""Runs the real command in its own process, in a real project folder."""

from __future__ import annotations

import json
import os
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fork_server import COMMAND as COMMAND
from fork_server import run_command

runner = run_command  # while mutants are tried, it is another one
QUIET_ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("WHYRUN_STATE", "NO_COLOR", "FORCE_COLOR")}


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def whyrun(folder: Path, *words: str, env: dict[str, str] | None = None) -> Answer:
    done = runner(words, cwd=folder, env={**QUIET_ENVIRONMENT, **(env or {})}, timeout=300)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def timeless(text: str) -> str:
    """The text with every clock time and duration as a letter, and lines that may come in any order sorted."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"(in|after) ~?\d+(\.\d+)?s", r"\1 T", text)
    text = re.sub(r"  \(~[\d.]+ s\)", "", text)
    text = re.sub(r"  cpu \S+, peak memory \d\S+ \(Job:\S+\)\n  slowest: Job:.*", "  USAGE", text)
    return re.sub(r"; saved ~[\d.]+ s by not running the rest again", "", text)


def step_lines(text: str) -> list[str]:
    """The lines of steps, sorted: the order between steps is free."""
    return sorted(line for line in timeless(text).splitlines() if line.startswith("TIME "))


def other_lines(text: str) -> list[str]:
    return [line for line in timeless(text).splitlines() if not line.startswith("TIME ")]


def dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below, with its content."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


WORKFLOW = """\
workflow: pairs
inputs:
  Words: {type: "text[]", default: "words/*.txt"}
  Mark:  {type: string, default: "!"}
loops:
  word: {each: inputs.Words}
jobs:
  Shout:
    for: [word]
    uses: shell
    with:
      text: ${{ inputs.Words[word] }}
      mark: ${{ inputs.Mark }}
      run: |
        if grep -q broken "$text"; then echo "it is broken" >&2; exit 3; fi
        { tr a-z A-Z < "$text"; echo "$mark"; } > "$out_Loud"
    outputs: {Loud: {type: text}}
  Join:
    uses: shell
    with:
      parts: ${{ jobs.Shout.outputs.Loud[:] }}
      run: cat "${parts[@]}" > "$out_All"
    outputs: {All: {type: text, path: out/all.txt}}
"""


def pairs(folder: Path) -> Path:
    """Two words, two jobs: Job:Shout[0], Job:Shout[1] and Job:Join."""
    folder.mkdir(exist_ok=True)
    (folder / "words").mkdir()
    (folder / "words/a.txt").write_text("one\n")
    (folder / "words/b.txt").write_text("two\n")
    (folder / "workflow.yaml").write_text(WORKFLOW)
    return folder
