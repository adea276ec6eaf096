"""The scratch folder of a worker: made once, reused for every step, emptied in between.

The worker keeps what a step leaves behind; where the worker itself died, the backend does, and where the host died as
well, the next one (`leftovers`), all with the same code. So every move here can be cut off by a kill, and done again.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from whyrun import disk
from whyrun.disk import Area
from whyrun.execution.backends.copying import append, file_parts
from whyrun.execution.folder_watch import FolderWatch
from whyrun.execution.secrets import Redactor
from whyrun.execution.trees import DEEPEST, drop_too_deep, is_real_folder, remove
from whyrun.ids import file_name

_LOGS = ("stdout", "stderr")
_KEPT = ("work", "out", "tmp", "home")  # what may hold something worth looking at after a failure
_SCRIPT = "script.sh"
_EXECUTED = (_SCRIPT, "query.sql")  # what was really executed, as an action wrote it down
_GATHERED = "kept"  # what becomes `scratch/` in the evidence, until it is moved there in one go
_ASIDE = "aside-"  # beginning of the names of folders that could not be emptied
MARKER, MARKER_SIZE = "step", 4096
_NOT_KEPT, _TOLD = "not-kept.txt", 20  # beside what is kept: what is not, and how much of it is named


class Scratch:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"  # where a step starts
        self.inputs = root / "inputs"
        self.out = root / "out"
        self.tmp = root / "tmp"
        self.home = root / "home"
        self.script = root / _SCRIPT
        self.stdout = root / "stdout"
        self.stderr = root / "stderr"
        self._all = [str(folder) for folder in (self.work, self.out, self.tmp, self.home, self.inputs)]
        self._handed = (str(self.out), str(self.inputs))  # what a later step would take for its own
        self._watch: FolderWatch | None = None
        self._to_empty: set[str] = set()  # folders that may hold something; stays until they are seen to be empty

    def make(self) -> None:
        for name in (*_KEPT, "inputs"):
            (self.root / name).mkdir(parents=True, exist_ok=True)

    def watch(self) -> None:
        """From here on the kernel is asked which folders there is something to take out of."""
        self._watch = FolderWatch(self._all)

    def remove(self) -> None:
        """What cannot be removed (a process that a step left may still write there) is left to the next run: nothing
        that a step does to its files is a failure of the run."""
        with suppress(OSError):
            remove(str(self.root))

    # --- whose it is ---------------------------------------------------------------------------------------------

    def marker(self) -> Callable[[str, int], None]:
        """A function that notes which step, and which attempt of it, begins here: for those who find the folder after
        a kill. It writes to memory that the file is mapped to: no system call a step, and the kernel keeps it."""
        try:
            with open(self.root / MARKER, "w+b", buffering=0) as file:
                file.write(bytes(MARKER_SIZE))  # it has its place on the disk now: writing cannot fail any more
                memory = mmap.mmap(file.fileno(), MARKER_SIZE)
        except OSError:  # a full disk: then there will be little to find
            return lambda step_id, attempt: None

        def mark(step_id: str, attempt: int) -> None:
            data = written_marker(step_id, attempt)
            memory[: len(data)] = data

        return mark

    def marked(self) -> tuple[str, int] | None:
        """The step that last began here, and its attempt."""
        try:
            return read_marker((self.root / MARKER).read_bytes())
        except FileNotFoundError:
            return None

    # --- after a step --------------------------------------------------------------------------------------------

    def keep_log(self, name: str, step_dir: Path, redactor: Redactor) -> None:
        """Move `stdout` or `stderr` to the evidence; a later attempt is appended. The caller knows it is not empty."""
        source, target = self.root / name, step_dir / f"{name}.log"
        disk.make_folders(Area.STEP, step_dir)
        if not redactor and not target.exists():
            move(source, target)
            return
        joined = self._joined(name)
        join_logs(target, source, joined, redactor.copy if redactor else shutil.copyfileobj)
        source.unlink()  # from here on `joined` has it all: see `keep_all`
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
        """After a failure: what the step wrote, as `scratch/`. Nothing where a secret stands."""
        gathered = self._gather(redactor)
        kept = step_dir / "scratch"
        put_away(kept, self.root)  # that of an earlier attempt
        if gathered is not None:
            disk.make_folders(Area.STEP, step_dir)
            move(gathered, kept)
        for name in _KEPT:
            if not os.path.lexists(self.root / name):
                (self.root / name).mkdir()

    def _gather(self, redactor: Redactor) -> Path | None:
        """What is worth keeping, in one folder; None if there is nothing."""
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
                _tell_not_kept(gathered / _NOT_KEPT, name, too_deep, redactor)
            move(folder, gathered / name)
        return gathered if gathered.exists() else None

    def keep_all(self, step_dir: Path, redactor: Redactor) -> None:
        """Everything that a dead worker left of its step, also where it was keeping it already when it died."""
        for name in _LOGS:
            source, joined = self.root / name, self._joined(name)
            if source.exists() and source.stat().st_size:
                self.keep_log(name, step_dir, redactor)
            elif joined.exists():
                move(joined, step_dir / f"{name}.log")
        self.keep_script(step_dir, redactor)
        if self._gather(redactor) is not None:  # else what stands in the evidence may be this step's already
            self.keep_partial(step_dir, redactor)

    def empty(self) -> None:
        """Every folder that may hold something: what a step wrote, and by which way, is not known here (it may have
        been a fork)."""
        self._empty(self._all if self._watch is None else self._watch.touched())

    def empty_handed(self) -> None:
        """Before a step: what a thread that an earlier one left running put there after its end."""
        watched = self._watch is not None and self._watch.works
        if watched:
            self.empty()
        else:
            self._empty(self._handed)

    def _empty(self, folders: Sequence[str]) -> None:
        self._to_empty.update(folders)
        if not self._to_empty:
            return
        for folder in self._to_empty:
            if not is_real_folder(folder):
                # A step took it away, or put a link in its place: where that leads is not ours to empty.
                if os.path.lexists(folder):
                    os.unlink(folder)
                os.makedirs(folder)
        if self._watch is not None and len(self._to_empty) == len(self._all):
            self._watch.renew()  # one of them may be another folder than before
        for folder in sorted(self._to_empty):
            try:
                for name in os.listdir(folder):
                    remove(f"{folder}/{name}")
            except OSError:
                self._put_aside(folder)
            self._to_empty.discard(folder)

    def _put_aside(self, folder: str) -> None:
        """What cannot be removed (an immutable file; a process still writes there) must not reach the next step, and
        is no reason to lose what this one made. Where not even that can be done, no step is executed here any more."""
        os.rename(folder, _aside(self.root))
        os.mkdir(folder)

    def tail(self, name: str, redactor: Redactor, limit: int = 4096) -> str:
        """The last bytes of a log, as text."""
        try:
            with open(self.root / name, "rb") as file:
                return redactor.tail(file, limit).decode("utf-8", "replace")
        except FileNotFoundError:  # the worker died before it made its logs, or they are kept already
            return ""


def drop_links(folder: Path) -> None:
    """Of what comes from where a step was confined. What the worker makes here is never a link; one that a step put in
    its place would lead us, who are not confined, to whatever it names. Below, links are kept and not followed."""
    for entry in os.scandir(folder):
        if entry.is_symlink():
            os.unlink(entry.path)


def remove_scratch_folders(parent: Path) -> None:
    """Everything that killed runs left there."""
    try:
        names = os.listdir(parent)
    except FileNotFoundError:
        return
    for name in names:
        Scratch(parent / name).remove()


def step_folder(run_dir: Path, step_id: str) -> Path:
    """`steps/<step>/` of a step; the folder is made only when there is something to put into it."""
    return run_dir / "steps" / file_name(step_id.partition(":")[2])


def move(source: Path, target: Path) -> None:
    """Scratch folders and runs are on one file system, as no run could begin otherwise."""
    disk.rename(Area.STEP, source, target)


def put_away(kept: Path, scratch: Path) -> None:
    """A folder of the evidence that a newer one replaces: out of it in one go, then removed."""
    if kept.is_dir():
        aside = _aside(scratch)
        move(kept, aside)
        remove(str(aside))


def _aside(scratch: Path) -> Path:
    return scratch / f"{_ASIDE}{os.urandom(8).hex()}"


def join_logs(
    before: Path, more: Path, joined: Path, copy: Callable[[BinaryIO, BinaryIO], object] = shutil.copyfileobj
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
    """What `Scratch.marker` wrote."""
    line, newline, _ = data.partition(b"\n")
    attempt, _, step_id = line.partition(b" ")
    if not newline or not attempt.isdigit():
        return None
    return step_id.decode(errors="replace"), int(attempt)


def _tell_not_kept(note: Path, folder: str, paths: Sequence[str], redactor: Redactor) -> None:
    lines = [f"{folder}/{path}" for path in paths[:_TOLD]]
    if len(paths) > _TOLD:
        lines.append(f"and {len(paths) - _TOLD} more in {folder}/")
    text = "".join(f"{line}: more than {DEEPEST} folders deep, or its path is too long\n" for line in lines)
    with open(note, "ab") as file:
        file.write(redactor.data(os.fsencode(text)))


def _remove_secrets(folder: Path, relative: bytes, redactor: Redactor) -> None:
    """Everything below whose name, path or content has a secret; links and special files too, whatever they lead to."""
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
