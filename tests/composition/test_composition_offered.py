"""`whyrun schema --for`: what the schema of a manifest's plans finds, and its strict form for structured output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from composition_lab import FIXTURES, MANIFEST, described, plans, refused

from whyrun import api
from whyrun.cli.commands.schema import command as schema_command
from whyrun.errors import CODES, InvalidError
from whyrun.facts.plan_schema import plan_schema_for
from whyrun.project import Project
from whyrun.workflow.composition.plan_file.manifest import manifest_schema

GOOD = sorted(path.name for path in (FIXTURES / "good").glob("*.json") if "expected" not in path.name)
REFUSED = sorted(path.stem for path in (FIXTURES / "refused").glob("*.json"))
NO_JSON = "json_syntax"
# The schema finds them, too, but not every mistake with their code.
ALSO_FOUND = {"manifest_path_absolute", "manifest_path_up", "parameter_missing", "path_outside"}


@pytest.fixture(scope="module")
def checkers() -> dict[str, Any]:
    """The schemas are made once: 25 actions are imported for them."""
    manifest = str(FIXTURES / "good" / MANIFEST)
    made = {
        "plan": plan_schema_for(manifest, FIXTURES / "good"),
        "strict": plan_schema_for(manifest, FIXTURES / "good", strict=True),
        "manifest": manifest_schema(),
    }
    for schema in made.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    return {name: jsonschema.Draft202012Validator(schema) for name, schema in made.items()}


@pytest.mark.parametrize("name", GOOD)
def test_every_good_plan_fits(checkers: dict[str, Any], name: str) -> None:
    checkers["plan"].validate(json.loads((FIXTURES / "good" / name).read_text()))


@pytest.mark.parametrize("name", [name for name in REFUSED if name != NO_JSON])
def test_the_schema_finds_every_mistake_whose_code_says_so(checkers: dict[str, Any], name: str) -> None:
    codes = re.findall(r"^error\[(\w+)\]", (FIXTURES / "refused" / f"{name}.txt").read_text(), re.MULTILINE)
    found = not checkers["manifest" if name.startswith("manifest") else "plan"].is_valid(
        json.loads((FIXTURES / "refused" / f"{name}.json").read_text())
    )
    by_schema = any(CODES[code].found_by == "schema" for code in codes)
    assert codes
    assert found == (by_schema or name in ALSO_FOUND)


def test_every_code_that_the_schema_finds_has_a_fixture() -> None:
    reported = "".join((FIXTURES / "refused" / f"{name}.txt").read_text() for name in REFUSED)
    marked = [code for code, row in CODES.items() if row.found_by == "schema"]
    assert [code for code in marked if f"error[{code}]" not in reported] == ["NAME_INVALID", "INVALID_USES"]


def plan_of(step: dict[str, Any], **params: Any) -> dict[str, Any]:
    bound = {"composition_mode": "sequential", "template_id": "data/sql", "query": "SELECT 1",
             "input_bindings": {"primary_dataset": "input:main"}}  # fmt: skip
    return {"plan_version": 1, "steps": [{"step_id": "a", "type": "action", **step, "params": bound | params}]}


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({}, True),
        ({"template_id": "data/sqll"}, False),
        ({"query": 3}, False),
        ({"limit": 3}, False),
        ({"threads": 300}, False),
        ({"memory_limit": "2 GB", "missing": ["NA"], "types": {"y": "integer"}}, True),
        ({"types": {"y": "int"}}, False),
        ({"memory_limit": "two"}, False),
        ({"input_bindings": {"other": "input:main"}}, False),
        ({"products": [{"product_id": "my fit", "kind": "table"}]}, False),
        ({"template_id": "python", "call": "m:f", "anything": 1}, True),
        ({"template_id": "python", "call": "m:f", "my name": 1}, False),
    ],
)
def test_parameters_have_the_types_of_their_action(
    checkers: dict[str, Any], params: dict[str, Any], valid: bool
) -> None:
    assert checkers["plan"].is_valid(plan_of({}, **params)) == valid


# --- the strict form ---------------------------------------------------------------------------------------------


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside; names of properties and definitions are no keywords."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            for inner in value.values():
                yield from parts(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from parts(inner)
        else:
            yield from parts(value)


def test_the_strict_form_has_closed_objects_anyof_and_no_recursion(checkers: dict[str, Any]) -> None:
    schema = checkers["strict"].schema
    allowed = {"description", "type", "enum", "pattern", "minItems", "items", "anyOf", "$ref", "$defs",
               "properties", "required", "additionalProperties"}  # fmt: skip
    for part in parts(schema):
        assert part.keys() <= allowed
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
        assert set(part) == {"$ref"} or "$ref" not in part
        assert part.get("minItems", 1) == 1
        assert re.search(r"\(\?[=!<]", part.get("pattern", "")) is None
    uses = {
        name: {one["$ref"].rpartition("/")[2] for one in parts(inner) if "$ref" in one}
        for name, inner in schema["$defs"].items()
    }
    while uses:  # definitions that use none that is left
        ends = [name for name, used in uses.items() if not used & uses.keys()]
        assert ends != []
        uses = {name: used for name, used in uses.items() if name not in ends}


def strictly(schema: dict[str, Any], value: Any, definitions: dict[str, Any]) -> Any:
    """A value of the ordinary form in the strict one: `null` for what is left out, `$map` for free names."""
    if "$ref" in schema:
        return strictly(definitions[schema["$ref"].rpartition("/")[2]], value, definitions)
    if "anyOf" in schema:
        for member in schema["anyOf"]:
            written = strictly(member, value, definitions)
            if jsonschema.Draft202012Validator({**member, "$defs": definitions}).is_valid(written):
                return written
        return value
    if schema.get("type") == "array" and isinstance(value, list):
        return [strictly(schema["items"], member, definitions) for member in value]
    if schema.get("type") != "object" or not isinstance(value, dict):
        return value
    properties = schema["properties"]
    if list(properties) == ["$map"]:
        entries = properties["$map"]["items"]["properties"]["value"]
        return {"$map": [{"name": k, "value": strictly(entries, one, definitions)} for k, one in value.items()]}
    return {name: strictly(one, value.get(name), definitions) for name, one in properties.items()} | {
        name: one for name, one in value.items() if name not in properties
    }


@pytest.mark.parametrize("name", ["data_conditional.json", "data_merge.json", "data_parallel.json"])
def test_a_strict_plan_is_the_same_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkers: dict[str, Any], name: str
) -> None:
    monkeypatch.chdir(plans(tmp_path))
    schema = checkers["strict"].schema
    plain = json.loads(Path(name).read_text())
    for step in plain["steps"]:
        if "merge" in step["params"]:  # the strict form has one place for the parameters of a merge
            own = [key for key in step["params"] if key in ("source", "suffix")]
            step["params"]["merge"] |= {key: step["params"].pop(key) for key in own}
    strict = strictly(schema, plain, schema["$defs"])
    checkers["strict"].validate(strict)
    assert strict["plan_id"] is None
    assert ('"$map"' in json.dumps(strict)) == (name == "data_conditional.json")
    expected = described(Project.open(name, manifest=MANIFEST).graph)
    Path(name).write_text(json.dumps(strict))
    assert described(Project.open(name, manifest=MANIFEST).graph) == expected


def test_null_is_a_value_in_predicates_and_inside_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plans(tmp_path))
    text = Path("sequential.json").read_text().replace('"label": "all"', '"label": null, "other": {"a": null}')
    Path("sequential.json").write_text(text)
    with_ = Project.open("sequential.json", manifest=MANIFEST).workflow.jobs["model"].with_
    assert {name: with_[name] for name in with_ if name != "primary_dataset"} == {
        "call": "plan_steps:model",
        "other": {"a": None},
    }


def test_only_some_actions_and_wrong_words(tmp_path: Path) -> None:
    manifest = str(FIXTURES / "good" / MANIFEST)
    schema = plan_schema_for(manifest, tmp_path, only=["data/merge"])
    consts = [part["const"] for part in parts(schema) if "const" in part and str(part["const"]).startswith("data/")]
    assert consts == ["data/merge"]
    for words, message in (
        (["--strict"], "`--strict` belongs to `--for`"),
        (["manifest", "--for", manifest], "`--for` is about plans, not about the manifest"),
        (["--for", manifest, "--action", "data/merg"], "there is no action `data/merg` that can be used here"),
    ):
        with pytest.raises(InvalidError) as wrong:
            schema_command.main(words, standalone_mode=False)
        assert wrong.value.diagnostics[0].message == message


# --- a model's way -----------------------------------------------------------------------------------------------


def test_a_plan_is_written_refused_mended_from_its_diagnostics_and_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkers: dict[str, Any]
) -> None:
    monkeypatch.chdir(plans(tmp_path))
    plan = json.loads(Path("data_merge.json").read_text())
    plan["steps"][-1]["depends_on"] = []
    plan["steps"][0]["params"]["merge"]["operation"] = "merge"
    assert not checkers["plan"].is_valid(plan)
    Path("mine.json").write_text(json.dumps(plan))
    for _ in range(3):
        problems = [problem.to_json() for problem in api.validate("mine.json", manifest=MANIFEST)]
        if not problems:
            break
        problem = problems[0]
        *path, last = problem["pointer"].split("/")[1:]
        at = plan
        for name in path:
            at = at[int(name)] if isinstance(at, list) else at[name]
        if problem["code"] == "MERGE_OPERATION_UNKNOWN":
            at[last] = re.findall(r'"operation": "(\w+)"', problem["hint"])[0]
        elif problem["code"] == "DEPENDENCY_MISSING":
            step = next(one for one in plan["steps"] if one["step_id"] == problem["step_id"])
            step["depends_on"].append(re.findall(r"add `([\w-]+)`", problem["hint"])[0])
        Path("mine.json").write_text(json.dumps(plan))
    assert problems == []
    assert plan == json.loads(Path("data_merge.json").read_text())
    checkers["plan"].validate(plan)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dataset_unknown", ("merge-controls", "/steps/0/params/input_bindings/primary_dataset")),
        ("unknown_key", ("report", "/steps/2/dependson")),
        ("composition_mode_missing", ("model", "/steps/1/step_id")),
        ("manifest_role_unknown", (None, "/datasets/2/role")),
    ],
)
def test_a_problem_has_its_step_and_a_json_pointer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, expected: tuple[str | None, str]
) -> None:
    project = plans(tmp_path)
    monkeypatch.chdir(project)
    (problem,) = refused(project, name).problems
    assert (problem.step_id, problem.pointer) == expected
    assert problem.to_json()["pointer"] == expected[1]
