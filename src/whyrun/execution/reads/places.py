"""Which of the paths that a step named count: those of the project, except state, byte code and virtual environments.

A path outside of the project is told to the user, who may have meant it as data. Programs, libraries and settings of
the machine are not.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Iterable

from whyrun.execution.reads.glimpses import Glimpses, Sighted
from whyrun.lazy_regex import lazy_regex
from whyrun.log.reads import BYTE_CODE, MOST_OUTSIDE, UNCOUNTED_FOLDERS, is_recordable

_OF_THE_MACHINE = (
    "/bin/", "/boot/", "/dev/", "/etc/", "/gnu/", "/lib", "/nix/", "/opt/", "/proc/", "/run/", "/sbin/", "/snap/",
    "/sys/", "/usr/", "/var/",
)  # fmt: skip
# Code and settings, wherever they are installed; also in folders such as `~/.cache`, `~/.pyenv`.
_NO_DATA = lazy_regex(r"/\.|/(?:site|dist)-packages/|/lib/python3|/share/|\.(?:py|pyc|pyi|pth|zip|so|so\.[0-9.]+)$")
_UNTIDY = lazy_regex(r"//|/\.{1,2}(?:/|$)")

_ENVIRONMENT = "pyvenv.cfg"  # Python looks for it, and so does this module


class Places:
    def __init__(self, project: str, scratch: str, own: Iterable[str]) -> None:
        """`own`: folders of Whyrun, in which nothing counts."""
        self._root = project.rstrip("/")
        self._real = os.path.realpath(self._root)
        self._scratch = f"{scratch.rstrip('/')}/"
        self._work = f"{self._scratch}work"
        self._in_project_folder = False
        self._copies: tuple[str, ...] = ()  # the working folder, where that is a copy of the project
        temporary = (self._scratch, f"{os.environ.get('TMPDIR') or '/tmp'}/pymp-")
        self.own = (*temporary, *(f"{folder.rstrip('/')}/" for folder in own))
        self._installed = tuple(f"{prefix}/" for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix})
        self._environments: dict[str, bool] = {}  # folder → is it a virtual environment, or in one

    def work_in(self, folder: str, *, copy: bool) -> None:
        """The working folder of the present step. `copy`: of the project, so its paths stand for those of the
        project."""
        self._work = folder
        self._in_project_folder = not folder.startswith(self._scratch)
        self._copies = (f"{folder}/", f"{os.path.realpath(folder)}/") if copy else ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """What does not count below these folders need not travel from the process of a step."""
        return () if self._copies else self.own

    def undeclared(self, sighted: Iterable[Sighted], began: int) -> list[str]:
        """Of what a step wrote, the files that are still there: outputs have been collected. Only for steps that run in
        the project folder."""
        return self.written_by(sighted, began)[:MOST_OUTSIDE] if self._in_project_folder else []

    def written_by(self, sighted: Iterable[Sighted], began: int) -> list[str]:
        """The files of the project that it wrote since it began and that are there."""
        found = set[str]()
        for seen in sighted:
            found |= {path for path in seen.written if os.path.isfile(f"{self._root}/{path}")}
            found |= {path for path in seen.updated if has_changed(f"{self._root}/{path}", began)}
        return sorted(found)

    def sighted(self, glimpses: Glimpses) -> Sighted:
        written = glimpses.written
        opened = {path for path in glimpses.opened if path not in written}
        inside, outside = self._sorted(opened, glimpses.links)
        imported = sorted(glimpses.imported)
        tells = self._in_project_folder and written
        if not (inside or outside or glimpses.listed or glimpses.updated or tells):
            return Sighted(imported=imported)
        missing = (
            path
            for path in (opened | glimpses.listed | glimpses.updated) - glimpses.there
            if not path.endswith(BYTE_CODE)
        )
        own, _ = self._sorted((path for path in written if not path.endswith(BYTE_CODE)), glimpses.links)
        own |= self._links_in_project(glimpses.links)
        return Sighted(
            sorted(inside - own),
            sorted(self._sorted(glimpses.listed, glimpses.links)[0]),
            sorted(self._sorted(missing, glimpses.links)[0]),
            sorted(own),
            sorted(self._sorted(glimpses.updated, glimpses.links)[0] - own),
            sorted(self._sorted(glimpses.texts, glimpses.links)[0]),
            sorted(path for path in outside if path not in written and _is_data(path))[:MOST_OUTSIDE],
            imported,
        )

    def _sorted(self, paths: Iterable[str], links: Collection[str]) -> tuple[set[str], set[str]]:
        """Those in the project that count, and those that are outside."""
        inside, outside = set[str](), set[str]()
        for path in paths:
            if path[:1] != "/":
                path = f"{self._work}/{path}"
            if not links and ".." not in path and path.startswith(self.own) and not self._copies:
                continue  # by far the most paths of a step that reads many
            if _UNTIDY.search(path):
                path = os.path.normpath(path)
            path = self._original(path)
            at = self._in_project(path)
            if at is None:
                outside.add(path)
            elif at and self._counts(at):
                inside.add(at)
            elif (source := _source_of(at)) is not None and self._counts(source):
                inside.add(source)
        return inside, outside

    def _original(self, path: str) -> str:
        """The path in the project that one in a copy stands for."""
        for copy in self._copies:
            if path.startswith(copy) or path == copy[:-1]:
                return f"{self._root}/{path[len(copy) :]}".rstrip("/")
        return path

    def _links_in_project(self, links: Iterable[str]) -> set[str]:
        """Not what they lead to."""
        start = f"{self._root}/"
        paths = (self._original(os.path.normpath(os.path.join(self._work, link))) for link in links)
        return {path[len(start) :] for path in paths if path.startswith(start) and not path.startswith(self.own)}

    def _in_project(self, path: str) -> str | None:
        """The path relative to the project; empty if it does not count; None if it is outside."""
        for resolved in (False, True):
            if resolved:
                path = os.path.realpath(path)
            if path.startswith(self.own):
                if not resolved:
                    continue  # a link in the scratch folder may lead into the project
                return ""
            for root in (self._root, self._real):
                if path.startswith(root) and path[len(root) : len(root) + 1] in ("/", ""):
                    return path[len(root) + 1 :].rstrip("/") or "."
            if path.startswith((*_OF_THE_MACHINE, *self._installed)):
                return ""
        return None

    def _counts(self, at: str) -> bool:
        if (
            at.endswith((*BYTE_CODE, _ENVIRONMENT))
            or not UNCOUNTED_FOLDERS.isdisjoint(at.split("/"))
            or not is_recordable(at)
        ):
            return False
        return not self._is_in_environment(os.path.dirname(at))

    def _is_in_environment(self, folder: str) -> bool:
        if not folder:
            return False
        known = self._environments.get(folder)
        if known is None:
            known = os.path.exists(f"{self._root}/{folder}/{_ENVIRONMENT}") or self._is_in_environment(
                os.path.dirname(folder)
            )
            self._environments[folder] = known
        return known


def _source_of(at: str) -> str | None:
    """Python reads `__pycache__/tool.cpython-311.pyc` in place of `tool.py`, if that has not changed since."""
    folder, cache, name = at.rpartition("__pycache__/")
    return f"{folder}{name.partition('.')[0]}.py" if cache and name.endswith(BYTE_CODE) else None


def has_changed(location: str, since: int) -> bool:
    """Whether a file is there that has changed."""
    try:
        status = os.stat(location)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_ctime_ns >= since


def _is_data(path: str) -> bool:
    return (
        is_recordable(path)
        and not _NO_DATA.search(path)
        and not path.endswith(f"/{_ENVIRONMENT}")
        and os.path.isfile(path)
    )
