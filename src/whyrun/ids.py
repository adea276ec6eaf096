"""Canonical IDs: the only names of inputs, jobs and artifacts.

    Kind ":" {segment "/"} segment {"." segment}        segment = name {"[" index "]"}

This module alone turns text into a structured ID and back; nothing else takes an ID apart. Each ID has exactly one
spelling: `parse_id` refuses any text that the parsed value would not be written as.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Literal

import msgspec

from whyrun.errors import WhyrunError, error
from whyrun.lazy_regex import lazy_regex

Kind = Literal["Input", "Job", "Artifact"]
Index = int | float | str

_NAME = lazy_regex(r"[A-Za-z_][A-Za-z0-9_-]*")
_FIELD = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*")
_KIND = lazy_regex(r"(?:Input|Job|Artifact):")
_BARE = lazy_regex(r"[A-Za-z0-9_.+-]+")
_INTEGER = lazy_regex(r"-?[0-9]+")
_NUMBER = lazy_regex(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|nan|infinity)", re.IGNORECASE)
# Words that begin with a letter and are no number, one a line.
_WORDS = lazy_regex(r"(?:(?!(?i:inf|nan|infinity)(?:\n|\Z))[A-Za-z_][A-Za-z0-9_.+-]*(?:\n|\Z))+")
_STAR = lazy_regex(r"(?<![^./\[])\*(?![^./\[\]])")  # a whole name or index, not a star inside a quoted one
_INDEX_TEXT = r'\[(?:"(?:[^"\\]|\\.)*"|[^\[\]"]+)\]'
_INDEX = lazy_regex(_INDEX_TEXT)
_PIECE = lazy_regex(rf"([^./\[]+)((?:{_INDEX_TEXT})*)([./]?)")
_NUMBERED = lazy_regex(r"\[(-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)\]")
_FILE_NAME_LIMIT = 200
_SHOWN = 300  # characters of an ID in a message
_PLAIN_PATH = lazy_regex(r"[A-Za-z0-9_.~\-\[\]/]*")
_NAME_TEXT = r"[A-Za-z_][A-Za-z0-9_-]*"
_WHOLE_OUTPUT = lazy_regex(
    rf"Artifact:(?:{_NAME_TEXT}(?:{_INDEX_TEXT})*/)*{_NAME_TEXT}\.({_NAME_TEXT})(?:{_INDEX_TEXT})*"
)
_IN_TEXT = lazy_regex(
    rf"(?<!\w)(?:Input|Job|Artifact):{_NAME_TEXT}(?:{_INDEX_TEXT})*(?:[./]{_NAME_TEXT}(?:{_INDEX_TEXT})*)*"
)
_FOLDER = lazy_regex(rf"(?:{_NAME_TEXT}(?:{_INDEX_TEXT})*/)*")


class _OpenIndex(str):
    """The type of `OPEN`. Equal to itself only, so that no dict takes it for the string `?`."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = str.__hash__


OPEN: Index = _OpenIndex("?")  # `Job:Clip[?]`: all instances of a loop whose values are not known yet


class Segment(msgspec.Struct, frozen=True):
    name: str
    indices: tuple[Index, ...] = ()

    def __str__(self) -> str:
        return self.name + format_indices(self.indices)


class CanonicalId(msgspec.Struct, frozen=True):
    kind: Kind
    imports: tuple[Segment, ...]
    segments: tuple[Segment, ...]

    def __str__(self) -> str:
        return f"{self.kind}:{self.path}"

    @property
    def path(self) -> str:
        """The ID without its kind."""
        return self.folder + ".".join(map(str, self.segments))

    @property
    def folder(self) -> str:
        """Its imports, with their indices: `Video[ada]/`."""
        return "".join(f"{each}/" for each in self.imports)

    @property
    def job(self) -> str:
        """The name of the job (or input) with its imports: `Intro/Script`."""
        return "".join(f"{each.name}/" for each in self.imports) + self.segments[0].name

    def indices_of(self, segment: Segment) -> tuple[Index, ...]:
        """The indices of its imports, then those of one of its segments: a row of the job's table."""
        return tuple(index for each in (*self.imports, segment) for index in each.indices)


def format_index(index: Index) -> str:
    """One index as it stands between brackets."""
    if isinstance(index, bool):
        raise TypeError("a boolean cannot be an index")
    if isinstance(index, int):
        return str(index)
    if isinstance(index, float):
        return repr(index)
    if index is OPEN:
        return "?"
    if _BARE.fullmatch(index) and not _NUMBER.fullmatch(index):
        return index
    return json.dumps(index, ensure_ascii=False)


def format_indices(indices: Sequence[Index]) -> str:
    return "".join(f"[{format_index(i)}]" for i in indices)


def part_id(id_: str, key: Index) -> str:
    """The ID of a field of a JSON value, or of an item of a list in it: `Input:Settings.size`, `Input:Settings[0]`."""
    return f"{id_}.{key}" if isinstance(key, str) and _FIELD.fullmatch(key) else f"{id_}[{format_index(key)}]"


def format_words(indices: Sequence[Index]) -> list[str]:
    """Many indices, each as `format_index` writes it. Plain words, which most texts are, need no look at each."""
    if set(map(type, indices)) == {str}:
        text = "\n".join(indices)  # type: ignore[arg-type]  # all are str
        if text.count("\n") == len(indices) - 1 and _WORDS.fullmatch(text):
            return list(indices)  # type: ignore[arg-type]  # likewise
    return list(map(format_index, indices))


def parse_id(text: str) -> CanonicalId:
    """The structured ID, or `NAME_INVALID`: short names, wrong case and second spellings are refused."""
    parsed = _parse(text)
    if str(parsed) != text:
        hint = f"the one spelling is `{_short(str(parsed))}`"
        raise error("NAME_INVALID", f"`{_short(text)}` is not canonical", hint=hint)
    return parsed


def parse_id_of(kind: Kind, text: str) -> CanonicalId:
    """`parse_id`, and the kind must fit."""
    parsed = parse_id(text)
    if parsed.kind != kind:
        raise error("NAME_INVALID", f"`{_short(text)}` is not an ID of kind `{kind}`", hint=f"write `{kind}:…`")
    return parsed


def artifact_id(job: CanonicalId, output: str, leaf: str = "") -> str:
    """The artifact of a job instance: its indices follow the output's name, then comes the leaf (`.Segments[0].x`)."""
    own = job.segments[0]
    return f"Artifact:{job.folder}{own.name}.{output}{format_indices(own.indices)}{leaf}"


def output_of(artifact: str) -> str | None:
    """The name of the output in an artifact ID of an event; None for a leaf. Faster than `parse_id`."""
    found = _WHOLE_OUTPUT.fullmatch(artifact)
    return found.group(1) if found is not None else None


def whole_of(step: str, artifact: str) -> str | None:
    """The name of the output if the artifact is a whole output of this step; None for a leaf or an element."""
    folder, own = split_folder(step.partition(":")[2])
    job, bracket, indices = own.partition("[")
    name = output_of(artifact)
    return name if name is not None and artifact == f"Artifact:{folder}{job}.{name}{bracket}{indices}" else None


def job_of(artifact: str) -> str:
    """The job instance that makes an artifact: `Artifact:Clip.Frame[0].Score` → `Job:Clip[0]`."""
    parsed = parse_id_of("Artifact", artifact)
    return f"Job:{parsed.folder}{parsed.segments[0].name}{format_indices(parsed.segments[1].indices)}"


def split_folder(path: str) -> tuple[str, str]:
    """`Video[ada]/Clip[0]` → ("Video[ada]/", "Clip[0]"). Also of a pattern, and of an ID with its kind before it."""
    if "/" not in path:
        return "", path
    kind, colon, rest = path.partition(":") if _KIND.match(path) else ("", "", path)
    cut = _FOLDER.match(rest).end()  # type: ignore[union-attr]  # it matches nothing, at least
    return kind + colon + rest[:cut], rest[cut:]


def split_at_ids(text: str) -> Iterator[tuple[bool, str]]:
    """The parts of a text in their order: (whether it is an ID, part)."""
    at = 0
    for found in _IN_TEXT.finditer(text):
        yield False, text[at : found.start()]
        yield True, found[0]
        at = found.end()
    yield False, text[at:]


def without_indices(id_: str) -> str:
    """The ID of a job or an input with the names only: `Job:Video[ada]/Clip[0]` → `Job:Video/Clip`."""
    return id_.partition("[")[0] if "]/" not in id_ else _INDEX.sub("", id_)


def whole_input(id_: str) -> str:
    """The input that an element belongs to: `Input:Video[ada]/Sheet[x]` → `Input:Video[ada]/Sheet`."""
    folder, own = split_folder(id_)
    return folder + own.partition("[")[0]


def absolute(prefix: str, name: str) -> str:
    """A name of an input or job, from the root. What an import hands in keeps the name that it has there, with a `/`:
    in the files of `Video/`, `Clip` is `Video/Clip` and `/Image` is `Image`."""
    return name[1:] if name.startswith("/") else prefix + name


def place_of(name: str, levels: Sequence[int], row: Sequence[Index]) -> tuple[str, str]:
    """What comes before an output in the IDs of a job instance, and what after it: `Video[ada]/Clip`, `[0]`.

    `levels`: how many of the indices each of its imports has.
    """
    return place_of_texts(name, levels, list(map(format_index, row)))


def place_of_texts(name: str, levels: Sequence[int], texts: Sequence[str]) -> tuple[str, str]:
    """`place_of` with the indices as text, or `*` for any."""
    *imports, own = name.split("/")
    at = 0
    for number, count in enumerate(levels):
        imports[number] += "".join(f"[{text}]" for text in texts[at : at + count])
        at += count
    return "/".join([*imports, own]), "".join(f"[{text}]" for text in texts[at:])


def names_and_indices(path: str) -> tuple[str, list[str]]:
    """`Video[ada]/Clip[0]` → ("Video/Clip", ["[ada]", "[0]"])."""
    return _INDEX.sub("", path), _INDEX.findall(path)


def own_loops(names: Sequence[str]) -> list[str]:
    """The loops of a job itself, without those of imports."""
    return [name for name in names if not name.startswith("/")]


def own_name(name: str) -> str:
    """The name without those of imports, as its own file spells it."""
    return name.rpartition("/")[2]


@lru_cache(maxsize=4096)  # called several times for each step
def file_name(path: str) -> str:
    """An ID's path (`ThenImage[0]`) as one file name: percent-encoded, shortened with a hash above 200 bytes."""
    if _PLAIN_PATH.fullmatch(path) is not None:  # most paths are plain, and `quote` is slow
        name = path.replace("[", "%5B").replace("]", "%5D").replace("/", "%2F")
    else:
        from urllib.parse import quote  # imported late: most paths are plain

        name = quote(path, safe="")
    if name in (".", ".."):
        name = name.replace(".", "%2E")
    if len(name) > _FILE_NAME_LIMIT:
        digest = hashlib.sha256(path.encode()).hexdigest()[:16]
        name = f"{name[: _FILE_NAME_LIMIT - 17]}-{digest}"
    return name


def by_number(id_: str) -> tuple[list[str | int | float], str]:
    """The sort key of IDs in natural order: `Job:Fit[9]` before `Job:Fit[10]`."""
    parts: list[str | int | float] = list(_NUMBERED.split(id_))  # text and numbers alternate
    for i in range(1, len(parts), 2):
        text = str(parts[i])
        parts[i] = int(text) if _INTEGER.fullmatch(text) else float(text)
    return parts, id_


def any_index(id_: str) -> str:
    """The pattern that matches an ID and all IDs with other indices: `Job:Fit[*]`."""
    return _INDEX.sub("[*]", id_)


def shape_of(pattern: str, id_: str) -> str:
    """The pattern like this one that matches an ID with imports or more indices: `Job:*` and `Job:Fit[9]` give
    `Job:*[*]`."""
    kind, _, path = id_.partition(":")
    given, parts = pieces(pattern.partition(":")[2]), pieces(path)
    inside = sum(after == "/" for _, _, after in parts) - sum(after == "/" for _, _, after in given)
    if inside < 0:
        return any_index(id_)
    padded: list[tuple[str, list[str], str]] = [(given[0][0], [], "")] * inside + given + [("", [], "")] * len(parts)
    texts = []
    for (name, full, after), (head, indices, _) in zip(parts, padded, strict=False):
        kept = indices if len(indices) <= len(full) else []
        texts.append(("*" if head == "*" else name) + "".join(kept) + "[*]" * (len(full) - len(kept)) + after)
    return f"{kind}:{''.join(texts)}"


class IdPattern:
    """An ID in which `*` stands for a whole name or index: `Job:learn[asia][*]`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._regex: re.Pattern[str] | None = None
        kind, colon, rest = text.partition(":")
        if not _STAR.search(rest):
            parse_id(text)
            return
        if not colon or kind not in ("Input", "Job", "Artifact"):
            raise _bad(text, "it has no kind", "write `Job:…`, `Artifact:…` or `Input:…`")
        out, i = [re.escape(kind + ":")], 0
        while i < len(rest):
            if rest.startswith("[*]", i):
                out.append(_INDEX.pattern)
                i += 3
            elif _STAR.match(rest, i):
                out.append(r"[A-Za-z_][A-Za-z0-9_-]*")
                i += 1
            else:
                out.append(re.escape(rest[i]))
                i += 1
        # With a name for each star it must be an ID: this refuses `Job:*]`.
        parse_id(f"{kind}:{_STAR.sub('x', rest)}")
        self._regex = re.compile("".join(out))

    def matches(self, text: str) -> bool:
        return text == self.text if self._regex is None else self._regex.fullmatch(text) is not None

    @cached_property
    def _as_read(self) -> re.Pattern[str] | None:
        kind, _, rest = self.text.partition(":")
        stars = list(_STAR.finditer(rest))
        if not any(star.end() == len(rest) or rest[star.end()] != "]" for star in stars):
            return None  # a `*` for an index stands for one index, as everybody reads it
        name, any_indices = r"[A-Za-z_][A-Za-z0-9_-]*", f"(?:{_INDEX.pattern})*"
        out = [re.escape(kind + ":")]
        for number, (head, indices, after) in enumerate(pieces(rest)):
            in_any_folder = f"(?:{name}{any_indices}/)*" if head == "*" and number == 0 else ""
            out.append(in_any_folder + (name if head == "*" else re.escape(head)))
            out += [_INDEX.pattern if index == "[*]" else re.escape(index) for index in indices]
            out.append(any_indices + re.escape(after))
        return re.compile("".join(out))

    def reads_as(self, text: str) -> bool:
        """Whether a reader may expect the pattern to match this ID: `Job:*` reads as all jobs, with their indices and
        those of imports."""
        return self._as_read is not None and self._as_read.fullmatch(text) is not None


def pieces(path: str) -> list[tuple[str, list[str], str]]:
    """Split `Shot[0]/Picture.Image[1]` at the dots and slashes outside its indices: each name, its indices, and the
    character behind it."""
    return [(name, _INDEX.findall(indices), after) for name, indices, after in _PIECE.findall(path)]


def _is_text(value: str) -> bool:
    """Can it be encoded? Python strings can hold half of a surrogate pair, which no file can."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(text: str) -> str:
    """For a message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _bad(text: str, why: str, hint: str | None = None) -> WhyrunError:
    return error(
        "NAME_INVALID",
        f"`{_short(text)}` is not a canonical ID: {why}",
        hint=hint or "IDs look like `Job:ThenImage[0]`, `Artifact:ThenImage.Image[0]` or `Input:ThenImages[0]`",
    )


def _parse(text: str) -> CanonicalId:
    kind, colon, rest = text.partition(":")
    if not colon or kind not in ("Input", "Job", "Artifact"):
        raise _bad(text, "it has no kind", "write `Job:…`, `Artifact:…` or `Input:…`")
    position = 0
    imports: list[Segment] = []
    segments: list[Segment] = []
    while True:
        match = _NAME.match(rest, position)
        if match is None:
            due = f"a name is missing at `{_short(rest[position:])}`"
            raise _bad(text, due if position < len(rest) else "it ends early")
        position = match.end()
        indices: list[Index] = []
        while rest.startswith("[", position):
            index, position = _parse_index(text, rest, position + 1)
            indices.append(index)
        if rest.startswith("/", position):
            if segments:
                raise _bad(text, "imports come before the first name")
            imports.append(Segment(match.group(), tuple(indices)))
            position += 1
            continue
        segments.append(Segment(match.group(), tuple(indices)))
        if position == len(rest):
            return CanonicalId(kind, tuple(imports), tuple(segments))  # type: ignore[arg-type]  # checked above
        if rest[position] != ".":
            raise _bad(text, f"`{_short(rest[position:])}` is not expected")
        position += 1


def _parse_index(text: str, rest: str, position: int) -> tuple[Index, int]:
    if rest.startswith('"', position):
        try:
            value, end = json.JSONDecoder().raw_decode(rest, position)
        except ValueError:
            raise _bad(text, "a quoted index is not a JSON string") from None
        if not rest.startswith("]", end):
            raise _bad(text, "`]` is missing after a quoted index")
        if not _is_text(value):
            raise _bad(text, "a quoted index has half of a surrogate pair, which is not a character")
        return value, end + 1
    if rest.startswith("?]", position):
        return OPEN, position + 2
    match = _BARE.match(rest, position)
    if match is None or not rest.startswith("]", match.end()):
        raise _bad(text, "an index is digits, a plain word or a JSON string")
    token = match.group()
    if _INTEGER.fullmatch(token):
        if len(token) > 400:
            raise _bad(text, "an index is too long")
        return int(token), match.end() + 1
    if _NUMBER.fullmatch(token):
        number = float(token)
        if number != number or number in (float("inf"), float("-inf")):
            raise _bad(text, "an index is a finite number")
        return number, match.end() + 1
    return token, match.end() + 1


# --- published sites ----------------------------------------------------------------------------------------------

SECTION_MARK = " § "  # `path_problem` refuses it in paths, so a site splits in one way only


def site_of(path: str, section: str | None) -> str:
    """Where an artifact is published, as one text: a path, or `results/metadata.json § learn[asia][7]`."""
    return path if section is None else f"{path}{SECTION_MARK}{section}"


def split_site(site: str) -> tuple[str, str | None]:
    """The path, and the key of the section where it is one."""
    path, mark, section = site.partition(SECTION_MARK)
    return path, section if mark else None
