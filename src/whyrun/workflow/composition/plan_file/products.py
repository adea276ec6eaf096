"""What a step makes: `products`, and the files of `produces` that pair with them."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace

from whyrun.errors import did_you_mean
from whyrun.workflow.composition.manifest import ID, ID_HINT
from whyrun.workflow.composition.model import ROLES
from whyrun.workflow.fields import Fields, path_problem
from whyrun.workflow.model import Place
from whyrun.workflow.nodes import Node, Scalar

PRODUCT_KEYS = ("product_id", "kind", "role", "path", "description")
KINDS = ("dataset", "table", "figure", "report")
_TEXTS = frozenset({".txt", ".md", ".html", ".htm", ".tex", ".log"})
_SUFFIX = re.compile(r"(?<=[^/])\.[A-Za-z0-9_+-]{1,16}\Z")
_PRODUCT = 'write `{"product_id": "merged", "kind": "dataset"}`'


@dataclass(frozen=True, slots=True)
class Product:
    id: str
    kind: str | None  # None: a file of `produces` that no product names
    role: str | None
    path: str | None  # where it is published
    file: str | None  # how the file is called, from `path` or `produces`
    place: Place
    path_place: Place
    sure: bool = True  # False: something of it could not be read, so nothing follows from its kind and file

    @property
    def suffix(self) -> str:
        found = _SUFFIX.search(self.file) if self.file is not None else None
        return found[0] if found is not None else ""

    @property
    def may_have_leaves(self) -> bool:
        """Is it JSON, or may it be?"""
        return not self.sure or (self.kind in ("table", "report") and self.suffix in ("", ".json"))

    def type(self, *, has_leaves: bool) -> str:
        """Of the output in the workflow's model."""
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
    """By id, those of `products` first; a file that none of them names is an output of its own. And whether these are
    all: where the id of one could not be read, it may be any."""
    found: dict[str, Product] = {}
    listed = reader.as_list(node, f"`products` of {what}", f"{_PRODUCT} in a list") if node is not None else None
    complete = node is None or listed is not None
    for item in listed.items if listed else ():
        product = _product(reader, item, what)
        if product is None:
            complete = False
            continue
        if product.id in found:
            hint = f"the first is in line {found[product.id].place.line}; give each an id of its own"
            message = f"{what} declares the product `{product.id}` twice"
            reader.problems.add(product.place, "PRODUCT_DUPLICATE", message, hint)
        else:
            found[product.id] = product
    if produces is not None:
        doubts = reader.problems.doubts
        _pair(reader, produces, found, what)
        complete = complete and reader.problems.doubts == doubts
    return found, complete


def _product(reader: Fields, item: Node, what: str) -> Product | None:
    entries = reader.as_map(item, f"a product of {what}", _PRODUCT)
    if entries is None:
        return None
    doubts = reader.problems.doubts
    fields = reader.known_keys(entries, PRODUCT_KEYS, f"a product of {what}")
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
    sure = reader.problems.doubts == doubts and not entries.twice
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
        reader.wrong(node, f"there is no {key} of products `{value}`", did_you_mean(value, known))
        return None
    return value


def _path(reader: Fields, node: Node, what: str) -> str | None:
    path = reader.string(node, what)
    problem = None if path is None else path_problem(path)
    if problem is not None:
        reader.wrong(node, f"{what} is refused: {problem}", "write a path like `out/fit.csv`", "PATH_OUTSIDE")
        return None
    return None if path is None else posixpath.normpath(path)


def _pair(reader: Fields, node: Node, found: dict[str, Product], what: str) -> None:
    hint = 'write the names of the files: `["merged.parquet"]`'
    for text, item in reader.strings(node, f"`produces` of {what}", "the file", hint):
        file = _path(reader, item, f"the file `{text}` of {what}")
        if file is None:
            continue
        name = posixpath.basename(file)
        if any(product.path is not None and posixpath.basename(product.path) == name for product in found.values()):
            continue  # the product that names its own file
        stem = posixpath.splitext(name)[0]
        product = found.get(stem)
        if product is None:
            made = _made_id(stem)
            if made in found:
                _twice(reader, item, found[made], what)
            else:
                found[made] = Product(made, None, None, None, name, item.place, item.place)
        elif product.file is not None:
            _twice(reader, item, product, what)
        else:
            found[stem] = replace(product, file=name)


def _twice(reader: Fields, item: Scalar, product: Product, what: str) -> None:
    message = f"`{item.value}` of {what} pairs with `{product.id}`, which has the file `{product.file}` already"
    reader.problems.add(item.place, "PRODUCT_DUPLICATE", message, "rename the file, or give it a product with a `path`")


def _made_id(stem: str) -> str:
    """A file without a product of its name is an output too, so it needs an id."""
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "_", stem)
    return cleaned if ID.fullmatch(cleaned) else f"_{cleaned}"
