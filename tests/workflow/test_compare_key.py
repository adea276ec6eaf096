"""`compare:` of an output: read with its places, the same in the schema, and in no fingerprint."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from whyrun.errors import WhyrunError
from whyrun.workflow.model import CompareDecl
from whyrun.workflow.nodes import Problems, plain_value
from whyrun.workflow.parsing.outputs import COMPARE_KEYS
from whyrun.workflow.parsing.parse import parse_workflow, workflow_schema
from whyrun.workflow.yaml_source import read_yaml


def workflow(compare: str) -> str:
    return (
        "workflow: w\n"
        "jobs:\n"
        "  J:\n"
        "    uses: shell\n"
        "    with: {run: 'true'}\n"
        "    outputs:\n"
        f"      T: {{type: file, compare: {compare}}}\n"
    )


def fits_schema(text: str) -> bool:
    node = read_yaml(text, "w.yaml", Problems())
    assert node is not None
    return not list(jsonschema.Draft202012Validator(workflow_schema()).iter_errors(plain_value(node)))


def read(text: str) -> Any:
    return parse_workflow("w.yaml", {"w.yaml": text}.__getitem__).jobs["J"].outputs["T"].compare


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{keys: [id, seed], tolerance: 1e-6}", CompareDecl(("id", "seed"), 1e-6)),
        ("{keys: [id]}", CompareDecl(("id",))),
        ("{tolerance: 1}", CompareDecl((), 1.0)),
        ("{}", CompareDecl()),
    ],
)
def test_settings(text: str, expected: CompareDecl) -> None:
    assert read(workflow(text)) == expected
    assert fits_schema(workflow(text))


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("id", "WRONG_TYPE", "`compare` of output `T` is a string, not a map"),
        ("{key: [id]}", "UNKNOWN_KEY", "`compare` of output `T` has no key `key`"),
        ("{keys: id}", "WRONG_TYPE", "`keys` of `compare` of output `T` is a string, not a list"),
        ("{keys: [1]}", "WRONG_TYPE", "the key is the number `1`, not a string"),
        ("{keys: [id, id]}", "NAME_TAKEN", "the key `id` appears twice"),
        ("{tolerance: -1}", "WRONG_TYPE", "the tolerance of `compare` of output `T` is not a number from 0"),
        ("{tolerance: true}", "WRONG_TYPE", "the tolerance of `compare` of output `T` is not a number from 0"),
        ("{tolerance: small}", "WRONG_TYPE", "the tolerance of `compare` of output `T` is not a number from 0"),
        ("{tolerance: .inf}", "WRONG_TYPE", "`.inf` is not a finite number"),
    ],
)
def test_mistakes(text: str, code: str, message: str) -> None:
    with pytest.raises(WhyrunError) as wrong:
        read(workflow(text))
    (found,) = wrong.value.diagnostics
    assert (found.code, found.message, found.line) == (code, message, 7)
    if "inf" not in text:  # JSON has no infinity, so the schema says nothing of it
        assert not fits_schema(workflow(text))


def test_schema_and_parser_know_the_same_keys() -> None:
    output = workflow_schema()["$defs"]["output"]["properties"]
    assert set(output["compare"]["properties"]) == {key.name for key in COMPARE_KEYS}
