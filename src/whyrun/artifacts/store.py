"""Artifact bytes by content hash: `store/ab/cdef…`, read-only, written atomically.

A blob is either whole or not there: it is written under `store/tmp/` and renamed to its name. What stands in the
store is never linked to from where users work; they get independent copies (reflinks where the file system can), so
that no edit of theirs reaches a blob.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path

from whyrun import disk
from whyrun.artifacts.blob_names import putting, remove_if_damaged
from whyrun.artifacts.durable import clear_up, temp_name
from whyrun.artifacts.hashing import (
    Tree,
    TreeFile,
    UnfitFolder,
    bytes_sha256,
    decode_tree,
    descriptor_sha256,
    encode_tree,
    file_sha256,
    walk_tree,
)
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error

_NO_CLONE = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.EBADF}
_CHUNK = 1 << 20


class Store:
    """One store folder. Safe to use from several processes at once: equal content meets under equal names."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._prefix = f"{os.fspath(root)}/"
        self._tmp = f"{self._prefix}tmp/"
        # Blobs whose bytes this process has written or checked. After a power cut a blob that no synced event speaks
        # of may be there with the wrong bytes; so what stands under a name is checked once before it is relied on.
        self._sound: set[str] = set()
        self._can_clone = True

    def path(self, sha: str) -> str:
        return f"{self._prefix}{sha[:2]}/{sha[2:]}"

    def has(self, sha: str, size: int | None = None) -> bool:
        """Whether the blob is there (and has this size). Its bytes are checked by `read`, `export` and `check`."""
        try:
            found = os.stat(self.path(sha)).st_size
        except (FileNotFoundError, NotADirectoryError):
            return False
        return size is None or size == found

    def has_tree(self, sha: str) -> bool:
        """Whether a folder can be put together again: its manifest, sound, and every file of it."""
        if not self.has(sha):
            return False
        try:
            files = self.read_tree(sha).files
        except WhyrunError as damaged:
            if damaged.diagnostics[0].code != "STORE_DAMAGED":
                raise
            return False  # as good as none
        return all(self.has(file.sha256, file.size) for file in files)

    def open_path(self, sha: str) -> str:
        """The path of a blob that is there."""
        if not self.has(sha):
            raise self._damaged(sha, "is not there")
        return self.path(sha)

    def check(self, sha: str) -> None:
        """Raise STORE_DAMAGED unless the blob is there with the bytes its name says."""
        if sha in self._sound and self.has(sha):
            return
        try:
            found = file_sha256(self.path(sha))
        except (FileNotFoundError, NotADirectoryError):
            raise self._damaged(sha, "is not there") from None
        if found != sha:
            raise self._damaged(sha, f"has other bytes (sha256 {found})")
        self._sound.add(sha)

    def read(self, sha: str) -> bytes:
        """The bytes of a blob, checked."""
        try:
            with open(self.path(sha), "rb") as file:
                data = file.read()
        except (FileNotFoundError, NotADirectoryError):
            raise self._damaged(sha, "is not there") from None
        found = bytes_sha256(data)
        if found != sha:
            raise self._damaged(sha, f"has other bytes (sha256 {found})")
        return data

    def read_tree(self, sha: str) -> Tree:
        try:
            return decode_tree(self.read(sha))
        except ValueError as wrong:
            raise self._damaged(sha, f"is not the manifest of a folder ({wrong})") from None

    # --- putting -------------------------------------------------------------------------------------------------

    def put_bytes(self, data: bytes) -> str:
        sha = bytes_sha256(data)
        if not self._is_sound(sha):
            temp, descriptor = self._new_temp()
            try:
                try:
                    disk.write(Area.STORE, descriptor, data)
                finally:
                    os.close(descriptor)
                self._keep(temp, sha)
            except BaseException as failed:
                clear_up(failed, partial(_remove, temp))
                raise
        return sha

    def put_file(self, path: str | os.PathLike[str], sha: str | None = None, move: bool = False) -> tuple[str, int]:
        """Take a file's content in; with `move` the file itself (same file system), which is then gone from `path`.

        The hash is that of the bytes stored, not of an earlier look at the file. A given `sha` is believed with
        `move` (the caller has just hashed its own file) and checked otherwise: STORE_DAMAGED if it differs.
        """
        if move:
            return self._move_in(os.fspath(path), sha)
        if sha is not None and self._is_sound(sha) and file_sha256(path) == sha:
            return sha, os.stat(self.path(sha)).st_size
        temp, descriptor = self._new_temp()
        try:
            try:
                found = self._copy_into(path, descriptor)
                size = os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
            if sha is not None and found != sha:
                raise error(
                    "STORE_DAMAGED",
                    f"`{os.fspath(path)}` has sha256 {found}, where {sha} was expected",
                    hint="the file changed while it was being stored; run again",
                )
            if self._is_sound(found):
                _remove(temp)
            else:
                self._keep(temp, found)
        except BaseException as failed:
            clear_up(failed, lambda: _remove(temp))
            raise
        return found, size

    def put_tree(self, folder: str | os.PathLike[str], move: bool = False) -> tuple[str, int]:
        """A folder: each file, then the manifest that names them. The hash is the manifest's."""
        found, empty = walk_tree(folder)
        entries: list[TreeFile] = []
        # Linked files share their bytes with another name, so they are copied, and before that name is moved away.
        for file in sorted(found, key=lambda f: not f.linked):
            executable = bool(os.stat(file.location).st_mode & stat.S_IXUSR)
            sha, size = self.put_file(file.location, move=move and not file.linked)
            entries.append(TreeFile(file.path, sha, size, executable))
        return self.put_bytes(encode_tree(entries, empty)), sum(entry.size for entry in entries)

    def drop_damaged(self, sha: str, type: str) -> None:
        """Remove what has other bytes than its name says. It is worse than none: without it the next plan takes them
        from elsewhere, or makes them again."""
        names = [sha]
        if type == "directory" and self.has(sha):
            with suppress(WhyrunError):  # its manifest is what is damaged
                names += [file.sha256 for file in self.read_tree(sha).files]
        for name in names:
            self._sound.discard(name)
            with suppress(FileNotFoundError, NotADirectoryError):
                remove_if_damaged(self.path(name), name)

    def restore_from(self, path: str | os.PathLike[str], sha: str) -> bool:
        """Put a lost blob (or folder) back from a file that should have its content. False: it has not."""
        try:
            if os.path.isdir(path):
                return self.put_tree(path)[0] == sha
            if not os.path.isfile(path):  # a pipe without a writer would be waited for, for ever
                return False
            self.put_file(path, sha)
        except (FileNotFoundError, NotADirectoryError, PermissionError, UnfitFolder):
            return False
        except WhyrunError as refused:
            if refused.diagnostics[0].code != "STORE_DAMAGED":
                raise
            return False
        return True

    # --- taking out ----------------------------------------------------------------------------------------------

    def export(self, sha: str, dest: str | os.PathLike[str], type: str = "file") -> None:
        """An independent copy at `dest`, which must not exist yet, writable by the user; bytes are checked."""
        if type == "directory":
            self._export_tree(sha, os.fspath(dest))
        else:
            self._export_file(sha, os.fspath(dest), 0o666)

    def _export_tree(self, sha: str, dest: str) -> None:
        tree = self.read_tree(sha)
        disk.mkdir(Area.STORE, dest)
        for folder in tree.empty_dirs:
            disk.make_folders(Area.STORE, os.path.join(dest, folder))
        made = {""}
        for file in tree.files:
            parent = os.path.dirname(file.path)
            if parent not in made:
                disk.make_folders(Area.STORE, os.path.join(dest, parent))
                made.add(parent)
            self._export_file(file.sha256, os.path.join(dest, file.path), 0o777 if file.executable else 0o666)

    def _export_file(self, sha: str, dest: str, mode: int) -> None:
        try:
            source = os.open(self.path(sha), os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise self._damaged(sha, "is not there") from None
        try:
            # The mode is subject to the user's umask, as for any file that they would make themselves.
            target = disk.open(Area.STORE, dest, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
            try:
                found = self._copy_descriptor(source, target)
            finally:
                os.close(target)
        finally:
            os.close(source)
        if found != sha:
            _remove(dest)
            raise self._damaged(sha, f"has other bytes (sha256 {found})")

    # --- inside --------------------------------------------------------------------------------------------------

    def temp_path(self) -> str:
        """A fresh path under `store/tmp/`, for what is to be renamed into place."""
        if not os.path.isdir(self._tmp):
            disk.make_folders(Area.STORE, self._tmp)
        return f"{self._tmp}{temp_name()}"

    def remove_leftovers(self, older_than: float) -> int:
        """Remove what killed processes left under `store/tmp/` before this time (seconds since the epoch)."""
        removed = 0
        try:
            with os.scandir(self._tmp) as entries:
                old = [e.path for e in entries if e.stat(follow_symlinks=False).st_mtime < older_than]
        except FileNotFoundError:
            return 0
        for path in old:
            if os.path.isdir(path) and not os.path.islink(path):
                disk.remove(Area.STORE, path)
            else:
                _remove(path)
            removed += 1
        return removed

    def _new_temp(self) -> tuple[str, int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        temp = f"{self._tmp}{temp_name()}"
        try:
            return temp, disk.open(Area.STORE, temp, flags, 0o444)
        except FileNotFoundError:
            disk.make_folders(Area.STORE, self._tmp)
            return temp, disk.open(Area.STORE, temp, flags, 0o444)

    def _is_sound(self, sha: str) -> bool:
        """Whether the blob is there and has been checked; a blob with wrong bytes is as good as none."""
        if not self.has(sha):
            self._sound.discard(sha)
            return False
        if sha in self._sound:
            return True
        if file_sha256(self.path(sha)) != sha:
            return False
        self._sound.add(sha)
        return True

    def _keep(self, temp: str, sha: str) -> None:
        """Give it its name, unless the same bytes, put by another meanwhile, have got it: a step may be reading those,
        and takes a blob that was replaced for one that was damaged."""
        target = self.path(sha)
        if os.path.lexists(target):
            with putting(os.fspath(self.root)):
                if self._stands(sha):
                    _remove(temp)
                else:
                    _rename(temp, target)
        else:
            _rename(temp, target)
        self._sound.add(sha)

    def _stands(self, sha: str) -> bool:
        try:
            return file_sha256(self.path(sha)) == sha
        except FileNotFoundError:
            return False  # removed this very moment

    def _move_in(self, path: str, sha: str | None) -> tuple[str, int]:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            # A link, or a file with a second name: moving it would leave a way to write into the blob.
            stored = self.put_file(path, sha)
            disk.unlink(Area.STORE, path)
            return stored
        if sha is None:
            sha = file_sha256(path)
        if self._is_sound(sha):
            disk.unlink(Area.STORE, path)
            return sha, status.st_size
        os.chmod(path, 0o444)
        try:
            self._keep(path, sha)
        except OSError as failed:
            if failed.errno != errno.EXDEV:
                raise
            stored = self.put_file(path, sha)
            disk.unlink(Area.STORE, path)
            return stored
        return sha, status.st_size

    def _copy_into(self, path: str | os.PathLike[str], target: int) -> str:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self._copy_descriptor(source, target)
        finally:
            os.close(source)

    def _copy_descriptor(self, source: int, target: int) -> str:
        """Copy all, and the hash of what was written."""
        if self._can_clone:
            try:
                disk.clone(Area.STORE, target, source)
                return descriptor_sha256(target)
            except OSError as refused:
                if refused.errno not in _NO_CLONE:
                    raise
                # Remembered where it is a matter of the file system, since the try costs as much as a small copy.
                self._can_clone = refused.errno == errno.EXDEV
        hasher = hashlib.sha256()
        while chunk := os.read(source, _CHUNK):
            hasher.update(chunk)
            disk.write(Area.STORE, target, chunk)
        return hasher.hexdigest()

    def _damaged(self, sha: str, what: str) -> WhyrunError:
        return error(
            "STORE_DAMAGED",
            f"the stored blob {sha} {what}",
            file=self.path(sha),
            hint="restore it from a copy. Without one, an artifact is taken from its published file or made again by "
            "its job (`whyrun plan` shows which); a snapshot of the past cannot be made again",
        )


def _rename(temp: str, target: str) -> None:
    try:
        disk.rename(Area.STORE, temp, target)
    except FileNotFoundError:
        disk.make_folders(Area.STORE, os.path.dirname(target))
        disk.rename(Area.STORE, temp, target)


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):  # renamed to its place already
        disk.unlink(Area.STORE, path)
