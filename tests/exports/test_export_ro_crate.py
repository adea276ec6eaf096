"""`ro-crate`: read by the library rocrate, and held to what its profiles require."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from export_lab import RUNS, FixedSubject, exported, fixed, subject
from rocrate.model.computationalworkflow import ComputationalWorkflow
from rocrate.rocrate import ROCrate

from project_lab import Lab
from whyrun.cli.commands.export import write
from whyrun.exports.formats import ro_crate
from whyrun.exports.record import Attempt, Rendered, Step
from whyrun.exports.registry import export

METADATA = "ro-crate-metadata.json"
WFRUN = "https://w3id.org/ro/wfrun/"
# What the profiles ask of each type: fields that it must have, and the types of what they refer to.
REQUIRED = {
    "CreateAction": {"instrument": ("SoftwareApplication", "ComputationalWorkflow"), "actionStatus": None},
    "OrganizeAction": {"instrument": ("SoftwareApplication",), "result": ("CreateAction",)},
    "ControlAction": {"instrument": ("HowToStep",), "object": ("CreateAction",)},
    "HowToStep": {"workExample": ("SoftwareApplication",), "position": None},
    "FormalParameter": {"additionalType": None, "name": None, "conformsTo": None},
    "ComputationalWorkflow": {"programmingLanguage": ("ComputerLanguage",), "name": None},
    "PropertyValue": {"name": None, "value": None},
    "File": {"name": None},
    "SoftwareApplication": {"name": None},
}  # fmt: skip


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """ID → entity. rocrate reads it; then references, files, and what the profiles require are checked."""
    crate = ROCrate(folder)
    assert isinstance(crate.mainEntity, ComputationalWorkflow)
    graph = json.loads((folder / METADATA).read_bytes())["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    assert len(entities) == len(graph), "an ID twice"
    assert {entity.id for entity in crate.get_entities()} == set(entities)
    root = entities["./"]
    profiles = {f"{WFRUN}{name}/0.5" for name in ("process", "workflow", "provenance")}
    assert {ref["@id"] for ref in root["conformsTo"]} >= profiles
    for name in ("name", "description", "datePublished", "license", "hasPart", "mainEntity"):
        assert root[name], name
    for entity in graph:
        for value in entity.values():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, dict):
                    assert list(one) == ["@id"]
                    outside = one["@id"].startswith(
                        ("http://schema.org/", "https://bioschemas.org/", "https://w3id.org/")
                    )
                    assert one["@id"] in entities or outside, f"{entity['@id']} → {one['@id']}"
        for type_ in types_of(entity):
            for name, kinds in REQUIRED.get(type_, {}).items():
                assert name in entity, f"{entity['@id']} has no {name}"
                values = entity[name] if isinstance(entity[name], list) else [entity[name]]
                for one in values if kinds is not None else ():
                    assert set(kinds) & types_of(entities[one["@id"]]), f"{entity['@id']}/{name}"
    actions = [entity for entity in graph if {"CreateAction", "OrganizeAction"} & types_of(entity)]
    tools = {id_ for id_, entity in entities.items() if "SoftwareApplication" in types_of(entity)}
    assert tools <= {entity["instrument"]["@id"] for entity in actions}, "a tool without an action"
    assert all(entity["actionStatus"].startswith("http://schema.org/") for entity in actions)
    parts = {ref["@id"] for ref in root["hasPart"]}
    described = {id_ for id_, entity in entities.items() if {"File", "Dataset"} & types_of(entity)}
    assert parts == described - {"./"}
    inside = {part for part in parts if not part.startswith("urn:")}
    for part in inside:
        assert (folder / part).is_dir() == part.endswith("/")
        assert (folder / part).exists(), part
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        is_told = name == METADATA or any(name == p or (p.endswith("/") and name.startswith(p)) for p in inside)
        assert path.is_dir() or is_told, name
    hashes = [id_.rpartition("/")[2].partition(".")[0] for id_ in inside if id_.startswith("data/")]
    assert len(set(hashes)) == len(hashes), "a content twice"
    for id_ in inside:
        entity = entities[id_]
        if entity["@type"] == "File" and "sha256" in entity:
            data = (folder / id_).read_bytes()
            assert (entity["sha256"], int(entity["contentSize"])) == (hashlib.sha256(data).hexdigest(), len(data))
    return entities


def types_of(entity: dict[str, Any]) -> set[str]:
    return set(entity["@type"] if isinstance(entity["@type"], list) else [entity["@type"]])


def written(lab: Lab, kind: str, to: Path, **options: bool) -> dict[str, dict[str, Any]]:
    write(str(to), export(subject(lab, RUNS[kind], **options), "ro-crate"))
    return read(to)


def statuses(entities: dict[str, dict[str, Any]]) -> dict[str, str]:
    found = [e for e in entities.values() if e["@type"] == "CreateAction"]
    return {e["name"]: e["actionStatus"].rpartition("/")[2].removesuffix("ActionStatus") for e in found}


def test_a_run_that_succeeded(exporting: Lab, tmp_path: Path) -> None:
    entities = written(exporting, "success", tmp_path / "crate")
    assert set(statuses(entities).values()) == {"Completed"}
    steps = {e["name"]: int(e["position"]) for e in entities.values() if e["@type"] == "HowToStep"}
    assert sorted(steps) == ["After", "Check", "Print", "Script", "Stamp"]  # Epilogue was not executed
    assert steps["Script"] < steps["Print"] < steps["Check"] < steps["After"]
    story = entities["#output/Script.Story"]
    files = [entity for entity in entities.values() if entity["@type"] == "File"]
    (made,) = [entity for entity in files if entity.get("exampleOfWork") == {"@id": story["@id"]}]
    assert (tmp_path / "crate" / made["@id"]).read_bytes() == (exporting.root / "out/story.json").read_bytes()
    assert (made["description"], made["encodingFormat"]) == ("published as out/story.json", "application/json")
    assert (tmp_path / "crate/README.md").read_bytes() == exported(exporting, "markdown", "success").data
    assert (tmp_path / "crate/source/workflow.yaml").read_bytes() == (exporting.root / "workflow.yaml").read_bytes()
    topic = [e for e in entities.values() if e["@type"] == "PropertyValue" and e["name"] == "Input:Topic"]
    assert [(e["value"], e["exampleOfWork"]) for e in topic] == [("cinema", {"@id": "#input/Topic"})]
    copy = entities["#attempt/Job%3APrint%5B0%5D/1"]
    assert copy["instrument"] == {"@id": "#action/python"}
    names = sorted(entities[ref["@id"]]["alternateName"] for ref in copy["object"] if "data/" in ref["@id"])
    assert names == ["Artifact:Script.Story", "Input:Photos[0]"]
    assert copy["description"].startswith("MISSING_OUTPUT Artifact:Print.Copy[0]")


def test_other_runs(exporting: Lab, tmp_path: Path) -> None:
    failed = statuses(written(exporting, "failure", tmp_path / "failure"))
    assert failed == {"study r0002": "Failed", "Job:Check": "Failed"}
    crate = json.loads((tmp_path / "failure" / METADATA).read_bytes())
    (error,) = {e["error"] for e in crate["@graph"] if e.get("name") == "Job:Check"}
    assert error.startswith("ValueError: cannot read data/table.csv, …/other.csv as ***")
    compared = statuses(written(exporting, "comparison", tmp_path / "comparison"))
    assert set(compared.values()) == {"Completed"}
    assert statuses(written(exporting, "killed", tmp_path / "killed")) == {
        "study r0004": "Failed",
        "Job:Stamp": "Failed",
    }


def test_without_bytes(exporting: Lab, tmp_path: Path) -> None:
    entities = written(exporting, "success", tmp_path / "crate", metadata_only=True)
    assert sorted(path.name for path in (tmp_path / "crate").rglob("*") if path.is_file()) == [
        "README.md", METADATA, "workflow.yaml",
    ]  # fmt: skip
    assert sum(id_.startswith("urn:hash::sha256:") for id_ in entities) > 3


def test_folders_and_kept_results(project: Callable[..., Lab], tmp_path: Path) -> None:
    lab = project(
        """
        workflow: trees
        jobs:
          Make:
            uses: shell
            with: {run: 'mkdir -p "$out_Tree/in ner"; echo 1 > "$out_Tree/in ner/ö.txt"'}
            outputs: {Tree: {type: directory}}
        """
    )
    lab.succeed()
    one = subject(lab, "r0001")
    write(str(tmp_path / "crate"), export(one, "ro-crate"))
    entities = read(tmp_path / "crate")
    (tree,) = [id_ for id_, e in entities.items() if e["@type"] == "Dataset" and id_ != "./"]
    assert (tmp_path / "crate" / tree / "in ner/ö.txt").read_text() == "1\n"
    record = one.record()
    step = record.steps["Job:Make"]
    step.status, step.by, step.note, step.attempts, step.at = "kept", "Ada L.", "from r0001 by Ada L.: same", [], "2026"
    write(str(tmp_path / "kept"), ro_crate.render(FixedSubject(record)))
    entities = read(tmp_path / "kept")
    assert entities["#person/Ada%20L."]["name"] == "Ada L."
    assert entities["#attempt/Job%3AMake/0"]["agent"] == {"@id": "#person/Ada%20L."}


def test_a_thousand_attempts_are_one_action_a_job(tmp_path: Path) -> None:
    record = fixed()
    for number in range(1001):
        start = f"2026-11-20T08:{number % 60:02d}:00.000000Z"
        attempts = [Attempt(1, start, "2026-11-20T09:00:00.000000Z", "succeeded", 1.0)]
        record.steps[f"Job:Many[{number}]"] = Step(f"Job:Many[{number}]", "python", "succeeded", attempts=attempts)
    write(str(tmp_path / "crate"), ro_crate.render(FixedSubject(record)))
    entities = read(tmp_path / "crate")
    assert entities["#attempt/Many/all"]["description"] == "1001 executions"
    assert statuses(entities) == {
        "study r0007": "Failed", "Job:Print": "Completed", "Job:Check": "Failed", "Job:Slow": "Failed",
        "Job:Again": "Completed", "Job:Open": "Failed", "Job:Many": "Completed",
    }  # fmt: skip


def test_an_unfinished_run_is_active(tmp_path: Path) -> None:
    write(str(tmp_path / "crate"), ro_crate.render(FixedSubject(fixed(ended=False))))
    entities = read(tmp_path / "crate")
    assert "unfinished" in entities["./"]["description"]
    assert statuses(entities)["study r0007"] == "Active"
    assert "endTime" not in entities["#run/r0007"]


@pytest.mark.parametrize(
    ("id_", "name", "value"),
    [
        ("./", "license", None), ("./", "mainEntity", {"@id": "#language"}), ("./", "hasPart", []),
        ("#execution", "instrument", None), ("#control/Job%3ACheck/1", "object", {"@id": "#attempt/none"}),
        ("#attempt/Job%3ACheck/1", "instrument", {"@id": "#language"}), ("#step/Check", "workExample", None),
        ("#attempt/Job%3AOpen/1", "actionStatus", "failed"),
        ("ro-crate-metadata.json", "about", None), ("./", "conformsTo", [{"@id": "https://w3id.org/ro/crate/1.1"}]),
    ],
)  # fmt: skip
def test_a_mistake_is_refused(tmp_path: Path, id_: str, name: str, value: Any) -> None:
    rendered = ro_crate.render(FixedSubject(fixed()))
    document = json.loads(rendered.folder[METADATA])
    (entity,) = [entity for entity in document["@graph"] if entity["@id"] == id_]
    entity[name] = value
    if value is None:
        del entity[name]
    write(str(tmp_path / "crate"), Rendered(folder={**rendered.folder, METADATA: json.dumps(document).encode()}))
    with pytest.raises((AssertionError, ValueError, KeyError, UserWarning)):
        read(tmp_path / "crate")


def test_bytes_that_are_damaged_are_refused(exporting: Lab, tmp_path: Path) -> None:
    written(exporting, "success", tmp_path / "crate")
    (path, *_) = sorted((tmp_path / "crate/data").rglob("*.txt"))
    path.write_bytes(b"?" * path.stat().st_size)
    with pytest.raises(AssertionError):
        read(tmp_path / "crate")
