"""Colours on terminals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import IO

import msgspec

# Plain ANSI codes: no library is loaded for a few colours.
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


@cache
def _status_styles() -> Mapping[str, str]:
    from whyrun.console.lines import BAD, INTERRUPTED  # imported late, as below: a pipe has no colours

    done, planned = (
        dict.fromkeys(("EXECUTES", "IDENTICAL"), "green"),
        {"WOULD_EXECUTE": "yellow", INTERRUPTED: "yellow"},
    )
    return {**done, **planned, **dict.fromkeys(("SKIPS", "WOULD_SKIP"), "dim"), **dict.fromkeys(BAD, "red")}


@cache
def _code_styles() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """What finds the codes of reasons in a line, and their styles."""
    from whyrun.planning.reasons import CODES

    styles = {code: "red" if "FAIL" in code else "yellow" for code in CODES}
    return re.compile(r"(?<= )(" + "|".join(CODES) + r")(?= |$)"), styles


class Paint(msgspec.Struct, frozen=True):
    """Colours text if `on`: only on a terminal, and not if NO_COLOR or TERM=dumb is set."""

    on: bool

    @classmethod
    def for_stream(cls, stream: IO[str], environment: Mapping[str, str]) -> Paint:
        plain = environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
        return cls(stream.isatty() and not plain)

    def styled(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.on else text

    def status_line(self, text: str, status: str) -> str:
        style = _status_styles().get(status) if self.on else None
        if style is None:
            return text
        return text.replace(f"] {status} ", f"] {self.styled(status, style)} ", 1)

    def explained(self, text: str) -> str:
        """The text of `explain` or `plan`, with coloured headline, titles and first code of each line."""
        if not self.on:
            return text
        code, styles = _code_styles()
        lines = text.split("\n")
        out = [self.styled(lines[0], "bold")]
        for line in lines[1:]:
            if line and not line.startswith(" "):
                out.append(self.styled(line, "cyan"))
            else:
                out.append(code.sub(lambda m: self.styled(m.group(), styles[m.group()]), line, count=1))
        return "\n".join(out)
