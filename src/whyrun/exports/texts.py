"""What must not leave the machine in an export: absolute paths, the host and process numbers, in any text of a log.

Secrets are not in a log. `registry.py` refuses an export that has the value of one all the same. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from whyrun.ids import split_at_ids

# Folders at the root of a machine. What begins otherwise, such as `/v1/images`, is a text like any other. A path of one
# of them hides its folders; in quotes it may have blanks, elsewhere it ends before one.
_ROOTS = (
    "Users", "Volumes", "boot", "data", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "nix", "opt", "private",
    "proc", "root", "sbin", "scratch", "srv", "sys", "tmp", "usr", "var",
)  # fmt: skip
_REST = r"(?:/[\w.@+~%,*-]+)+/?"
_HOME = re.compile(rf"(?<![\w/])~{_REST}")
_FILE_URL = re.compile(r"\bfile://[^\s\"'`<>]+")
_WINDOWS = re.compile(r"\b[A-Za-z]:\\[^\s\"'`<>|]+")
_PROCESS = re.compile(r"\b(pid|PID|process)([ =:]{1,2})[0-9]+\b")
# XML, Markdown viewers and terminals take none of these; tabs and line ends stay.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
HIDDEN_HOST = "(host)"


class Cleaner:
    """Cleans texts of one run. `folder`: of the project, of which paths are written relative. `others`: folders of this
    machine that hide what is below them, besides those that every machine has.

    Canonical IDs and the keys of values are names: they stay as they are, also in a text.
    """

    def __init__(self, folder: str, host: str, others: Iterable[str] = ()) -> None:
        first = [path.split("/")[1] for path in (folder, *others) if path.count("/") > 1]
        roots = "|".join(map(re.escape, sorted({*_ROOTS, *filter(None, first)})))
        quoted = re.compile(rf"""(["'`])/(?:{roots})/[^"'`\n]*\1""")
        plain = re.compile(rf"(?<![\w./…~*%@+-])/(?:{roots}){_REST}")
        self._patterns = (_FILE_URL, quoted, plain, _HOME, _WINDOWS)
        self._folder = folder.rstrip("/")
        self._own = re.compile(rf"(?<![\w.]){re.escape(self._folder)}(?:/(?P<below>(?=[\w.]))|/?(?![\w./-]))")
        host = host if host not in ("", "localhost") else ""
        self._host = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])") if host else None
        self.text: Callable[[str], str] = lru_cache(maxsize=4096)(self._text)

    def _text(self, text: str) -> str:
        text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
        return "".join(part if is_id else self._cleaned(part) for is_id, part in split_at_ids(text))

    def _cleaned(self, text: str) -> str:
        if self._folder:
            text = self._own.sub(lambda found: "." if found["below"] is None else "", text)
        for pattern in self._patterns:
            text = pattern.sub(_last_part, text)
        text = _PROCESS.sub(r"\1\2…", text)
        return text if self._host is None else self._host.sub(HIDDEN_HOST, text)

    def json(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.json(member) for key, member in value.items()}
        return [self.json(member) for member in value] if isinstance(value, list | tuple) else value

    def member(self, member: Mapping[str, Any]) -> dict[str, Any]:
        """A member of a binding: only its value is a text."""
        return {name: self.json(part) if name == "value" else part for name, part in member.items()}


def _last_part(found: re.Match[str]) -> str:
    """`…/name`: the name of a file says something, the folders only where it was."""
    text = found[0]
    quote = text[0] if text[0] in "\"'`" else ""
    name = re.split(r"[/\\]", text.strip(quote).rstrip("/\\") if quote else text.rstrip("/\\"))[-1]
    return f"{quote}…/{name}{quote}"


def cut(text: str, most: int) -> str:
    """At most so many characters, with a mark where something is missing."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
