"""What would run if an input were another (`--assume Input:X=changed`, `--assume Input:X=value`), and which jobs read
an input. Pure.

Assumed inputs go the same way as real ones: they are observed, passed to imports, expanded and planned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from whyrun.artifacts.hashing import value_sha256
from whyrun.errors import did_you_mean, error
from whyrun.graph.fingerprint import array_sha256
from whyrun.graph.inputs import lookup
from whyrun.graph.tables import Graph, Group, InputAt, JobTable, Known, Slot, Term, sources_of
from whyrun.graph.template import inputs_in, inputs_of_loop, uses_loops
from whyrun.ids import CanonicalId, Index, absolute, own_name, parse_id_of, without_indices
from whyrun.planning.plan import Plan
from whyrun.workflow.inputs import IndexProblem, InputValue, parse_set
from whyrun.workflow.model import JobDecl, Place, Type, Workflow
from whyrun.workflow.values import is_sheet, value_problem

CHANGED = "changed"
_LONGEST_NUMBER = 18  # characters of a text that may be a number


@dataclass(frozen=True, slots=True)
class Assumption:
    """One `--assume`: the present value of the input, and the assumed one."""

    id: str
    now: InputValue
    assumed: InputValue

    def __str__(self) -> str:
        if self.assumed.type.is_path:
            other = self.assumed.value != self.now.value
            return f"{self.id} = {self.assumed.value}" if other else f"{self.id} changed"
        return f"{self.id} = {_short(self.assumed.value)} (now {_short(self.now.value)})"


class InputSource(Protocol):
    """Observes values: `snapshot.observing.InputObserver`. Passed in, so that this module stays pure."""

    def observe(self, workflow: Workflow, given: Mapping[str, Any], prefix: str = "") -> dict[str, InputValue]:
        """All inputs by canonical ID, including those of imports, from given or observed values."""

    def value(self, id_: str, type_: Type, value: Any, place: Place) -> InputValue:
        """One observed value of this type."""

    def outside(self, value: Any) -> str | None:
        """The first path or pattern in a value that leads out of the project folder; None if there is none."""


def assume(
    workflow: Workflow, inputs: Mapping[str, InputValue], texts: Sequence[str], source: InputSource
) -> tuple[dict[str, InputValue], list[Assumption]]:
    """The inputs with these assumptions applied. Imports get the values that follow from them."""
    assumptions: list[Assumption] = []
    assumed = dict(inputs)
    seen: set[str] = set()
    touched: set[str] = set()
    for identity, text in sorted((_parse(text, inputs) for text in texts), key=lambda each: len(each[0].imports)):
        id_ = str(identity)
        if id_ in seen:
            raise error("USAGE", f"`--assume {id_}=…` is given twice", hint="assume one value for each input")
        seen.add(id_)
        now = _lookup(assumed, id_)
        name = identity.segments[0].name
        inner = _workflow_at(workflow, _names_of(identity))
        declared_at = inner.inputs[name].place
        value = _changed(id_, now) if text == CHANGED else _given(id_, now.type, text, declared_at, source)
        if inner.inputs[name].key is not None and isinstance(now.value, dict) and text == CHANGED:
            value = _named(identity.segments[0].indices[0], now, value)
        assumptions.append(Assumption(id_, now, value))
        prefix = identity.folder
        whole = f"Input:{prefix}{name}"
        first, *fields = identity.segments
        keys = [*first.indices, *(key for each in fields for key in (each.name, *each.indices))]
        assumed[whole] = _put(assumed[whole], keys, value)
        # The inputs of imports below follow from those of their parent.
        touched.add(whole)
        given = {
            key: assumed[of_key]
            for key, decl in inner.inputs.items()
            # Computed paths follow from the others, unless such an input is assumed itself.
            if (of_key := f"Input:{prefix}{key}") in assumed and (decl.path is None or of_key in touched)
        }
        assumed.update(source.observe(inner, given, prefix))
    return assumed, assumptions


def _parse(text: str, inputs: Mapping[str, InputValue]) -> tuple[CanonicalId, str]:
    id_, equals, value = text.partition("=")
    if not equals:
        raise error("USAGE", f"`--assume {text}` has no value", hint="write `--assume Input:X=changed` or `=value`")
    identity = parse_id_of("Input", id_)
    whole = str(CanonicalId("Input", identity.imports, (msgspec.structs.replace(identity.segments[0], indices=()),)))
    if whole not in inputs:
        hint = did_you_mean(whole, list(inputs)) or "assume inputs of the workflow, or elements of them"
        if len(identity.segments) > 1:
            hint = "parameters and actions follow from the workflow; assume one of its inputs, or an element of one"
        raise error("UNKNOWN_REFERENCE", f"`--assume {id_}`: the workflow has no such input", hint=hint)
    return identity, value


def _lookup(inputs: Mapping[str, InputValue], id_: str) -> InputValue:
    try:
        return lookup(inputs, id_)
    except IndexProblem as problem:
        raise error(
            problem.code, f"`--assume`: {problem}", hint=problem.hint or "elements are counted from 0"
        ) from None


def _workflow_at(workflow: Workflow, imports: Sequence[str]) -> Workflow:
    for name in imports:
        workflow = workflow.imports[name].workflow
    return workflow


def _names_of(identity: CanonicalId) -> list[str]:
    return [each.name for each in identity.imports]


def _given(id_: str, type_: Type, text: str, declared_at: Place, source: InputSource) -> InputValue:
    try:
        value = parse_set(type_, text)
        problem = value_problem(type_, value)
    except ValueError as wrong:
        problem = str(wrong)
    if problem is not None:
        raise error("INPUT_TYPE", f"`--assume {id_}`: {problem}", hint=f"`{id_}` has the type `{type_}`")
    # `--assume` reads what others may ask for, such as an agent: it must not tell the hash of any file of the machine.
    outside = source.outside(value) if type_.is_path or is_sheet(type_, value) else None
    if outside is not None:
        raise error(
            "USAGE",
            f"`--assume {id_}`: `{outside}` is outside the project folder",
            hint=f"assume `{id_}=changed`, or a path in the project; `--set` takes paths from anywhere",
        )
    return source.value(id_, type_, value, declared_at)


def _changed(id_: str, value: InputValue) -> InputValue:
    """Some other content: a hash that no file has, or a value of the same type that is not the present one."""
    if value.elements is not None:
        if not value.elements:
            raise error("USAGE", f"`--assume {id_}=changed`: the array is empty", hint=f"give a value: `{id_}=[…]`")
        changed = [_changed(each, item) for each, item in value.members(id_)]
        if value.keys is not None and value.type.base == "json":
            changed = list(map(_named, value.indices, value.elements, changed))
        return _with_elements(value, changed)
    if value.type.is_path:
        if value.path is None:
            raise error("USAGE", f"`--assume {id_}=changed`: it has no value now", hint=f"give one: `{id_}=path`")
        made_up = hashlib.sha256(f"whyrun/assumed/v1\n{value.sha256}".encode()).hexdigest()
        return InputValue(value.type, value.value, made_up, None, value.path)
    other = _other(value.value)
    return InputValue(value.type, other, value_sha256(other), None, None)


def _named(key: Index, was: InputValue, now: InputValue) -> InputValue:
    """The element with its key as it was: another key would be another element."""
    kept = {field: content for field, content in was.value.items() if str(content) == key}
    inside = {**now.value, **kept}
    return replace(now, value=inside, sha256=value_sha256(inside))


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return _other_text(value)
        case list():
            return [*value, CHANGED]
        case dict():
            return {**{field: _other(content) for field, content in value.items()}, CHANGED: True}
        case _:
            return CHANGED


def _other_text(text: str) -> str:
    """The texts of a sheet may be numbers, which expressions convert: such a text stays a number."""
    digits = text.removeprefix("-")
    whole, dot, part = digits.partition(".")
    if not whole.isascii() or not whole.isdigit() or len(digits) > _LONGEST_NUMBER:
        return f"{text} (changed)"
    if not dot:
        return str(int(text) + 1)
    return f"{text}1" if part.isascii() and part.isdigit() else f"{text} (changed)"


def _put(whole: InputValue, indices: Sequence[Index], value: InputValue) -> InputValue:
    """`indices` lead through arrays to elements, and through JSON values to fields; `lookup` has found them."""
    if not indices:
        return value
    index = indices[0]
    if whole.elements is None:
        inside = _with_part(whole.value, indices, value.value)
        return InputValue(whole.type, inside, value_sha256(inside), None, None)
    elements = list(whole.elements)
    at = whole.indices.index(index)
    elements[at] = _put(elements[at], indices[1:], value)
    return _with_elements(whole, elements)


def _with_part(whole: Any, keys: Sequence[Any], value: Any) -> Any:
    if not keys:
        return value
    inside = _with_part(whole[keys[0]], keys[1:], value)
    if isinstance(whole, dict):
        return {**whole, keys[0]: inside}
    return [*whole[: keys[0]], inside, *whole[keys[0] + 1 :]]


def _with_elements(whole: InputValue, elements: Sequence[InputValue]) -> InputValue:
    values = [item.value for item in elements]
    sha256 = array_sha256(elements) if whole.type.is_path else value_sha256(values)
    return replace(whole, value=values, sha256=sha256, elements=tuple(elements))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


# --- which jobs read an input ------------------------------------------------------------------------------------


class Reader(NamedTuple):
    """A job that reads an input. `condition_only`: only its condition does, to decide whether the job runs."""

    job: str
    condition_only: bool


def readers(graph: Graph, other: Graph) -> list[Reader]:
    """The jobs that read an input. `other` is the graph with another value assumed for it: a reader is a job whose
    slots or condition differ between the two, or that only one of them has."""
    before, after = _contents_by_job(graph), _contents_by_job(other)
    readers_ = []
    for job, (slots, condition) in before.items():
        others = after.get(job)
        if others != (slots, condition):
            readers_.append(Reader(job, others is not None and others[0] == slots))
    return readers_ + [Reader(job, False) for job in after if job not in before]


def _contents_by_job(graph: Graph) -> dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Job → the input contents that its slots read, and those that its condition reads."""
    of_groups: dict[int, Any] = {}

    def content(term: Term) -> Any:
        if not isinstance(term, Group):
            return _content(term)
        if id(term) not in of_groups:  # all readers of a fan-in share one object
            of_groups[id(term)] = _content(term)
        return of_groups[id(term)]

    contents = {}
    for table in graph.tables:
        columns = list(table.operand_columns())
        for p, id_ in enumerate(table.job_ids()):
            slots = tuple(content(column.at(p)) for slot, column in columns if slot is not None)
            contents[id_] = slots, tuple(content(column.at(p)) for slot, column in columns if slot is None)
    return contents


def _content(term: Term) -> Any:
    if isinstance(term, Known):
        return term.sha256
    sources = list(sources_of(term))
    return len(sources), [(source.id, source.value.sha256) for source in sources if isinstance(source, InputAt)]


def named_readers(graph: Graph, id_: str) -> list[Reader]:
    """All instances of the jobs that name an input in `with`, `env`, `if` or their loops."""
    folder = f"Job:{parse_id_of('Input', id_).folder}"
    ids = ((job, condition) for table, condition in naming_jobs(graph, id_) for job in table.job_ids())
    return [Reader(job, condition) for job, condition in ids if job.startswith(folder)]


def naming_jobs(graph: Graph, id_: str) -> Iterator[tuple[JobTable, bool]]:
    """The jobs that name an input in `with`, `env`, `if` or their loops; and whether only their condition does."""
    identity = parse_id_of("Input", id_)
    prefix = "".join(f"{name}/" for name in _names_of(identity))
    wanted = prefix + identity.segments[0].name
    for table in graph.tables:
        if not table.name.startswith(prefix):
            continue
        of_file, _, _ = table.name.rpartition("/")
        of_file += "/" if of_file else ""

        def names(found: set[str], of_file: str = of_file) -> bool:
            return any(absolute(of_file, name) == wanted for name in found)

        by_content = names(_inputs_of_content(graph.workflow, of_file, table.decl))
        if by_content or names(inputs_in([table.decl.condition])):
            yield table, not by_content


def _inputs_of_content(root: Workflow, prefix: str, decl: JobDecl) -> set[str]:
    """The inputs that `with`, `env` and the loops of a job name."""
    return inputs_in([*decl.with_.values(), *decl.env.values()]) | _inputs_of_loops(root, prefix, decl.loops)


def _inputs_of_loops(root: Workflow, prefix: str, loops: Sequence[str]) -> set[str]:
    """As their file names them; those of loops of imports, which begin with a `/`, from the root."""
    found: set[str] = set()
    for loop in loops:
        folder = loop[1:].rpartition("/")[0] if loop.startswith("/") else prefix.rstrip("/")
        flow = _workflow_at(root, folder.split("/") if folder else ())
        names = inputs_of_loop(flow.loops[own_name(loop)])
        found |= names if loop == own_name(loop) else {f"/{folder}/{name}" if folder else f"/{name}" for name in names}
    return found


def inputs_of_parameter(graph: Graph, table: JobTable, slot: Slot) -> set[str]:
    """The IDs of the inputs that the text of a parameter names, also through the loops that it uses."""
    prefix = table.name[: len(table.name) - len(own_name(table.name))]
    key = str(slot.path[0])
    template = (table.decl.with_ if slot.area == "with" else table.decl.env)[key]
    names = inputs_in([template])
    if uses_loops(template):
        names |= _inputs_of_loops(graph.workflow, prefix, table.decl.loops)
    wanted = {f"Input:{absolute(prefix, name)}" for name in names}
    return {id_ for id_ in graph.inputs if without_indices(id_) in wanted} if table.levels else wanted


# --- what would run ----------------------------------------------------------------------------------------------


class WouldRun(NamedTuple):
    job: str
    reason: str
    anyway: bool  # the present plan executes it, too

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"job": self.job, "reason": self.reason}
        return {**body, "anyway": True} if self.anyway else body


def would_run(now: Plan, then: Plan, graph: Graph, read_by: Iterable[str]) -> list[WouldRun]:
    """The jobs that run because an input changes: those that the present plan does not execute, and those that read the
    input or are downstream of such a job. `then` and `graph`: the plan and the graph with the change. `read_by`: the
    jobs that read the input, not counting conditions.
    """
    executed = {job.id for job in now.planned if job.reuse is None}
    reused = {job.id for job in now.planned if job.reuse is not None}
    direct = set(read_by)
    planned = {job.node: job for job in then.planned}
    other = [job.node for job in planned.values() if job.id not in (executed if job.reuse is None else reused)]
    read = [job.node for job in planned.values() if job.id in direct]
    reached = graph.downstream([*other, *read], within=planned)
    return [
        WouldRun(job.id, job.headline or "", job.id in executed)
        for node, job in planned.items()
        if node in reached and job.reuse is None
    ]
