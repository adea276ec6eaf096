"""What must not leave the machine in an export: absolute paths, the host and process numbers, in any text of a log.

Secrets are not in a log. `registry.py` refuses an export that has the value of one all the same. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

# In quotes a path may have blanks; elsewhere it ends before one. Not a URL, the `/` of `1/2` or `and/or`, or `</b>`.
_QUOTED = re.compile(r"""(["'`])/[^"'`\n]*\1""")
_PLAIN = re.compile(r"</[A-Za-z][\w-]*>|(?<![\w./…~*%@+-])/(?:[\w.@+~%,*-]+/)*[\w.@+~%,*-]+/?")
_HOME = re.compile(r"(?<![\w/])~/(?:[\w.@+~%,*-]+/)*[\w.@+~%,*-]+")
_FILE_URL = re.compile(r"\bfile://[^\s\"'`<>]+")
_WINDOWS = re.compile(r"\b[A-Za-z]:\\[^\s\"'`<>|]+")
_PROCESS = re.compile(r"\b(pid|PID|process)([ =:]{1,2})[0-9]+\b")
# XML, Markdown viewers and terminals take none of these; tabs and line ends stay.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
HIDDEN_HOST = "(host)"


class Cleaner:
    """Cleans texts of one run. `folder`: of the project, of which paths are written relative."""

    def __init__(self, folder: str, host: str) -> None:
        self._folder = folder.rstrip("/")
        self._own = re.compile(rf"(?<![\w.]){re.escape(self._folder)}(?:/(?P<below>(?=[\w.]))|/?(?![\w./-]))")
        host = host if host not in ("", "localhost") else ""
        self._host = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])") if host else None
        self.text: Callable[[str], str] = lru_cache(maxsize=4096)(self._text)

    def _text(self, text: str) -> str:
        text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
        if self._folder:
            text = self._own.sub(lambda found: "." if found["below"] is None else "", text)
        for pattern in (_FILE_URL, _QUOTED, _PLAIN, _HOME, _WINDOWS):
            text = pattern.sub(_last_part, text)
        text = _PROCESS.sub(r"\1\2…", text)
        return text if self._host is None else self._host.sub(HIDDEN_HOST, text)

    def json(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.json(member) for key, member in value.items()}
        return [self.json(member) for member in value] if isinstance(value, list | tuple) else value


def _last_part(found: re.Match[str]) -> str:
    """`…/name`: the name of a file says something, the folders only where it was."""
    text = found[0]
    if text.startswith("</"):
        return text  # the end of an element
    quote = text[0] if text[0] in "\"'`" else ""
    name = re.split(r"[/\\]", text.strip(quote).rstrip("/\\") if quote else text.rstrip("/\\"))[-1]
    return f"{quote}…/{name}{quote}"


def cut(text: str, most: int) -> str:
    """At most so many characters, with a mark where something is missing."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
