"""The keys of an object in a file, one row each, and readers of their simple values.

The reader, the JSON Schema and the docs use the same rows. Each problem of a value comes with a hint that says what to
write instead.
"""

from __future__ import annotations

import keyword
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from whyrun.errors import did_you_mean
from whyrun.ids import SECTION_MARK
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.model import BASE_TYPES, Type
from whyrun.workflow.nodes import ListNode, MapNode, Node, Problems, Scalar, kind_of

if TYPE_CHECKING:
    from whyrun.workflow.foreign_words import Place as ForeignPlace

NAME_PATTERN = "^[A-Za-z_][A-Za-z0-9_]*$"
PARAMETER_PATTERN = "^[A-Za-z_][A-Za-z0-9_-]*$"
NAME = lazy_regex(NAME_PATTERN)
PARAMETER_NAME = lazy_regex(PARAMETER_PATTERN)
WORKFLOW_NAME = lazy_regex(r"[a-z][a-z0-9-]*")
# Folders and files of `.whyrun`.
RESERVED_WORKFLOW_NAMES = frozenset({"store", "stat-cache", "actions-cache", "tmp", "environments"})
USES = lazy_regex(r"[^\s$]+")  # the name of an action
MAX_NAME = 200  # characters
LONGEST_NAME = 255  # bytes, the limit of file systems
LONGEST_PATH = 3000  # bytes: the limit is 4,096, with the project folder and with temporary names
# Control characters, also those that reverse the direction of text; halves of surrogate pairs.
_NOT_IN_PATHS = lazy_regex("[\\\\\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
MAX_ARRAY_DEPTH = 3
_TYPE = lazy_regex(r"([a-z]+)((?:\[\])*)")
LIKE_A_PATH = lazy_regex(r"[/*]|\.[A-Za-z0-9]{1,5}$")
_BOOLEANS = {**dict.fromkeys(("yes", "on", "true"), "true"), **dict.fromkeys(("no", "off", "false"), "false")}
_DURATION_IN_WORDS = lazy_regex(r"([0-9]+) *([smh])(?:ec|econd|in|inute|r|our)s?")
_OTHER_ARRAYS = ("", "array", "list")  # how other languages write arrays; "" is `[string]`
_DURATION = lazy_regex(
    r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?"
)
_UNITS = (86400.0, 3600.0, 60.0, 1.0, 0.001)
_MAX_DURATION = 366 * 86400.0
_NO_COLON = lazy_regex(r"([A-Za-z_-]+)(?::| +)(\S.*)")
_DRIVE = lazy_regex(r"[A-Za-z]:[/\\]")

# --- the keys of an object ---------------------------------------------------------------------------------------


Schema = dict[str, Any]  # a JSON Schema, draft 2020-12, or a part of one


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key. The parser refuses every key that has no row."""

    name: str
    meaning: str  # one sentence: the description in the JSON Schema, and the text in the docs
    details: str = ""  # more for the docs, in Markdown
    schema: Schema  # without its description
    required: bool = False


def names_of(keys: Sequence[Key]) -> tuple[str, ...]:
    return tuple(key.name for key in keys)


def object_schema(keys: Sequence[Key], description: str | None = None, *, others: bool = False) -> Schema:
    """The schema of an object that has these keys, and no `others`."""
    schema: Schema = {
        **({} if description is None else {"description": description}),
        "type": "object",
        **({} if others else {"additionalProperties": False}),
        "properties": {key.name: {"description": key.meaning, **key.schema} for key in keys},
    }
    required = [key.name for key in keys if key.required]
    return {**schema, "required": required} if required else schema


def map_schema(definition: str) -> Schema:
    """A map from names to objects that `$defs` describes."""
    return {
        "type": "object",
        "propertyNames": {"pattern": NAME_PATTERN},
        "additionalProperties": {"$ref": f"#/$defs/{definition}"},
    }


def text_schema(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


def list_schema(pattern: str | None = None) -> Schema:
    """A list of different strings."""
    items: Schema = {"type": "string"} if pattern is None else text_schema(pattern)
    return {"type": "array", "uniqueItems": True, "items": items}


# --- readers -----------------------------------------------------------------------------------------------------


class Fields:
    """Each reader returns None if the value does not fit, and reports the problem."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def wrong(self, node: Node, message: str, hint: str | None = None, code: str = "WRONG_TYPE") -> None:
        self.problems.add(node.place, code, message, hint)

    def as_map(self, node: Node, what: str, hint: str | None = None) -> MapNode | None:
        if isinstance(node, MapNode):
            return node
        self.wrong(node, f"{what} is {kind_of(node)}, not a map", hint)
        return None

    def as_list(self, node: Node, what: str, hint: str | None = None) -> ListNode | None:
        if isinstance(node, ListNode):
            return node
        self.wrong(node, f"{what} is {kind_of(node)}, not a list", hint)
        return None

    def string(self, node: Node, what: str, hint: str | None = None) -> str | None:
        """A string without expressions."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            can_be_quoted = isinstance(node, Scalar) and node.value is not None
            default_hint = "put it in quotes" if can_be_quoted else "write one"
            self.wrong(node, f"{what} is {kind_of(node)}, not a string", hint or default_hint)
            return None
        if "${{" in node.value:
            at = node.value.index("${{")
            self.problems.add(
                node.locate(at, len(node.value) - at),
                "EXPRESSION_FORBIDDEN",
                f"{what} cannot hold an expression",
                hint or "write the value itself",
            )
            return None
        return node.value

    def strings(self, node: Node, what: str, member: str, hint: str | None = None) -> list[tuple[str, Scalar]]:
        listed = self.as_list(node, what, hint)
        texts: list[tuple[str, Scalar]] = []
        for item in listed.items if listed else ():
            text = self.string(item, member, None if isinstance(item, Scalar) else hint)
            if text is None:
                continue
            assert isinstance(item, Scalar)
            if any(text == earlier for earlier, _ in texts):
                self.wrong(item, f"{member} `{text}` appears twice", "remove one", code="NAME_TAKEN")
                continue
            texts.append((text, item))
        return texts

    def boolean(self, node: Node, what: str) -> bool | None:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        meant = _BOOLEANS.get(node.value.lower()) if isinstance(node, Scalar) and isinstance(node.value, str) else None
        hint = f"write `{meant}`" if meant else "write `true` or `false`"
        self.wrong(node, f"{what} is {kind_of(node)}, not a boolean", hint)
        return None

    def known_keys(
        self,
        node: MapNode,
        allowed: Sequence[str],
        what: str,
        elsewhere: Mapping[str, str] | None = None,
        place: ForeignPlace | None = None,
    ) -> dict[str, Node]:
        """The entries with a known key; other keys are reported. `elsewhere`: hints for keys that belong elsewhere;
        `place`: where words of other tools have hints.

        A misspelt key is read as the key that it resembles, so that this key is not reported as missing.
        """
        known: dict[str, Node] = {}
        guessed: dict[str, Node] = {}
        for key, value in node.entries:
            if key.value in allowed:
                known[key.value] = value
            elif self.problems.is_full:
                self.problems.count_failure()
            else:
                hint, meant, value = _unknown_key(key, value, allowed, elsewhere or {}, place)
                self.problems.add(key.place, "UNKNOWN_KEY", f"{what} has no key `{key.value}`", hint)
                if meant is not None and node.get(meant) is None and meant not in guessed:
                    guessed[meant] = value
                    self.problems.suppress_at(value.place)  # a value that does not fit is the same mistake
        return {**known, **guessed}

    def name(self, key: Scalar, what: str) -> bool:
        """Whether the key may be the name of an input, loop, job, output or import."""
        if len(key.value) > MAX_NAME:
            hint = f"names have up to {MAX_NAME} characters"
        elif not NAME.fullmatch(key.value):
            hint = "names are letters, digits and `_`, and do not begin with a digit"
            fixed = re.sub(r"[^A-Za-z0-9_]+", "_", key.value).strip("_")
            if NAME.fullmatch(fixed) and not keyword.iskeyword(fixed):
                hint += f": `{fixed}`"
        elif keyword.iskeyword(key.value):
            hint = f"it is a word of the expression language; try `{key.value}_`"
        else:
            return True
        self.problems.add(key.place, "NAME_INVALID", f"`{key.value}` cannot be the name of {what}", hint)
        return False

    def type(self, node: Node, what: str) -> Type | None:
        text = self.string(node, what)
        if text is None:
            return None
        match = _TYPE.fullmatch(text.strip())
        if match is None or match[1] not in BASE_TYPES:
            base = match[1] if match else text.partition("[")[0]
            from whyrun.workflow.foreign_words import foreign_words

            hint = "an array of strings is a `string[]`" if base in _OTHER_ARRAYS else None
            if (foreign := foreign_words("type").get(base)) is not None:
                hint = foreign.hint if base == text else f"write `{foreign.ours}{text.removeprefix(base)}`"
            brackets = match[2] if match else ""
            known = [f"{type_}{brackets}" for type_ in BASE_TYPES]
            self.wrong(node, f"there is no type `{text}`", hint or did_you_mean(f"{base}{brackets}", known))
            return None
        depth = len(match[2]) // 2
        if depth > MAX_ARRAY_DEPTH:
            self.wrong(node, f"`{text}` nests arrays deeper than {MAX_ARRAY_DEPTH}", "use `json`")
            return None
        return Type(match[1], depth)

    def duration(self, node: Node, what: str, *, zero: bool = False) -> float | None:
        seconds: float | None = None
        if isinstance(node, Scalar):
            if isinstance(node.value, int | float) and not isinstance(node.value, bool):
                seconds = float(node.value)
            elif isinstance(node.value, str):
                seconds = parse_duration(node.value)
        if seconds is None:
            words = _DURATION_IN_WORDS.fullmatch(node.text) if isinstance(node, Scalar) else None
            hint = "write `30s`, `5m`, `1h30m`, or a number of seconds"
            self.wrong(node, f"{what} is not a duration", f"write `{words[1]}{words[2]}`" if words else hint)
            return None
        if seconds < 0 or (seconds == 0 and not zero) or seconds > _MAX_DURATION:
            self.wrong(
                node, f"{what} is not between 0 and a year", "write `30s`, `5m`, `1h30m`, or a number of seconds"
            )
            return None
        return seconds


def is_name(text: str) -> bool:
    return len(text) <= MAX_NAME and bool(NAME.fullmatch(text)) and not keyword.iskeyword(text)


def _unknown_key(
    key: Scalar, value: Node, allowed: Sequence[str], elsewhere: Mapping[str, str], place: ForeignPlace | None
) -> tuple[str | None, str | None, Node]:
    """The hint, the key that was probably meant, and its value."""
    name = key.value
    if name == "<<":
        return "merge keys are not read: write the keys out", None, value
    if name in elsewhere:
        return elsewhere[name], None, value
    if place is not None:
        from whyrun.workflow.foreign_words import foreign_words  # imported late, as everything that only errors need

        foreign = foreign_words(place).get(name)
        if foreign is not None:
            # A list or map of another tool has a form of its own, and what it contains is no mistake.
            same_form = isinstance(value, Scalar) or meant_key(name, allowed) == foreign.ours
            return foreign.hint, foreign.ours or None if same_form else None, value
    without = without_colon(name, allowed)
    if without is not None and isinstance(value, Scalar) and value.value is None:
        start, text = value.start, without[1]
        return f"write `{without[0]}: {text}`", without[0], Scalar(value.source, start, start, 1, text, text)
    return did_you_mean(name, allowed), meant_key(name, allowed), value


def without_colon(text: str, keys: Sequence[str]) -> tuple[str, str] | None:
    """`type string` and `type:string` → the key and its value: YAML wants a colon and a blank between them."""
    match = _NO_COLON.fullmatch(text)
    return (match[1], match[2]) if match is not None and match[1] in keys else None


def meant_key(written: str, allowed: Sequence[str]) -> str | None:
    """The key that a misspelt one resembles."""
    from difflib import get_close_matches  # imported late: only errors need it

    near = get_close_matches(written, allowed, n=1, cutoff=0.6)
    return near[0] if near else None


def in_list(node: Node, example: str) -> str:
    """A text where a list is due, as a list with this text; else a list with an example."""
    given = isinstance(node, Scalar) and isinstance(node.value, str) and bool(NAME.fullmatch(node.value))
    return f"[{node.text}]" if isinstance(node, Scalar) and given else f"[{example}]"


def example_of_type(text: str) -> str | None:
    """How a type is written in `{type: …}`, if the text is one."""
    match = _TYPE.fullmatch(text)
    if match is None or match[1] not in BASE_TYPES:
        return None
    return f'"{text}"' if match[2] else text


def parse_duration(text: str) -> float | None:
    """`1h30m` → 5400.0"""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        return None
    return sum(float(number) * unit for number, unit in zip(match.groups(), _UNITS, strict=True) if number)


def path_problem(path: str) -> str | None:
    """Why a published path or code pattern is not allowed, or None. It must stay inside the project folder.

    Paths that are known only after evaluation are checked with it, too.
    """
    if not path or path != path.strip():
        return "it is empty, or begins or ends with a space"
    # Most paths are printable ASCII, and need no expression that takes 0.2 ms to compile.
    if "\\" in path if path.isascii() and path.isprintable() else _NOT_IN_PATHS.search(path):
        return "it has a character that paths cannot have"
    if SECTION_MARK in path:
        return f"`{SECTION_MARK}` separates a shared file from the key of a section"
    if path.startswith(("/", "~")) or _DRIVE.match(path):
        return "it is not relative to the project folder"
    parts = path.split("/")
    if ".." in parts:
        leaves = posixpath.normpath(path).startswith("..")
        return "it leaves the project folder" if leaves else "it has `..` in it: write the path that is meant"
    if any(len(part.encode(errors="surrogatepass")) > LONGEST_NAME for part in parts):
        return f"a name in it is longer than {LONGEST_NAME} bytes"
    if len(path.encode(errors="surrogatepass")) > LONGEST_PATH:
        return f"it is longer than {LONGEST_PATH:,} bytes"
    if posixpath.normpath(path) == ".":
        return "it is the project folder itself"
    if parts[0] == ".whyrun" or posixpath.normpath(path).split("/")[0] == ".whyrun":
        return "`.whyrun` holds Whyrun's own state"
    return None
