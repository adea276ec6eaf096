"""Which folders something was put into since the last question: asked of the kernel, so that a step which touched none
of them costs one system call, and not a listing of each.

The kernel notes every entry that any process makes, by whatever way (`inotify`). Where it cannot, or does not in a
trial, the answer is always "all of them", and whoever asks looks for himself.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence

_CREATE, _MOVED_TO = 0x100, 0x80
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_ONLY_REAL_FOLDERS = 0x01000000 | 0x02000000  # IN_ONLYDIR, IN_DONT_FOLLOW
_WATCHED = _CREATE | _MOVED_TO | _DELETE_SELF | _MOVE_SELF | _ONLY_REAL_FOLDERS
_EVENT = struct.Struct("iIII")  # which watch, what, cookie, length of the name that follows
_READ = 1 << 16


class FolderWatch:
    def __init__(self, folders: Sequence[str]) -> None:
        """The folders must exist. What is in them already counts as put into them."""
        self._folders = tuple(folders)
        self._descriptor: int | None = None
        self._by_watch: dict[int, str] = {}
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
        except OSError:  # a step closed it
            self._descriptor = None
            return self._folders
        found: set[str] = set()
        position = 0
        while position < len(data):
            watch, what, _, length = _EVENT.unpack_from(data, position)
            position += _EVENT.size + length
            folder = self._by_watch.get(watch)
            if folder is None or not what & (_CREATE | _MOVED_TO):
                return self._folders  # one is gone, or more happened than the kernel keeps
            found.add(folder)
        return self._folders if len(data) > _READ // 2 else tuple(found)

    def renew(self) -> None:
        """Watch what stands at the paths now. To be called before looking at what is in them, so that nothing is made
        in between unnoticed."""
        self._give_up()
        libc = ctypes.CDLL(None)
        try:
            descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            watches = [libc.inotify_add_watch(descriptor, os.fsencode(each), _WATCHED) for each in self._folders]
        except AttributeError:  # not a system that has it
            return
        if descriptor < 0:
            return
        self._descriptor = descriptor
        self._by_watch = dict(zip(watches, self._folders, strict=True))
        if min(watches) < 0 or len(self._by_watch) < len(self._folders):
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
