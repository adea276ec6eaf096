"""One story: a random project, then random changes and runs; and at the end a clean rebuild of the same sources.

`oracle_story` judges with its own planner. This one runs the same sources in an empty folder: all artifacts and
published files of every job that is up to date must be the same, byte by byte. It knows no rule of planning, so it can
have what the other does not model: folders, shared files, imported workflows, modules that import each other, actions
of the project, a colleague who shares results; all with real workers.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clean_rebuild_code import Code, change_code, new_code
from clean_rebuild_flow import Flow, change_flow, new_flow
from crash_fork_server import forked_workers
from oracle_counts import Counts
from oracle_generate import Dice, chance, pick
from oracle_judge import raw_events

from whyrun.console.logger import WorkflowLogger
from whyrun.errors import InvalidError
from whyrun.evidence.retention.gc import collect
from whyrun.evidence.retention.prune import Selection, prune
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.run.session import RunResult, run_workflow
from whyrun.log.journal import utc_now
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.project import Project

STATE = ".whyrun"
MADE = (STATE, "out", "Part", "__pycache__")  # made by runs
Sources = dict[str, tuple[bytes, int, str]]  # path → content, mode, target of a link


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / STATE / "lab" / "runs"

    def opened(self) -> Project:
        return Project.open(self.folder / "lab.yaml", state=str(self.folder / STATE))

    def plan(self, options: PlanOptions = PlanOptions()) -> Plan:  # noqa: B008  # frozen
        return compute_execution_plan(self.opened().snapshot(), options)

    def run(self, options: PlanOptions = PlanOptions()) -> RunResult:  # noqa: B008  # frozen
        with forked_workers():
            return run_workflow(self.opened(), options, RunOptions(jobs=2), WorkflowLogger(terminal=False))

    def sources(self) -> Sources:
        return {
            path: (b"", 0, os.readlink(file)) if file.is_symlink() else (file.read_bytes(), file.stat().st_mode, "")
            for path, file in self._files()
        }

    def _files(self) -> Iterator[tuple[str, Path]]:
        for parent, folders, names in os.walk(self.folder):
            folders[:] = sorted(set(folders) - set(MADE))
            for name in sorted(names):
                file = Path(parent, name)
                yield str(file.relative_to(self.folder)), file

    def put(self, wanted: Sources) -> None:
        """Leave exactly these files. A file that has this content already is not written."""
        for path, file in list(self._files()):
            if path not in wanted or file.is_symlink():
                file.unlink()
        for path, (content, mode, link) in wanted.items():
            if link:
                (self.folder / path).unlink(missing_ok=True)
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / path).symlink_to(link)
            else:
                self.write(path, content)
                (self.folder / path).chmod(mode)
        for parent, folders, names in os.walk(self.folder, topdown=False):
            parts = Path(parent).relative_to(self.folder).parts
            if parts and parts[0] != "data" and not set(parts) & set(MADE) and not folders and not names:
                os.rmdir(parent)

    def write(self, path: str, content: bytes) -> None:
        file = self.folder / path
        for above in reversed(file.relative_to(self.folder).parents):
            if (self.folder / above).is_file():
                (self.folder / above).unlink()
        if file.is_dir():
            shutil.rmtree(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_bytes() != content:
            file.write_bytes(content)

    def latest(self) -> dict[str, dict[str, Any]]:
        """Artifact → its last event."""
        runs = sorted(self.runs.iterdir()) if self.runs.is_dir() else []
        events = (event for run in runs for event in raw_events(run))
        return {event["artifact"]: event for event in events if event["event"] == "artifact_available"}


class Story:
    def __init__(
        self, dice: Dice, folder: Path, record: list[str], flow: Flow | None = None, code: Code | None = None
    ) -> None:
        self.dice, self.record = dice, record
        self.project = Checkout(folder / "project")
        self.rebuilt = Checkout(folder / "rebuilt")
        self.colleague = Checkout(folder / "colleague") if chance(dice, 3) else None  # with whom results are shared
        self.counts = Counts()
        self.flow = flow or new_flow(dice)
        self.code = code or new_code(dice)
        self.past: list[tuple[Flow, Code, Sources]] = []
        for path in ("tree/a.txt", "tree/sub/b.txt", "files/a.txt", "files/b.txt", "one.txt", "part.txt", "linked.txt"):
            self.project.write(f"data/{path}", b"data 1")
        self.write()

    def write(self) -> None:
        data = {path: found for path, found in self.project.sources().items() if path.startswith("data/")}
        texts = self.code.files()
        texts |= {path: json.dumps(document, indent=1) for path, document in self.flow.files().items()}
        if self.colleague is not None:
            texts["whyrun.toml"] = 'store = "../shared"'
        self.project.put(data | {path: (text.encode(), 0o100644, "") for path, text in texts.items()})

    def is_valid(self) -> bool:
        try:
            opened = self.project.opened()
            opened.graph, opened.actions  # noqa: B018
            opened.snapshot()
        except InvalidError:
            return False
        return True

    # --- changes -----------------------------------------------------------------------------------------------------

    def change(self, *, meanwhile: bool = False) -> None:
        """`meanwhile`: while a run goes on."""
        before = self.flow, self.code, self.project.sources()
        match self.dice.number(0, 9):
            case 0 | 1 | 2:
                self.code, said = change_code(self.dice, self.code)
                self.write()
            case 3 | 4:
                self.flow, said = change_flow(self.dice, self.flow)
                self.write()
            case 5 | 6:
                said = self.change_data()
            case 7 | 8 if not meanwhile:
                said = self.meddle()
            case 7 | 8:
                said = self.change_data()
            case _:
                if not self.past:
                    return
                self.flow, self.code, sources = pick(self.dice, self.past)
                self.project.put(sources)
                said = "back to an earlier version"
        if not self.is_valid():
            self.flow, self.code, sources = before
            self.project.put(sources)
            said += " (refused)"
        self.record.append(said)

    def change_data(self) -> str:
        dice, folder = self.dice, self.project.folder / "data"
        path = pick(dice, ["tree/a.txt", "tree/sub/b.txt", "tree/c", "tree/sub/deep/d", "files/a.txt", "files/b.txt",
                           "files/c.txt", "one.txt", "part.txt", "linked.txt"])  # fmt: skip
        file = folder / path
        what = pick(dice, ["edit", "edit", "edit", "old times", "touch", "remove", "mode", "rename", "empty", "link"])
        match what:
            case "edit" | "old times":
                before = file.stat() if file.is_file() else None
                self.project.write(f"data/{path}", f"data {dice.number(0, 9)}".encode())
                if before is not None and what == "old times":
                    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
            case "touch" if file.is_file():
                os.utime(file)
            case "remove" if file.is_file():
                file.unlink()
            case "mode" if file.is_file():
                file.chmod(file.stat().st_mode ^ stat.S_IXUSR)
            case "rename" if file.is_file():
                file.rename(file.with_name(f"z-{file.name}"))
            case "link" if file.is_file() and path not in ("linked.txt", "tree/a.txt"):
                leads = folder / ("tree/a.txt" if path.startswith("tree/") else "linked.txt")  # inside, if in a folder
                file.unlink()
                file.symlink_to(os.path.relpath(leads, file.parent))
            case "empty":
                empty = folder / "tree" / "hollow"
                empty.mkdir(exist_ok=True) if not empty.exists() else empty.rmdir()
        return f"data: {what} {path}"

    def meddle(self) -> str:
        """Change the outputs, or the files that Whyrun keeps."""
        dice, folder = self.dice, self.project.folder
        made = [file for top in ("out", "Part") for file in sorted((folder / top).rglob("*"))]
        blobs = sorted(p for p in (folder / STATE / "store").glob("??/*") if p.is_file())
        what = pick(dice, ["remove", "edit", "add", "mode", "all", "caches", "blob", "touch", "prune"])
        if what == "caches":
            shutil.rmtree(folder / STATE / "lab" / "index", ignore_errors=True)
            (folder / STATE / "stat-cache").unlink(missing_ok=True)
        elif what == "prune":
            opened = self.project.opened()
            self.counts.pruned += len(prune(opened, Selection(keep=1), utc_now).pruned)
            collect(opened.state.state_dir, utc_now)
        elif what == "all":
            shutil.rmtree(folder / "out", ignore_errors=True)
        elif what == "blob" and blobs:
            pick(dice, blobs).unlink()
        elif made:
            file = pick(dice, made)
            what += f" {file.relative_to(folder)}"
            if file.is_dir():
                (file / "mine").write_text("mine") if what.startswith("add") else shutil.rmtree(file)
            elif what.startswith("touch"):
                os.utime(file)
            elif what.startswith("mode"):
                file.chmod(file.stat().st_mode ^ stat.S_IXUSR)
            else:
                file.unlink()
                if what.startswith("edit"):
                    file.write_text("{}" if file.name == "shared.json" else "edited")
        return f"meddle: {what}"

    # --- runs --------------------------------------------------------------------------------------------------------

    def some_run(self) -> None:
        self.past.append((self.flow, self.code, self.project.sources()))
        dirty = [job.id for job in self.project.plan().jobs]
        options = PlanOptions()
        if dirty and chance(self.dice, 3):
            one = (pick(self.dice, dirty),)
            options = pick(self.dice, [PlanOptions(force=one), PlanOptions(targets=one), PlanOptions(up=1)])
        self.record.append(f"run {options}")
        self.project.run(options)
        self.counts.runs += 1

    def disturbed_run(self) -> None:
        """A real `whyrun run` that is killed, or whose project is edited meanwhile, up to three times. The moment
        depends on the machine, so such a story may take another course next time. The checks hold for any moment."""
        self.past.append((self.flow, self.code, self.project.sources()))
        command = [Path(sys.executable).with_name("whyrun"), "run", "lab.yaml", "--quiet"]
        with subprocess.Popen(
            command, cwd=self.project.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"}, start_new_session=True,
        ) as process:  # fmt: skip
            killed = chance(self.dice, 3)
            for _ in range(1 if killed else self.dice.number(1, 3)):
                time.sleep(self.dice.number(0, 60) / 100)
                if process.poll() is None and not killed:
                    self.record.append("meanwhile:")
                    self.change(meanwhile=True)
            if killed:
                process.kill()
            said = process.communicate()[0]
        self.record.append(f"disturbed run: {process.returncode}")
        # 2: the workflow was invalid while it was being written
        assert process.returncode in ((0, 1, 2, -signal.SIGKILL) if killed else (0, 1, 2)), said
        assert "Traceback" not in said, said
        self.counts.runs += 1

    def compare(self) -> None:
        self.record.append("compare")
        shutil.rmtree(self.rebuilt.folder, ignore_errors=True)
        self.rebuilt.folder.mkdir()
        self.copy_to(self.rebuilt)
        (self.rebuilt.folder / "whyrun.toml").unlink(missing_ok=True)
        self.rebuilt.run()
        self.check(self.project)
        if self.colleague is not None:
            self.copy_to(self.colleague)
            self.check(self.colleague)

    def copy_to(self, other: Checkout) -> None:
        other.folder.mkdir(exist_ok=True)
        shutil.rmtree(other.folder / "data", ignore_errors=True)
        shutil.copytree(self.project.folder / "data", other.folder / "data", symlinks=True)  # empty folders too
        other.put(self.project.sources())

    def check(self, project: Checkout) -> None:
        """The same jobs are up to date as after the clean rebuild, with the same artifacts."""
        project.run()
        states = {job.id: job.state for job in project.plan().jobs}
        assert states == {job.id: job.state for job in self.rebuilt.plan().jobs}
        ours, theirs = project.latest(), self.rebuilt.latest()
        for artifact, event in theirs.items():
            if event["step_id"] in states:
                continue
            said = f"{artifact} of {event['step_id']} in {project.folder.name}"
            assert ours[artifact]["sha256"] == event["sha256"], said
            if "path" in event:
                here, there = (one.folder / event["path"] for one in (project, self.rebuilt))
                assert content(here, event.get("section")) == content(there, event.get("section")), said
            self.counts.rebuilt += 1
        self.counts.runs += 1
        self.counts.truths += 1


def content(path: Path, section: str | None) -> Any:
    if section is not None:
        return json.loads(path.read_bytes())[section]
    if path.is_dir():
        return {str(one.relative_to(path)): (content(one, None), executable(one)) for one in path.rglob("*")}
    return path.read_bytes()


def executable(path: Path) -> bool:
    """Counts for files in folders, not for a file that is an output itself."""
    return path.is_file() and bool(path.stat().st_mode & stat.S_IXUSR)


def tell_clean_rebuild(dice: Dice, folder: Path, record: list[str], steps: int = 4) -> Counts:
    for _ in range(8):
        (folder / "project").mkdir()
        story = Story(dice, folder, record)
        if story.is_valid():
            break
        shutil.rmtree(folder / "project")
    else:
        return Counts()
    record.append((story.project.folder / "lab.yaml").read_text(encoding="utf-8"))
    story.some_run()
    for _ in range(dice.number(1, steps)):
        for _ in range(dice.number(1, 3)):
            story.change()
        match dice.number(0, 3):
            case 0:
                story.disturbed_run()
            case 1:
                story.some_run()
            case _:
                story.compare()
    story.compare()
    return story.counts
