"""Publish artifacts: write them into the project folder without losing anything of the user.

A published file is an independent copy. An existing file at its path is saved in the store first, unless it is ours and
the store still has it: nothing is overwritten without another copy. Symlinks are never followed out of the project: a
symlink at the path itself is replaced.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from whyrun import disk
from whyrun.artifacts.durable import clear_up, temp_name
from whyrun.artifacts.hashing import bytes_sha256, file_sha256, iter_parents, tree_manifest
from whyrun.artifacts.stat_cache.cache import WrittenFile
from whyrun.artifacts.stat_cache.rows import clock_skew, is_settled
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error

# --- the state of a path -----------------------------------------------------------------------------------------
#
# The state of a path without reading its content: enough to see whether it was changed since.
#
# The state of a folder includes all files in it, because an edit of a file does not change the times of the folder.


_skews: dict[int, int] = {}  # by device: how far its clock may be behind ours, in nanoseconds


@dataclass(frozen=True, slots=True)
class PathState:
    status: os.stat_result
    inside: str = ""  # of a folder: a hash of the names and time stamps of all files in it
    settled: bool = False  # a write after this look changes the time stamps

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    def looks_like(self, before: PathState, *, moved: bool = False) -> bool:
        """Whether nothing has changed. `moved`: it was renamed since, which changes its ctime."""
        mine, theirs = self.status, before.status
        return (
            (mine.st_ino, mine.st_mode, mine.st_size, mine.st_mtime_ns, self.inside)
            == (theirs.st_ino, theirs.st_mode, theirs.st_size, theirs.st_mtime_ns, before.inside)
        ) and (moved or mine.st_ctime_ns == theirs.st_ctime_ns)


def look_at(path: str) -> PathState | None:
    """The state of a path; None if it does not exist."""
    now = time.time_ns()
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    now -= _skew_at(path, status)
    settled = is_settled(status.st_mtime_ns, status.st_ctime_ns, now)
    if not stat.S_ISDIR(status.st_mode):
        return PathState(status, "", settled)
    inside, all_settled = _look_inside(path, now)
    return PathState(status, inside, settled and all_settled)


def look_at_open(descriptor: int) -> PathState:
    """The state of an open file, which may have lost its name."""
    return PathState(os.fstat(descriptor))


def _look_inside(top: str, now: int) -> tuple[str, bool]:
    """(hash of all names and time stamps, whether all are settled). A hash, because there may be a million files."""
    hasher = hashlib.sha256()
    settled = True
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                name = os.fsencode(entry.path[len(top) :])
                facts = (name, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                hasher.update(b"%d %r" % (len(name), facts))
                settled = settled and is_settled(status.st_mtime_ns, status.st_ctime_ns, now)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            return f"written to at {time.time_ns()}", False  # it is being changed: equal to no other state
    return hasher.hexdigest(), settled


def _skew_at(path: str, status: os.stat_result) -> int:
    """How far the clock of this file system may be behind: see `file_times.py`."""
    if status.st_dev not in _skews:
        # The target of a symlink may be on another file system.
        folder = os.path.dirname(path) if stat.S_ISLNK(status.st_mode) else path
        _skews[status.st_dev] = clock_skew(folder)
    return _skews[status.st_dev]


# --- publishing --------------------------------------------------------------------------------------------------


_TRIES = 5
LINK_HINT = "remove the link or choose another path, then run again"


@dataclass(frozen=True, slots=True)
class Displaced:
    """An overwritten file, folder or link, now in the store under this hash (a folder by its manifest)."""

    path: str  # relative to the project
    sha256: str
    is_link: bool = False  # then the blob is the target of the link


OnDisplaced = Callable[[Displaced], None]


@dataclass(frozen=True, slots=True)
class PublishResult:
    written: bool  # False: the path had this content already
    displaced: tuple[Displaced, ...] = ()
    file: WrittenFile | None = None  # a single file as it was written, for `StatCache.note`


def publish(
    store: Store,
    project: str | os.PathLike[str],
    path: str,
    sha: str,
    is_ours: Callable[[str], bool],
    type: str = "file",
    on_displaced: OnDisplaced = lambda displaced: None,
    on_put_back: OnDisplaced = lambda put_back: None,
) -> PublishResult:
    """Write the content `sha` to `path` in the project. `is_ours(hash)`: whether the log has this hash for this path.

    `on_displaced` is called before content that is not ours is overwritten: the store then has the only copy.
    `on_put_back` is called before content that is ours is overwritten, if the store had lost it.
    """
    check_path(path)
    root = os.fspath(project)
    saver = _Saver(store, path, is_ours, on_displaced, on_put_back)
    saver.displaced.extend(make_parents(store, root, path, on_displaced))
    target = f"{root}/{path}"
    beside = False
    for _ in range(_TRIES):
        before, kept = look_at(target), ""
        if before is not None:
            existing = _content(before.status, target)
            if existing == sha and before.is_folder == (type == "directory"):
                return PublishResult(False, tuple(saver.displaced))
            kept = saver.keep(target, before.status, existing)
        new, seen = _prepare(store, sha, type, target if beside else None)
        try:
            # If the target was changed meanwhile, it belongs to the user: look again.
            keep_edit = partial(saver.keep_edit, before=before, kept=kept)
            if _is_unchanged(target, before, kept) and _replace(new, target, before, type, keep_edit):
                return PublishResult(True, tuple(saver.displaced), seen)
        except (OSError, WhyrunError) as failed:
            if not isinstance(failed, OSError) or failed.errno != errno.EXDEV or beside:
                clear_up(failed, partial(discard, Area.PUBLISH, new))
                raise
            beside = True  # the store is on another file system
        discard(Area.PUBLISH, new)
    raise error(
        "DISK_FAILED",
        f"`{path}` keeps changing while it is being published",
        hint="stop the program that writes it, then run again",
    )


@dataclass(frozen=True, slots=True)
class _Saver:
    """Saves the content of one path in the store before it is overwritten."""

    store: Store
    path: str
    is_ours: Callable[[str], bool]
    on_displaced: OnDisplaced
    on_put_back: OnDisplaced
    displaced: list[Displaced] = field(default_factory=list)

    def keep(self, location: str, status: os.stat_result, sha256: str | None) -> str:
        """Save the content there, which has the hash `sha256` (None for a link); returns its hash in the store."""
        ours = sha256 is not None and self.is_ours(sha256)
        if ours and sha256 is not None and self._is_stored(sha256, status):
            return sha256
        saved = Displaced(self.path, _save(self.store, location, status), stat.S_ISLNK(status.st_mode))
        if ours and saved.sha256 == sha256:
            # The blob was lost, or `gc` has removed it after the run that published it was pruned.
            self.on_put_back(saved)
        elif saved not in self.displaced:
            self.displaced.append(saved)
            self.on_displaced(saved)
        return saved.sha256

    def keep_edit(self, now: PathState, location: str, *, before: PathState | None, kept: str) -> None:
        """Save the replaced content, which is at `location` now, if it was changed after the last look."""
        if before is None or (before.settled and now.looks_like(before, moved=True)):
            return
        sha256 = _content(now.status, location)
        if sha256 is not None and sha256 != kept:
            self.keep(location, now.status, sha256)

    def _is_stored(self, sha: str, status: os.stat_result) -> bool:
        if stat.S_ISDIR(status.st_mode):
            return self.store.has_tree(sha)
        return self.store.has(sha, status.st_size)


def _is_unchanged(target: str, before: PathState | None, kept: str) -> bool:
    """Whether the target is the same as `before`, which the store has as `kept`. Reads it if its times are young."""
    now = look_at(target)
    if before is None or now is None:
        return before is now
    return now.looks_like(before) and (before.settled or before.is_link or _content(now.status, target) == kept)


def check_path(path: str) -> None:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or path.startswith("/") or ".." in parts or parts[0] == ".whyrun" or "\0" in path:
        raise _outside(path, "is not a path inside the project folder", "outputs are published below that folder only")


def _outside(path: str, why: str, hint: str) -> WhyrunError:
    return error("PATH_OUTSIDE", f"`{path}` {why}", hint=hint)


def link_problem(root: str, folder: str) -> str | None:
    """Why nothing may be written below this folder. None if it is not a symlink, or one that stays in the project."""
    location = f"{root}/{folder}"
    if not os.path.islink(location):
        return None
    real, real_root = os.path.realpath(location), os.path.realpath(root)
    if not real.startswith(real_root.rstrip("/") + "/"):
        return f"would be written through the link `{folder}`, which leads out of the project"
    return None if os.path.isdir(real) else f"would be written through the link `{folder}`, which leads to no folder"


def make_parents(store: Store, root: str, path: str, on_displaced: OnDisplaced) -> tuple[Displaced, ...]:
    """Create the folders above the path. A file in their place is saved first; a link must stay in the project."""
    displaced: tuple[Displaced, ...] = ()
    for parent in iter_parents(path):
        location = f"{root}/{parent}"
        status = look(location)
        if status is not None and stat.S_ISLNK(status.st_mode):
            problem = link_problem(root, parent)
            if problem is not None:
                raise _outside(path, problem, LINK_HINT)
        elif status is not None and not stat.S_ISDIR(status.st_mode):
            saved = Displaced(parent, _save(store, location, status))
            displaced += (saved,)
            on_displaced(saved)
            disk.unlink(Area.PUBLISH, location)
            disk.mkdir(Area.PUBLISH, location)
        elif status is None:
            disk.make_folders(Area.PUBLISH, location)
    return displaced


def look(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def same(before: os.stat_result | None, after: os.stat_result | None) -> bool:
    if before is None or after is None:
        return before is after
    return (before.st_ino, before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_ino,
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )


def _content(status: os.stat_result, path: str) -> str | None:
    """The hash of a file or folder; None for a link, which is never ours."""
    if stat.S_ISREG(status.st_mode):
        return file_sha256(path)
    if stat.S_ISDIR(status.st_mode):
        return bytes_sha256(tree_manifest(path))
    return None


def _save(store: Store, path: str, status: os.stat_result) -> str:
    if stat.S_ISREG(status.st_mode):
        return store.put_file(path)[0]
    if stat.S_ISDIR(status.st_mode):
        return store.put_tree(path)[0]
    if stat.S_ISLNK(status.st_mode):
        # Only the link is replaced, so only its target path is saved.
        return store.put_bytes(os.readlink(os.fsencode(path)))
    raise error(
        "WRONG_TYPE",
        f"`{path}` is neither a file nor a folder, so it cannot be saved before it is overwritten",
        hint="move it away, then run again",
    )


def _prepare(store: Store, sha: str, type: str, beside: str | None) -> tuple[str, WrittenFile | None]:
    """Write the new content to a temporary path in the store's folder, so that a kill leaves nothing in the project."""
    temp = store.temp_path() if beside is None else f"{os.path.dirname(beside)}/.whyrun-{temp_name()}"
    try:
        store.export(sha, temp, type)
    except BaseException as failed:
        clear_up(failed, lambda: discard(Area.PUBLISH, temp))
        raise
    if type == "directory":
        return temp, None
    # Set the time to the nanosecond, finer than the kernel's tick. Even a write within the same tick changes it, so the
    # stat cache need not read this file (see `StatCache.note`).
    now = time.time_ns()
    os.utime(temp, ns=(now, now))
    status = os.stat(temp)
    return temp, WrittenFile(sha, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _replace(
    new: str, target: str, before: PathState | None, type: str, keep_edit: Callable[[PathState, str], None]
) -> bool:
    """Rename `new` to `target`. `keep_edit` saves the replaced content if it was changed after the last look. False:
    the target is gone or is a link now, and nothing was done."""
    if before is not None and (before.is_folder or type == "directory"):
        _swap(new, target, keep_edit)
        return True
    if before is None or before.is_link:
        disk.rename(Area.PUBLISH, new, target)
        return True
    try:
        old = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as refused:
        if refused.errno in (errno.ENOENT, errno.ELOOP):
            return False
        raise
    try:
        disk.rename(Area.PUBLISH, new, target)
        keep_edit(look_at_open(old), f"/dev/fd/{old}")
    finally:
        os.close(old)
    return True


def _swap(new: str, target: str, keep_edit: Callable[[PathState, str], None]) -> None:
    """Replace a folder in two steps. The store has the old content, so a kill in between loses nothing."""
    aside = f"{new}-old"
    disk.rename(Area.PUBLISH, target, aside)
    try:
        disk.rename(Area.PUBLISH, new, target)
    except OSError as failed:
        clear_up(failed, lambda: disk.rename(Area.PUBLISH, aside, target))
        raise
    try:
        now = look_at(aside)
        if now is not None:
            keep_edit(now, aside)
    except (OSError, WhyrunError) as failed:
        # It cannot be saved, so it must not be removed.
        clear_up(failed, partial(_swap_back, new, target, aside))
        raise
    discard(Area.PUBLISH, aside)


def _swap_back(new: str, target: str, aside: str) -> None:
    disk.rename(Area.PUBLISH, target, new)
    disk.rename(Area.PUBLISH, aside, target)


def discard(area: Area, path: str) -> None:
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            disk.remove(area, path)
        else:
            disk.unlink(area, path)
    except FileNotFoundError:
        pass  # renamed already
