"""The datasets of a manifest against the files that are there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from whyrun.snapshot.composition import dataset_file_problems, dataset_fingerprint_problems
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Composition, Dataset, Place, Type

PLACE, PRINT_PLACE = Place("manifest.json", 7, 3), Place("manifest.json", 8, 5)


def dataset(key: str, path: str | None, fingerprint: str | None = None) -> Dataset:
    rel_path = None if path is None else path.removeprefix("inputs/")
    return Dataset(key, None, None, rel_path, path, fingerprint, PLACE, PRINT_PLACE)


def composed(*datasets: Dataset) -> Composition:
    return Composition("sequential", datasets)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "inputs" / "deep").mkdir(parents=True)
    for name in ("inputs/there.csv", "inputs/deep/er.csv", "beside.csv", "inputs/..odd.csv"):
        (folder / name).write_text("x\n")
    return folder


def problems(project: Path, *paths: str, given: dict[str, Any] | None = None) -> dict[str, tuple[Any, ...]]:
    datasets = [dataset(f"d{number}", path) for number, path in enumerate(paths)]
    said = {one.key: one.path for one in datasets} if given is None else given
    found = dataset_file_problems(composed(*datasets), project, project / "inputs", said)
    assert all((problem.file, problem.line) == ("manifest.json", 7) for problem in found.values())
    return {key: (problem.code, problem.message, problem.hint) for key, problem in found.items()}


def test_files_that_are_there_are_fine(project: Path) -> None:
    os.symlink("deep/er.csv", project / "inputs" / "link.csv")
    assert problems(project, "inputs/there.csv", "inputs/deep/er.csv", "inputs/link.csv", "inputs/..odd.csv") == {}


def test_every_file_that_cannot_be_taken_is_told_by_its_key(project: Path) -> None:
    os.symlink("../beside.csv", project / "inputs" / "out.csv")
    os.symlink("nowhere.csv", project / "inputs" / "broken.csv")
    found = problems(
        project, "inputs/no.csv", "inputs/there.csv", "inputs/out.csv", "inputs/deep", "inputs/broken.csv", "beside.csv"
    )
    outside = "is a link that leads out of the folder of the manifest"
    assert found == {
        "d0": ("MANIFEST_FILE_MISSING", "dataset `d0`: there is no file `no.csv`",
               "`rel_path` is relative to the folder of the manifest"),
        "d2": ("MANIFEST_PATH_OUTSIDE", f"dataset `d2`: `out.csv` {outside}", "copy the file into the folder"),
        "d3": ("MANIFEST_FILE_MISSING", "dataset `d3`: `deep` is not a file", "a dataset is one file"),
        "d4": ("MANIFEST_FILE_MISSING", "dataset `d4`: `broken.csv` is not a file", "a dataset is one file"),
        "d5": ("MANIFEST_PATH_OUTSIDE", f"dataset `d5`: `beside.csv` {outside}", "copy the file into the folder"),
    }  # fmt: skip


def test_the_folder_may_itself_be_reached_through_a_link(project: Path) -> None:
    os.symlink("project", project.parent / "link")
    one = composed(dataset("a", "inputs/there.csv"))
    assert dataset_file_problems(one, project, project.parent / "link" / "inputs", {"a": "inputs/there.csv"}) == {}


def test_a_dataset_that_was_given_otherwise_is_not_looked_at(project: Path) -> None:
    assert problems(project, "inputs/no.csv", given={"d0": "inputs/other.csv"}) == {}
    assert problems(project, "inputs/no.csv", given={}) == {}
    nowhere = composed(dataset("a", None))
    assert dataset_file_problems(nowhere, project, project, {}) == {}
    assert dataset_file_problems(nowhere, project, project, {"a": None}) == {}


def value(sha256: str) -> InputValue:
    return InputValue(Type("dataset", 0), "x.csv", sha256, None, "x.csv")


def test_a_file_that_is_not_the_one_of_the_manifest_is_told_where_its_fingerprint_stands() -> None:
    all_of_them = composed(
        dataset("none", "a"), dataset("same", "b", "1" * 64), dataset("other", "c", "2" * 64), dataset("gone", "d", "3")
    )
    values = {"Input:none": value("4" * 64), "Input:same": value("1" * 64), "Input:other": value("5" * 64)}
    (problem,) = dataset_fingerprint_problems(all_of_them, values)
    assert (problem.code, problem.line, problem.message, problem.hint) == (
        "MANIFEST_FINGERPRINT_MISMATCH",
        8,
        "dataset `other`: the file does not have the fingerprint that the manifest records",
        f"its fingerprint is `sha256:{'5' * 64}`; correct the manifest if the change is wanted",
    )
