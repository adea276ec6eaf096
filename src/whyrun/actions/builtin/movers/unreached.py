"""Why a server was not reached, in the same words wherever it is tried: in a step, or by `whyrun connections test`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyrun.actions.builtin.movers import mysql, postgres
from whyrun.actions.builtin.movers.connections import MySqlConnection, PostgresConnection


def why_unreached(family: str, fields: Mapping[str, Any], problem: BaseException) -> str | None:
    """What a step with this connection would say; None for a family that has no server."""
    if family in MySqlConnection.families:
        return MySqlConnection(fields).unreached(mysql.words(problem))
    if family in PostgresConnection.families:
        return PostgresConnection(fields).unreached(postgres.words(problem))
    return None
