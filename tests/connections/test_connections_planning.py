"""Connections in workflows: which strings they are, what is wrong with them, and what makes a job dirty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from project_lab import Lab, codes, reasons
from whyrun.errors import InvalidError, WhyrunError
from whyrun.facts.plans import plan_of_run
from whyrun.snapshot.history.replay import snapshot_blob

Make = Callable[..., Lab]

CONNECTIONS = """\
connections:
  mysql:
    primary: {default: true, host: "${DB_HOST:-db}", user: "${DB_USER}", password: "${DB_PASSWORD}"}
    replica: {host: replica, user: etl, password: hunter2-literal}
  duckdb:
    scratch: {path: scratch.duckdb}
"""
STEPS = """
    def show(**given):
        return {"Got": given}

    def take(connection):
        return {"Got": sorted(connection)}
"""
FLOW = """
    workflow: flow
    jobs:
      Load:
        uses: python
        with: {call: "steps:take", connection: "@mysql"}
        outputs: {Got: {type: json}}
"""
ACTIONS = """
    from whyrun import Action, Connection, Parameters, Secret

    class Server(Connection):
        secret_fields = ("password", "token")
        required_fields = ("host",)

    class Part(Parameters):
        source: Connection
        label: str = ""

    class Copy(Action):
        name, version = "db/copy", "1"
        outputs = {"Got": "json"}

        class Params(Parameters):
            source: Server
            more: list[Connection] = []
            parts: dict[str, Part] = {}
            connection: str = ""
            token: Secret | None = None
            optional: Connection | None = None

        def run(self, inputs, mode="run", context=None, logger=None):
            kinds = {name: type(value).__name__ for name, value in inputs.items()}
            return {"Got": {"kinds": kinds, "source": {**inputs["source"], "password": None}}}
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DB_HOST", "DB_USER", "DB_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_USER", "etl")
    monkeypatch.setenv("DB_PASSWORD", "a-long-password")


def lab_of(project: Make, flow: str, connections: str | None = CONNECTIONS) -> Lab:
    files = {"steps.py": STEPS, "actions/db.py": ACTIONS}
    return project(flow, files if connections is None else {**files, "connections.yaml": connections})


def typed(with_: str) -> str:
    return f"""
workflow: flow
jobs:
  Copy:
    uses: db/copy
    with: {with_}
    outputs: {{Got: {{type: json}}}}
"""


def refused(lab: Lab) -> list[tuple[Any, ...]]:
    found = lab.opened().problems
    with pytest.raises(InvalidError) as stopped:
        lab.plan()
    assert stopped.value.diagnostics == found
    return [(d.code, d.file.rpartition("/")[2] if d.file else None, d.line, d.column, d.message) for d in found]


# --- the plan ------------------------------------------------------------------------------------------------------


def test_a_plan_needs_no_variable_and_holds_none(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = lab_of(project, FLOW)
    plain = lab.snapshot(), lab.plan()
    monkeypatch.setenv("DB_HOST", "host-of-this-machine")
    monkeypatch.setenv("DB_USER", "user-of-this-machine")
    monkeypatch.setenv("DB_PASSWORD", "password-of-this-machine")
    again = lab.snapshot(), lab.plan()
    assert plain[1].to_bytes() == again[1].to_bytes()
    assert snapshot_blob(plain[0]) == snapshot_blob(again[0])
    assert b"-of-this-machine" not in snapshot_blob(again[0])
    assert b"hunter2" not in snapshot_blob(again[0])


def test_what_is_written_counts_and_what_a_variable_holds_does_not(
    project: Make, monkeypatch: pytest.MonkeyPatch, values: None
) -> None:
    lab = lab_of(project, FLOW)
    lab.succeed()
    assert codes(lab.plan()) == {}
    monkeypatch.setenv("DB_PASSWORD", "another-password")
    monkeypatch.setenv("DB_HOST", "elsewhere")
    assert codes(lab.plan()) == {}
    lab.edit("connections.yaml", "${DB_HOST:-db}", "${DB_HOST:-db.example.org}")
    (reason,) = reasons(lab.plan())["Job:Load"]
    assert (reason["code"], reason["source"]) == ("INPUT_CHANGED", "Input:Load.with.connection")
    assert reason["old_value"] == {
        "$connection": "@mysql.primary",
        "host": "${DB_HOST:-db}",
        "user": "${DB_USER}",
        "password": {"$secret": "${DB_PASSWORD}"},
    }
    assert reason["new_value"] == {**reason["old_value"], "host": "${DB_HOST:-db.example.org}"}


def test_edits_that_do_not_reach_the_job_dirty_nothing(project: Make, values: None) -> None:
    lab = lab_of(project, FLOW)
    lab.succeed()
    for old, new in [
        ("host: replica", "host: other"),  # another alias
        ("scratch.duckdb", "other.duckdb"),  # another family
        ("connections:\n", "# a comment\nconnections:\n"),
        ("    primary: {default: true, host", "    main: {default: true, host"),  # the name that it goes by
    ]:
        lab.edit("connections.yaml", old, new)
        assert codes(lab.plan()) == {}, new
    lab.edit("workflow.yaml", '"@mysql"', '"@mysql.main"')
    assert codes(lab.plan()) == {}
    lab.edit("workflow.yaml", '"@mysql.main"', '"@mysql.replica"')
    assert codes(lab.plan()) == {"Job:Load": ["INPUT_CHANGED"]}


def test_a_literal_password_neither_counts_nor_stands_in_a_plan(project: Make) -> None:
    lab = lab_of(project, FLOW.replace("@mysql", "@mysql.replica"))
    lab.succeed()
    lab.edit("connections.yaml", "hunter2-literal", "hunter3-literal")
    assert codes(lab.plan()) == {}


def test_a_plan_of_the_past_is_reproduced_after_the_file_changed(project: Make, values: None) -> None:
    lab = lab_of(project, FLOW)
    ran = lab.succeed()
    lab.write({"connections.yaml": None})
    lab.edit("workflow.yaml", '"@mysql"', "none")
    assert plan_of_run(lab.opened(), "r0001").plan.to_bytes() == ran.plan.to_bytes()


def test_an_input_or_a_loop_may_say_which_connection(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = lab_of(
        project,
        """
        workflow: flow
        inputs:
          Place: {type: string, default: "@one.a"}
          Places: {type: "string[]", default: ["@one.b", none]}
        loops: {shard: {values: [a, b]}, at: {each: inputs.Places}}
        jobs:
          ByInput:
            uses: python
            with: {call: "steps:show", connection: "${{ inputs.Place }}"}
            outputs: {Got: {type: json}}
          ByLoop:
            for: [shard]
            uses: python
            with: {call: "steps:show", of: {my_connection: "@one.${{ shard }}"}}
            outputs: {Got: {type: json}}
          ByElement:
            for: [at]
            uses: python
            with: {call: "steps:show", connection: "${{ inputs.Places[at] }}", other: "@one.a"}
            outputs: {Got: {type: json}}
        """,
        "connections: {one: {a: {host: a}, b: {host: b}}}",
    )
    ran = lab.succeed()
    assert plan_of_run(lab.opened(), "r0001").plan.to_bytes() == ran.plan.to_bytes()
    assert lab.content("Artifact:ByInput.Got") == {"connection": {"host": "a"}}
    assert lab.content("Artifact:ByLoop.Got[b]") == {"of": {"my_connection": {"host": "b"}}}
    assert lab.content("Artifact:ByElement.Got[0]") == {"connection": {"host": "b"}, "other": "@one.a"}
    assert lab.content("Artifact:ByElement.Got[1]") == {"connection": "none", "other": "@one.a"}
    assert codes(lab.plan()) == {}
    assert codes(lab.plan(sets=["Place=@one.b"])) == {"Job:ByInput": ["INPUT_CHANGED"]}
    lab.edit("connections.yaml", "b: {host: b}", "b: {host: c}")
    assert codes(lab.plan()) == {"Job:ByLoop[b]": ["INPUT_CHANGED"], "Job:ByElement[0]": ["INPUT_CHANGED"]}


def test_a_shell_gets_fields_where_there_is_a_connection_and_a_plain_value_elsewhere(project: Make) -> None:
    lab = lab_of(
        project,
        """
        workflow: flow
        inputs:
          Places: {type: "json[]", default: ["@one.a", "plain", null]}
          Word: {type: string, default: w}
        loops: {at: {each: inputs.Places}}
        jobs:
          Deep:
            uses: shell
            with:
              deep: {connection: "@one.a", word: "${{ inputs.Word }}"}
              run: printf "%s" "$deep" > "$out_Got"
            outputs: {Got: {type: text}}
          Show:
            for: [at]
            uses: shell
            with:
              connection: ${{ inputs.Places[at] }}
              run: 'printf "%s" "${connection-unset} ${connection_hosts[*]-unset} ${connection_tls-unset}" > "$out_Got"'
            outputs: {Got: {type: text}}
        """,
        "connections: {one: {a: {hosts: [a, b], tls: {on: true}}}}",
    )
    lab.succeed()
    assert [lab.content(f"Artifact:Show.Got[{i}]") for i in range(3)] == [
        'unset a b {"on":true}', "plain unset unset", " unset unset",
    ]  # fmt: skip
    assert lab.content("Artifact:Deep.Got") == '{"connection":{"hosts":["a","b"],"tls":{"on":true}},"word":"w"}'


# --- typed ---------------------------------------------------------------------------------------------------------


def test_typed_parameters_get_their_connections_at_any_depth(project: Make) -> None:
    lab = lab_of(
        project,
        typed(
            '{source: "@a.one", more: ["@a.one", {host: x}], parts: {p: {source: "@a", label: "@a.one"}}, '
            'connection: "@a.one"}'
        ),
        "connections: {a: {one: {default: true, host: h, port: 1}}}",
    )
    ran = lab.succeed()
    assert lab.content("Artifact:Copy.Got") == {
        "kinds": {"source": "Server", "more": "list", "parts": "dict", "connection": "str", "token": "NoneType",
                  "optional": "NoneType"},
        "source": {"host": "h", "port": 1, "password": None},
    }  # fmt: skip
    assert ran.cfg("Copy")["with"] == {
        "source": {"host": "h", "port": 1},
        "more": [{"host": "h", "port": 1}, {"host": "x"}],
        "parts": {"p": {"source": {"host": "h", "port": 1}, "label": "@a.one"}},
        "connection": "@a.one",
    }


def test_a_connection_lacks_what_its_action_needs(project: Make) -> None:
    lab = lab_of(project, typed('{source: "@a.one"}'), "connections: {a: {one: {path: x}}}")
    assert refused(lab) == [
        ("INVALID_PARAMETER", "workflow.yaml", 6, 20, "the action `db/copy` needs `host` of `@a.one`")
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("source: mysql", '`source` is "mysql": a connection is written `@family.alias` or `@family`; it takes '
         "a connection, such as `@family.alias`"),
        ("source: 3", "`source` is 3: a connection is written `@family.alias` or `@family`; it takes "
         "a connection, such as `@family.alias`"),
        ("source: {host: a, password: hunter2-literal}",
         "`source.password` is a secret, and must not be written in the workflow"),
        ('source: {host: "${{ inputs.H }}", token: hunter2-literal}',
         "`source.token` is a secret, and must not be written in the workflow"),
        ('source: "@mysql.replica", token: hunter2-literal',
         "`token` is a secret, and must not be written in the workflow"),
        ('source: "@mysql.replica", token: "${{ inputs.H }}"',
         "`token` is a secret, and must not be written in the workflow"),
    ],
)  # fmt: skip
def test_what_is_no_connection_or_a_written_secret_is_refused(project: Make, given: str, message: str) -> None:
    flow = typed(f"{{{given}}}") + "inputs: {H: {type: string, default: hunter2-input}}\n"
    found = refused(lab_of(project, flow))
    assert [(code, text) for code, *_, text in found] == [("INVALID_PARAMETER", message)]
    assert "hunter2" not in "".join(d.message + (d.hint or "") for d in lab_of(project, flow).opened().problems)


def test_a_secret_that_is_named_is_handed_over_as_one(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHYRUN_TEST_TOKEN", "a-long-token")
    flow = typed('{source: "@mysql.replica", token: "${{ secrets.WHYRUN_TEST_TOKEN }}"}')
    lab = lab_of(project, flow + "    secrets: [WHYRUN_TEST_TOKEN]\n")
    ran = lab.succeed()
    assert lab.content("Artifact:Copy.Got")["kinds"]["token"] == "Secret"
    assert ran.cfg("Copy")["with"]["token"] == {"$secret": "WHYRUN_TEST_TOKEN"}
    assert ran.cfg("Copy")["secrets"] == ["WHYRUN_TEST_TOKEN", "@mysql.replica.password"]


# --- what is wrong -------------------------------------------------------------------------------------------------


def test_all_that_is_wrong_is_told_at_once_before_anything_runs(project: Make) -> None:
    lab = lab_of(
        project,
        """\
workflow: flow
jobs:
  A:
    uses: python
    with: {call: "steps:show", connection: "@mysql.primry"}
    outputs: {Got: {type: json}}
  B:
    uses: shell
    with:
      connection: "@duckdb"
      connection_path: x
      run: echo
      deep: {of: [{old_connection: "@msql.x"}]}
    outputs: {Got: {type: text}}
  C:
    uses: db/copy
    with: {source: "@", parts: {p: {source: "@redis"}}}
    outputs: {Got: {type: json}}
""",
    )
    assert refused(lab) == [
        ("CONNECTION_UNKNOWN", "workflow.yaml", 5, 44,
         "`@mysql.primry`: the family `mysql` has no connection `primry`"),
        ("CONNECTION_NO_DEFAULT", "workflow.yaml", 10, 19,
         "`@duckdb`: no connection of the family `duckdb` has `default: true`"),
        ("CONNECTION_UNKNOWN", "workflow.yaml", 13, 36,
         "`@msql.x`: `connections.yaml` has no family `msql`"),
        ("INVALID_PARAMETER", "workflow.yaml", 17, 20,
         '`source` is "@": a connection is written `@family.alias` or `@family`; it takes '
         "a connection, such as `@family.alias`"),
        ("CONNECTION_UNKNOWN", "workflow.yaml", 17, 45, "`@redis`: `connections.yaml` has no family `redis`"),
    ]  # fmt: skip


def test_a_wrong_file_is_told_with_its_own_places_and_only_where_it_is_needed(project: Make) -> None:
    wrong = 'connections:\n  mysql:\n    primary: {host: "${", default: true}\n    b: {default: true}\n'
    lab = lab_of(project, FLOW, wrong)
    assert refused(lab) == [
        ("CONNECTION_INVALID", "connections.yaml", 3, 22, "`${` is not followed by the name of a variable"),
        ("CONNECTION_INVALID", "connections.yaml", 4, 5,
         "`@mysql.primary` in line 3 is already the default of its family"),
    ]  # fmt: skip
    lab.edit("workflow.yaml", '"@mysql"', "mysql")
    assert codes(lab.plan()) == {"Job:Load": ["MISSING_OUTPUT"]}


def test_without_a_file_the_hint_says_what_to_write(project: Make) -> None:
    lab = lab_of(project, FLOW, None)
    (problem,) = lab.opened().problems
    assert (problem.code, problem.line, problem.column, problem.message, problem.hint) == (
        "CONNECTION_UNKNOWN", 6, 44, "`@mysql`: the project has no `connections.yaml`",
        "create it in the project folder: `connections: {mysql: {primary: {host: …}}}`",
    )  # fmt: skip


def test_a_field_of_a_shell_connection_takes_a_name(project: Make) -> None:
    lab = lab_of(
        project,
        """\
workflow: flow
jobs:
  B:
    uses: shell
    with: {connection: "@duckdb.scratch", connection_path: x, run: echo}
    outputs: {Got: {type: text}}
""",
    )
    assert refused(lab) == [
        ("INVALID_PARAMETER", "workflow.yaml", 5, 60,
         "`connection_path` is taken: it is the field `path` of `@duckdb.scratch`"),
    ]  # fmt: skip


def test_which_connection_it_is_cannot_come_from_another_job(project: Make) -> None:
    lab = lab_of(
        project,
        """\
workflow: flow
jobs:
  A:
    uses: shell
    with: {run: echo}
    outputs: {Name: {type: string}}
  B:
    uses: python
    with: {call: "steps:show", connection: "@mysql.${{ jobs.A.outputs.Name }}"}
    outputs: {Got: {type: json}}
""",
    )
    assert refused(lab) == [
        ("INVALID_PARAMETER", "workflow.yaml", 9, 44,
         "the connection is in a value that is known only after other jobs have run"),
    ]  # fmt: skip


def test_every_missing_variable_is_told_at_once_and_nothing_runs(project: Make) -> None:
    lab = lab_of(project, FLOW + "        secrets: [WHYRUN_TEST_NONE]\n")
    with pytest.raises(WhyrunError) as stopped:
        lab.run()
    assert [(d.code, d.file and d.file.rpartition("/")[2], d.line, d.column) for d in stopped.value.diagnostics] == [
        ("SECRET_MISSING", "workflow.yaml", 8, 14),
        ("SECRET_MISSING", "connections.yaml", 3, 61),
        ("SECRET_MISSING", "connections.yaml", 3, 85),
    ]
    assert stopped.value.diagnostics[1].message == (
        "`@mysql.primary.user` needs the variable `DB_USER`, which is not in the environment"
    )
    assert lab.runs() == []


@pytest.mark.parametrize(
    ("uses", "with_", "wanted", "hint"),
    [
        ("mysql/extract", '{query: "SELECT 1 AS a", connection: "@duckdb.scratch"}', "`mysql` or `mariadb`",
         "write `@mysql.primary` or `@mysql.replica`"),
        ("postgres/extract", '{query: "SELECT 1 AS a", connection: "@mysql"}', "`postgres` or `postgresql`",
         "add one to `connections.yaml`"),
        ("duckdb/query", '{query: "SELECT 1 AS a", connection: "@mysql"}', "`duckdb`", "write `@duckdb.scratch`"),
        ("own/read", '{query: "SELECT 1 AS a", connection: "@mysql"}', "`duckdb`", "write `@duckdb.scratch`"),
    ],
)  # fmt: skip
def test_a_connection_of_another_family_is_refused(
    project: Make, uses: str, with_: str, wanted: str, hint: str
) -> None:
    pytest.importorskip("pymysql")
    pytest.importorskip("adbc_driver_postgresql")
    pytest.importorskip("duckdb")
    flow = f"""
workflow: flow
jobs:
  Read:
    uses: {uses}
    with: {with_}
    outputs: {{made: {{type: dataset, path: made.parquet}}}}
"""
    lab = lab_of(project, flow)
    lab.write(
        {
            "actions/own.py": """
            from whyrun import Action, Connection, Parameters

            class File(Connection):
                families = ("duckdb",)

            class Read(Action):
                name, version = "own/read", "1"
                outputs = {"made": "dataset"}

                class Params(Parameters):
                    connection: File
                    query: str

                def run(self, inputs, mode="run", context=None, logger=None):
                    raise AssertionError("nothing runs")
            """
        }
    )
    given = "@duckdb.scratch" if "@duckdb.scratch" in with_ else "@mysql"
    message = f"the action `{uses}` takes a connection of the family {wanted}, not `{given}`"
    place = flow.split("\n")[5].index('"@') + 1
    assert refused(lab) == [("CONNECTION_INVALID", "workflow.yaml", 6, place, message)]
    assert [found.hint for found in lab.opened().problems] == [hint]
