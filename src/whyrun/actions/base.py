"""Defines actions: a class with a `run` method, or a function with `@action`. Users import both from `whyrun`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

import msgspec

from whyrun.lazy_regex import lazy_regex

if TYPE_CHECKING:
    import subprocess

    from whyrun.artifacts.compare.result import Comparison
    from whyrun.money import Cost, Number

CO_VARARGS, CO_VARKEYWORDS = 4, 8  # as `inspect` names them
Function = TypeVar("Function", bound=Callable[..., Any])
# (output, old path, new path) → the difference
Comparer: TypeAlias = "Callable[[str, Path, Path], Comparison | str | None]"


class Context(Protocol):
    """The worker's services for a running step."""

    work_dir: Path
    inputs: Mapping[str, Any]

    @property
    def cancelled(self) -> bool: ...

    def output(self, name: str) -> Path: ...

    def task(self, status: str, message: str, details: Any = None) -> None: ...

    def metric(self, name: str, value: float, unit: str = "") -> None: ...

    def progress(self, done: float, total: float) -> None: ...

    def throttled(self, seconds: float) -> None: ...

    def remember(self, key: str, value: Any) -> None: ...

    def recall(self, key: str, any_parameters: bool = False) -> Any: ...

    def cost(
        self,
        amount: Number | None,
        currency: str = "USD",
        item: str = "",
        quantity: Number | None = None,
        request: str | None = None,
    ) -> None: ...


class WorkerContext(Context, Protocol):
    """What built-in actions may use in addition to the public context."""

    project: Path
    output_names: tuple[str, ...]
    container: Any  # with `image`, `engine` and `network`; None: the script runs on this machine
    engine_settings: Mapping[str, str]  # the user's own
    variables: Mapping[str, str]  # the job's own environment variables
    launcher: Sequence[str]  # what comes before the command of a program that the step starts
    script_path: Path  # saved as steps/<step>/script.sh; a `query.sql` next to it is saved as steps/<step>/query.sql

    def wait_for(self, process: subprocess.Popen[bytes]) -> int: ...

    def stderr_tail(self, lines: int = 10) -> str: ...

    def without_secrets(self, value: Any) -> Any: ...


class Action:
    """The base class of actions. Everything except `run` is optional. Each step gets a fresh instance.

    `inputs` is the `with:` block as a dict, with files as `Path`. If the class has `Params`, the block is checked
    before the run, `inputs` also has the defaults, and `self.params` is the typed record.
    """

    name: ClassVar[str] = ""
    version: ClassVar[str] = ""
    outputs: ClassVar[Mapping[str, str] | None] = None  # None: the outputs that the job declares
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

    def estimate_cost(self, inputs: dict[str, Any]) -> Number | Cost | None:
        """What a run would cost, in US dollars unless it is a `Cost`; None if that cannot be known before."""
        return None

    def get_output_files(self, inputs: dict[str, Any]) -> list[str]:
        return []

    def get_output_contribution_key(self, inputs: dict[str, Any]) -> str | None:
        return None

    def has_existing_contribution(self, file_path: str, inputs: dict[str, Any]) -> bool:
        return False

    def compare(self, output: str, old_path: Path, new_path: Path) -> Comparison | str | None:
        """Compare two versions of an output whose bytes differ, for `whyrun compare`.

        Returns a `Comparison`, or a text that describes the difference (empty: identical). None: compare it like any
        other file.
        """
        return None


# The optional methods. Planning calls one only if the class overrides it.
HOOKS = (
    "estimate_runtime",
    "estimate_cost",
    "get_output_files",
    "get_output_contribution_key",
    "has_existing_contribution",
)


class FunctionFacts(msgspec.Struct, frozen=True):
    """The arguments of `@action`, stored as an attribute of the function."""

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

    `compare(output, old_path, new_path)`: compares two versions of an output, as `Action.compare` does.
    """

    def mark(function: Function) -> Function:
        setattr(function, MARK, FunctionFacts(name, dict(outputs or {}), version, deterministic, compare))
        return function

    return mark


class Signature(msgspec.Struct, frozen=True):
    """The parameters of a function, as its source declares them."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    open_ended: bool  # has **kwargs


# --- connections -------------------------------------------------------------------------------------------------

CONNECTION_REFERENCE = lazy_regex(r"@[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z][A-Za-z0-9_-]*)?")  # @family.alias, @family
SECRET_FIELDS = ("password",)  # the secret fields of a connection unless its action declares others


class ConnectionSlot(msgspec.Struct, frozen=True):
    """A path in a `with:` block that takes a connection. A `*` in it is any member of a list or mapping."""

    path: tuple[str, ...]
    secret_fields: tuple[str, ...] = SECRET_FIELDS
    required_fields: tuple[str, ...] = ()
    families: tuple[str, ...] = ()  # the allowed families; empty: any

    def matches(self, path: Sequence[str | int]) -> bool:
        return len(path) == len(self.path) and all(own in ("*", key) for own, key in zip(self.path, path, strict=True))


# --- calling -----------------------------------------------------------------------------------------------------


class CallPlan(msgspec.Struct, frozen=True):
    """How to call a function; computed once per function and worker."""

    takes_context: bool
    takes_logger: bool
    text_as_str: frozenset[str]  # parameters annotated `str` receive the content of a text file


def call_plan(function: Callable[..., Any]) -> CallPlan:
    if type(function) is FunctionType and not function.__dict__:
        return _plan_of_plain(function)
    import inspect

    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some C functions have no signature: they get only the parameters
        return CallPlan(False, False, frozenset())
    text = frozenset(name for name, p in parameters.items() if p.annotation is str or p.annotation == "str")
    return CallPlan("context" in parameters, "logger" in parameters, text)


def _plan_of_plain(function: FunctionType) -> CallPlan:
    """The same for a function that nothing wraps. Each step has a process, in which `inspect` costs a fifth of the
    call."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    names = code.co_varnames[:count]
    text = (name for name, kind in function.__annotations__.items() if kind is str or kind == "str")
    return CallPlan("context" in names, "logger" in names, frozenset(text).intersection(names))


class Named(dict[Any, Any]):
    """What `named(…)` gives: a mapping from index to member, of mappings where there are several `:`."""

    def flat(self, before: str = "") -> dict[str, Any]:
        """The members by their indices, joined by `,`."""
        found: dict[str, Any] = {}
        for key, member in self.items():
            name = f"{before},{key}" if before else str(key)
            found |= member.flat(name) if isinstance(member, Named) else {name: member}
        return found

    @classmethod
    def of(cls, keys: Sequence[Sequence[Any]], members: Sequence[Any]) -> Named:
        whole = cls()
        for key, member in zip(keys, members, strict=True):
            here = whole
            for index in key[:-1]:
                here = here.setdefault(index, cls())
            here[key[-1]] = member
        return whole


class TextFile(msgspec.Struct, frozen=True):
    """A `text` input: passed as its content to a `str` parameter, as its path otherwise."""

    path: Path


def plain(value: Any) -> Any:
    """The value with every `TextFile` replaced by its path."""
    if isinstance(value, TextFile):
        return value.path
    if isinstance(value, list):
        return [plain(member) for member in value]
    if isinstance(value, dict):
        kind = Named if isinstance(value, Named) else dict
        return kind((key, plain(member)) for key, member in value.items())
    return value


def call_function(
    function: Callable[..., Any], plan: CallPlan, parameters: Mapping[str, Any], context: Any, logger: Any
) -> Any:
    """Call with the parameters as keywords; `context` and `logger` only if the function has such parameters."""
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
