"""The datasets of an inputs manifest against the files: are they there, inside, and the ones that were meant?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from whyrun.errors import Diagnostic
from whyrun.workflow.composition.model import Composition, Dataset
from whyrun.workflow.inputs import InputValue


def file_problems(
    composition: Composition | None, project: Path, folder: Path, given: Mapping[str, object]
) -> dict[str, Diagnostic]:
    """By key: why the file of a dataset cannot be taken. One that was given otherwise (`--set`) is not looked at.

    `folder` is that of the manifest.
    """
    found: dict[str, Diagnostic] = {}
    for dataset in composition.datasets if composition is not None else ():
        if dataset.path is not None and given.get(dataset.key) == dataset.path:
            problem = _file_problem(dataset, project, folder)
            if problem is not None:
                found[dataset.key] = problem
    return found


def _file_problem(dataset: Dataset, project: Path, folder: Path) -> Diagnostic | None:
    assert dataset.path is not None
    what = f"dataset `{dataset.key}`"
    full = os.path.join(project, dataset.path)
    if not os.path.lexists(full):
        message = f"{what}: there is no file `{dataset.rel_path}`"
        hint = "`rel_path` is written from the folder of the manifest"
        return dataset.place.diagnostic("MANIFEST_FILE_MISSING", message, hint)
    if os.path.relpath(os.path.realpath(full), os.path.realpath(folder)).split(os.sep)[0] == "..":
        message = f"{what}: `{dataset.rel_path}` is a link that leads out of the folder of the manifest"
        return dataset.place.diagnostic("MANIFEST_PATH_OUTSIDE", message, "copy the file into the folder")
    if not os.path.isfile(full):
        message = f"{what}: `{dataset.rel_path}` is no file"
        return dataset.place.diagnostic("MANIFEST_FILE_MISSING", message, "a dataset is one file")
    return None


def fingerprint_problems(composition: Composition | None, values: Mapping[str, InputValue]) -> Iterator[Diagnostic]:
    """Files that are not those that the manifest was written for."""
    for dataset in composition.datasets if composition is not None else ():
        value = values.get(f"Input:{dataset.key}")
        if dataset.fingerprint is None or value is None or value.sha256 == dataset.fingerprint:
            continue
        yield dataset.fingerprint_place.diagnostic(
            "MANIFEST_FINGERPRINT_MISMATCH",
            f"dataset `{dataset.key}`: the file is not the one that the manifest was written for",
            f"its fingerprint is `sha256:{value.sha256}`; correct the manifest if the change is wanted",
        )
