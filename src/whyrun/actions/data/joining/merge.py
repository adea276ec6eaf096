"""`data/merge`: joins a dataset with one or more others on keys, and checks the keys before it joins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Struct, field

from whyrun.actions.base import Action
from whyrun.actions.data.engine import Engine, opened
from whyrun.actions.data.joining.join import Join, KeyMatch, joined_table, write_join
from whyrun.actions.data.joining.unmatched import assertion_problem, near_text, unmatched_facts
from whyrun.actions.data.joining.update import uniqueness_problem
from whyrun.actions.data.output import dataset_path, report, shape
from whyrun.actions.data.params import (
    CardinalityNotChecked,
    CardinalityViolated,
    CombiningParams,
    DataError,
    DataParams,
    Name,
    counted,
)
from whyrun.actions.data.tables import Table, open_tables
from whyrun.actions.parameters import File, Files, Meta

Cardinality = Literal["1:1", "1:m", "m:1", "m:m"]
Keys = Annotated[list[Name], Meta(min_length=1)]


class Sides(Struct, forbid_unknown_fields=True, frozen=True):
    """Key columns with different names on the two sides, in the same order."""

    primary: Keys
    secondary: Keys

    def __post_init__(self) -> None:
        if len(self.primary) != len(self.secondary):
            raise ValueError(
                f"`keys` names {len(self.primary)} columns of the primary and {len(self.secondary)} of the secondary"
            )


class Params(CombiningParams, kw_only=True):
    primary_dataset: Annotated[File, Meta(description="the left side")]
    secondary_dataset: Annotated[Files, Meta(description="the right side; a list is joined one by one")]
    keys: Annotated[Keys | Sides, Meta(description="columns; or {primary: […], secondary: […]} if names differ")]
    how: Annotated[
        Literal["left", "inner", "right", "outer"], Meta(description="which rows without a match are kept")
    ] = "left"
    cardinality: Annotated[
        Cardinality | None, Meta(description="checked before the join; the actual one is always recorded")
    ] = None
    suffix: Annotated[
        Name | list[Name] | None,
        Meta(description="for columns of the right side whose name is taken; a list: one for each dataset"),
    ] = None
    indicator: Annotated[
        Name | list[Name] | None,
        Meta(description="a column that says left_only, right_only or both; a list: one for each dataset"),
    ] = None
    assert_: Annotated[
        Literal["match", "left", "right"] | None,
        Meta(description="every row of both sides (match), or of one side, has a partner; checked before the join"),
    ] = field(name="assert", default=None)
    update: Annotated[
        bool, Meta(description="fill missing values of columns that both sides have from the right side")
    ] = False
    examples: Annotated[int, Meta(ge=0, le=20, description="keys without a partner on record, for each side")] = 20
    operation: Annotated[Literal["merge"], Meta(description="the name in a dataset plan")] = "merge"

    def __post_init__(self) -> None:
        left, right = self.sides
        for side in (left, right):
            if len(set(side)) != len(side):
                raise ValueError("`keys` names a column twice")
        if isinstance(self.suffix, list) and len(self.suffix) != len(self.secondary_dataset):
            raise ValueError(
                f"`suffix` has {len(self.suffix)} members for {len(self.secondary_dataset)} secondary datasets"
            )

        number = len(self.secondary_dataset)
        names = self.indicator if isinstance(self.indicator, list) else [self.indicator] * bool(self.indicator)
        if names and len(names) != number:
            raise ValueError(f"`indicator` names {counted(len(names), 'column')} for {number} secondary datasets")

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        if isinstance(self.keys, Sides):
            return self.keys.primary, self.keys.secondary
        return self.keys, self.keys

    def indicator_of(self, number: int) -> str | None:
        return self.indicator[number] if isinstance(self.indicator, list) else self.indicator

    def suffix_of(self, number: int) -> str | None:
        return self.suffix[number] if isinstance(self.suffix, list) else self.suffix


def judge(
    match: KeyMatch, message: str, details: dict[str, Any], context: Any, refusals: Iterable[DataError | None]
) -> None:
    """Report the counts, then raise the first refusal: the counts explain why the data are not what the user says."""
    if not match.counts.matched_left:
        details["level"] = "always"
    refusal = next((one for one in refusals if one is not None), None)
    context.task("EXECUTES" if refusal is None else "FAILED", message, details)
    if refusal is not None:
        raise refusal


# --- a merge that another action makes ---------------------------------------------------------------------------


READ_OPTIONS = ("types", "missing", "delimiter", "encoding", "sheet", "memory_limit", "threads")


class _Declared(DataParams, kw_only=True):
    keys: Keys | Sides
    cardinality: Cardinality


def check_declared(given: Mapping[str, Any], files: Mapping[str, Path], spill: Path, context: Any) -> None:
    """Check the cardinality that a step declares whose own action merges. No row is joined.

    `given`: the parameters of the step. `files`: by slot, the primary side first. Each other one is compared with it
    alone, because only the action knows which rows it keeps of one merge before the next.
    """
    cardinality = given["cardinality"]
    try:
        wanted = {name: given[name] for name in (*READ_OPTIONS, "keys", "cardinality") if name in given}
        params = msgspec.convert(wanted, _Declared)
        sides = (params.keys.primary, params.keys.secondary) if isinstance(params.keys, Sides) else (params.keys,) * 2
        with opened(params, spill, lambda: context.cancelled) as engine:
            left, *others = open_tables(engine, params, files)
            for right in others:
                match = KeyMatch.of(engine, left, right, *sides, "inner")
                message = f"check the keys of `{right.label}` in `{left.label}` {match.found(engine)}"
                refusal = match.cardinality_violation(engine, cardinality)
                judge(match, message, match.facts(cardinality), context, [refusal])
    except CardinalityViolated:
        raise
    except (DataError, ImportError, msgspec.ValidationError) as problem:
        raise CardinalityNotChecked(
            f"`cardinality: {cardinality}` cannot be checked before the step; remove it, or correct this: {problem}"
        ) from None


class DataMerge(Action):
    """Join datasets on keys, with the cardinality checked before and every count recorded."""

    name = "data/merge"
    version = "2"
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
        message = f"wrote {counted(join.counts.out, 'row')}, {counted(len(join.columns), 'column')}"
        report(context, message, tables, output, shape(join.counts.out, written.columns))
        return None

    def checked(self, engine: Engine, left: Table, right: Table, number: int, context: Any) -> Join:
        """The join, after reporting its counts; no row is written before that."""
        params: Params = self.params
        keys, right_keys = params.sides
        names = params.suffix_of(number), params.indicator_of(number)
        join = Join.of(engine, left, right, keys, right_keys, params.how, *names, params.update)
        match = join.match
        unmatched = unmatched_facts(engine, match, params.examples)
        details = {**match.facts(params.cardinality, params.how), "renamed": join.renamed, **unmatched}
        details |= {"assert": params.assert_} if params.assert_ is not None else {}
        if params.update and not match.counts.repeated_right:
            details |= join.update_facts(engine)
        found = match.found(engine, joins=True, keys=params.examples > 0) + near_text(unmatched)
        message = f"merge `{right.label}` into `{left.label}` {found}"
        refusals = [
            match.cardinality_violation(engine, params.cardinality, min(params.examples, 5)),
            assertion_problem(engine, match, params.assert_, params.examples),
            uniqueness_problem(right, match.counts.repeated_right) if params.update else None,
        ]
        judge(match, message, details, context, refusals)
        return join
