"""Checks of datasets before anything runs: the files of an inputs manifest, and the declarations of `data/` jobs.

A manifest's files must exist, lie in its folder and have the recorded fingerprint. A merge needs its key columns, a
`data/` action writes one output, and the leaves of `data/check` are diagnostics that it computes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from whyrun.actions.builtin import DATA
from whyrun.errors import Diagnostic, did_you_mean, to_install
from whyrun.graph.tables import Graph, InputAt, JobTable, sources_of
from whyrun.graph.template import expressions_in
from whyrun.workflow.composition.plan_file.products import diagnostic_types
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import (
    CHECKING_ACTION,
    MERGING_ACTIONS,
    PRIMARY,
    SECONDARY,
    Composition,
    Dataset,
    JobDecl,
    LeafDecl,
)

MERGING_ACTION = "data/merge"
_TABLE_ACTIONS = (MERGING_ACTION, "data/append", "data/aggregate", "data/sql")  # they write one table
_TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", "")
_OF_MERGE = ("with", "with.operation", "with.keys", "with.cardinality")
_CARDINALITIES = ("1:1", "1:m", "m:1", "m:m")
_READ_OPTIONS = ("delimiter", "encoding", "sheet")  # parameters that say how an action reads a file
_LEAF_TYPES = {"integer": ("integer", "number", "json"), "number": ("number", "json")}  # by type of the diagnostic


# --- the files of an inputs manifest -----------------------------------------------------------------------------


def dataset_file_problems(
    composition: Composition, project: Path, folder: Path, given: Mapping[str, object]
) -> dict[str, Diagnostic]:
    """By key: why a dataset's file cannot be used. A dataset that `--set` replaces is not checked.

    `folder` is the folder of the manifest.
    """
    problems: dict[str, Diagnostic] = {}
    for dataset in composition.datasets:
        if dataset.path is not None and given.get(dataset.key) == dataset.path:
            problem = _dataset_file_problem(dataset, project, folder)
            if problem is not None:
                problems[dataset.key] = problem
    return problems


def _dataset_file_problem(dataset: Dataset, project: Path, folder: Path) -> Diagnostic | None:
    assert dataset.path is not None
    what = f"dataset `{dataset.key}`"
    full = os.path.join(project, dataset.path)
    if not os.path.lexists(full):
        message = f"{what}: there is no file `{dataset.rel_path}`"
        hint = "`rel_path` is relative to the folder of the manifest"
        return dataset.place.diagnostic("MANIFEST_FILE_MISSING", message, hint)
    if os.path.relpath(os.path.realpath(full), os.path.realpath(folder)).split(os.sep)[0] == "..":
        message = f"{what}: `{dataset.rel_path}` is a link that leads out of the folder of the manifest"
        return dataset.place.diagnostic("MANIFEST_PATH_OUTSIDE", message, "copy the file into the folder")
    if not os.path.isfile(full):
        message = f"{what}: `{dataset.rel_path}` is not a file"
        return dataset.place.diagnostic("MANIFEST_FILE_MISSING", message, "a dataset is one file")
    return None


def dataset_fingerprint_problems(composition: Composition, values: Mapping[str, InputValue]) -> Iterator[Diagnostic]:
    """Datasets whose file does not have the fingerprint that the manifest records."""
    for dataset in composition.datasets:
        value = values.get(f"Input:{dataset.key}")
        if dataset.fingerprint is None or value is None or value.sha256 == dataset.fingerprint:
            continue
        yield dataset.fingerprint_place.diagnostic(
            "MANIFEST_FINGERPRINT_MISMATCH",
            f"dataset `{dataset.key}`: the file does not have the fingerprint that the manifest records",
            f"its fingerprint is `sha256:{value.sha256}`; correct the manifest if the change is wanted",
        )


# --- the declarations of `data/` jobs ----------------------------------------------------------------------------


def data_job_problems(graph: Graph, project: Path) -> list[Diagnostic]:
    return [
        *merge_key_problems(graph, project),
        *cardinality_problems(graph),
        *diagnostic_leaf_problems(graph),
        *data_output_problems(graph),
    ]


def merge_key_problems(graph: Graph, project: Path) -> list[Diagnostic]:
    """Key columns that an input file of a merge does not have, each once.

    Only headers and small JSON files are read. The step itself reports on files that a step has still to make, and on
    large JSON files, whose columns are known only after all of the file is read.
    """
    problems: dict[Diagnostic, None] = {}
    for table in graph.tables:
        if table.decl.uses == MERGING_ACTION or table.decl.merges_itself:
            problems.update(dict.fromkeys(_merge_problems(table, project)))
    return list(problems)


def cardinality_problems(graph: Graph) -> list[Diagnostic]:
    """Cardinalities that steps of a dataset plan declare and that nobody could check. `data/merge` checks its own."""
    declarations = {id(table.decl): table.decl for table in graph.tables}.values()
    return _of_each_job(_cardinality_problems(decl) for decl in declarations if "merge" in decl.places)


def _cardinality_problems(decl: JobDecl) -> Iterator[Diagnostic]:
    place, declared = decl.places.get("with.cardinality"), decl.with_.get("cardinality")
    if place is None or declared is None or decl.uses in MERGING_ACTIONS or not decl.broken.isdisjoint(_OF_MERGE):
        return  # there is nothing to check, or a mistake in it is reported
    missing = DATA.missing()
    if not decl.merges_itself:
        message = f"`{decl.name}` appends, and only a merge has a `cardinality`"
        yield place.diagnostic("INVALID_PARAMETER", message, "remove it")
    elif declared not in _CARDINALITIES:
        message = f"`cardinality` of `{decl.name}` is `{declared}`"
        yield place.diagnostic("INVALID_PARAMETER", message, f"write one of {', '.join(_CARDINALITIES)}")
    elif not all(_keys_by_role(decl).values()):
        message = f"`cardinality` of `{decl.name}` cannot be checked: `keys` is no list of columns"
        hint = 'write `"keys": ["id"]`, or `{"primary": ["id"], "secondary": ["code"]}` if the names differ'
        yield decl.places.get("with.keys", place).diagnostic("INVALID_PARAMETER", message, hint)
    elif missing:
        message = f"`cardinality` of `{decl.name}` is checked with {', '.join(f'`{name}`' for name in missing)}"
        hint = f"{to_install(DATA.name)}; or remove `cardinality`"
        yield place.diagnostic("INVALID_PARAMETER", message, hint)


def _merge_problems(table: JobTable, project: Path) -> Iterator[Diagnostic]:
    if any(_is_computed(table.decl.with_.get(name)) for name in _READ_OPTIONS):
        return  # the step knows how the files are read when it starts
    keys = _keys_by_role(table.decl)
    for slot in table.slots:
        wanted = keys.get(str(slot.path[0])) if slot.binding else None
        for position in range(len(table)) if wanted else ():
            for source in sources_of(slot.column.at(position)):
                if isinstance(source, InputAt) and source.value.path is not None:
                    yield from _header_problems(table.decl, source, project / source.value.path, wanted or ())


def _keys_by_role(decl: JobDecl) -> dict[str, list[tuple[str, str]]]:
    """By role: the columns that the merge needs, each with the name of the place where it is written."""
    written = decl.with_.get("keys")
    if _is_computed(written):
        return {}  # known when the step starts
    if isinstance(written, dict):
        sides = {PRIMARY: written.get("primary"), SECONDARY: written.get("secondary")}
        return {role: [(name, "with.keys") for name in _texts(names)] for role, names in sides.items()}
    members = enumerate(written) if isinstance(written, list) else ()
    named = [(name, f"with.keys[{index}]") for index, name in members if isinstance(name, str)]
    return {PRIMARY: named, SECONDARY: named}


def _texts(value: Any) -> list[str]:
    return [member for member in value if isinstance(member, str)] if isinstance(value, list) else []


def _header_problems(
    decl: JobDecl, source: InputAt, path: Path, keys: Sequence[tuple[str, str]]
) -> Iterator[Diagnostic]:
    from whyrun.actions.data.params import DataError
    from whyrun.actions.data.tables import other_delimiter

    all_keys = decl.places.get("with.keys", decl.place)
    options = {name: decl.with_[name] for name in _READ_OPTIONS if isinstance(decl.with_.get(name), str)}
    try:
        names = _header(path, options)
    except ImportError:
        return  # without the extra `data` nothing can be read; the action says so
    except (DataError, OSError) as problem:
        if decl.uses != MERGING_ACTION:
            return  # the user's own action may know how to read it
        hint = "is it the right file, in the format of its suffix?"
        message = f"`{source.id}` has no header to look for keys in: {problem}"
        yield all_keys.diagnostic("MERGE_KEY_UNKNOWN", message, hint)
        return
    if names is None:
        return
    for key, place in keys:
        if key not in names and not (decl.uses != MERGING_ACTION and _may_have(names, key)):
            hint = (
                other_delimiter(names)
                or did_you_mean(key, names)
                or f"its columns: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
            )
            message = f"`{source.id}` has no column `{key}`"
            yield decl.places.get(place, all_keys).diagnostic("MERGE_KEY_UNKNOWN", message, hint)


def _may_have(names: Sequence[str], key: str) -> bool:
    """A user's own action may split or spell the header in another way: `firm_id;year`, `Firm_ID`."""
    return any(key.casefold() in name.casefold() for name in names)


def _header(path: Path, options: dict[str, str]) -> list[str] | None:
    from whyrun.actions.data.params import DataParams
    from whyrun.actions.data.tables import column_names

    return column_names(path, DataParams(**options))  # type: ignore[arg-type]  # checked with the job's parameters


def diagnostic_leaf_problems(graph: Graph) -> list[Diagnostic]:
    """Leaves of `data/check` jobs that are no diagnostic of theirs, or have another type."""
    code = "PRODUCT_UNKNOWN" if _is_plan(graph) else "UNKNOWN_REFERENCE"
    return _of_each_job(_leaf_problems(decl, code) for decl in _declarations(graph, (CHECKING_ACTION,)))


def _leaf_problems(decl: JobDecl, code: str) -> Iterator[Diagnostic]:
    types = None if _is_computed(decl.with_.get("diagnostics")) else diagnostic_types(decl.with_)
    if types is None:
        return  # reported elsewhere, or known when the step starts
    for output in decl.outputs.values():
        for leaf in output.leaves:
            yield from _leaf_problem(decl, leaf, types, code)


def _leaf_problem(decl: JobDecl, leaf: LeafDecl, types: Any, code: str) -> Iterator[Diagnostic]:
    (name, selectors), *inner = leaf.path
    if name not in types:
        message = f"`{decl.name}` computes no diagnostic `{name}`"
        yield leaf.place.diagnostic(code, message, did_you_mean(name, list(types)) or "add it to its `diagnostics`")
    elif selectors or inner:
        message = f"the diagnostic `{name}` of `{decl.name}` is one value, and has no part `{leaf.text}`"
        yield leaf.place.diagnostic(code, message, f"read `{name}`")
    elif types[name] is not None and leaf.type not in _LEAF_TYPES[types[name]]:
        message = f"the diagnostic `{name}` of `{decl.name}` is of type `{types[name]}`, not `{leaf.type}`"
        yield leaf.place.diagnostic("WRONG_TYPE", message, f"write `{name}: {types[name]}`")


def data_output_problems(graph: Graph) -> list[Diagnostic]:
    """`data/` jobs that do not declare exactly one output, or one with a suffix that the action cannot write."""
    is_plan = _is_plan(graph)
    declarations = _declarations(graph, (*_TABLE_ACTIONS, CHECKING_ACTION))
    return _of_each_job(_output_problems(decl, is_plan) for decl in declarations)


def _output_problems(decl: JobDecl, is_plan: bool) -> Iterator[Diagnostic]:
    outputs = list(decl.outputs.values())
    what = "product" if is_plan else "output"
    if not outputs:
        yield decl.place.diagnostic(
            "OUTPUT_UNUSABLE", f"`{decl.uses}` writes one {what}, but `{decl.name}` has none", f"declare the {what}"
        )
    for extra in outputs[1:]:
        message = (
            f"`{decl.uses}` writes one {what}, and `{decl.name}` declares `{extra.name}` beside `{outputs[0].name}`"
        )
        hint = "remove it, or make it in a step of its own"
        if is_plan:
            hint = f"{hint}; a file in `produces` that has no product's name counts as a product too"
        yield extra.place.diagnostic("OUTPUT_UNUSABLE", message, hint)
    if decl.uses not in _TABLE_ACTIONS:
        return
    for output in outputs[:1]:
        # The suffix of an expression is known when the step starts; until then `output.suffix` is empty.
        suffix = PurePosixPath(output.path).suffix if isinstance(output.path, str) else output.suffix
        if suffix.lower() not in _TABLE_SUFFIXES:
            place = decl.places.get(f"outputs.{output.name}.path", output.place)
            message = f"`{decl.uses}` writes `.csv`, `.tsv` or `.parquet`, and `{output.name}` ends in `{suffix}`"
            yield place.diagnostic("OUTPUT_UNUSABLE", message, "change the name of its file")


def _is_plan(graph: Graph) -> bool:
    composition = graph.workflow.composition
    return composition is not None and composition.manifest is not None


def _is_computed(template: Any) -> bool:
    return any(True for _ in expressions_in(template))


def _declarations(graph: Graph, actions: Sequence[str]) -> Iterable[JobDecl]:
    """The jobs that use these actions; one that two imports share is listed once."""
    return {id(table.decl): table.decl for table in graph.tables if table.decl.uses in actions}.values()


def _of_each_job(problems: Iterable[Iterable[Diagnostic]]) -> list[Diagnostic]:
    return list(dict.fromkeys(problem for of_job in problems for problem in of_job))
