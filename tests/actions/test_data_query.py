"""`data/sql` and `data/check`: queries that read the bound datasets and nothing else, and diagnostics."""

from __future__ import annotations

import json
import signal
import time

import pytest
from data_lab import Make, failure, lab_of, made, task_details

from project_lab import ENDLESS, Process, wait_until
from whyrun.errors import InvalidError
from whyrun.log import events as ev

pytestmark = pytest.mark.usefixtures("data_libraries")

FILES = {"a.csv": "id,v\n1,10\n2,20\n3,\n", "b.csv": "id,w\n1,x\n1,x\n", "c.csv": "id,w\n2,z\n"}


def sql(query: str, **more: object) -> dict[str, object]:
    return {"primary_dataset": "@a", "secondary_dataset": ["@b", "@c"], "query": query, **more}


def test_datasets_are_tables_by_role_and_by_name(project: Make) -> None:
    query = """
        WITH others AS (SELECT * FROM secondary_dataset_0 UNION ALL SELECT * FROM secondary_dataset_1)
        SELECT a.id, a.v + $more AS v, count(others.w) AS n, $word AS word
        FROM primary_dataset a LEFT JOIN others USING (id) JOIN aux ON aux.id <= a.id
        WHERE a.id IN ($x, 2) GROUP BY ALL ORDER BY id DESC;
    """
    values = {"more": 0.5, "word": "it's; DROP TABLE x", "x": 1}
    lab = lab_of(project, "data/sql", sql(query, values=values, tables={"aux": "@c"}), FILES)
    ran = lab.succeed()
    assert lab.read("out/made.csv") == "id,v,n,word\n2,20.5,1,it's; DROP TABLE x\n"
    assert task_details(ran)[0]["rows"] == {
        "in": {"primary_dataset": 3, "secondary_dataset[0]": 2, "secondary_dataset[1]": 1, "aux": 1},
        "out": 1,
    }


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT * FROM '/etc/passwd'", "cannot be answered"),
        ("SELECT * FROM read_csv('/etc/passwd')", "file system operations are disabled by configuration"),
        ("SELECT * FROM read_text('workflow.yaml')", "file system operations are disabled by configuration"),
        ("SELECT * FROM glob('/*')", "file system operations are disabled by configuration"),
        ("COPY primary_dataset TO 'x.csv'", "`query` is COPY, not SELECT; a query may only read"),
        ("ATTACH 'x.db'", "`query` is ATTACH, not SELECT; a query may only read"),
        ("INSTALL httpfs", "`query` is LOAD, not SELECT; a query may only read"),
        ("SET memory_limit = '1TB'", "`query` is SET, not SELECT; a query may only read"),
        ("DROP VIEW primary_dataset", "`query` is DROP, not SELECT; a query may only read"),
        ("PRAGMA database_list", "`query` is PRAGMA, not SELECT; a query may only read"),
        ("SELECT 1; SELECT 2", "`query` has 2 statements; it takes one SELECT"),
        ("SELECT", "`query` is not valid SQL: Parser Error: SELECT clause without selection list"),
        ("SELECT $x AS x", "`query` uses `$x`, and `values` does not have it"),
        ("SELECT * FROM context", "Table with name context does not exist"),
        ("SELECT 1 AS a, 2 AS a", "`answer` has the column `a` twice; rename one"),
        ("SELECT v FROM first", "its tables: `primary_dataset`, `secondary_dataset_0`, `secondary_dataset_1`"),
    ],
)
def test_a_query_reads_its_datasets_and_does_nothing_else(project: Make, query: str, problem: str) -> None:
    lab = lab_of(project, "data/sql", sql(query), FILES)
    (failed,) = lab.run().of(ev.StepFailed)
    assert problem in failed.error
    assert not (lab.root / "out/made.csv").exists()


def test_values_that_the_query_does_not_use(project: Make) -> None:
    assert failure(project, "data/sql", sql("SELECT 1 AS a", values={"x": 1}), FILES) == (
        "QueryFailed: `values` has `x`, which `query` does not use"
    )


def test_no_dataset_at_all(project: Make) -> None:
    with pytest.raises(InvalidError, match="no dataset is bound: write `primary_dataset:"):
        lab_of(project, "data/sql", {"query": "SELECT 1"}, FILES).plan()


def test_a_table_that_is_called_like_a_role(project: Make) -> None:
    with_ = {**sql("SELECT 1 AS a"), "tables": {"Primary_dataset": "@a"}}
    with pytest.raises(InvalidError, match="`tables` names `Primary_dataset`, which is the name of a role; choose"):
        lab_of(project, "data/sql", with_, FILES).plan()


def test_an_answer_without_rows(project: Make) -> None:
    assert made(project, "data/sql", sql("SELECT * FROM primary_dataset WHERE false"), FILES) == [["id", "v"]]


def test_a_query_ends_when_the_step_is_told_to_stop(project: Make) -> None:
    """Not only when DuckDB is done, which here is never."""
    endless = "SELECT sum(a.range % (b.range + 1)) AS s FROM range(10000000) a, range(10000000) b"
    lab = lab_of(project, "data/sql", sql(endless), FILES)
    run = Process(lab, grace=ENDLESS)
    wait_until(lambda: lab.runs() == ["r0001"])
    run.wait_for_start("Job:J")
    time.sleep(1)  # mostly it is in the midst of it by then
    run.signal(signal.SIGINT)
    assert run.end()[0] == 130, "it was not killed, for which there is an hour"
    failed = [(e.step_id, e.status) for e in lab.events("r0001") if isinstance(e, ev.StepFailed)]
    assert failed == [("Job:J", "INTERRUPTED")]


def test_too_little_memory(project: Make) -> None:
    message = failure(project, "data/sql", sql("SELECT id FROM primary_dataset", memory_limit="1MB"), FILES)
    assert message.startswith("MemoryLimitTooSmall: `memory_limit: 1MB` is not enough here: Out of Memory Error: ")
    assert message.endswith("; raise it, or lower `threads`")


# --- check -------------------------------------------------------------------------------------------------------

DIAGNOSTICS = {
    "rows": "rows",
    "columns": "columns",
    "share": {"missing_share": ["id", "v"]},
    "lacking": {"missing": "*"},
    "repeated": {"duplicates": ["id"], "of": "secondary_dataset"},
    "same_rows": {"duplicates": "*", "of": "secondary_dataset"},
    "mean": {"sql": "SELECT avg(v) FROM primary_dataset"},
    "enough": {"sql": "SELECT count(*) >= 3 FROM primary_dataset"},
    "top": {"sql": "SELECT max(w) FROM secondary_dataset"},
    "nothing": {"sql": "SELECT sum(v) FROM primary_dataset WHERE false"},
}


def check(project: Make, diagnostics: object, **output: object):  # type: ignore[no-untyped-def]
    with_ = {"primary_dataset": "@a", "secondary_dataset": "@b", "diagnostics": diagnostics}
    return lab_of(project, "data/check", with_, FILES, out="out/made.json", type="json", **output)


def test_diagnostics_and_their_leaves(project: Make) -> None:
    lab = check(project, DIAGNOSTICS, leaves={"share": "number", "enough": "boolean", "rows": "integer"})
    ran = lab.succeed()
    assert json.loads(lab.read("out/made.json")) == {
        "rows": 3, "columns": 2, "share": 1 / 6, "lacking": 1, "repeated": 1, "same_rows": 1, "mean": 15.0,
        "enough": True, "top": "x", "nothing": None,
    }  # fmt: skip
    assert lab.content("Artifact:J.made.share") == 1 / 6
    assert task_details(ran) == [
        {
            "decision": "check",
            "read": {"primary_dataset": {"rows": 3, "columns": 2}, "secondary_dataset": {"rows": 2, "columns": 2}},
            "wrote": {"made": {"diagnostics": 10}},
        }
    ]


def test_no_rows_and_missing_keys(project: Make) -> None:
    lab = check(project, {"share": {"missing_share": "*"}, "repeated": {"duplicates": ["v"]}})
    lab.write({"a.csv": "id,v\n"}).succeed()
    assert json.loads(lab.read("out/made.json")) == {"share": 0.0, "repeated": 0}
    lab.write({"a.csv": "id,v\n1,\n2,\n"}).succeed()
    assert json.loads(lab.read("out/made.json")) == {"share": 0.5, "repeated": 0}


@pytest.mark.parametrize(
    ("diagnostic", "problem"),
    [
        ({"missing": ["x"]}, "`diagnostics.d` names `x`, and `primary_dataset` has no such column; known: `id`, `v`"),
        (
            {"missing": "*", "of": "secondary"},
            "`diagnostics.d.of` names `secondary`, which is not a dataset here; did you mean `secondary_dataset`?",
        ),
        (
            {"sql": "SELECT id FROM primary_dataset"},
            "`diagnostics.d` gives more than one row and 1 column; a diagnostic is one value",
        ),
        ({"sql": "SELECT 1/0.0 AS x"}, "`diagnostics.d` gives inf, which JSON cannot hold as a number"),
        ({"sql": "SELECT current_date"}, "`diagnostics.d` gives a date; cast it to a number, boolean or text"),
        ({"sql": "DROP VIEW x"}, "`diagnostics.d` is DROP, not SELECT; a query may only read"),
    ],
)
def test_diagnostics_that_cannot_be_computed(project: Make, diagnostic: object, problem: str) -> None:
    (failed,) = check(project, {"d": diagnostic}).run().of(ev.StepFailed)
    assert failed.error == problem


def test_a_diagnostic_is_one_thing(project: Make) -> None:
    with pytest.raises(InvalidError, match="a diagnostic is one of `missing_share`, `missing`, `duplicates`, `sql`"):
        check(project, {"d": {"missing": "*", "sql": "SELECT 1"}}).plan()


def test_a_declared_leaf_that_nobody_computes_is_refused(project: Make) -> None:
    with pytest.raises(InvalidError, match="`J` computes no diagnostic `share`"):
        check(project, {"d": "rows"}, leaves={"share": "number"}).plan()
