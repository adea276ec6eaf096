"""Secrets of a step: put in place where `{"$secret": …}` stands, and taken out of everything that is written down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from whyrun.execution.failure import StepError

SHORTEST = 4  # characters; a shorter value stands in harmless text too, so it cannot be taken out of logs
MASK = "***"


class SecretMissing(Exception):
    """A step refers to a secret whose value did not come with it."""


def with_secrets(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with every `{"$secret": NAME, "format": "Bearer {}"}` replaced."""
    if isinstance(value, dict):
        if "$secret" in value:
            name = value["$secret"]
            if name not in secrets:
                raise SecretMissing(f"the value of the secret `{name}` did not reach the step")
            return str(value.get("format", "{}")).replace("{}", secrets[name])
        return {key: with_secrets(member, secrets) for key, member in value.items()}
    if isinstance(value, list):
        return [with_secrets(member, secrets) for member in value]
    return value


def check_secrets(secrets: Mapping[str, str]) -> None:
    """Refuse what could not be kept out of our files. An empty value hides nothing."""
    for name, value in secrets.items():
        if 0 < len(value.strip()) < SHORTEST:
            message = f"the secret `{name}` has fewer than {SHORTEST} characters: so short a text cannot be kept out "
            raise StepError("SecretTooShort", message + "of logs and outputs; use a longer one")


class Redactor:
    """Takes secret values out of text, by value, also where they stand in JSON, in a `repr` or in a URL."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        found = {value for whole in secrets.values() for value in (whole, whole.strip()) if len(value) >= SHORTEST}
        found |= {spelling for value in found for spelling in _spellings(value)}
        # The longest first, so that one secret inside another leaves no rest.
        self._values = sorted(found, key=lambda value: (-len(value), value))
        self._bytes = [value.encode("utf-8", "surrogateescape") for value in self._values]

    def __bool__(self) -> bool:
        return bool(self._values)

    def text(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, MASK)
        return text

    def data(self, data: bytes) -> bytes:
        for value in self._bytes:
            data = data.replace(value, MASK.encode())
        return data

    def json(self, value: Any) -> Any:
        if not self._values:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.json(key): self.json(member) for key, member in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.json(member) for member in value]
        return value

    def found_in(self, data: bytes) -> bool:
        return any(value in data for value in self._bytes)


def _spellings(value: str) -> set[str]:
    from urllib.parse import quote, quote_plus  # only steps with secrets need it

    data = value.encode("utf-8", "surrogateescape")
    spellings = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    return spellings | {ascii(value)[1:-1], quote(data), quote(data, safe=""), quote_plus(data)}


NOTHING_SECRET = Redactor({})
