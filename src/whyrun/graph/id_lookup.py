"""From an ID to its node or artifact, without a dict of all IDs: there may be a million, and few are looked up. Pure.

An ID is split into the name of the job, which gives the table, and the text of its indices, which gives the row. Only
tables that are looked up get an index of these texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from whyrun.errors import WhyrunError
from whyrun.ids import format_indices, names_and_indices, parse_id, split_folder
from whyrun.workflow.arrays import is_array

if TYPE_CHECKING:
    from whyrun.graph.tables import ArtifactAt, JobTable


class _ByName:
    def __init__(self, tables: Sequence[JobTable]) -> None:
        self._tables = tables
        self._by_name = {table.name: table for table in tables}
        self._rows: dict[str, dict[str, int]] = {}  # job → text of the indices → row

    def _row(self, table: JobTable, text: str) -> int | None:
        rows = self._rows.get(table.name)
        if rows is None:
            rows = self._rows[table.name] = {each: row for row, each in enumerate(table.texts)}
        return rows.get(text)

    def _split(self, path: str) -> tuple[str, str]:
        """The name of a job, and the text of its indices."""
        if "]/" in path and split_folder(path)[0]:
            name, indices = names_and_indices(path)
            return name, "".join(indices)
        name, bracket, rest = path.partition("[")
        return name, bracket + rest


class NodesByName(_ByName, Mapping[str, int]):
    """Job ID → node."""

    def __getitem__(self, job: str) -> int:
        kind, _, path = job.partition(":")
        name, text = self._split(path)
        table = self._by_name.get(name) if kind == "Job" else None
        row = None if table is None else self._row(table, text)
        if table is None or row is None or (table.levels and table.path(row) != path):
            raise KeyError(job)
        return table.base + row

    def __iter__(self) -> Iterator[str]:
        for table in self._tables:
            yield from table.job_ids()

    def __len__(self) -> int:
        return sum(map(len, self._tables))


class ArtifactsByName(_ByName, Mapping[str, "ArtifactAt"]):
    """Artifact ID → where it is."""

    def __init__(self, tables: Sequence[JobTable]) -> None:
        super().__init__(tables)
        self._of_own_leaves: dict[str, dict[str, ArtifactAt]] = {}  # of jobs whose leaves differ from row to row

    def __getitem__(self, artifact: str) -> ArtifactAt:
        from whyrun.graph.tables import ArtifactAt

        kind, _, path = artifact.partition(":")
        folder, own = split_folder(path)
        name, _, tail = own.partition(".")
        imports, outer = self._split(folder)
        table = self._by_name.get(imports + name) if kind == "Artifact" else None
        if table is None:
            raise KeyError(artifact)
        if any(spec.leaf_by_row is not None for spec in table.artifacts):
            return self._listed(table)[artifact]
        for number, spec in enumerate(table.artifacts):
            rest = tail.removeprefix(spec.output)
            if tail.startswith(spec.output) and rest.endswith(spec.leaf):
                row = self._row(table, outer + rest.removesuffix(spec.leaf))
                if row is not None and (not table.levels or table.artifact_id(number, row) == artifact):
                    return ArtifactAt(table.number, number, row)
        return self._element(table, artifact, outer, tail)

    def _element(self, table: JobTable, artifact: str, outer: str, tail: str) -> ArtifactAt:
        """An element that an array may have: which ones it has is in the log."""
        from whyrun.graph.tables import ArtifactAt

        name, bracket, _ = tail.partition("[")
        for number, spec in enumerate(table.artifacts if bracket else ()):
            if spec.output == name and is_array(spec.type):
                try:
                    indices = parse_id(artifact).segments[1].indices
                except WhyrunError:
                    raise KeyError(artifact) from None
                row = self._row(table, outer + format_indices(indices[:-1]))
                if row is not None and artifact.endswith(format_indices(indices)):
                    return ArtifactAt(table.number, number, row, indices[-1])
        raise KeyError(artifact)

    def _listed(self, table: JobTable) -> dict[str, ArtifactAt]:
        from whyrun.graph.tables import ArtifactAt

        found = self._of_own_leaves.get(table.name)
        if found is None:
            found = self._of_own_leaves[table.name] = {
                id_: ArtifactAt(table.number, a, p)
                for a in range(len(table.artifacts))
                for p, id_ in enumerate(table.artifact_ids(a))
            }
        return found

    def __iter__(self) -> Iterator[str]:
        for table in self._tables:
            for a in range(len(table.artifacts)):
                yield from table.artifact_ids(a)

    def __len__(self) -> int:
        return sum(len(table) * len(table.artifacts) for table in self._tables)
