"""`defaults:` at the top of a file: keys for all jobs of this file."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from msgspec.structs import replace

from whyrun.errors import InvalidError
from whyrun.workflow.model import Retries, SandboxDecl, Workflow
from whyrun.workflow.parsing.job_keys import JOB_KEYS
from whyrun.workflow.parsing.jobs import DEFAULT_KEY_NAMES
from whyrun.workflow.parsing.parse import parse_workflow, workflow_schema

RUN = {"run": "true"}


def parsed(file: dict[str, Any], **others: dict[str, Any]) -> Workflow:
    files = {"w.yaml": file, **{f"{name}.yaml": each for name, each in others.items()}}
    return parse_workflow("w.yaml", {name: json.dumps(each) for name, each in files.items()}.__getitem__)


def problems(text: str) -> list[tuple[str, int | None, str, str | None]]:
    with pytest.raises(InvalidError) as caught:
        parse_workflow("w.yaml", {"w.yaml": text}.__getitem__)
    return [(d.code, d.line, d.message, d.hint) for d in caught.value.diagnostics]


def schema_accepts(file: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(workflow_schema()).is_valid(file))


def test_a_default_is_the_key_of_every_job_and_a_jobs_own_key_replaces_it_as_a_whole() -> None:
    defaults = {
        "uses": "shell", "env": {"A": "1", "B": "2"}, "retries": {"max": 2, "backoff": "5s"}, "sandbox": "required",
    }  # fmt: skip
    own = {"env": {"A": "3"}, "retries": 1, "sandbox": {"network": True}}
    jobs = parsed({"workflow": "w", "defaults": defaults, "jobs": {"X": {"with": RUN}, "Y": {"with": RUN, **own}}}).jobs
    x, y = jobs["X"], jobs["Y"]
    assert (x.uses, x.env, x.retries, x.sandbox) == (
        "shell", {"A": "1", "B": "2"}, Retries(2, 5.0), SandboxDecl(required=True),
    )  # fmt: skip
    assert (y.uses, y.env, y.retries, y.sandbox) == ("shell", {"A": "3"}, Retries(1), SandboxDecl(network=True))


def test_a_file_with_defaults_is_the_file_with_the_keys_in_each_job() -> None:
    keys = {"timeout": "5m", "tags": ["slow"], "env": {"A": "${{ inputs.Level }}"}, "code": ["*.py"]}
    inputs = {"Level": {"type": "string", "default": "x"}}
    jobs = {name: {"uses": "shell", "with": RUN} for name in "XY"}
    by_default = parsed({"workflow": "w", "inputs": inputs, "defaults": keys, "jobs": jobs})
    written = parsed({"workflow": "w", "inputs": inputs, "jobs": {n: {**job, **keys} for n, job in jobs.items()}})
    for name in "XY":
        own, other = by_default.jobs[name], written.jobs[name]
        assert own.env["A"].text == other.env["A"].text
        plain = {"places": {}, "place": own.place, "env": {}}
        assert replace(own, **plain) == replace(other, **plain)


def test_defaults_are_not_passed_into_imports() -> None:
    inner = {"workflow": "inner", "jobs": {"I": {"uses": "shell", "with": RUN}}}
    imports = {"In": {"workflow": "./inner.yaml"}}
    outer = {"workflow": "w", "imports": imports, "defaults": {"timeout": 60}, "jobs": {"O": {"uses": "shell"}}}
    workflow = parsed(outer, inner=inner)
    assert (workflow.jobs["O"].timeout, workflow.imports["In"].workflow.jobs["I"].timeout) == (60.0, None)


def test_the_schema_knows_the_same_defaults() -> None:
    examples: dict[str, Any] = {"uses": "shell", "timeout": "5m", "tags": ["a"], "env": {"A": "1"}, "with": RUN}
    for row in JOB_KEYS:
        known = row.name in DEFAULT_KEY_NAMES
        properties = workflow_schema()["properties"]["defaults"]["properties"]
        assert (row.name in properties) is known
    for name, value in examples.items():
        file = {"workflow": "w", "defaults": {name: value}, "jobs": {"J": {"uses": "shell", "with": RUN}}}
        assert schema_accepts(file) is (name in DEFAULT_KEY_NAMES)
    job = {"J": {"with": RUN}}
    assert schema_accepts({"workflow": "w", "defaults": {"uses": "shell"}, "jobs": job})
    assert not schema_accepts({"workflow": "w", "defaults": {"timeout": 5}, "jobs": job})
    assert not schema_accepts({"workflow": "w", "jobs": job})


def test_each_mistake_is_reported_once_where_it_is() -> None:
    text = """\
workflow: w
loops: {n: {count: 2}}
defaults:
  uses: shell
  timeout: 5x
  retris: 2
  with: {a: 1}
  run: true
  env: {B: "${{ jobs.A.outputs.X }}", C: "${{ n }}"}
jobs:
  A: {for: [n], with: {run: 'true', x: "${{ env.B }}"}}
  B: {with: {run: 'true'}}
"""
    assert problems(text) == [
        (
            "WRONG_TYPE", 5, "`timeout` of `defaults` is not a duration",
            "write `30s`, `5m`, `1h30m`, or a number of seconds",
        ),
        ("UNKNOWN_KEY", 6, "`defaults` has no key `retris`", "did you mean `retries`?"),
        (
            "UNKNOWN_KEY", 7, "`defaults` has no key `with`",
            "`with` is different for each job: write it below the name of the job",
        ),
        ("UNKNOWN_KEY", 8, "`defaults` has no key `run`", "`run` belongs under `with:` of a job"),
        (
            "EXPRESSION_FORBIDDEN", 9, "`jobs` cannot be used in `env:`",
            "allowed here: `inputs`, `secrets`, `workflow`",
        ),
        ("UNKNOWN_LOOP", 9, "there is no loop `n` in `env:`", "use inputs and literals"),
    ]  # fmt: skip


def test_what_cannot_be_read_hides_no_job() -> None:
    assert problems("workflow: w\ndefaults: []\njobs: {A: {with: {run: 'true'}}}\n") == [
        ("WRONG_TYPE", 2, "`defaults` is a list, not a map", "write keys of jobs below it: `timeout: 5m`")
    ]
    assert problems("workflow: w\nretries: 2\nneeds: [B]\njobs: {A: {uses: shell, with: {run: 'true'}}}\n") == [
        (
            "UNKNOWN_KEY", 2, "a workflow has no key `retries`",
            "`retries` is a key of a job: write it below the name of the job, or under `defaults:` for all jobs",
        ),
        (
            "UNKNOWN_KEY", 3, "a workflow has no key `needs`",
            "`needs` is a key of a job: write it below the name of the job",
        ),
    ]  # fmt: skip


def test_a_secret_of_a_default_variable_must_be_the_jobs_own_secret() -> None:
    text = """\
workflow: w
defaults: {uses: shell, secrets: [KEY], env: {K: "${{ secrets.KEY }}"}}
jobs:
  A: {with: {run: 'true'}}
  B: {secrets: [OTHER], with: {run: 'true'}}
"""
    assert [(code, line) for code, line, *_ in problems(text)] == [("UNKNOWN_REFERENCE", 2)]
