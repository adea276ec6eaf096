"""What an action is: a class with `run`, or a function with `@action`. Users import both from `whyrun`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from whyrun.artifacts.compare.result import Comparison

Function = TypeVar("Function", bound=Callable[..., Any])
Comparer = Callable[[str, Path, Path], Comparison | str | None]  # (output, old path, new path)


class Context(Protocol):
    """What a running step may ask of its worker."""

    work_dir: Path
    inputs: Mapping[str, Any]

    @property
    def cancelled(self) -> bool: ...

    def output(self, name: str) -> Path: ...

    def task(self, status: str, message: str, details: Any = None) -> None: ...

    def metric(self, name: str, value: float, unit: str = "") -> None: ...

    def progress(self, done: float, total: float) -> None: ...

    def remember(self, key: str, value: Any) -> None: ...

    def recall(self, key: str, any_parameters: bool = False) -> Any: ...


class WorkerContext(Context, Protocol):
    """What the built-in actions know beyond the public context."""

    project: Path
    output_names: tuple[str, ...]
    script_path: Path  # becomes steps/<step>/script.sh, and `query.sql` beside it steps/<step>/query.sql

    def stderr_tail(self, lines: int = 10) -> str: ...

    def without_secrets(self, value: Any) -> Any: ...


class Action:
    """A class of action. Everything but `run` is optional; a fresh instance serves every step.

    `inputs` is the `with:` block: a dict by name, files as `Path`. Where the class has `Params`, it is checked against
    them before anything runs, `inputs` has every field with its default, and `self.params` holds the typed record.
    """

    name: ClassVar[str] = ""
    version: ClassVar[str] = ""
    outputs: ClassVar[Mapping[str, str] | None] = None  # None: whatever the job declares
    deterministic: ClassVar[bool] = False
    Params: ClassVar[type[Any] | None] = None  # a subclass of `Parameters`
    example: ClassVar[str] = ""  # a piece of a workflow, for `whyrun actions NAME`
    params: Any = None  # in a step: the `Params` of this step

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        raise NotImplementedError(f"the action `{type(self).__name__}` has no `run` method")

    def estimate_runtime(self, inputs: dict[str, Any]) -> float:
        return 1.0

    def get_output_files(self, inputs: dict[str, Any]) -> list[str]:
        return []

    def get_output_contribution_key(self, inputs: dict[str, Any]) -> str | None:
        return None

    def has_existing_contribution(self, file_path: str, inputs: dict[str, Any]) -> bool:
        return False

    def compare(self, output: str, old_path: Path, new_path: Path) -> Comparison | str | None:
        """What `whyrun compare` says of two versions of an output whose bytes differ: a `Comparison`, or a text (an
        empty one: identical). None: compare it as any other file."""
        return None


# What a class may bring beyond `run`; each is asked only where a class has its own.
HOOKS = ("estimate_runtime", "get_output_files", "get_output_contribution_key", "has_existing_contribution")


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """What `@action` knows; it stands on the function itself, which stays callable as it is."""

    name: str
    outputs: Mapping[str, str]
    version: str
    deterministic: bool
    compare: Comparer | None = None


MARK = "__whyrun_action__"


def action(
    name: str,
    *,
    outputs: Mapping[str, str] | None = None,
    version: str = "",
    deterministic: bool = False,
    compare: Comparer | None = None,
) -> Callable[[Function], Function]:
    """Make a function an action: `@action("text/upper", outputs={"text": "text"})`.

    `compare(output, old_path, new_path)`: its own way to compare versions of an output, as in `Action.compare`.
    """

    def mark(function: Function) -> Function:
        setattr(function, MARK, FunctionFacts(name, dict(outputs or {}), version, deterministic, compare))
        return function

    return mark


# --- calling -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallPlan:
    """How a function wants to be called, found out once per function and worker."""

    takes_context: bool
    takes_logger: bool
    text_as_str: frozenset[str]  # parameters annotated `str`: a text file arrives as its content


def call_plan(function: Callable[..., Any]) -> CallPlan:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some C functions have no signature: they get the parameters and nothing else
        return CallPlan(False, False, frozenset())
    text = frozenset(name for name, p in parameters.items() if p.annotation is str or p.annotation == "str")
    return CallPlan("context" in parameters, "logger" in parameters, text)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A `text` input before its consumer is known: a path for most, the content where `str` is asked for."""

    path: Path


def plain(value: Any) -> Any:
    """A value for an action: every text file as its path."""
    if isinstance(value, TextFile):
        return value.path
    if isinstance(value, list):
        return [plain(member) for member in value]
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    return value


def call_function(
    function: Callable[..., Any], plan: CallPlan, parameters: Mapping[str, Any], context: Any, logger: Any
) -> Any:
    """Parameters by keyword; `context` and `logger` only where the function asks for them."""
    arguments = {
        name: value.path.read_text(encoding="utf-8")
        if isinstance(value, TextFile) and name in plan.text_as_str
        else plain(value)
        for name, value in parameters.items()
    }
    if plan.takes_context:
        arguments["context"] = context
    if plan.takes_logger:
        arguments["logger"] = logger
    return function(**arguments)
