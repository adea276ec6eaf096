"""Write sections into shared JSON files: many at once, under a lock, without losing the sections of others.

The lock is on the folder of the file, so that runs of other workflows and with other states wait, too; a lock file in
the state would not stop them. Readers need no lock: the file is replaced atomically.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from whyrun import disk
from whyrun.artifacts.durable import clear_up, temp_name
from whyrun.artifacts.publishing.publish import Displaced, OnDisplaced, check_path, discard, look, make_parents, same
from whyrun.artifacts.publishing.sections import (
    Member,
    NotSections,
    read_members,
    section_bytes,
    section_member,
    section_sha256,
    written_members,
)
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error
from whyrun.ids import site_of

IsOurs = Callable[[str, str], bool]  # (key, hash): whether the log has this content for this section
_TRIES = 5
_PATIENCE = 30.0  # seconds; a merge takes milliseconds, so a process that holds the lock for longer is stuck
_PAUSE = 0.002
_NO_LOCKS_ON_FOLDERS = (errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EISDIR)  # on some network file systems


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge. `failed`: sections that could not be written, and why; the others are in the file."""

    displaced: tuple[Displaced, ...]
    failed: Mapping[str, WhyrunError]


@dataclass(frozen=True, slots=True)
class _LastWrite:
    """A file as this process wrote it: while its status is unchanged, it need not be read again."""

    status: os.stat_result
    members: dict[str, Member]


class SectionMerger:
    """Merges into the shared files of one project."""

    def __init__(self, store: Store, project: str) -> None:
        self.store, self.project = store, project
        self._last_writes: dict[str, _LastWrite] = {}

    def merge(
        self,
        path: str,
        sections: Mapping[str, str],
        is_ours: IsOurs,
        on_displaced: OnDisplaced = lambda displaced: None,
        on_put_back: OnDisplaced = lambda put_back: None,
    ) -> Merged:
        """Write these sections (key → hash) into the file, with one rewrite. An existing section with one of these keys
        is saved in the store first if it is not ours (then `on_displaced` is called) or if the store has lost it (then
        `on_put_back` is called). Everything else in the file stays as it is."""
        check_path(path)
        members, failed = self._from_store(sections)
        displaced = make_parents(self.store, self.project, path, on_displaced)
        if members:
            with _locked(os.path.dirname(f"{self.project}/{path}"), f"{self.store.root}/tmp", path):
                displaced += self._merge(path, sections, members, is_ours, on_displaced, on_put_back)
        return Merged(displaced, failed)

    def _from_store(self, sections: Mapping[str, str]) -> tuple[dict[str, Member], dict[str, WhyrunError]]:
        members: dict[str, Member] = {}
        failed: dict[str, WhyrunError] = {}
        for key, sha in sections.items():
            try:
                members[key] = section_member(key, self.store.read(sha))
            except WhyrunError as damaged:
                failed[key] = damaged
        return members, failed

    def _merge(
        self,
        path: str,
        sections: Mapping[str, str],
        members: Mapping[str, Member],
        is_ours: IsOurs,
        on_displaced: OnDisplaced,
        on_put_back: OnDisplaced,
    ) -> tuple[Displaced, ...]:
        target = f"{self.project}/{path}"
        displaced: dict[Displaced, None] = {}
        for _ in range(_TRIES):
            before = look(target)
            content = self._content(path, target, before)
            changed = False
            for key, member in members.items():
                existing = content.get(key)
                if existing == member:
                    continue
                sha256 = section_sha256(existing.text) if existing is not None else None
                if sha256 == sections[key]:
                    continue  # the same content, in the user's own spelling
                if existing is not None and sha256 is not None and not is_ours(key, sha256):
                    saved = self.store.put_bytes(f"{existing.text}\n".encode(errors="surrogatepass"))
                    if (one := Displaced(site_of(path, key), saved)) not in displaced:
                        displaced[one] = None
                        on_displaced(one)
                elif existing is not None and sha256 is not None and not self.store.has(sha256):
                    on_put_back(Displaced(site_of(path, key), self.store.put_bytes(section_bytes(existing.text))))
                content[key] = member
                changed = True
            if not changed or self._replace(path, target, before, content):
                return tuple(displaced)
        raise error(
            "SECTION_FILE_INVALID",
            f"`{path}` keeps changing while sections are being put into it",
            hint="stop the program that writes it, then run again",
        )

    def _content(self, path: str, target: str, before: os.stat_result | None) -> dict[str, Member]:
        """The members of the file, in a new dictionary."""
        if before is None:
            return {}
        last = self._last_writes.get(path)
        if last is not None and same(last.status, before):
            return last.members.copy()
        if not stat.S_ISREG(before.st_mode):
            what = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}.get(stat.S_IFMT(before.st_mode), "not a file")
            raise _invalid(path, f"it is {what}")
        with open(target, "rb") as file:
            data = file.read()
        try:
            return read_members(data.decode())
        except UnicodeDecodeError:
            raise _invalid(path, "it is not UTF-8") from None
        except NotSections as why:
            raise _invalid(path, str(why)) from None

    def _replace(self, path: str, target: str, before: os.stat_result | None, content: dict[str, Member]) -> bool:
        """False: a program without the lock, such as an editor, has changed the file meanwhile."""
        data = written_members(content.values()).encode(errors="surrogatepass")
        mode = stat.S_IMODE(before.st_mode) if before is not None else None
        try:
            made = _put(self.store.temp_path(), target, data, before, mode)
        except OSError as failed:
            if failed.errno != errno.EXDEV:
                raise
            # The store is on another file system.
            made = _put(f"{os.path.dirname(target)}/.whyrun-{temp_name()}", target, data, before, mode)
        if made is None:
            return False
        after = look(target)
        self._last_writes.pop(path, None)
        if after is not None and (after.st_ino, after.st_mtime_ns) == (made.st_ino, made.st_mtime_ns):
            self._last_writes[path] = _LastWrite(after, content)
        # A shared file may have members that no store has, so it must survive a power cut.
        disk.sync_folder(Area.SECTION, os.path.dirname(target))
        return True


def _put(temp: str, target: str, data: bytes, before: os.stat_result | None, mode: int | None) -> os.stat_result | None:
    """Write a temporary file and rename it to `target`; returns its status before the rename. None: the target has
    changed since `before`, and nothing was done. (A kill leaves temporary files only in the store.)"""
    descriptor = disk.open(Area.SECTION, temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            if mode is not None:
                os.fchmod(descriptor, mode)
            disk.write(Area.SECTION, descriptor, data)
            # Set the time to the nanosecond, finer than the kernel's tick, so that any later write changes it.
            now = time.time_ns()
            os.utime(descriptor, ns=(now, now))
            disk.sync(Area.SECTION, descriptor)
            made = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if same(before, look(target)):
            disk.rename(Area.SECTION, temp, target)
            return made
    except BaseException as failed:
        clear_up(failed, lambda: discard(Area.SECTION, temp))
        raise
    discard(Area.SECTION, temp)
    return None


@contextmanager
def _locked(folder: str, instead: str, path: str) -> Iterator[None]:
    """Hold the lock on a folder. `instead`: our own folder, if the file system has no locks on folders."""
    for lockable in (folder, instead):
        disk.make_folders(Area.SECTION, lockable)
        descriptor = os.open(lockable, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _acquire(descriptor, path):
                yield
                return
        finally:
            os.close(descriptor)
    raise _invalid(path, "its file system has no locks")


def _acquire(descriptor: int, path: str) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise _invalid(path, f"another process has held its lock for {_PATIENCE:.0f} s") from None
        except OSError as failed:
            if failed.errno not in _NO_LOCKS_ON_FOLDERS:
                raise
            return False
        time.sleep(_PAUSE)


def _invalid(path: str, why: str) -> WhyrunError:
    return error(
        "SECTION_FILE_INVALID",
        f"`{path}` cannot take a section: {why}",
        hint="Whyrun did not change it; make it a JSON object or move it away, then run again",
    )
