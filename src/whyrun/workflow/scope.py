"""What expressions may refer to: the names of a workflow, the rules of a place, the text with its positions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from whyrun.workflow.model import LeafDecl, Place, Type

_Value = TypeVar("_Value")


class AnyKey(dict[str, _Value]):
    """Declarations that could not be read in full: any name may be among them, so none is unknown."""

    def __init__(self, known: Mapping[str, _Value], other: _Value) -> None:
        super().__init__(known)
        self.other = other

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> _Value:
        return self.other

    def get(self, key: str, default: object = None) -> _Value:  # there is always a value
        return self[key]


class AnyName(frozenset[str]):
    """Names that could not be read in full: any other may be among them."""

    def __contains__(self, name: object) -> bool:
        return True

    def is_read(self, name: str) -> bool:
        return super().__contains__(name)


@dataclass(frozen=True, slots=True)
class OutputShape:
    """What references need to know of an output. `type` is None where its declaration is broken."""

    type: str | None
    leaves: tuple[LeafDecl, ...] | None


@dataclass(frozen=True, slots=True)
class JobShape:
    loops: tuple[str, ...] | None  # None where `for:` is broken
    outputs: Mapping[str, OutputShape] | None


@dataclass(frozen=True, slots=True)
class Names:
    """What a workflow declares. None stands for a broken declaration: it is known, and no second error is told."""

    inputs: Mapping[str, Type | None]
    loops: frozenset[str]
    jobs: Mapping[str, JobShape]
    imports: Mapping[str, Names | None]


UNKNOWN_JOB = JobShape(None, None)


@dataclass(frozen=True, slots=True)
class Scope:
    """What the expressions of one place may use."""

    names: Names
    where: str  # "in `with:`": for messages
    roots: frozenset[str]  # of "inputs jobs loops secrets env workflow"
    binding: bool = False  # a whole reference to a file may stand here
    loops: Collection[str] = ()  # the job's own, in the order of its `for:`
    env: Mapping[str, bool | None] | None = None  # declared name → uses a secret; None where it is broken
    secrets: Collection[str] = ()
    decides: bool = False  # `if:`, where a comparison that has no answer is a decision that nobody made


@dataclass(frozen=True, slots=True)
class Text:
    """The text of an expression and where its characters stand."""

    text: str
    locate: Callable[[int, int], Place]  # offset and width → place

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Offsets of a node, in characters (`ast` counts bytes)."""
        start, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]  # expressions have both
        if self.text.isascii():
            return start, end
        raw = self.text.encode()
        return len(raw[:start].decode()), len(raw[:end].decode())

    def place(self, node: ast.AST) -> Place:
        start, end = self.span(node)
        return self.locate(start, end - start)

    def attribute_place(self, node: ast.Attribute) -> Place:
        _, end = self.span(node)
        return self.locate(end - len(node.attr), len(node.attr))
