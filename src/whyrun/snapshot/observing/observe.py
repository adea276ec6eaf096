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
from whyrun.graph.inputs import part
from whyrun.graph.template import compute, expressions_in
from whyrun.json_values import is_utf8
from whyrun.workflow.expressions.expression import ABSENT, ExpressionError
from whyrun.workflow.inputs import IndexProblem, InputValue, element
from whyrun.workflow.model import (
    FILE_TYPES,
    NO_DEFAULT,
    At,
    Expression,
    First,
    ImportDecl,
    InputDecl,
    InputRef,
    Place,
    Template,
    Type,
    Value,
    Workflow,
    refs_in,
)
from whyrun.workflow.values import absent_value, is_sheet, value_problem

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
        for name, imported in workflow.imports.items():
            handed = self._handed(imported, workflow.name, prefix, found)
            self._workflow(imported.workflow, f"{prefix}{name}/", handed, found)

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

    def _handed(
        self, imported: ImportDecl, importing: str, prefix: str, found: Mapping[str, InputValue]
    ) -> dict[str, Any]:
        handed: dict[str, Any] = {}
        names = {"workflow": {"name": importing}}
        with_, places, child = imported.with_, imported.places, imported.workflow
        for name, decl in child.inputs.items():
            if f"with.{name}" in imported.broken or decl.path is not None:
                continue  # its value could not be parsed, or it is computed inside
            if name in with_:
                if not _all_there(with_[name], prefix, found):
                    continue  # an input that it uses is missing, which is reported
                place = places.get(f"with.{name}", decl.place)
                before = len(self.diagnostics)
                value = self._template(with_[name], prefix, found, place, names)
                problem = self._misfit(decl, value)
                if len(self.diagnostics) > before:
                    continue
                if problem is not None:
                    self.diagnostics.append(place.diagnostic("INPUT_TYPE", f"`{name}`: {problem}"))
                else:
                    handed[name] = value
            elif "with" in imported.broken or f"inputs.{name}" in child.broken:
                continue
            elif decl.default is not NO_DEFAULT:
                handed[name] = decl.default
            elif not decl.required:
                handed[name] = None
            # else: `parse` has reported that the import does not give it
        return handed

    def _misfit(self, decl: InputDecl, value: Any) -> str | None:
        given = value.value if isinstance(value, InputValue) else value
        if given is None and not decl.required and decl.default is NO_DEFAULT:
            return None  # counts as not given
        if not isinstance(value, InputValue):
            return value_problem(decl.type, value)
        if given is not None and (value.type.is_path or decl.type.is_path):
            fits = _kind(value.type) == _kind(decl.type)
        else:
            fits = value_problem(decl.type, given) is None
        if fits:
            return None
        return f"`{decl.type}` is expected, " + ("but it was not given" if given is None else f"not `{value.type}`")

    def _template(
        self,
        template: Template,
        prefix: str,
        found: Mapping[str, InputValue],
        place: Place,
        names: Mapping[str, Any],
    ) -> Any:
        if isinstance(template, Expression) and template.whole is not None:
            return self._operand(template.whole, prefix, found)
        values: list[Any] = []
        before = len(self.diagnostics)
        for expression in expressions_in(template):
            for i, ref in enumerate(expression.refs):
                value = self._operand(ref, prefix, found, optional=i in expression.optional)
                values.append(ABSENT if value is None else value.value)
        if len(self.diagnostics) > before:
            return None
        try:
            return compute(template, values, names)
        except ExpressionError as problem:
            self.diagnostics.append(place.diagnostic("WRONG_TYPE", str(problem)))
            return None

    def _operand(
        self, ref: Value, prefix: str, found: Mapping[str, InputValue], *, optional: bool = False
    ) -> InputValue | None:
        """`optional`: an element that does not exist is no problem."""
        if isinstance(ref, First):
            *others, last = ref.candidates
            there = (self._operand(other, prefix, found, optional=True) for other in others)
            return next((value for value in there if value is not None), None) or self._operand(last, prefix, found)
        assert isinstance(ref, InputRef), "imports take inputs and literals only"
        before = len(self.diagnostics)
        value = self._ref(ref, prefix, found)
        if optional:
            del self.diagnostics[before:]
        return value

    def _ref(self, ref: InputRef, prefix: str, found: Mapping[str, InputValue]) -> InputValue | None:
        whole = found.get(f"Input:{prefix}{ref.name}")
        if whole is None:
            return None
        try:
            id_, value = str(ref), element(whole, tuple(s.index for s in ref.selectors if isinstance(s, At)))
            for field in ref.fields:
                assert isinstance(field, At), "an import has no loops"
                id_, value = part(id_, value, field.index)
            return value
        except IndexProblem as problem:
            hint = problem.hint_for(ref.name, prefix)
            self.diagnostics.append(ref.place.diagnostic(problem.code, str(problem), hint))
            return None

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


def _kind(type_: Type) -> tuple[str, int]:
    """The same text for types that can replace each other: directories, and files of any type."""
    return "file" if type_.base in FILE_TYPES else type_.base, type_.depth


def _all_there(template: Template, prefix: str, found: Mapping[str, InputValue]) -> bool:
    refs = [ref for expression in expressions_in(template) for ref in refs_in(expression.refs)]
    return all(f"Input:{prefix}{ref.name}" in found for ref in refs if isinstance(ref, InputRef))


def _plain_value(type_: Type, value: Any) -> InputValue:
    elements = None
    if type_.depth:
        elements = tuple(_plain_value(type_.element, item) for item in value)
    return InputValue(type_, value, value_sha256(value), elements, None)
