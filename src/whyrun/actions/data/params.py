"""The parameters that all data actions share: how files are read, and what the engine may use."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import field

from whyrun.actions.parameters import File, Files, Meta, Parameters

Kind = Literal["integer", "number", "text", "boolean", "date", "timestamp"]
Size = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)? ?(KB|MB|GB|TB|KiB|MiB|GiB|TiB)$")]
Name = Annotated[str, Meta(min_length=1)]
Identifier = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class DataParams(Parameters, kw_only=True):
    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit", "threads")  # rows come in one order, however many threads
    opened_roles: ClassVar[tuple[str, ...]] = ("primary_dataset", "secondary_dataset", "auxiliary_data")

    types: Annotated[
        dict[str, Kind], Meta(description="column → type, instead of what was found; applies to every dataset with it")
    ] = field(default_factory=dict)
    missing: Annotated[list[str], Meta(description="texts of CSV, TSV and Excel that mean: no value")] = field(
        default_factory=lambda: [""]
    )
    delimiter: Annotated[
        Annotated[str, Meta(min_length=1, max_length=1)] | None,
        Meta(description="between the fields of a CSV file; where it is null: a comma, in .tsv and .tab a tab"),
    ] = None
    encoding: Annotated[Literal["utf-8", "latin-1", "utf-16"], Meta(description="of CSV files")] = "utf-8"
    sheet: Annotated[str | None, Meta(description="of Excel files; where it is null: the first")] = None
    memory_limit: Annotated[Size, Meta(description="of the step; what needs more goes to its folder on disk")] = "1GB"
    threads: Annotated[int, Meta(ge=0, le=256, description="0: as many as there are processors")] = 0

    def files(self) -> dict[str, File]:
        """Slot (`primary_dataset`, `secondary_dataset[1]`, …) → file, of all roles that the action opens, in order."""
        found: dict[str, File] = {}
        for role in self.opened_roles:
            bound = getattr(self, role, None)
            if isinstance(bound, Files):
                single = len(bound) == 1 and not bound.as_list
                found |= {role if single else f"{role}[{at}]": file for at, file in enumerate(bound)}
            elif bound is not None:
                found[role] = bound
        for name, file in (getattr(self, "tables", None) or {}).items():
            found[name] = file
        return found


class CombiningParams(DataParams, kw_only=True):
    """Of actions that put datasets together. What is auxiliary is no part of that: it is never opened, so it need not
    be a table; but it is on record which one it was, and another one is a change."""

    opened_roles: ClassVar[tuple[str, ...]] = ("primary_dataset", "secondary_dataset")

    auxiliary_data: Annotated[
        Files | None,
        Meta(description="what goes with the data, such as a codebook: on record with the step, not in its rows"),
    ] = None


class SqlParams(DataParams, kw_only=True):
    """Of actions that see datasets as tables of a query. One thread: the same rows in the same order, every time."""

    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit",)

    primary_dataset: Annotated[Files | None, Meta(description="the table `primary_dataset`")] = None
    secondary_dataset: Annotated[
        Files | None, Meta(description="the table `secondary_dataset`; of a list `secondary_dataset_0`, …")
    ] = None
    auxiliary_data: Annotated[Files | None, Meta(description="the table `auxiliary_data`; a list as above")] = None
    tables: Annotated[dict[Identifier, File], Meta(description="further tables by name, each bound")] = field(
        default_factory=dict
    )
    threads: Annotated[int, Meta(ge=0, le=256, description="more than 1 is faster, and may change the order")] = 1

    def __post_init__(self) -> None:
        if not self.files():
            raise ValueError("no dataset is bound: write `primary_dataset: ${{ … }}`")
        seen: dict[str, str] = {}
        for table in self.tables:
            if table.startswith("__"):
                raise ValueError(
                    f"`tables` names `{table}`; names with two underscores in front are ours, choose another"
                )
            if other := seen.get(table.lower()):
                raise ValueError(f"`tables` names `{other}` and `{table}`, which SQL does not tell apart; rename one")
            seen[table.lower()] = table
        for taken in ("primary_dataset", "secondary_dataset", "auxiliary_data"):
            for table in self.tables:
                if table.lower().startswith(taken):
                    raise ValueError(f"`tables` names `{table}`, which is the name of a role; choose another")
