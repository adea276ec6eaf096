"""Make the scenario folders again by real runs: `python tests/scenarios/make.py [NAME …]`.

Host, process id, times, durations and tracebacks are replaced by fixed ones, so that what is kept says nothing about
the machine. The order of events between steps is that of the run, so a log made again may differ in it; the plan does
not. Then `pytest tests/scenarios --update-scenarios`, and read the diff before it is kept.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from project_lab import Lab
from scenarios.harness import FOLDER, read_logs, write_logs
from scenarios.recipes import RECIPES, Recipe
from whyrun.log import events as ev


def play(recipe: Recipe, root: Path) -> Lab:
    """The recipe for real: files, runs, the edits of the log.

    Not traced: whether strace sees that an action only asks for a flag depends on what the process has loaded before.
    """
    root.mkdir(parents=True, exist_ok=True)
    lab = Lab(root).write({**recipe.files, "whyrun.toml": 'trace = "never"\n'})
    recipe.history(lab)
    runs = lab.opened().state.runs_dir
    logs = read_logs(runs)
    before = {name: list(events) for name, events in logs.items()}
    recipe.edit(logs)
    if logs != before:
        write_logs(runs, logs)
    return lab


def anonymous(event: ev.AnyEvent) -> ev.AnyEvent:
    if isinstance(event, ev.RunStart):
        return msgspec.structs.replace(event, host="fixture", pid=1)
    if isinstance(event, ev.StepFailed):
        return msgspec.structs.replace(event, duration=2.0, traceback="")
    if isinstance(event, ev.StepComplete | ev.RunComplete):
        return msgspec.structs.replace(event, duration=2.0)
    return event


def make(name: str) -> None:
    recipe = RECIPES[name]
    folder = FOLDER / name
    with tempfile.TemporaryDirectory() as scratch:
        lab = play(recipe, Path(scratch) / "project")
        for old in ("runs", "blobs"):
            shutil.rmtree(folder / old, ignore_errors=True)
        left_out = (".whyrun", "out", "__pycache__", "whyrun.toml")
        shutil.copytree(lab.root, folder, ignore=lambda _, entries: set(entries) & set(left_out), dirs_exist_ok=True)
        logs = read_logs(lab.opened().state.runs_dir)
        anonymised = {run: [anonymous(event) for event in events] for run, events in logs.items()}
        (folder / "runs").mkdir()
        write_logs(folder / "runs", anonymised, keep_times=False)
        wide = {
            value["blob"]
            for events in logs.values()
            for event in events
            for value in (getattr(event, "bindings", None) or {}).values()
            if isinstance(value, dict)
        }
        for sha256 in sorted(wide):
            (folder / "blobs").mkdir(exist_ok=True)
            (folder / "blobs" / sha256).write_bytes(lab.opened().store.read(sha256))
    facts = {"why": recipe.why, "options": recipe.options}
    (folder / "scenario.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or RECIPES:
        make(chosen)
        print(chosen)
