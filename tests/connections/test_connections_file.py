"""`connections.yaml`: what it may hold, and everything that is wrong with it at once."""

from __future__ import annotations

from pathlib import Path

from whyrun.connections.resolve import Connections, Unresolved, find, load_connections, parse_connections

GOOD = """
connections:
  mysql:
    primary: {default: true, host: db.example.org, port: 3306, user: etl, password: "${MYSQL_PASSWORD}"}
    replica: {host: "${REPLICA:-db2.example.org}", ssl: {ca: ca.pem, modes: [a, "${B}"]}, strict: true, nothing: null}
  duckdb:
    scratch-1: {path: data/scratch.duckdb}
"""


def problems_of(connections: Connections) -> list[tuple[str, int | None, int | None, str]]:
    assert all(d.file == "connections.yaml" and d.source_line is None for d in connections.problems)
    return [(d.code, d.line, d.column, d.message) for d in connections.problems]


def test_families_aliases_and_fields_are_read_with_their_places() -> None:
    found = parse_connections(GOOD)
    assert found.problems == ()
    assert [(c.reference, c.default, list(c.fields), c.place.line) for c in found] == [
        ("@mysql.primary", True, ["host", "port", "user", "password"], 4),
        ("@mysql.replica", False, ["host", "ssl", "strict", "nothing"], 5),
        ("@duckdb.scratch-1", False, ["path"], 7),
    ]
    assert [path for path, _ in found.families["mysql"]["replica"].leaves()] == [
        "host", "ssl.ca", "ssl.modes[0]", "ssl.modes[1]", "strict", "nothing",
    ]  # fmt: skip


def test_no_file_and_an_empty_one_have_no_connections(tmp_path: Path) -> None:
    assert load_connections(tmp_path) == Connections(exists=False)
    for text in ("", "connections:\n", "connections: {}\n", "connections: {mysql: {}}\n"):
        (tmp_path / "connections.yaml").write_text(text)
        found = load_connections(tmp_path)
        assert (list(found), found.problems, found.exists) == ([], (), True)


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "connections.yaml").write_bytes(b"connections: \xff")
    assert [(d.code, d.message) for d in load_connections(tmp_path).problems] == [
        ("YAML_SYNTAX", "it is not UTF-8 text")
    ]
    (tmp_path / "connections.yaml").unlink()
    (tmp_path / "connections.yaml").mkdir()
    (problem,) = load_connections(tmp_path).problems
    message = "`connections.yaml` cannot be read: it is not a regular file"
    assert (problem.code, problem.message) == ("FILE_MISSING", message)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = parse_connections(
        """\
connections:
  my sql: {a: {host: x}}
  mysql:
    1st: {host: x}
    a: {default: true, host: "${HOST", port: 70000}
    b: {default: true, user-name: x, port: "33a"}
    c: {default: maybe, port: [1]}
    d: [x]
    e: {port: "${PORT}", port: 3}
  postgres: none
passwords: {}
"""
    )
    assert problems_of(found) == [
        ("NAME_INVALID", 2, 3, "`my sql` cannot be the name of a family"),
        ("NAME_INVALID", 4, 5, "`1st` cannot be the name of a connection"),
        ("CONNECTION_INVALID", 5, 31, "`${HOST` is not closed by `}`"),
        ("CONNECTION_INVALID", 5, 46, "`port:` is the number `70000`"),
        ("CONNECTION_INVALID", 6, 5, "`@mysql.a` in line 5 is already the default of its family"),
        ("NAME_INVALID", 6, 24, "`user-name` cannot be the name of a field"),
        ("CONNECTION_INVALID", 6, 44, "`port:` is a string"),
        ("WRONG_TYPE", 7, 18, "`default:` is a string, not a boolean"),
        ("CONNECTION_INVALID", 7, 31, "`port:` is a list"),
        ("WRONG_TYPE", 8, 8, "the connection `@mysql.d` is a list, not a map"),
        ("DUPLICATE_KEY", 9, 26, "the key `port` appears twice"),
        ("WRONG_TYPE", 10, 13, "the family `postgres` is a string, not a map"),
        ("UNKNOWN_KEY", 11, 1, "`connections.yaml` has no key `passwords`"),
    ]


def test_a_message_repeats_nothing_of_the_file_that_may_be_a_password() -> None:
    for text in (
        "connections: {mysql: {a: {password: s3cr3t-99[]}}}",
        "connections:\n  mysql: {a: {password: 's3cr3t-99}}",
    ):
        (problem,) = parse_connections(text).problems
        assert problem.code == "YAML_SYNTAX"
        assert "s3cr3t" not in problem.render()


def test_references_lead_to_one_connection_or_say_why_not() -> None:
    connections = parse_connections(GOOD)

    def lookup(reference: str) -> str | Unresolved:
        found = find(connections, reference)
        return found if isinstance(found, Unresolved) else found.reference

    assert lookup("@mysql.replica") == "@mysql.replica"
    assert lookup("@mysql") == "@mysql.primary"
    assert lookup("@duckdb") == Unresolved(
        "CONNECTION_NO_DEFAULT",
        "`@duckdb`: no connection of the family `duckdb` has `default: true`",
        "write `@duckdb.scratch-1`, or mark one of them",
    )
    assert lookup("@mysql.primry") == Unresolved(
        "CONNECTION_UNKNOWN",
        "`@mysql.primry`: the family `mysql` has no connection `primry`",
        "did you mean `@mysql.primary`?",
    )
    assert lookup("@mysql.") == Unresolved(
        "CONNECTION_UNKNOWN",
        "`@mysql.`: the family `mysql` has no connection ``",
        "did you mean `@mysql.replica`?",
    )
    assert lookup("@msql") == Unresolved(
        "CONNECTION_UNKNOWN", "`@msql`: `connections.yaml` has no family `msql`", "did you mean `@mysql`?"
    )
    assert lookup("@") == Unresolved(
        "CONNECTION_UNKNOWN",
        "`@`: `connections.yaml` has no family ``",
        "known: `@mysql.primary`, `@mysql.replica`, `@duckdb.scratch-1`, `@mysql`, `@duckdb`",
    )
    assert find(Connections(exists=False), "@mysql") == Unresolved(
        "CONNECTION_UNKNOWN",
        "`@mysql`: the project has no `connections.yaml`",
        "create it in the project folder: `connections: {mysql: {primary: {host: …}}}`",
    )
