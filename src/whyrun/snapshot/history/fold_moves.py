"""Folds results that one step has taken from another. Pure."""

from __future__ import annotations

from whyrun.snapshot.index import head_of_artifacts, output_name, split_step
from whyrun.snapshot.records import Attempt


def move_result(source: Attempt, from_step: str, attempt: Attempt, step: str) -> None:
    """A step reuses a result, of itself or of another step. Where both are instances of one job, it stays the same
    result, and adopted and kept bytes stay what they are: they count for one instance."""
    (job, text), (own_job, own_text) = split_step(from_step), split_step(step)
    if job != own_job:
        return
    maker = source.maker or from_step
    attempt.maker = "" if maker == step else maker
    (head, then), (own_head, now) = head_of_artifacts(job, text), head_of_artifacts(job, own_text)
    apart: dict[str, tuple[int, str]] = {}
    for artifact, origin in source.own_sources.items():
        name, rest = output_name(artifact.removeprefix(head))
        apart[f"{own_head}{name}{now}{rest.removeprefix(then)}"] = origin
    attempt.apart = apart or None
