"""Reads scripts of `shell` as far as needed to tell, before anything runs, that one takes JSON text for a file name.

A `json` binding arrives as its text, a fan-in of them as an array of texts. Whoever expects paths, as of a fan-in of
files, would learn it only after the jobs upstream have run. Only commands that are certain to read files count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from whyrun.lazy_regex import lazy_regex

_QUOTED = lazy_regex(r"'[^']*'")
_COMMENT = lazy_regex(r"(?m)(?:^|(?<=\s))#.*$")
_COMMAND_START = r"(?:^|[;&|(){}`!]|\b(?:do|then|else|if|while|until|time|exec)\b)\s*"
_READERS = r"(?:cat|tac|head|tail|wc|sort|uniq|paste|cp|mv|ln|gzip|zcat|source)"
_JQ_TAKES_VALUES = lazy_regex(r"--(?:json)?args\b|--null-input\b|\s-[a-zA-Z]*n")


def json_as_files(script: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(name, command) for each of these variables that the script gives to a command as a file name."""
    text = _COMMENT.sub("", _QUOTED.sub("''", script.replace("\\\n", " ")))
    for name in names:
        if name not in text:
            continue
        aliases = [re.escape(name)]
        for loop in re.finditer(rf"\bfor\s+(\w+)\s+in\s[^;\n]*{_variable(aliases)}", text):
            aliases.append(loop[1])
        found = next(_uses(text, _variable(aliases)), None)
        if found is not None:
            yield name, " ".join(found.split())


def _variable(names: list[str]) -> str:
    either = "|".join(names)
    return rf"\"?\$(?:\{{(?:{either})(?:\[[@*0-9]+\])?\}}|(?:{either})\b)\"?(?=[\s;|&)<>]|$)"


def _uses(text: str, variable: str) -> Iterator[str]:
    for found in re.finditer(rf"(?<![<&0-9])<(?![<&(])\s*{variable}", text):
        yield found[0]
    given = rf"(?<!<<<)(?<!\s-[a-zA-Z])\s{variable}"  # no here-string, and no value of an option
    for command in re.finditer(rf"(?m){_COMMAND_START}({_READERS}\b[^;&|)\n]*)", text):
        if re.search(given, command[1]):
            yield command[1]
    for command in re.finditer(rf"(?m){_COMMAND_START}(jq\b[^;&|)\n]*)", text):
        words = re.sub(r"--arg(?:json)?\s+\S+\s+\S+", "", command[1])
        if not _JQ_TAKES_VALUES.search(words) and re.search(given, words):
            yield command[1]
