"""Secrets of a step: put in place where `{"$secret": …}` stands, and taken out of everything that is written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyrun.connections.redact import MASK, NOTHING_SECRET, SHORTEST, Redactor
from whyrun.execution.failure import StepError

__all__ = ["MASK", "NOTHING_SECRET", "SHORTEST", "Redactor", "SecretMissing", "check_secrets", "with_secrets"]


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
