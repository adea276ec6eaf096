"""Which distributions a step imported, with their versions: from the files of its modules, since those are exact.

Finding the distribution of a module by `importlib.metadata` takes a second in a large environment. Most modules have
the name of theirs, and folders such as `numpy-2.1.0.dist-info` have the version.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice

from whyrun.lazy_regex import lazy_regex

_INSTALLED = "-packages/"
_REQUIRES = lazy_regex(r"(?m)^Requires-Dist: *([A-Za-z0-9._-]+)(?![^\n]*\bextra\b)")
_OWN = "whyrun"
_BY_ITSELF = ("_distutils_hack", "__editable__")  # imported by every Python that starts there


def modules_since(count: int) -> list[str]:
    """The names of the modules that this process has in addition to the first `count`, the newest first."""
    # From the end: to pass over a name is to write to its memory, which a fork shares with its worker.
    return [*islice(reversed(sys.modules), max(0, len(sys.modules) - count))]


def imported_since(count: int) -> set[str]:
    """The installed modules at the top level among them: `/…/site-packages/numpy`."""
    return set(_tops(getattr(sys.modules.get(name), "__file__", None) for name in modules_since(count)))


def imported_among(paths: Iterable[str]) -> set[str]:
    """The same, from the files that programs opened."""
    return set(_tops(path for path in paths if path.endswith((".py", ".pyc", ".so"))))


def among_own(imported: Iterable[str]) -> set[str]:
    """Those that this Python would import, too. A program may run another Python, whose packages are no matter of the
    versions that are installed here: a plan would find them changed each time."""
    own = {folder.rstrip("/") for folder in sys.path}
    return {path for path in imported if path.rpartition("/")[0] in own}


def _tops(files: Iterable[str | None]) -> Iterator[str]:
    for file in files:
        if file and _INSTALLED in file:
            folder, _, inside = file.rpartition(_INSTALLED)
            if not inside.startswith(_BY_ITSELF):
                yield f"{folder}{_INSTALLED}{inside.replace('__pycache__/', '').partition('/')[0]}"


def packages_of(imported: Iterable[str], named: Iterable[str] = ()) -> dict[str, str]:
    """Distribution → version. `named`: installed modules that the step's code names, and that its process had imported
    before; with what these require."""
    found: dict[str, str] = {}
    for path in imported:
        folder, _, module = path.rpartition("/")
        name = _distribution_of(folder, module)
        if name is not None and name != _OWN:
            found[name] = _installed(folder)[name][1]
    loaded = {path for module in named for path in _tops([getattr(sys.modules.get(module), "__file__", None)])}
    for path in loaded:
        folder, _, module = path.rpartition("/")
        name = _distribution_of(folder, module)
        for each in _with_required(folder, name) if name is not None else ():
            found[each] = _installed(folder)[each][1]
    return dict(sorted(found.items()))


@lru_cache(maxsize=4096)
def _distribution_of(folder: str, module: str) -> str | None:
    name = normal(module.partition(".")[0])
    if name in _installed(folder):
        return name
    return _by_module(folder).get(module.partition(".")[0])


@lru_cache(maxsize=16)
def _installed(folder: str) -> dict[str, tuple[str, str]]:
    """Distribution → its `.dist-info` folder, and its version."""
    found: dict[str, tuple[str, str]] = {}
    with suppress(OSError):
        for entry in sorted(os.listdir(folder)):
            if entry.endswith(".dist-info"):
                name, _, version = entry.removesuffix(".dist-info").partition("-")
                found[normal(name)] = entry, version
    return found


@lru_cache(maxsize=16)
def _by_module(folder: str) -> dict[str, str]:
    """Module → distribution, for modules with another name: `PIL`, `yaml`."""
    found: dict[str, str] = {}
    for name, (entry, _) in _installed(folder).items():
        text = _text(f"{folder}/{entry}/top_level.txt")
        if not text:
            files = (line.partition(",")[0] for line in _text(f"{folder}/{entry}/RECORD").splitlines())
            text = "\n".join(
                {file.partition("/")[0].partition(".")[0] for file in files if file.endswith((".py", ".so"))}
            )
        found |= dict.fromkeys(text.split(), name)
    return found


@lru_cache(maxsize=1024)
def _with_required(folder: str, name: str) -> frozenset[str]:
    """A distribution and what it requires, directly or not, as far as that is installed there."""
    found, queue = set[str](), [name]
    while queue:
        each = queue.pop()
        if each not in found and each in _installed(folder):
            found.add(each)
            metadata = _text(f"{folder}/{_installed(folder)[each][0]}/METADATA").partition("\n\n")[0]
            queue += [normal(required) for required in _REQUIRES.findall(metadata)]
    return frozenset(found)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def normal(package: str) -> str:
    return re.sub("[-_.]+", "-", package).lower()
