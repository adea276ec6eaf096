"""What a file locks: its packages with their exact versions, and a digest that changes with each of them.

Three kinds of files are read: requirements files, `uv.lock`, and `pyproject.toml`, which means the `uv.lock` beside it.
A requirements file must name every package with its exact version. Nothing is resolved here, so the same file makes the
same environment everywhere, and a plan needs no network.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from whyrun.artifacts.hashing import bytes_sha256, digest, file_sha256
from whyrun.errors import WhyrunError, error
from whyrun.lazy_regex import lazy_regex

UV_LOCK, PYPROJECT = "uv.lock", "pyproject.toml"

_COMMENT = lazy_regex(r"(^|\s)#.*$")
_INCLUDE = lazy_regex(r"(?:-r|--requirement)[\s=]\s*(\S+)|-r(\S+)")
_CONSTRAINTS = lazy_regex(r"-c\b|--constraint\b|-e\b|--editable\b")
_PINNED = lazy_regex(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*===?\s*([A-Za-z0-9][^\s*,;]*)(?=[\s;]|\Z)")
_AT_ADDRESS = lazy_regex(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*@\s*(\S+)")
_NAMED_WHEEL = lazy_regex(r"([A-Za-z0-9_.]+)-([A-Za-z0-9_.!+]+)(?:-[^-]+){3,4}\.whl")
_FIXED_ADDRESS = lazy_regex(r"\S+\.(?:whl|tar\.gz|zip)(?:#\S*)?|git\+\S+@[0-9a-f]{40}(?:#\S*)?")
_DEPTH = 10  # of requirements files that include each other
_SHOWN = 3  # packages that a message names


class Lock(msgspec.Struct, frozen=True):
    path: str  # the file that locks the packages, relative to the project
    sha256: str  # of all that counts
    files: Mapping[str, str]  # the files that it was read from, and their hashes; comments and order do not count
    packages: Mapping[str, str]  # by name: the version, or the address

    @property
    def is_uv(self) -> bool:
        return posixpath.basename(self.path) == UV_LOCK


def read_lock(project: Path, path: str) -> Lock:
    """Read the file that `environment: {python: …}` names. Raises an error that names each package without version."""
    if posixpath.basename(path) == PYPROJECT:
        _read_text(project, path)
        path = posixpath.join(posixpath.dirname(path), UV_LOCK)
        if not (project / path).is_file():
            hint = f"run `uv lock` in its folder, which writes `{path}`"
            raise error("ENVIRONMENT_INVALID", "`pyproject.toml` has no `uv.lock` beside it", hint=hint)
    if posixpath.basename(path) == UV_LOCK:
        return _uv_lock(project, path)
    return _Requirements(project).lock(path)


def _uv_lock(project: Path, path: str) -> Lock:
    text = _read_text(project, path)
    import tomllib  # imported late: most projects lock nothing

    try:
        listed = tomllib.loads(text).get("package", [])
        packages = {str(one["name"]): str(one["version"]) for one in listed if "version" in one}
        folders = [
            (str(one["name"]), folder) for one in listed if (folder := _folder_of(one.get("source", {}))) is not None
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as wrong:
        raise error("ENVIRONMENT_INVALID", f"`{path}` is not a lock of uv: {wrong}", hint="run `uv lock`") from None
    if not (project / posixpath.dirname(path) / PYPROJECT).is_file():
        hint = "keep the project's `pyproject.toml` beside it: uv reads both"
        raise error("ENVIRONMENT_INVALID", f"`{path}` has no `pyproject.toml` beside it", hint=hint)
    if folders:
        # The lock has no hash of a folder, so a change of its code would run nothing.
        what = f"`{path}` installs " + ", ".join(f"`{name}` from the folder `{folder}`" for name, folder in folders)
        hint = "lock a wheel of it (`uv build`), or declare its modules under `code:` of the jobs that import them"
        raise error("ENVIRONMENT_INVALID", what, hint=hint)
    sha256 = bytes_sha256(text.encode())
    return Lock(path, digest("environment/v1", "uv.lock", sha256), {path: sha256}, packages)


def _folder_of(source: Mapping[str, str]) -> str | None:
    """The folder that a package of `uv.lock` is installed from; not that of the project itself, which is not."""
    folder = source.get("directory", source.get("editable"))
    return None if folder == "." else folder


class _Requirements:
    """Reads a requirements file and those that it includes."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._files: dict[str, str] = {}
        self._packages: dict[str, str] = {}
        self._lines: list[str] = []
        self._unpinned: list[str] = []

    def lock(self, path: str) -> Lock:
        self._read(path, 0)
        if self._unpinned:
            raise _unpinned(path, self._unpinned)
        sha256 = digest("environment/v1", "requirements", *sorted(self._lines))
        return Lock(path, sha256, self._files, dict(sorted(self._packages.items())))

    def _read(self, path: str, depth: int) -> None:
        if path in self._files or depth > _DEPTH:
            return
        counted: list[str] = []
        self._files[path] = ""
        for number, line in _logical_lines(_read_text(self._project, path)):
            included = _INCLUDE.match(line)
            if included is not None:
                inner = posixpath.normpath(posixpath.join(posixpath.dirname(path), included[1] or included[2]))
                if inner.startswith(("/", "../")) or inner == "..":
                    what = f"`{path}` includes `{inner}`, which is outside the project"
                    raise error("PATH_OUTSIDE", what, hint="keep all requirements files in the project folder")
                self._read(inner, depth + 1)
            else:
                counted += self._counted(path, number, line)
        self._lines += counted
        self._files[path] = digest("requirements/v1", *sorted(counted))

    def _counted(self, path: str, number: int, line: str) -> Iterator[str]:
        """What counts of a line: the line itself, and the content of a wheel in the project."""
        yield line
        if line.startswith("-") and not _CONSTRAINTS.match(line):
            return  # an option for uv, such as `--no-index`
        pinned, at_address, wheel = _PINNED.match(line), _AT_ADDRESS.match(line), line.partition(" ")[0]
        if pinned is not None:
            self._packages[_normal(pinned[1])] = pinned[2]
        elif at_address is not None and _FIXED_ADDRESS.fullmatch(at_address[2]):
            self._packages[_normal(at_address[1])] = at_address[2]
        elif wheel.endswith(".whl") and "://" not in wheel:
            yield self._wheel(path, wheel)
        else:
            self._unpinned.append(f"`{line}` ({path}:{number})")

    def _wheel(self, path: str, wheel: str) -> str:
        location = self._project / posixpath.dirname(path) / wheel
        named = _NAMED_WHEEL.fullmatch(location.name)
        if not location.is_file() or named is None:
            hint = "write the path of a wheel, relative to this file"
            raise error("ENVIRONMENT_INVALID", f"`{path}` names `{wheel}`, which is not a wheel", hint=hint)
        self._packages[_normal(named[1])] = named[2]
        return file_sha256(location)


def _unpinned(path: str, lines: list[str]) -> WhyrunError:
    shown = ", ".join(lines[:_SHOWN]) + (f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else "")
    compiled = f"uv pip compile requirements.in -o {path}"
    return error(
        "ENVIRONMENT_INVALID",
        f"`{path}` does not say the exact version (`name==1.2.3`) of {shown}",
        hint=f"move these lines to `requirements.in`, and write all exact versions with `{compiled}`",
    )


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, joined where they end with a backslash, each with the number of its first."""
    parts: list[str] = []
    first = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw).strip()
        first = first if parts else number
        parts.append(line.removesuffix("\\").strip())
        if not line.endswith("\\"):
            if joined := " ".join(filter(None, parts)):
                yield first, joined
            parts = []
    if joined := " ".join(filter(None, parts)):
        yield first, joined


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _read_text(project: Path, path: str) -> str:
    try:
        return (project / path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        hint = "paths are relative to the project folder" if not os.path.exists(project / path) else None
        raise error("FILE_MISSING", f"`{path}`, which locks the packages, cannot be read: {why}", hint=hint) from None
