"""The resolver: turns a reference into its sources, for every instance of a job.

It serves `with`, `if`, `first`, fan-in, formatted strings and lists, for inputs and artifacts. It works on whole
columns: a reference that follows the job's own loops one to one becomes one object, not one per instance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from whyrun.graph.inputs import (
    EVERY,
    HOLE,
    InputResolver,
    Leaf,
    OperandColumn,
    Order,
    Scope,
    few,
    input_operand_value,
    shown_indices,
)
from whyrun.graph.ragged import is_open
from whyrun.graph.tables import (
    Absent,
    AlignedArtifact,
    ArtifactAt,
    EachTerm,
    FirstOf,
    Group,
    InputAt,
    JobTable,
    Operand,
    SameTerm,
    Source,
    sources_of,
)
from whyrun.ids import OPEN, Index, absolute, format_index, format_indices, own_name, parse_id
from whyrun.workflow.arrays import Every
from whyrun.workflow.expressions.expression import ExpressionError, evaluate
from whyrun.workflow.model import (
    All,
    At,
    Expression,
    FanIn,
    First,
    InputRef,
    JobDecl,
    LeafDecl,
    Loop,
    OutputRef,
    Ref,
    Selector,
    Value,
)


class Resolver(InputResolver):
    """Resolves the references of one job, all instances at a time."""

    def operand(self, ref: Value, *, optional: bool) -> OperandColumn:
        """The column of a reference or `first(…)`. `optional`: it is inside `exists(…)` and may be absent."""
        if isinstance(ref, First):
            return self._first(ref)
        if isinstance(ref, FanIn):
            return self._fan_in(ref)
        return self._ref(ref, holes=optional)

    def _fan_in(self, fan_in: FanIn) -> OperandColumn:
        """`named(…)`, `where(…)`: the same fan-in with keys, or with fewer members."""
        column = self._ref(fan_in.ref, holes=False)
        made: dict[int, Group] = {}  # by the fan-in's own object, which consumers share

        def at(position: int) -> Operand:
            group = column.at(position)
            if not isinstance(group, Group):
                return group  # type: ignore[return-value]  # absent: reported
            if id(group) not in made:
                made[id(group)] = self._narrowed(fan_in, group)
            return made[id(group)]

        if isinstance(column, SameTerm):
            return SameTerm(at(0) if len(self.table) else Group(()))  # type: ignore[arg-type]
        return EachTerm([at(p) for p in range(len(self.table))])  # type: ignore[misc]

    def _narrowed(self, fan_in: FanIn, group: Group) -> Group:
        selectors = fan_in.ref.selectors
        every = [number for number, selector in enumerate(selectors) if isinstance(selector, All)]
        of_jobs = len(selectors) if isinstance(fan_in.ref, InputRef) else len(fan_in.loops)  # the rest: of elements
        every = [number for number in every if number < of_jobs]
        indices = [self._own_indices(member, len(selectors)) for member in group.members]
        chosen: Sequence[int] = range(len(group.members))
        if fan_in.predicate is not None:
            passes = self._passing(fan_in, fan_in.predicate, [own for own, _ in indices])
            chosen = [number for number in chosen if passes[number]]
        members = tuple(group.members[number] for number in chosen)
        if not fan_in.named:
            return Group(members)
        # A leaf over `[:]` has more indices of its own.
        leaf = [p for _, part in getattr(fan_in.ref, "leaf", ()) for p in part]
        inside = [number for number, selector in enumerate(leaf) if isinstance(selector, All)]
        keys = ((*(indices[n][0][i] for i in every), *(indices[n][1][i] for i in inside)) for n in chosen)
        return Group(members, tuple(keys))

    def _own_indices(self, member: Source, depth: int) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        """The indices of its job or array, and those of its leaf."""
        if isinstance(member, InputAt):
            return parse_id(member.id).segments[0].indices[:depth], ()
        target = self._tables[member.table]
        leaf = _split_leaf(target.artifacts[member.artifact].leaf_at(member.position))
        return target.rows[member.position], tuple(index for _, part in leaf for index in part)

    def _passing(self, fan_in: FanIn, predicate: Expression, rows: Sequence[tuple[Index, ...]]) -> list[bool]:
        """By member: does it pass? Names in the predicate are the members' own loop variables, and inputs."""
        ref = fan_in.ref
        name = ref.job if isinstance(ref, OutputRef) else ref.name
        decl = JobDecl(name=name, place=fan_in.place, loops=fan_in.loops)
        members = JobTable(0, absolute(self.scope.prefix, name), decl, rows, [format_indices(row) for row in rows], 0)
        resolver = Resolver(self.scope, members, "Job" if isinstance(ref, OutputRef) else "Input")
        columns = [resolver.operand(r, optional=i in predicate.optional) for i, r in enumerate(predicate.refs)]
        found: list[bool] = []
        for position, row in enumerate(rows):
            if OPEN in row:
                found.append(True)  # it stands for those that pass, too
                continue
            values = [input_operand_value(column.at(position)) for column in columns]
            try:
                found.append(bool(evaluate(predicate, values, dict(zip(fan_in.loops, row, strict=True)))))
            except ExpressionError as problem:
                message = f"{problem}{resolver.where(position)}"
                self.scope.diagnostics.append(fan_in.place.diagnostic("WRONG_TYPE", message))
                return [False] * len(rows)
        return found

    @cached_property
    def _tables(self) -> list[JobTable]:
        return list(self.scope.tables.values())

    def _first(self, first: First) -> OperandColumn:
        columns = [self._ref(candidate, holes=True) for candidate in first.candidates]

        def at(position: int) -> Operand:
            candidates: list[Source] = []
            for column in columns:
                term = column.at(position)
                if isinstance(term, ArtifactAt | InputAt):
                    candidates.append(term)
                elif isinstance(term, Group):
                    candidates.extend(term.members)
            return FirstOf(tuple(candidates))

        if all(isinstance(column, SameTerm) for column in columns):
            return SameTerm(at(0) if len(self.table) else FirstOf(()))  # type: ignore[arg-type]  # an Operand that is a Term
        return EachTerm([at(p) for p in range(len(self.table))])  # type: ignore[misc]  # likewise

    def _ref(self, ref: Ref, *, holes: bool) -> OperandColumn:
        return self.input(ref, holes) if isinstance(ref, InputRef) else self._output(ref, holes)

    # -- artifacts --

    def _output(self, ref: OutputRef, holes: bool) -> OperandColumn:
        target = self.scope.tables[absolute(self.scope.prefix, ref.job)]
        if target.open_rows and self._refuses_open(ref, target):
            return SameTerm(Absent())  # type: ignore[arg-type]  # reported
        if len(ref.selectors) > len(target.decl.loops):  # of an array
            whole = self._output(replace(ref, selectors=ref.selectors[:-1]), holes)
            return self._of_arrays(whole, ref.selectors[-1])
        if not ref.leaf and self._aligned(ref, target):
            number = next(a for a, s in enumerate(target.artifacts) if s.output == ref.output and not s.is_leaf)
            return AlignedArtifact(target.number, number)
        scope = self.scope.of_table[target.name]

        def of_loop(loop: str) -> Order:
            return Order(
                scope.loops[loop], scope.loop_position[loop], f"the loop `{own_name(loop)}` of `{target.name}`"
            )

        axes = [of_loop(loop) for loop in target.decl.loops]
        leaf_axes = _leaf_orders(target.decl.outputs[ref.output].leaves, ref, of_loop)
        orders = [*axes, *(order for part in leaf_axes for order in part)]
        selectors = [*ref.selectors, *(s for _, part in ref.leaf for s in part)]
        indices_at = self._indices(ref.selectors, axes)
        parts = [(name, self._indices(part, axes)) for (name, part), axes in zip(ref.leaf, leaf_axes, strict=True)]
        # Without decimals, equal indices have the same spelling. This is nearly always so and saves the comparison.
        decimals = (
            any(isinstance(s, At) and type(s.index) is float for s in ref.selectors)
            or _has_decimals(self.scope, self.table)
            or _has_decimals(scope, target)
        )

        def at(position: int) -> Operand:
            indices = indices_at(position)
            leaf = tuple((name, get(position)) for name, get in parts)
            flat = (*indices, *(i for _, here in leaf for i in here))
            if HOLE in flat:
                number = flat.index(HOLE)
                return self._hole(ref, selectors[number], orders[number], holes, position)
            if position in self.table.open_rows and (OPEN in flat[len(indices) :] or indices not in target.position_of):
                # Which it is shows once the loop is known: one of all that it can be.
                indices = tuple(EVERY if index is OPEN else index for index in indices)
                leaf = tuple((name, tuple(EVERY if i is OPEN else i for i in here)) for name, here in leaf)
                flat = (*indices, *(i for _, here in leaf for i in here))
            if EVERY in flat:
                key = (
                    target.number,
                    ref.output,
                    indices,
                    leaf,
                    shown_indices(flat) if float in map(type, flat) else "",
                )
                group = self.scope.groups.get(key)
                if group is None:
                    group = self.scope.groups[key] = self._select(ref, target, indices, leaf)
                if not group.members and position not in self.table.open_rows:
                    self._check_empty(ref, target, indices, position)
                return group
            row = target.position_of.get(indices)
            if row is None or (decimals and not _same_spelling(indices, target.rows[row])):
                moved = _moved(ref.selectors)
                if row is None and moved and all(map(Order.has, axes, indices)):  # `exclude:` has removed it
                    missing = f"`Job:{target.name}{format_indices(indices)}` does not exist"
                    return self._hole(ref, moved, missing, holes, position)
                self._report_index(ref, target, indices, position)
                return Absent()
            artifact = self._artifact(target, ref, leaf, row)
            if artifact is None:
                wanted = "".join(f".{name}{shown_indices(here)}" for name, here in leaf)
                missing = f"`{target.job_id(row)}` declares no leaf `{ref.output}{wanted}`"
                moved = _moved(selectors[len(indices) :])
                if moved:
                    return self._hole(ref, moved, missing, holes, position)
                self._report(ref, "INDEX_OUT_OF_RANGE", missing, position)
                return Absent()
            return ArtifactAt(target.number, artifact, row)

        if not any(isinstance(s, Loop) for s in selectors):
            return SameTerm(at(0) if len(self.table) else Absent())  # type: ignore[arg-type]
        return EachTerm([at(p) for p in range(len(self.table))])  # type: ignore[misc]

    def _refuses_open(self, ref: OutputRef, target: JobTable) -> bool:
        """Whether it picks one instance of a loop that is not known before the run. The loop's own jobs may do that."""
        scope = self.scope.of_table[target.name]
        for loop, selector in zip(target.decl.loops, ref.selectors, strict=False):
            own = isinstance(selector, Loop) and selector.loop == loop and scope is self.scope
            if isinstance(selector, All) or own or not is_open(scope.loops[loop]):
                continue
            name = own_name(loop)
            message = f"`[{selector}]` picks one of `{target.name}`, and the values of `{name}` are known only in a run"
            hint = f"take all of them with `[:]`, or let this job run for [{name}] too"
            self._report(ref, "LOOP_MISMATCH", message, 0, hint)
            return True
        return False

    def _of_arrays(self, whole: OperandColumn, selector: Selector) -> OperandColumn:
        """Elements of the arrays in a column. Which there are is known once the arrays are made, so each source only
        says which one it wants."""

        def at(position: int) -> Operand:
            term = whole.at(position)
            key: Any = Every.ELEMENT
            if isinstance(selector, Loop):
                key = self.table.rows[position][self.loops.index(selector.loop)]
            elif isinstance(selector, At):
                key = selector.index
            if key is OPEN:
                return term  # type: ignore[return-value]  # which element it is shows once the loop is known
            if isinstance(term, ArtifactAt) and key is not Every.ELEMENT:
                return term._replace(element=key)
            if not isinstance(term, ArtifactAt | Group):
                return term  # type: ignore[return-value]  # absent: reported
            # All consumers share one fan-in; the scope has that of the lists, so its `id` stays its own.
            name = ("elements", id(term) if isinstance(term, Group) else term, type(key), key)
            group = self.scope.groups.get(name)
            if group is None:
                lists = [each for each in sources_of(term) if isinstance(each, ArtifactAt)]
                group = self.scope.groups[name] = Group(tuple(each._replace(element=key) for each in lists))
            return group

        if isinstance(whole, SameTerm) and not isinstance(selector, Loop):
            return SameTerm(at(0) if len(self.table) else whole.term)  # type: ignore[arg-type]
        return EachTerm([at(p) for p in range(len(self.table))])  # type: ignore[misc]

    def _aligned(self, ref: OutputRef, target: JobTable) -> bool:
        return (
            len(ref.selectors) == len(self.loops) > 0
            and all(
                isinstance(s, Loop) and s.offset == 0 and s.loop == loop
                for s, loop in zip(ref.selectors, self.loops, strict=True)
            )
            and (target.rows is self.table.rows or target.texts == self.table.texts)
        )

    def _select(self, ref: OutputRef, target: JobTable, indices: tuple[Any, ...], leaf: Leaf) -> Group:
        members: list[Source] = []
        for row in self._rows_at(target, indices):
            if not _fits(indices, target.rows[row]):
                continue
            if not leaf:
                number = self._artifact(target, ref, leaf, row)
                assert number is not None
                members.append(ArtifactAt(target.number, number, row))
                continue
            for (output, have), (number, _) in self._leaf_numbers(target, row).items():
                if output == ref.output and len(have) == len(leaf):
                    pairs = zip(leaf, have, strict=True)
                    if all(want[0] == h[0] and _fits(want[1], h[1]) for want, h in pairs):
                        members.append(ArtifactAt(target.number, number, row))
        return Group(tuple(members))

    def _rows_at(self, target: JobTable, indices: tuple[Any, ...]) -> Sequence[int]:
        """The rows with these indices where they are fixed. All fan-ins of a kind share one table of them."""
        fixed = tuple(place for place, index in enumerate(indices) if index is not EVERY)
        if not fixed:
            return range(len(target))
        found = self.scope.rows_at.get((target.number, fixed))
        if found is None:
            found = self.scope.rows_at[target.number, fixed] = {}
            for row, values in enumerate(target.rows):
                found.setdefault(tuple(values[place] for place in fixed), []).append(row)
        return found.get(tuple(indices[place] for place in fixed), ())

    def _check_empty(self, ref: OutputRef, target: JobTable, indices: tuple[Any, ...], position: int) -> None:
        """A fan-in may be empty because `exclude:` removes instances, but not because its loop lacks an index."""
        scope = self.scope.of_table[target.name]
        for place, (loop, index) in enumerate(zip(target.decl.loops, indices, strict=True)):
            if index is EVERY:
                continue
            at = scope.loop_position[loop].get(index)
            known = [scope.loops[loop][at]] if at is not None else [r[place] for r in target.rows if r[place] == index]
            if known:
                if not _same_spelling((index,), known[:1]):
                    self._report_spelling(ref, f"[{format_index(index)}]", f"[{format_index(known[0])}]", position)
                continue
            values = few([format_index(value) for value in scope.loops[loop]])
            message = f"`{format_index(index)}` is not a value of `{own_name(loop)}`, the loop of `{target.name}` here"
            order = ", ".join(map(own_name, target.decl.loops))
            hint = f"its values are {values}; the order of the loops is `{ref.output}[{order}]`"
            self._report(ref, "INDEX_OUT_OF_RANGE", message, position, hint)
            return

    def _artifact(self, target: JobTable, ref: OutputRef, leaf: Leaf, row: int) -> int | None:
        number, have = self._leaf_numbers(target, row).get((ref.output, leaf), (None, ()))
        alike = not leaf or all(_same_spelling(want[1], here[1]) for want, here in zip(leaf, have, strict=False))
        return number if alike else None

    def _leaf_numbers(self, target: JobTable, row: int) -> dict[tuple[str, Leaf], tuple[int, Leaf]]:
        """(output, leaf path) → artifact number, and the path as it is spelled there.

        One for all rows, unless a leaf's path uses the job's own loop.
        """
        own = any(spec.leaf_by_row is not None for spec in target.artifacts)
        key = (target.base + row) if own else -1 - target.number
        found = self.scope.leaves.get(key)
        if found is None:
            split = [(spec.output, _split_leaf(spec.leaf_at(row))) for spec in target.artifacts]
            found = {key: (number, key[1]) for number, key in enumerate(split)}
            self.scope.leaves[key] = found
        return found

    # -- problems --

    def _report_index(self, ref: OutputRef, target: JobTable, indices: tuple[Any, ...], position: int) -> None:
        row = target.position_of.get(indices)
        if row is not None:
            self._report_spelling(ref, format_indices(indices), target.texts[row], position)
            return
        have = target.rows[0] if target.rows else ()
        for want, index in zip(indices, have, strict=False):
            if isinstance(want, str) != isinstance(index, str):
                kind = "words" if isinstance(index, str) else "numbers"
                self._report(
                    ref,
                    "INDEX_FORMAT_INVALID",
                    f"`{format_index(want)}` cannot be an index of `{target.name}`, whose indices are {kind}",
                    position,
                )
                return
        hint = f"its instances are {few([f'{target.name}{t}' for t in target.texts])}" if target.rows else None
        self._report(
            ref, "INDEX_OUT_OF_RANGE", f"`Job:{target.name}{format_indices(indices)}` does not exist", position, hint
        )

    def _report_spelling(self, ref: OutputRef, written: str, one: str, position: int) -> None:
        message = f"`{written}` is not an index of `{ref.job}`: write `{one}`"
        self._report(ref, "INDEX_FORMAT_INVALID", message, position, "a whole number and a decimal are two indices")


def _moved(selectors: Sequence[Selector]) -> Loop | None:
    return next((s for s in selectors if isinstance(s, Loop) and s.offset), None)


def _leaf_orders(
    leaves: Sequence[LeafDecl], ref: OutputRef, of_loop: Callable[[str], Order]
) -> list[tuple[Order, ...]]:
    """For the selectors of each part of a leaf's path: the indices that the output declares there."""
    names = [(name, len(selectors)) for name, selectors in ref.leaf]
    alike = [leaf.path for leaf in leaves if [(name, len(selectors)) for name, selectors in leaf.path] == names]

    def order(part: int, number: int) -> Order:
        declared = [path[part][1][number] for path in alike]
        if len(declared) == 1 and isinstance(declared[0], Loop):
            return of_loop(declared[0].loop)
        values: dict[Index, None] = {}
        for selector in declared:
            values.update(dict.fromkeys(of_loop(selector.loop).values if isinstance(selector, Loop) else ()))
            values.update({selector.index: None} if isinstance(selector, At) else {})
        position = {value: i for i, value in enumerate(values)}
        return Order(tuple(values), position, f"`{names[part][0]}` of `{ref.job}.{ref.output}`")

    return [tuple(order(part, number) for number in range(count)) for part, (_, count) in enumerate(names)]


def _split_leaf(text: str) -> Leaf:
    if not text:
        return ()
    return tuple((s.name, s.indices) for s in parse_id(f"Artifact:x{text}").segments[1:])


def _fits(wanted: Sequence[Any], have: Sequence[Index]) -> bool:
    return len(wanted) == len(have) and all(
        w is EVERY or (w == h and _same_spelling((w,), (h,))) for w, h in zip(wanted, have, strict=True)
    )


def _has_decimals(scope: Scope, table: JobTable) -> bool:
    values = [scope.loops[loop] for loop in table.decl.loops if not isinstance(scope.loops[loop], range)]
    added = [list(entry.values()) for entry in table.decl.include]
    return any(float in map(type, indices) for indices in (*values, *added))


def _same_spelling(one: Sequence[Index], other: Sequence[Index]) -> bool:
    """Do equal indices also have the same spelling? `2` and `2.0` do not, nor do `0.0` and `-0.0`."""
    kinds = list(map(type, one))
    return kinds == list(map(type, other)) and (float not in kinds or format_indices(one) == format_indices(other))
