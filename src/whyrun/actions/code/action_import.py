"""Imports an action of the project or of a plugin, and prepares an instance of an action class for one call.

This is the only module that imports the user's actions. Workers and the inspector process use it; the host never does.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

from whyrun.actions.base import Action, plain
from whyrun.actions.code.discovery import ACTIONS_FOLDER

# The project's actions get a package of their own, so that `actions/json.py` does not shadow the standard `json`.
PACKAGE = "_whyrun_project_actions"


def import_target(origin: str, path: str, attribute: str, project: Path) -> Any:
    """The function or class of an action.

    For the project, `path` is the file and `attribute` a name in it. For a plugin, `path` is the target of the entry
    point, `package.module:attribute`.
    """
    if origin == "project":
        return getattr(_project_module(project, Path(path).stem), attribute)
    module_name, _, attribute = path.partition(":")
    target: Any = importlib.import_module(module_name)
    for name in attribute.split(".") if attribute else ():
        target = getattr(target, name)
    return target


def _project_module(project: Path, name: str) -> types.ModuleType:
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(project / ACTIONS_FOLDER)]
        sys.modules[PACKAGE] = package
    return importlib.import_module(f"{PACKAGE}.{name}")


def prepare_instance(
    uses: str, cls: type[Action], parameters: dict[str, Any], *, partial: bool = False, files_exist: bool = True
) -> tuple[Action, dict[str, Any]]:
    """A fresh instance and its `inputs`; where the class has `Params`, the inputs are converted and have defaults.

    `partial`: some parameters are not known yet, as in a runtime estimate. The known ones are passed on unconverted,
    the others get their defaults. `files_exist`: the input files exist already, so conversion checks them.
    """
    from whyrun.actions.description import params_of

    instance = cls()
    params = params_of(cls)
    if params is None:
        return instance, dict(plain(parameters))
    from whyrun.actions.parameters import converted, defaults_of, fields_of

    if partial:
        return instance, {**defaults_of(params), **plain(parameters)}
    instance.params = converted(params, parameters, uses, files_exist=files_exist)
    return instance, {name: getattr(instance.params, field.name) for name, field in fields_of(params).items()}
