"""`data/aggregate`: combines the results of parallel steps into one table, stacked or summarised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct, field

from whyrun.actions.base import Action
from whyrun.actions.data.append import check_labels
from whyrun.actions.data.engine import ROW, Engine, name, opened
from whyrun.actions.data.joining.stack import PART, Stack, stacked
from whyrun.actions.data.kinds import FLOATING, known
from whyrun.actions.data.output import dataset_path, report, shape, write_table
from whyrun.actions.data.params import (
    ColumnMissing,
    ColumnsClash,
    ColumnsDiffer,
    CombiningParams,
    Name,
    counted,
    listed,
)
from whyrun.actions.data.tables import Column, open_tables
from whyrun.actions.parameters import File, Files, Meta
from whyrun.errors import did_you_mean
from whyrun.workflow import advice

_FUNCTIONS = {
    "count": "count({})",
    "sum": "sum({})",
    "mean": "avg({})",
    "min": "min({})",
    "max": "max({})",
    "median": "median({})",
    "std": "stddev_samp({})",
}
_EXACT_MEDIAN = 35  # digits of decimals whose middle is a decimal of at most 38 digits
_ANY_KIND = ("count", "min", "max")  # functions that accept every kind of value


class Measure(Struct, forbid_unknown_fields=True, frozen=True):
    of: Name
    how: Literal["count", "sum", "mean", "min", "max", "median", "std"]


class Params(CombiningParams, kw_only=True):
    primary_dataset: Annotated[Files | None, Meta(description="results, one or a list")] = None
    secondary_dataset: Annotated[Files | None, Meta(description="further results")] = None
    products: Annotated[dict[Name, File], Meta(description="label → result, instead of a list and `labels`")] = field(
        default_factory=dict
    )
    labels: Annotated[
        list[str] | None, Meta(description="one for each result of the lists, such as the step that made it")
    ] = None
    label: Annotated[Name, Meta(description="the name of the column that holds the labels")] = "step"
    operation: Annotated[Literal["stack", "summarise"], Meta(description="all rows, or the `measures`")] = "stack"
    columns: Literal["same", "union"] = "same"
    group_by: Annotated[list[Name] | None, Meta(description="columns; null: the label, one row a step")] = None
    measures: Annotated[
        dict[Name, Measure], Meta(description="column → {of, how}: count, sum, mean, min, max, median or std")
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        listed_files = self.files()
        if len(listed_files) + len(self.products) < 2:
            raise ValueError(advice.bind_results())
        check_labels(self.labels, len(listed_files))
        if self.operation == "summarise" and not self.measures:
            raise ValueError("`operation: summarise` needs `measures: {column: {of: …, how: mean}}`")
        if self.operation == "stack" and (self.measures or self.group_by is not None):
            raise ValueError("`measures` and `group_by` belong to `operation: summarise`")

    def results(self) -> dict[str, File]:
        """Label → file."""
        by_label = self.files()
        if self.labels is not None:
            by_label = dict(zip(self.labels, by_label.values(), strict=True))
        twice = [label for label in self.products if label in by_label]
        if twice:
            raise ValueError(f"two results each have the labels {listed(twice)}; rename one of them")
        return by_label | self.products


class DataAggregate(Action):
    """Stack or summarise the results of parallel steps, labelled by step."""

    name = "data/aggregate"
    version = "3"
    deterministic = True
    Params: ClassVar[type[Any] | None] = Params
    example = """\
jobs:
  Together:
    uses: data/aggregate
    with:
      products: {small: "${{ jobs.Small.outputs.fit }}", large: "${{ jobs.Large.outputs.fit }}"}
    outputs: {results: {type: dataset, path: out/results.csv}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: Params = self.params
        output, path = dataset_path(context, self.name)
        with opened(params, context.work_dir, lambda: context.cancelled) as engine:
            tables = open_tables(engine, params, params.results())
            stack = stacked(engine, tables, params.columns, params.label, [table.label for table in tables])
            if params.operation == "stack":
                query, order = stack.selected(), list(stack.order)
                rows = stack.rows
            else:
                query, order = _summary(engine, stack, params)
                (rows,) = engine.row(f"SELECT count(*) FROM ({query})")
            details = {
                "decision": "aggregate",
                "operation": params.operation,
                "label": params.label,
                "rows": {"in": {table.label: table.rows for table in tables}, "out": rows},
            }
            written = write_table(engine, query, order, path)
        message = f"aggregated {len(tables)} results ({params.operation}): {counted(rows, 'row')}"
        report(context, message, tables, output, shape(rows, written.columns), details)
        return None


def _summary(engine: Engine, stack: Stack, params: Params) -> tuple[str, list[str]]:
    """One row for each group, in the order in which the groups first occur. NaN is a missing value."""
    by_name = {column.name: column for column in stack.columns}
    groups = [params.label] if params.group_by is None else params.group_by
    for wanted, who in [*((g, "group_by") for g in groups), *((m.of, "measures") for m in params.measures.values())]:
        if wanted not in by_name:
            hint = did_you_mean(wanted, list(by_name)) or f"their columns: {listed(by_name)}"
            raise ColumnMissing(f"`{who}` names `{wanted}`, and the results have no such column; {hint}")
    taken = {group.casefold() for group in groups}
    for title, measure in params.measures.items():
        if title.casefold() in taken:
            raise ColumnsClash(
                f"`measures` has `{title}`, which is already a column of the result; choose another name"
            )
        taken.add(title.casefold())
        kind = by_name[measure.of].kind
        if measure.how not in _ANY_KIND and kind not in ("integer", "number") and not kind.startswith("decimal"):
            raise ColumnsDiffer(f"`measures.{title}` asks for the {measure.how} of `{measure.of}`, which is {kind}")
    # Sums of floating-point numbers depend on their order: one thread over sorted rows always gives the same result.
    engine.do("SET threads = 1")
    source = engine.new_name("stacked")
    floating = [column for column in stack.columns if column.type in FLOATING]
    missing = ", ".join(f"{known(name(column.name), column.type)} AS {name(column.name)}" for column in floating)
    selected = f"* REPLACE ({missing})" if missing else "*"
    engine.do(f"CREATE TABLE {source} AS SELECT {selected} FROM ({stack.query}) ORDER BY {PART}, {ROW}")
    values = [f"{_measured(measure, by_name)} AS {name(title)}" for title, measure in params.measures.items()]
    grouped = [name(group) for group in groups]
    by = f" GROUP BY {', '.join(grouped)}" if grouped else ""
    order = [f"min(row({PART}, {ROW}))"] if grouped else []  # of one row: the least of each would be of two
    return f"SELECT {', '.join((*grouped, *values))} FROM {source}{by}", order


def _measured(measure: Measure, by_name: Mapping[str, Column]) -> str:
    value = name(measure.of)
    decimal = re.fullmatch(r"DECIMAL\(([0-9]+),[0-9]+\)", by_name[measure.of].type)
    if measure.how == "median" and decimal is not None:
        # DuckDB cuts the middle of two decimals off, and loses digits of long ones.
        if int(decimal[1]) <= _EXACT_MEDIAN:
            return f"(quantile_disc({value}, 0.5) - quantile_disc(-{value}, 0.5)) * CAST(0.5 AS DECIMAL(2,1))"
        value = f"CAST({value} AS DOUBLE)"
    return _FUNCTIONS[measure.how].format(value)
