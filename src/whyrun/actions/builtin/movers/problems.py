"""What can go wrong between a step and a server. Each says what, where, and what next; none repeats a password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyrun.actions.builtin.data.problems import DataError


class ConnectionUnusable(DataError):
    """A connection has fields that mean nothing here, or values that cannot be."""


class ConnectionFailed(DataError):
    """The server does not answer, or does not let us in."""


class LoadRefused(DataError):
    """The table is not there, is there already, or does not fit the data: nothing was written."""


class LoadFailed(DataError):
    """The server refused rows: nothing was written."""


_HIDDEN = "***"


def without_password(text: str, connection: Mapping[str, Any]) -> str:
    """The worker redacts too; but here it is known what must not be told, however short it is."""
    password = connection.get("password")
    if password is None or str(password) == "":
        return text
    return text.replace(str(password), _HIDDEN)


def state(sqlstate: str | None) -> str:
    return f" (SQLSTATE {sqlstate})" if sqlstate else ""
