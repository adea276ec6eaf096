"""A project whose steps wait for a file, so that a test knows the state of the run while it looks."""

from __future__ import annotations

from pathlib import Path

from command_lab import Command, CommandLab, until
from project_lab import NOT_TRACED

# Each step says that it has begun, and goes on once there is the file `gate`. `Wait` has two instances, which are
# executed at once, and `After` waits for both.
WORKFLOW = """\
workflow: NAME
inputs:
  Word: {type: text, default: word.txt}
loops:
  turn: {count: 2}
jobs:
  First:
    uses: shell
    with: {word: "${{ inputs.Word }}", run: 'cat "$word" > "$out_Text"'}
    outputs: {Text: {type: text, path: NAME/first.txt}}
  Wait:
    for: [turn]
    uses: shell
    with:
      text: ${{ jobs.First.outputs.Text }}
      turn: ${{ turn }}
      run: |
        touch "GATE.NAME.$turn"
        until test -e "GATE"; do sleep 0.02; done
        cat "$text" > "$out_Text"; echo "$turn" >> "$out_Text"
    outputs: {Text: {type: text, path: "NAME/wait-${{ turn }}.txt"}}
  After:
    uses: shell
    with: {parts: "${{ jobs.Wait.outputs.Text[:] }}", run: 'cat "${parts[@]}" > "$out_Text"'}
    outputs: {Text: {type: text, path: NAME/after.txt}}
"""


class Beside(CommandLab):
    def __init__(self, root: Path, *names: str) -> None:
        super().__init__(root)
        self.gate = root.parent / "gate"
        self.names = names or ("alone",)
        self.file = root / f"{self.names[0]}.yaml"
        root.mkdir()
        self.write({**NOT_TRACED, "word.txt": "hello\n"})
        for name in self.names:
            self.write({f"{name}.yaml": WORKFLOW.replace("NAME", name).replace("GATE", str(self.gate))})

    def start_waiting(self, name: str = "alone") -> Command:
        """A run whose two waiting steps have begun, which is in its log as well."""
        command = self.start("run", f"{name}.yaml", "--quiet", "--jobs", "2")
        places = [Path(f"{self.gate}.{name}.{turn}") for turn in (0, 1)]
        until(lambda: all(place.exists() for place in places) or command.process.poll() is not None)
        log = self.root / f".whyrun/{name}/runs/r0001/events.jsonl"
        until(lambda: log.read_bytes().count(b'"event":"step_start","step_id":"Job:Wait') == 2)
        return command

    def open_gate(self) -> None:
        self.gate.touch()

    def published(self, name: str = "alone") -> dict[str, str]:
        return {path.name: path.read_text() for path in (self.root / name).iterdir()}


FINAL = {
    "first.txt": "hello\n",
    "wait-0.txt": "hello\n0\n",
    "wait-1.txt": "hello\n1\n",
    "after.txt": "hello\n0\nhello\n1\n",
}
