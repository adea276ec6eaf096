"""The model of a workflow file: its declarations with their places; nothing is resolved yet.

`parsing` and `composition.plan_file` make it, `graph.expand` consumes it. Records are frozen: a change makes a new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

import msgspec

from whyrun.errors import Diagnostic
from whyrun.ids import own_name

FILE_TYPES = frozenset({"file", "image", "text", "dataset"})
VALUE_TYPES = frozenset({"string", "integer", "number", "boolean"})
BASE_TYPES = (*sorted(VALUE_TYPES), "json", "file", "directory", "image", "text", "dataset")

PRIMARY, SECONDARY, AUXILIARY = "primary_dataset", "secondary_dataset", "auxiliary_data"
ROLES = (PRIMARY, SECONDARY, AUXILIARY)
MODES = ("sequential", "merge_then_sequential", "parallel_then_aggregate", "conditional")
SEQUENTIAL, MERGE, PARALLEL, CONDITIONAL = MODES
MERGING_ACTIONS = {"data/merge": "merge", "data/append": "append"}  # action → its operation
AGGREGATING_ACTION, CHECKING_ACTION = "data/aggregate", "data/check"

ReuseScope = Literal["instance", "job", "anywhere"]  # whose results an instance may take


class Opens(IntEnum):
    """Where an action may receive the content of a `text` file instead of its path. Its code decides; but a script
    always receives the path, and so does a function within lists and mappings."""

    NOWHERE = 0
    ALONE = 1  # not in lists and mappings
    ANYWHERE = 2

    @property
    def inside(self) -> Opens:
        """The same within a list or mapping."""
        return self if self is Opens.ANYWHERE else Opens.NOWHERE


class Place(msgspec.Struct, frozen=True):
    """A place in a source file. `source` is its path as shown to the user; line and column count from 1."""

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
        """Given as a path, and compared by the content of the file or folder."""
        return self.base in FILE_TYPES or self.base == "directory"


# --- references inside expressions -------------------------------------------------------------------------------


class At(msgspec.Struct, frozen=True):
    """`[3]`, `["asia"]`: a fixed index."""

    index: int | float | str

    def __str__(self) -> str:
        return json.dumps(self.index, ensure_ascii=False)


class Loop(msgspec.Struct, frozen=True):
    """`[character]`, `[segment-1]`: the index of the current instance, or one that many places from it."""

    loop: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{own_name(self.loop)}{self.offset:+d}" if self.offset else own_name(self.loop)


class All(msgspec.Struct, frozen=True):
    """`[:]`: every index, in loop order."""

    def __str__(self) -> str:
        return ":"


Selector = At | Loop | All


class InputRef(msgspec.Struct, frozen=True):
    """`inputs.Grid[row][0]`, `inputs.Sheet[sample].mask`

    `selectors` are those of the array, or of the input's own loops; `fields` lead into a JSON value, each an `At` or a
    `Loop` without offset.
    """

    name: str
    selectors: tuple[Selector, ...]
    place: Place
    fields: tuple[Selector, ...] = ()

    def __str__(self) -> str:
        fields = "".join(
            f".{f.index}" if isinstance(f, At) and isinstance(f.index, str) and f.index.isidentifier() else f"[{f}]"
            for f in self.fields
        )
        return f"inputs.{own_name(self.name)}" + "".join(f"[{selector}]" for selector in self.selectors) + fields


class OutputRef(msgspec.Struct, frozen=True):
    """`jobs.Intro.Script.outputs.Story[2].Segments[segment].HasTransition`

    `job` is the name with its imports (see `ids.absolute`). `selectors` are those right after the output's name (the
    job's own loops); `leaf` is the rest, each part a name with its selectors.
    """

    job: str
    output: str
    selectors: tuple[Selector, ...]
    leaf: tuple[tuple[str, tuple[Selector, ...]], ...]
    place: Place

    def __str__(self) -> str:
        instance = f"[{', '.join(map(str, self.selectors))}]" if self.selectors else ""
        leaf = "".join(f".{name}" + "".join(f"[{selector}]" for selector in more) for name, more in self.leaf)
        return f"jobs.{self.job.strip('/').replace('/', '.')}.outputs.{self.output}{instance}{leaf}"


Ref = InputRef | OutputRef


class First(msgspec.Struct, frozen=True):
    """`first(a, b, …)` as a whole value or inside an expression: the first candidate that is not absent."""

    candidates: tuple[Ref, ...]
    place: Place


class FanIn(msgspec.Struct, frozen=True):
    """`named(…)` and `where(…, predicate)`: a fan-in as a mapping from index to member, or of some of its members."""

    ref: Ref
    named: bool
    predicate: Expression | None  # over the members' own loops, and inputs
    loops: tuple[str, ...]  # those of the members, in the order of the selectors
    place: Place


Value = Ref | First | FanIn


@dataclass(frozen=True, slots=True)
class Expression:
    """One `${{ … }}`: the checked text, its references, and the compiled body.

    `expression.evaluate` calls `body`; the i-th value that it gets belongs to `refs[i]`.
    `whole` is set if the expression is only one reference or one `first(…)`: then it can be a binding.
    """

    text: str
    place: Place
    body: Any = field(compare=False, repr=False)  # a closure: (values, names) → value
    refs: tuple[Value, ...]  # in order of appearance
    optional: frozenset[int]  # indices of `refs` inside `exists(…)`: their absence does not make a job inactive
    loops: frozenset[str]  # loop variables used as values (not as selectors)
    secrets: frozenset[str]
    env: frozenset[str]
    whole: Value | None


def refs_in(values: Iterable[Value]) -> Iterator[Ref]:
    """Every single reference: candidates of `first`, and what a predicate of `where` reads."""
    for value in values:
        if isinstance(value, First):
            yield from value.candidates
        elif isinstance(value, FanIn):
            yield value.ref
            yield from refs_in(value.predicate.refs if value.predicate is not None else ())
        else:
            yield value


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
    default: Any  # the literal as written, or NO_DEFAULT
    description: str
    place: Place
    key: str | None = None  # what names the elements of an array: see `workflow.keys`
    loops: tuple[str, ...] = ()  # `for:`: one file for each combination of their values
    path: Template | None = None  # over loops and inputs: the file is not given, but computed


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT = _NoDefault()


MAX_OF_RESULT = 1000  # values of a loop over a result, where its `max:` does not say otherwise


class LoopDecl(msgspec.Struct, frozen=True):
    """`each`: InputRef · `count`: int, InputRef or Expression · `values`: tuple or InputRef · `range`: (first, last)
    inclusive, each an int or an Expression, or a Formatted `0-${{ inputs.Last }}`. `count` and `values` also take an
    OutputRef: then it is a loop over a result.

    `after`: the loops that the source uses. For each of their indices the loop has values of its own.
    """

    name: str
    kind: Literal["each", "count", "values", "range"]
    source: Any
    place: Place
    after: tuple[str, ...] = ()
    max: int = MAX_OF_RESULT

    @property
    def is_over_result(self) -> bool:
        """Whether its values are known only once a job has made them."""
        return isinstance(self.source, OutputRef)


class LeafDecl(msgspec.Struct, frozen=True):
    """A declared leaf of a JSON output: `"Segments[segment].HasTransition": boolean`."""

    path: tuple[tuple[str, tuple[Selector, ...]], ...]  # selectors are At or Loop with offset 0
    text: str
    type: str  # string integer number boolean json
    place: Place


class CompareDecl(msgspec.Struct, frozen=True):
    """Settings of `whyrun compare`. They do not count for whether a job is up to date."""

    keys: tuple[str, ...] = ()  # columns that identify a row of a table
    tolerance: float = 0.0  # numbers that differ by no more than this are equal


class OutputDecl(msgspec.Struct, frozen=True):
    name: str
    type: str
    path: Template | None  # str or Formatted/Expression over loops and inputs
    leaves: tuple[LeafDecl, ...]
    place: Place
    append: bool = False  # a section of a JSON file that several outputs share
    key: Template | None = None  # the key of the section; None: the job ID without its kind
    compare: CompareDecl | None = None
    suffix: str = ""  # of a file that is not published and has no `path` (`produces` of a dataset plan)


class Retries(msgspec.Struct, frozen=True):
    max: int = 0
    backoff: float = 0.0  # seconds before the second attempt; doubled each time


class SandboxDecl(msgspec.Struct, frozen=True):
    """Whether a job must run in a sandbox, and its settings for any sandbox that it gets."""

    required: bool = False
    network: bool = False
    memory: int | None = None  # bytes
    processes: int | None = None
    disk: int | None = None  # bytes


class EnvironmentDecl(msgspec.Struct, frozen=True):
    """The packages that the steps of a job run with."""

    python: str  # the file that locks them, relative to the project


class ContainerDecl(msgspec.Struct, frozen=True):
    """The image in which the script of a `shell` job runs."""

    image: str  # `name@sha256:…`, `name:tag`, or an image file
    engine: str | None = None
    network: bool = False


class JobDecl(msgspec.Struct, frozen=True, kw_only=True):
    """A job. Each key of a job has its field, and one row in `parsing.job_keys`; an absent key leaves the default."""

    name: str
    place: Place
    uses: str = ""  # empty as long as the value of `uses_by` is not known
    uses_by: Expression | None = None  # over inputs
    with_: Mapping[str, Template] = msgspec.field(default_factory=dict)
    loops: tuple[str, ...] = ()
    exclude: tuple[Mapping[str, Any], ...] = ()  # combinations to drop: loop → value, for some or all loops
    include: tuple[Mapping[str, Any], ...] = ()  # combinations to add: loop → value, for all loops
    outputs: Mapping[str, OutputDecl] = msgspec.field(default_factory=dict)
    condition: Expression | None = None
    needs: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    env: Mapping[str, Template] = msgspec.field(default_factory=dict)
    code: tuple[str, ...] = ()
    timeout: float | None = None
    retries: Retries = msgspec.field(default_factory=Retries)
    resources: Mapping[str, float] = msgspec.field(default_factory=dict)
    sandbox: SandboxDecl = SandboxDecl()
    environment: EnvironmentDecl | None = None
    container: ContainerDecl | None = None
    workdir: str = "scratch"
    isolation: str = "process"
    deterministic: bool | None = None
    reuse: ReuseScope | None = None
    description: str = ""
    tags: tuple[str, ...] = ()
    # "uses", "with.caption" (its value), "with.caption#key", "outputs.X.path", "env.X", "code[0]", "for[0]"…
    places: Mapping[str, Place] = msgspec.field(default_factory=dict)
    # The keys and entries that could not be read: "with" (an entry is not known), "with.caption", "for", "outputs.X"….
    # Only in a workflow with problems. Later checks say nothing about these.
    broken: frozenset[str] = frozenset()
    in_plan: bool = False  # a step of a dataset plan: problems are in the words of plans

    @property
    def merges_itself(self) -> bool:
        """Whether a step of a dataset plan merges with a user's own action."""
        return "merge" in self.places and self.uses not in MERGING_ACTIONS and self.with_.get("operation") == "merge"

    @property
    def merged_bindings(self) -> tuple[str, ...]:
        """What a user's own action merges with a declared cardinality, which the worker checks. Primary side first."""
        if not self.merges_itself or self.with_.get("cardinality") is None:
            return ()
        bound = [name for name, template in self.with_.items() if name != AUXILIARY and _is_bound(template)]
        return tuple(sorted(bound, key=lambda name: name != PRIMARY))


def _is_bound(template: Template) -> bool:
    return isinstance(template, Expression) or (isinstance(template, list) and any(map(_is_bound, template)))


class ImportDecl(msgspec.Struct, frozen=True):
    name: str
    workflow: Workflow  # `linking` passes on to it what its inputs get from jobs, and the keys below
    with_: Mapping[str, Template]
    place: Place
    places: Mapping[str, Place] = msgspec.field(default_factory=dict)
    broken: frozenset[str] = frozenset()  # "with" and "with.Topic", as in a job
    loops: tuple[str, ...] = ()
    condition: Expression | None = None
    needs: tuple[str, ...] = ()
    feeds: Mapping[str, OutputRef] = msgspec.field(default_factory=dict)  # its inputs that are results, from the root


# --- composition of datasets: `composition:` of a workflow file, or a dataset plan ------------------------------------


class Dataset(msgspec.Struct, frozen=True):
    """One data file that the user provides: `Input:<key>`. The role is only a label."""

    key: str
    role: str | None  # optional in a workflow file
    filename: str | None  # for people only
    rel_path: str | None  # as in the manifest; None in a workflow file, whose input has the path
    path: str | None  # the same, relative to the project folder
    fingerprint: str | None  # 64 hex digits
    place: Place
    fingerprint_place: Place


class ConditionStep(msgspec.Struct, frozen=True):
    """A condition of a dataset plan. It is not a job: it becomes `if` of the steps in its branches."""

    step_id: str
    predicate: Expression
    recorded: Mapping[str, Any]  # the predicate as in the manifest of a run: see `predicates.recorded`
    true_steps: tuple[str, ...]
    false_steps: tuple[str, ...]
    place: Place


class Composition(msgspec.Struct, frozen=True):
    mode: str
    datasets: tuple[Dataset, ...]  # in the order of the manifest, or of the file's inputs
    conditions: tuple[ConditionStep, ...] = ()  # of a dataset plan, in the order of the plan
    plan_id: str | None = None
    rel_path: str | None = None  # of the plan, as given
    manifest: str | None = None  # the key of the inputs manifest in `Workflow.sources`; None in a workflow file
    place: Place | None = None  # of `mode:` in a workflow file

    def dataset(self, key: str) -> Dataset | None:
        return next((dataset for dataset in self.datasets if dataset.key == key), None)


# --- the whole ---------------------------------------------------------------------------------------------------


class Workflow(msgspec.Struct, frozen=True):
    name: str
    description: str
    inputs: Mapping[str, InputDecl]
    loops: Mapping[str, LoopDecl]
    jobs: Mapping[str, JobDecl]
    imports: Mapping[str, ImportDecl]
    source: str  # the key of its file in `sources`
    sources: Mapping[str, str]  # every file that was read: path as shown to the user → text (root only)
    broken: frozenset[str] = frozenset()  # "inputs" (there may be more), "inputs.Topic" (its value is not known)
    composition: Composition | None = None  # how its datasets are composed
    budget: str | None = None  # what a run may spend: `5`, `5 EUR`
