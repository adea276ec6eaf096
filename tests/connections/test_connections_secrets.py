"""Planted secrets in real runs: no byte of them in any file, name or word of ours; each step has only its own."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from project_lab import Lab
from whyrun.exports.reading import RunSubject
from whyrun.exports.registry import FORMATS, export
from whyrun.log import events as ev

Make = Callable[..., Lab]

# With all that JSON, a `repr`, a URL and a shell write in another way.
PASSWORD = 's3cr3t "quoted" pa\'ss\\wörd/+&'
HOST = "secret-host.example.org"
OTHER = "other-secret-of-another-step"
UNUSED = "a-secret-that-no-step-refers-to"
LITERAL = "written-down-in-the-file"
ENVIRONMENT = {"DB_PASSWORD": PASSWORD, "DB_HOST": HOST, "OTHER_PASSWORD": OTHER, "UNUSED_API_KEY": UNUSED}
SPELLINGS = [
    spelling.encode()
    for secret in (PASSWORD, HOST, OTHER, UNUSED, LITERAL)
    for spelling in (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], ascii(secret)[1:-1], quote(secret, safe=""))
]

CONNECTIONS = f"""
connections:
  db:
    main:
      default: true
      host: "${{DB_HOST}}"
      user: "${{DB_USER:-a-user-of-the-db}}"
      password: "${{DB_PASSWORD}}"
      url: "db://user:${{DB_PASSWORD}}@${{DB_HOST}}/x"
      header: "Basic ${{DB_PASSWORD}}"
    other: {{host: other, password: "${{OTHER_PASSWORD}}"}}
    literal: {{host: literal, password: {LITERAL}}}
    unused: {{host: unused, password: "${{UNUSED_API_KEY}}"}}
"""
STEPS = """
import json, os, sys
from urllib.parse import quote


def shout(connection, context):
    for text in (connection["password"], connection["url"], repr(connection), json.dumps(connection)):
        print(text)
        print(text, file=sys.stderr)
        os.write(1, text.encode()[: len(text) // 2])
        os.write(1, text.encode()[len(text) // 2:] + b"\\n")
        context.task("EXECUTES", "as " + text, {"detail": text, text: 1})
    print(quote(connection["password"], safe=""), connection["host"], connection["header"])


def command_lines():
    for folder in os.scandir("/proc"):
        if folder.name.isdigit():
            try:
                with open(f"/proc/{folder.name}/cmdline", "rb") as file:
                    yield file.read()
            except OSError:  # it has ended meanwhile
                pass


def good(connection, context):
    shout(connection, context)
    told = [line for line in command_lines() if connection["password"].encode() in line]
    return {"Got": {
        "fields": sorted(connection), "user": connection["user"], "environment": sorted(os.environ), "told": len(told),
    }}


def fail(connection, context):
    shout(connection, context)
    context.work_dir.joinpath("partial.txt").write_text(connection["password"])
    context.work_dir.joinpath(connection["host"]).write_text("a name")
    try:
        raise KeyError(connection["password"])
    except KeyError:
        raise RuntimeError(f"cannot log in with {connection!r} at {connection['url']}")


def leak(connection, context):
    context.output("Got").write_text(json.dumps("x" * 100_000 + connection["password"]))


def alone(planted, connection=None):
    with open(planted) as file:
        values = json.load(file)
    given = repr(list((connection or {}).values()))
    with open("/proc/self/environ") as file:
        environment = file.read() + repr(os.environ)
    return {"Got": {
        "given": [name for name, value in values.items() if repr(value)[1:-1] in given],
        "environment": [name for name, value in values.items() if value in environment or name in environment],
    }}


def own(connection):
    return {"Got": len(connection["password"])}
"""


def flow(**jobs: str) -> str:
    lines = ["workflow: flow", "jobs:"]
    for name, with_ in jobs.items():
        lines += [f"  {name}:", "    uses: python", f"    with: {{{with_}}}", "    outputs: {Got: {type: json}}"]
    return "\n".join(lines) + "\n"


def command(lab: Lab, *words: str) -> subprocess.CompletedProcess[bytes]:
    """The real command, with the planted values in its environment."""
    return subprocess.run(
        [sys.executable, "-m", "whyrun.cli.main", *words],
        cwd=lab.root, env={**os.environ, **ENVIRONMENT}, capture_output=True, timeout=300, check=False,
    )  # fmt: skip


def traces(root: Path, *told: bytes) -> list[str]:
    """Where a planted value is found: in files, their names, links, and in what was told."""
    found = [f"told: {text[:200]!r}" for text in told if any(s in text for s in SPELLINGS)]
    for path in root.rglob("*"):
        if any(s in os.fsencode(path.relative_to(root)) for s in SPELLINGS):
            found.append(f"name: {path}")
        data = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        if any(s in data for s in SPELLINGS):
            found.append(str(path.relative_to(root)))
    return found


def exports(lab: Lab, run: str) -> list[bytes]:
    """The run in every format, without a secret in the environment by which an export could be refused."""
    project = lab.opened()
    found = []
    for name in FORMATS:
        rendered = export(RunSubject(project, project.state.run(run)), name)
        files = [part if isinstance(part, bytes) else Path(part).read_bytes() for part in rendered.folder.values()]
        found += [rendered.data, rendered.said, *files]
    assert len(found) > 2 * len(FORMATS)
    return found


@pytest.fixture
def made(project: Make) -> Callable[[str], Lab]:
    return lambda workflow: project(workflow, {"connections.yaml": CONNECTIONS, "steps.py": STEPS})


def test_no_byte_of_a_secret_is_left_by_a_run_that_succeeds(made: Callable[[str], Lab]) -> None:
    lab = made(flow(Good='call: "steps:good", connection: "@db"'))
    done = command(lab, "run", "--log-level", "debug", "--log-file", "own.log")
    assert done.returncode == 0, done.stderr
    got = lab.content("Artifact:Good.Got")
    assert got["fields"] == ["header", "host", "password", "url", "user"]
    assert got["told"] == 0, "a secret stands in a command line"
    assert got["user"] == "a-user-of-the-db"  # the written default is no secret, whatever its length
    assert not {"DB_PASSWORD", "DB_HOST", "UNUSED_API_KEY"} & set(got["environment"])
    kept = lab.run_folder("r0001") / "steps" / "Good" / "stdout.log"
    assert kept.read_text().endswith(
        '"url": "***", "user": "a-user-of-the-db"}\n*** *** Basic ***\n'
    )  # there, and masked
    questions = [command(lab, *words) for words in (
        ["log", "r0001", "--json"], ["show", "Job:Good", "--json"], ["why", "Job:Good"], ["runs", "--json"],
        ["connections"], ["connections", "--json"], ["plan", "--json", "--force", "Job:Good"],
    )]  # fmt: skip
    assert [answer.returncode for answer in questions] == [0] * len(questions)
    told = [text for answer in [done, *questions] for text in (answer.stdout, answer.stderr)]
    assert traces(lab.root, *told, *exports(lab, "r0001")) == ["connections.yaml"]  # the user's own


def test_the_cfg_names_the_secrets_and_is_ready_to_run_otherwise(made: Callable[[str], Lab]) -> None:
    lab = made(flow(Good='call: "steps:good", connection: "@db"'))
    assert command(lab, "run").returncode == 0
    cfg = json.loads((lab.run_folder("r0001") / "cfg" / "Good.json").read_bytes())
    assert cfg["with"]["connection"] == {
        "host": {"$secret": "@db.main.host"},
        "user": "a-user-of-the-db",
        "password": {"$secret": "@db.main.password"},
        "url": {"$secret": "@db.main.url"},
        "header": {"$secret": "@db.main.header:DB_PASSWORD", "format": "Basic {}"},
    }
    assert cfg["secrets"] == [
        "@db.main.host",
        "@db.main.password",
        "@db.main.url",
        "@db.main.url:DB_PASSWORD",
        "@db.main.url:DB_HOST",
        "@db.main.header:DB_PASSWORD",
    ]


def test_no_byte_of_a_secret_is_left_by_a_run_that_fails(made: Callable[[str], Lab]) -> None:
    lab = made(flow(Fail='call: "steps:fail", connection: "@db.main"', Blocked='call: "steps:own", connection: "@db"'))
    done = command(lab, "run", "--log-level", "debug")
    assert done.returncode == 1
    failed = next(e for e in lab.events("r0001") if isinstance(e, ev.StepFailed))
    assert (failed.error_type, failed.error) == (
        "RuntimeError",
        "cannot log in with {'header': 'Basic ***', 'host': '***', 'password': '***', 'url': '***', "
        "'user': 'a-user-of-the-db'} at ***",
    )
    assert "KeyError" in failed.traceback
    again = command(lab, "run", "--json")
    assert again.returncode == 1
    told = (done.stdout, done.stderr, again.stdout, again.stderr, *exports(lab, "r0001"))
    assert traces(lab.root, *told) == ["connections.yaml"]


def test_an_output_that_contains_one_fails_its_step_and_is_not_kept(made: Callable[[str], Lab]) -> None:
    leak = flow(Leak='call: "steps:leak", connection: "@db.literal"').replace(
        "type: json", "type: file, path: got.parquet"
    )
    lab = made(leak)
    done = command(lab, "run")
    assert done.returncode == 1
    failed = next(e for e in lab.events("r0001") if isinstance(e, ev.StepFailed))
    assert (failed.error_type, failed.error) == (
        "SecretInOutput", "`Got` contains a secret that the step was given; it is not kept",
    )  # fmt: skip
    assert not (lab.root / "got.parquet").exists()
    assert traces(lab.root, done.stdout, done.stderr) == ["connections.yaml"]


def test_only_what_a_step_refers_to_reaches_it(made: Callable[[str], Lab], tmp_path: Path) -> None:
    jobs = {"Nothing": "", "Main": ', connection: "@db"', "Other": ', connection: "@db.other"'}
    lab = made(
        flow(**{name: f'call: "steps:alone", planted: "{tmp_path}/planted.json"{w}' for name, w in jobs.items()})
    )
    (tmp_path / "planted.json").write_text(json.dumps({**ENVIRONMENT, "LITERAL": LITERAL}))
    done = command(lab, "run")
    assert done.returncode == 0, done.stderr
    assert {step: lab.content(f"Artifact:{step}.Got") for step in jobs} == {
        "Nothing": {"given": [], "environment": []},
        "Main": {"given": ["DB_PASSWORD", "DB_HOST"], "environment": []},
        "Other": {"given": ["OTHER_PASSWORD"], "environment": []},
    }
    folder = lab.run_folder("r0001") / "cfg"
    named = {step: json.loads((folder / f"{step}.json").read_bytes()).get("secrets", []) for step in jobs}
    assert (named["Nothing"], named["Other"]) == ([], ["@db.other.password"])
    assert all(name.startswith("@db.main.") for name in named["Main"])


def test_a_shell_gets_each_field_as_a_variable_that_it_does_not_export(made: Callable[[str], Lab]) -> None:
    lab = made(
        """
workflow: flow
jobs:
  Shell:
    uses: shell
    with:
      connection: "@db.main"
      run: |
        echo "$connection_password" "$connection_url"
        exported=$(env | grep -c connection_ || true)
        printf '%s' "${#connection_password} $connection_user $exported ${connection-unset}" > "$out_Got"
    outputs: {Got: {type: text}}
"""
    )
    done = command(lab, "run")
    assert done.returncode == 0, done.stderr
    assert lab.content("Artifact:Shell.Got") == f"{len(PASSWORD)} a-user-of-the-db 0 unset"
    assert traces(lab.root, done.stdout, done.stderr) == ["connections.yaml"]


def test_a_dry_run_and_a_validation_need_no_variable_and_say_what_a_run_would_need(project: Make) -> None:
    lab = project(
        flow(Good='call: "steps:own", connection: "@db"'), {"connections.yaml": CONNECTIONS, "steps.py": STEPS}
    )
    plain = {key: value for key, value in os.environ.items() if key not in ENVIRONMENT}
    for words in (["validate"], ["plan"], ["run", "--dry-run"]):
        done = subprocess.run(
            [sys.executable, "-m", "whyrun.cli.main", *words], cwd=lab.root, env=plain, capture_output=True,
            timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    for name in ("DB_HOST", "DB_PASSWORD"):
        assert f"the variable `{name}` is not in the environment; `whyrun run` needs it" in done.stdout.decode()


def test_comparing_and_adopting_keep_secrets_too(made: Callable[[str], Lab]) -> None:
    lab = made(flow(Own='call: "steps:own", connection: "@db"').replace("type: json", "type: json, path: got.json"))
    answers = [command(lab, "run"), command(lab, "compare")]
    assert [answer.returncode for answer in answers] == [0, 0], answers
    (lab.root / "mine.json").write_text("7")
    answers += [command(lab, "adopt", "Artifact:Own.Got", "mine.json"), command(lab, "plan")]
    lab.edit("connections.yaml", 'header: "Basic', 'header: "Bearer')
    answers += [command(lab, "compare"), command(lab, "why", "Job:Own"), command(lab, "run"), command(lab, "compare")]
    assert [answer.returncode for answer in answers] == [0] * 8, answers
    assert "not comparable" in answers[4].stderr.decode() + answers[4].stdout.decode()
    told = [text for answer in answers for text in (answer.stdout, answer.stderr)]
    assert traces(lab.root, *told) == ["connections.yaml"]


@pytest.mark.parametrize("place", ["sandbox", "dask"])
def test_no_byte_of_a_secret_is_left_in_other_places_either(made: Callable[[str], Lab], place: str) -> None:
    if place == "sandbox" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if place == "dask" and importlib.util.find_spec("distributed") is None:
        pytest.skip("distributed is not installed")
    jobs = {name: f'call: "steps:{name.lower()}", connection: "@db"' for name in ("Good", "Fail", "Leak", "Own")}
    lab = made(flow(**jobs))
    done = command(lab, "run", "--backend", place)
    assert done.returncode == 1, done.stderr
    failed = {e.step_id: e.error_type for e in lab.events("r0001") if isinstance(e, ev.StepFailed)}
    assert failed == {"Job:Fail": "RuntimeError", "Job:Leak": "SecretInOutput"}
    assert lab.content("Artifact:Own.Got") == len(PASSWORD)
    got = lab.content("Artifact:Good.Got")
    assert got["told"] == 0, "a secret stands in a command line"
    assert not {"DB_PASSWORD", "DB_HOST", "UNUSED_API_KEY"} & set(got["environment"])
    assert traces(lab.root, done.stdout, done.stderr) == ["connections.yaml"]
