"""Issue 17, "Must show": merges, appends and aggregates against pandas, polars, DuckDB and a plain computation, and no
difference that is not documented.

A small share with a fixed seed runs in the suite. `make soak-data` runs 420, 143 and 97 with the fixed seed, and as
many with a new one.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("polars")  # one of the oracles; `.[dev]` installs it

from data_lab import Make, made
from differential_lab import Case, cases, plain_rows, rounded

from project_lab import Lab
from whyrun.log import events as ev

SOAK = bool(os.environ.get("WHYRUN_SOAK"))
FIXED = 17
RUNS = [((420, 143, 97), FIXED), ((420, 143, 97), random.randrange(1 << 30))] if SOAK else [((14, 5, 5), FIXED)]
# What docs/data-actions.md says, where other programs do otherwise.
DOCUMENTED = {
    "keys of different types are refused",
    "columns that clash are refused without `suffix`",
    "NaN in a key is a missing key",
    "a missing key matches nothing",
    "columns of different types are refused",
    "NaN does not count",
    "the median of decimals is exact",
    "the sum of no value is missing",
}


def make_project(folder: Path, drawn: list[Case]) -> Lab:
    inputs, jobs = {}, {}
    (folder / "data").mkdir(parents=True)
    for case in drawn:
        for name, table in case.tables.items():
            path = f"data/{case.name}-{name}{table.suffix}"
            table.write(folder / path)
            inputs[f"{case.name}_{name}"] = {"type": "dataset", "default": path}

        def bound(value: object, case: Case = case) -> object:
            if isinstance(value, str) and value.startswith("@"):
                return f"${{{{ inputs.{case.name}_{value[1:]} }}}}"
            if isinstance(value, dict):
                return {key: bound(member) for key, member in value.items()}
            return [bound(member) for member in value] if isinstance(value, list) else value

        output = {"made": {"type": "dataset", "path": f"out/{case.name}.parquet"}}
        jobs[case.name] = {"uses": case.uses, "with": {**bound(case.with_), "threads": 1}, "outputs": output}
    (folder / "workflow.yaml").write_text(json.dumps({"workflow": "trial", "inputs": inputs, "jobs": jobs}))
    return Lab(folder)


def differences(case: Case, out: Path) -> list[str]:
    """Which programs made other rows than `data/…`."""
    assert case.expected is not None
    found = pq.read_table(out)
    rows = [tuple(row.values()) for row in found.to_pylist()]
    told = [] if found.column_names == case.columns else [f"columns {found.column_names}, not {case.columns}"]
    computed = len(case.with_.get("measures", ()))
    for name, oracle in {"plain": lambda: case.expected, **case.oracles}.items():
        theirs = oracle()
        assert theirs is not None
        ordered = name == "plain" or name in case.ordered
        sides = [plain_rows(each, ordered) for each in (rows, theirs)]
        if computed:
            sides = [plain_rows(rounded(each, computed), ordered) for each in sides]
        if sides[0] != sides[1]:
            other = next((pair for pair in zip(*sides, strict=False) if pair[0] != pair[1]), None)
            told.append(f"{name}: {len(sides[0])} and {len(sides[1])} rows, first {other}")
    return told


@pytest.mark.parametrize(("numbers", "seed"), RUNS, ids=lambda value: str(value).replace(" ", ""))
def test_no_difference_to_other_programs_that_is_not_documented(
    numbers: tuple[int, int, int], seed: int, tmp_path: Path
) -> None:
    drawn = list(cases(*numbers, seed=seed))
    lab = make_project(tmp_path / "trial", drawn)
    ran = lab.run(jobs=2)
    failed = {e.step_id.removeprefix("Job:"): (e.error_type, e.error) for e in ran.of(ev.StepFailed)}
    wrong: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for case in drawn:
        error = failed.get(case.name, ("", ""))
        if error[0] != case.refused:
            wrong[case.name] = [f"failed with {error}, not {case.refused!r}", repr(case)]
        elif case.expected is not None and (told := differences(case, lab.root / f"out/{case.name}.parquet")):
            wrong[case.name] = [*told, repr(case)]
        counts.update(case.documented)
        counts[f"{case.uses}: {'refused' if case.refused else 'compared'}"] += 1
    print(dict(sorted(counts.items())))
    assert wrong == {}, "\n".join(f"{name}: {told}" for name, told in list(wrong.items())[:5])
    assert {name for name in counts if not name.startswith("data/")} <= DOCUMENTED


# --- what the trial found ----------------------------------------------------------------------------------------


def test_groups_stand_in_the_order_in_which_they_first_occur(project: Make) -> None:
    """The least part and the least row of a group may be of two rows."""
    files = {"a.csv": "g,v\nb,1\na,2\n", "b.csv": "g,v\na,3\n"}
    with_ = {
        "products": {"one": "@a", "two": "@b"}, "operation": "summarise", "group_by": ["g"],
        "measures": {"total": {"of": "v", "how": "sum"}},
    }  # fmt: skip
    assert made(project, "data/aggregate", with_, files)[1:] == [["b", "1"], ["a", "5"]]


ROWIDS = "rowid,x\n3,a\n1,b\n2,c\n"
JSON_ROWS = '[{"rowid": 3, "x": "a"}, {"rowid": 1, "x": "b"}, {"rowid": 2, "x": "c"}]'


@pytest.mark.parametrize("file", [("l.csv", ROWIDS), ("l.json", JSON_ROWS)], ids=["csv", "json"])
def test_a_column_rowid_does_not_change_the_order_of_rows(project: Make, file: tuple[str, str]) -> None:
    """DuckDB has such a column of its own, by which rows were put in order."""
    name, content = file
    both = {"primary_dataset": "@l", "secondary_dataset": "@r", "keys": ["x"]}
    files = {name: content, "r.csv": "x,y\nc,1\na,2\nb,3\n"}
    merged = made(project, "data/merge", both, files)[1:]
    assert merged == [["3", "a", "2"], ["1", "b", "3"], ["2", "c", "1"]]
    query = {"primary_dataset": "@l", "query": "SELECT * FROM primary_dataset ORDER BY x DESC"}
    assert made(project, "data/sql", query, {name: content})[1:] == [["2", "c"], ["1", "b"], ["3", "a"]]
