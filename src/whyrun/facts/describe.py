"""What is in a dataset: of a project, of an inputs manifest, or a file. For `whyrun describe`.

A manifest is enough: its author wants to see the data before there is a plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from whyrun.errors import InvalidError, WhyrunError, did_you_mean, error, to_install

if TYPE_CHECKING:
    from whyrun.actions.data.params import DataParams
    from whyrun.project import Project
    from whyrun.workflow.inputs import InputValue
    from whyrun.workflow.model import Dataset

Facts = dict[str, Any]
_FLOWS = (".yaml", ".yml")
_CORRECT = "correct the file, or give it the suffix of its format"
_DESCRIBED = ("dataset", "file", "text", "json")  # types of artifacts that may be tables


@dataclass(frozen=True, slots=True)
class DescribedFile:
    """One table: its name for the user, its path as shown, and where its bytes are. `suffix` gives the format."""

    id: str
    shown: str
    path: Path
    suffix: str
    role: str | None = None
    filename: str | None = None
    sha256: str | None = None  # None: it is computed


def describe_all(
    files: Sequence[DescribedFile], params: DataParams | None = None, *, full: bool = False, sample: int = 0
) -> list[Facts]:
    """The description of each. A file that cannot be read as a table has a `problem`, `code` and `hint` instead."""
    return [_described(file, params, full=full, sample=sample) for file in files]


def _described(file: DescribedFile, params: DataParams | None, *, full: bool, sample: int) -> Facts:
    from whyrun.artifacts.hashing import file_sha256

    facts: Facts = {"id": file.id, "path": file.shown}
    if file.role is not None:
        facts["role"] = file.role
    if file.filename is not None:
        facts["filename"] = file.filename
    facts["size"] = file.path.stat().st_size
    facts["fingerprint"] = f"sha256:{file.sha256 or file_sha256(file.path)}"
    return facts | _table(file, params, full=full, sample=sample)


def _table(file: DescribedFile, params: DataParams | None, *, full: bool, sample: int) -> Facts:
    try:
        import duckdb

        from whyrun.actions.data.describe import describe_table
        from whyrun.actions.data.params import DataError, DataParams, UnreadableTable
    except ImportError as missing:
        problem = f"`describe` needs `{missing.name}`"
        raise error("USAGE", problem, hint=to_install("data")) from None
    with TemporaryDirectory(prefix="whyrun-describe-") as folder:
        named = Path(folder) / f"table{file.suffix}"  # stored bytes have no suffix, which gives the format
        named.symlink_to(file.path.resolve())
        try:
            return describe_table(named, params or DataParams(), Path(folder), full=full, sample=sample, label=file.id)
        except (DataError, duckdb.Error, ImportError) as problem:
            text, hint = (problem.what, problem.hint) if isinstance(problem, UnreadableTable) else (str(problem), "")
            text = " ".join(text.replace(str(named), file.shown).split())
            return {"problem": text, "code": "TABLE_UNREADABLE", "hint": hint or _CORRECT}


# --- which files -------------------------------------------------------------------------------------------------


def file_itself(path: str) -> DescribedFile:
    return DescribedFile(path, path, Path(path), Path(path).suffix)


def check_files(names: Sequence[str], *, named: bool) -> None:
    """Refuse what can only be a file, and is not there. `named`: there is a workflow or manifest with other names."""
    from whyrun.actions.data.tables import FORMATS

    for name in names:
        is_id = ":" in name or (named and Path(name).suffix.lower() not in (*FORMATS, *_FLOWS))
        if not is_id and not os.path.isfile(name):
            raise _no_file(name)


def _is_path(name: str) -> bool:
    return os.path.isdir(name) or (":" not in name and "[" not in name and os.sep in name)


def _no_file(name: str) -> WhyrunError:
    from difflib import get_close_matches  # imported late: only this error needs it

    path = Path(name)
    if path.is_dir():
        return error("FILE_MISSING", f"`{name}` is a folder", hint="name the files in it that are tables")
    files = {each.stem: each.name for each in sorted(path.parent.glob("*")) if each.is_file()}
    near = get_close_matches(path.stem, files, n=1, cutoff=0.7)
    hint = "check the path; for a dataset, name its manifest with `--manifest`, or its plan"
    hint = f"did you mean `{path.with_name(files[near[0]])}`?" if near else hint
    return error("FILE_MISSING", f"there is no file `{name}`", hint=hint)


def of_manifest(manifest: str, names: Sequence[str]) -> list[DescribedFile]:
    """The datasets of a manifest, without a plan. `names`: their keys, or `Input:` and the key; empty for all."""
    datasets, locate = read_datasets(manifest)
    known = {dataset.key: dataset for dataset in datasets}
    found = {}
    for name in names or known:
        if name not in known and os.path.isfile(name):
            found[name] = file_itself(name)
        else:
            dataset = known[_known_key(name, known)]
            found[f"Input:{dataset.key}"] = _of_dataset(dataset, locate(dataset))
    return list(found.values())


def read_datasets(manifest: str) -> tuple[list[Dataset], Any]:
    """The datasets of a manifest whose files are there, and a function that gives the path of one."""
    from whyrun.snapshot.composition import dataset_file_problems
    from whyrun.workflow.composition.plan_file.dataset_plan import load_manifest
    from whyrun.workflow.model import Composition

    folder = Path(manifest).parent
    datasets = load_manifest(Path(manifest))
    composition = Composition("", tuple(datasets), (), None, None, manifest)
    given = {dataset.key: dataset.path for dataset in datasets}
    problems = dataset_file_problems(composition, folder, folder, given)
    if problems:
        raise InvalidError(problems.values())
    return datasets, lambda dataset: folder / str(dataset.path)


def _known_key(name: str, datasets: dict[str, Any]) -> str:
    key = name.removeprefix("Input:").removeprefix("input:")
    if key not in datasets:
        if _is_path(name):
            raise _no_file(name)
        hint = did_you_mean(key, list(datasets)) or f"the manifest has {', '.join(f'`{known}`' for known in datasets)}"
        raise error("DATASET_UNKNOWN", f"there is no dataset `{key}`", hint=hint)
    return key


def _of_dataset(dataset: Dataset, path: Path, sha256: str | None = None) -> DescribedFile:
    shown = os.path.relpath(path)
    return DescribedFile(f"Input:{dataset.key}", shown, path, path.suffix, dataset.role, dataset.filename, sha256)


def of_project(project: Project, names: Sequence[str]) -> list[DescribedFile]:
    """Inputs and artifacts by ID or key; without names, all inputs of the type `dataset`."""
    values = project.inputs
    if not names:
        found = [
            one for id_, value in values.items() if value.type.base == "dataset" for one in _files(project, id_, value)
        ]
        if not found:
            hint = "name an input or artifact that is a table: `whyrun describe Input:Panel`"
            raise error("USAGE", "the workflow has no input of the type `dataset`", hint=hint)
        return found
    return [one for name in names for one in _named(project, name)]


def _named(project: Project, name: str) -> Iterator[DescribedFile]:
    from whyrun.facts.subjects import find_subject

    id_ = name if ":" in name and not name.startswith("input:") else f"Input:{name.removeprefix('input:')}"
    graph = project.settled_graph() if id_.startswith("Artifact:") else project.graph
    try:
        subject = find_subject(graph, id_)
    except WhyrunError:
        if os.path.isfile(name):
            yield file_itself(name)
            return
        if _is_path(name):
            raise _no_file(name) from None
        raise
    if subject.kind == "artifact":
        yield _artifact(project, id_)
    elif subject.kind == "input" and subject.value is not None:
        files = list(_files(project, id_, subject.value))
        if not files:
            raise error("USAGE", f"`{id_}` is not a file", hint="`whyrun describe` describes tables in files")
        yield from files
    else:
        raise error("USAGE", f"`{id_}` is not a dataset", hint="name an input or an artifact")


def _files(project: Project, id_: str, value: InputValue) -> Iterator[DescribedFile]:
    if value.elements is not None:
        for member, item in value.members(id_):
            yield from _files(project, member, item)
    elif value.path is not None and not value.is_absent:
        composition = project.workflow.composition
        datasets = {f"Input:{d.key}": d for d in composition.datasets} if composition is not None else {}
        path = project.folder / value.path
        if path.is_file():
            dataset = datasets.get(id_)
            if dataset is not None:
                yield _of_dataset(dataset, path, value.sha256)
            else:
                yield DescribedFile(id_, os.path.relpath(path), path, path.suffix, sha256=value.sha256)


def _artifact(project: Project, id_: str) -> DescribedFile:
    """The current version of an artifact, from the store."""
    from whyrun.evidence.queries.current import current_artifact
    from whyrun.facts.subjects import command_arguments
    from whyrun.planning.plan import compute_execution_plan

    snapshot = project.snapshot()
    graph = snapshot.dependency_graph
    at = graph.artifact_of[id_]
    artifact = current_artifact(snapshot, compute_execution_plan(snapshot), graph.node(at), id_)
    if artifact.sha256 is None or not project.store.has(artifact.sha256):
        hint = f"`whyrun run{command_arguments(project)}` makes it"
        raise error("USAGE", f"`{id_}` is {artifact.state}: there is nothing to describe", hint=hint)
    if artifact.type not in _DESCRIBED:
        raise error("USAGE", f"`{id_}` is of the type `{artifact.type}`, which is no table", hint="name a dataset")
    table = graph.tables[at.table]
    suffix = table.output_of(at.artifact).suffix or Path(artifact.path or "").suffix
    shown = artifact.path or id_
    return DescribedFile(id_, shown, Path(project.store.path(artifact.sha256)), suffix, sha256=artifact.sha256)
