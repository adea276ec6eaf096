"""Problems of parameters, in the words of workflow files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from whyrun.actions.problem import Problem


def plain(problems: Iterable[Problem]) -> list[Problem]:
    return [replace(p, message=str(p.message), hint=None if p.hint is None else str(p.hint)) for p in problems]
