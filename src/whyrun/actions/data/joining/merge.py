"""`data/merge`: one dataset joined with one or more others on keys, checked before anything is joined."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct

from whyrun.actions.base import Action
from whyrun.actions.builtin.data.engine import Engine, opened
from whyrun.actions.builtin.data.join import Join, joined_table, write_join
from whyrun.actions.builtin.data.output import dataset_path, report, shape
from whyrun.actions.builtin.data.params import CombiningParams, Name
from whyrun.actions.builtin.data.problems import counted
from whyrun.actions.builtin.data.tables import Table, open_tables
from whyrun.actions.parameters import File, Files, Meta

Cardinality = Literal["1:1", "1:m", "m:1", "m:m"]
Keys = Annotated[list[Name], Meta(min_length=1)]


class Sides(Struct, forbid_unknown_fields=True, frozen=True):
    """Key columns that are called differently on the two sides, in the same order."""

    primary: Keys
    secondary: Keys

    def __post_init__(self) -> None:
        if len(self.primary) != len(self.secondary):
            raise ValueError(
                f"`keys` names {len(self.primary)} columns of the primary and {len(self.secondary)} of the secondary"
            )


class Params(CombiningParams, kw_only=True):
    primary_dataset: Annotated[File, Meta(description="the left side")]
    secondary_dataset: Annotated[Files, Meta(description="the right side; a list is joined one after the other")]
    keys: Annotated[Keys | Sides, Meta(description="columns; or {primary: […], secondary: […]} where names differ")]
    how: Annotated[
        Literal["left", "inner", "right", "outer"], Meta(description="which rows without a match are kept")
    ] = "left"
    cardinality: Annotated[
        Cardinality | None, Meta(description="checked before joining; what was found is recorded either way")
    ] = None
    suffix: Annotated[
        Name | list[Name] | None,
        Meta(description="for columns of the right side whose name is taken; a list: one for each dataset"),
    ] = None
    operation: Annotated[Literal["merge"], Meta(description="as a dataset plan says it")] = "merge"

    def __post_init__(self) -> None:
        left, right = self.sides
        for side in (left, right):
            if len(set(side)) != len(side):
                raise ValueError("`keys` names a column twice")
        if isinstance(self.suffix, list) and len(self.suffix) != len(self.secondary_dataset):
            raise ValueError(
                f"`suffix` has {len(self.suffix)} members for {len(self.secondary_dataset)} secondary datasets"
            )

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        if isinstance(self.keys, Sides):
            return self.keys.primary, self.keys.secondary
        return self.keys, self.keys

    def suffix_of(self, number: int) -> str | None:
        return self.suffix[number] if isinstance(self.suffix, list) else self.suffix


class DataMerge(Action):
    """Join datasets on keys, with the cardinality checked before and every count on record."""

    name = "data/merge"
    version = "1"
    deterministic = True
    Params: ClassVar[type[Any] | None] = Params
    example = """\
jobs:
  Merge:
    uses: data/merge
    with:
      primary_dataset: ${{ inputs.Panel }}
      secondary_dataset: ${{ inputs.Controls }}
      keys: [firm_id, year]
      cardinality: "1:1"
    outputs: {merged: {type: dataset, path: out/merged.parquet}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: Params = self.params
        output, path = dataset_path(context, self.name)
        with opened(params, context.work_dir, lambda: context.cancelled) as engine:
            tables = open_tables(engine, params)
            left = tables[0]
            for number, right in enumerate(tables[1:]):
                join = self.checked(engine, left, right, number, context)
                if number + 2 < len(tables):
                    left = joined_table(engine, join)
            written = write_join(engine, join, path)
        words = f"wrote {counted(join.facts.out, 'row')}, {counted(len(join.columns), 'column')}"
        report(context, words, tables, output, shape(join.facts.out, written.columns))
        return None

    def checked(self, engine: Engine, left: Table, right: Table, number: int, context: Any) -> Join:
        """The join that will be made, its facts told before a row of it is written."""
        params: Params = self.params
        keys, right_keys = params.sides
        join = Join.of(engine, left, right, keys, right_keys, params.how, params.suffix_of(number))
        facts = join.facts
        details = {
            "decision": "merge",
            "left": left.label,
            "right": right.label,
            "how": params.how,
            "keys": keys if keys == right_keys else {"primary": keys, "secondary": right_keys},
            "cardinality": {"asked": params.cardinality, "found": facts.cardinality},
            "rows": facts.rows(),
            "renamed": join.renamed,
        }
        words = (
            f"merge `{right.label}` into `{left.label}` on {', '.join(keys)}: {facts.cardinality}, "
            f"{facts.matched_left:,} of {counted(facts.left, 'row')} matched"
        )
        refused = join.refusal(engine, params.cardinality)
        # What was counted is on record either way; a merge that is refused is explained by it.
        context.task("EXECUTES" if refused is None else "FAILED", words, details)
        if refused is not None:
            raise refused
        return join
