"""Folds results that one step has taken from another. Pure."""

from __future__ import annotations

from whyrun.snapshot.index import output_name, split_step
from whyrun.snapshot.records import Attempt


def move_result(source: Attempt, from_step: str, attempt: Attempt, step: str) -> None:
    """A step reuses a result, of itself or of another step. Where both are instances of one job, it stays the same
    result, and adopted and kept bytes stay what they are: they count for one instance."""
    (job, then), (own_job, now) = split_step(from_step), split_step(step)
    if job != own_job:
        return
    attempt.maker = "" if (source.maker or from_step) == step else source.maker or from_step
    head = f"Artifact:{job}."
    apart: dict[str, tuple[int, str]] = {}
    for artifact, origin in source.own_sources.items():
        name, rest = output_name(artifact.removeprefix(head))
        apart[f"{head}{name}{now}{rest.removeprefix(then)}"] = origin
    attempt.apart = apart or None
