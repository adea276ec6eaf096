"""What does not fit between a `with:` block and its action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whyrun.actions.source import Signature
from whyrun.errors import Diagnostic, did_you_mean


class _NotLiteral:
    def __repr__(self) -> str:
        return "NOT_LITERAL"


NOT_LITERAL = _NotLiteral()  # stands for an entry of `with:` that is bound or computed

HANDED_IN = frozenset({"context", "logger"})  # parameters that the worker gives, not the workflow


@dataclass(frozen=True, slots=True)
class Problem:
    """`entry` is the key below `with:` (or `outputs.NAME`) that it is about; None for the block as a whole.

    `at_name`: the name of the entry is wrong, not its value.
    """

    entry: str | None
    message: str
    hint: str | None = None
    code: str = "INVALID_PARAMETER"
    at_name: bool = False

    def diagnostic(self) -> Diagnostic:
        return Diagnostic(self.code, self.message, hint=self.hint)


def check_signature(signature: Signature, with_: Mapping[str, Any], what: str) -> list[Problem]:
    """Missing required parameters and unknown ones."""
    known = [name for name in (*signature.required, *signature.optional) if name not in HANDED_IN]
    problems = [
        Problem(None, f"{what} needs the parameter `{name}`", f"add `{name}:` to `with:`")
        for name in signature.required
        if name not in with_ and name not in HANDED_IN
    ]
    for name in with_:
        if name in HANDED_IN and name in (*signature.required, *signature.optional):
            message = f"`{name}` is given to {what} by the worker"
            problems.append(Problem(name, message, "remove it from `with:`", at_name=True))
        elif name not in known and not signature.open_ended:
            message = f"{what} has no parameter `{name}`"
            problems.append(Problem(name, message, did_you_mean(name, known), at_name=True))
    return problems
