"""References inside expressions: `inputs.Grid[row][0]`, `jobs.Intro.Script.outputs.Story[2].Segments[0].Title`.

It turns the chain of names and selectors into a `Ref` and checks it against the declarations of the workflow. All
mistakes that are known without the values of inputs are reported here, at the wrong word.
"""

from __future__ import annotations

import ast

import msgspec

from whyrun.errors import did_you_mean
from whyrun.workflow.arrays import element_problem, element_type
from whyrun.workflow.model import (
    VALUE_TYPES,
    All,
    At,
    InputRef,
    Loop,
    OutputRef,
    Place,
    Ref,
    Selector,
    Type,
)
from whyrun.workflow.nodes import Problems
from whyrun.workflow.scope import UNKNOWN_JOB, AnyName, InputShape, JobShape, OutputShape, Scope, Text

# --- selectors ---------------------------------------------------------------------------------------------------
#
# The parts of a reference: its chain of names, and the selectors `[3]`, `["asia"]`, `[loop-1]`, `[:]`.


Part = ast.Attribute | ast.Subscript


class Refused(Exception):
    """The expression is invalid, and its problem is reported."""


class SelectorReader:
    """Reads the parts of one expression's references."""

    def __init__(self, text: Text, scope: Scope, problems: Problems) -> None:
        self.text = text
        self.scope = scope
        self.problems = problems

    def refuse(self, place: Place, code: str, message: str, hint: str | None = None) -> Refused:
        self.problems.add(place, code, message, hint)
        return Refused()

    def _source(self, node: ast.AST) -> str:
        start, end = self.text.span(node)
        return self.text.text[start:end]

    def selectors(self, parts: list[Part], position: int) -> tuple[list[tuple[Selector, Place]], int]:
        selectors: list[tuple[Selector, Place]] = []
        while position < len(parts):
            part = parts[position]
            if not isinstance(part, ast.Subscript):
                break
            written = part.slice.elts if isinstance(part.slice, ast.Tuple) and part.slice.elts else [part.slice]
            selectors.extend((self._selector(node, part), self._selector_place(node, part)) for node in written)
            position += 1
        return selectors, position

    def _selector_place(self, node: ast.expr, part: ast.Subscript) -> Place:
        if isinstance(node, ast.Slice):
            # In some versions of Python the slice `:` has an empty width.
            start, end = self.text.span(node)
            return self.text.locate(start, max(1, end - start))
        return self.text.place(node)

    def _selector(self, node: ast.expr, part: ast.Subscript) -> Selector:
        if isinstance(node, ast.Slice):
            if node.lower is None and node.upper is None and node.step is None:
                return All()
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, int | float | str) and not isinstance(node.value, bool):
                return At(node.value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = node.operand
            if (
                isinstance(inner, ast.Constant)
                and isinstance(inner.value, int | float)
                and type(inner.value) is not bool
            ):
                return At(-inner.value)
        elif isinstance(node, ast.Name):
            return Loop(self._loop(node))
        elif isinstance(node, ast.BinOp) and isinstance(node.left, ast.Name) and isinstance(node.right, ast.Constant):
            step = node.right.value
            if type(step) is int and isinstance(node.op, ast.Add | ast.Sub):
                return Loop(self._loop(node.left), step if isinstance(node.op, ast.Add) else -step)
        raise self.refuse(
            self._selector_place(node, part),
            "EXPRESSION_FORBIDDEN",
            f"`[{self._source(node)}]` is not a selector",
            'selectors are `[3]`, `["asia"]`, `[loop]`, `[loop-1]`, `[loop+1]` and `[:]`',
        )

    def _loop(self, node: ast.Name) -> str:
        check_loop(node.id, self.text.place(node), self.scope, self.problems)
        return node.id


def chain_of(node: ast.expr) -> tuple[ast.expr, list[Part]]:
    """`a.b[c].d` → `a` and its parts from left to right."""
    parts: list[Part] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        parts.append(node)
        node = node.value
    return node, parts[::-1]


def check_loop(name: str, place: Place, scope: Scope, problems: Problems) -> None:
    """Check that a bare name, which is always a loop variable, is a loop of the job."""
    if "loops" in scope.roots and name in scope.loops:
        return
    if isinstance(scope.names.loops, AnyName) and not scope.names.loops.is_read(name):
        raise Refused  # it may be declared in a part that could not be read
    if name in scope.names.loops:
        if "loops" in scope.roots:
            whose = "input" if scope.before_files else "import" if scope.of_import else "job"
            message = f"the loop `{name}` is not in this {whose}'s `for:`"
            hint = f"add it: `for: [{', '.join([*scope.loops, name])}]`"
        else:
            message, hint = f"there is no loop `{name}` {scope.where}", "use inputs and literals"
    else:
        message = f"there is no loop `{name}`"
        hint = did_you_mean(name, sorted(scope.names.loops)) or "declare it under `loops:`"
    problems.add(place, "UNKNOWN_LOOP", message, hint)
    raise Refused


# --- references --------------------------------------------------------------------------------------------------


class Resolved(msgspec.Struct, frozen=True):
    """A reference with the type of its value, if that is known."""

    ref: Ref
    type: Type | None
    fan_in: bool
    leaf: bool = False
    loops: tuple[str, ...] | None = ()  # of the job or input that is selected from; None: not known

    @property
    def is_value(self) -> bool:
        """Whether expressions can compute with it: everything except files, folders and whole JSON outputs."""
        if self.type is None:
            return True
        if self.type.base in VALUE_TYPES:
            return True
        return self.type.base == "json" and (self.leaf or isinstance(self.ref, InputRef))

    @property
    def is_list(self) -> bool:
        return self.fan_in or self.type is None or self.type.depth > 0


class ReferenceReader(SelectorReader):
    def read(self, node: ast.expr) -> Resolved:
        """A chain that begins with `inputs` or `jobs`."""
        root, parts = chain_of(node)
        assert isinstance(root, ast.Name)
        return self._input(root, parts, node) if root.id == "inputs" else self._output(root, parts, node)

    def name_at(self, parts: list[Part], position: int, root: ast.Name, expected: str) -> ast.Attribute:
        """The attribute at this position of the chain; refused with a hint to write `expected`."""
        if position >= len(parts):
            whole = parts[-1] if parts else root
            raise self.refuse(
                self.text.place(whole),
                "UNKNOWN_REFERENCE",
                f"`{self._source(whole)}` is not complete",
                f"write {expected}",
            )
        part = parts[position]
        if isinstance(part, ast.Subscript):
            raise self.refuse(
                self.text.place(part),
                "UNKNOWN_REFERENCE",
                f"`{self._source(part)}`: a name is expected here",
                f"write {expected}",
            )
        return part

    # --- inputs ---------------------------------------------------------------------------------------------------

    def _input(self, root: ast.Name, parts: list[Part], node: ast.expr) -> Resolved:
        name = self.name_at(parts, 0, root, "`inputs.NAME`")
        known = self.scope.names.inputs
        if name.attr not in known:
            raise self.refuse(
                self.text.attribute_place(name),
                "UNKNOWN_REFERENCE",
                f"the workflow has no input `{name.attr}`",
                did_you_mean(name.attr, list(known)) or "declare it under `inputs:`",
            )
        shape = known[name.attr]
        steps = self._steps(parts)
        if shape is not None and shape.is_computed and self.scope.before_files:
            message = f"`inputs.{name.attr}` cannot be used {self.scope.where}: its own path is computed"
            raise self.refuse(self.text.place(node), "EXPRESSION_FORBIDDEN", message, "use what its `path:` uses")
        of_array = len(steps) if shape is None else min(shape.depth, len(steps))
        for number, (step, place, is_name) in enumerate(steps):
            if number >= of_array and shape is not None:
                self._check_field(name.attr, shape, (step, place, is_name), of_array)
            elif is_name and shape is not None:
                self._refuse_name(name.attr, shape, place)
            elif isinstance(step, At) and shape is not None and not shape.loops:
                self._check_fixed(name.attr, shape, step, place)
        if shape is not None and len(steps) < len(shape.loops):
            loops = ", ".join(shape.loops)
            message = f"the input `{name.attr}` is one file for each [{loops}]: it needs an index"
            every = ", ".join(":" for _ in shape.loops)
            hint = f"write `{name.attr}[{loops}]` for one, `{name.attr}[{every}]` for all"
            raise self.refuse(self.text.place(node), "LOOP_MISMATCH", message, hint)
        if shape is None:
            of_array = next((number for number, (_, _, is_name) in enumerate(steps) if is_name), len(steps))
        selectors, fields = (tuple(step for step, _, _ in some) for some in (steps[:of_array], steps[of_array:]))
        ref = InputRef(name.attr, selectors, self.text.place(node), fields)
        fan_in = any(isinstance(s, All) for s in ref.selectors)
        if shape is None or fields:
            return Resolved(
                ref, None, fan_in, loops=shape.loops if shape is not None else None
            )  # the type of a field is that of its value
        return Resolved(ref, Type(shape.type.base, shape.depth - len(ref.selectors)), fan_in, loops=shape.loops)

    def _steps(self, parts: list[Part]) -> list[tuple[Selector, Place, bool]]:
        """What follows the name of an input; the last is whether it is written as a name: `.size`."""
        steps: list[tuple[Selector, Place, bool]] = []
        position = 1
        while position < len(parts):
            part = parts[position]
            if isinstance(part, ast.Attribute):
                steps.append((At(part.attr), self.text.attribute_place(part), True))
                position += 1
            else:
                selectors, position = self.selectors(parts, position)
                steps.extend((selector, place, False) for selector, place in selectors)
        return steps

    def _refuse_name(self, name: str, shape: InputShape, place: Place) -> None:
        hint = "declare an input of its own for this part"
        if shape.type.base == "json" and shape.type.depth:
            hint = f"name an element first: `inputs.{name}[0].…`, `inputs.{name}[loop].…`"
        raise self.refuse(place, "UNKNOWN_REFERENCE", f"the input `{name}` has no parts with names", hint)

    def _check_field(self, name: str, shape: InputShape, step: tuple[Selector, Place, bool], of_array: int) -> None:
        selector, place, is_name = step
        if shape.type.base != "json":
            if is_name:
                self._refuse_name(name, shape, place)
            message = f"the input `{name}` has type `{shape.type}`: there is no array to select from here"
            hint = "remove this index" if of_array else "remove the index, or declare an array type"
            raise self.refuse(place, "INDEX_PARENT_NOT_ARRAY", message, hint)
        if isinstance(selector, At):
            if isinstance(selector.index, str) or (isinstance(selector.index, int) and selector.index >= 0):
                return
            message, hint = f"`{selector.index}` is no field and no index of a list", "items are counted from 0"
            raise self.refuse(place, "INDEX_FORMAT_INVALID", message, hint)
        if isinstance(selector, All) or selector.offset:
            message = f"`[{selector}]` selects from arrays and loops, not within a JSON value"
            raise self.refuse(place, "EXPRESSION_FORBIDDEN", message, "name one field, or take the whole value")

    def _check_fixed(self, name: str, shape: InputShape, selector: At, place: Place) -> None:
        if shape.has_keys:
            if isinstance(selector.index, str):
                return
            message = f"the elements of `{name}` have keys, so `{selector.index}` is not an index"
            hint = f'write its key in quotes, such as `["{selector.index}"]`'
        elif isinstance(selector.index, int) and selector.index >= 0:
            return
        else:
            message, hint = f"`{selector.index}` is not an index of an input array", "elements are counted from 0"
            if isinstance(selector.index, str) and (shape.type.is_path or shape.type.base == "json"):
                hint += "; with `key:` the input can name them"
        raise self.refuse(place, "INDEX_FORMAT_INVALID", message, hint)

    # --- outputs --------------------------------------------------------------------------------------------------

    def _output(self, root: ast.Name, parts: list[Part], node: ast.expr) -> Resolved:
        names, path, position = self.scope.names, "", 0
        while True:
            name = self.name_at(parts, position, root, "`jobs.JOB.outputs.OUTPUT`")
            position += 1
            if name.attr in names.imports:
                inner = names.imports[name.attr]
                if inner is None:
                    raise Refused  # the imported file is broken, and that is reported
                names, path = inner, f"{path}{name.attr}/"
                continue
            break
        job = names.jobs.get(name.attr)
        if job is None:
            where = f"the import `{path[:-1]}`" if path else "the workflow"
            raise self.refuse(
                self.text.attribute_place(name),
                "UNKNOWN_REFERENCE",
                f"{where} has no job `{name.attr}`",
                did_you_mean(name.attr, [*names.jobs, *names.imports]),
            )
        if job is UNKNOWN_JOB:
            raise Refused  # it could not be read, or it may be an import that could not
        job_name = path + name.attr
        keyword = self.name_at(parts, position, root, f"`jobs.{job_name.replace('/', '.')}.outputs.OUTPUT`")
        if keyword.attr != "outputs":
            raise self.refuse(
                self.text.attribute_place(keyword),
                "UNKNOWN_REFERENCE",
                f"job `{job_name}` has no `{keyword.attr}`",
                f"write `jobs.{job_name.replace('/', '.')}.outputs.{keyword.attr}`"
                if job.outputs and keyword.attr in job.outputs
                else "refer to an output: `.outputs.NAME`",
            )
        output = self.name_at(parts, position + 1, root, "the name of an output")
        if job.outputs is None:
            raise Refused
        if output.attr not in job.outputs:
            raise self.refuse(
                self.text.attribute_place(output),
                "UNKNOWN_REFERENCE",
                f"job `{job_name}` has no output `{output.attr}`",
                did_you_mean(output.attr, list(job.outputs)),
            )
        begin = position + 2
        selectors, position = self.selectors(parts, begin)
        shape = job.outputs[output.attr]
        if shape.is_array and not self.scope.takes_arrays:
            wrong = element_problem(job.loops, job_name, output.attr, [selector for selector, _ in selectors])
            if wrong is not None:
                number, code, message, hint = wrong
                place = self.text.attribute_place(output) if number is None else selectors[number][1]
                raise self.refuse(place, code, message, hint)
        else:
            self._check_loops(job, job_name, output, selectors)
        if position > begin + 1 and job.loops:
            self._refuse_chain(job.loops, job_name, output, parts[begin:position])
        leaf, leaf_places = self._leaf(parts, position, root)
        ref = OutputRef(job_name, output.attr, tuple(s for s, _ in selectors), leaf, self.text.place(node))
        kind = element_type(shape.type) if shape.is_array and shape.type is not None else shape.type
        if leaf:
            kind = self._leaf_type(shape, output.attr, leaf, leaf_places)
        fan_in = any(isinstance(s, All) for part in (ref.selectors, *(s for _, s in leaf)) for s in part)
        return Resolved(ref, None if kind is None else Type(kind), fan_in, bool(leaf), job.loops)

    def _check_loops(
        self, job: JobShape, name: str, output: ast.Attribute, selectors: list[tuple[Selector, Place]]
    ) -> None:
        if job.loops is None or len(selectors) == len(job.loops):
            return
        loops = ", ".join(job.loops)
        if not job.loops:
            raise self.refuse(
                selectors[0][1],
                "LOOP_MISMATCH",
                f"job `{name}` has no loop, so its output `{output.attr}` has no index",
                "remove the index",
            )
        every = ", ".join(":" for _ in job.loops)
        if not selectors:
            message = f"job `{name}` runs for [{loops}]: its output `{output.attr}` needs an index"
            place = self.text.attribute_place(output)
        else:
            message = f"job `{name}` runs for [{loops}]: {len(job.loops)} selectors are needed, not {len(selectors)}"
            place = selectors[-1][1]
        raise self.refuse(
            place, "LOOP_MISMATCH", message, f"write `{output.attr}[{loops}]` for one, `{output.attr}[{every}]` for all"
        )

    def _refuse_chain(self, loops: tuple[str, ...], name: str, output: ast.Attribute, parts: list[Part]) -> None:
        """Refuse `X[a][b]`, a second spelling of `X[a, b]`. Only arrays of arrays take several brackets."""
        inside = [self._source(part.slice) for part in parts if isinstance(part, ast.Subscript)]
        second = parts[1]
        assert isinstance(second, ast.Subscript)
        start, end = self.text.span(second.slice)
        raise self.refuse(
            self.text.locate(start, max(1, end - start)),
            "LOOP_MISMATCH",
            f"job `{name}` runs for [{', '.join(loops)}]: its selectors belong in one pair of brackets",
            f"write `{output.attr}[{', '.join(inside)}]`",
        )

    def _leaf(
        self, parts: list[Part], position: int, root: ast.Name
    ) -> tuple[tuple[tuple[str, tuple[Selector, ...]], ...], list[Place]]:
        leaf: list[tuple[str, tuple[Selector, ...]]] = []
        places: list[Place] = []
        while position < len(parts):
            name = self.name_at(parts, position, root, "a name")
            selectors, position = self.selectors(parts, position + 1)
            leaf.append((name.attr, tuple(s for s, _ in selectors)))
            places.append(self.text.attribute_place(name))
        return tuple(leaf), places

    def _leaf_type(
        self,
        shape: OutputShape,
        output: str,
        leaf: tuple[tuple[str, tuple[Selector, ...]], ...],
        places: list[Place],
    ) -> str | None:
        if shape.leaves is None:
            return None
        candidates = list(shape.leaves)
        for depth, (name, selectors) in enumerate(leaf):
            named = [c for c in candidates if len(c.path) > depth and c.path[depth][0] == name]
            if not named:
                known = sorted({c.path[depth][0] for c in candidates if len(c.path) > depth})
                raise self.refuse(
                    places[depth],
                    "UNKNOWN_REFERENCE",
                    f"output `{output}` has no declared leaf `{'.'.join(part for part, _ in leaf[: depth + 1])}`",
                    did_you_mean(name, known) or "declare it under the output's `leaves:`",
                )
            candidates = [c for c in named if _selectors_fit(c.path[depth][1], selectors)]
            if not candidates:
                raise self.refuse(
                    places[depth],
                    "UNKNOWN_REFERENCE",
                    f"output `{output}` has no declared leaf with these indices at `{name}`",
                    "declared: " + ", ".join(f"`{c.text}`" for c in named[:5]),
                )
        for candidate in candidates:
            if len(candidate.path) == len(leaf):
                return candidate.type
        raise self.refuse(
            places[-1],
            "UNKNOWN_REFERENCE",
            f"`{leaf[-1][0]}` is not a declared leaf of output `{output}`, only a part of one",
            "declared: " + ", ".join(f"`{c.text}`" for c in candidates[:5]),
        )


def _selectors_fit(declared: tuple[Selector, ...], used: tuple[Selector, ...]) -> bool:
    if len(declared) != len(used):
        return False
    return all(not (isinstance(d, At) and isinstance(u, At)) or d == u for d, u in zip(declared, used, strict=True))
