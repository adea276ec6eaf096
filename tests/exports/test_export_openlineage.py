"""`openlineage`: every event and every facet is built by the classes of openlineage-python, which OpenLineage generates
from its schemas; a field that they do not know, lack, or have in another type is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Union, get_args, get_origin
from urllib.parse import urlsplit
from uuid import NAMESPACE_OID, UUID, uuid5

import attr
import pytest
from export_lab import RUNS, FixedSubject, exported, fixed, subject
from openlineage.client import event_v2, facet_v2
from openlineage.client.generated import base

from project_lab import Lab
from whyrun.exports.formats.openlineage import RUN_FACET, STEP_FACET, openlineage, run_uuid

_MODULES = [module for module in vars(facet_v2).values() if type(module).__name__ == "module"]


def unversioned(url: str) -> str:
    """A later package may have later versions of the schemas, of which each extends the one before."""
    return re.sub(r"/[0-9]+-[0-9]+-[0-9]+/", "/", url, count=1)


SCHEMAS = {
    unversioned(found._get_schema()): found
    for module in _MODULES
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, base.BaseFacet)
}
EMPTY = object()


def build(kind: Any, data: Any, at: str) -> Any:
    """An object of this type, strictly."""
    origin = get_origin(kind)
    if origin is Union or str(origin) == "<class 'types.UnionType'>":
        options = [option for option in get_args(kind) if option is not type(None)]
        assert data is not None, f"{at} is null"
        return build(options[0], data, at)
    if origin is list:
        assert isinstance(data, list), f"{at} is no list"
        return [build(get_args(kind)[0], one, f"{at}/{i}") for i, one in enumerate(data)]
    if origin is dict:
        assert isinstance(data, dict), f"{at} is no object"
        return {name: facet(get_args(kind)[1], one, f"{at}/{name}") for name, one in data.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if attr.has(kind):
        return instance(kind, data, at)
    assert type(data) is kind, f"{at} is {type(data).__name__}, not {kind.__name__}"
    return data


def instance(kind: Any, data: Mapping[str, Any], at: str) -> Any:
    attr.resolve_types(kind)
    fields = {field.name: field for field in attr.fields(kind)}
    assert set(data) <= set(fields), f"{at} has {sorted(set(data) - set(fields))}"
    given = {
        field.alias: build(field.type, data[name], f"{at}/{name}")
        for name, field in fields.items()
        if field.init and name in data
    }
    made = kind(**given)  # TypeError without a field that it needs
    for name in ("schemaURL", "_schemaURL"):
        if name in fields:
            assert unversioned(data[name]) == unversioned(getattr(made, name)), f"{at}: another schema"
    return made


def facet(family: Any, data: Mapping[str, Any], at: str) -> Any:
    for name in ("_producer", "_schemaURL"):
        assert urlsplit(data[name]).scheme, f"{at}/{name} is no URI"
    if data["_schemaURL"] in (RUN_FACET, STEP_FACET):
        return None  # ours: additional facets are what the specification allows
    found = SCHEMAS[unversioned(data["_schemaURL"])]
    assert issubclass(found, family), f"{at} is no {family.__name__}"
    assert at.rpartition("/")[2].lower().replace("_", "") in found.__name__.lower()
    return instance(found, data, at)


def read(data: bytes) -> list[dict[str, Any]]:
    """The events of an export, each checked, and together: every run starts once, before it ends once."""
    events = [json.loads(line) for line in data.decode().splitlines()]
    state: dict[str, str] = {}
    for number, event in enumerate(events, 1):
        build(event_v2.RunEvent, event, str(number))
        run = event["run"]["runId"]
        assert UUID(run).version == 5
        expected = None if event["eventType"] == "START" else "START"
        assert state.get(run) == expected, f"{number}: {event['eventType']} after {state.get(run)}"
        state[run] = event["eventType"]
        parent = event["run"]["facets"].get("parent")
        assert parent is None or parent["run"]["runId"] == events[0]["run"]["runId"]
    assert "START" not in state.values(), "a run without an end"
    return events


def ends(events: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in events:
        if event["eventType"] != "START":
            step = event["run"]["facets"].get("whyrun_step", {}).get("step", "(run)")
            found.setdefault(step, []).append(event["eventType"])
    return found


def test_real_runs(exporting: Lab) -> None:
    events = {kind: read(exported(exporting, "openlineage", kind).data) for kind in RUNS}
    assert ends(events["success"]) == {
        step: ["COMPLETE"] for step in ("Job:Script", "Job:Print[0]", "Job:Print[1]", "Job:Stamp", "Job:Check",
                                        "Job:After", "(run)")
    }  # fmt: skip
    assert ends(events["failure"]) == {"Job:Check": ["FAIL", "FAIL"], "(run)": ["FAIL"]}
    assert ends(events["comparison"])["(run)"] == ["COMPLETE"]
    assert ends(events["killed"]) == {"Job:Stamp": ["ABORT"], "(run)": ["ABORT"]}
    (end,) = [e for e in events["success"] if e["eventType"] == "COMPLETE" and e["job"]["name"] == "Script"]
    assert end["job"]["namespace"] == "whyrun:study"
    assert [dataset["name"] for dataset in end["inputs"]] == ["Input:Topic"]
    (story,) = end["outputs"]
    assert (story["name"], story["facets"]["schema"]["fields"]) == (
        "Artifact:Script.Story",
        [{"name": "Long", "type": "boolean"}, {"name": "Words", "type": "integer"}],
    )
    made = exporting.root / "out/story.json"
    assert story["outputFacets"]["outputStatistics"]["size"] == made.stat().st_size
    copies = [e for e in events["success"] if e["eventType"] == "START" and e["job"]["name"] == "Print"]
    assert sorted([dataset["name"] for dataset in copy["inputs"]] for copy in copies) == [
        ["Artifact:Script.Story", f"Input:Photos[{i}]"] for i in (0, 1)
    ]  # fmt: skip
    failed = events["failure"][-2]["run"]["facets"]
    assert failed["errorMessage"]["message"].startswith("cannot read data/table.csv, …/other.csv as ***")
    assert failed["whyrun_step"]["reasons"] == [{"code": "INPUT_CHANGED", "text": "fails ← Input:Fails  false → true"}]


def test_ids_of_runs_are_those_of_the_log(exporting: Lab) -> None:
    first = exporting.events("r0001")[0]
    events = read(exported(exporting, "openlineage", "success").data)
    assert events[0]["run"]["runId"] == run_uuid(first.chain, "", 0)
    assert run_uuid("a", "b", 1) == str(uuid5(NAMESPACE_OID, "a|b|1"))
    other = {e["run"]["runId"] for e in read(exported(exporting, "openlineage", "failure").data)}
    assert not other & {event["run"]["runId"] for event in events}


def test_long_lists_are_read_from_the_store(project: Callable[..., Lab]) -> None:
    numbers = ", ".join(map(str, range(70)))
    lab = project(
        f"""
        workflow: wide
        inputs: {{Numbers: {{type: "integer[]", default: [{numbers}]}}}}
        jobs:
          Join:
            uses: shell
            with: {{numbers: "${{{{ inputs.Numbers[:] }}}}", run: 'echo ${{#numbers[@]}} > "$out_N"'}}
            outputs: {{N: {{type: integer}}}}
        """
    )
    lab.succeed()
    one = subject(lab, "r0001")
    start = openlineage(one.record(), one)[1]
    assert [dataset["name"] for dataset in start["inputs"]][:2] == ["Input:Numbers[0]", "Input:Numbers[10]"]
    assert len(start["inputs"]) == 70


def test_every_status_and_an_unfinished_run() -> None:
    record = fixed()
    record.start_chain = "ab"
    events = read(lines(openlineage(record, FixedSubject(record))))
    assert ends(events) == {
        "Job:Print[2]": ["COMPLETE"], "Job:Print[10]": ["COMPLETE"], "Job:Check": ["FAIL", "FAIL"],
        "Job:Slow": ["FAIL"], "Job:Again": ["COMPLETE"], "Job:Open": ["ABORT"], "(run)": ["FAIL"],
    }  # fmt: skip
    running = fixed(ended=False)
    events = read(lines(openlineage(running, FixedSubject(running, namespace="lab"))))
    assert (events[-1]["eventType"], events[-1]["job"]["namespace"]) == ("RUNNING", "lab")
    assert events[-1]["run"]["facets"]["whyrun_run"]["unfinished"] is True
    assert ends(events)["Job:Open"] == ["RUNNING"]


def lines(events: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def spoiled(events: list[dict[str, Any]], where: str, value: Any) -> list[dict[str, Any]]:
    *path, last = where.split("/")
    target: Any = events
    for name in path:
        target = target[int(name) if isinstance(target, list) else name]
    if value is EMPTY:
        del target[last]
    else:
        target[last] = value
    return events


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("0/eventType", "STARTED"), ("0/eventTime", "yesterday"), ("0/run/runId", "r0001"), ("0/job/namespace", EMPTY),
        ("0/run/facets/processing_engine/version", 1), ("0/run/facets/processing_engine/_schemaURL", "https://x.org/y"),
        ("0/run/facets/whyrun_run/_producer", "whyrun"), ("1/run/facets/parent/run", EMPTY),
        ("1/job/facets/jobType/integration", EMPTY), ("2/outputs/0/facets/version/datasetVersion", None),
        ("2/outputs/0/outputFacets/outputStatistics/size", "7"), ("2/outputs/0/facets/schema/fields/0/kind", "x"),
        ("2/eventType", "START"), ("0/color", "red"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused(where: str, value: Any) -> None:
    record = fixed()
    events = json.loads(json.dumps(openlineage(record, FixedSubject(record))))
    read(lines(events))
    with pytest.raises((AssertionError, TypeError, ValueError, KeyError)):
        read(lines(spoiled(events, where, value)))
