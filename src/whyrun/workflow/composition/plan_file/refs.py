"""References in a dataset plan: `input:<dataset_key>`, `prod:<step_id>:<product_id>`, and leaves of products."""

from __future__ import annotations

from dataclasses import dataclass

from whyrun.errors import WhyrunError
from whyrun.ids import Segment, parse_id
from whyrun.workflow.composition.plan_file.manifest import ID
from whyrun.workflow.model import At, Expression, First, InputRef, OutputRef, Place, Ref, Selector
from whyrun.workflow.nodes import Scalar

REF_HINT = "write `input:<dataset_key>` or `prod:<step_id>:<product_id>`"


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """A dataset, or a product of a step (`step` is set), or a leaf of one."""

    name: str  # the dataset's key, or the product's id
    step: str | None
    leaf: tuple[Segment, ...]
    place: Place

    @property
    def text(self) -> str:
        """As in an expression, for people: the parser would read a hyphen in a name as a subtraction."""
        if self.step is None:
            return f"inputs.{self.name}"
        return f"jobs.{self.step}.outputs.{self.name}{self.leaf_text}"

    @property
    def written(self) -> str:
        """As written in the plan."""
        return f"input:{self.name}" if self.step is None else f"prod:{self.step}:{self.name}{self.leaf_text}"

    @property
    def canonical(self) -> str:
        return f"Input:{self.name}" if self.step is None else f"Artifact:{self.step}.{self.name}{self.leaf_text}"

    @property
    def leaf_text(self) -> str:
        return "".join(f".{segment}" for segment in self.leaf)

    @property
    def leaf_path(self) -> tuple[tuple[str, tuple[Selector, ...]], ...]:
        return tuple((s.name, tuple(At(index) for index in s.indices)) for s in self.leaf)

    def model(self) -> Ref:
        if self.step is None:
            return InputRef(self.name, (), self.place)
        return OutputRef(self.step, self.name, (), self.leaf_path, self.place)


@dataclass(frozen=True, slots=True)
class FirstRef:
    """`{"first": […]}`: a join takes the first product that exists."""

    candidates: tuple[DatasetRef, ...]
    place: Place


Bound = DatasetRef | FirstRef


def refs_of(bound: Bound) -> tuple[DatasetRef, ...]:
    return bound.candidates if isinstance(bound, FirstRef) else (bound,)


def looks_like_ref(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("input:", "prod:"))


def parse_ref(node: Scalar) -> DatasetRef | None:
    """The reference in a node; None if it is not a valid reference."""
    kind, _, rest = node.value.partition(":")
    if kind == "input":
        return DatasetRef(rest, None, (), node.place) if ID.fullmatch(rest) else None
    step, colon, product = rest.partition(":")
    if kind != "prod" or not colon or not ID.fullmatch(step):
        return None
    name, dot, leaf = product.partition(".")
    if not ID.fullmatch(name):
        return None
    if not dot:
        return DatasetRef(name, step, (), node.place)
    try:
        parsed = parse_id(f"Artifact:x.{leaf}")
    except WhyrunError:
        return None
    if parsed.imports:
        return None
    return DatasetRef(name, step, parsed.segments[1:], node.place)


def binding_expression(bound: Bound) -> Expression:
    """The same expression as one whole `${{ reference }}`."""
    whole: Ref | First
    if isinstance(bound, FirstRef):
        whole = First(tuple(candidate.model() for candidate in bound.candidates), bound.place)
        text = f"first({', '.join(candidate.text for candidate in bound.candidates)})"
    else:
        whole, text = bound.model(), bound.text
    return Expression(
        text=text,
        place=bound.place,
        body=lambda values, names: values[0],
        refs=(whole,),
        optional=frozenset(),
        loops=frozenset(),
        secrets=frozenset(),
        env=frozenset(),
        whole=whole,
    )
