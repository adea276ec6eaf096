"""The products of a step: `products`, and the files of `produces` that belong to them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from whyrun.errors import WhyrunError, did_you_mean
from whyrun.ids import Segment, parse_id
from whyrun.workflow.composition.plan_file.manifest import ID, ID_HINT, ID_PATTERN, INSIDE
from whyrun.workflow.fields import Fields, Key, names_of, path_problem, text_schema
from whyrun.workflow.model import ROLES, At, Expression, First, InputRef, OutputRef, Place, Ref, Selector
from whyrun.workflow.nodes import Node, Scalar

# --- references --------------------------------------------------------------------------------------------------
#
# References in a dataset plan: `input:<dataset_key>`, `prod:<step_id>:<product_id>`, and leaves of products.


REF_HINT = "write `input:<dataset_key>` or `prod:<step_id>:<product_id>`"
_ID = ID_PATTERN.strip("^$")
REF_PATTERN = f"^(input:{_ID}|prod:{_ID}:{_ID})$"
LEAF_PATTERN = rf"^prod:{_ID}:{_ID}(\..+)?$"  # a product, or a leaf of one
FIRST_KEYS = (
    Key(
        name="first",
        meaning="The candidates, in this order.",
        schema={"type": "array", "items": {"$ref": "#/$defs/ref"}, "minItems": 1},
        required=True,
    ),
)


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


# --- products ----------------------------------------------------------------------------------------------------


KINDS = ("dataset", "table", "figure", "report")
EXHIBITS = ("figure", "report")
PRODUCT_KEYS = (
    Key(name="product_id", meaning="Its id, unique within the step.", schema=text_schema(ID_PATTERN), required=True),
    Key(name="kind", meaning="What it is.", schema={"enum": list(KINDS)}, required=True),
    Key(name="role", meaning="What later steps use it for.", schema={"enum": list(ROLES)}),
    Key(
        name="path",
        meaning="Where it is published, relative to the project folder, which it cannot leave.",
        schema=text_schema(INSIDE),
    ),
    Key(name="description", meaning="What is in it.", schema={"type": "string"}),
)
_PRODUCT_NAMES = names_of(PRODUCT_KEYS)
_TEXTS = frozenset({".txt", ".md", ".html", ".htm", ".tex", ".log"})
_SUFFIX = re.compile(r"(?<=[^/])\.[A-Za-z0-9_+-]{1,16}\Z")
_COUNTING = ("missing", "duplicates")  # diagnostics that count rows
_PRODUCT = 'write `{"product_id": "merged", "kind": "dataset"}`'


@dataclass(frozen=True, slots=True)
class Product:
    id: str
    kind: str | None  # None: a file of `produces` without a product
    role: str | None
    path: str | None  # the published path
    file: str | None  # the name of the file, from `path` or `produces`
    place: Place
    path_place: Place
    sure: bool = True  # False: it could not be read in full, so its kind and file are not used

    @property
    def suffix(self) -> str:
        match = _SUFFIX.search(self.file) if self.file is not None else None
        return match[0] if match is not None else ""

    @property
    def may_have_leaves(self) -> bool:
        """Whether it is or may be JSON."""
        return not self.sure or (self.kind in ("table", "report") and self.suffix in ("", ".json"))

    def type(self, *, has_leaves: bool) -> str:
        """The type of the output in the model of the workflow."""
        if not self.sure:
            return "json" if has_leaves else "file"
        if self.kind == "figure":
            return "image"
        if self.kind in ("dataset", "table") and not has_leaves:
            return "dataset"
        if self.kind is not None and self.suffix in ("", ".json"):
            return "json"
        return "text" if self.suffix in _TEXTS else "file"


def read_products(
    reader: Fields, node: Node | None, produces: Node | None, what: str
) -> tuple[dict[str, Product], bool]:
    """The products by id, and whether all ids could be read. A file of `produces` without a product is an output of
    its own."""
    products: dict[str, Product] = {}
    listed = reader.as_list(node, f"`products` of {what}", f"{_PRODUCT} in a list") if node is not None else None
    complete = node is None or listed is not None
    for item in listed.items if listed else ():
        product = _product(reader, item, what)
        if product is None:
            complete = False
            continue
        if product.id in products:
            hint = f"the first is in line {products[product.id].place.line}; give each an id of its own"
            message = f"{what} declares the product `{product.id}` twice"
            reader.problems.add(product.place, "PRODUCT_DUPLICATE", message, hint)
        else:
            products[product.id] = product
    if produces is not None:
        failures = reader.problems.failures
        _pair(reader, produces, products, what)
        complete = complete and reader.problems.failures == failures
    return products, complete


def _product(reader: Fields, item: Node, what: str) -> Product | None:
    entries = reader.as_map(item, f"a product of {what}", _PRODUCT)
    if entries is None:
        return None
    failures = reader.problems.failures
    fields = reader.known_keys(entries, _PRODUCT_NAMES, f"a product of {what}")
    name = _required(reader, fields.get("product_id"), item, "product_id", what)
    if name is not None and not ID.fullmatch(name):
        message = f"`{name}` cannot be the id of a product"
        reader.problems.add(fields["product_id"].place, "NAME_INVALID", message, ID_HINT)
        name = None
    kind = _one_of(reader, fields.get("kind"), item, "kind", KINDS, what)
    role = _one_of(reader, fields["role"], item, "role", ROLES, what) if "role" in fields else None
    path, path_place = None, item.place
    if "path" in fields:
        path_place = fields["path"].place
        path = _path(reader, fields["path"], f"the path of a product of {what}")
    if name is None:
        return None
    sure = reader.problems.failures == failures and not entries.duplicates
    return Product(name, kind, role, path, path, fields["product_id"].place, path_place, sure)


def _required(reader: Fields, node: Node | None, item: Node, key: str, what: str) -> str | None:
    if node is None:
        reader.problems.add(item.place, "MISSING_KEY", f"a product of {what} has no `{key}`", _PRODUCT)
        return None
    return reader.string(node, f"`{key}` of a product of {what}")


def _one_of(reader: Fields, node: Node | None, item: Node, key: str, known: tuple[str, ...], what: str) -> str | None:
    value = _required(reader, node, item, key, what)
    if value is not None and value not in known:
        assert node is not None
        reader.wrong(node, f"products have no {key} `{value}`", did_you_mean(value, known))
        return None
    return value


def _path(reader: Fields, node: Node, what: str) -> str | None:
    path = reader.string(node, what)
    problem = None if path is None else path_problem(path)
    if problem is not None:
        reader.wrong(node, f"{what} is refused: {problem}", "write a path like `out/fit.csv`", "PATH_OUTSIDE")
        return None
    return None if path is None else posixpath.normpath(path)


def _pair(reader: Fields, node: Node, products: dict[str, Product], what: str) -> None:
    hint = 'write the names of the files: `["merged.parquet"]`'
    for text, item in reader.strings(node, f"`produces` of {what}", "the file", hint):
        file = _path(reader, item, f"the file `{text}` of {what}")
        if file is None:
            continue
        name = posixpath.basename(file)
        if any(product.path is not None and posixpath.basename(product.path) == name for product in products.values()):
            continue  # a product has this file as its `path`
        stem = posixpath.splitext(name)[0]
        product = products.get(stem)
        if product is None:
            file_id = _file_id(stem)
            if file_id in products:
                _report_second_file(reader, item, products[file_id], what)
            else:
                products[file_id] = Product(file_id, None, None, None, name, item.place, item.place)
        elif product.file is not None:
            _report_second_file(reader, item, product, what)
        else:
            products[stem] = replace(product, file=name)


def _report_second_file(reader: Fields, item: Scalar, product: Product, what: str) -> None:
    message = f"`{item.value}` of {what} belongs to `{product.id}`, which already has the file `{product.file}`"
    reader.problems.add(item.place, "PRODUCT_DUPLICATE", message, "rename the file, or give it a product with a `path`")


def _file_id(stem: str) -> str:
    """The id of a file without a product."""
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "_", stem)
    return cleaned if ID.fullmatch(cleaned) else f"_{cleaned}"


# --- diagnostics of `data/check` ---------------------------------------------------------------------------------


def diagnostic_types(parameters: Mapping[str, Any]) -> Mapping[str, str | None] | None:
    """The types of the diagnostics of `data/check` by name: `integer`, `number`, or None for a query. The whole is None
    if the names are not known before the run."""
    diagnostics = parameters.get("diagnostics")
    return (
        {name: _diagnostic_type(asked) for name, asked in diagnostics.items()}
        if isinstance(diagnostics, dict)
        else None
    )


def _diagnostic_type(asked: Any) -> str | None:
    if asked in ("rows", "columns"):
        return "integer"
    if isinstance(asked, dict) and "missing_share" in asked:
        return "number"
    return "integer" if isinstance(asked, dict) and any(count in asked for count in _COUNTING) else None
