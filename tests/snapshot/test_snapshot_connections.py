"""Which strings of `with:` are connections, what stands in the graph for them, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from asking_lab import expanded
from msgspec.structs import replace

from whyrun.actions.base import ConnectionSlot
from whyrun.actions.description import ActionInfo
from whyrun.artifacts.hashing import value_sha256
from whyrun.connections.resolve import Connections, load_connections
from whyrun.graph.tables import EachTerm, Graph, JobTable, SameTerm
from whyrun.snapshot.actions.connections import connect, connections_of, with_connections
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Type

CONNECTIONS = """\
connections:
  db:
    main: {default: true, host: h, port: 1, password: "${PASSWORD}"}
    other: {host: o}
  file:
    scratch: {path: p}
"""
MAIN = {"$connection": "@db.main", "host": "h", "port": 1, "password": {"$secret": "${PASSWORD}"}}
OTHER = {"$connection": "@db.other", "host": "o"}
FILE = {"$connection": "@file.scratch", "path": "p"}
PYTHON, SHELL = ActionInfo("python", "1", "builtin"), ActionInfo("shell", "1", "builtin")


@pytest.fixture
def connections(tmp_path: Path) -> Connections:
    (tmp_path / "connections.yaml").write_text(CONNECTIONS)
    return load_connections(tmp_path)


def typed(*places: ConnectionSlot) -> ActionInfo:
    return ActionInfo("db/copy", "1", "project", typed=True, connections=places)


def flow(with_: str, *, more: str = "", uses: str = "python") -> str:
    return f"""\
workflow: w
inputs:
  Place: {{type: string, default: "@db"}}
  Photo: {{type: file, default: "@db"}}
  Json: {{type: json}}
loops: {{m: {{count: 2}}, n: {{values: [main, other]}}, none: {{count: 0}}}}
jobs:
  Made: {{uses: shell, with: {{run: x}}, outputs: {{Name: {{type: string}}}}}}
  Take:
    {more}
    uses: {uses}
    with: {with_}
    outputs: {{Got: {{type: json}}}}
"""


INPUTS = {
    "Input:Place": InputValue(Type("string", 0), "@db", "0" * 64, None, None),
    "Input:Json": InputValue(Type("json", 0), {"connection": "@db"}, "0" * 64, None, None),
    "Input:Photo": InputValue(Type("file", 0), "@db", "0" * 64, None, "@db"),
}


def table_of(graph: Graph, job: str = "Take") -> JobTable:
    return next(table for table in graph.tables if table.name == job)


def connected(
    connections: Connections, with_: str, info: ActionInfo = PYTHON, more: str = ""
) -> tuple[Graph, list[tuple[Any, ...]]]:
    graph = expanded(flow(with_, more=more, uses="shell" if info is SHELL else "python"), INPUTS)
    graph, problems = connect(graph, {"Take": info}, lambda: connections)
    return graph, [(p.code, p.line, p.column, p.message, p.hint) for p in problems]


def recorded(connections: Connections, with_: str, info: ActionInfo = PYTHON, more: str = "") -> Mapping[str, Any]:
    """By slot of the job; nothing is wrong, and nothing is said of any other job."""
    graph, problems = connected(connections, with_, info, more)
    assert problems == []
    assert set(graph.connected) <= {"Take"}
    return graph.connected.get("Take", {})


# --- which strings they are --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["connection", "my_connection", "_connection"])
def test_an_untyped_entry_of_such_a_name_takes_a_connection(connections: Connections, name: str) -> None:
    assert recorded(connections, f'{{call: "a:b", {name}: "@db.other"}}') == {name: {"same": OTHER}}


@pytest.mark.parametrize("entry", ['connections: "@db"', 'connection_: "@db"', 'place: "@db"', "connection: db"])
def test_any_other_entry_takes_none(connections: Connections, entry: str) -> None:
    assert recorded(connections, f'{{call: "a:b", {entry}}}') == {}


def test_an_entry_at_any_depth_takes_a_connection_and_its_neighbours_stay(connections: Connections) -> None:
    with_ = '{deep: {of: [{old_connection: "@db.other", x: "@db"}, 7], connection: ["@db", {connection: "@db"}]}}'
    deep = {"of": [{"old_connection": OTHER, "x": "@db"}, 7], "connection": ["@db", {"connection": MAIN}]}
    assert recorded(connections, with_) == {"deep": {"same": deep}}


def test_names_are_looked_for_in_every_entry(connections: Connections) -> None:
    assert recorded(connections, '{a: 1, b: [2, [{c: {connection: "@file.scratch"}}]], d: x}') == {
        "b": {"same": [2, [{"c": {"connection": FILE}}]]}
    }


def test_typed_places_take_connections_and_names_mean_nothing(connections: Connections) -> None:
    places = typed(ConnectionSlot(("source",)), ConnectionSlot(("more", "*")), ConnectionSlot(("parts", "*", "at")))
    with_ = '{source: "@db", more: ["@db.other", x], parts: {p: {at: "@file.scratch", no: "@db"}}, connection: "@db"}'
    assert recorded(connections, with_, places) == {
        "source": {"same": MAIN},
        "more": {"same": [OTHER, "x"]},
        "parts": {"same": {"p": {"at": FILE, "no": "@db"}}},
    }
    assert recorded(connections, '{connection: "@db"}', typed()) == {}


def test_the_action_says_which_fields_are_secret(connections: Connections) -> None:
    place = ConnectionSlot(("source",), secret_fields=("host",))
    found = {**MAIN, "host": {"$secret": ""}, "password": "${PASSWORD}"}
    assert recorded(connections, '{source: "@db"}', typed(place)) == {"source": {"same": found}}


def test_what_is_no_reference_at_a_typed_place_is_left_to_its_type(connections: Connections) -> None:
    place = typed(ConnectionSlot(("source",)))
    for written in ("@", "@db.", "@db main", "db"):
        assert recorded(connections, f'{{source: "{written}"}}', place) == {}


def test_the_file_is_read_only_where_there_is_a_reference() -> None:
    def load() -> Connections:
        raise AssertionError("nobody needs it")

    for with_ in ('{connection: db, place: "@db"}', '{connection: "${{ inputs.Photo }}"}', "{connection: 7}"):
        graph = expanded(flow(with_), INPUTS)
        assert connect(graph, {"Take": PYTHON}, load) == (graph, [])
    graph = expanded(flow('{connection: "@db"}'), INPUTS)
    assert connect(graph, {}, load) == (graph, [])
    graph = expanded(flow('{connection: "${{ inputs.Place }}", my_connection: "@db"}', more="for: [none]"), INPUTS)
    assert connect(graph, {"Take": PYTHON}, load) == (graph, [])
    assert graph.connected == {}


@pytest.mark.parametrize("more", ["", ", deep: {x: 1, y: [2]}", ", connection: none"])
def test_what_an_input_holds_inside_is_no_entry_of_the_workflow(connections: Connections, more: str) -> None:
    assert recorded(connections, f'{{data: "${{{{ inputs.Json }}}}"{more}}}') == {}


def test_only_entries_of_with_are_looked_at(connections: Connections) -> None:
    found = recorded(connections, '{connection: "@db.other"}', more='env: {my_connection: "@db.other"}')
    assert found == {"connection": {"same": OTHER}}


# --- where they come from ----------------------------------------------------------------------------------------


def test_an_input_may_say_which_one(connections: Connections) -> None:
    graph, problems = connected(connections, '{connection: "${{ inputs.Place }}", place: "${{ inputs.Place }}"}')
    assert (problems, graph.connected) == ([], {"Take": {"connection": {"same": MAIN}}})
    slots = {slot.name: slot for slot in table_of(graph).slots}
    assert (slots["connection"].binding, slots["place"].binding) == (False, True)


def test_many_rows_share_few_connections(connections: Connections) -> None:
    with_ = '{connection: "@db.${{ n }}", n: "${{ n }}"}'
    assert recorded(connections, with_, more="for: [m, n]") == {
        "connection": {"values": [MAIN, OTHER], "rows": [0, 1, 0, 1]}
    }


def test_what_waits_for_a_job_has_no_connection(connections: Connections) -> None:
    assert recorded(connections, '{connection: "${{ jobs.Made.outputs.Name }}"}') == {}


def test_a_row_that_waits_for_a_job_keeps_all_rows_as_they_are(connections: Connections) -> None:
    with_ = '{connection: "@db.${{ n }}", waits: "${{ jobs.Made.outputs.Name }}"}'
    graph = expanded(flow(with_, more="for: [n]"), INPUTS)
    table = table_of(graph)
    slots = {slot.name: slot for slot in table.slots}
    mixed = EachTerm([slots["connection"].column.at(0), slots["waits"].column.at(1)])
    mixing = tuple(replace(s, column=mixed) if s.name == "connection" else s for s in table.slots)
    tables = tuple(replace(t, slots=mixing) if t is table else t for t in graph.tables)
    graph = replace(graph, tables=tables)
    assert connect(graph, {"Take": PYTHON}, lambda: connections) == (graph, [])
    assert graph.connected == {}


WAITS = "the connection is in a value that is known only after other jobs have run"
ENTRY = "write `@family.alias`, or let an input say it, in an entry of its own"
NAME = "${{ jobs.Made.outputs.Name }}"


@pytest.mark.parametrize(
    ("with_", "columns"),
    [
        (f'{{connection: "@db.{NAME}"}}', [24]),
        (f'{{connection: "x@{NAME}"}}', []),
        (f'{{place: "@db.{NAME}"}}', []),
        (f'{{place: "@db.{NAME}", connection: none}}', []),
        (f'{{deep: [{{connection: "@db", x: "a {NAME}"}}]}}', [32]),
        (f'{{deep: {{connection: "@db", x: "a {NAME}", y: {{my_connection: "@file"}}}}}}', [31, 95]),
    ],
)
def test_which_one_it_is_must_be_known_before_anything_runs(
    connections: Connections, with_: str, columns: list[int]
) -> None:
    graph, problems = connected(connections, with_)
    assert problems == [("INVALID_PARAMETER", 12, column, WAITS, ENTRY) for column in columns]
    assert graph.connected == {}


# --- in the graph ------------------------------------------------------------------------------------------------


def test_the_graph_holds_them_as_parameters_that_count_by_their_fields(connections: Connections) -> None:
    with_ = '{connection: "@db.${{ n }}", fixed: {connection: "@db"}, x: "${{ jobs.Made.outputs.Name }}"}'
    graph, _ = connected(connections, with_, more="for: [m, n]")
    table = table_of(graph)
    slots = {slot.name: slot for slot in table.slots}
    fixed, each = slots["fixed"].column, slots["connection"].column
    assert isinstance(fixed, SameTerm)
    assert isinstance(each, EachTerm)
    known: list[Any] = [each.at(row) for row in range(4)]
    assert [term.value for term in known] == [MAIN, OTHER, MAIN, OTHER]
    plain = {name: value for name, value in MAIN.items() if name != "$connection"}
    assert [term.sha256 for term in known] == [value_sha256(plain), value_sha256({"host": "o"})] * 2
    assert [list(connections_of(table, row)) for row in range(4)] == [[MAIN, MAIN], [OTHER, MAIN]] * 2
    assert list(connections_of(table_of(graph, "Made"), 0)) == []


def test_a_replay_puts_the_same_into_another_graph(connections: Connections) -> None:
    with_ = '{connection: "@db.${{ n }}", n: "${{ n }}"}'
    graph, _ = connected(connections, with_, more="for: [m, n]")
    again = expanded(flow(with_, more="for: [m, n]"), INPUTS)
    again = with_connections(again, graph.connected)
    assert again.connected == graph.connected
    for table, other in zip(graph.tables, again.tables, strict=True):
        for position in range(len(table)):
            assert [(s.name, s.binding, s.column.at(position)) for s in table.slots] == [
                (s.name, s.binding, s.column.at(position)) for s in other.slots
            ]


# --- what is wrong -----------------------------------------------------------------------------------------------


def test_a_reference_that_leads_nowhere_stays_and_is_told_once(connections: Connections) -> None:
    graph, problems = connected(connections, '{connection: "@db.mian"}', more="for: [m, n]")
    assert problems == [
        ("CONNECTION_UNKNOWN", 12, 24, "`@db.mian`: the family `db` has no connection `mian`",
         "did you mean `@db.main`?"),
    ]  # fmt: skip
    assert graph.connected == {}


@pytest.mark.parametrize("written", ["@", "@db main", "@db.main.x"])
def test_without_types_a_reference_that_is_misspelt_leads_nowhere(connections: Connections, written: str) -> None:
    _, problems = connected(connections, f'{{connection: "{written}"}}')
    assert [(code[:11], line, column) for code, line, column, *_ in problems] == ([("CONNECTION_", 12, 24)])


def test_what_is_wrong_stays_beside_what_is_not(connections: Connections) -> None:
    graph, problems = connected(connections, '{deep: [{connection: "@db.other"}, {connection: "@none"}]}')
    assert [code for code, *_ in problems] == ["CONNECTION_UNKNOWN"]
    assert graph.connected == {"Take": {"deep": {"same": [{"connection": OTHER}, {"connection": "@none"}]}}}
    place = typed(ConnectionSlot(("more", "*"), families=("db",)))
    graph, problems = connected(connections, '{more: ["@db.other", "@", "@file.scratch"]}', place)
    assert [code for code, *_ in problems] == ["CONNECTION_INVALID"]
    assert graph.connected == {"Take": {"more": {"same": [OTHER, "@", "@file.scratch"]}}}


def test_it_is_told_as_deep_inside_as_it_stands(connections: Connections) -> None:
    _, problems = connected(connections, '{connection: "@a", deep: [{connection: "@b"}, {x: {connection: "@c"}}]}')
    assert [(line, column, message) for _, line, column, message, _ in problems] == [
        (12, 24, "`@a`: `connections.yaml` has no family `a`"),
        (12, 50, "`@b`: `connections.yaml` has no family `b`"),
        (12, 74, "`@c`: `connections.yaml` has no family `c`"),
    ]


def test_what_is_wrong_with_the_file_itself_is_told_alone(tmp_path: Path) -> None:
    (tmp_path / "connections.yaml").write_text('connections:\n  db:\n    main: {host: "${"}\n')
    wrong = load_connections(tmp_path)
    graph, problems = connected(wrong, '{connection: "@db", my_connection: "@none"}')
    assert [(code, line) for code, line, *_ in problems] == [("CONNECTION_INVALID", 3)]
    assert graph.connected == {}


@pytest.mark.parametrize(
    ("families", "message", "hint"),
    [
        (("db",), "family `db`, not `@file.scratch`", "write `@db.main` or `@db.other`"),
        (("a", "b"), "family `a` or `b`, not `@file.scratch`", "add one to `connections.yaml`"),
    ],
)
def test_a_connection_of_another_family(
    connections: Connections, families: tuple[str, ...], message: str, hint: str
) -> None:
    place = ConnectionSlot(("source",), families=families, required_fields=("host",))
    graph, problems = connected(connections, '{source: "@file.scratch"}', typed(place))
    message = f"the action `db/copy` takes a connection of the {message}"
    assert problems == [("CONNECTION_INVALID", 12, 20, message, hint)]
    assert graph.connected == {}
    assert recorded(connections, '{source: "@db"}', typed(ConnectionSlot(("source",), families=("x", "db")))) == {
        "source": {"same": MAIN}
    }


def test_a_connection_that_lacks_fields_is_told_with_its_place(connections: Connections, tmp_path: Path) -> None:
    place = ConnectionSlot(("source",), required_fields=("host", "path", "user"))
    _, problems = connected(connections, '{source: "@file.scratch"}', typed(place))
    ((code, line, column, message, hint),) = problems
    assert (code, line, column) == ("INVALID_PARAMETER", 12, 20)
    assert message == "the action `db/copy` needs `host`, `user` of `@file.scratch`"
    assert hint.startswith("add it to the connection, ")
    assert hint.endswith("connections.yaml:6")


def test_the_fields_of_a_shell_connection_take_their_names(connections: Connections) -> None:
    with_ = '{run: x, connection: "@db", connection_port: 1, connection_host: 2, connection_path: 3}'
    _, problems = connected(connections, with_, SHELL)
    assert [(code, message, hint) for code, _, _, message, hint in problems] == [
        ("INVALID_PARAMETER", f"`connection_{name}` is taken: it is the field `{name}` of `@db.main`",
         "choose another name")
        for name in ("host", "port")
    ]  # fmt: skip
    line = flow(with_).splitlines()[11]
    assert [column for _, _, column, _, _ in problems] == [line.index("2,") + 1, line.index("1,") + 1]
    deep = '{run: x, deep: {connection: "@db"}, deep_host: 1, connection_host: 2}'
    assert recorded(connections, deep, SHELL) == {"deep": {"same": {"connection": MAIN}}}
    assert recorded(connections, '{connection: "@db", connection_host: 2}') == {"connection": {"same": MAIN}}
