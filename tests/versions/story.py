"""Makes the log of a version, which every later version must be able to read: `python tests/versions/story.py`.

Run it once when a version is released, with that version installed, and commit the archive that it writes beside this
file. Never make the archive of a released version again. It runs as root on Linux (`unshare`), so that the log names no
real machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from whyrun import __version__
from whyrun.log.events import AnyEvent

WORKFLOW = """\
workflow: story
inputs:
  Words: {type: "file[]", default: "words/*.txt"}
  Greeting: {type: string, default: hello}
  Break: {type: string, default: nothing}
loops:
  word: {each: inputs.Words}
jobs:
  Shout:
    for: [word]
    uses: shell
    with: {text: "${{ inputs.Words[word] }}", run: 'tr a-z A-Z < "$text" > "$out_Loud"'}
    outputs: {Loud: {type: text, path: "out/${{ word }}.txt"}}
  Count:
    uses: python
    with: {call: "acts:count", parts: "${{ jobs.Shout.outputs.Loud[:] }}"}
    outputs: {Facts: {type: json, leaves: {files: integer, first: string}}}
  Greet:
    uses: shell
    retries: 1
    with:
      n: ${{ jobs.Count.outputs.Facts.files }}
      greeting: ${{ inputs.Greeting }}
      broken: ${{ inputs.Break }}
      run: |
        case "$broken" in
          error) echo "it is broken" >&2; exit 3 ;;
          worker) kill -9 $PPID; sleep 60 ;;
          slow) sleep 600 ;;
        esac
        echo "$greeting, $n files" > "$out_Text"
    outputs: {Text: {type: text, path: out/greeting.txt}}
  Last:
    uses: shell
    with: {text: "${{ jobs.Greet.outputs.Text }}", run: 'printf "[%d]" $(wc -c < "$text") > "$out_Size"'}
    outputs: {Size: {type: json, path: out/last.json, append: true}}
  Many:
    if: ${{ jobs.Count.outputs.Facts.files > 100 }}
    uses: shell
    with: {run: 'echo many > "$out_Text"'}
    outputs: {Text: {type: text}}
  Book:
    uses: shell
    with: {first: "${{ inputs.Words[0] }}", run: 'mkdir "$out_Book"; cp "$first" "$out_Book/page.txt"'}
    outputs: {Book: {type: directory}}
  All:
    uses: shell
    with: {words: "${{ inputs.Words }}", run: 'cat "${words[@]}" > "$out_Text"'}
    outputs: {Text: {type: text}}
"""
ACTS = """\
def count(parts, context):
    if context.recall("request") is None:
        context.remember("request", {"number": len(parts)})
    context.task("EXECUTES", "count the words", {"files": len(parts)})
    context.metric("rows_read", len(parts), "rows")
    print("counting")
    return {"Facts": {"files": len(parts), "first": parts[0].read_text().strip()}}
"""
WORDS = 66  # more than 64: a fan-in is recorded as a long list
COMMAND = [sys.executable, "-m", "whyrun.cli.main"]


def play(root: Path) -> None:
    """Runs that leave every event: success, failure, a dead worker, reuse, adoption, comparison, a kill and pruning."""
    (root / "words").mkdir(parents=True)
    for number in range(WORDS):
        (root / f"words/{number:02d}.txt").write_text(f"word {number}\n")
    (root / "workflow.yaml").write_text(WORKFLOW)
    (root / "acts.py").write_text(ACTS)
    (root / "mine.txt").write_text("written by hand\n")
    _whyrun(root, 0, "run")
    _whyrun(root, 1, "run", "--set", "Break=error")
    _whyrun(root, 1, "run", "--set", "Break=worker")
    (root / "out/greeting.txt").write_text("written by a user\n")
    _whyrun(root, 0, "run")
    _whyrun(root, 0, "adopt", "Artifact:Greet.Text", "mine.txt")
    _whyrun(root, 0, "compare", "Job:Book", "Job:Count")
    _kill_at_step(root, "r0007", "run", "--set", "Break=slow")
    _whyrun(root, 0, "run", "--set", "Greeting=good day")


def pruned(root: Path) -> None:
    """Another workflow in the same state, of which runs were pruned."""
    (root / "short.yaml").write_text(SHORT)
    for topic in ("a", "b", "c"):
        _whyrun(root, 0, "run", "short.yaml", "--set", f"Topic={topic}")
    _whyrun(root, 0, "runs", "prune", "short.yaml", "--keep", "1", "--delete", "--set", "Topic=c")


SHORT = """\
workflow: short
inputs: {Topic: {type: string, default: a}}
jobs:
  Say:
    uses: shell
    with: {topic: "${{ inputs.Topic }}", run: 'echo $topic > "$out_Text"'}
    outputs: {Text: {type: text}}
"""


def _whyrun(root: Path, code: int, *words: str) -> None:
    quiet = ("--quiet",) if words[0] == "run" else ()
    done = subprocess.run([*COMMAND, *words, *quiet], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise SystemExit(f"whyrun {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _kill_at_step(root: Path, run: str, *words: str) -> None:
    process = subprocess.Popen([*COMMAND, *words, "--quiet"], cwd=root, start_new_session=True)
    log = root / ".whyrun/story/runs" / run / "events.jsonl"
    while not (log.exists() and b'"step_start"' in log.read_bytes()):
        if process.poll() is not None:
            raise SystemExit(f"{run} ended before it could be killed")
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Caches are made again by each version, and the stat cache holds paths of this machine."""
    return None if Path(entry.name).name in ("stat-cache", "index", "__pycache__") else entry


def main() -> None:
    if os.uname().nodename != "example":
        name = ["unshare", "--uts", "sh", "-c", 'hostname example && exec "$@"', "sh"]
        os.execvp(name[0], [*name, sys.executable, *sys.argv])
    archive = Path(__file__).parent / f"{__version__}.tar.gz"
    with tempfile.TemporaryDirectory(prefix="whyrun-story-") as folder:
        root = Path(folder) / "story"
        play(root)
        pruned(root)
        found = {
            line.split('"event":"', 1)[1].split('"', 1)[0] for log in root.rglob("events.jsonl") for line in log.open()
        }
        missing = {event.__struct_config__.tag for event in AnyEvent.__args__} - found
        if missing:
            raise SystemExit(f"the story lacks {', '.join(sorted(map(str, missing)))}")
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(root, arcname="story", filter=_kept)
    print(f"{archive}: {archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
