"""Imports that repeat, depend or get results: passed on to the jobs that they bring in. Pure.

`for:`, `if:` and `needs:` of an import become those of each of its jobs, and an input that an artifact feeds becomes
that artifact. So the graph knows jobs, loops and references only. What comes from an importing file keeps its name
there, from the root: see `ids.absolute`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as changed
from typing import Any

import msgspec
from msgspec.structs import replace

from whyrun.ids import absolute
from whyrun.workflow.expressions.expression import evaluate
from whyrun.workflow.model import (
    Expression,
    FanIn,
    First,
    Formatted,
    ImportDecl,
    InputRef,
    JobDecl,
    Loop,
    LoopDecl,
    OutputDecl,
    OutputRef,
    Ref,
    Selector,
    Template,
    Value,
    Workflow,
)
from whyrun.workflow.nodes import Problems
from whyrun.workflow.parsing.result_loops import FITS, Feed, Refusal, fed, key_problem, leaf_like, reads_jobs, refs_of

_OF_THIS_FILE = "give it a value, or an input of this workflow"
_COUNTED = "let a job compute the number, hand that in, and write `count: inputs.NAME`"


class _Outer(msgspec.Struct, frozen=True):
    """What the imports that lead to a file give to its jobs."""

    prefix: str = ""  # `Video/`
    loops: tuple[str, ...] = ()
    condition: Expression | None = None
    needs: tuple[str, ...] = ()
    feeds: Mapping[str, Feed] = {}
    varying: frozenset[str] = frozenset()  # inputs whose values may differ between indices of `loops`


def linked(workflow: Workflow, problems: Problems) -> Workflow:
    """The workflow with the keys of its imports passed on. Reports uses of inputs that artifacts cannot feed."""
    if not _needs_linking(workflow):
        return workflow
    return _Linker(workflow, problems).file(workflow, _Outer())


def _needs_linking(workflow: Workflow) -> bool:
    return any(
        each.loops or each.condition or each.needs or reads_jobs(each.with_.values()) or _needs_linking(each.workflow)
        for each in workflow.imports.values()
    )


def _uses_loops(template: Template) -> bool:
    if isinstance(template, Expression) and template.loops:
        return True
    if isinstance(template, Formatted):
        return any(map(_uses_loops, template.parts))
    if isinstance(template, dict | list):
        return any(map(_uses_loops, template.values() if isinstance(template, dict) else template))
    return any(
        isinstance(s, Loop)
        for ref in refs_of(template)
        for s in (*ref.selectors, *(ref.fields if isinstance(ref, InputRef) else ()))
    )


class _Linker:
    def __init__(self, root: Workflow, problems: Problems) -> None:
        self.root, self.problems = root, problems

    def file(self, workflow: Workflow, outer: _Outer) -> Workflow:
        return _File(self, workflow, outer).linked()

    def output(self, job: str, output: str) -> OutputDecl | None:
        """By the name of the job from the root. None if it could not be read."""
        *imports, name = job.split("/")
        flow = self.root
        for each in imports:
            if each not in flow.imports:
                return None
            flow = flow.imports[each].workflow
        decl = flow.jobs.get(name)
        return decl.outputs.get(output) if decl is not None else None


class _File:
    """One file, as one import has it."""

    def __init__(self, linker: _Linker, workflow: Workflow, outer: _Outer) -> None:
        self.linker, self.workflow, self.outer = linker, workflow, outer
        self.own = tuple(Loop(name) for name in outer.loops)
        self.loops: Mapping[str, LoopDecl] = {}  # linked

    def linked(self) -> Workflow:
        flow, outer = self.workflow, self.outer
        for decl in flow.inputs.values():
            self._refuse_fed(decl.path, f"`path:` of the input `{decl.name}`")
        loops = self.loops = self._loops()
        return replace(
            flow,
            inputs={name: decl for name, decl in flow.inputs.items() if name not in outer.feeds},
            loops=loops,
            jobs={name: self._job(decl) for name, decl in flow.jobs.items()},
            imports={name: self._import(decl) for name, decl in flow.imports.items()},
        )

    # --- jobs -----------------------------------------------------------------------------------------------------

    def _job(self, decl: JobDecl) -> JobDecl:
        what = f"job `{decl.name}`"
        for output in decl.outputs.values():
            self._refuse_fed(output.path, f"`path:` of {what}")
            self._refuse_fed(output.key, f"`key:` of {what}")
        self._refuse_fed(decl.uses_by, f"`uses:` of {what}")
        condition = decl.condition and self._expression(decl.condition, f"`if:` of {what}", alone=False)
        return replace(
            decl,
            loops=(*self.outer.loops, *decl.loops),
            condition=_both(self.outer.condition, condition),
            needs=tuple(dict.fromkeys((*self.outer.needs, *decl.needs))),
            with_={name: self._template(each, f"`with.{name}` of {what}") for name, each in decl.with_.items()},
            env={name: self._template(each, f"`env.{name}` of {what}") for name, each in decl.env.items()},
        )

    def _refuse_fed(self, template: Template, what: str, hint: str = _OF_THIS_FILE) -> None:
        for name in dict.fromkeys(ref.name for ref in refs_of(template) if isinstance(ref, InputRef)):
            if name in self.outer.feeds:
                message = f"the input `{name}` gets a result of a job, and {what} uses it before any job runs"
                self._refuse(name, Refusal(message, hint))

    def _refuse(self, name: str, refusal: Refusal) -> None:
        feed = self.outer.feeds[name]
        self.linker.problems.add(feed.place, refusal.code, refusal.message, refusal.hint)

    # --- expressions ----------------------------------------------------------------------------------------------

    def _template(self, template: Template, what: str) -> Any:
        if isinstance(template, Expression):
            return self._expression(template, what)
        if isinstance(template, Formatted):
            whole = (self._expression(p, what, alone=False) if isinstance(p, Expression) else p for p in template.parts)
            return replace(template, parts=tuple(whole))
        if isinstance(template, list):
            return [self._template(item, what) for item in template]
        if isinstance(template, dict):
            return {key: self._template(item, what) for key, item in template.items()}
        return template

    def _expression(self, expression: Expression, what: str, *, alone: bool = True) -> Expression:
        """`alone`: it may be a binding, if it is one whole reference."""
        alone = alone and expression.whole is not None
        refs = tuple(self._value(value, what, alone=alone) for value in expression.refs)
        whole = None if expression.whole is None else refs[0]
        return changed(expression, refs=refs, whole=whole)

    def _value(self, value: Value, what: str, *, alone: bool) -> Value:
        if isinstance(value, First):
            return replace(value, candidates=tuple(self._ref(ref, what, alone=alone) for ref in value.candidates))
        if isinstance(value, FanIn):
            return self._fan_in(value, what)
        return self._ref(value, what, alone=alone)

    def _fan_in(self, value: FanIn, what: str) -> FanIn:
        if isinstance(value.ref, InputRef) and value.ref.name in self.outer.feeds:
            name = "named" if value.named else "where"
            message = f"{what} uses `{name}` with the input `{value.ref.name}`, which gets a result of a job"
            self._refuse(value.ref.name, Refusal(message, f"use `{name}` in the workflow whose job makes the results"))
            return value
        ref = self._ref(value.ref, what, alone=True)
        loops = (*self.outer.loops, *value.loops) if isinstance(value.ref, OutputRef) else value.loops
        predicate = value.predicate and self._expression(value.predicate, what)
        return replace(value, ref=ref, loops=loops, predicate=predicate)

    def _ref(self, ref: Ref, what: str, *, alone: bool, whole_array: bool = False) -> Ref:
        if isinstance(ref, OutputRef):
            return replace(ref, selectors=(*self.own, *ref.selectors))
        feed = self.outer.feeds.get(ref.name)
        if feed is None:
            return ref
        try:
            return fed(feed, ref, what, alone=alone, whole_array=whole_array)
        except Refusal as refusal:
            self._refuse(ref.name, refusal)
            return ref

    # --- loops ----------------------------------------------------------------------------------------------------

    def _loops(self) -> dict[str, LoopDecl]:
        found: dict[str, LoopDecl] = {}
        for name, decl in self.workflow.loops.items():  # each behind those that it depends on
            linked = self._loop(decl)
            used = (*(other for each in decl.after for other in found[each].after if each in found), *linked.after)
            found[name] = replace(linked, after=tuple(dict.fromkeys(sorted(used, key=self._loop_order))))
        return found

    def _loop_order(self, name: str) -> int:
        order = (*self.outer.loops, *self.workflow.loops)
        return order.index(name)

    def _loop(self, decl: LoopDecl) -> LoopDecl:
        source, outer = decl.source, self.outer
        if isinstance(source, OutputRef):
            return replace(decl, source=self._ref(source, "", alone=True), after=(*outer.loops, *decl.after))
        if isinstance(source, InputRef) and source.name in outer.feeds:
            try:
                return self._over_result(decl, source, outer.feeds[source.name])
            except Refusal as refusal:
                self._refuse(source.name, refusal)
                return decl
        self._refuse_fed(source, f"`{decl.kind}` of the loop `{decl.name}`", _COUNTED)
        refs = [source] if isinstance(source, InputRef) else refs_of(source)
        if outer.loops and any(isinstance(ref, InputRef) and ref.name in outer.varying for ref in refs):
            return replace(decl, after=(*outer.loops, *decl.after))
        return decl

    def _over_result(self, decl: LoopDecl, source: InputRef, feed: Feed) -> LoopDecl:
        what = f"the loop `{decl.name}`"
        kind = decl.kind
        type_ = feed.type
        ref = fed(feed, source, what, alone=True, whole_array=True)
        if feed.is_list:
            message = f"{what} goes over the input `{source.name}`, which gets many results"
            hint = "run the import for the loop that makes them, or hand in one output that is an array"
            raise Refusal(message, hint, "LOOP_MISMATCH")
        if ref.leaf:
            type_ = leaf_like(feed.output, ref.leaf) or "json"
        fits = type_ in FITS.get(kind, ())
        if not fits or (type_ == "json" and not ref.leaf):
            message = f"{what} (`{kind}`) cannot go over a result of type `{type_}`"
            raise Refusal(message, "`each` goes over an array, `count` over an integer, `values` over a list of texts")
        used = [s.loop for s in (*ref.selectors, *(s for _, part in ref.leaf for s in part)) if isinstance(s, Loop)]
        return replace(decl, source=ref, after=(*used, *decl.after))

    # --- imports --------------------------------------------------------------------------------------------------

    def _import(self, decl: ImportDecl) -> ImportDecl:
        outer, prefix = self.outer, self.outer.prefix
        what = f"import `{decl.name}`"
        if self._runs_for_results(decl, what):
            return replace(decl, broken=decl.broken | {"for"})
        own = decl.condition and self._expression(decl.condition, f"`if:` of {what}", alone=False)
        condition = _both(outer.condition, self._absolute(own))
        with_ = {name: self._with_entry(each, f"`with.{name}` of {what}") for name, each in decl.with_.items()}
        feeds: dict[str, Feed] = {}
        for name, each in with_.items():
            if isinstance(each, Expression) and isinstance(each.whole, OutputRef):
                self._feed(decl, name, each.whole, feeds)
        given = {name: each for name, each in with_.items() if name not in feeds}
        inner = _Outer(
            prefix=f"{prefix}{decl.name}/",
            loops=(*outer.loops, *("/" + prefix + name for name in decl.loops)),
            condition=condition,
            needs=tuple(dict.fromkeys((*outer.needs, *("/" + absolute(prefix, job) for job in decl.needs)))),
            feeds=feeds,
            varying=frozenset(name for name, each in given.items() if self._varies(each)),
        )
        results = {name: feed.ref for name, feed in feeds.items()}
        file = self.linker.file(decl.workflow, inner)
        return replace(decl, workflow=file, with_=given, condition=None, needs=(), feeds=results)

    def _runs_for_results(self, decl: ImportDecl, what: str) -> bool:
        """Whether `for:` has a loop over an input that a result feeds, which is refused where it is handed in."""
        for name in decl.loops:
            for each in (name, *(self.loops[name].after if name in self.loops else ())):
                source = self.workflow.loops[each].source if each in self.workflow.loops else None
                if isinstance(source, InputRef) and source.name in self.outer.feeds:
                    message = f"the input `{source.name}` gets a result of a job, and {what} runs for `{name}` over it"
                    hint = f"hand the list on to {what}, whose workflow has the loop; or give it an input"
                    self._refuse(source.name, Refusal(message, hint, "LOOP_MISMATCH"))
                    return True
        return False

    def _with_entry(self, template: Template, what: str) -> Template:
        if isinstance(template, Expression) and isinstance(template.whole, InputRef | OutputRef):
            ref = self._ref(template.whole, what, alone=True, whole_array=True)  # an array is handed on as an array
            return changed(template, refs=(ref,), whole=ref)
        self._refuse_fed(template, what)
        return template

    def _feed(self, decl: ImportDecl, name: str, ref: OutputRef, feeds: dict[str, Feed]) -> None:
        placed = _from_root(self.outer.prefix, ref)
        assert isinstance(placed, OutputRef)
        output = self.linker.output(absolute("", placed.job), ref.output)
        wanted = decl.workflow.inputs.get(name)
        place = decl.places.get(f"with.{name}", decl.place)
        if output is None or wanted is None or f"with.{name}" in decl.broken:
            return
        feed = Feed(placed, output, place)
        if (wrong := key_problem(wanted, feed)) is not None:
            self.linker.problems.add(place, "INPUT_TYPE", *wrong)
        feeds[name] = feed

    def _varies(self, template: Template) -> bool:
        reads = {ref.name for ref in refs_of(template) if isinstance(ref, InputRef)}
        return _uses_loops(template) or not self.outer.varying.isdisjoint(reads)

    def _absolute(self, expression: Expression | None) -> Expression | None:
        """The expression as files further in have it."""
        if expression is None:
            return None
        prefix, name = self.outer.prefix, self.workflow.name
        refs = tuple(_from_root(prefix, value) for value in expression.refs)
        names = {each: each if each.startswith("/") else "/" + prefix + each for each in expression.loops}
        body = expression.body
        return changed(
            expression,
            refs=refs,
            whole=refs[0] if expression.whole is not None else None,
            loops=frozenset(names.values()),
            body=lambda values, given: body(
                values, {"workflow": {"name": name}, **{own: given[there] for own, there in names.items()}}
            ),
        )


# --- parts -----------------------------------------------------------------------------------------------------------


def _both(outer: Expression | None, own: Expression | None) -> Expression | None:
    """The condition of an import and that of a job in it."""
    if outer is None or own is None:
        return outer if own is None else own
    cut = len(outer.refs)

    def body(values: Sequence[Any], names: Mapping[str, Any]) -> Any:
        return evaluate(outer, values[:cut], names) and evaluate(own, values[cut:], names)

    return Expression(
        text=f"({outer.text}) and ({own.text})",
        place=own.place,
        body=body,
        refs=(*outer.refs, *own.refs),
        optional=outer.optional | {cut + i for i in own.optional},
        loops=outer.loops | own.loops,
        secrets=outer.secrets | own.secrets,
        env=outer.env | own.env,
        whole=None,
    )


def _from_root(prefix: str, value: Value) -> Value:
    """A reference as files further in have it."""

    def selector(each: Selector) -> Selector:
        is_own = isinstance(each, Loop) and not each.loop.startswith("/")
        return Loop("/" + prefix + each.loop, each.offset) if is_own else each  # type: ignore[union-attr]  # a `Loop`

    def selectors(some: Sequence[Selector]) -> tuple[Selector, ...]:
        return tuple(map(selector, some))

    if isinstance(value, First):
        return replace(value, candidates=tuple(_from_root(prefix, ref) for ref in value.candidates))
    if isinstance(value, FanIn):
        predicate = value.predicate
        if predicate is not None:
            predicate = changed(predicate, refs=tuple(_from_root(prefix, each) for each in predicate.refs))
        return replace(value, ref=_from_root(prefix, value.ref), predicate=predicate)
    if isinstance(value, InputRef):
        name = "/" + absolute(prefix, value.name)
        return replace(value, name=name, selectors=selectors(value.selectors), fields=selectors(value.fields))
    leaf = tuple((name, selectors(part)) for name, part in value.leaf)
    return replace(value, job="/" + absolute(prefix, value.job), selectors=selectors(value.selectors), leaf=leaf)
