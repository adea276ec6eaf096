"""The JSON Schema agrees with the parser about the form of workflow files."""

from __future__ import annotations

from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from whyrun.workflow.nodes import Problems, plain_value
from whyrun.workflow.parsing.parse import workflow_schema
from whyrun.workflow.yaml_source import read_yaml

EXAMPLE = (Path(__file__).parent / "files" / "then-now.yaml").read_text()


def problems_of(text: str) -> list[str]:
    node = read_yaml(text, "w.yaml", Problems())
    assert node is not None
    validator = jsonschema.Draft202012Validator(workflow_schema())
    return sorted("/".join(map(str, e.path)) for e in validator.iter_errors(plain_value(node)))


def test_it_is_a_valid_schema_with_a_description_for_every_key() -> None:
    schema = workflow_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all("description" in entry for entry in schema["properties"].values())
    timeout = schema["$defs"]["job"]["properties"]["timeout"]
    assert timeout["description"] == "How long one attempt may take: `30s`, `5m`, `1h30m`; a plain number is seconds."


def test_the_example_fits() -> None:
    assert problems_of(EXAMPLE) == []


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("uses: shell", "use: shell", "jobs/Clip"),
        ("timeout: 5m", "timeout: soon", "jobs/Clip/timeout"),
        ("type: integer", "type: int", "inputs/Segments/type"),
        ("{count: inputs.Segments}", "{count: inputs.Segments, range: 0-2}", "loops/segment"),
        ("workflow: then-and-now", "workflow: Then", "workflow"),
        ("workflow: then-and-now", "workflow: store", "workflow"),
        ("{Image: {type: image}}", '{Image: {type: "boolean[]"}}', "jobs/ThenImage/outputs/Image/type"),
        ("for: [character]", "for: character", "jobs/ThenImage/for"),
    ],
)
def test_a_mistake_does_not_fit(old: str, new: str, path: str) -> None:
    assert old in EXAMPLE
    assert path in problems_of(EXAMPLE.replace(old, new))
