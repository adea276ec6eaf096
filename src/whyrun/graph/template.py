"""Templates of the model (`with:` entries, paths, environment values): their references and their value. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from whyrun.workflow.expressions.expression import (
    SecretRef,
    SecretText,
    evaluate,
    evaluate_formatted,
)
from whyrun.workflow.model import (
    Expression,
    FanIn,
    Formatted,
    InputRef,
    Loop,
    LoopDecl,
    OutputRef,
    Template,
    refs_in,
)


def expressions_in(template: Template) -> Iterator[Expression]:
    """Every expression of a template, in one fixed order; `compute` takes their operands in the same order."""
    if isinstance(template, Expression):
        yield template
    elif isinstance(template, Formatted):
        for part in template.parts:
            if isinstance(part, Expression):
                yield part
    elif isinstance(template, list):
        for item in template:
            yield from expressions_in(item)
    elif isinstance(template, dict):
        for item in template.values():
            yield from expressions_in(item)


def inputs_in(templates: Iterable[Template]) -> set[str]:
    """The names of the inputs that templates refer to."""
    values = [value for template in templates for expression in expressions_in(template) for value in expression.refs]
    return {ref.name for ref in refs_in(values) if isinstance(ref, InputRef)}


def inputs_of_loop(loop: LoopDecl) -> set[str]:
    if isinstance(loop.source, InputRef):
        return {loop.source.name}
    return inputs_in([list(loop.source) if isinstance(loop.source, tuple) else loop.source])


def contains_binding(template: Template) -> bool:
    """Is some part of it one whole reference?"""
    if isinstance(template, Expression):
        return template.whole is not None
    if isinstance(template, list):
        return any(map(contains_binding, template))
    if isinstance(template, dict):
        return any(map(contains_binding, template.values()))
    return False


def optional_operands(template: Template) -> frozenset[int]:
    """The operands (see `compute`) inside `exists(…)`: they may be absent."""
    found: set[int] = set()
    at = 0
    for expression in expressions_in(template):
        found.update(at + i for i in expression.optional)
        at += len(expression.refs)
    return frozenset(found)


def uses_loops(template: Template) -> bool:
    """May its value differ between the instances of a job?"""
    for expression in expressions_in(template):
        if expression.loops or expression.env:
            return True
        for ref in expression.refs:
            # The loops in a predicate of `where` are those of the members.
            for candidate in (ref.ref,) if isinstance(ref, FanIn) else refs_in([ref]):
                selectors = list(candidate.selectors)
                if isinstance(candidate, OutputRef):
                    selectors.extend(s for _, more in candidate.leaf for s in more)
                else:
                    selectors.extend(candidate.fields)
                if any(isinstance(s, Loop) for s in selectors):
                    return True
    return False


def compute(template: Template, operands: Sequence[Any], names: Mapping[str, Any]) -> Any:
    """The value of a template, given the values of all references of `expressions_in(template)`, flattened.

    It is plain JSON: a secret is {"$secret": NAME}, with a "format" inside a longer string.
    """
    value, used = _compute(template, operands, 0, names)
    assert used == len(operands)
    return value


def _compute(template: Template, operands: Sequence[Any], at: int, names: Mapping[str, Any]) -> tuple[Any, int]:
    if isinstance(template, Expression):
        end = at + len(template.refs)
        return _plain(evaluate(template, operands[at:end], names)), end
    if isinstance(template, Formatted):
        values = []
        for part in template.parts:
            if isinstance(part, Expression):
                values.append(operands[at : at + len(part.refs)])
                at += len(part.refs)
        return _plain(evaluate_formatted(template, values, names)), at
    if isinstance(template, list):
        items = []
        for item in template:
            value, at = _compute(item, operands, at, names)
            items.append(value)
        return items, at
    if isinstance(template, dict):
        result = {}
        for key, item in template.items():
            result[key], at = _compute(item, operands, at, names)
        return result, at
    return template, at


def _plain(value: Any) -> Any:
    if isinstance(value, SecretRef):
        return {"$secret": value.name}
    if isinstance(value, SecretText):
        return {"$secret": value.name, "format": value.format}
    return value
