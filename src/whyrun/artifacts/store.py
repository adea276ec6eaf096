"""The store: artifact bytes by content hash in `store/ab/cdef…`, read-only, written atomically.

A blob is complete or does not exist: it is written to `store/tmp/` and renamed. Published files are independent copies
(reflinks if the file system has them), never links, so that no edit of a user changes a blob.
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
from whyrun.artifacts.durable import clear_up, remove_if_damaged, replacing_blob, temp_name
from whyrun.artifacts.hashing import (
    Tree,
    TreeFile,
    UnfitFolder,
    bytes_sha256,
    decode_tree,
    descriptor_sha256,
    encode_tree,
    file_sha256,
    is_program,
    walk_tree,
)
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error

_NO_CLONE = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.EBADF}
_HOLE = bytes(1 << 16)  # the size of holes that a copy keeps
_CHUNK = 1 << 20


class Store:
    """One store folder. Several processes may use it at once: equal content has equal names."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._prefix = f"{os.fspath(root)}/"
        self._tmp = f"{self._prefix}tmp/"
        # Blobs that this process has written or checked. After a power cut, a blob that no synced event refers to may
        # have wrong bytes. So an existing blob is checked once before it is used.
        self._sound: set[str] = set()
        self._can_clone = True

    def path(self, sha: str) -> str:
        return f"{self._prefix}{sha[:2]}/{sha[2:]}"

    def has(self, sha: str, size: int | None = None) -> bool:
        """Whether the blob exists (and has this size). `read`, `export` and `check` check its bytes."""
        try:
            stored_size = os.stat(self.path(sha)).st_size
        except (FileNotFoundError, NotADirectoryError):
            return False
        return size is None or size == stored_size

    def has_tree(self, sha: str) -> bool:
        """Whether a folder can be restored: its manifest is undamaged, and every file of it exists."""
        if not self.has(sha):
            return False
        try:
            files = self.read_tree(sha).files
        except WhyrunError as damaged:
            if damaged.diagnostics[0].code != "STORE_DAMAGED":
                raise
            return False  # a damaged manifest is useless
        return all(self.has(file.sha256, file.size) for file in files)

    def open_path(self, sha: str) -> str:
        """The path of a blob; STORE_DAMAGED if it does not exist."""
        if not self.has(sha):
            raise self._damaged(sha, "is missing")
        return self.path(sha)

    def check(self, sha: str) -> None:
        """STORE_DAMAGED unless the blob exists and its bytes match its hash."""
        if sha in self._sound and self.has(sha):
            return
        try:
            actual = file_sha256(self.path(sha))
        except (FileNotFoundError, NotADirectoryError):
            raise self._damaged(sha, "is missing") from None
        if actual != sha:
            raise self._damaged(sha, f"has other bytes (sha256 {actual})")
        self._sound.add(sha)

    def read(self, sha: str) -> bytes:
        """The bytes of a blob; STORE_DAMAGED unless they match its hash."""
        try:
            with open(self.path(sha), "rb") as file:
                data = file.read()
        except (FileNotFoundError, NotADirectoryError):
            raise self._damaged(sha, "is missing") from None
        actual = bytes_sha256(data)
        if actual != sha:
            raise self._damaged(sha, f"has other bytes (sha256 {actual})")
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
        """Store a copy of a file, or with `move` the file itself (on the same file system). Returns (hash, size).

        The hash is that of the stored bytes. A given `sha` is trusted with `move`, because the caller has just hashed
        its own file; otherwise it is checked: STORE_DAMAGED if it differs.
        """
        if move:
            return self._move_in(os.fspath(path), sha)
        if sha is not None and self._is_sound(sha) and file_sha256(path) == sha:
            return sha, os.stat(self.path(sha)).st_size
        temp, descriptor = self._new_temp()
        try:
            try:
                stored_sha = self._copy_into(path, descriptor)
                size = os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
            if sha is not None and stored_sha != sha:
                raise error(
                    "STORE_DAMAGED",
                    f"`{os.fspath(path)}` has sha256 {stored_sha}, where {sha} was expected",
                    hint="the file changed while it was being stored; run again",
                )
            if self._is_sound(stored_sha):
                _remove(temp)
            else:
                self._keep(temp, stored_sha)
        except BaseException as failed:
            clear_up(failed, lambda: _remove(temp))
            raise
        return stored_sha, size

    def put_tree(self, folder: str | os.PathLike[str], move: bool = False) -> tuple[str, int]:
        """Store the files of a folder, then its manifest. Returns (hash of the manifest, size of the files)."""
        files, empty = walk_tree(folder)
        entries: list[TreeFile] = []
        # Linked files have another name, so they are copied, before the file with that name is moved.
        for file in sorted(files, key=lambda f: not f.linked):
            executable = bool(os.stat(file.location).st_mode & stat.S_IXUSR)
            sha, size = self.put_file(file.location, move=move and not file.linked)
            entries.append(TreeFile(file.path, sha, size, executable))
        return self.put_bytes(encode_tree(entries, empty)), sum(entry.size for entry in entries)

    def drop_damaged(self, sha: str, type: str) -> None:
        """Remove a blob (of a folder also its files) whose bytes do not match its hash. If it is missing, the next plan
        takes the published file or runs the job again."""
        names = [sha]
        if type == "directory" and self.has(sha):
            with suppress(WhyrunError):  # the manifest itself is damaged
                names += [file.sha256 for file in self.read_tree(sha).files]
        for name in names:
            self._sound.discard(name)
            with suppress(FileNotFoundError, NotADirectoryError):
                remove_if_damaged(self.path(name), name)

    def restore_from(self, path: str | os.PathLike[str], sha: str) -> bool:
        """Put a lost blob (or folder) back from a file with the same content. False: the content differs."""
        try:
            if os.path.isdir(path):
                return self.put_tree(path)[0] == sha
            if not os.path.isfile(path):  # reading a pipe without a writer would block forever
                return False
            self.put_file(path, sha)
        except (FileNotFoundError, NotADirectoryError, PermissionError, UnfitFolder):
            return False
        except WhyrunError as refused:
            if refused.diagnostics[0].code != "STORE_DAMAGED":
                raise
            return False
        return True

    # --- exporting ----------------------------------------------------------------------------------------------

    def export(self, sha: str, dest: str | os.PathLike[str], type: str = "file") -> None:
        """Write an independent, writable copy to `dest`, which must not exist. STORE_DAMAGED if the bytes are wrong."""
        if type == "directory":
            self._export_tree(sha, os.fspath(dest))
        else:
            self._export_file(sha, os.fspath(dest))

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
            self._export_file(file.sha256, os.path.join(dest, file.path), file.executable)

    def _export_file(self, sha: str, dest: str, executable: bool | None = None) -> None:
        """`executable`: as the manifest of a folder records it; None: as the content says."""
        try:
            source = os.open(self.path(sha), os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise self._damaged(sha, "is missing") from None
        try:
            if executable is None:
                executable = is_program(os.pread(source, 4, 0))
            # The umask applies, as for any file of the user.
            mode = 0o777 if executable else 0o666
            target = disk.open(Area.STORE, dest, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
            try:
                actual = self._copy_descriptor(source, target)
            finally:
                os.close(target)
        finally:
            os.close(source)
        if actual != sha:
            _remove(dest)
            raise self._damaged(sha, f"has other bytes (sha256 {actual})")

    # --- inside --------------------------------------------------------------------------------------------------

    def temp_path(self) -> str:
        """A new path in `store/tmp/`, for a file that will be renamed."""
        if not os.path.isdir(self._tmp):
            disk.make_folders(Area.STORE, self._tmp)
        return f"{self._tmp}{temp_name()}"

    def remove_leftovers(self, older_than: float) -> int:
        """Remove files that killed processes left in `store/tmp/` before this time (seconds since the epoch)."""
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
        """Whether the blob exists with the right bytes; checked once per process."""
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
        """Rename it to its name, unless another process has stored the same bytes meanwhile: a step that is reading
        those would take a replaced blob for a damaged one."""
        target = self.path(sha)
        if os.path.lexists(target):
            with replacing_blob(os.fspath(self.root)):
                if self._is_right(sha):
                    _remove(temp)
                else:
                    _rename(temp, target)
        else:
            _rename(temp, target)
        self._sound.add(sha)

    def _is_right(self, sha: str) -> bool:
        try:
            return file_sha256(self.path(sha)) == sha
        except FileNotFoundError:
            return False  # removed just now

    def _move_in(self, path: str, sha: str | None) -> tuple[str, int]:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            # A symlink or hard link: after a move, the blob could be changed through its other name.
            stored = self.put_file(path, sha)
            disk.unlink(Area.STORE, path)
            return stored
        if sha is None:
            sha = file_sha256(path)
        if self._is_sound(sha):
            disk.unlink(Area.STORE, path)
            return sha, status.st_size
        # Whoever may read the store may read its blobs, whatever mode the step gave the file.
        if not os.path.isdir(self.root):
            disk.make_folders(Area.STORE, self.root)
        os.chmod(path, stat.S_IMODE(os.stat(self.root).st_mode) & 0o444)
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
        """Copy everything, and return the hash of the written bytes."""
        if self._can_clone:
            try:
                disk.clone(Area.STORE, target, source)
                return descriptor_sha256(target)
            except OSError as refused:
                if refused.errno not in _NO_CLONE:
                    raise
                # Remembered if the file system cannot clone: a failed attempt costs as much as a small copy.
                self._can_clone = refused.errno == errno.EXDEV
        status = os.fstat(source)
        if status.st_blocks * 512 < status.st_size:
            return _copy_with_holes(source, target)
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


def _copy_with_holes(source: int, target: int) -> str:
    """Copy a sparse file: its holes take no space in the copy either. Returns the hash."""
    hasher = hashlib.sha256()
    skipped = False
    while chunk := os.read(source, len(_HOLE)):
        hasher.update(chunk)
        skipped = chunk == _HOLE[: len(chunk)]
        if skipped:
            os.lseek(target, len(chunk), os.SEEK_CUR)
        else:
            disk.write(Area.STORE, target, chunk)
    if skipped:  # the file has to end where the original does
        os.lseek(target, -1, os.SEEK_CUR)
        disk.write(Area.STORE, target, b"\0")
    return hasher.hexdigest()


def _rename(temp: str, target: str) -> None:
    try:
        disk.rename(Area.STORE, temp, target)
    except FileNotFoundError:
        disk.make_folders(Area.STORE, os.path.dirname(target))
        disk.rename(Area.STORE, temp, target)


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):  # renamed already
        disk.unlink(Area.STORE, path)
