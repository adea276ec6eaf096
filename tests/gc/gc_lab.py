"""A project with a past: five runs, of which the first three can go. Made once, and copied for every test."""

from __future__ import annotations

import shutil
from pathlib import Path

from command_lab import CommandLab
from project_lab import NOT_TRACED, Heard
from whyrun.evidence.referenced_blobs import stored_blobs
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.log import events as ev

WORKFLOW = """\
workflow: past
inputs:
  Word: {type: string, default: one}
  Same: {type: string, default: always}
jobs:
  Write:
    uses: shell
    with: {word: "${{ inputs.Word }}", run: 'echo "$word" > "$out_Text"'}
    outputs: {Text: {type: text, path: out/word.txt}}
  Bind:
    uses: shell
    with:
      text: ${{ jobs.Write.outputs.Text }}
      same: ${{ inputs.Same }}
      run: mkdir "$out_Book"; cat "$text" > "$out_Book/page.txt"; echo "$same" > "$out_Book/cover.txt"
    outputs: {Book: {type: directory}}
"""


class Past(CommandLab):
    def word(self, word: str) -> Past:
        """Set the input, so that all jobs are to run again."""
        text = self.read("workflow.yaml")
        before = text.split("default: ", 1)[1].split("}", 1)[0]
        self.write({"workflow.yaml": text.replace(f"default: {before}}}", f"default: {word}}}", 1)})
        return self

    def adopt(self, artifact: str, text: str) -> None:
        path = self.root / "own.txt"
        path.write_text(text)
        adopt_file(self.opened(), artifact, path, Heard())

    def blobs(self) -> dict[str, bytes]:
        return {sha: Path(path).read_bytes() for sha, path, _ in stored_blobs(self.store)}

    def made(self, run: str) -> dict[str, str]:
        """What a run recorded: artifact → its hash."""
        return {e.artifact: e.sha256 for e in self.events(run) if isinstance(e, ev.ArtifactAvailable)}

    def snapshot_of(self, run: str) -> str:
        return next(e.snapshot_sha256 for e in self.events(run) if isinstance(e, ev.PlanComputed))

    def state_files(self) -> dict[str, bytes]:
        """Every file of the state that is no cache and no lock."""
        state = self.root / ".whyrun"
        files = [path for path in state.rglob("*") if path.is_file() and not path.is_symlink()]
        kept = {str(path.relative_to(state)): path.read_bytes() for path in files}
        return {name: data for name, data in kept.items() if not _is_derived(name)}


def _is_derived(name: str) -> bool:
    parts = name.split("/")
    return "index" in parts or parts[0] in ("stat-cache", "actions-cache", "store.lock") or parts[-1] == "lock"


def make_past(root: Path) -> Past:
    """r0001 to r0003: all jobs, each time for another word. r0004: all. r0005: only Bind, for another cover."""
    root.mkdir()
    past = Past(root)
    past.write({**NOT_TRACED, "workflow.yaml": WORKFLOW})
    for word in ("one", "two", "three", "four"):
        past.word(word).succeed()
    past.edit("workflow.yaml", "default: always", "default: never")
    past.succeed()
    assert past.runs() == ["r0001", "r0002", "r0003", "r0004", "r0005"]
    return past


def copy_of(past: Past, to: Path) -> Past:
    shutil.copytree(past.root, to, symlinks=True)
    return Past(to)
