"""Paths and files as lines and messages show them; for a job's file the published path, or the ID if it has none."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from whyrun.console.lines import SHOWN_FILES, count, file_text, listed, size
from whyrun.graph.tables import ArtifactAt, FirstOf, Graph, Group, InputAt, JobTable, Source
from whyrun.workflow.arrays import Every, element_type, is_array
from whyrun.workflow.model import VALUE_TYPES

# --- how lines and messages show paths: relative to the working folder, and with the sizes of files -------------------


def relative(path: str | os.PathLike[str]) -> str:
    """The path relative to the working folder if it lies below it, else the absolute path."""
    full = os.path.abspath(path)
    short = os.path.relpath(full)
    return full if short.split(os.sep)[0] == os.pardir else short


def described_files(given: Any) -> list[str]:
    """Paths, with the sizes of those that are files: `data/asia.csv (1.2MB)`; other values as text."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        given = list(given.values())
    if isinstance(given, str | os.PathLike) or not isinstance(given, list | tuple):
        given = [given]
    return [_described_file(each) for each in given]


def _described_file(given: Any) -> str:
    if not isinstance(given, str | os.PathLike):
        return str(given)
    path = os.fsdecode(given)
    try:
        return file_text(path, size(os.stat(path).st_size)) if os.path.isfile(path) else path
    except (OSError, ValueError):  # the file was just removed, or the text is not a path
        return path


# --- files ------------------------------------------------------------------------------------------------------------


SizeOf = Callable[[Source], int | None]


def inputs_text(graph: Graph, groups: Iterable[Sequence[Source]], size_of: SizeOf) -> str:
    """The input files, the first few by name. Values are left out. A fan-in of thousands is counted, not walked."""
    names: list[str] = []
    total = 0
    for group in groups:
        for number, source in enumerate(group):
            label = _label(graph, source)
            if label is None:
                break  # all members of a fan-in have the same type
            if len(names) == SHOWN_FILES:
                total += len(group) - number
                break
            names.append(file_text(label, _size_note(source, size_of)))
            total += 1
    return listed(names, SHOWN_FILES, total)


def outputs_text(
    table: JobTable, position: int, note: Callable[[int], str], artifacts: Iterable[int] | None = None
) -> str:
    """The output files; `note` returns the text in brackets for an artifact."""
    whole = [a for a in range(len(table.artifacts)) if not table.artifacts[a].is_leaf]
    chosen = whole if artifacts is None else [a for a in artifacts if not table.artifacts[a].is_leaf]
    return listed([file_text(output_label(table, a, position), note(a)) for a in chosen], SHOWN_FILES)


def made_note(table: JobTable, position: int, artifact: int, sizes: Mapping[str, int]) -> str:
    """How large an output is; of an array, also how many elements it has. `sizes`: by key."""
    spec = table.artifacts[artifact]
    key = spec.key_at(position)
    if not is_array(spec.type):
        return size(sizes[key])
    parts = [of_part for name, of_part in sizes.items() if name.startswith(f"{key}[")]
    return f"{count(len(parts), 'element')}, {size(sum(parts))}"


def output_label(table: JobTable, artifact: int, position: int) -> str:
    paths = table.output_of(artifact).paths
    return table.artifact_id(artifact, position) if paths is None else paths[position]


def bound_sources(table: JobTable, position: int) -> Iterator[Sequence[Source]]:
    """The sources of each binding that are certain. The candidate that `first` will take is not."""
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
    if spec.is_leaf or element_type(spec.type) in VALUE_TYPES:
        return None
    if source.element is not None and source.element is not Every.ELEMENT:
        return graph.artifact_id(source)
    return output_label(table, source.artifact, source.position)


def _size_note(source: Source, size_of: SizeOf) -> str:
    bytes_ = size_of(source)
    return "" if bytes_ is None else size(bytes_)


def input_size(project: Path, source: InputAt) -> int | None:
    """The size of an existing file; None for a folder or an array."""
    path = source.value.path
    if path is None:
        return None
    try:
        status = os.stat(project / path)
    except OSError:  # the file was just removed: its step will fail, and the line needs no size
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
