"""Which folders something was put into since the last question: asked of the kernel, so that a step which touched none
of them costs one system call, and not a listing of each.

The kernel notes every entry that any process makes, by whatever way (`inotify`). Where it cannot, does not in a trial,
or may not know of all (another machine writes to a network file system too), the answer is always "all of them", and
whoever asks looks for himself.

The folder above is watched as well: where one of them is removed while something holds it open, that is told of at
once there, and by the folder itself only when it is let go.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence

from whyrun.artifacts.file_systems import is_local

_CREATE, _MOVED_TO = 0x100, 0x80
_DELETE, _MOVED_FROM = 0x200, 0x40
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_ONLY_REAL_FOLDERS = 0x01000000 | 0x02000000  # IN_ONLYDIR, IN_DONT_FOLLOW
_WATCHED = _CREATE | _MOVED_TO | _DELETE_SELF | _MOVE_SELF | _ONLY_REAL_FOLDERS
_WATCHED_ABOVE = _WATCHED | _DELETE | _MOVED_FROM
_ENTRY = _CREATE | _MOVED_TO | _DELETE | _MOVED_FROM
_EVENT = struct.Struct("iIII")  # which watch, what, cookie, length of the name that follows
_READ = 1 << 16


class FolderWatch:
    def __init__(self, folders: Sequence[str]) -> None:
        """The folders must exist. What is in them already counts as put into them."""
        self._folders = tuple(folders)
        self._descriptor: int | None = None
        self._by_watch: dict[int, str] = {}
        self._above = {os.path.dirname(folder) for folder in folders}
        self._names = {os.fsencode(os.path.basename(folder)) for folder in folders}
        self.renew()
        if self._descriptor is not None and not self._notices():
            self._give_up()

    @property
    def works(self) -> bool:
        return self._descriptor is not None

    def touched(self) -> Sequence[str]:
        """The folders that got an entry, or are no longer the ones that were watched; then `renew` is due."""
        if self._descriptor is None:
            return self._folders
        try:
            data = os.read(self._descriptor, _READ)
        except BlockingIOError:
            return ()
        except OSError:
            data = b""
        if len(data) < _EVENT.size:  # a step closed it, and it may be another file now
            self._descriptor = None
            return self._folders
        found: set[str] = set()
        position = 0
        while position + _EVENT.size <= len(data):
            watch, what, _, length = _EVENT.unpack_from(data, position)
            name_at = position + _EVENT.size
            position = name_at + length
            folder = self._by_watch.get(watch)
            if folder is None or not what & _ENTRY:
                return self._folders  # one is gone, or more happened than the kernel keeps
            if folder not in self._above:
                found.add(folder)
            elif data[name_at:position].rstrip(b"\0") in self._names:
                return self._folders  # one of them is another now
        return self._folders if len(data) > _READ // 2 else tuple(found)

    def renew(self) -> None:
        """Watch what stands at the paths now. To be called before looking at what is in them, so that nothing is made
        in between unnoticed."""
        self._give_up()
        if not all(map(is_local, self._folders)):
            return
        libc = ctypes.CDLL(None)
        masks = {**dict.fromkeys(self._above, _WATCHED_ABOVE), **dict.fromkeys(self._folders, _WATCHED)}
        try:
            descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            watches = [libc.inotify_add_watch(descriptor, os.fsencode(each), mask) for each, mask in masks.items()]
        except AttributeError:  # not a system that has it
            return
        if descriptor < 0:
            return
        self._descriptor = descriptor
        self._by_watch = dict(zip(watches, masks, strict=True))
        if min(watches) < 0 or len(self._by_watch) < len(masks):
            self._give_up()

    def _notices(self) -> bool:
        trial = f"{self._folders[0]}/.{os.urandom(8).hex()}"
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.unlink(trial)
        return self._folders[0] in self.touched()

    def _give_up(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
