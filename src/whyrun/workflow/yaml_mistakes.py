"""Where YAML cannot be read: the line that caused it, and what to write instead.

The parser stops where it cannot go on, which is often a line after the mistake, and its message names tokens. Imported
late: only a file with a syntax error needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from whyrun.workflow.nodes import Source

_VALUE_BEFORE = re.compile(
    r"[^\s,{}\[\]:\"'][^,{}\[\]:\"']*(?<!\s)\Z"
)  # up to the bracket at which the YAML parser stops
_EXPRESSION_AFTER = re.compile(r"\{\{.*?\}\}[^,{}\[\]]*")
_BRACKETS_AFTER = re.compile(r"(?:\[[^\]]*\])+")
# `{{ inputs.Topic }}` and `${ inputs.Topic }`, as other tools write expressions. `${name}` may belong to a script.
_FOREIGN_EXPRESSION = re.compile(
    r"(?<!\$)\{\{ *([A-Za-z_][^{}\n]*?) *\}\}|\$\{(?: +(?=\w+ )| *(?=(?:inputs|jobs|secrets)\.))([^{}\n]*?) *\}"
)
_KEY_ALONE = re.compile(r"[ ]*([A-Za-z_][\w-]*)\s*")
_KEY_AND_VALUE = re.compile(r"[ ]*([A-Za-z_][\w-]*)(:| +)((?!:)\S(?:(?!: ).)*)")
_FLOW_KEY_BEFORE = re.compile(r"(?<=[{,])\s*([A-Za-z_][\w-]*) +\Z")
_KEY_BEFORE_FLOW = re.compile(r"[ ]*([A-Za-z_][\w-]*) +([\[{].*)")
_INDENTED = "indent with spaces; check the line before, too"
_QUOTES = "put a value that contains `: ` in quotes"


class Mistake(NamedTuple):
    start: int
    end: int
    message: str
    hint: str


def syntax_mistake(source: Source, problem: Any) -> Mistake:
    """`problem`: the parser's, with its marks."""
    text = source.text
    mark = problem.problem_mark or problem.context_mark
    at = mark.index if mark is not None else 0
    message = problem.problem or problem.context or "this is not valid YAML"
    begin = problem.context_mark.index if problem.context_mark is not None else at
    if problem.context and problem.problem:
        message += f" {problem.context}"
        if source.place(begin, begin).line != source.place(at, at).line:
            message += f" that starts in line {source.place(begin, begin).line}"
    found = foreign_expression(text, at) or _missing_colon(text, at, begin, message)
    if found is not None:
        return found
    unquoted = _unquoted_value(text, at)
    if unquoted is not None:
        start, end = unquoted
        return Mistake(start, end, message, f'put quotes around it: `"{text[start:end]}"`')
    if "quoted scalar" in message and "end of stream" in message:
        return Mistake(begin, begin + 1, "this quote is not closed", f"close it with `{text[begin]}`")
    return Mistake(at, at + 1, message, _hint(source, at, begin, message))


def foreign_expression(text: str, at: int) -> Mistake | None:
    """`{{ inputs.X }}` or `${ inputs.X }` around a position. YAML reads its braces as maps."""
    for match in _FOREIGN_EXPRESSION.finditer(text, *_line_at(text, at)):
        if match.start() <= at < match.end():
            message = f"`{match[0]}` is not an expression: YAML reads its braces as a map"
            return Mistake(*match.span(), message, f'write `"${{{{ {match[1] or match[2]} }}}}"`, in quotes')
    return None


def _hint(source: Source, at: int, begin: int, message: str) -> str:
    text, character = source.text, source.text[at : at + 1]
    if character == "\t":
        return "YAML is indented with spaces, not tabs"
    if "alias" in message or "anchor" in message:
        return "put a value that begins with `*` or `&` in quotes"
    if "cannot start any token" in message:
        return f"put a value that begins with `{character}` in quotes"
    if "unknown escape" in message:
        return "in double quotes `\\` begins an escape: use single quotes"
    if "scanning a block scalar" in message:
        return f"begin the text in the line below `{text[begin]}`, or put the value in quotes"
    if "flow" in message and "\n" in text[begin:at]:
        closing = {"[": "]", "{": "}"}.get(text[begin], "}")
        return f"close the `{text[begin]}` of line {source.place(begin, begin).line} with `{closing}`"
    if "expected key" in message and text[at - 1 : at] in ("'", '"') and not character.isspace():
        inner = "`''`" if text[at - 1] == "'" else '`\\"`'
        return f"the quote before it ends the text: inside the quotes, write {inner} for it"
    if "mapping values" in message:
        start, _ = _line_at(text, at)
        before = _line_before(text, start)
        if before is not None and ":" not in text[start:at] and _indent(text, (start, at)) > _indent(text, before):
            return "indent it like the line before, or end that line with `:` and nothing after it"
        return _QUOTES
    return _INDENTED


# --- a missing colon ---------------------------------------------------------------------------------------------
#
# Without its colon a line is a text, and the next lines continue it until one of them has a colon.


def _missing_colon(text: str, at: int, begin: int, message: str) -> Mistake | None:
    inside = _FLOW_KEY_BEFORE.search(text, 0, at) if "flow mapping" in message and text[at : at + 1] in "[{" else None
    if inside is not None:  # `{Topic {type: string}}`
        return _colon(inside.start(1), inside.end(1), f"{inside[1]}:", text)
    for line in _suspects(text, at, begin, message):
        flow = _KEY_BEFORE_FLOW.fullmatch(text, *line)
        alone = _KEY_ALONE.fullmatch(text, *line)
        pair = _KEY_AND_VALUE.fullmatch(text, *line)
        start, end = line[0] + _indent(text, line), line[1]
        if flow is not None:
            return _colon(start, flow.end(1), f"{flow[1]}:", text)
        if alone is not None:
            return _colon(start, alone.end(1), f"{alone[1]}:", text)
        if pair is not None:
            return _colon(start, end, f"{pair[1]}: {pair[3]}", text)
    return None


def _colon(start: int, end: int, meant: str, text: str) -> Mistake:
    written = text[start:end].rstrip()
    lacks = (
        "a blank is missing after the colon"
        if ":" in written
        else f"a colon is missing after `{meant.partition(':')[0]}`"
    )
    return Mistake(start, start + len(written), f"{lacks}: YAML reads this line as text", f"write `{meant}`")


def _suspects(text: str, at: int, begin: int, message: str) -> Iterator[tuple[int, int]]:
    """The spans of the lines that may lack a colon."""
    here = _line_at(text, at)
    if "simple key" in message:
        yield _line_at(text, begin)
    elif "mapping values" in message and ":" not in text[here[0] : at]:
        line = _line_before(text, here[0])
        before = _line_before(text, line[0]) if line is not None else None
        continues = (
            line is not None
            and before is not None
            and _indent(text, before) < _indent(text, line)
            and not text[slice(*before)].rstrip().endswith(":")
        )  # a text over several lines
        if line is not None and not continues:
            yield line
    elif "expected key" in message and _KEY_BEFORE_FLOW.fullmatch(text, *here) is not None:
        yield here


def _line_at(text: str, at: int) -> tuple[int, int]:
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if end < 0 else end


def _line_before(text: str, start: int) -> tuple[int, int] | None:
    """The span of the nearest line above that is not empty, and no comment."""
    while start > 0:
        line = _line_at(text, start - 1)
        if (content := text[slice(*line)].strip()) and not content.startswith("#"):
            return line
        start = line[0]
    return None


def _indent(text: str, line: tuple[int, int]) -> int:
    written = text[slice(*line)]
    return len(written) - len(written.lstrip(" "))


# --- values without quotes ---------------------------------------------------------------------------------------


def _unquoted_value(text: str, at: int) -> tuple[int, int] | None:
    """The span of a value like `file[]` or `${{ … }}` that has no quotes inside `{}` or `[]`.

    YAML reads the bracket as the start of another list or map, so its parser stops there.
    """
    line_start, line_end = _line_at(text, at)
    if text[at - 1 : at].isspace():
        return None
    before = _VALUE_BEFORE.search(text, line_start, at)
    pattern = _EXPRESSION_AFTER if text[at - 1 : at + 2] == "${{" else _BRACKETS_AFTER
    after = pattern.match(text, at, line_end)
    if before is None or after is None:
        return None
    return before.start(), at + len(after[0].rstrip())
