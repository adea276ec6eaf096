"""The table of job keys is complete, and the parser, the JSON Schema, the docs and the fingerprint agree with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from whyrun.errors import InvalidError
from whyrun.planning.answers.why import PlanView
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.project import Project
from whyrun.workflow.fields import Key
from whyrun.workflow.model import JobDecl
from whyrun.workflow.parsing.declarations import INPUT_KEYS
from whyrun.workflow.parsing.file import WORKFLOW_KEYS
from whyrun.workflow.parsing.imports import IMPORT_KEYS
from whyrun.workflow.parsing.job_keys import JOB_KEYS, RETRIES_KEYS
from whyrun.workflow.parsing.loops import LOOP_KEYS
from whyrun.workflow.parsing.outputs import COMPARE_KEYS, OUTPUT_KEYS
from whyrun.workflow.parsing.parse import parse_workflow, workflow_schema
from whyrun.workflow.parsing.running_keys import CONTAINER_KEYS, ENVIRONMENT_KEYS, SANDBOX_KEYS

NOT_KEYS = {"uses_by", "name", "place", "places", "broken", "in_plan"}  # fields of `JobDecl` that no key gives
NAMES = [row.name for row in JOB_KEYS]
DOCS = Path(__file__).parents[2] / "docs" / "language.md"

# For each key: a job, and the same job with another value under this key alone.
RUN = {
    "uses": "shell",
    "with": {"run": "true", "word": "${{ env.W }}"},
    "env": {"W": "x"},
    "outputs": {"O": {"type": "file"}},
}
EXAMPLES: dict[str, tuple[Any, Any]] = {
    "uses": ("shell", "own"),
    "with": ({"run": "true"}, {"run": "false"}),
    "for": (["n"], ["n", "m"]),
    "exclude": ([{"n": 1}], [{"n": 0}]),
    "include": ([{"n": 7}], [{"n": 8}]),
    "outputs": ({"O": {"type": "file"}}, {"P": {"type": "file"}}),
    "if": ("${{ True }}", "${{ 1 == 1 }}"),
    "needs": ([], ["Other"]),
    "secrets": (["KEY"], ["TOKEN"]),
    "env": ({"W": "x"}, {"W": "y"}),
    "code": (["a.py"], ["*.py"]),
    "timeout": ("5m", 60),
    "retries": (2, {"max": 3, "backoff": "10s"}),
    "resources": ({"gpu": 1}, {"gpu": 2}),
    "sandbox": ({"memory": "2GB"}, {"network": True}),
    "environment": ({"python": "requirements.txt"}, {"python": "other.txt"}),
    "container": ({"image": f"debian@sha256:{'a' * 64}"}, {"image": f"debian@sha256:{'b' * 64}"}),
    "workdir": ("project", "scratch"),
    "isolation": ("shared", "process"),
    "deterministic": (True, False),
    "reuse": ("instance", "anywhere"),
    "description": ("one", "two"),
    "tags": (["slow"], ["slow", "nightly"]),
}


def workflow(job: dict[str, Any]) -> dict[str, Any]:
    loops = {"n": {"count": 2}, "m": {"count": 2}}
    jobs = {"J": job, "Other": {"uses": "shell", "with": {"run": "true"}}}
    return {"workflow": "w", "loops": loops, "jobs": jobs}


def with_key(name: str, value: Any) -> dict[str, Any]:
    needed = {"for": ["n"]} if name in ("exclude", "include") else {}
    return workflow({**RUN, **needed, name: value})


def parser_accepts(file: dict[str, Any]) -> bool:
    try:
        parse_workflow("w.yaml", {"w.yaml": json.dumps(file)}.__getitem__)
    except InvalidError:
        return False
    return True


def schema_accepts(file: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(workflow_schema()).is_valid(file))


# --- the table is complete ---------------------------------------------------------------------------------------


def test_every_field_of_a_job_has_one_row_and_every_row_a_field() -> None:
    assert sorted(row.field for row in JOB_KEYS) == sorted({f.name for f in fields(JobDecl)} - NOT_KEYS)
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(
    "keys",
    [
        WORKFLOW_KEYS, INPUT_KEYS, LOOP_KEYS, IMPORT_KEYS, OUTPUT_KEYS, COMPARE_KEYS, JOB_KEYS, RETRIES_KEYS,
        SANDBOX_KEYS, ENVIRONMENT_KEYS, CONTAINER_KEYS,
    ],
)  # fmt: skip
def test_every_row_has_a_sentence_and_a_schema(keys: tuple[Key, ...]) -> None:
    assert [row.name for row in keys if not (row.meaning and row.meaning.endswith("."))] == []
    assert [row.name for row in keys if not row.schema] == (["default"] if keys is INPUT_KEYS else [])  # any value


def test_every_row_is_in_the_docs_with_its_sentence() -> None:
    docs = DOCS.read_text(encoding="utf-8")
    assert [row.name for row in (*WORKFLOW_KEYS, *JOB_KEYS) if f"| `{row.name}` | {row.meaning}" not in docs] == []


def test_every_row_has_an_example_here() -> None:
    assert sorted(EXAMPLES) == sorted(NAMES)


# --- the parser and the schema agree -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_parser_and_schema_accept_the_key(name: str) -> None:
    for value in EXAMPLES[name]:
        file = with_key(name, value)
        assert (parser_accepts(file), schema_accepts(file)) == (True, True)


@given(st.sampled_from([*NAMES, "matrix", "steps", "For", "tag"]), st.sampled_from(["", "s", "_", "-x"]))
def test_parser_and_schema_know_the_same_keys(name: str, suffix: str) -> None:
    key = f"{name}{suffix}"
    known = key in NAMES
    file = with_key(key, EXAMPLES[key][0] if known else ["n"])
    assert (parser_accepts(file), schema_accepts(file)) == (known, known)


# --- the fingerprint ---------------------------------------------------------------------------------------------

OWN = """
from whyrun import action

@action("own", outputs={"O": "file"})
def own(run, word=""): ...
"""


def fingerprint(folder: Path, file: dict[str, Any]) -> str:
    """Of the first instance of the job."""
    code = {"actions/own.py": OWN, "a.py": "1", "b.py": "2", "requirements.txt": "a==1", "other.txt": "a==2"}
    for name, text in {**code, "w.yaml": json.dumps(file)}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    opened = Project.open(folder / "w.yaml")
    assert opened.problems == ()
    snapshot = opened.snapshot()
    state = PlanView(snapshot, compute_execution_plan(snapshot, PlanOptions()))
    table = next(table for table in snapshot.dependency_graph.tables if table.name == "J")
    return state.fingerprint(table.base, state.consumption(table.base))


@pytest.mark.parametrize("row", JOB_KEYS, ids=lambda row: row.name)
def test_a_change_counts_in_the_fingerprint_if_the_row_says_so(tmp_path: Path, row: Any) -> None:
    before, after = (fingerprint(tmp_path, with_key(row.name, value)) for value in EXAMPLES[row.name])
    assert (before != after) is row.in_fingerprint


def test_tags_are_different_strings() -> None:
    def parse(tags: Any) -> Any:
        file = {"w.yaml": json.dumps(with_key("tags", tags))}
        return parse_workflow("w.yaml", file.__getitem__).jobs["J"].tags

    assert parse(["slow", "nightly"]) == ("slow", "nightly")
    with pytest.raises(InvalidError) as caught:
        parse(["slow", 3, "slow"])
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [
        ("WRONG_TYPE", "the tag is the number `3`, not a string"),
        ("NAME_TAKEN", "the tag `slow` appears twice"),
    ]
