"""What a killed run left in the scratch folders of its workers becomes evidence of its interrupted steps, as after any
failure.

Only under the lock, by the run that repairs. A second kill in the midst of it is repaired by the next run.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.evidence.run_directory import RunDirectory, complete_run
from whyrun.execution.backends.site import SCRATCH as SITE_SCRATCH
from whyrun.execution.backends.site import WHOSE
from whyrun.execution.backends.untrusted import fetch_tree_below, head_below
from whyrun.execution.isolation import descendants, environments
from whyrun.execution.scratch import MARKER_SIZE, Scratch, drop_links, read_marker, step_folder
from whyrun.execution.secrets import NOTHING_SECRET
from whyrun.execution.trees import is_real_folder
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE
from whyrun.log.runs import RunRef

DASK_SITES = "sites"  # of a Dask cluster that a run has started: in its folder
_PATIENCE = 5.0  # seconds for processes that were killed to be gone
_PAUSE = 0.005


class _Secrets(msgspec.Struct):
    """Of a step's cfg."""

    secrets: list[str] = []


_secrets = msgspec.json.Decoder(_Secrets)


def complete_killed_run(run: RunRef, store: Store, scratch: Path) -> None:
    """For `repair`: write what the folder of a killed run lacks. Its status comes last: where it is, all is."""
    _keep_leftovers(run, scratch)
    complete_run(run, store)


def _keep_leftovers(run: RunRef, scratch: Path) -> None:
    try:
        names = sorted(os.listdir(scratch))
    except FileNotFoundError:
        return
    own = [path for name in names if name.startswith(f"{run.name}-") and is_real_folder(path := scratch / name)]
    if not own:
        return
    for folder in own:  # of a Dask cluster that the run had started here: its workers have their own beneath
        for beneath in sorted(folder.glob(f"{DASK_SITES}/whyrun-*/tmp")):
            _keep_leftovers(run, beneath)
    end_workers([Scratch(folder) for folder in own])
    interrupted = _interrupted_steps(run)
    for folder in own:
        for site in (None, *sorted(name for name in os.listdir(folder) if name.isdigit())):
            marked = Scratch(folder).marked() if site is None else _marked_at(folder, site)
            # What no event speaks of is not evidence, and without the secrets of a step nobody can take them out.
            if marked is None or interrupted.get(marked[0]) != marked[1] or _has_secrets(run, marked[0]):
                continue
            try:
                left = Scratch(folder if site is None else _brought(folder, site))
                left.keep_all(step_folder(run.path, marked[0]), NOTHING_SECRET)
            except OSError as problem:  # a step may have left what cannot be moved; that must not stop every later run
                told = f"{marked[0]}: what it left could not be kept: {problem.strerror}"
                disk.append_line(Area.RUN, RunDirectory(run.path).debug_log, told)


# A step that was confined could put a link in the place of anything below its site. We are not confined: nothing there
# is opened but part by part, without following any, and nothing of it is moved. What we keep is a copy.


def _marked_at(folder: Path, site: str) -> tuple[str, int] | None:
    """As the host noted it: what the worker there noted, its step could have changed."""
    return read_marker(head_below(folder, f"{site}/{WHOSE}", MARKER_SIZE))


def _brought(folder: Path, site: str) -> Path:
    """A copy, whole or not there: it may be what a repair before this one made, and could not keep any more."""
    copy, part = folder / f"brought-{site}", folder / "part"
    if not copy.exists():
        Scratch(part).remove()
        fetch_tree_below(folder, f"{site}/{SITE_SCRATCH}", part)
        drop_links(part)
        os.rename(part, copy)
    return copy


def end_workers(folders: list[Scratch]) -> None:
    """Workers end by themselves when their host is gone. Nothing is moved while one still writes."""
    homes = {b"HOME=" + os.fsencode(os.path.realpath(folder.home)) for folder in folders}
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        left = [pid for pid, environment in environments() if any(_resolved(e) in homes for e in environment)]
        me = os.getpid()  # a process of the step itself, or one below it, may be who runs the workflow
        left = [pid for pid in left if pid != me]
        if not left:
            return
        for pid in {*left, *(below for worker in left for below in descendants(worker))} - {me}:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def _resolved(variable: bytes) -> bytes:
    """The run before may have named the same folder by another path."""
    name, equals, value = variable.partition(b"=")
    return name + equals + os.path.realpath(value) if name == b"HOME" else variable


def _interrupted_steps(run: RunRef) -> dict[str, int]:
    """The steps that the repair found open, each with its last attempt."""
    attempts: dict[str, int] = {}
    interrupted: set[str] = set()
    for event in run.events():
        if isinstance(event, ev.StepStart):
            attempts[event.step_id] = event.attempt
        elif isinstance(event, ev.LogRepaired):
            interrupted.update(event.interrupted)
    return {step: attempts[step] for step in interrupted if step in attempts}


def _has_secrets(run: RunRef, step: str) -> bool:
    """Whether the step was given any; also where that cannot be told any more."""
    path = RunDirectory(run.path).cfg / f"{file_name(step.partition(':')[2])}.json"
    try:
        return bool(decoded(_secrets.decode, path.read_bytes()).secrets)
    except (OSError, *UNREADABLE):
        return True
