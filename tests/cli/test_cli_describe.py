"""`whyrun describe` and `whyrun manifest init`: what is in the data, before there is a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyreadstat
import pytest
from cli_lab import whyrun
from pandas import DataFrame

from whyrun.actions.data.describe import describe_table
from whyrun.actions.data.params import DataParams

MAIN = "firm_id,year,y,name\n1,2020,10.5,ab\n1,2021,,c\n2,2020,7,dé\n2,2021,8,\n"
CONTROLS = "firm_id,x\n1,0.5\n2,0.7\n2,0.7\n"
SHA_OF_MAIN = "sha256:92e2a591bc56c91fa367d3a7a752ce9ccd0ecbfa4a04ebc2db6ab9b8e569ce02"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs/Main 1.csv").write_text(MAIN)
    (tmp_path / "inputs/controls.csv").write_text(CONTROLS)
    return tmp_path


def init(folder: Path, *words: str) -> None:
    answer = whyrun(folder, "manifest", "init", "inputs/Main 1.csv", "inputs/controls.csv", *words)
    assert (answer.code, answer.err) == (0, "")


def test_a_manifest_is_written_from_files_and_describe_needs_no_plan(data: Path) -> None:
    init(data)
    written = json.loads((data / "inputs/manifest.json").read_text())
    assert written["datasets"][0] == {
        "dataset_key": "main_1", "role": "primary_dataset", "filename": "Main 1.csv", "rel_path": "Main 1.csv",
        "fingerprint": SHA_OF_MAIN,
    }  # fmt: skip
    assert [(one["dataset_key"], one["role"]) for one in written["datasets"]] == [
        ("main_1", "primary_dataset"),
        ("controls", "secondary_dataset"),
    ]
    answer = whyrun(data, "describe", "--manifest", "inputs/manifest.json", "--full")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "Input:main_1  primary_dataset  inputs/Main 1.csv  68B",
        f"  {SHA_OF_MAIN}",
        "  4 rows, 0 of them repeated × 4 columns (csv)",
        "    column   type     missing  distinct  range",
        "    firm_id  integer  0        2         1 … 2",
        "    year     integer  0        2         2020 … 2021",
        "    y        number   1        3         7.0 … 10.5",
        "    name     text     1        3         1 … 2 characters",
        "  keys: firm_id + year",
        "Input:controls  secondary_dataset  inputs/controls.csv  28B",
        "  sha256:99c3c0f912c75df69d865de0a95e6b9eb53e1f0cabb07c21537c6e317d12d991",
        "  3 rows, 1 of them repeated × 2 columns (csv)",
        "    column   type     missing  distinct  range",
        "    firm_id  integer  0        2         1 … 2",
        "    x        number   0        2         0.5 … 0.7",
        "  keys: no single column and no pair tells all rows apart",
    ]


def test_an_existing_manifest_is_replaced_only_by_force(data: Path) -> None:
    init(data)
    again = ("manifest", "init", "inputs/controls.csv")
    answer = whyrun(data, *again)
    assert (answer.code, answer.err.splitlines()[0]) == (
        2,
        "error[NAME_TAKEN]: `inputs/manifest.json` exists already",
    )
    assert whyrun(data, *again, "--force").code == 0
    shown = whyrun(data, *again, "--json").json
    assert shown == json.loads((data / "inputs/manifest.json").read_text())
    assert [one["dataset_key"] for one in shown["datasets"]] == ["controls"]


def test_roles_and_refusals_of_manifest_init(data: Path) -> None:
    init(data, "--primary", "controls", "--auxiliary", "main_1", "-o", "manifest.json")
    written = json.loads((data / "manifest.json").read_text())["datasets"]
    assert [(one["rel_path"], one["role"]) for one in written] == [
        ("inputs/Main 1.csv", "auxiliary_data"),
        ("inputs/controls.csv", "primary_dataset"),
    ]
    (data / "below").mkdir()
    assert whyrun(data, "manifest", "init", "inputs/controls.csv", "./inputs/controls.csv").err == (
        "error[NAME_TAKEN]: `inputs/controls.csv` is named twice\n   hint: name each file once\n"
    )
    (data / "inputs/again.csv").symlink_to("controls.csv")
    for words, code in (
        (("init", "inputs/controls.csv", "inputs/again.csv"), "NAME_TAKEN"),
        (("init", "inputs/none.csv"), "FILE_MISSING"),
        (("init", "inputs/controls.csv", "-o", "below/m.json"), "MANIFEST_PATH_OUTSIDE"),
        (("init", "inputs/controls.csv", "--primary", "contrls"), "DATASET_UNKNOWN"),
        (("inputs/controls.csv",), "USAGE"),
    ):
        answer = whyrun(data, "manifest", *words)
        assert (answer.code, answer.err[: len(code) + 7]) == (2, f"error[{code}]")


def test_a_dataset_is_named_by_key_by_input_or_by_file(data: Path) -> None:
    init(data)
    by_key = whyrun(data, "describe", "controls", "--manifest", "inputs/manifest.json", "--json").json
    assert by_key == whyrun(data, "describe", "Input:controls", "--manifest", "inputs/manifest.json", "--json").json
    (described,) = by_key["datasets"]
    assert (described["id"], described["rows"], described["key_candidates"]) == ("Input:controls", 3, [])
    (file,) = whyrun(data, "describe", "inputs/controls.csv", "--json").json["datasets"]
    assert file["columns"] == described["columns"]
    assert "sample" not in file
    answer = whyrun(data, "describe", "contrls", "--manifest", "inputs/manifest.json")
    assert (answer.code, answer.err) == (
        2,
        "error[DATASET_UNKNOWN]: there is no dataset `contrls`\n   hint: did you mean `controls`?\n",
    )


def test_the_datasets_and_results_of_a_workflow(data: Path) -> None:
    (data / "workflow.yaml").write_text(
        "workflow: w\ninputs: {Panel: {type: dataset, default: 'inputs/Main 1.csv'}}\n"
        "jobs: {Copy: {uses: file/copy, with: {source: '${{ inputs.Panel }}'}, "
        "outputs: {Out: {type: dataset, path: out/copy.csv}}}}\n"
    )
    missing = whyrun(data, "describe", "Artifact:Copy.Out")
    assert (missing.code, missing.err) == (
        2,
        "error[USAGE]: `Artifact:Copy.Out` is missing: there is nothing to describe\n   hint: `whyrun run` makes it\n",
    )
    assert whyrun(data, "run", "--quiet").code == 0
    (made,) = whyrun(data, "describe", "Artifact:Copy.Out", "--json").json["datasets"]
    (panel,) = whyrun(data, "describe", "--json").json["datasets"]
    assert (made["id"], made["path"], panel["id"]) == ("Artifact:Copy.Out", "out/copy.csv", "Input:Panel")
    assert made["fingerprint"] == panel["fingerprint"] == SHA_OF_MAIN
    assert made["columns"] == panel["columns"]


def test_a_file_that_is_no_table_is_told_and_hides_no_other(data: Path) -> None:
    (data / "inputs/broken.parquet").write_bytes(b"PAR1 no")
    answer = whyrun(data, "describe", "inputs/broken.parquet", "inputs/controls.csv", "--json")
    broken, controls = answer.json["datasets"]
    assert answer.code == 2
    assert broken["problem"].startswith("`inputs/broken.parquet` cannot be read as parquet: ")
    assert "/tmp" not in broken["problem"]
    assert controls["rows"] == 3


def test_a_broken_line_has_a_code_and_a_hint_and_its_content_is_not_shown(data: Path) -> None:
    (data / "inputs/broken.csv").write_text("a,b\n1,2\nsecret\n")
    (data / "inputs/one.csv").write_text("a\nx\n")
    answer = whyrun(data, "describe", "inputs/broken.csv", "inputs/one.csv")
    assert (answer.code, answer.err) == (2, "")
    assert [line for line in answer.out.splitlines() if "sha256:" not in line] == [
        "inputs/broken.csv  15B",
        "  error[TABLE_UNREADABLE]: `inputs/broken.csv` cannot be read as csv: line 3 has 1 value instead of 2",
        "     hint: correct the line, and quote a value that holds the delimiter",
        "inputs/one.csv  4B",
        "  1 row × 1 column (csv)",
        "    column  type  missing  distinct  range",
        "    a       text  0        1         1 character",
        "  keys: a",
    ]


def test_a_file_that_is_not_there_is_told_as_such(data: Path) -> None:
    def refused(*words: str) -> str:
        answer = whyrun(data, "describe", *words)
        assert (answer.code, answer.out) == (2, "")
        return answer.err

    init(data)
    manifest = ("--manifest", "inputs/manifest.json")
    missing = "error[FILE_MISSING]: there is no file `inputs/nope.csv`\n" + (
        "   hint: check the path; for a dataset, name its manifest with `--manifest`, or its plan\n"
    )
    near = "error[FILE_MISSING]: there is no file `inputs/contrls.csv`\n   hint: did you mean `inputs/controls.csv`?\n"
    folder = "error[FILE_MISSING]: `inputs` is a folder\n   hint: name the files in it that are tables\n"
    assert refused("inputs/nope.csv") == refused("inputs/nope.csv", *manifest) == missing
    assert refused("inputs/contrls.csv", "inputs/controls.csv") == near
    assert refused("inputs") == refused("inputs", *manifest) == folder
    assert refused("Artifact:x.csv", *manifest) == (
        "error[USAGE]: `Artifact:x.csv` is the result of a plan, and none is named\n"
        "   hint: name it: `whyrun describe Artifact:x.csv plan.json --manifest inputs/manifest.json`\n"
    )
    (data / "workflow.yaml").write_text("workflow: w\njobs: {A: {uses: shell, with: {run: 'true'}}}\n")
    assert refused("inputs/nope.csv") == missing
    assert refused("inputs") == folder
    assert refused("nope").startswith("error[UNKNOWN_REFERENCE]: `Input:nope` names nothing in this workflow\n")


def test_a_name_and_a_file_can_be_described_together(data: Path) -> None:
    init(data)
    words = ("inputs/controls.csv", "main_1", "--manifest", "inputs/manifest.json", "--json")
    shown = whyrun(data, "describe", *words).json["datasets"]
    assert [one["id"] for one in shown] == ["inputs/controls.csv", "Input:main_1"]


# --- what is counted, in this process -----------------------------------------------------------------------------


def described(path: Path, **options: Any) -> dict[str, Any]:
    return describe_table(path, DataParams(), path.parent, **options)


def test_ranges_are_exact_and_texts_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("d,big,t\n2024-01-31,9007199254740993,secret\n2023-12-01,1,other secret\n")
    found = described(file)
    assert [(c["name"], c.get("minimum"), c.get("maximum")) for c in found["columns"]] == [
        ("d", "2023-12-01", "2024-01-31"),
        ("big", 1, 9007199254740993),
        ("t", None, None),
    ]
    assert "secret" not in json.dumps(found)
    assert described(file, sample=1)["sample"] == [{"d": "2024-01-31", "big": 9007199254740993, "t": "secret"}]


def test_beyond_the_limit_distinct_values_are_estimated_and_keys_are_still_exact(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("id,group,half\n" + "".join(f"{i},{i % 10},{min(i, 1998)}\n" for i in range(2000)))
    found = described(file, exact_rows=1000)
    assert all(column["distinct_is_estimated"] for column in found["columns"])
    assert found["key_candidates"] == [["id"], ["group", "half"]]
    assert [(c["minimum"], c["maximum"]) for c in found["columns"]] == [(0, 1999), (0, 9), (0, 1998)]


def test_labels_of_stata(tmp_path: Path) -> None:
    file = tmp_path / "x.dta"
    frame = DataFrame({"sex": [1, 2, 2], "age": [31, 45, 28]})
    labels = {"sex": {1: "male", 2: "female"}}
    pyreadstat.write_dta(frame, file, column_labels=["Sex of head", ""], variable_value_labels=labels)
    sex, age = described(file)["columns"]
    assert (sex["label"], sex["value_labels"]) == ("Sex of head", {"1": "male", "2": "female"})
    assert "label" not in age
    assert "value_labels" not in age


def test_an_empty_table_and_a_table_without_rows_of_values(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("a,b\n")
    found = described(tmp_path / "e.csv", full=True)
    assert (found["rows"], found["duplicate_rows"], found["key_candidates"]) == (0, 0, [])
    assert [(c["missing"], c["distinct"], "minimum" in c) for c in found["columns"]] == [(0, 0, False)] * 2
