"""Problems between a `with:` block and its action: missing, unknown and invalid parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from whyrun.actions.base import Signature
from whyrun.errors import Diagnostic, did_you_mean
from whyrun.workflow import advice
from whyrun.workflow.advice import Advice, worded
from whyrun.workflow.model import JobDecl, Place


class _NotLiteral:
    def __repr__(self) -> str:
        return "NOT_LITERAL"


NOT_LITERAL = _NotLiteral()  # an entry of `with:` that is bound or computed


class Bound:
    """An entry that is bound to a value of this type (`file`, `image[]`, `integer`); None: the type is not known."""

    __slots__ = ("type",)

    def __init__(self, type_: str | None = None) -> None:
        self.type = type_


BIND_ANOTHER = "bind a value of that type"  # the hint if a value of another type is bound
HANDED_IN = frozenset({"context", "logger"})  # parameters that the worker passes, not the workflow


@dataclass(frozen=True, slots=True)
class Problem:
    """`entry`: the key below `with:` (or `outputs.NAME`) that has the problem; None for the block as a whole.

    `inner`: the path inside the entry (`.every`, `[2].name`). `at_name`: the name is wrong, not the value. `brief`: the
    short form for `parameter_summary`, a kind ("missing required", "invalid", "unknown") and a subject ("alpha=-0.1").
    """

    entry: str | None
    message: str | Advice
    hint: str | Advice | None = None
    code: str = "INVALID_PARAMETER"
    at_name: bool = False
    brief: tuple[str, str] | None = field(default=None, compare=False)
    inner: str = ""
    about: str | None = None  # for a problem of the whole block: the key to show

    def place(self, decl: JobDecl) -> Place:
        """The position in the workflow file, as deep inside the entry as positions are known."""
        if self.entry is None:
            return decl.places.get(f"with.{self.about}", decl.places.get("uses", decl.place))
        if self.entry.startswith("outputs.") and not self.inner:
            return decl.places.get(self.entry, decl.places.get("uses", decl.place))
        path = f"with.{self.entry}{self.inner}"
        if self.at_name and f"{path}#key" in decl.places:
            return decl.places[f"{path}#key"]
        while path not in decl.places and len(path) > len(f"with.{self.entry}"):
            path = path[: max(path.rfind("."), path.rfind("["))]
        return decl.places.get(path, decl.places.get("uses", decl.place))

    def diagnostic(self, decl: JobDecl | None = None) -> Diagnostic:
        """In the words of the file of the job, and with its place in it; in those of workflow files without a job."""
        in_plan = decl is not None and decl.in_plan
        message = worded(self.message, in_plan=in_plan)
        hint = None if self.hint is None else worded(self.hint, in_plan=in_plan)
        if decl is None:
            return Diagnostic(self.code, message, hint=hint)
        return self.place(decl).diagnostic(self.code, message, hint)


def check_signature(signature: Signature, with_: Mapping[str, Any], what: str) -> list[Problem]:
    """Missing required parameters and unknown ones."""
    known = [name for name in (*signature.required, *signature.optional) if name not in HANDED_IN]
    problems = [
        missing_parameter(what, name) for name in signature.required if name not in with_ and name not in HANDED_IN
    ]
    for name in with_:
        if name in HANDED_IN and name in (*signature.required, *signature.optional):
            message = f"the worker passes `{name}` to {what}"
            problems.append(Problem(name, message, advice.remove_parameter(), at_name=True))
        elif name not in known and not signature.open_ended:
            problems.append(unknown_parameter(what, name, known))
    return problems


def missing_parameter(what: str, name: str) -> Problem:
    return Problem(
        None,
        f"{what} needs the parameter `{name}`",
        advice.add_parameter(name),
        brief=("missing required", name),
    )


def unknown_parameter(what: str, name: str, known: list[str]) -> Problem:
    from whyrun.workflow.foreign_words import foreign_words, meant_beside_with  # imported late: only errors need it

    foreign = foreign_words("parameter").get(name)
    if foreign is not None and foreign.ours in known:
        return Problem(name, f"{what} has no parameter `{name}`", foreign.hint, at_name=True, brief=("unknown", name))
    hint: str | Advice | None = did_you_mean(name, known)
    if hint is None or not str(hint).startswith("did you mean"):
        beside = meant_beside_with(name)
        if hint is None and what.startswith("the action `"):
            hint = f"`whyrun actions {what.split('`')[1]}` lists its parameters"
        hint = hint if beside is None else Advice(beside, str(hint or "remove it from `params`"))
    return Problem(name, f"{what} has no parameter `{name}`", hint, at_name=True, brief=("unknown", name))


def parameter_summary(problems: Iterable[Problem]) -> str:
    """All problems of a block in one line: `missing required: data_path, invalid: alpha=-0.1`."""
    by_kind: dict[str, list[str]] = {"missing required": [], "invalid": [], "unknown": [], "": []}
    for problem in problems:
        kind, subject = problem.brief or ("", str(problem.message))
        by_kind[kind].append(subject)
    return ", ".join(
        f"{kind}: {', '.join(subjects)}" if kind else ", ".join(subjects)
        for kind, subjects in by_kind.items()
        if subjects
    )
