"""Inputs: the content of an ID, and references to them, for every instance of a job.

An element of an array and a field of a JSON value are inputs of their own, each with its own content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from whyrun.artifacts.hashing import value_sha256
from whyrun.errors import Diagnostic, did_you_mean
from whyrun.graph.paths import LoopWords
from whyrun.graph.ragged import NOT_NESTED, Nest, input_name
from whyrun.graph.tables import (
    Absent,
    AlignedArtifact,
    EachTerm,
    FirstOf,
    Group,
    InputAt,
    JobTable,
    Operand,
    SameTerm,
    Source,
)
from whyrun.ids import OPEN, CanonicalId, Index, Segment, absolute, format_index, format_indices, parse_id_of, part_id
from whyrun.workflow.expressions.expression import ABSENT
from whyrun.workflow.inputs import IndexProblem, InputValue, element
from whyrun.workflow.model import All, At, InputRef, Loop, Ref, Selector, Type
from whyrun.workflow.values import few_keys, hint_for_loop, not_an_array

Leaf = tuple[tuple[str, tuple[Any, ...]], ...]  # a leaf's path: names, each with its indices
OperandColumn = SameTerm | EachTerm | AlignedArtifact


EVERY = object()  # `[:]`


# --- parts of inputs ---------------------------------------------------------------------------------------------


_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def part(id_: str, value: InputValue, key: Index) -> tuple[str, InputValue]:
    """A field of a JSON value, or an item of a list in it: an input of its own, with its ID."""
    whole, own = value.value, part_id(id_, key)
    if isinstance(whole, dict):
        if not isinstance(key, str) or key not in whole:
            names = list(whole)
            hint = f"write `[{json.dumps(str(key))}]`" if str(key) in whole else did_you_mean(str(key), names)
            hint = hint or (f"it has {few_keys(names)}" if names else "it is empty")
            raise IndexProblem("UNKNOWN_REFERENCE", f"`{id_}` has no field `{key}`", hint)
        found = whole[key]
    elif isinstance(whole, list):
        if type(key) is not int or key < 0:
            message = f"`{id_}` is a list, and `{key}` is no index of one"
            raise IndexProblem("INDEX_FORMAT_INVALID", message, "items are counted from 0: `[0]`")
        if key >= len(whole):
            raise IndexProblem("INDEX_OUT_OF_RANGE", f"`{own}` does not exist: the list has {len(whole)}")
        found = whole[key]
    elif whole is None:
        raise IndexProblem("INDEX_PARENT_MISSING", f"`{id_}` is null, so it has no field `{key}`")
    else:
        message = f"`{id_}` is neither an object nor a list, so it has no field `{key}`"
        raise IndexProblem("INDEX_PARENT_NOT_ARRAY", message)
    return own, InputValue(Type(_TYPES.get(type(found), "json")), found, value_sha256(found), None, None)


def lookup(inputs: Mapping[str, InputValue], id_text: str) -> InputValue:
    """The input with this canonical ID; the keys of `inputs` are canonical IDs (`Input:ThenImages`) too.

    The exact ID if it was given, else the element of its parent array or the field of its parent, else a specific
    error.
    """
    exact = inputs.get(id_text)
    if exact is not None:
        return exact
    identity = parse_id_of("Input", id_text)
    first, *fields = identity.segments
    # The nearest ancestor wins: `Input:Grid[0]`, if given itself, before `Input:Grid`.
    for kept in range(len(first.indices), -1, -1):
        parent_id = str(CanonicalId(identity.kind, identity.imports, (Segment(first.name, first.indices[:kept]),)))
        parent = inputs.get(parent_id)
        if parent is not None:
            rest = [*first.indices[kept:], *(key for each in fields for key in (each.name, *each.indices))]
            return _within(parent_id, parent, rest, id_text)
    raise IndexProblem("INDEX_PARENT_MISSING", f"`{id_text}`: there is no input of this name with a value")


def _within(id_: str, value: InputValue, keys: Sequence[Index], wanted: str) -> InputValue:
    of_array = min(value.type.depth, len(keys))
    try:
        found = element(value, keys[:of_array])
        if of_array < len(keys) and found.type != Type("json"):
            if not wanted.startswith(id_ + format_indices(keys[: of_array + 1])):  # a name follows
                message = f"it has type `{found.type}`, so it has no field `{keys[of_array]}`"
                raise IndexProblem("INDEX_PARENT_NOT_ARRAY", message, "only inputs of type `json` have fields")
            raise not_an_array(found, format_indices(keys[:of_array]) or "the input", of_array)
    except IndexProblem as problem:
        raise IndexProblem(problem.code, f"`{wanted}`: {problem.message}", problem.hint) from None
    id_ += format_indices(keys[:of_array])
    for key in keys[of_array:]:
        id_, found = part(id_, found, key)
    if id_ != wanted:
        raise IndexProblem("INDEX_FORMAT_INVALID", f"`{wanted}` is not canonical", f"the one spelling is `{id_}`")
    return found


# --- neighbours --------------------------------------------------------------------------------------------------
#
# `[x+1]`, `[x-1]`: which index is a neighbour. It is judged by the order of what is indexed.


class _Hole:
    """A neighbour out of range."""


class Order(msgspec.Struct, frozen=True):
    """The indices that a selector selects from, in their order: `[x+1]` moves in it."""

    values: Sequence[Index]
    position: Mapping[Index, int]
    what: str  # whose indices they are, for messages

    def moved(self, index: Index, offset: int) -> Any:
        """The index that many places on, or `HOLE`."""
        if isinstance(self.values, range):  # also from beyond an end back into it
            return index + offset if type(index) is int and index + offset in self.values else HOLE
        here = self.position.get(index)
        # An instance that `include:` adds may have an index that the loop lacks; then it has no neighbours.
        if here is None or type(self.values[here]) is not type(index):
            return HOLE
        return self.values[here + offset] if 0 <= here + offset < len(self.values) else HOLE

    def has(self, index: Index) -> bool:
        return index in self.values if isinstance(self.values, range) else index in self.position

    def has_other_kind(self, index: Index) -> bool:
        """Whether it can have no place here: a word among numbers, or `1.0` for `1`."""
        if self.has(index):
            return type(self.values[self.position[index]]) is not type(index)
        return any(isinstance(value, str) != isinstance(index, str) for value in self.values[:1])

    def __str__(self) -> str:
        if not self.values:
            return f"{self.what} is empty"
        if isinstance(self.values, range):
            return f"{self.what} goes from {self.values[0]} to {self.values[-1]}"
        return f"{self.what} has the values {few(list(map(format_index, self.values)))}"


HOLE = _Hole()


def few(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{n}`" for n in names[:5])
    return f"{shown}, … ({len(names)} in all)" if len(names) > 5 else shown


# --- references --------------------------------------------------------------------------------------------------


class Scope(msgspec.Struct, eq=False):
    """One workflow file's names: its import prefix, loop values, tables and inputs."""

    prefix: str
    loops: Mapping[str, Sequence[Index]]
    loop_position: Mapping[str, Mapping[Index, int]]
    tables: Mapping[str, JobTable]  # by name with imports, as seen from the root
    of_table: dict[str, Scope]  # the scope that each of them was declared in
    inputs: Mapping[str, InputValue]
    diagnostics: list[Diagnostic] = []
    groups: dict[Any, Group] = {}
    rows: dict[tuple[str, ...], tuple[Sequence[tuple[Index, ...]], Sequence[str]]] = {}
    leaves: dict[int, dict[tuple[str, Leaf], tuple[int, Leaf]]] = {}
    words: dict[tuple[int, int], LoopWords] = {}
    rows_at: dict[tuple[int, tuple[int, ...]], dict[tuple[Index, ...], list[int]]] = {}
    nest: Nest = NOT_NESTED


def _orders(base: str, value: InputValue, depth: int) -> list[Order | None]:
    """By selector: the keys that it selects from, if the elements have keys. Those of one level are alike."""
    found: list[Order | None] = []
    level: InputValue | None = value
    for _ in range(depth):
        keys = level.keys if level is not None else None
        found.append(None if keys is None else Order(keys.order, keys, f"`{base}`"))
        level = level.elements[0] if level is not None and level.elements else None
    return found


class InputResolver:
    """Resolves references to inputs of one job, all instances at a time."""

    def __init__(self, scope: Scope, table: JobTable, kind: str = "Job") -> None:
        """`kind`: what the rows of the table stand for, in messages."""
        self.kind = kind
        self.scope = scope
        self.table = table
        self.loops = table.decl.loops
        self._reported: set[int] = set()
        self._wholes: list[InputRef] = []  # what fields are of; kept, because `_reported` holds IDs of objects

    # -- selectors --

    def _index_of(self, selector: Selector, order: Order | None) -> Callable[[int], Any]:
        """Row → the index that a selector means in it. The elements of an input have no `order` but their numbers."""
        if isinstance(selector, At):
            return lambda position: selector.index
        if isinstance(selector, All):
            return lambda position: EVERY
        place = self.loops.index(selector.loop)
        rows = self.table.rows
        offset = selector.offset
        if offset == 0:
            return lambda position: rows[position][place]
        if order is not None:
            return lambda position: order.moved(rows[position][place], offset)

        def number(position: int) -> Any:
            index = rows[position][place]
            return index + offset if type(index) is int else index

        return number

    def _indices(
        self, selectors: Sequence[Selector], orders: Sequence[Order | None]
    ) -> Callable[[int], tuple[Any, ...]]:
        getters = [self._index_of(s, order) for s, order in zip(selectors, orders, strict=True)]
        return lambda position: tuple(get(position) for get in getters)

    # -- inputs --

    def input(self, ref: InputRef, holes: bool) -> OperandColumn:
        if self.scope.nest.repeats:
            return self._nested(ref, holes)
        return self._input(ref, f"Input:{absolute(self.scope.prefix, ref.name)}", holes)

    def _nested(self, ref: InputRef, holes: bool) -> OperandColumn:
        """In an import that runs for loops: each of its indices has inputs of its own."""
        prefix, name = input_name(self.scope.prefix, ref.name)
        terms: list[Any] = [Absent()] * len(self.table)
        for folder, positions in self.scope.nest.positions(prefix, self.loops, self.table.rows).items():
            part = InputResolver(self.scope, self.table.part(positions), self.kind)
            part._reported, part._wholes = self._reported, self._wholes
            if folder is not None:
                column = part._input(ref, f"Input:{folder}{name}", holes)
                for number, position in enumerate(positions):
                    terms[position] = column.at(number)
        return EachTerm(terms)

    def _input(self, ref: InputRef, base: str, holes: bool) -> OperandColumn:
        whole = self.scope.inputs.get(base)
        if whole is None:  # reported already: the input has no value
            return SameTerm(Absent())  # type: ignore[arg-type]
        if ref.fields:
            return self._fields(ref, base, holes)
        if not ref.selectors:
            return SameTerm(InputAt(base, whole))
        along = self._along_loop(ref, base, whole)
        if along is not None:
            return along
        orders = _orders(base, whole, len(ref.selectors))
        indices_at = self._indices(ref.selectors, orders)
        cache: dict[tuple[Any, ...], Operand] = {}

        def at(position: int) -> Operand:
            indices = indices_at(position)
            if OPEN in indices:
                return Absent()  # which element it is shows once the loop is known
            if HOLE in indices:
                number = indices.index(HOLE)
                return self._hole(ref, ref.selectors[number], orders[number] or base, holes, position)
            term = cache.get(indices)
            if term is None:
                term = cache[indices] = self._element(ref, base, whole, indices, holes, position)
            return term

        if not any(isinstance(s, Loop) for s in ref.selectors):
            return SameTerm(at(0) if len(self.table) else Absent())  # type: ignore[arg-type]
        return EachTerm([at(p) for p in range(len(self.table))])  # type: ignore[misc]

    def _fields(self, ref: InputRef, base: str, holes: bool) -> OperandColumn:
        """`inputs.Sheet[sample].mask`: each field is an input of its own."""
        self._wholes.append(replace(ref, fields=()))
        column = self._input(self._wholes[-1], base, holes)
        keys_at = self._indices(ref.fields, [None] * len(ref.fields))
        cache: dict[Any, Operand] = {}

        def at(position: int) -> Operand:
            term, keys = column.at(position), keys_at(position)
            if OPEN in keys:
                return Absent()
            if isinstance(term, Group):
                found = [self._field(ref, member, keys, holes, position) for member in term.members]
                return Group(tuple(each for each in found if isinstance(each, InputAt)))
            if not isinstance(term, InputAt):
                return term  # type: ignore[return-value]  # absent, or reported
            key = term.id, keys
            if key not in cache:
                cache[key] = self._field(ref, term, keys, holes, position)
            return cache[key]

        if isinstance(column, SameTerm) and not any(isinstance(field, Loop) for field in ref.fields):
            return SameTerm(at(0) if len(self.table) else Absent())  # type: ignore[arg-type]
        return EachTerm([at(p) for p in range(len(self.table))])  # type: ignore[misc]

    def _field(self, ref: InputRef, term: Source, keys: tuple[Any, ...], holes: bool, position: int) -> Operand:
        assert isinstance(term, InputAt), "an input has only inputs as members"
        id_, value = term.id, term.value
        try:
            for key in keys:
                id_, value = part(id_, value, key)
        except IndexProblem as problem:
            if not holes:
                self._report(ref, problem.code, problem.message, position, problem.hint)
            return Absent()
        return InputAt(id_, value)

    def _along_loop(self, ref: InputRef, base: str, whole: InputValue) -> EachTerm | None:
        """`inputs.Photos[photo]` if every row has its element, which is nearly always so: no lookup per row."""
        (selector, *more), elements = ref.selectors, whole.elements
        if more or elements is None or not isinstance(selector, Loop) or selector.offset:
            return None
        if not all(each.sha256 for each in elements):
            return None  # some are absent
        place = self.loops.index(selector.loop)
        indices = [row[place] for row in self.table.rows]
        if whole.keys is not None:
            at = list(map(whole.keys.get, indices))
            if set(map(type, indices)) != {str} or None in at:
                return None
            if len(self.loops) == 1:  # the text of an index stands in the ID of its job, too
                texts: Iterable[str] = self.table.texts
            else:
                text_of = {index: f"[{format_index(index)}]" for index in dict.fromkeys(indices)}
                texts = map(text_of.__getitem__, indices)
            return EachTerm([InputAt(base + text, elements[i]) for text, i in zip(texts, at, strict=True)])  # type: ignore[index]  # none is None
        if set(map(type, indices)) != {int} or not 0 <= min(indices) <= max(indices) < len(elements):  # type: ignore[operator]
            return None
        return EachTerm([InputAt(f"{base}[{i}]", elements[i]) for i in indices])  # type: ignore[index]  # all are int

    def _element(
        self, ref: InputRef, base: str, whole: InputValue, indices: tuple[Any, ...], holes: bool, position: int
    ) -> Operand:
        try:
            if any(i is EVERY for i in indices):
                return Group(tuple(self._elements(base, whole, list(indices))))
            id_, value = base + format_indices(indices), element(whole, indices)
            if not value.is_absent:
                return InputAt(id_, value)
            return Absent() if holes else FirstOf((), id_)
        except IndexProblem as problem:
            selector, above = ref.selectors[problem.depth], indices[: problem.depth]
            hint = problem.hint_for(ref.name, self.scope.prefix)
            if isinstance(selector, Loop) and not problem.code.startswith("INDEX_PARENT"):
                if selector.offset and type(indices[problem.depth]) is int and EVERY not in above:
                    there = range(len(element(whole, above).elements or ()))
                    elements = Order(there, {}, f"`{base}{format_indices(above)}`")
                    return self._hole(ref, selector, str(elements), holes, position)
                hint = hint_for_loop(ref, selector, problem, whole, indices, self.scope.inputs)
            self._report(ref, problem.code, f"`{base}{shown_indices(indices)}`: {problem}", position, hint)
            return Absent()

    def _elements(self, name: str, value: InputValue, rest: list[Any], depth: int = 0) -> list[Source]:
        if not rest:
            return [] if value.is_absent else [InputAt(name, value)]
        head, *tail = rest
        if head is EVERY:
            if value.elements is None:
                raise not_an_array(value, f"`{name}`", depth)
            chosen: Sequence[Any] = value.indices
        else:
            chosen = (head,)
        found: list[Source] = []
        for index in chosen:
            try:
                part = element(value, (index,))
            except IndexProblem as problem:
                problem.depth = depth
                raise
            found.extend(self._elements(f"{name}[{format_index(index)}]", part, tail, depth + 1))
        return found

    # -- problems --

    def _hole(self, ref: Ref, selector: Selector, there: Order | str, holes: bool, position: int) -> Operand:
        """`there` says what is indexed."""
        assert isinstance(selector, Loop)
        index = self.table.rows[position][self.loops.index(selector.loop)]
        if index is OPEN:
            return Absent()
        written = f"[{selector.loop}{selector.offset:+d}]"
        said = f"`{selector.loop}` is `{format_index(index)}`, and {there}"
        if isinstance(there, Order) and there.has_other_kind(index):
            self._report(ref, "INDEX_FORMAT_INVALID", f"`{written}` has no place there: {said}", position)
        elif not holes:
            hint = f"an instance without this neighbour must name what it takes instead: `first({ref}, …)`"
            self._report(ref, "INDEX_OUT_OF_RANGE", f"`{written}` is out of range: {said}", position, hint)
        return Absent()

    def _report(self, ref: Ref, code: str, message: str, position: int, hint: str | None = None) -> None:
        """Once per reference, for the first instance."""
        if id(ref) in self._reported:
            return
        self._reported.add(id(ref))
        self.scope.diagnostics.append(ref.place.diagnostic(code, message + self.where(position), hint))

    def where(self, position: int) -> str:
        return f" (in `{self.kind}:{self.table.path(position)}`)" if len(self.table) > 1 else ""


def shown_indices(indices: Sequence[Any]) -> str:
    return "".join("[:]" if i is EVERY else f"[{format_index(i)}]" for i in indices)


def input_operand_value(term: Any) -> Any:
    """The value of an operand that depends on inputs only."""
    if isinstance(term, InputAt):
        return term.value.value
    if isinstance(term, Absent):
        return ABSENT
    if isinstance(term, FirstOf):
        return input_operand_value(term.candidates[0]) if term.candidates else ABSENT
    return [input_operand_value(member) for member in term.members]
