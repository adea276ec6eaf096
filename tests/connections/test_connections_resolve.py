"""A connection as a plan has it, and as a step gets it: which of its values are secret, and under which names."""

from __future__ import annotations

from typing import Any

from whyrun.connections.planned_value import connections_in, without_names
from whyrun.connections.resolve import Ready, WrittenConnection, parse_connections, planned, ready

PASSWORD = "s3cret-hunter22"


def one(fields: str) -> WrittenConnection:
    found = parse_connections(f"connections: {{db: {{one: {fields}}}}}")
    assert found.problems == ()
    return found.families["db"]["one"]


def made(fields: str, *secret_fields: str, **environment: str) -> Ready:
    found = ready(one(fields), secret_fields, environment)
    assert (found.problems, found.missing) == ([], [])
    return found


def test_a_plan_has_what_is_written() -> None:
    connection = one(
        '{default: true, host: "${HOST:-h}", port: 3306, tls: {on: true, names: [a, "$${b}"]}, none: null}'
    )
    mark = planned(connection, ("password",))
    fields = {"host": "${HOST:-h}", "port": 3306, "tls": {"on": True, "names": ["a", "$${b}"]}, "none": None}
    assert mark == {"$connection": "@db.one", **fields}
    value = {"a": [mark, 1], "b": "@db.one"}
    assert without_names(value) == {"a": [fields, 1], "b": "@db.one"}
    assert list(connections_in(value)) == [mark]


def test_of_a_secret_field_a_plan_has_only_the_names_of_its_variables() -> None:
    def password(written: str) -> Any:
        return planned(one(f"{{password: {written}}}"), ("password",))["password"]

    assert password('"${A}"') == {"$secret": "${A}"}
    assert password('"x-${A:-hunter2}-${B}"') == {"$secret": "${A}${B}"}
    assert password("hunter2") == {"$secret": ""}
    assert password("12345678") == {"$secret": ""}
    assert password("{deep: [hunter2]}") == {"deep": [{"$secret": ""}]}
    assert password("null") is None


def test_a_step_gets_values_and_of_secrets_their_names() -> None:
    found = made(
        '{host: "${HOST}", port: "${PORT}", user: "${USER:-etl}", password: "${PASSWORD}", path: /x, n: 1.5}',
        HOST="db", PORT="5433", PASSWORD=PASSWORD,
    )  # fmt: skip
    assert found.value == {
        "host": "db",
        "port": 5433,
        "user": "etl",
        "password": {"$secret": "@db.one.password"},
        "path": "/x",
        "n": 1.5,
    }
    assert found.secrets == {"@db.one.password": PASSWORD}
    assert found.real() == {
        "host": "db", "port": 5433, "user": "etl", "password": PASSWORD, "path": "/x", "n": 1.5,
    }  # fmt: skip


def test_inside_a_longer_text_the_secret_is_the_variable_and_not_the_text() -> None:
    found = made('{url: "mysql://${USER:-root}:${PASSWORD}@${HOST:-localhost}/d"}', PASSWORD=PASSWORD)
    name = "@db.one.url:PASSWORD"
    assert found.value == {"url": {"$secret": name, "format": "mysql://root:{}@localhost/d"}}
    assert found.secrets == {name: PASSWORD}
    assert found.real() == {"url": f"mysql://root:{PASSWORD}@localhost/d"}


def test_several_secrets_in_one_text_travel_whole_and_each_by_itself() -> None:
    found = made('{url: "${USER}:${PASSWORD}"}', USER="a-long-user", PASSWORD=PASSWORD)
    assert found.value == {"url": {"$secret": "@db.one.url"}}
    assert found.secrets == {
        "@db.one.url": f"a-long-user:{PASSWORD}",
        "@db.one.url:USER": "a-long-user",
        "@db.one.url:PASSWORD": PASSWORD,
    }


def test_a_text_with_a_hole_of_its_own_is_secret_as_a_whole() -> None:
    found = made('{url: "{} ${PASSWORD}"}', PASSWORD=PASSWORD)
    assert found.value == {"url": {"$secret": "@db.one.url"}}
    assert found.real() == {"url": f"{{}} {PASSWORD}"}


def test_a_field_that_is_typed_as_secret_is_one_wherever_it_came_from() -> None:
    def password(written: str, **environment: str) -> tuple[Any, dict[str, str]]:
        found = made(f"{{password: {written}}}", "password", **environment)
        return found.value["password"], found.secrets

    reference, name = {"$secret": "@db.one.password"}, "@db.one.password"
    assert password("hunter2") == (reference, {name: "hunter2"})
    assert password("0123") == (reference, {name: "0123"})  # digits as they are written, not a number
    assert password('"${A:-hunter2}"') == (reference, {name: "hunter2"})
    assert password('"${A}"', A="short") == (reference, {name: "short"})
    assert password('"x-${A}"', A=PASSWORD) == (reference, {name: f"x-{PASSWORD}", f"{name}:A": PASSWORD})
    assert password('""') == ("", {})
    assert password("null") == (None, {})


def test_nested_secrets_have_a_name_each() -> None:
    found = made('{tls: {keys: ["${A}", "${B}"]}}', A="a-long-value", B="b-long-value")
    assert found.value == {"tls": {"keys": [{"$secret": "@db.one.tls.keys[0]"}, {"$secret": "@db.one.tls.keys[1]"}]}}
    assert found.secrets == {"@db.one.tls.keys[0]": "a-long-value", "@db.one.tls.keys[1]": "b-long-value"}


def test_every_variable_that_is_missing_is_told_with_its_place_and_nothing_of_its_line() -> None:
    found = ready(one('{host: "${HOST}", password: "hunter2-${PASSWORD}"}'), ("password",), {})
    assert found.missing == ["HOST", "PASSWORD"]
    assert [(d.code, d.file, d.line, d.column, d.source_line, d.message) for d in found.problems] == [
        ("SECRET_MISSING", "connections.yaml", 1, 33, None,
         "`@db.one.host` needs the variable `HOST`, which is not in the environment"),
        ("SECRET_MISSING", "connections.yaml", 1, 62, None,
         "`@db.one.password` needs the variable `PASSWORD`, which is not in the environment"),
    ]  # fmt: skip


def test_a_value_that_is_no_text_cannot_stand_in_a_file() -> None:
    found = ready(one('{user: "${USER}"}'), (), {"USER": "caf\udce9"})
    assert [(d.code, d.message) for d in found.problems] == [
        ("CONNECTION_INVALID", "`@db.one.user` takes the variable `USER`, which is not UTF-8 text")
    ]
    assert made('{user: "${USER}"}', USER="a-long-caf\udce9").secrets == {"@db.one.user": "a-long-caf\udce9"}


def test_a_port_that_a_variable_gives_is_a_number_or_refused_without_being_shown() -> None:
    found = ready(one('{port: "${PORT}"}'), (), {"PORT": "not-a-port-but-a-secret"})
    assert [(d.code, d.message) for d in found.problems] == [
        ("CONNECTION_INVALID", "the port of `@db.one` is not a number")
    ]
    assert made('{port: "3306"}').value == {"port": 3306}
