"""Describe the difference between two versions of an artifact; for tables also row counts and column types."""

from __future__ import annotations

import tempfile
from pathlib import Path

from whyrun.artifacts.compare.result import CompareSettings, Comparison, counted
from whyrun.evidence.parity.reading import Artifact, RunEvidence

_TABLES = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".ndjson", ".jsonl", ".dta", ".xlsx", ".xlsm")


def describe_difference(old: RunEvidence, was: Artifact, new: RunEvidence, now: Artifact) -> list[str]:
    """The first line is a summary."""
    if was.type != now.type:
        return [f"type {was.type} → {now.type}"]
    comparison = _compare(old, was, new, now)
    summary = comparison.summary if not comparison.identical else "other bytes for the same content"
    return [summary, *_shapes(old, was, new, now), *comparison.details]


def _compare(old: RunEvidence, was: Artifact, new: RunEvidence, now: Artifact) -> Comparison:
    def locate(sha256: str) -> Path:
        return Path(next(store for store in (old.store, new.store) if store.has(sha256)).path(sha256))

    settings = CompareSettings()
    if was.type == "directory":
        from whyrun.artifacts.compare.files import compare_trees

        return compare_trees(old.store.read_tree(was.sha256), new.store.read_tree(now.sha256), locate, settings)
    from whyrun.artifacts.compare.files import compare_files

    suffix = was.suffix if was.suffix.startswith(".") else Path(was.path or "").suffix
    return compare_files(locate(was.sha256), locate(now.sha256), was.type, suffix, settings)


def _shapes(old: RunEvidence, was: Artifact, new: RunEvidence, now: Artifact) -> list[str]:
    """Rows and columns of both versions, and each column whose type differs or that only one version has."""
    if was.type != "dataset" and was.suffix.lower() not in _TABLES:
        return []
    before = table_shape(Path(old.store.path(was.sha256)), was.suffix)
    after = table_shape(Path(new.store.path(now.sha256)), now.suffix)
    if before is None or after is None:
        return []
    (rows, types), (new_rows, new_types) = before, after
    lines = [f"{_from_to('row', rows, new_rows)}, {_from_to('column', len(types), len(new_types))}"]
    for name in dict.fromkeys([*types, *new_types]):
        one, other = types.get(name, "not there"), new_types.get(name, "not there")
        if one != other:
            lines.append(f"column `{name}`: {one} → {other}")
    return lines


def _from_to(noun: str, old: int, new: int) -> str:
    return counted(old, noun) if old == new else f"{counted(old, noun)} → {new:,}"


def table_shape(blob: Path, suffix: str) -> tuple[int, dict[str, str]] | None:
    """(rows, column → type); None if it is not a table, or the extra `data` is not installed."""
    try:
        import duckdb
    except ImportError:
        return None
    from whyrun.actions.data.engine import opened
    from whyrun.actions.data.params import DataParams
    from whyrun.actions.data.problems import DataError
    from whyrun.actions.data.tables import open_table

    with tempfile.TemporaryDirectory(prefix="whyrun-parity-") as folder:
        named = Path(folder) / f"table{suffix}"  # blobs have no suffix, and the format follows from it
        named.symlink_to(blob.absolute())
        params = DataParams()
        try:
            with opened(params, Path(folder)) as engine:
                table = open_table(engine, "table", named, params)
        except (DataError, duckdb.Error, OSError):
            return None  # the bytes are compared anyway
    return table.rows, {column.name: column.type for column in table.columns}
