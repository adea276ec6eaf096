"""Results in Python: `flow.artifact(…)` is one artifact with its content, `flow.table(…)` values over loops.

Both are as they were when they were asked for. In a notebook they show themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from whyrun.errors import check_type, error

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import polars as pl  # type: ignore[import-not-found, unused-ignore]

    from whyrun.artifacts.store import Store
    from whyrun.evidence.queries.current import CurrentArtifact
    from whyrun.project import Project

# suffix → the reader of pandas and that of polars
_READERS = {
    ".csv": ("read_csv", "read_csv"),
    ".tsv": ("read_table", "read_csv"),
    ".tab": ("read_table", "read_csv"),
    ".parquet": ("read_parquet", "read_parquet"),
    ".json": ("read_json", "read_json"),
    ".dta": ("read_stata", None),
    ".xlsx": ("read_excel", "read_excel"),
}


class Artifact(msgspec.Struct, frozen=True):
    """One artifact of the current state. `run`: the run that made it; `path`: where it is published, if it is."""

    id: str
    type: str
    state: str  # available missing failed running inactive
    job: str
    run: str | None
    sha256: str | None
    size: int | None
    published: Path | None
    suffix: str
    store: Store
    held: Any = UNSET  # the value of a leaf, or of an output that is a value

    @property
    def path(self) -> Path:
        """A file or folder with its content, to be read and not to be written to: where it is published, else in the
        store."""
        sha256 = self._available()
        if self.published is not None and self.published.exists():
            return self.published
        if self.type == "directory":
            message = f"`{self.id}` is a folder that is not published, so it has no path"
            raise error("USAGE", message, hint="give the output a `path:` in the workflow")
        return Path(self.store.open_path(sha256))

    @property
    def value(self) -> Any:
        """The value: that of a leaf or value output, the content of a JSON output, the text of a text output."""
        sha256 = self._available()
        if self.held is not UNSET:
            return self.held
        if self.type == "json":
            return json.loads(self.store.read(sha256))
        if self.type == "text":
            return self.store.read(sha256).decode()
        message = f"`{self.id}` is of type `{self.type}`, which has no value"
        raise error("USAGE", message, hint="`.path`, `.bytes`, `.pandas()` or `.polars()` give its content")

    @property
    def bytes(self) -> bytes:
        if self.type == "directory":
            raise error("USAGE", f"`{self.id}` is a folder", hint="`.path` is where it is published")
        return self.store.read(self._available())

    def pandas(self, **options: Any) -> pd.DataFrame:
        """The table as a pandas frame; `options` go to the reader of pandas."""
        frame: pd.DataFrame = self._frame("pandas", 0, options)
        return frame

    def polars(self, **options: Any) -> pl.DataFrame:
        """The table as a polars frame; `options` go to the reader of polars."""
        frame: pl.DataFrame = self._frame("polars", 1, options)
        return frame

    def _frame(self, library: str, number: int, options: dict[str, Any]) -> Any:
        from importlib import import_module

        sha256 = self._available()
        readers = _READERS.get(self.suffix.lower())
        reader = readers[number] if readers is not None else None
        if reader is None:
            known = ", ".join(suffix for suffix, names in _READERS.items() if names[number] is not None)
            message = f"`{self.id}` is no table that {library} reads: its suffix is `{self.suffix}`"
            raise error("USAGE", message, hint=f"tables are {known}; `.path` is the file itself")
        try:
            module = import_module(library)
        except ImportError:
            raise error("USAGE", f"{library} is not installed", hint=f"`pip install {library}`") from None
        if library == "polars" and self.suffix.lower() in (".tsv", ".tab"):
            options = {"separator": "\t", **options}
        return getattr(module, reader)(self.store.open_path(sha256), **options)

    def _available(self) -> str:
        """Its hash; an error if there is no current content."""
        if self.state != "available" or self.sha256 is None:
            hint = f"`whyrun why {self.id}` tells why" if self.state != "running" else "wait until the run ends"
            raise error("USAGE", f"`{self.id}` is {self.state}", hint=hint)
        return self.sha256

    def _repr_html_(self) -> str:
        from whyrun.notebook import artifact_html

        return artifact_html(repr(self)[1:-1], self._content_html() if self.state == "available" else "")

    def _content_html(self) -> str:
        from whyrun.facts.previews import beginning_of, kind_of, preview
        from whyrun.notebook import LARGEST, image_html, table_html, text_html

        if self.held is not UNSET:
            return text_html(json.dumps(self.held, ensure_ascii=False, indent=2))
        if self.type == "directory":
            return ""
        path = self.store.open_path(self._available())
        kind, media_type = kind_of(self.type, self.suffix, beginning_of(path))
        if kind == "image" and (self.size or 0) <= LARGEST:
            return image_html(media_type, self.bytes, self.id)
        shown = preview(path, kind, self.suffix)
        if "rows" in shown:
            return table_html([column["name"] for column in shown["columns"]], shown["rows"], shown["total_rows"] or 0)
        if "value" in shown:
            return text_html(json.dumps(shown["value"], ensure_ascii=False, indent=2))
        return text_html(shown["text"], shown["truncated"]) if "text" in shown else ""

    def __repr__(self) -> str:
        made = f" from {self.run}" if self.run is not None and self.state == "available" else ""
        return f"<{self.id}: {self.type}, {self.state}{made}>"


def find_artifact(project: Project, id_: str) -> Artifact:
    from whyrun.evidence.queries.current import current_artifact
    from whyrun.facts.subjects import find_subject
    from whyrun.ids import split_site
    from whyrun.planning.plan import compute_execution_plan

    check_type("id", id_, str, "the ID of an artifact, such as 'Artifact:Job.Output[0]'")
    subject = find_subject(project.settled_graph(), id_)
    if subject.kind != "artifact":
        raise error("USAGE", f"`{id_}` is no artifact", hint="`whyrun status` lists the artifacts")
    snapshot = project.snapshot()
    plan = compute_execution_plan(snapshot)
    found = current_artifact(snapshot, plan, subject.node, id_)
    at = snapshot.dependency_graph.artifact_of[id_]
    table = snapshot.dependency_graph.tables[at.table]
    path, section = split_site(found.path) if found.path is not None else (None, None)
    published = project.folder / path if path is not None and section is None else None
    suffix = Path(path).suffix if path is not None and section is None else table.output_of(at.artifact).suffix
    return _artifact(found, published, suffix, project.store)


def _artifact(found: CurrentArtifact, published: Path | None, suffix: str, store: Store) -> Artifact:
    return Artifact(
        found.id,
        found.type,
        found.state,
        found.job,
        found.run,
        found.sha256,
        found.size,
        published,
        suffix,
        store,
        found.value,
    )


class Table(msgspec.Struct, frozen=True):
    """Values over loops: a row for each instance, first its indices, then its values. None: there is no value now."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    loops: int  # how many of the columns are indices
    states: tuple[tuple[str, ...], ...]  # by row and value: available missing failed running inactive none
    artifacts: tuple[tuple[str | None, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each row as a mapping."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def pandas(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(self.columns))

    def polars(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(self.rows, schema=list(self.columns), orient="row")

    def _repr_html_(self) -> str:
        from whyrun.notebook import table_html

        return table_html(self.columns, self.rows, len(self.rows))

    def __repr__(self) -> str:
        return f"<table of {len(self.rows)} rows: {', '.join(self.columns)}>"


def find_table(project: Project, patterns: Sequence[str]) -> Table:
    from whyrun.facts.table import possible_patterns, value_table

    for pattern in patterns:
        check_type("patterns", pattern, str, "IDs of artifacts, such as 'Artifact:Job.Output[*]'")
    if not patterns:
        known = ", ".join(f"`{pattern}`" for pattern in possible_patterns(project.graph)[:4])
        raise error("USAGE", "a table needs a pattern", hint=f"values are in {known or 'no output of this workflow'}")
    facts = value_table(project, patterns)
    rows = facts["rows"]
    return Table(
        (*facts["loops"], *facts["columns"]),
        tuple((*row["index"], *row["values"]) for row in rows),
        len(facts["loops"]),
        tuple(tuple(row["states"]) for row in rows),
        tuple(tuple(row["artifacts"]) for row in rows),
    )
