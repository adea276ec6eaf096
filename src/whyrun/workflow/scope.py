"""What expressions may refer to: the names of a workflow, the rules for each key, the text with its positions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from whyrun.workflow.arrays import is_array
from whyrun.workflow.model import LeafDecl, Place, Type

_Value = TypeVar("_Value")


class AnyKey(dict[str, _Value]):
    """Declarations that could not be read in full. Every name may be declared, so every lookup succeeds."""

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
    """Names that could not be read in full. Every name may be among them, so every name is in it."""

    def __contains__(self, name: object) -> bool:
        return True

    def is_read(self, name: str) -> bool:
        return super().__contains__(name)


class InputShape(msgspec.Struct, frozen=True):
    """What references need to know about an input."""

    type: Type
    has_keys: bool = False
    loops: tuple[str, ...] = ()  # its own
    is_computed: bool = False  # its path is computed, from loops and other inputs

    @property
    def depth(self) -> int:
        """How many selectors lead to one value."""
        return self.type.depth + len(self.loops)


class OutputShape(msgspec.Struct, frozen=True):
    """What references need to know about an output. `type` is None if its declaration is broken."""

    type: str | None
    leaves: tuple[LeafDecl, ...] | None

    @property
    def is_array(self) -> bool:
        return self.type is not None and is_array(self.type)


class JobShape(msgspec.Struct, frozen=True):
    loops: tuple[str, ...] | None  # None where `for:` is broken
    outputs: Mapping[str, OutputShape] | None


class Names(msgspec.Struct, frozen=True):
    """The names that a workflow declares. None is a broken declaration: references to it are not reported."""

    inputs: Mapping[str, InputShape | None]
    loops: frozenset[str]
    jobs: Mapping[str, JobShape]
    imports: Mapping[str, Names | None]


UNKNOWN_JOB = JobShape(None, None)


def imported_names(names: Names, loops: tuple[str, ...] | None) -> Names:
    """The names of a file as the file that imports it for these loops sees them. None: they could not be read."""
    if loops == ():
        return names

    def shape(job: JobShape) -> JobShape:
        if job is UNKNOWN_JOB:
            return job  # told by its identity
        return JobShape(None if loops is None or job.loops is None else (*loops, *job.loops), job.outputs)

    shapes = {name: shape(job) for name, job in names.jobs.items()}
    jobs = AnyKey(shapes, UNKNOWN_JOB) if isinstance(names.jobs, AnyKey) else shapes
    imports = {name: None if inner is None else imported_names(inner, loops) for name, inner in names.imports.items()}
    return replace(names, jobs=jobs, imports=imports)


def jobs_below(names: Names, prefix: str = "") -> Iterator[str]:
    """The jobs of a file and of its imports: `Clip`, `Intro/Script`."""
    yield from (prefix + job for job in names.jobs)
    for name, inner in names.imports.items():
        if inner is not None:
            yield from jobs_below(inner, f"{prefix}{name}/")


class Scope(msgspec.Struct, frozen=True):
    """What expressions under one key may use."""

    names: Names
    where: str  # "in `with:`": for messages
    roots: frozenset[str]  # of "inputs jobs loops secrets env workflow"
    binding: bool = False  # whether a whole reference to a file is allowed
    loops: Collection[str] = ()  # of the job, in the order of its `for:`
    env: Mapping[str, bool | None] | None = None  # declared name → whether it uses a secret; None if broken
    secrets: Collection[str] = ()
    decides: bool = False  # `if:`, where an impossible comparison is refused
    before_files: bool = False  # evaluated before the inputs with computed paths are known
    takes_arrays: bool = False  # an array that a job makes is taken as a whole: a loop goes over it
    of_import: bool = False  # under a key of an import, not of a job


class Text(msgspec.Struct, frozen=True):
    """The text of an expression with the places of its characters."""

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
