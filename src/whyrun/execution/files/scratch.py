"""The scratch folder of a worker: created once, used by every step, emptied in between.

The worker moves a step's logs and files from here to the evidence. If the worker died, the backend does it, and if the
host died as well, the next run does (`preflight`), all with this code. So a kill may interrupt every move here,
and the move can be repeated.
"""

from __future__ import annotations

import mmap
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from whyrun import disk
from whyrun.artifacts.stat_cache.rows import is_local
from whyrun.connections.redact import Redactor
from whyrun.disk import Area
from whyrun.execution.files.safe_files import append, copy_as_it_is, file_parts
from whyrun.execution.files.tree_removal import DEEPEST, drop_too_deep, is_real_folder, remove
from whyrun.ids import file_name

# --- what stands at the paths that a step writes itself (`workdir: project`), put aside while the step runs -----------
# So a stale file is never collected, and a step that fails or is killed leaves what was there. A journal in the scratch
# folder says what was put aside; it is written first. Whoever ends the step puts it back: its worker, the backend if
# the worker died, or the next run if the host died as well. A kill may interrupt each of them, and putting back be
# repeated.


JOURNAL, _DISPLACED = "displaced.json", "displaced"


class _Journal(msgspec.Struct, frozen=True):
    project: str
    paths: list[str]  # relative to it
    there: list[bool]  # whether something stood there


def displace(scratch: Path, project: Path, paths: Iterable[str]) -> None:
    """Put aside what stands at these paths."""
    names = sorted(set(paths))
    if not names:
        return
    journal = _Journal(str(project), names, [os.path.lexists(project / name) for name in names])
    (scratch / _DISPLACED).mkdir(exist_ok=True)
    part = scratch / f"{JOURNAL}.part"
    part.write_bytes(msgspec.json.encode(journal))
    disk.rename(Area.STEP, part, scratch / JOURNAL)
    for number, name in enumerate(names):
        if journal.there[number]:
            disk.rename(Area.STEP, project / name, scratch / _DISPLACED / str(number))


def put_back(scratch: Path) -> None:
    """Put everything back. What the step left there, which nobody has collected, becomes part of its scratch files."""
    try:
        journal = msgspec.json.decode((scratch / JOURNAL).read_bytes(), type=_Journal)
    except FileNotFoundError:
        return
    project = Path(journal.project)
    for number, name in enumerate(journal.paths):
        aside, path = scratch / _DISPLACED / str(number), project / name
        untouched = journal.there[number] and not os.path.lexists(aside)  # it was not put aside, or is back already
        if not untouched and os.path.lexists(path):
            _keep(path, scratch / "work" / name)
        if os.path.lexists(aside):
            path.parent.mkdir(parents=True, exist_ok=True)
            disk.rename(Area.STEP, aside, path)
    os.unlink(scratch / JOURNAL)


def _keep(path: Path, kept: Path) -> None:
    """Keep a partial output as evidence."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(kept):
        disk.rename(Area.STEP, path, kept)


# --- the scratch folder -----------------------------------------------------------------------------------------------


_LOGS = ("stdout", "stderr")
_KEPT = ("work", "out", "tmp", "home")  # folders that are kept after a failure
_SCRIPT = "script.sh"
_EXECUTED = (_SCRIPT, "query.sql")  # files in which actions write down what they execute
_GATHERED = "kept"  # becomes `scratch/` in the evidence by one rename
_ASIDE = "aside-"  # prefix of folders that could not be emptied
_CLOCK_TICK = 50_000_000  # nanoseconds: more than the resolution of file times on any local file system
MARKER, MARKER_SIZE = "step", 4096
CONTAINER_NOTE = "container"  # file with the engine and name of the container of the current step
NESTED_SITES = "sites"  # below a run's folder: sites of workers that have scratch folders of their own (Dask)
_NOT_KEPT, _NOT_KEPT_SHOWN = "not-kept.txt", 20  # a note in the evidence: which paths were dropped


class _Stamp(NamedTuple):
    """Identifies a state of a folder: every new or removed entry changes the change time."""

    device: int
    inode: int
    changed: int  # nanoseconds; unlike the modification time nobody can set it


_NO_STAMP = _Stamp(-1, -1, -1)


class Scratch:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"  # the working directory of a step
        self.inputs = root / "inputs"
        self.out = root / "out"
        self.tmp = root / "tmp"
        self.home = root / "home"
        self.script = root / _SCRIPT
        self.stdout = root / "stdout"
        self.stderr = root / "stderr"
        self._folders = [str(folder) for folder in (self.work, self.out, self.tmp, self.home, self.inputs)]
        self._empty_stamps: dict[str, _Stamp] = {}  # of folders that were seen to be empty

    def make(self) -> None:
        self.root.parent.mkdir(parents=True, exist_ok=True)
        self.root.mkdir(mode=0o700, exist_ok=True)  # for this user alone: a step may print or write a secret
        for name in (*_KEPT, "inputs"):
            (self.root / name).mkdir(exist_ok=True)

    def remove(self) -> None:
        """Remove everything. What cannot be removed (a process that a step left may still write there) stays for the
        next run: nothing that a step does to its files is a failure of the run."""
        with suppress(OSError):
            put_back(self.root)
            remove(str(self.root))

    # --- the current step ---------------------------------------------------------------------------------------------

    def marker(self) -> Callable[[str, int], None]:
        """A function that records the step and attempt that begins here, for the run that finds the folder after a
        kill. It writes to a memory-mapped file: no system call for each step, and the kernel keeps the content."""
        try:
            with open(self.root / MARKER, "w+b", buffering=0) as file:
                file.write(bytes(MARKER_SIZE))  # allocates the disk space, so that later writes cannot fail
                memory = mmap.mmap(file.fileno(), MARKER_SIZE)
        except OSError:  # a full disk: there will be little to find anyway
            return lambda step_id, attempt: None

        def mark(step_id: str, attempt: int) -> None:
            data = written_marker(step_id, attempt)
            memory[: len(data)] = data

        return mark

    def marked(self) -> tuple[str, int] | None:
        """The step that began here last, and its attempt."""
        try:
            return read_marker((self.root / MARKER).read_bytes())
        except FileNotFoundError:
            return None

    @property
    def has_container(self) -> bool:
        """Whether the current step runs in one, or its worker died before it was removed."""
        return (self.root / CONTAINER_NOTE).exists()

    def end_container(self) -> None:
        if self.has_container:
            from whyrun.environments.containers import end_container  # imported late: few steps have a container

            end_container(self.root)

    # --- after a step --------------------------------------------------------------------------------------------

    def keep_log(self, name: str, step_dir: Path, redactor: Redactor) -> None:
        """Move `stdout` or `stderr`, which must not be empty, to the evidence. Logs of later attempts are appended."""
        source, target = self.root / name, step_dir / f"{name}.log"
        disk.make_folders(Area.STEP, step_dir)
        if not redactor and not target.exists():
            move(source, target)
            return
        joined = self._joined(name)
        join_logs(target, source, joined, redactor.copy if redactor else copy_as_it_is)
        source.unlink()  # from here on `joined` is complete, see `keep_all`
        move(joined, target)

    def _joined(self, name: str) -> Path:
        return self.root / f"{name}.joined"

    def keep_script(self, step_dir: Path, redactor: Redactor) -> None:
        for name in _EXECUTED:
            written = self.root / name
            if not written.exists():
                continue
            disk.make_folders(Area.STEP, step_dir)
            if redactor and redactor.found_in(data := written.read_bytes()):
                written.write_bytes(redactor.data(data))
            move(written, step_dir / name)

    def keep_partial(self, step_dir: Path, redactor: Redactor) -> None:
        """After a failure: move the step's files to `scratch/` in the evidence, without files that contain a secret."""
        gathered = self._gather(redactor)
        kept = step_dir / "scratch"
        put_away(kept, self.root)  # from an earlier attempt
        if gathered is not None:
            disk.make_folders(Area.STEP, step_dir)
            move(gathered, kept)
        for name in _KEPT:
            if not os.path.lexists(self.root / name):
                (self.root / name).mkdir()

    def _gather(self, redactor: Redactor) -> Path | None:
        """Move the files to keep into one folder; None if there are none."""
        gathered = self.root / _GATHERED
        for name in _KEPT:
            folder = self.root / name
            if not is_real_folder(folder) or not os.listdir(folder):
                continue
            too_deep = drop_too_deep(folder)
            if redactor:
                _remove_secrets(folder, b"", redactor)
                if not os.listdir(folder):
                    continue
            gathered.mkdir(exist_ok=True)
            if too_deep:
                _note_not_kept(gathered / _NOT_KEPT, name, too_deep, redactor)
            move(folder, gathered / name)
        return gathered if gathered.exists() else None

    def keep_all(self, step_dir: Path, redactor: Redactor) -> None:
        """Keep all files of a dead worker's step, including those that it was moving when it died."""
        put_back(self.root)
        for name in _LOGS:
            source, joined = self.root / name, self._joined(name)
            if source.exists() and source.stat().st_size:
                self.keep_log(name, step_dir, redactor)
            elif joined.exists():
                move(joined, step_dir / f"{name}.log")
        self.keep_script(step_dir, redactor)
        if self._gather(redactor) is not None:  # else `scratch/` in the evidence may already be this step's
            self.keep_partial(step_dir, redactor)

    def empty(self) -> None:
        """Remove everything that a step, its threads or its processes wrote.

        Most steps leave most folders untouched. A folder that was seen to be empty is listed again only after its
        change time has changed, which every new entry does.
        """
        for folder in self._folders:
            if self._empty_stamps.get(folder, _NO_STAMP) != _stamp(folder):
                self._empty(folder)

    def _empty(self, folder: str) -> None:
        self._empty_stamps.pop(folder, None)
        now, before = time.time_ns(), _stamp(folder)  # the clock first: an entry that comes later has a later time
        if before is None:
            # A step removed it, or put a link in its place. The target of the link must not be emptied.
            if os.path.lexists(folder):
                os.unlink(folder)
            os.makedirs(folder)
        try:
            names = os.listdir(folder)
            for name in names:
                remove(f"{folder}/{name}")
        except OSError:
            self._put_aside(folder)
            return
        # A change in the same clock tick as the last one would leave the change time as it is, so it must be older.
        if before is not None and not names and now - before.changed > _CLOCK_TICK and self._times_count:
            self._empty_stamps[folder] = before

    @cached_property
    def _times_count(self) -> bool:
        """Whether change times can be relied on. Not on a network file system, to which other machines may write."""
        return is_local(str(self.root))

    def _put_aside(self, folder: str) -> None:
        """Rename a folder that cannot be emptied (an immutable file, or a process that still writes there) and create a
        new one: the next step must not see its files, and the last one must not fail for them. If renaming fails too,
        no further step may run here."""
        os.rename(folder, _aside(self.root))
        os.mkdir(folder)

    def tail(self, name: str, redactor: Redactor, limit: int = 4096) -> str:
        """The last bytes of a log as text."""
        try:
            with open(self.root / name, "rb") as file:
                return redactor.tail(file, limit).decode("utf-8", "replace")
        except FileNotFoundError:  # the worker died before it created its logs, or they were moved already
            return ""


def _stamp(folder: str) -> _Stamp | None:
    """None if it is not a folder."""
    try:
        status = os.lstat(folder)
    except OSError:
        return None
    return _Stamp(status.st_dev, status.st_ino, status.st_ctime_ns) if stat.S_ISDIR(status.st_mode) else None


def drop_links(folder: Path) -> None:
    """Remove links directly below a folder that came from a sandbox. The worker itself creates none here, and one that
    a step created would lead the host, which is not confined, anywhere. Links further below are kept, never followed.
    """
    for entry in os.scandir(folder):
        if entry.is_symlink():
            os.unlink(entry.path)


def remove_scratch_folders(parent: Path) -> None:
    """Remove everything that killed runs left."""
    try:
        names = os.listdir(parent)
    except FileNotFoundError:
        return
    for name in names:
        Scratch(parent / name).remove()


def step_folder(run_dir: Path, step_id: str) -> Path:
    """`steps/<step>/` in the run folder. It is created only when there is a file to put into it."""
    return run_dir / "steps" / file_name(step_id.partition(":")[2])


def move(source: Path, target: Path) -> None:
    """Rename. Scratch folders and run folders are on one file system; a run that finds them apart does not start."""
    disk.rename(Area.STEP, source, target)


def put_away(kept: Path, scratch: Path) -> None:
    """Remove a folder of the evidence that a newer one replaces: by one rename, so that no half of it remains."""
    if kept.is_dir():
        aside = _aside(scratch)
        move(kept, aside)
        remove(str(aside))


def _aside(scratch: Path) -> Path:
    return scratch / f"{_ASIDE}{os.urandom(8).hex()}"


def join_logs(
    before: Path, more: Path, joined: Path, copy: Callable[[BinaryIO, BinaryIO], object] = copy_as_it_is
) -> None:
    with open(joined, "wb") as log:
        if before.exists():
            with open(before, "rb") as first:
                append(first, log)
        with open(more, "rb") as last:
            append(last, log, copy)


def written_marker(step_id: str, attempt: int) -> bytes:
    return f"{attempt} {step_id}\n".encode()[:MARKER_SIZE]


def read_marker(data: bytes) -> tuple[str, int] | None:
    """Read what `Scratch.marker` wrote: step and attempt."""
    line, newline, _ = data.partition(b"\n")
    attempt, _, step_id = line.partition(b" ")
    if not newline or not attempt.isdigit():
        return None
    return step_id.decode(errors="replace"), int(attempt)


def _note_not_kept(note: Path, folder: str, paths: Sequence[str], redactor: Redactor) -> None:
    lines = [f"{folder}/{path}" for path in paths[:_NOT_KEPT_SHOWN]]
    if len(paths) > _NOT_KEPT_SHOWN:
        lines.append(f"and {len(paths) - _NOT_KEPT_SHOWN} more in {folder}/")
    text = "".join(f"{line}: more than {DEEPEST} folders deep, or its path is too long\n" for line in lines)
    with open(note, "ab") as file:
        file.write(redactor.data(os.fsencode(text)))


def _remove_secrets(folder: Path, relative: bytes, redactor: Redactor) -> None:
    """Remove every entry whose name, path or content contains a secret, and all links and special files."""
    with os.scandir(folder) as listing:
        entries = list(listing)
    for entry in entries:
        path = relative + b"/" + os.fsencode(entry.name)
        if redactor.found_in(path):
            remove(entry.path)
        elif entry.is_dir(follow_symlinks=False):
            _remove_secrets(Path(entry.path), path, redactor)
        elif not entry.is_file(follow_symlinks=False) or _has_secret(entry.path, redactor):
            os.unlink(entry.path)


def _has_secret(path: str, redactor: Redactor) -> bool:
    with open(path, "rb") as file:
        return any(redactor.found_in_file(part) for part in file_parts(file))
