"""Where the state of a workflow lives, which runs it has, and how a new run begins.

.whyrun/<workflow>/runs/r0001/ …   .whyrun/<workflow>/lock   .whyrun/<workflow>/index/   .whyrun/<workflow>/pruned.jsonl
.whyrun/store/   .whyrun/store.lock   .whyrun/stat-cache   .whyrun/tmp/   .whyrun/environments/
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import atomic_write
from whyrun.disk import Area
from whyrun.errors import error
from whyrun.json_values import check_utf8
from whyrun.lazy_regex import lazy_regex
from whyrun.log.events import DAMAGE_HINT, AnyEvent, RunStart
from whyrun.log.journal import EVENTS_FILE, FIRST_CHAIN, RUN_NAME, Clock, Journal, last_chain, read_events
from whyrun.log.sync_mark import last_synced
from whyrun.project_config import CONFIG_FILE
from whyrun.workflow.fields import RESERVED_WORKFLOW_NAMES

if TYPE_CHECKING:
    from whyrun.log.tombstones import Tombstone

STAT_CACHE = "stat-cache"
ACTIONS_CACHE = "actions-cache"
STORE_LOCK = "store.lock"
ENVIRONMENTS = "environments"
STATE_VARIABLE = "WHYRUN_STATE"
STATE_FOLDER = ".whyrun"
TOMBSTONES_FILE = "pruned.jsonl"
MADE_FROM_RUNS = ("memo", "fold")  # files of the index that no workflow has before its first run
_IN_SHORT = lazy_regex(r"[rR]?([0-9]{1,9})")
NOT_THERE = "is missing, and was not pruned"  # a run with a lower number than an existing one
LAST_NOT_THERE = "is missing, but the lock names it as the last run"
LAST_LOST_HINT = (
    "the last run is missing: restore it from a copy. If you moved it away on purpose, the next run takes its number "
    "(if there is nothing to do, `whyrun run --force JOB` makes a run), and `whyrun gc` then no longer keeps what only "
    "the missing run referred to"
)


# --- project and state -------------------------------------------------------------------------------------------


def project_dir_for(workflow_file: str | os.PathLike[str]) -> Path:
    """The folder of the nearest `whyrun.toml` at or above the workflow file, else that of the workflow file."""
    path = os.path.abspath(workflow_file)
    check_utf8(path, "the path of the workflow file,", "rename the folder or the file")
    folder = Path(path).parent
    for candidate in (folder, *folder.parents):
        if (candidate / CONFIG_FILE).is_file():
            return candidate
    return folder


def state_dir_for(workflow_file: str | os.PathLike[str], override: str | None, env: Mapping[str, str]) -> Path:
    """`--state`, else `WHYRUN_STATE`, else `.whyrun` in the project folder."""
    given = override or env.get(STATE_VARIABLE)
    if given:
        path = os.path.abspath(given)
        what = "the state folder," if override else f"the state folder (`{STATE_VARIABLE}`),"
        check_utf8(path, what, "name another folder, or rename it")
        return Path(path)
    return project_dir_for(workflow_file) / STATE_FOLDER


# --- runs --------------------------------------------------------------------------------------------------------


class RunRef(msgspec.Struct, frozen=True):
    """One existing run."""

    name: str
    folder: str  # as text: a log may have thousands of runs, and most are only counted
    number: int

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @property
    def events_path(self) -> Path:
        return Path(self.folder, EVENTS_FILE)

    def status(self) -> os.stat_result:
        """The stat of its log."""
        return os.stat(f"{self.folder}/{EVENTS_FILE}")

    def events(self) -> Iterator[AnyEvent]:
        return read_events(self.events_path, self.name)

    def tombstone(self) -> Tombstone | None:
        """Its tombstone, if it was pruned after the runs were listed."""
        stones = _tombstones(self.path.parent.parent / TOMBSTONES_FILE)
        return next((stone for stone in stones if stone.run == self.name), None)


class WorkflowState(msgspec.Struct, frozen=True):
    """The paths of one workflow's state. No property creates anything."""

    state_dir: Path
    workflow: str

    def __post_init__(self) -> None:
        if self.workflow in RESERVED_WORKFLOW_NAMES or "/" in self.workflow or self.workflow in ("", ".", ".."):
            raise error(
                "NAME_INVALID",
                f"a workflow cannot be called `{self.workflow}`: whyrun uses this name for its own state",
                hint="choose another name; not " + ", ".join(f"`{name}`" for name in sorted(RESERVED_WORKFLOW_NAMES)),
            )

    @property
    def folder(self) -> Path:
        return self.state_dir / self.workflow

    @property
    def runs_dir(self) -> Path:
        return self.folder / "runs"

    @property
    def lock_path(self) -> Path:
        return self.folder / "lock"

    @property
    def index_dir(self) -> Path:
        return self.folder / "index"

    @property
    def store(self) -> Path:
        return self.state_dir / "store"

    @property
    def tombstones_path(self) -> Path:
        return self.folder / TOMBSTONES_FILE

    @property
    def environments(self) -> Path:
        """Virtual environments, shared by all workflows of the project."""
        return self.state_dir / ENVIRONMENTS

    @property
    def store_lock(self) -> Path:
        """Shared by processes that write runs, exclusive to remove from the store. Workflow names have no dot."""
        return self.state_dir / STORE_LOCK

    @property
    def tmp(self) -> Path:
        return self.state_dir / "tmp"

    @property
    def scratch(self) -> Path:
        """The scratch folder of the workers. The dot keeps it apart from drafts of runs."""
        return self.tmp / f"{self.workflow}.scratch"

    @property
    def pruned_folders(self) -> Path:
        """Where the folders of pruned runs are deleted."""
        return self.tmp / f"{self.workflow}.pruned"

    def runs(self) -> list[RunRef]:
        """All runs that are kept, in order. Other files in the folder are ignored, unless they look like a run."""
        return self.runs_and_tombstones()[0]

    def tombstones(self) -> list[Tombstone]:
        """Of the runs that were pruned, in order."""
        return _tombstones(self.tombstones_path)

    def runs_and_tombstones(self) -> tuple[list[RunRef], list[Tombstone]]:
        try:
            names = os.listdir(self.runs_dir)
        except FileNotFoundError:
            names = []
        # Read after the folder: a run that is pruned in between is listed and has its tombstone.
        stones = self.tombstones()
        pruned = {stone.run for stone in stones}
        folder = os.fspath(self.runs_dir)
        found = []
        for name in names:
            if RUN_NAME.fullmatch(name) and name == run_name(int(name[1:])):
                if name not in pruned:
                    found.append(RunRef(name, f"{folder}/{name}", int(name[1:])))
            elif name[:1] == "r" and name[1:].isdigit():
                raise error(
                    "LOG_DAMAGED",
                    f"`{name}` looks like the name of a run, but is not a valid one",
                    file=str(self.runs_dir / name),
                    hint="runs are r0001, r0002, …; rename it back, or move it away",
                )
        return sorted(found, key=lambda run: run.number), stones

    def checked_runs_and_tombstones(self, through: int | None = None) -> tuple[list[RunRef], list[Tombstone]]:
        """`runs_and_tombstones`; LOG_DAMAGED if a run (of those up to `through`) is neither there nor pruned."""
        runs, stones = self.runs_and_tombstones()
        missing = missing_run(runs, stones, through)
        if missing is not None and os.path.exists(self.runs_dir / run_name(missing)):
            runs, stones = self.runs_and_tombstones()  # it was created while the folder was listed
            missing = missing_run(runs, stones, through)
        if missing is not None:
            what = f"`{run_name(missing)}` of `{self.workflow}` {NOT_THERE}"
            raise error("LOG_DAMAGED", what, file=str(self.runs_dir / run_name(missing)), hint=DAMAGE_HINT)
        return runs, stones

    def lost_all_runs(self) -> bool:
        """Is there no run, although the lock, a tombstone or the index shows that there were some?"""
        runs, stones = self.runs_and_tombstones()
        if runs:
            return False
        indexed = any((self.index_dir / name).exists() for name in MADE_FROM_RUNS)
        return bool(stones) or indexed or last_synced(self.lock_path) is not None  # a prune keeps the latest run

    def lost_last_run(self) -> str | None:
        """The run that the lock names, if neither it nor a later one exists: it was removed by hand.

        No kill leaves this, since the lock names a run only after its folder is synced. A prune keeps the latest run.
        """
        mark = last_synced(self.lock_path)  # read before the folder is listed: a run may begin in between
        if mark is None or RUN_NAME.fullmatch(mark.run) is None:
            return None
        return mark.run if int(mark.run[1:]) > _last_number(*self.runs_and_tombstones()) else None

    def check_last_run(self) -> None:
        """Called before removing anything: LOG_DAMAGED if the last run is gone, since its needs are then unknown."""
        lost = self.lost_last_run()
        if lost is not None:
            what = f"`{lost}` of `{self.workflow}` {LAST_NOT_THERE}"
            raise error("LOG_DAMAGED", what, file=str(self.runs_dir / lost), hint=LAST_LOST_HINT)

    def folders_of_pruned(self) -> list[str]:
        """Runs with a tombstone whose folder a killed prune has left."""
        stones = self.tombstones()
        there = set(os.listdir(self.runs_dir)) if stones and self.runs_dir.exists() else set()
        return [stone.run for stone in stones if stone.run in there]

    def run(self, name: str) -> RunRef:
        """One run by its name, or RUN_UNKNOWN; or RUN_PRUNED."""
        runs, stones = self.runs_and_tombstones()
        for ref in runs:
            if ref.name == name:
                return ref
        for stone in stones:
            if stone.run == name:
                raise run_pruned(stone)
        hint = f"the latest is `{runs[-1].name}`" if runs else "this workflow has not run yet"
        meant = run_in_short(name)
        if any(ref.name == meant for ref in runs):
            hint = f"did you mean `{meant}`?"
        raise error("RUN_UNKNOWN", f"there is no run `{name}` of `{self.workflow}`", hint=hint)

    def next_run_name(self) -> str:
        return run_name(_last_number(*self.runs_and_tombstones()) + 1)

    def last_chain(self) -> str:
        """The chain that the log of the next run continues."""
        runs, stones = self.runs_and_tombstones()
        if stones and (not runs or stones[-1].number > runs[-1].number):
            return stones[-1].chain
        if not runs:
            return FIRST_CHAIN
        path = runs[-1].events_path
        try:
            chain = last_chain(path)
        except FileNotFoundError:
            chain = None
        if chain is None:
            raise log_without_start(runs[-1])
        return chain


def with_scratch_folders(state_dir: Path) -> list[WorkflowState]:
    """The workflows of which a run goes on, or was killed. Costs next to nothing where there are none."""
    folders = [
        path for path in (state_dir / "tmp").glob("*.scratch") if os.access(path, os.R_OK) and any(path.iterdir())
    ]
    return [WorkflowState(state_dir, path.name.removesuffix(".scratch")) for path in folders]


def state_left_behind(workflow_file: str | os.PathLike[str], state: WorkflowState) -> Path | None:
    """The state folder that a new `whyrun.toml` hides, if this workflow seems to have no runs.

    A `whyrun.toml` above the workflow file makes another folder the project. Earlier runs are then still in the state
    of a folder between the workflow file and the project folder.
    """
    project = project_dir_for(workflow_file)
    if state.state_dir != project / STATE_FOLDER or state.runs_dir.exists():
        return None
    folder = Path(os.path.abspath(workflow_file)).parent
    between = takewhile(lambda one: one != project, (folder, *folder.parents))
    states = (WorkflowState(one / STATE_FOLDER, state.workflow) for one in between)
    return next((one.state_dir for one in states if one.runs_dir.is_dir()), None)


def run_in_short(word: str) -> str | None:
    """The name of the run that `r2` or `2` means, whether or not it exists; None if the word is no number."""
    number = _IN_SHORT.fullmatch(word)
    return run_name(int(number.group(1))) if number is not None else None


def run_name(number: int) -> str:
    return f"r{number:04d}"


def _last_number(runs: Sequence[RunRef], stones: Sequence[Tombstone]) -> int:
    """0 before the first run."""
    return max([0, *(run.number for run in runs[-1:]), *(stone.number for stone in stones[-1:])])


def missing_run(runs: Sequence[RunRef], stones: Sequence[Tombstone], through: int | None = None) -> int | None:
    """The first number, up to the last one or to `through`, that no run and no tombstone has.

    Runs are numbered without gaps, so counting shows whether one is missing, however many there are.
    """
    last = _last_number(runs, stones)
    if len(runs) + len(stones) == last:
        return None
    there = {run.number for run in runs} | {stone.number for stone in stones}
    until = last if through is None else min(last, through)
    return next((number for number in range(1, until + 1) if number not in there), None)


def _tombstones(path: Path) -> list[Tombstone]:
    try:
        os.stat(path)
    except FileNotFoundError:
        return []  # of most workflows, no run was pruned
    from whyrun.log.tombstones import read_tombstones

    return read_tombstones(path)


def all_runs_lost(state: WorkflowState) -> Exception:
    hint = (
        "restore them from a copy, or run it again. To discard all their results, delete the workflow's folder, too: "
        f"`{state.folder}`"
    )
    what = f"`{state.workflow}` had runs, but none of them exists any more"
    return error("LOG_DAMAGED", what, file=str(state.runs_dir), hint=hint)


def run_pruned(stone: Tombstone) -> Exception:
    """The error for a command that names a pruned run."""
    compared = stone.mode == "compare" and stone.state == "failed"
    how = "it was a comparison that found differences, or failed" if compared else f"it had {stone.state}"
    return error(
        "RUN_PRUNED",
        f"`{stone.run}` was pruned on {stone.pruned[:10]} ({how}; {stone.events} events)",
        hint="only its number, chain and recorded inputs are left; `whyrun runs` lists the runs that are kept",
    )


def log_without_start(run: RunRef) -> Exception:
    # The run may have been pruned after the runs were listed.
    stone = run.tombstone()
    if stone is not None:
        return run_pruned(stone)
    return error(
        "LOG_INCOMPLETE",
        f"`{run.name}` has no `run_start`",
        file=str(run.events_path),
        hint=DAMAGE_HINT,
    )


def create_run(
    state: WorkflowState, start: RunStart, clock: Clock, files: Mapping[str, bytes] | None = None
) -> tuple[RunRef, Journal]:
    """Begin a run: its folder, with `run_start` and these files (`manifest.yaml`, `plan.json`, `source/…`) in it.

    The folder is made under `.whyrun/tmp/`, synced, and then renamed. So a kill never leaves a run folder without a
    `run_start` or without these files, and the repair never has to invent them. Only the holder of the lock may call
    this. It fills in `start.previous_chain`.
    """
    name = state.next_run_name()
    previous = state.last_chain()
    # Named after the run, not at random, so that the draft of a killed attempt is found and removed.
    draft = state.tmp / f"{state.workflow}-{name}"
    if draft.exists():
        disk.remove(Area.DRAFT, draft)
    disk.make_folders(Area.DRAFT, draft)
    for relative, data in (files or {}).items():
        _write_new(draft / relative, data)
    journal = Journal.create(draft, name, previous, clock)
    try:
        journal.append(msgspec.structs.replace(start, previous_chain=previous))
        journal.flush()
        # Before the sync: `runs/` itself must survive a power loss, too, because the lock names the run.
        disk.make_folders(Area.DRAFT, state.runs_dir)
        _keep_out_of_git(state.state_dir)
        disk.sync_filesystem(Area.DRAFT, draft)
        disk.rename(Area.DRAFT, draft, state.runs_dir / name)
        disk.sync_folder(Area.DRAFT, state.runs_dir)
    except BaseException:
        journal.close()
        raise
    return RunRef(name, os.fspath(state.runs_dir / name), int(name[1:])), journal


def _keep_out_of_git(state_dir: Path) -> None:
    """Write a `.gitignore` into the state folder, unless there is one."""
    path = state_dir / ".gitignore"
    if not path.exists():
        atomic_write(path, b"*\n", Area.DRAFT)


def _write_new(path: Path, data: bytes) -> None:
    disk.make_folders(Area.DRAFT, path.parent)
    descriptor = disk.open(Area.DRAFT, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        disk.write(Area.DRAFT, descriptor, data)
    finally:
        os.close(descriptor)
