"""Writing artifacts where users see them, and losing nothing of theirs.

A published file is an independent copy. What stands at its path and is not ours goes into the store first, and so does
what is ours and the store has lost: nothing is written over that has no other copy. Links are never followed out of the
project: a link at the path itself is replaced, not written through.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from whyrun import disk
from whyrun.artifacts.durable import clear_up, temp_name
from whyrun.artifacts.hashing import bytes_sha256, file_sha256, iter_parents, tree_manifest
from whyrun.artifacts.standing import Standing, look_at, look_at_open
from whyrun.artifacts.stat_cache import WrittenFile
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error

_TRIES = 5
LINK_HINT = "remove the link or choose another path, then run again"


@dataclass(frozen=True, slots=True)
class Displaced:
    """What stood at a path and was not ours: now in the store under this hash (a folder by its manifest)."""

    path: str  # relative to the project
    sha256: str
    is_link: bool = False  # then it is the text of where that leads


OnDisplaced = Callable[[Displaced], None]


@dataclass(frozen=True, slots=True)
class PublishResult:
    written: bool  # False: the content was there already
    displaced: tuple[Displaced, ...] = ()
    file: WrittenFile | None = None  # a single file as it was written, for `StatCache.note`

    @property
    def displaced_sha(self) -> str | None:
        return self.displaced[-1].sha256 if self.displaced else None


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
    """Put the content `sha` at `path` in the project. `is_ours(hash)`: does the log hold this hash for this path?

    `on_displaced` is told what is about to be written over and is not ours: the only copy of it is then in the store.
    `on_put_back` is told the same of what is ours, where the store did not have it any more.
    """
    check_path(path)
    root = os.fspath(project)
    keeper = _Keeper(store, path, is_ours, on_displaced, on_put_back)
    keeper.displaced.extend(make_parents(store, root, path, on_displaced))
    target = f"{root}/{path}"
    beside = False
    for _ in range(_TRIES):
        before, kept = look_at(target), ""
        if before is not None:
            found = _content(before.status, target)
            if found == sha and before.is_folder == (type == "directory"):
                return PublishResult(False, tuple(keeper.displaced))
            kept = keeper.keep(target, before.status, found)
        new, seen = _prepare(store, sha, type, target if beside else None)
        try:
            # Whoever wrote to it since we looked has made it theirs: look again.
            keep_edit = partial(keeper.keep_edit, before=before, kept=kept)
            if _is_still(target, before, kept) and _replace(new, target, before, type, keep_edit):
                return PublishResult(True, tuple(keeper.displaced), seen)
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
class _Keeper:
    """Sees to it that the store has what is written over at one path."""

    store: Store
    path: str
    is_ours: Callable[[str], bool]
    on_displaced: OnDisplaced
    on_put_back: OnDisplaced
    displaced: list[Displaced] = field(default_factory=list)

    def keep(self, place: str, status: os.stat_result, found: str | None) -> str:
        """What stands at `place` and has the hash `found`; the hash under which the store has it."""
        ours = found is not None and self.is_ours(found)
        if ours and found is not None and self._is_stored(found, status):
            return found
        saved = Displaced(self.path, _save(self.store, place, status), stat.S_ISLNK(status.st_mode))
        if ours and saved.sha256 == found:
            # A blob may be lost, or `gc` has removed it: what a pruned run has published still stands where it was.
            self.on_put_back(saved)
        elif saved not in self.displaced:
            self.displaced.append(saved)
            self.on_displaced(saved)
        return saved.sha256

    def keep_edit(self, now: Standing, place: str, *, before: Standing | None, kept: str) -> None:
        """What is replaced is at `place` now. Save it, if somebody wrote to it after it was looked at."""
        if before is None or (before.settled and now.looks_like(before, moved=True)):
            return
        found = _content(now.status, place)
        if found is not None and found != kept:
            self.keep(place, now.status, found)

    def _is_stored(self, sha: str, status: os.stat_result) -> bool:
        if stat.S_ISDIR(status.st_mode):
            return self.store.has_tree(sha)
        return self.store.has(sha, status.st_size)


def _is_still(target: str, before: Standing | None, kept: str) -> bool:
    """Does there stand what was looked at, and is in the store as `kept`? What is too young to tell is read again."""
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
    """Why nothing is written below this folder of the project. None where it is no link, or one that stays inside."""
    place = f"{root}/{folder}"
    if not os.path.islink(place):
        return None
    real, real_root = os.path.realpath(place), os.path.realpath(root)
    if not real.startswith(real_root.rstrip("/") + "/"):
        return f"would be written through the link `{folder}`, which leads out of the project"
    return None if os.path.isdir(real) else f"would be written through the link `{folder}`, which leads to no folder"


def make_parents(store: Store, root: str, path: str, on_displaced: OnDisplaced) -> tuple[Displaced, ...]:
    """The folders above the path, as folders inside the project."""
    displaced: tuple[Displaced, ...] = ()
    for parent in iter_parents(path):
        place = f"{root}/{parent}"
        status = look(place)
        if status is not None and stat.S_ISLNK(status.st_mode):
            problem = link_problem(root, parent)
            if problem is not None:
                raise _outside(path, problem, LINK_HINT)
        elif status is not None and not stat.S_ISDIR(status.st_mode):
            saved = Displaced(parent, _save(store, place, status))
            displaced += (saved,)
            on_displaced(saved)
            disk.unlink(Area.PUBLISH, place)
            disk.mkdir(Area.PUBLISH, place)
        elif status is None:
            disk.make_folders(Area.PUBLISH, place)
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
    """The hash of what stands there. A link has none of its own: it is never ours."""
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
        # What it leads to stays where it is; all that is displaced is the link.
        return store.put_bytes(os.readlink(os.fsencode(path)))
    raise error(
        "WRONG_TYPE",
        f"`{path}` is neither a file nor a folder, so it cannot be saved before it is written over",
        hint="move it away, then run again",
    )


def _prepare(store: Store, sha: str, type: str, beside: str | None) -> tuple[str, WrittenFile | None]:
    """The new content under a name nobody knows: in the store's folder, where a kill leaves no litter for users."""
    temp = store.temp_path() if beside is None else f"{os.path.dirname(beside)}/.whyrun-{temp_name()}"
    try:
        store.export(sha, temp, type)
    except BaseException as failed:
        clear_up(failed, lambda: discard(Area.PUBLISH, temp))
        raise
    if type == "directory":
        return temp, None
    # A time of our own, finer than the kernel's tick: even a write within the tick of ours changes it, so that the
    # stat-cache may take this file's hash from us (see `StatCache.note`).
    now = time.time_ns()
    os.utime(temp, ns=(now, now))
    status = os.stat(temp)
    return temp, WrittenFile(sha, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _replace(
    new: str, target: str, before: Standing | None, type: str, keep_edit: Callable[[Standing, str], None]
) -> bool:
    """`keep_edit` is given what was replaced: an edit may have come after the last look at it. False: it is no more
    what it was, and nothing was done."""
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


def _swap(new: str, target: str, keep_edit: Callable[[Standing, str], None]) -> None:
    """Folders cannot be replaced in one step; what stood there is in the store, so a kill in between loses nothing."""
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
        # It cannot be saved, so it is not removed either.
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
        pass  # renamed to its place
