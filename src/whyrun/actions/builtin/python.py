"""`python`: `call: "story:write"` calls a function of the project, `script: file.py` runs a file of the project."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from whyrun.actions.base import CallPlan, call_function, call_plan, plain
from whyrun.actions.code.source import SourceError, definitions, find_module, parse_file
from whyrun.actions.code.source_loader import record_read
from whyrun.actions.problem import NOT_LITERAL, Problem, check_signature
from whyrun.errors import InvalidError, did_you_mean
from whyrun.workflow import advice

_OWN_KEYS = ("call", "script")


# --- on the host -------------------------------------------------------------------------------------------------


def entry_file(with_: Mapping[str, Any], project: Path) -> Path:
    """The file that `call` or `script` names. Raises the problem that `check_with` would report."""
    located = _locate(with_, project)
    if isinstance(located, Problem):
        raise InvalidError([located.diagnostic()])
    return located[0]


def check_with(with_: Mapping[str, Any], project: Path) -> tuple[Problem, ...]:
    located = _locate(with_, project)
    if isinstance(located, Problem):
        return (located,)
    path, function = located
    try:
        tree = parse_file(path, path.relative_to(project).as_posix())
    except SourceError as problem:
        return (Problem("script" if function is None else "call", str(problem), "correct that file"),)
    if function is None:
        return ()
    parameters = {name: value for name, value in with_.items() if name not in _OWN_KEYS}
    defined = definitions(tree)
    first = function.split(".")[0]
    if function in defined.functions:
        return tuple(check_signature(defined.functions[function], parameters, f"`{with_['call']}`"))
    if first in defined.functions or first in defined.others or not defined.complete:
        return ()  # an imported name, a class or a method: this file does not show its signature
    message = f"`{path.relative_to(project).as_posix()}` does not define `{first}`"
    return (Problem("call", message, did_you_mean(first, defined.names) or "define it there, or correct the name"),)


def _locate(with_: Mapping[str, Any], project: Path) -> tuple[Path, str | None] | Problem:
    given = [key for key in _OWN_KEYS if key in with_]
    if len(given) != 1:
        what = "has both" if given else "needs"
        message = f"`python` {what} `call:` {'and' if given else 'or'} `script:`"
        return Problem(None, message, advice.call_or_script())
    key = given[0]
    value = with_[key]
    if value is NOT_LITERAL or not isinstance(value, str):
        return Problem(key, f"`{key}:` must be a plain text", "the code that runs may not depend on a computed value")
    if key == "script":
        return _locate_script(value, project)
    module, colon, function = value.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *function.split("."))):
        hint = _as_call(value, project) or 'for example `call: "story:write"`'
        return Problem("call", f"`call: {value}` is not `module:function`", hint)
    path = find_module(project, module)
    if path is None:
        file = f"{module.replace('.', '/')}.py"
        near = did_you_mean(file, _python_files(project, file)) if _as_call(value, project) is None else None
        hint = f"there is no `{file}` in the project folder" + (f"; {near}" if near else "")
        return Problem("call", f"the project has no module `{module}`", _as_call(value, project) or hint)
    return path, function


def _as_call(value: str, project: Path) -> str | None:
    """A hint for `scripts/fit.py:main` and `scripts.fit.main`, if that function may exist."""
    module, _, function = value.rpartition(":" if ":" in value else ".")
    module = module.removesuffix(".py").replace("/", ".")
    parts = [*module.split("."), function]
    if not module or not all(part.isidentifier() for part in parts) or find_module(project, module) is None:
        return None
    return f'write `call: "{module}:{function}"`'


def _python_files(project: Path, beside: str) -> list[str]:
    folder = (project / beside).parent
    return [path.relative_to(project).as_posix() for path in sorted(folder.glob("*.py"))[:1000]]


def _locate_script(value: str, project: Path) -> tuple[Path, None] | Problem:
    if os.path.isabs(value) or ".." in Path(value).parts:
        return Problem("script", f"`script: {value}` leaves the project folder", "use a path inside it", "PATH_OUTSIDE")
    if not (project / value).is_file():
        first, _, arguments = value.partition(" ")
        if arguments and (project / first).is_file():
            hint = (
                f"write `script: {first}`, and arguments as entries of `with:`, which it reads as `inputs`; "
                "a script with a command line of its own takes `uses: shell`"
            )
            return Problem("script", f"`script: {value}` is a command, not a file", hint)
        near = did_you_mean(value, _python_files(project, value))
        known = near if near is not None and near.startswith("did you mean") else None
        return Problem("script", f"there is no file `{value}`", known or "the path is relative to the project folder")
    return project / value, None


# --- in the worker -----------------------------------------------------------------------------------------------


def run(parameters: dict[str, Any], context: Any, logger: Any) -> Any:
    try:
        return _run(parameters, context, logger)
    except SystemExit as ended:
        if isinstance(ended.code, int) and (said := context.stderr_tail(1).strip()):
            ended.add_note(said)  # a command line says on stderr what is wrong with it
        raise


def _run(parameters: dict[str, Any], context: Any, logger: Any) -> Any:
    if "call" in parameters:
        function, plan = _function(parameters["call"])
        arguments = {name: value for name, value in parameters.items() if name not in _OWN_KEYS}
        return call_function(function, plan, arguments, context, logger)
    import runpy

    script = context.project / parameters["script"]
    inputs = {name: plain(value) for name, value in parameters.items() if name not in _OWN_KEYS}
    sys.argv = [str(script)]
    record_read(str(script))
    try:
        runpy.run_path(str(script), init_globals={"inputs": inputs, "context": context}, run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
    return None


@lru_cache(maxsize=1024)
def _function(call: str) -> tuple[Callable[..., Any], CallPlan]:
    module, _, path = call.partition(":")
    function: Any = importlib.import_module(module)
    for name in path.split("."):
        function = getattr(function, name)
    return function, call_plan(function)
