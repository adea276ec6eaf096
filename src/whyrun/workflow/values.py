"""Values of inputs: checks against their type, and elements of arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from whyrun.errors import did_you_mean
from whyrun.ids import Index, format_index, format_indices
from whyrun.json_values import DEEPEST, LARGEST_INTEGER, TOO_DEEP, TOO_LARGE, is_utf8
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.model import At, InputRef, Loop, Type
from whyrun.workflow.nodes import kind_of_value

MAX_VALUE_CHARACTERS = 16 << 20
MAX_INSTANCES = 5_000_000  # of a workflow, so also values of a loop
TOO_LONG = f"a workflow has up to {MAX_INSTANCES} job instances: let one job do more of the work"
RANGE = lazy_regex(r"\s*(-?\d{1,18})\s*-\s*(-?\d{1,18})\s*")
MAX_VALUE_ITEMS = 1_000_000
SHEET_SUFFIXES = (".csv", ".tsv", ".yaml", ".yml", ".json")
_SHEET = Type("json", 1)
NO_TEXT = "a text in it is not UTF-8 (half of a surrogate pair)"


class Keys(dict[Index, int]):
    """The keys of an array's elements: key → position."""

    def __init__(self, order: Iterable[Index]) -> None:
        self.order = tuple(order)
        super().__init__((key, position) for position, key in enumerate(self.order))

    def position(self, index: Index) -> int | None:
        """`2` and `2.0` are two indices, though Python has them equal."""
        found = self.get(index)
        if found is None or isinstance(index, str):
            return found
        return found if format_index(self.order[found]) == format_index(index) else None


class InputValue(msgspec.Struct, frozen=True):
    """An observed input.

    For path types `path` is relative to the project folder, with `/` (or absolute, as given, if it lies outside), and
    `value` is the same string. An array has `elements`, and `value` is the list of their values. An array of JSON that
    was read from a file has its `path`, too.
    """

    type: Type
    value: Any
    sha256: str
    elements: tuple[InputValue, ...] | None
    path: str | None
    keys: Keys | None = None  # what names the elements; None: numbers from 0

    @property
    def is_absent(self) -> bool:
        """A file at a computed path that need not exist, and does not."""
        return not self.sha256

    @property
    def indices(self) -> Sequence[Index]:
        """The indices of the elements, in their order."""
        return range(len(self.elements or ())) if self.keys is None else self.keys.order

    def members(self, id_: str) -> Iterator[tuple[str, InputValue]]:
        """The elements with their IDs; `id_` is that of the array."""
        for index, item in zip(self.indices, self.elements or (), strict=True):
            yield f"{id_}[{format_index(index)}]", item


def absent_value(type_: Type, path: str | None = None) -> InputValue:
    """`path`: where the file would be, so that no output is published there."""
    return InputValue(type_, None, "", None, path)


class IndexProblem(Exception):
    """There is no such element: `code` is one of `INDEX_*`. `depth` is the number of the wrong index, from 0."""

    def __init__(self, code: str, message: str, hint: str | None = None, depth: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.depth = depth

    def hint_for(self, name: str, prefix: str = "") -> str | None:
        """How to mend it where the input `name` is read, in the import `prefix` (`Intro/`) or the main file."""
        if self.code != "INDEX_PARENT_MISSING":
            return self.hint
        where = f"in `with:` of the import `{prefix[:-1]}`" if prefix else f"with `--set {name}=…`"
        return f"give it {where}, or declare a `default:`"


def not_an_array(value: InputValue, what: str, depth: int = 0) -> IndexProblem:
    """The value is an optional array that was not given, or it is not an array."""
    if value.type.depth and value.value is None:
        message = f"{what} was not given, so it has no elements"
        return IndexProblem("INDEX_PARENT_MISSING", message, depth=depth)
    message = f"{what} is not an array (type `{value.type}`)"
    return IndexProblem("INDEX_PARENT_NOT_ARRAY", message, "remove the index, or declare an array type", depth)


def element(value: InputValue, indices: Sequence[Index]) -> InputValue:
    """The element at these indices, outermost first. There is no default and no fallback to another element."""
    for depth, index in enumerate(indices):
        elements = value.elements
        if elements is None:
            raise not_an_array(value, format_indices(indices[:depth]) or "the array", depth)
        if value.keys is not None:
            value = elements[_position(value.keys, index, depth)]
            continue
        if type(index) is not int or index < 0:
            message = f"{index!r} is not an index: elements are counted from 0"
            hint = "write a whole number from 0; with `key:` the input can name its elements"
            raise IndexProblem("INDEX_FORMAT_INVALID", message, hint, depth)
        if index >= len(elements):
            count = len(elements)
            hint = f"elements are counted from 0: the last one is `[{count - 1}]`" if count else "the array is empty"
            raise IndexProblem("INDEX_OUT_OF_RANGE", f"there is no element {index}: the array has {count}", hint, depth)
        value = elements[index]
    return value


def _position(keys: Keys, index: Index, depth: int) -> int:
    position = keys.position(index)
    if position is not None:
        return position
    if not keys:
        message = f"there is no element `{format_index(index)}`"
        raise IndexProblem("INDEX_OUT_OF_RANGE", message, "the array is empty", depth)
    if isinstance(keys.order[0], str) != isinstance(index, str):
        message = f"{format_index(index)} is not an index: the elements have keys"
        if str(index) in keys:
            hint: str | None = f"keys are strings: write `[{format_index(str(index))}]`"
        else:
            hint = f"the keys are {few_keys(keys.order)}"
        raise IndexProblem("INDEX_FORMAT_INVALID", message, hint, depth)
    hint = did_you_mean(str(index), list(map(str, keys.order))) or f"the keys are {few_keys(keys.order)}"
    raise IndexProblem("INDEX_OUT_OF_RANGE", f"there is no element `{format_index(index)}`", hint, depth)


def few_keys(keys: Sequence[Index]) -> str:
    shown = ", ".join(f"`{format_index(key)}`" for key in keys[:5])
    return f"{shown}, … ({len(keys)} in all)" if len(keys) > 5 else shown


def is_sheet(declared: Type, value: Any) -> bool:
    """Whether the value of an array of JSON is the path of a file that holds one object a row."""
    return declared == _SHEET and isinstance(value, str) and value.lower().endswith(SHEET_SUFFIXES)


def value_problem(declared: Type, value: Any) -> str | None:
    """Why the value does not fit the type, or None. A pattern is a valid array of paths."""
    where, message = _misfit(declared, value, "")
    if message is None:
        return _size_problem(value)
    return f"{where}: {message}" if where else message


def _misfit(declared: Type, value: Any, where: str) -> tuple[str, str | None]:
    if declared.depth:
        if declared.depth == 1 and declared.is_path and isinstance(value, str) and value:
            return where, None
        if is_sheet(declared, value):
            return where, None
        if not isinstance(value, list):
            return where, f"`{declared}` needs a list, not {kind_of_value(value)}"
        for index, member in enumerate(value):
            place, message = _misfit(declared.element, member, f"{where}[{index}]")
            if message is not None:
                return place, message
        return where, None
    base = declared.base
    if base == "json":
        return where, _json_problem(value)
    if base == "boolean":
        fits = isinstance(value, bool)
    elif base == "integer":
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif base == "number":
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif base == "string":
        fits = isinstance(value, str)
    else:
        fits = isinstance(value, str) and bool(value) and "\0" not in value
    if fits:
        return where, _json_problem(value)
    expected = f"`{declared}` is given as a path" if declared.is_path else f"`{declared}` is expected"
    return where, f"{expected}, not {kind_of_value(value) if value != '' else 'an empty string'}"


def _json_problem(value: Any) -> str | None:
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > DEEPEST:
            return f"it {TOO_DEEP}"
        if isinstance(part, dict):
            if not all(isinstance(key, str) for key in part):
                return "the keys of a map are strings"
            if not all(map(is_utf8, part)):
                return NO_TEXT
            waiting.extend((member, depth + 1) for member in part.values())
        elif isinstance(part, list):
            waiting.extend((member, depth + 1) for member in part)
        elif isinstance(part, float):
            if not math.isfinite(part):
                return "a number is not finite"
        elif isinstance(part, int):
            if abs(part) > LARGEST_INTEGER:
                return f"it {TOO_LARGE}"
        elif isinstance(part, str):
            if not is_utf8(part):
                return NO_TEXT
        elif part is not None:
            return f"{type(part).__name__} is not a JSON value"
    return None


def _size_problem(value: Any) -> str | None:
    items, characters = 0, 0
    waiting = [value]
    while waiting:
        part = waiting.pop()
        items += 1
        if isinstance(part, dict):
            characters += sum(map(len, part))
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, str):
            characters += len(part)
    if items > MAX_VALUE_ITEMS or characters > MAX_VALUE_CHARACTERS:
        return "the value is too large; give it as a file"
    return None


# --- what to write instead of an index that an input does not have ---------------------------------------------------


def hint_for_loop(
    ref: InputRef,
    selector: Loop,
    problem: IndexProblem,
    whole: InputValue,
    indices: Sequence[Any],
    inputs: Mapping[str, InputValue],
) -> str | None:
    """For `inputs.Names[c]`, where the loop does not go over the elements of the array."""
    above = ref.selectors[: problem.depth]
    if not all(isinstance(s, At) for s in above):
        return problem.hint
    loop = f"`{selector.loop}: {{each: {InputRef(ref.name, above, ref.place)}}}`"
    if problem.code == "INDEX_OUT_OF_RANGE":
        index = indices[problem.depth]
        row = f"`{format_index(index)}`"
        if whole.keys is not None and whole.path is not None:
            return f"add the row {row} to `{whole.path}`, or declare the loop as {loop}"
        file, sheet = _file_for(whole, index), _sheet_with(index, inputs)
        if file is not None and sheet is not None:  # the loop goes over the sheet: that is what a file is missing for
            return f"add the file `{file}`, or delete the row {row} of `{sheet}`"
        return f"declare the loop as {loop}, or give the array more elements"
    return f"a loop over the positions is declared as {loop}; the value itself is `${{{{ {selector.loop} }}}}`"


def _file_for(whole: InputValue, index: Index) -> str | None:
    """The path that a file with this key would have, if it were named like the first one."""
    if whole.keys is None or not whole.elements or whole.elements[0].path is None:
        return None
    folder, slash, name = whole.elements[0].path.rpartition("/")
    key = str(whole.indices[0])
    return f"{folder}{slash}{name.replace(key, str(index), 1)}" if key in name else None


def _sheet_with(index: Index, inputs: Mapping[str, InputValue]) -> str | None:
    """The file of the only sheet that has this row."""
    sheets = [each.path for each in inputs.values() if each.path and each.keys is not None and index in each.indices]
    return sheets[0] if len(sheets) == 1 else None
