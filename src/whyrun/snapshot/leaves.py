"""The leaves of `data/check` against the diagnostics that it computes: one that it never makes is told before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whyrun.errors import Diagnostic, did_you_mean
from whyrun.graph.graph import Graph
from whyrun.graph.template import expressions_in
from whyrun.workflow.composition.diagnostics import CHECKING_ACTION, diagnostic_types
from whyrun.workflow.model import JobDecl, LeafDecl

_FITS = {"integer": ("integer", "number", "json"), "number": ("number", "json")}


def leaf_problems(graph: Graph) -> list[Diagnostic]:
    """Declared leaves that no diagnostic stands for, or of another type. A plan declares what its predicates read."""
    composition = graph.workflow.composition
    code = "PRODUCT_UNKNOWN" if composition is not None and composition.manifest is not None else "UNKNOWN_REFERENCE"
    decls = {id(table.decl): table.decl for table in graph.tables if table.decl.uses == CHECKING_ACTION}
    return list(dict.fromkeys(problem for decl in decls.values() for problem in _problems(decl, code)))


def _problems(decl: JobDecl, code: str) -> Iterator[Diagnostic]:
    written: Any = decl.with_.get("diagnostics")
    types = None if any(True for _ in expressions_in(written)) else diagnostic_types(decl.with_)
    if types is None:
        return  # told elsewhere, or known when the step starts
    for output in decl.outputs.values():
        for leaf in output.leaves:
            yield from _of_leaf(decl, leaf, types, code)


def _of_leaf(decl: JobDecl, leaf: LeafDecl, types: Any, code: str) -> Iterator[Diagnostic]:
    (name, selectors), *inner = leaf.path
    if name not in types:
        message = f"`{decl.name}` computes no diagnostic `{name}`"
        yield leaf.place.diagnostic(code, message, did_you_mean(name, list(types)) or "add it to its `diagnostics`")
    elif selectors or inner:
        message = f"the diagnostic `{name}` of `{decl.name}` is one value, and has no part `{leaf.text}`"
        yield leaf.place.diagnostic(code, message, f"read `{name}`")
    elif types[name] is not None and leaf.type not in _FITS[types[name]]:
        message = f"the diagnostic `{name}` of `{decl.name}` is of type `{types[name]}`, not `{leaf.type}`"
        yield leaf.place.diagnostic("WRONG_TYPE", message, f"write `{name}: {types[name]}`")
