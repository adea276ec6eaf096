"""`data/append`: stacks datasets with the same columns."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from whyrun.actions.base import Action
from whyrun.actions.data.engine import opened
from whyrun.actions.data.joining.stack import stacked
from whyrun.actions.data.output import dataset_path, report, shape, write_table
from whyrun.actions.data.params import CombiningParams, Name, counted
from whyrun.actions.data.tables import open_tables
from whyrun.actions.parameters import Files, Meta


class Params(CombiningParams, kw_only=True):
    primary_dataset: Annotated[Files, Meta(description="the first rows")]
    secondary_dataset: Annotated[Files | None, Meta(description="the rows below, in the order of the list")] = None
    columns: Annotated[
        Literal["same", "union"], Meta(description="same: all have the same columns; union: missing ones are empty")
    ] = "same"
    source: Annotated[Name | None, Meta(description="the name of an added column that says where a row comes from")] = (
        None
    )
    labels: Annotated[
        list[str] | None, Meta(description="the values of `source`, one for each dataset; null: the slot names")
    ] = None
    operation: Annotated[Literal["append"], Meta(description="the name in a dataset plan")] = "append"

    def __post_init__(self) -> None:
        number = len(self.files())
        if number < 2:
            raise ValueError("only one dataset is bound: append takes two or more")
        if self.labels is not None and self.source is None:
            raise ValueError("`labels` are the values of the column that `source` names; add `source`")
        check_labels(self.labels, number)


def check_labels(labels: list[str] | None, number: int) -> None:
    if labels is not None and len(labels) != number:
        raise ValueError(f"`labels` has {len(labels)} members for {number} datasets")
    if labels is not None and len(set(labels)) != len(labels):
        raise ValueError("`labels` has a member twice")


class DataAppend(Action):
    """Stack datasets that have the same columns, or any columns with `columns: union`."""

    name = "data/append"
    version = "1"
    deterministic = True
    Params: ClassVar[type[Any] | None] = Params
    example = """\
jobs:
  All:
    uses: data/append
    with:
      primary_dataset: ["${{ inputs.Y2023 }}", "${{ inputs.Y2024 }}"]
      source: wave
      labels: ["2023", "2024"]
    outputs: {appended: {type: dataset, path: out/all.parquet}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: Params = self.params
        output, path = dataset_path(context, self.name)
        with opened(params, context.work_dir, lambda: context.cancelled) as engine:
            tables = open_tables(engine, params)
            labels = params.labels or [table.label for table in tables]
            stack = stacked(engine, tables, params.columns, params.source, labels)
            details = {
                "decision": "append",
                "columns": params.columns,
                "source": params.source,
                "rows": {"in": {table.label: table.rows for table in tables}, "out": stack.rows},
            }
            written = write_table(engine, stack.selected(), stack.order, path)
        message = f"appended {len(tables)} datasets: {counted(stack.rows, 'row')}"
        report(context, message, tables, output, shape(stack.rows, written.columns), details)
        return None
