"""The artifacts that a step records: each declared output and leaf, and each element of an output that is an array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from whyrun.execution.recording.publisher import published_path
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.tables import JobTable
from whyrun.workflow import arrays
from whyrun.workflow.model import FILE_TYPES


class HasValue(Protocol):
    @property
    def value(self) -> Any: ...


class RecordedArtifact(msgspec.Struct, frozen=True):
    artifact: int  # the column of its table
    id: str
    suffix: str
    site: str | None  # where it is published


def recorded_artifacts(table: JobTable, position: int, made: Mapping[str, HasValue]) -> dict[str, RecordedArtifact]:
    """By key, in the order in which events record them: the elements of an array before its list, so that a log that
    ends between them has no list without its elements. `made`: what the step has made; it names the elements."""
    found: dict[str, RecordedArtifact] = {}
    for a, spec in enumerate(table.artifacts):
        key, id_, site = spec.key_at(position), table.artifact_id(a, position), published_path(table, a, position)
        if key not in made:
            continue
        for element in arrays.elements_of(made[key].value) if arrays.is_array(spec.type) else ():
            path = None if site is None else arrays.published_path(site, element, spec.type)
            suffix = element.suffix if arrays.element_type(spec.type) in FILE_TYPES else ""
            found[key + element.text] = RecordedArtifact(a, id_ + element.text, suffix, path)
        own = None if arrays.is_array(spec.type) else site
        found[key] = RecordedArtifact(a, id_, recorded_suffix(table, a), own)
    return found
