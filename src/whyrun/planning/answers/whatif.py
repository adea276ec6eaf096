"""What would run if an input were another: `--assume Input:X=changed`, `--assume Input:X=value`. Touches nothing.

The assumed inputs take the same way as real ones: they are observed, handed down to imports, expanded and planned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from whyrun.artifacts.hashing import value_sha256
from whyrun.errors import did_you_mean, error
from whyrun.graph.fingerprint import array_sha256
from whyrun.ids import CanonicalId, Index, parse_id_of
from whyrun.workflow.inputs import IndexProblem, InputValue, lookup, parse_set
from whyrun.workflow.model import Place, Type, Workflow
from whyrun.workflow.values import value_problem

CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Assumption:
    """One `--assume`, with what the input is now and what it is taken to be."""

    id: str
    now: InputValue
    assumed: InputValue

    def __str__(self) -> str:
        if self.assumed.type.is_path:
            other = self.assumed.value != self.now.value
            return f"{self.id} = {self.assumed.value}" if other else f"{self.id} changed"
        return f"{self.id} = {_short(self.assumed.value)} (now {_short(self.now.value)})"


class Eyes(Protocol):
    """Whoever can look at the world: `snapshot.observe.InputObserver`."""

    def observe(self, workflow: Workflow, given: Mapping[str, Any], prefix: str = "") -> dict[str, InputValue]:
        """All inputs by canonical ID, from given (or observed) values, those of imports too."""

    def value(self, id_: str, type_: Type, value: Any, place: Place) -> InputValue:
        """One value of this type, observed."""


def assume(
    workflow: Workflow, inputs: Mapping[str, InputValue], texts: Sequence[str], eyes: Eyes
) -> tuple[dict[str, InputValue], list[Assumption]]:
    """The inputs with these assumptions in place; imports get what they would be handed then."""
    assumptions: list[Assumption] = []
    found = dict(inputs)
    seen: set[str] = set()
    for identity, text in sorted((_parse(text, inputs) for text in texts), key=lambda each: len(each[0].imports)):
        id_ = str(identity)
        if id_ in seen:
            raise error("USAGE", f"`--assume {id_}=…` is given twice", hint="assume one value for each input")
        seen.add(id_)
        now = _lookup(found, id_)
        name = identity.segments[0].name
        inner = _workflow_at(workflow, identity.imports)
        place = inner.inputs[name].place
        value = _changed(id_, now) if text == CHANGED else _given(id_, now.type, text, place, eyes)
        assumptions.append(Assumption(id_, now, value))
        prefix = "".join(f"{part}/" for part in identity.imports)
        whole = f"Input:{prefix}{name}"
        found[whole] = _put(found[whole], identity.segments[0].indices, value)
        # What the imports below are handed follows from their parent's inputs.
        given = {key: found[f"Input:{prefix}{key}"] for key in inner.inputs if f"Input:{prefix}{key}" in found}
        found.update(eyes.observe(inner, given, prefix))
    return found, assumptions


def _parse(text: str, inputs: Mapping[str, InputValue]) -> tuple[CanonicalId, str]:
    id_, equals, value = text.partition("=")
    if not equals:
        raise error("USAGE", f"`--assume {text}` says nothing", hint="write `--assume Input:X=changed` or `=value`")
    identity = parse_id_of("Input", id_)
    whole = str(CanonicalId("Input", identity.imports, (replace(identity.segments[0], indices=()),)))
    if len(identity.segments) > 1 or whole not in inputs:
        hint = did_you_mean(whole, list(inputs)) or "assume inputs of the workflow, or elements of them"
        if len(identity.segments) > 1:
            hint = "parameters and actions follow from the workflow; assume one of its inputs, or an element of one"
        raise error("UNKNOWN_REFERENCE", f"`--assume {id_}`: the workflow has no such input", hint=hint)
    return identity, value


def _lookup(inputs: Mapping[str, InputValue], id_: str) -> InputValue:
    try:
        return lookup(inputs, id_)
    except IndexProblem as problem:
        raise error(problem.code, f"`--assume`: {problem}", hint="elements are counted from 0") from None


def _workflow_at(workflow: Workflow, imports: Sequence[str]) -> Workflow:
    for name in imports:
        workflow = workflow.imports[name].workflow
    return workflow


def _given(id_: str, type_: Type, text: str, place: Place, eyes: Eyes) -> InputValue:
    try:
        value = parse_set(type_, text)
        problem = value_problem(type_, value)
    except ValueError as wrong:
        problem = str(wrong)
    if problem is not None:
        raise error("INPUT_TYPE", f"`--assume {id_}`: {problem}", hint=f"`{id_}` has the type `{type_}`")
    return eyes.value(id_, type_, value, place)


def _changed(id_: str, value: InputValue) -> InputValue:
    """Another content, made up: a hash that no file has, or a value of the same type that is not the present one."""
    if value.elements is not None:
        if not value.elements:
            raise error("USAGE", f"`--assume {id_}=changed`: the array is empty", hint=f"give a value: `{id_}=[…]`")
        return _array(value.type, [_changed(f"{id_}[{i}]", item) for i, item in enumerate(value.elements)])
    if value.type.is_path:
        if value.path is None:
            raise error("USAGE", f"`--assume {id_}=changed`: it has no value now", hint=f"give one: `{id_}=path`")
        made_up = hashlib.sha256(f"whyrun/assumed/v1\n{value.sha256}".encode()).hexdigest()
        return InputValue(value.type, value.value, made_up, None, value.path)
    other = _other(value.value)
    return InputValue(value.type, other, value_sha256(other), None, None)


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value} (changed)"
        case list():
            return [*value, CHANGED]
        case dict():
            return {**value, CHANGED: True}
        case _:
            return CHANGED


def _put(whole: InputValue, indices: Sequence[Index], value: InputValue) -> InputValue:
    if not indices:
        return value
    index = indices[0]
    assert whole.elements is not None, "`lookup` has found the element"
    assert isinstance(index, int)
    elements = list(whole.elements)
    elements[index] = _put(elements[index], indices[1:], value)
    return _array(whole.type, elements)


def _array(type_: Type, elements: Sequence[InputValue]) -> InputValue:
    values = [item.value for item in elements]
    sha256 = array_sha256(elements) if type_.is_path else value_sha256(values)
    return InputValue(type_, values, sha256, tuple(elements), None)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"
