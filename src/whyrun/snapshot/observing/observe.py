"""Observes the disk for planning: the current inputs, and the files of patterns."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from whyrun.artifacts.hashing import value_sha256
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.errors import Diagnostic, InvalidError, WhyrunError, error
from whyrun.graph.fingerprint import array_sha256
from whyrun.ids import Index, format_indices
from whyrun.json_values import is_utf8
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import ImportDecl, InputDecl, Place, Type, Workflow
from whyrun.workflow.values import absent_value, is_sheet

# --- files of patterns -------------------------------------------------------------------------------------------
#
# The files that a pattern matches, and checks of many paths at once.


_MAGIC = frozenset("*?[")


def files_like(pattern: str, root: str) -> list[str]:
    """The files that `glob.glob` finds from `root`, in any order.

    Most patterns match in one folder; a plain `listdir` is much faster there than the walk of `glob`.
    """
    folder, _, name = pattern.rpartition("/")
    special = "//" in pattern or (pattern.startswith("/") and not folder)
    if special or not name or "**" in name or _MAGIC.intersection(folder):
        import glob

        return glob.glob(pattern, root_dir=root, recursive=True)
    try:
        names = os.listdir(os.path.join(root, folder))
    except OSError:
        return []
    if not name.startswith("."):
        names = [other for other in names if not other.startswith(".")]
    found = fnmatch.filter(names, name)
    return [f"{folder}/{other}" for other in found] if folder else found


def in_byte_order(paths: Sequence[str]) -> list[str]:
    """Sorted by bytes, not by locale, so that the order is the same on every machine."""
    return sorted(paths) if "".join(paths).isascii() else sorted(paths, key=os.fsencode)


def are_normal(paths: Sequence[str]) -> bool:
    """Are all of these relative, and written as `os.path.normpath` would? False if a quick search cannot tell."""
    text = "\n" + "\n".join(paths) + "\n"
    if text.count("\n") != len(paths) + 1:
        return False
    return not any(unusual in text for unusual in ("\n/", "/\n", "//", "/.", "\n.", "\n\n"))


# --- inputs and artifacts ----------------------------------------------------------------------------------------


_GLOB = frozenset("*?[")
_NUMBER = re.compile("[1-9][0-9]*")
# More problems get no hint with a near name, and larger folders are not searched for one: it would take too long.
_MANY_PROBLEMS, _MANY_NAMES = 20, 10_000
_RENAME = "rename the file; names are recorded in the log and must read the same everywhere"
_LOOKED_IN = "looked in the project folder: that of `whyrun.toml`, else of the workflow file"


class InputObserver:
    """Turns given values into observed ones: expands patterns, finds and hashes files."""

    def __init__(self, project: Path, cache: StatCache) -> None:
        self.root = str(project)
        self.cache = cache
        self.diagnostics: list[Diagnostic] = []
        self.patterns: dict[str, str] = {}  # by the ID of the input

    def observe(self, workflow: Workflow, given: Mapping[str, Any], prefix: str = "") -> dict[str, InputValue]:
        """All inputs by canonical ID, also those of imports; or InvalidError with all their problems.

        `prefix` names the imports that lead to the workflow: `Intro/`. Values that are observed already are kept.
        """
        found, problems = self.look(workflow, given, prefix)
        if problems:
            raise InvalidError(problems)
        return found

    def look(
        self, workflow: Workflow, given: Mapping[str, Any], prefix: str = ""
    ) -> tuple[dict[str, InputValue], list[Diagnostic]]:
        """Like `observe`, but returns the problems beside the inputs that could be observed."""
        found: dict[str, InputValue] = {}
        self._workflow(workflow, prefix, dict(given), found)
        return found, self.diagnostics

    def _workflow(self, workflow: Workflow, prefix: str, given: dict[str, Any], found: dict[str, InputValue]) -> None:
        for name, decl in sorted(workflow.inputs.items(), key=lambda each: each[1].path is not None):
            if name not in given:
                if decl.path is not None:
                    self._computed(workflow, prefix, decl, found)
                continue  # reported when the values were collected
            value = given[name]
            id_ = f"Input:{prefix}{name}"
            # What an import passes is observed already.
            known = isinstance(value, InputValue)
            observed = value if known else self._value(id_, decl.type, value, decl.place)
            named = None if observed is None else self._with_keys(id_, decl, observed)
            if named is not None:
                found[id_] = named
        if workflow.imports:
            self._imports(workflow, prefix, found)

    def _imports(self, workflow: Workflow, prefix: str, found: dict[str, InputValue]) -> None:
        from whyrun.snapshot.observing.handed_in import HandedIn  # imported late: most workflows import none

        for name, imported in workflow.imports.items():
            before = len(self.diagnostics)
            for row in self._indices(workflow, imported, prefix, found):
                handed = HandedIn(prefix, found, self.diagnostics).values(imported, workflow.name, row)
                self._workflow(imported.workflow, f"{prefix}{name}{format_indices(list(row.values()))}/", handed, found)
                if len(self.diagnostics) > before:
                    break  # the other indices probably have the same problem

    def _indices(
        self, workflow: Workflow, imported: ImportDecl, prefix: str, found: Mapping[str, InputValue]
    ) -> Sequence[Mapping[str, Index]]:
        if "for" in imported.broken:
            return ()  # reported
        if not imported.loops:
            return ({},)
        from whyrun.snapshot.observing.computed import indices_of_import  # imported late: most workflows have none

        return indices_of_import(workflow, imported, prefix, found)

    def _computed(self, workflow: Workflow, prefix: str, decl: InputDecl, found: dict[str, InputValue]) -> None:
        from whyrun.snapshot.observing.computed import computed_input  # imported late: most workflows have none

        value = computed_input(workflow, decl, prefix, found, self.files, self.diagnostics)
        if value is not None:
            found[f"Input:{prefix}{decl.name}"] = value

    def files(self, ids: Sequence[str], decl: InputDecl, paths: Sequence[str], hint: str) -> list[InputValue | None]:
        """Files at computed paths; None after a problem, which is reported."""
        return self._files(ids.__getitem__, decl.type, paths, decl.place, hint, required=decl.required)

    def _with_keys(self, id_: str, decl: InputDecl, value: InputValue) -> InputValue | None:
        """Keys belong to the declaration: an import may pass an array that has others. None after a problem: without
        its keys, every index of the array would be wrong as well."""
        if decl.key is None:
            return value if value.keys is None or decl.loops else replace(value, keys=None)
        from whyrun.workflow.keys import with_keys  # imported late: most workflows have no keys

        value, problems = with_keys(id_, decl, value)
        self.diagnostics.extend(problems)
        return None if problems else value

    # -- values --

    def value(self, id_: str, type_: Type, value: Any, place: Place) -> InputValue:
        """One single value (`--assume`); `place` is where its input is declared."""
        observed = self._value(id_, type_, value, place)
        if observed is None:
            raise InvalidError(self.diagnostics)
        return observed

    def outside(self, value: Any) -> str | None:
        """The first path or pattern in a value that leads out of the project folder; None if there is none."""
        if isinstance(value, list):
            return next((path for item in value if (path := self.outside(item)) is not None), None)
        if value is None:
            return None
        path = self._relative(value)
        return value if os.path.isabs(path) or path == ".." or path.startswith("../") else None

    def _value(self, id_: str, type_: Type, value: Any, place: Place) -> InputValue | None:
        if value is None:
            return InputValue(type_, None, value_sha256(None), None, None)
        if is_sheet(type_, value):
            return self._sheet(id_, type_, value, place)
        if not type_.is_path:
            return _plain_value(type_, value)
        if type_.depth:
            return self._array(id_, type_, value, place)
        hint = f"a pattern needs an array: `{type_}[]`" if _GLOB.intersection(value) else _LOOKED_IN
        return self._files(lambda i: id_, type_, [value], place, hint)[0]

    def _sheet(self, id_: str, type_: Type, path: str, place: Place) -> InputValue | None:
        from whyrun.snapshot.observing.computed import read_sheet  # imported late: most workflows have none

        shown = self._relative(path)
        rows, problems = read_sheet(id_, Path(self._absolute(path)), shown, place)
        self.diagnostics.extend(problems)
        return None if problems else replace(_plain_value(type_, rows), path=shown)

    def _array(self, id_: str, type_: Type, value: Any, place: Place) -> InputValue | None:
        if isinstance(value, str):
            paths = self._glob(id_, value)
            if not paths:
                self.diagnostics.append(
                    place.diagnostic("INPUT_MISSING", f"`{id_}`: no file matches `{value}`", _LOOKED_IN)
                )
                return None
            value = paths
        if type_.depth > 1:
            nested = [self._array(f"{id_}[{i}]", type_.element, item, place) for i, item in enumerate(value)]
            items = [item for item in nested if item is not None]
        else:
            listed = any(_GLOB.intersection(path) for path in value)
            hint = "write a pattern on its own, not in a list: `photos/*.png`" if listed else _LOOKED_IN
            names = (lambda i: id_) if len(value) == 1 else (lambda i: f"{id_}[{i}]")
            items = [item for item in self._files(names, type_.element, value, place, hint) if item is not None]
        if len(items) < len(value):
            return None  # reported
        return InputValue(type_, [i.value for i in items], array_sha256(items), tuple(items), None)

    def _glob(self, id_: str, pattern: str) -> list[str]:
        if not _GLOB.intersection(pattern):
            return [pattern]
        self.patterns[id_] = pattern
        found = files_like(pattern, self.root)
        # The state folder is never input.
        return in_byte_order([path.replace(os.sep, "/") for path in found if not path.startswith(".whyrun/")])

    def _near(self, path: str, is_folder: bool) -> str | None:
        """A hint with the path beside a missing one that was probably meant.

        Its numbers are the same (`photo-2.png` is not a misspelt `photo-3.png`), and it is near without its suffix, too
        (`z.txt` is not a misspelt `b.txt`).
        """
        if _GLOB.intersection(path) or len(self.diagnostics) > _MANY_PROBLEMS:
            return None
        from difflib import SequenceMatcher, get_close_matches  # imported late: only errors need it

        folder, name = os.path.split(path)
        try:
            names = os.listdir(self._absolute(folder))
        except OSError:
            return None
        numbers = _NUMBER.findall(name)
        alike = [other for other in names if _NUMBER.findall(other) == numbers] if len(names) < _MANY_NAMES else []
        stem = os.path.splitext(name)[0]
        for near in get_close_matches(name, alike, cutoff=0.8):
            ratio = SequenceMatcher(None, stem, os.path.splitext(near)[0]).ratio()
            found = os.path.join(folder, near)
            if ratio > 0.7 and is_utf8(near) and os.path.isdir(self._absolute(found)) == is_folder:
                return f"did you mean `{found}`?"
        return None

    def _files(
        self,
        names: Callable[[int], str],
        type_: Type,
        paths: Sequence[str],
        place: Place,
        missing_hint: str,
        *,
        required: bool = True,
    ) -> list[InputValue | None]:
        relative = paths if are_normal(paths) else [self._relative(path) for path in paths]
        folders = type_.base == "directory"
        found: list[InputValue | None] = []
        hashes = self._hashes(relative)
        are_folders = self.cache.knows_folders
        for i, (path, sha) in enumerate(zip(relative, hashes, strict=True)):
            problems: Sequence[Diagnostic]
            if not is_utf8(path):  # found by a pattern
                problems = [Diagnostic("NAME_INVALID", f"the name of {path!r} is not UTF-8", hint=_RENAME)]
            elif sha is None and not required:
                found.append(absent_value(type_, path))
                continue
            elif sha is None:
                hint = self._near(path, folders) or missing_hint
                problems = [Diagnostic("INPUT_MISSING", f"there is no {type_.base} `{path}`", hint=hint)]
            elif isinstance(sha, WhyrunError):
                problems = sha.diagnostics
            elif (are_folders and self.cache.is_folder(self._absolute(path))) != folders:
                is_ = "a file" if folders else "a folder"
                problems = [Diagnostic("INPUT_TYPE", f"`{path}` is {is_}, not a {type_.base}")]
            else:
                found.append(InputValue(type_, path, sha, None, path))
                continue
            name = names(i)
            for problem in problems:
                message = f"`{name}`: {problem.message}".replace(f"`{self.root}/", "`")  # the same on every machine
                self.diagnostics.append(place.diagnostic(problem.code, message, problem.hint))
            found.append(None)
        return found

    def _hashes(self, paths: Sequence[str]) -> Sequence[str | WhyrunError | None]:
        """The hash of each path; None if it does not exist; the error if it cannot be read."""
        try:
            return self.cache.sha256_in(self.root, paths)
        except (WhyrunError, OSError):
            return [self._hash(self._absolute(path)) for path in paths]  # one by one, to report each

    def _absolute(self, path: str) -> str:
        return path if os.path.isabs(path) else f"{self.root}/{path}"

    def _hash(self, path: str) -> str | WhyrunError | None:
        try:
            return self.cache.sha256_of(path)
        except WhyrunError as problem:
            return problem
        except OSError as problem:  # no permission for a folder in it, or on the way to it
            where = problem.filename or path
            message = f"`{where}` cannot be read: {problem.strerror}"
            return error("FILE_MISSING", message, hint="check the path and its permissions")

    def _relative(self, path: str) -> str:
        """Relative to the project if it lies inside, so that plans and logs do not depend on the machine."""
        normal = os.path.normpath(path)
        if os.path.isabs(normal):
            inside = os.path.relpath(normal, self.root)
            return normal if inside == ".." or inside.startswith(f"..{os.sep}") else inside.replace(os.sep, "/")
        return normal.replace(os.sep, "/")


def _plain_value(type_: Type, value: Any) -> InputValue:
    elements = None
    if type_.depth:
        elements = tuple(_plain_value(type_.element, item) for item in value)
    return InputValue(type_, value, value_sha256(value), elements, None)
