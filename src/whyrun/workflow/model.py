"""The model of a workflow file: what it says, with the place of every word, and nothing resolved yet.

Made by `parse`, consumed by `graph.expand`. Frozen: a change is a new record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from whyrun.errors import Diagnostic

if TYPE_CHECKING:
    from whyrun.workflow.composition.model import Composition

FILE_TYPES = frozenset({"file", "image", "text", "dataset"})
VALUE_TYPES = frozenset({"string", "integer", "number", "boolean"})
BASE_TYPES = (*sorted(VALUE_TYPES), "json", "file", "directory", "image", "text", "dataset")


class Place(msgspec.Struct, frozen=True):
    """Where something stands in a source file, `source` as shown to the user; line and column are from 1."""

    source: str
    line: int
    column: int
    width: int = 1
    source_line: str = ""

    def diagnostic(self, code: str, message: str, hint: str | None = None) -> Diagnostic:
        return Diagnostic(
            code,
            message,
            file=self.source,
            line=self.line,
            column=self.column,
            width=self.width,
            source_line=self.source_line,
            hint=hint,
        )


class Type(msgspec.Struct, frozen=True):
    """`image[]` is `Type("image", 1)`; depth counts the brackets."""

    base: str
    depth: int = 0

    def __str__(self) -> str:
        return self.base + "[]" * self.depth

    @property
    def element(self) -> Type:
        return Type(self.base, self.depth - 1)

    @property
    def is_path(self) -> bool:
        """Counted by the content of a file or folder, given as a path."""
        return self.base in FILE_TYPES or self.base == "directory"


# --- references inside expressions -------------------------------------------------------------------------------


class At(msgspec.Struct, frozen=True):
    """`[3]`, `["asia"]`: a fixed index."""

    index: int | float | str


class Loop(msgspec.Struct, frozen=True):
    """`[character]`, `[segment-1]`: this instance's own index of a loop, or a neighbour in loop order."""

    loop: str
    offset: int = 0


class All(msgspec.Struct, frozen=True):
    """`[:]`: every index, in loop order."""


Selector = At | Loop | All


class InputRef(msgspec.Struct, frozen=True):
    """`inputs.Grid[row][0]`"""

    name: str
    selectors: tuple[Selector, ...]
    place: Place


class OutputRef(msgspec.Struct, frozen=True):
    """`jobs.Intro.Script.outputs.Story[2].Segments[segment].HasTransition`

    `job` is the name with its imports ("Intro/Script"). `selectors` are those right after the output's name (the
    job's own loops); `leaf` is the rest, each part a name with its selectors.
    """

    job: str
    output: str
    selectors: tuple[Selector, ...]
    leaf: tuple[tuple[str, tuple[Selector, ...]], ...]
    place: Place


Ref = InputRef | OutputRef


class First(msgspec.Struct, frozen=True):
    """`first(a, b, …)` as a whole value or inside an expression: the first candidate that is not absent."""

    candidates: tuple[Ref, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Expression:
    """One `${{ … }}`: the checked text, what it refers to, and how to compute it.

    `body` is the compiled expression for `expression.evaluate`; the i-th value that it gets belongs to `refs[i]`.
    `whole` is set where the expression is nothing but one reference or one `first(…)`: then it can be a binding.
    """

    text: str
    place: Place
    body: Any = field(compare=False, repr=False)  # a closure: (values, names) → value
    refs: tuple[Ref | First, ...]  # in order of appearance
    optional: frozenset[int]  # indices into `refs` that stand inside `exists(…)`: absence does not make inactive
    loops: frozenset[str]  # loop variables used as values (not as selectors)
    secrets: frozenset[str]
    env: frozenset[str]
    whole: Ref | First | None


class Formatted(msgspec.Struct, frozen=True):
    """A longer string with expressions in it: `"a portrait, ${{ inputs.Topic }}"`. Parts are str or Expression."""

    parts: tuple[str | Expression, ...]
    place: Place


# A template is a JSON-like value in which strings may be an Expression or Formatted: None, bool, int, float, str,
# list[Template], dict[str, Template], Expression, Formatted.
Template = Any


# --- declarations ------------------------------------------------------------------------------------------------


class InputDecl(msgspec.Struct, frozen=True):
    name: str
    type: Type
    required: bool
    default: Any  # the literal as written; NO_DEFAULT where there is none
    description: str
    place: Place


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT = _NoDefault()


class LoopDecl(msgspec.Struct, frozen=True):
    """`each`: InputRef · `count`: int or InputRef · `values`: tuple or InputRef · `range`: (first, last) inclusive."""

    name: str
    kind: Literal["each", "count", "values", "range"]
    source: Any
    place: Place


class LeafDecl(msgspec.Struct, frozen=True):
    """A declared leaf of a JSON output: `"Segments[segment].HasTransition": boolean`."""

    path: tuple[tuple[str, tuple[Selector, ...]], ...]  # selectors are At or Loop with offset 0
    text: str
    type: str  # string integer number boolean json
    place: Place


class CompareDecl(msgspec.Struct, frozen=True):
    """What `whyrun compare` is to mind; nothing of it counts for whether a job is up to date."""

    keys: tuple[str, ...] = ()  # columns that name a row of a table
    tolerance: float = 0.0  # numbers that are as near as this are the same


@dataclass(frozen=True, slots=True)
class OutputDecl:
    name: str
    type: str
    path: Template | None  # str or Formatted/Expression over loops and inputs
    leaves: tuple[LeafDecl, ...]
    place: Place
    append: bool = False  # a section of a JSON file that several outputs share
    key: Template | None = None  # of the section; None: the job ID without its kind
    compare: CompareDecl | None = None
    suffix: str = ""  # of the file, where it is not published and no `path` says it (a dataset plan's `produces`)


class Retries(msgspec.Struct, frozen=True):
    max: int = 0
    backoff: float = 0.0  # seconds before the second attempt; doubled each time


@dataclass(frozen=True, slots=True)
class SandboxDecl:
    """What a job says of the sandbox: that it must have one, and what it wants of any sandbox that it gets."""

    required: bool = False
    network: bool = False
    memory: int | None = None  # bytes
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class JobDecl:
    name: str
    uses: str
    with_: Mapping[str, Template]
    outputs: Mapping[str, OutputDecl]
    loops: tuple[str, ...]
    exclude: tuple[Mapping[str, Any], ...]  # combinations to drop: loop → value, a part of the loops is enough
    include: tuple[Mapping[str, Any], ...]  # combinations to add: every loop → value
    condition: Expression | None
    needs: tuple[str, ...]
    env: Mapping[str, Template]
    secrets: tuple[str, ...]
    code: tuple[str, ...]
    timeout: float | None
    retries: Retries
    resources: Mapping[str, float]
    deterministic: bool | None
    description: str
    place: Place
    # "uses", "with.caption" (its value), "with.caption#key", "outputs.X.path", "env.X", "code[0]", "for[0]"…
    places: Mapping[str, Place] = field(default_factory=dict)
    # What could not be read as it was meant: "with" (something is not in it), "with.caption", "for", "outputs.X"….
    # Only in a workflow with problems, where nothing more is to be said about these.
    broken: frozenset[str] = frozenset()
    sandbox: SandboxDecl = SandboxDecl()


@dataclass(frozen=True, slots=True)
class ImportDecl:
    name: str
    workflow: Workflow
    with_: Mapping[str, Template]  # over the importing workflow's inputs and literals only
    place: Place
    places: Mapping[str, Place] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()  # "with" and "with.Topic", as in a job


@dataclass(frozen=True, slots=True)
class Workflow:
    name: str
    description: str
    inputs: Mapping[str, InputDecl]
    loops: Mapping[str, LoopDecl]
    jobs: Mapping[str, JobDecl]
    imports: Mapping[str, ImportDecl]
    source: str  # the key of its file in `sources`
    sources: Mapping[str, str]  # every file that was read for it: path as shown to the user → text (root only)
    broken: frozenset[str] = frozenset()  # "inputs" (there may be others), "inputs.Topic" (its value is not known)
    composition: Composition | None = None  # how datasets are composed, where they are
