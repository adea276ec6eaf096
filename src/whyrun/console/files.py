"""The files of a job as its lines name them: at their published path if they have one, else by their ID; with sizes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from whyrun.console.lines import SHOWN_FILES, file_text, listed, size
from whyrun.graph.graph import ArtifactAt, FirstOf, Graph, Group, InputAt, JobTable, Source
from whyrun.workflow.model import VALUE_TYPES

SizeOf = Callable[[Source], int | None]


def inputs_text(graph: Graph, groups: Iterable[Sequence[Source]], size_of: SizeOf) -> str:
    """What is read, the first few by name. Values are no files; a fan-in of thousands is not gone through."""
    names: list[str] = []
    total = 0
    for group in groups:
        for number, source in enumerate(group):
            label = _label(graph, source)
            if label is None:
                break  # the members of a fan-in are of one type
            if len(names) == SHOWN_FILES:
                total += len(group) - number
                break
            names.append(file_text(label, _size_note(source, size_of)))
            total += 1
    return listed(names, SHOWN_FILES, total)


def outputs_text(
    table: JobTable, position: int, note: Callable[[int], str], artifacts: Iterable[int] | None = None
) -> str:
    """What is written; `note` says of an artifact what stands in the brackets."""
    whole = [a for a in range(len(table.artifacts)) if not table.artifacts[a].is_leaf]
    chosen = whole if artifacts is None else [a for a in artifacts if not table.artifacts[a].is_leaf]
    return listed([file_text(output_label(table, a, position), note(a)) for a in chosen], SHOWN_FILES)


def output_label(table: JobTable, artifact: int, position: int) -> str:
    paths = table.output_of(artifact).paths
    return table.artifact_id(artifact, position) if paths is None else paths[position]


def bound_sources(table: JobTable, position: int) -> Iterator[Sequence[Source]]:
    """The sources of each binding, as far as they are certain: which candidate a `first` takes is not."""
    for slot in table.slots:
        if not slot.binding:
            continue
        term = slot.column.at(position)
        if isinstance(term, InputAt | ArtifactAt):
            yield (term,)
        elif isinstance(term, Group):
            yield term.members
        elif isinstance(term, FirstOf) and len(term.candidates) == 1:
            yield term.candidates


def _label(graph: Graph, source: Source) -> str | None:
    if isinstance(source, InputAt):
        if not source.value.type.is_path:
            return None
        return source.value.path if source.value.path is not None else source.id
    table = graph.tables[source.table]
    spec = table.artifacts[source.artifact]
    if spec.is_leaf or spec.type in VALUE_TYPES:
        return None
    return output_label(table, source.artifact, source.position)


def _size_note(source: Source, size_of: SizeOf) -> str:
    found = size_of(source)
    return "" if found is None else size(found)


def input_size(project: Path, source: InputAt) -> int | None:
    """Of a file that is there; a folder or an array has none of its own."""
    path = source.value.path
    if path is None:
        return None
    try:
        found = os.stat(project / path)
    except OSError:  # it went away since it was looked at: then its step fails, and the line needs no size
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
