"""What an import hands in: the values of the inputs of its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyrun.errors import Diagnostic
from whyrun.graph.inputs import part
from whyrun.graph.template import compute, expressions_in
from whyrun.ids import Index
from whyrun.workflow.expressions.expression import ABSENT, ExpressionError
from whyrun.workflow.inputs import IndexProblem, InputValue, element
from whyrun.workflow.model import (
    FILE_TYPES,
    NO_DEFAULT,
    All,
    Expression,
    First,
    ImportDecl,
    InputDecl,
    InputRef,
    Loop,
    Place,
    Selector,
    Template,
    Type,
    Value,
    refs_in,
)
from whyrun.workflow.values import value_problem


class HandedIn:
    def __init__(self, prefix: str, found: Mapping[str, InputValue], diagnostics: list[Diagnostic]) -> None:
        """`prefix`: of the importing file, with indices; `found`: the inputs that are known."""
        self.prefix, self.found, self.diagnostics = prefix, found, diagnostics

    def values(self, imported: ImportDecl, importing: str, row: Mapping[str, Index]) -> dict[str, Any]:
        """By input of the imported file. `importing`: the name of the workflow; `row`: the indices of its loops."""
        handed: dict[str, Any] = {}
        names = {"workflow": {"name": importing}, **row}
        with_, places, child = imported.with_, imported.places, imported.workflow
        for name, decl in child.inputs.items():
            if f"with.{name}" in imported.broken or decl.path is not None:
                continue  # its value could not be parsed, or it is computed inside
            if name in with_:
                if not _all_there(with_[name], self.prefix, self.found):
                    continue  # an input that it uses is missing, which is reported
                place = places.get(f"with.{name}", decl.place)
                before = len(self.diagnostics)
                value = self._template(with_[name], place, names)
                problem = self._misfit(decl, value)
                if len(self.diagnostics) > before:
                    continue
                if problem is not None:
                    self.diagnostics.append(place.diagnostic("INPUT_TYPE", f"`{name}`: {problem}"))
                else:
                    handed[name] = value
            elif "with" in imported.broken or f"inputs.{name}" in child.broken:
                continue
            elif decl.default is not NO_DEFAULT:
                handed[name] = decl.default
            elif not decl.required:
                handed[name] = None
            # else: `parse` has reported that the import does not give it
        return handed

    def _misfit(self, decl: InputDecl, value: Any) -> str | None:
        given = value.value if isinstance(value, InputValue) else value
        if given is None and not decl.required and decl.default is NO_DEFAULT:
            return None  # counts as not given
        if not isinstance(value, InputValue):
            return value_problem(decl.type, value)
        if given is not None and (value.type.is_path or decl.type.is_path):
            fits = _kind(value.type) == _kind(decl.type)
        else:
            fits = value_problem(decl.type, given) is None
        if fits:
            return None
        return f"`{decl.type}` is expected, " + ("but it was not given" if given is None else f"not `{value.type}`")

    def _template(
        self,
        template: Template,
        place: Place,
        names: Mapping[str, Any],
    ) -> Any:
        if isinstance(template, Expression) and template.whole is not None:
            return self._operand(template.whole, names)
        values: list[Any] = []
        before = len(self.diagnostics)
        for expression in expressions_in(template):
            for i, ref in enumerate(expression.refs):
                value = self._operand(ref, names, optional=i in expression.optional)
                values.append(ABSENT if value is None else value.value)
        if len(self.diagnostics) > before:
            return None
        try:
            return compute(template, values, names)
        except ExpressionError as problem:
            self.diagnostics.append(place.diagnostic("WRONG_TYPE", str(problem)))
            return None

    def _operand(
        self,
        ref: Value,
        names: Mapping[str, Any],
        *,
        optional: bool = False,
    ) -> InputValue | None:
        """`optional`: an element that does not exist is no problem."""
        if isinstance(ref, First):
            *others, last = ref.candidates
            there = (self._operand(other, names, optional=True) for other in others)
            first = next((value for value in there if value is not None), None)
            return first or self._operand(last, names)
        assert isinstance(ref, InputRef), "a result is passed on when the files are read"
        before = len(self.diagnostics)
        value = self._ref(ref, names)
        if optional:
            del self.diagnostics[before:]
        return value

    def _ref(self, ref: InputRef, names: Mapping[str, Any]) -> InputValue | None:
        whole = self.found.get(f"Input:{self.prefix}{ref.name}")
        if whole is None:
            return None
        try:
            id_, value = (
                str(ref),
                element(whole, tuple(_index(s, names) for s in ref.selectors if not isinstance(s, All))),
            )
            for field in ref.fields:
                id_, value = part(id_, value, _index(field, names))
            return value
        except IndexProblem as problem:
            hint = problem.hint_for(ref.name, self.prefix)
            self.diagnostics.append(ref.place.diagnostic(problem.code, str(problem), hint))
            return None


def _index(selector: Selector, names: Mapping[str, Any]) -> Index:
    """In `with:` of an import; the parser has refused all others."""
    assert not isinstance(selector, All)
    index: Index = names[selector.loop] if isinstance(selector, Loop) else selector.index
    return index


def _kind(type_: Type) -> tuple[str, int]:
    """The same text for types that can replace each other: directories, and files of any type."""
    return "file" if type_.base in FILE_TYPES else type_.base, type_.depth


def _all_there(template: Template, prefix: str, found: Mapping[str, InputValue]) -> bool:
    refs = [ref for expression in expressions_in(template) for ref in refs_in(expression.refs)]
    return all(f"Input:{prefix}{ref.name}" in found for ref in refs if isinstance(ref, InputRef))
