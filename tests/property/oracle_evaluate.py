"""What an instance of a generated workflow consumes, written straight from the language's rules.

Knows nothing of Whyrun's graph or planner. Both oracles use it: one looks at contents, the other at what the log says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from oracle_flow import (
    All,
    Artifact,
    At,
    Const,
    Expr,
    First,
    Flow,
    Format,
    In,
    Index,
    Indices,
    Job,
    Keyed,
    Listed,
    Literal,
    Op,
    Out,
    Own,
    Selector,
    Term,
    Var,
    artifacts_of,
    has_reference,
    indices_text,
    is_fan_in,
    is_reference,
    job_id,
    loop_values,
    rows,
)

NOTHING = object()  # no value beside the hash: a file


class _Absent:
    pass


ABSENT = _Absent()  # a hole, or an artifact of an inactive instance


@dataclass(frozen=True)
class Waiting:
    """An artifact that is not known yet; `maybe`: its instance may turn out to be inactive."""

    maybe: bool


@dataclass(frozen=True)
class Item:
    """One thing consumed."""

    id: str
    sha256: str
    form: str  # v, a, f.txt, t.txt
    value: Any = NOTHING
    content: Any = None  # as the step sees it (see oracle_pure.normal)

    @property
    def token(self) -> tuple[str, str]:
        return self.form, self.sha256

    @property
    def inside(self) -> Item:
        """The same in a list or mapping: of what a function is given there, texts are files like others."""
        return replace(self, form=f"f{self.form[1:]}") if self.form.startswith("t") else self


Look = Item | Waiting | _Absent
Slot = Item | list[Item]


def plain_sha(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def text_sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Consumption:
    slots: dict[str, Slot] = field(default_factory=dict)  # those that are known
    unknown: set[str] = field(default_factory=set)
    shown: dict[str, Any] = field(default_factory=dict)
    pending: dict[Artifact, None] = field(default_factory=dict)
    absent: bool = False  # a required source is absent
    maybe: bool = False
    undecided: bool = False
    decision: bool | None = None

    @property
    def inactive(self) -> bool:
        return self.absent or self.decision is False


class Unknown(Exception):
    """A value that waits for a source, or never comes because one is absent."""


class Evaluator:
    def __init__(self, flow: Flow, look: Callable[[Artifact], Look]) -> None:
        self.flow = flow
        self.look = look

    def consume(self, job: Job, row: Indices) -> Consumption:
        found = Consumption()
        here = dict(zip(job.loops, row, strict=True))
        if job.condition is not None:
            self._condition(found, job.condition, here)
        self._slot(found, "call", Literal(f"{job.module}:run"), here, job_id(job.name, row))
        for name, term in job.with_:
            self._slot(found, name, term, here, job_id(job.name, row))
        for name, term in job.env:
            self._slot(found, f".env.{name}", term, here, job_id(job.name, row))
        return found

    # -- slots --

    def _slot(self, found: Consumption, name: str, term: Term, here: dict[str, Index], step: str) -> None:
        if isinstance(term, Listed) and has_reference(term):
            for i, item in enumerate(term.items):
                self._slot(found, f"{name}[{i}]", item, here, step)
        elif isinstance(term, Keyed) and has_reference(term):
            for key, item in term.items:
                self._slot(found, f"{name}.{key}", item, here, step)
        elif is_reference(term):
            self._binding(found, name, term, here)
        else:
            try:
                value = self._value(found, term, here)
            except Unknown:
                found.unknown.add(name)
                return
            found.slots[name] = Item(f"{step}.{name}", plain_sha(value), "v", value, value)

    def _binding(self, found: Consumption, name: str, term: Term, here: dict[str, Index]) -> None:
        if is_fan_in(term):
            members, waiting, ids = self._members(term, here)
            found.shown[name] = ids
            found.pending.update(dict.fromkeys(waiting))
            if waiting:
                found.unknown.add(name)
            else:
                found.slots[name] = [member.inside for member in members]
            return
        if isinstance(term, First):
            item, left = self._first(found, term, here)
            if not left:
                found.absent = True
                found.unknown.add(name)
                return
            found.shown[name] = left[0] if len(left) == 1 else {"first": left}
        else:
            assert isinstance(term, In | Out)
            (source,) = self._sources(term, here)
            found.shown[name] = source[1] if isinstance(source, tuple) else source.id
            item = self._required(found, source)
        if item is None:
            found.unknown.add(name)
        else:
            found.slots[name] = item.inside if "[" in name or "." in name else item

    def _required(self, found: Consumption, source: Any) -> Item | None:
        look = self._look(source)
        if isinstance(look, Item):
            return look
        if isinstance(look, Waiting):
            found.pending[source] = None
            found.maybe = found.maybe or look.maybe
        else:
            found.absent = True
        return None

    def _look(self, source: Any) -> Look:
        if source is None:
            return ABSENT
        return self.look(source) if isinstance(source, Artifact) else self.input_item(source[1], source[2])

    def _members(self, term: Term, here: dict[str, Index]) -> tuple[list[Item], list[Artifact], list[str]]:
        assert isinstance(term, In | Out)
        members: list[Item] = []
        waiting: list[Artifact] = []
        ids: list[str] = []
        for source in self._sources(term, here):
            look = self._look(source)
            if isinstance(look, _Absent):
                continue
            ids.append(source.id if isinstance(source, Artifact) else source[1])
            if isinstance(look, Item):
                members.append(look)
            else:
                waiting.append(source)
        return members, waiting, ids

    def _first(self, found: Consumption, term: First, here: dict[str, Index]) -> tuple[Item | None, list[str]]:
        """The chosen one, if that is certain, and the candidates that are left, up to the first surely active one."""
        left: list[str] = []
        for candidate in term.candidates:
            for source in self._sources(candidate, here):
                look = self._look(source)
                if isinstance(look, _Absent):
                    continue
                left.append(source.id if isinstance(source, Artifact) else source[1])
                if isinstance(look, Item):
                    return (look if len(left) == 1 else None), left
                found.pending[source] = None
                if not look.maybe:
                    return None, left
        found.maybe = found.maybe or bool(left)
        return None, left

    # -- sources: an Artifact, ("input", id, value), or None for a hole --

    def _sources(self, term: In | Out, here: dict[str, Index]) -> list[Any]:
        if isinstance(term, In):
            return self._elements(f"Input:{term.name}", self.flow.values[term.name], term.selectors, here)
        job = self.flow.jobs[term.job]
        wanted = [self._index(s, here, loop) for s, loop in zip(term.selectors, job.loops, strict=True)]
        leaf = tuple((name, tuple(self._index(s, here) for s in more)) for name, more in term.leaf)
        everything = [*wanted, *(i for _, more in leaf for i in more)]
        if None in everything:
            return [None]
        found = [
            artifact
            for row in rows(self.flow, job)
            if _fits(wanted, row)
            for artifact in artifacts_of(self.flow, job, row)
            if artifact.output == term.output
            and len(artifact.leaf) == len(leaf)
            and all(w[0] == h[0] and _fits(w[1], h[1]) for w, h in zip(leaf, artifact.leaf, strict=True))
        ]
        if not is_fan_in(term) and not found:
            return [None]
        return found

    def _index(self, selector: Selector, here: dict[str, Index], loop: str | None = None) -> Any:
        """`loop` is that of what is indexed: neighbours are counted in it."""
        if isinstance(selector, All):
            return selector
        if isinstance(selector, At):
            return selector.index
        index = here[selector.loop]
        if not selector.offset:
            return index
        values = loop_values(self.flow, loop or selector.loop)
        if self.flow.loops[loop or selector.loop].kind != "values":
            return index + selector.offset if index + selector.offset in values else None
        if index not in values:
            return None
        position = values.index(index) + selector.offset
        return values[position] if 0 <= position < len(values) else None

    def _elements(self, id_: str, value: Any, selectors: tuple[Selector, ...], here: dict[str, Index]) -> list[Any]:
        if not selectors:
            return [("input", id_, value)]
        selector = selectors[0]
        if isinstance(selector, Own) and selector.offset:
            index = here[selector.loop] + selector.offset
            if not 0 <= index < len(value):
                return [None]
        else:
            index = self._index(selector, here)
        chosen = range(len(value)) if isinstance(index, All) else [index]
        return [
            source
            for i in chosen
            for source in self._elements(f"{id_}{indices_text((i,))}", value[i], selectors[1:], here)
        ]

    def input_item(self, id_: str, value: Any) -> Item:
        name = id_.removeprefix("Input:").partition("[")[0]
        if name in ("Files", "Single"):
            if isinstance(value, str):
                text = self.flow.files[value]
                form = "t.txt" if self.flow.texts else "f.txt"
                return Item(id_, text_sha(text), form, NOTHING, {"file": text, "suffix": ".txt"})
            items = [self.input_item(f"{id_}[{i}]", path) for i, path in enumerate(value)]
            tokens = "\n".join(f"f{item.sha256}.txt" for item in items)
            return Item(id_, text_sha(f"whyrun/array/v1\n{tokens}"), "a", NOTHING, [i.content for i in items])
        return Item(id_, plain_sha(value), "a" if isinstance(value, list) else "v", value, value)

    # -- values --

    def _condition(self, found: Consumption, condition: Expr, here: dict[str, Index]) -> None:
        before = len(found.pending)
        try:
            value = self._value(found, condition, here)
        except Unknown:
            if not found.absent:
                found.undecided = found.maybe = True
            return
        assert len(found.pending) == before
        found.decision = bool(value)

    def _value(self, found: Consumption, term: Term, here: dict[str, Index]) -> Any:
        """The value; raises Unknown after every source has been looked at, since each of them counts."""
        resolved: dict[int, Any] = {}
        complete = True
        for expr, optional in _references(term):
            known, value = self._operand(found, expr, here, optional)
            complete = complete and known
            resolved[id(expr)] = value
        if not complete:
            raise Unknown
        return _compute(term, resolved, here)

    def _operand(self, found: Consumption, expr: Expr, here: dict[str, Index], optional: bool) -> tuple[bool, Any]:
        if is_fan_in(expr):
            members, waiting, _ = self._members(expr, here)
            found.pending.update(dict.fromkeys(waiting))
            return not waiting, [m.value for m in members]
        if isinstance(expr, First):
            item, left = self._first(found, expr, here)
            if not left and not optional:
                found.absent = True
            return item is not None or (not left and optional), ABSENT if item is None else item.value
        assert isinstance(expr, In | Out)
        (source,) = self._sources(expr, here)
        if optional and isinstance(self._look(source), _Absent):
            return True, ABSENT
        item = self._required(found, source)
        return item is not None, None if item is None else item.value


def _fits(wanted: Any, have: Indices) -> bool:
    return len(wanted) == len(have) and all(isinstance(w, All) or w == h for w, h in zip(wanted, have, strict=True))


def _references(term: Term, optional: bool = False) -> list[tuple[Any, bool]]:
    match term:
        case In() | Out() | First():
            return [(term, optional)]
        case Op(name, args):
            return [pair for a in args for pair in _references(a, optional or name == "exists")]
        case Format(parts):
            return [pair for p in parts if not isinstance(p, str) for pair in _references(p)]
        case Listed(items):
            return [pair for item in items for pair in _references(item)]
        case Keyed(items):
            return [pair for _, item in items for pair in _references(item)]
    return []


def _compute(term: Term, resolved: dict[int, Any], here: dict[str, Index]) -> Any:
    def go(t: Any) -> Any:
        match t:
            case Literal(value) | Const(value):
                return value
            case Var(loop):
                return here[loop]
            case In() | Out() | First():
                return resolved[id(t)]
            case Format(parts):
                return "".join(p if isinstance(p, str) else _shown(go(p)) for p in parts)
            case Listed(items):
                return [go(item) for item in items]
            case Keyed(items):
                return {key: go(item) for key, item in items}
            case Op("and", args):
                return next((v for a in args if not (v := go(a))), True)
            case Op("or", args):
                return next((v for a in args if (v := go(a))), False)
            case Op(name, args):
                values = [go(a) for a in args]
                functions: dict[str, Callable[[], Any]] = {
                    "not": lambda: not values[0],
                    "any": lambda: any(values[0]),
                    "all": lambda: all(values[0]),
                    "len": lambda: len(values[0]),
                    "sum": lambda: sum(values[0]),
                    "exists": lambda: values[0] is not ABSENT,
                    "==": lambda: values[0] == values[1],
                    ">": lambda: values[0] > values[1],
                }
                return functions[name]()
        raise AssertionError(t)

    return go(term)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))


def slot_kinds(job: Job) -> dict[str, bool]:
    """Slot name → is it a fan-in. A single file and a list with this one file are different things to be given."""
    found: dict[str, bool] = {"call": False}

    def add(name: str, term: Term) -> None:
        if isinstance(term, Listed) and has_reference(term):
            for i, item in enumerate(term.items):
                add(f"{name}[{i}]", item)
        elif isinstance(term, Keyed) and has_reference(term):
            for key, item in term.items:
                add(f"{name}.{key}", item)
        else:
            found[name] = is_fan_in(term)

    for name, term in job.with_:
        add(name, term)
    for name, term in job.env:
        add(f".env.{name}", term)
    return found


def may_be_inactive(flow: Flow) -> dict[str, bool]:
    """By job: has it a condition, or does an instance of it require something of a job that may be inactive?"""
    maybe = {name: job.condition is not None for name, job in flow.jobs.items()}

    def doubtful(evaluator: Evaluator, term: Any, here: dict[str, Index]) -> bool:
        if isinstance(term, First):
            sources = [s for c in term.candidates for s in evaluator._sources(c, here) if s is not None]
            return all(isinstance(s, Artifact) and maybe[s.job] for s in sources)
        return isinstance(term, Out) and not is_fan_in(term) and maybe[term.job]

    def references(term: Term) -> list[Any]:
        return [reference for reference, _ in _references(term)]

    evaluator = Evaluator(flow, lambda artifact: Waiting(True))
    changed = True
    while changed:
        changed = False
        for name, job in flow.jobs.items():
            terms = [r for _, term in (*job.with_, *job.env) for r in references(term)]
            for row in rows(flow, job):
                here = dict(zip(job.loops, row, strict=True))
                if not maybe[name] and any(doubtful(evaluator, term, here) for term in terms):
                    maybe[name] = changed = True
    return maybe


def all_sources(flow: Flow, maybe: dict[str, bool], job: Job, row: Indices) -> set[Artifact]:
    """Every artifact that an instance may come to read: its edges, conditions and candidates included."""
    seen: set[Artifact] = set()

    def look(artifact: Artifact) -> Look:
        seen.add(artifact)
        return Waiting(maybe[artifact.job])

    Evaluator(flow, look).consume(job, row)
    return seen


def given_to_step(job: Job, found: Consumption) -> dict[str, Any]:
    """What the step sees, as oracle_pure.normal has it."""

    def build(name: str, term: Term) -> Any:
        if isinstance(term, Listed) and has_reference(term):
            return [build(f"{name}[{i}]", item) for i, item in enumerate(term.items)]
        if isinstance(term, Keyed) and has_reference(term):
            return {key: build(f"{name}.{key}", item) for key, item in term.items}
        slot = found.slots[name]
        return [item.content for item in slot] if isinstance(slot, list) else slot.content

    return {name: build(name, term) for name, term in job.with_}


__all__ = [
    "ABSENT",
    "NOTHING",
    "Consumption",
    "Evaluator",
    "Item",
    "Look",
    "Own",
    "Slot",
    "Waiting",
    "all_sources",
    "given_to_step",
    "may_be_inactive",
    "plain_sha",
    "slot_kinds",
    "text_sha",
]
