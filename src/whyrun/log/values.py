"""Small values that the log itself holds, each with its hash beside it. Steps are given them, so the two must agree."""

from __future__ import annotations

from typing import Any

from whyrun.artifacts.hashing import value_sha256


def value_problem(artifact: str, value: Any, sha256: Any) -> str | None:
    try:
        if value_sha256(value) == sha256:
            return None
    except RecursionError:
        return None  # nested deeper than a step may make it; older versions let them
    return f"the value of `{artifact}` is not the one that has the recorded hash"
