"""A project for the questions: leaves, conditions, an inactive chain, a fan-in, two outputs. Texts without times."""

from __future__ import annotations

import re
from pathlib import Path

from cli_lab import whyrun

WORKFLOW = """\
workflow: tale
inputs:
  Words: {type: "text[]", default: "words/*.txt"}
  Mark:  {type: string, default: "!"}
loops:
  word: {each: inputs.Words}
jobs:
  Script:
    uses: shell
    with:
      mark: ${{ inputs.Mark }}
      run: |
        printf '{"Mark": "%s", "Loud": [true, false]}' "$mark" > "$out_Story"
    outputs:
      Story:
        type: json
        path: out/story.json
        leaves: {"Loud[word]": boolean}
  Shout:
    for: [word]
    if: ${{ jobs.Script.outputs.Story.Loud[word] }}
    uses: shell
    with:
      text: ${{ inputs.Words[word] }}
      run: |
        if grep -q broken "$text"; then echo "it is broken" >&2; exit 3; fi
        tr a-z A-Z < "$text" > "$out_Loud"
    outputs: {Loud: {type: text, path: "out/loud-${{ word }}.txt"}}
  Echo:
    for: [word]
    uses: shell
    with: {loud: "${{ jobs.Shout.outputs.Loud[word] }}", run: 'cat "$loud" "$loud" > "$out_Text"'}
    outputs: {Text: {type: text}}
  Join:
    uses: shell
    with:
      parts: ${{ jobs.Echo.outputs.Text[:] }}
      run: |
        cat "${parts[@]}" > "$out_All"
        wc -l < "$out_All" | tr -d ' ' > "$out_Lines"
    outputs: {All: {type: text, path: out/all.txt}, Lines: {type: integer}}
"""


def tale(folder: Path) -> Path:
    """Script → Shout[0], Shout[1] (inactive) → Echo[0], Echo[1] (inactive) → Join."""
    folder.mkdir(exist_ok=True)
    (folder / "words").mkdir()
    (folder / "words/a.txt").write_text("one\n")
    (folder / "words/b.txt").write_text("two\n")
    (folder / "workflow.yaml").write_text(WORKFLOW)
    (folder / "whyrun.toml").write_text('trace = "never"\n')
    return folder


def run(folder: Path, *words: str, code: int = 0) -> None:
    answer = whyrun(folder, "run", "-q", *words)
    assert answer.code == code, answer.err


def plain(text: str) -> str:
    """Hashes, times, durations, hosts and process numbers as letters; sizes of logs too."""
    text = text.replace(" traced=true", "")  # where strace is installed
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "HASH", text)
    text = re.sub(r"\b[0-9a-f]{4,12}…", "HASH…", text)
    text = re.sub(r"\b\d+\.\d+s\b", "0.0s", text)
    text = re.sub(r'("?duration"?[=:])\s*\d+(\.\d+)?(e-\d+)?', r"\g<1>0.0", text)
    text = re.sub(r"host=\S+ pid=\d+", "host=HOST pid=0", text)
    lines = [_loose(line) if "TIME" in line or "0.0s" in line else line for line in text.splitlines()]
    return "".join(line.rstrip() + "\n" for line in lines)


def _loose(line: str) -> str:
    """Columns beside a duration are as wide as it was long."""
    indent = len(line) - len(line.lstrip())
    return " " * indent + re.sub(r" {2,}", "  ", line[indent:])
