"""The JSON Schema of dataset plans over the datasets of one manifest and the actions that are installed here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from whyrun.actions.builtin import BUILTIN
from whyrun.actions.description import params_of
from whyrun.actions.parameter_schema import parameter_schemas
from whyrun.actions.registry.catalogue import CatalogueEntry, catalogue
from whyrun.errors import did_you_mean, error
from whyrun.workflow.composition.plan_file.dataset_plan import load_manifest, plan_schema
from whyrun.workflow.composition.plan_file.offered import OfferedAction, OfferedParameter, offered_schema
from whyrun.workflow.model import ROLES


def plan_schema_for(manifest: str, project: Path, *, strict: bool = False, only: Sequence[str] = ()) -> dict[str, Any]:
    """`only`: these actions instead of all that can be used."""
    datasets = [dataset.key for dataset in load_manifest(Path(manifest))]
    return offered_schema(plan_schema(), datasets, offered_actions(project, only), strict=strict)


def offered_actions(project: Path, only: Sequence[str] = ()) -> list[OfferedAction]:
    usable = {entry.name: entry for entry in catalogue(project) if entry.error is None}
    for name in only:
        if name not in usable:
            hint = did_you_mean(name, list(usable)) or "`whyrun actions` lists them"
            raise error("INVALID_USES", f"there is no action `{name}` that can be used here", hint=hint)
    chosen = [entry for name, entry in usable.items() if not only or name in only]
    return [offered for entry in chosen if (offered := _offered(entry)) is not None]


def _offered(entry: CatalogueEntry) -> OfferedAction | None:
    """None: no plan can use it, because a required parameter cannot be written in one, such as a secret."""
    if entry.origin != "builtin":
        return OfferedAction(entry.name, entry.summary, list(_described(entry)), _is_open(entry))
    builtin = BUILTIN[entry.name]
    if not builtin.is_class:
        named = [OfferedParameter(name, False, "", {"type": "string"}) for name, _, _ in builtin.parameters]
        return OfferedAction(entry.name, entry.summary, [one for one in named if one.name != "…"], open_ended=True)
    parameters = [
        OfferedParameter(one.name, one.required, one.binds, one.schema)
        for one in parameter_schemas(params_of(builtin.load()))
    ]
    if any(one.required and not one.binds and one.schema is None for one in parameters):
        return None
    return OfferedAction(entry.name, entry.summary, parameters, open_ended=False)


def _is_open(entry: CatalogueEntry) -> bool:
    known = entry.description
    return known is None or known.parameters is None or known.open_ended


def _described(entry: CatalogueEntry) -> Iterator[OfferedParameter]:
    """The parameters of an action of the project or of a plugin, by name: each takes a value, or a file by its role.

    Its code runs in a process of its own, so only its description is known here, and no types.
    """
    known = entry.description
    for parameter in (known.parameters if known is not None else None) or ():
        binds = "several" if parameter.name in ROLES or parameter.type.startswith("a file") else ""
        described = {"description": parameter.description or parameter.type}
        yield OfferedParameter(parameter.name, parameter.required and bool(binds), binds, described)
