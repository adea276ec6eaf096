"""A step that is told to stop: the server stops too. And one that reads much: it holds little of it."""

from __future__ import annotations

import json
import signal

from movers_lab import Make, MariaDb, Postgres, lab_of

from project_lab import Process, wait_until

POSTGRES_QUERIES = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%slow%' AND query NOT LIKE '%pg_stat%'"
MARIADB_QUERIES = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%'"


def test_postgresql_is_told_to_stop(project: Make, postgres: Postgres) -> None:
    query = "SELECT pg_sleep(3600) IS NULL AS slow"
    run = Process(lab_of(project, "postgres/extract", {"connection": postgres.connection, "query": query}))
    wait_until(lambda: postgres.do(POSTGRES_QUERIES) == [("1",)])
    run.signal(signal.SIGINT)
    code, _ = run.end()
    assert code == 130
    wait_until(lambda: postgres.do(POSTGRES_QUERIES) == [("0",)])


def test_a_load_that_is_stopped_leaves_the_table_as_it_was(project: Make, postgres: Postgres) -> None:
    """It waits for a lock that somebody else holds."""
    postgres.do("CREATE TABLE t (n bigint)", "INSERT INTO t VALUES (1)")
    with_ = {"connection": postgres.connection, "data": "<a>", "table": "t", "mode": "truncate"}
    lab = lab_of(project, "postgres/load", with_, {"a.csv": "n\n2\n"}, None)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with postgres.locked("t"):
        run = Process(lab)
        wait_until(lambda: postgres.do(waiting) == [("1",)])
        run.signal(signal.SIGINT)
        code, _ = run.end()
        assert code == 130
        wait_until(lambda: postgres.do(waiting) == [("0",)])
    assert postgres.do("SELECT * FROM t") == [("1",)]


def test_mariadb_is_told_to_stop(project: Make, mariadb: MariaDb) -> None:
    query = "SELECT SLEEP(3600) AS slow"
    run = Process(lab_of(project, "mysql/extract", {"connection": mariadb.connection, "query": query}))
    wait_until(lambda: mariadb.do(MARIADB_QUERIES) == [(1,)])
    run.signal(signal.SIGINT)
    code, _ = run.end()
    assert code == 130
    wait_until(lambda: mariadb.do(MARIADB_QUERIES) == [(0,)])


def test_much_is_read_in_little_memory(project: Make, postgres: Postgres) -> None:
    """400 MB of rows, by a step that may use 250 MB. Compared with few rows: the libraries, among them polars where it
    is installed, because the ADBC driver imports it, need 180 to 210 MB before the first row."""
    query = "SELECT n, repeat('much', 48) || n AS v FROM generate_series(1, 1000) n ORDER BY NULL::int"
    with_ = {"connection": postgres.connection, "query": query, "memory_limit": "250MB"}
    lab = lab_of(project, "postgres/extract", with_)

    def peak(rows: int) -> float:
        ran = lab.succeed()
        assert ran.folder is not None
        lines = map(json.loads, (ran.folder / "metrics.jsonl").read_text().splitlines())
        found = {line["metric"]: line["value"] for line in lines}
        assert (found["rows_read"], found["rows_written"]) == (rows, rows)
        return float(found["max_rss_bytes"])

    few = peak(1000)
    lab.edit("workflow.yaml", "(1, 1000)", "(1, 2000000)")
    much = peak(2_000_000)
    assert few < 250e6
    assert much - few < 170e6
