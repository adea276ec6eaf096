"""What is known of the artifacts that an instance reads: available, pending or inactive. Pure.

An array is one artifact, its list. The state of an element follows from the state of the list, so that whoever answers
for artifacts (the plan, the log, a run) only has to know of lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from whyrun.graph.tables import ArtifactAt, Graph
from whyrun.ids import Index
from whyrun.workflow.arrays import Every, ListIndex
from whyrun.workflow.values import few_keys


class Available(msgspec.Struct, frozen=True):
    """An artifact whose content is known."""

    sha256: str
    value: Any = UNSET  # value outputs, leaves and lists
    suffix: str = ""  # of an element of a list: of all others the graph knows it


class NoElement(msgspec.Struct, frozen=True):
    """A list that has no element with the key that is asked for."""

    message: str


class Pending(msgspec.Struct, frozen=True):
    """An artifact that no job has made yet. `maybe`: its job may turn out to be inactive."""

    maybe: bool


ArtifactState = Available | Pending | None  # None: its job is inactive


class ArtifactStates:
    """The states of artifacts and elements, as `look` knows those of whole artifacts."""

    def __init__(self, graph: Graph, look: Callable[[ArtifactAt], ArtifactState]) -> None:
        self._graph, self._look = graph, look
        self._lists = ListIndex()

    def of(self, at: ArtifactAt) -> ArtifactState | NoElement:
        """The state of an artifact; of an element, by the state of its list."""
        state = self._look(at.whole)
        if at.element is None or isinstance(at.element, Every) or not isinstance(state, Available):
            return state
        found = self._lists.element(at.whole, state.value, at.element)
        if found is not None:
            return Available(found.sha256, found.value, found.suffix)
        there = few_keys(list(self._lists.elements(at.whole, state.value)))
        whole = self._graph.artifact_id(at.whole)
        return NoElement(f"{self._graph.artifact_id(at)} does not exist: {whole} has {there or 'no elements'}")

    def members(self, at: ArtifactAt, available: Available) -> Iterator[tuple[ArtifactAt, Available]]:
        """The members of a fan-in that a member stands for: every element of a list, or itself."""
        if not isinstance(at.element, Every):
            yield at, available
            return
        for element in self._lists.elements(at.whole, available.value).values():
            yield at._replace(element=element.key), Available(element.sha256, element.value, element.suffix)


def key_of(at: ArtifactAt) -> Index:
    """The key of an element."""
    assert at.element is not None
    return at.element
